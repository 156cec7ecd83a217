"""Categories of tasks: the paper's nine and instruction following, or a map from a file.

`PaperTasks` is the table of the released code of arXiv 2510.17776
(github.com/post-forget/post-forget at 5a5ca678): ``paper_tasks.csv`` next to this file, with task,
category, k, and 1 if the code ignores the task.

    a map, CSV               a map, YAML
    task,category            mmlu_anatomy: Science/Tech
    mmlu_anatomy,Medicine    arc_easy: Logic
    my_task,House style

`Categories.paper()` is the default, written out by ``forgetwatch probe show --categories >
mine.csv``; `Categories.read` reads the edited file, CSV or YAML. Tasks are matched by any of their
usual spellings (``mmlu:anatomy``, ``mmlu_anatomy``). A name that ends in ``*`` names all tasks with
that prefix; the longest prefix that fits is taken, and a whole name takes precedence over prefixes.
A task that the map does not name keeps its category, and is counted.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from forgetwatch.errors import ProbeError, some_of
from forgetwatch.files.reading import file_errors, read_plain_yaml, read_text
from forgetwatch.snapshot import Snapshot
from forgetwatch.visible_text import csv_cell, from_csv_cell

DEFAULT_K: Final = 4
"""k in the released code of every task outside BIG-Bench Hard."""


UNMAPPED: Final = "Missing"
"""Category in the released code of tasks that its categories do not name."""


_IGNORED_PART: Final = "global_mmlu"


_SUFFIXES: Final = ("_custom", "_reasoning_letter", "_reasoning_custom_prompt_letter")
"""In the order of the released code, which never matches the last: `_custom` has been removed by then."""


@dataclass(frozen=True)
class PaperTasks:
    """Table of the released code, by a task's name in any of the usual spellings.

    ``mmlu:anatomy``, ``mmlu_anatomy`` and ``community|mmlu:anatomy|0`` are one task; so are
    ``piqa`` and ``piqa:main``.
    """

    rows: Mapping[str, tuple[str, int, bool]]

    @classmethod
    @cache
    def released(cls) -> PaperTasks:
        """The shipped table."""
        return cls(
            {
                task_key(row["task"]): (
                    row["category"],
                    int(row["k"] or DEFAULT_K),
                    row["ignored"] == "1",
                )
                for row in _table()
            }
        )

    def category(self, task: str) -> str:
        """Category of a task; empty if the code has none."""
        return self._row(task)[0]

    def k(self, task: str) -> int:
        """Number of options of a task in the code."""
        return self._row(task)[1]

    def ignored(self, task: str) -> bool:
        """Does the code leave the task out?"""
        return _IGNORED_PART in task or self._row(task)[2]

    def _row(self, task: str) -> tuple[str, int, bool]:
        return self.rows.get(task_key(task), ("", DEFAULT_K, False))


def subjects() -> tuple[str, ...]:
    """Subjects of MMLU, in alphabetical order."""
    names = (
        name.removeprefix("mmlu_")
        for name in PaperTasks.released().rows
        if name.startswith("mmlu_")
    )
    return tuple(sorted(names))


def task_key(task: str) -> str:
    """Spell a task's name as all sources do.

    ``community|mmlu_custom:anatomy|0`` becomes ``mmlu_anatomy``.
    """
    # lighteval's names are suite|task|shots.
    parts = task.strip().split("|")
    name = parts[1] if len(parts) > 2 else parts[0]
    for suffix in _SUFFIXES:
        name = name.replace(suffix, "")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").removesuffix("_main")


def _table() -> list[dict[str, str]]:
    table = files("forgetwatch.probes").joinpath("paper_tasks.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in table.splitlines() if not line.startswith("#")))


_COLUMNS = ("task", "category")


_NEEDED: Final = "a map of tasks to categories, CSV or YAML"


_MAX_SIZE: Final = 2**26
"""Bytes of a CSV file of categories."""


def paper_category(task: str) -> str:
    """The paper's category of a task; empty if there is none.

    As the hub or lm-evaluation-harness names the task.
    """
    return Categories.paper().of(task) or ""


@dataclass(frozen=True)
class Categories:
    """A map of tasks to categories: category by task, as given, and the origin of the map, for messages."""

    names: Mapping[str, str]
    source: str = "a map"

    @classmethod
    @cache
    def paper(cls) -> Self:
        """The paper's nine categories, and instruction following."""
        return cls(
            {row["task"]: row["category"] for row in _table() if row["category"]},
            "arXiv 2510.17776",
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a map from CSV or YAML.

        CSV has the columns task and category, YAML ``task: category``.

        Raises:
            ProbeError: If the file cannot be read, or a task has two categories; the message names
                the line.
        """
        path = Path(path)
        pairs = _of_yaml(path) if path.suffix in (".yaml", ".yml") else _of_csv(path)
        names: dict[str, str] = {}
        seen: dict[tuple[str, bool], str] = {}
        with file_errors(path, _NEEDED, ProbeError):
            for position, task, category in pairs:
                # Two spellings of one task are the same entry; `a*` and `a` are two.
                earlier = seen.setdefault((_key(task), task.endswith("*")), category)
                if earlier != category:
                    raise ProbeError(
                        f"{path}, {position}: {task!r} has the category {earlier!r} already; "
                        "leave one out"
                    )
                names[task] = category
        if not names:
            raise ProbeError(f"{path}: needed lines of task,category, and there are none")
        return cls(names, str(path))

    def of(self, task: str) -> str | None:
        """Category of a task.

        Returns:
            The category, or None if the map does not name the task.
        """
        key = _key(task)
        if key in self._whole:
            return self._whole[key]
        fits = [prefix for prefix in self._prefixes if key.startswith(prefix)]
        return self._prefixes[max(fits, key=len)] if fits else None

    @cached_property
    def _whole(self) -> dict[str, str]:
        return {
            _key(name): category for name, category in self.names.items() if not name.endswith("*")
        }

    @cached_property
    def _prefixes(self) -> dict[str, str]:
        return {
            _key(name[:-1]): category for name, category in self.names.items() if name.endswith("*")
        }

    def to_csv(self) -> str:
        """The map as CSV, a task a line, for `read`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([_COLUMNS, *(map(csv_cell, names) for names in self.names.items())])
        return out.getvalue()

    def relabel(self, *snapshots: Snapshot) -> tuple[tuple[Snapshot, ...], tuple[str, ...]]:
        """Replace the categories of snapshots by the map's.

        A note counts the tasks that the map does not name, which keep their category; another the
        names of the map that match no task.

        Returns:
            The snapshots, and notes.
        """
        tasks = {task for snapshot in snapshots for task in snapshot.texts("task") if task}
        categories = {task: self.of(task) for task in tasks}
        unmapped = sorted(task for task, category in categories.items() if category is None)
        notes = []
        if unmapped:
            notes.append(
                f"categories: {len(unmapped):,} of {len(tasks):,} tasks are not in "
                f"{self.source} and keep theirs ({some_of(unmapped, 3)})"
            )
        keys = {_key(task) for task in tasks}
        unused = [
            name
            for name in self.names
            if not (
                any(key.startswith(_key(name[:-1])) for key in keys)
                if name.endswith("*")
                else _key(name) in keys
            )
        ]
        if unused:
            names = "1 name" if len(unused) == 1 else f"{len(unused):,} names"
            notes.append(f"categories: no task for {names} in {self.source} ({some_of(unused, 3)})")
        relabelled = []
        for snapshot in snapshots:
            labels = zip(snapshot.texts("task"), snapshot.texts("category"), strict=True)
            new = [
                kept if (category := categories.get(task)) is None else category
                for task, kept in labels
            ]
            column = snapshot.table.column_names.index("category")
            table = snapshot.table.set_column(column, "category", pa.array(new, pa.string()))
            relabelled.append(replace(snapshot, table=table))
        return tuple(relabelled), tuple(notes)


def _key(task: str) -> str:
    # The hub spells it "causal_judgement", the paper's code without the e.
    return task_key(task).replace("judgement", "judgment")


def _of_csv(path: Path) -> Iterable[tuple[str, str, str]]:
    table = read_text(path, _NEEDED, ProbeError, limit=_MAX_SIZE)
    rows = csv.DictReader(io.StringIO(table, newline=""))
    if missing := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
        raise ProbeError(
            f"{path}: needed the columns task and category in its first line, {missing[0]} is "
            f"not there; it has {', '.join(map(repr, rows.fieldnames or ())) or 'nothing'}"
        )
    for row in rows:
        if None in row or not (row["task"] or "").strip() or row["category"] is None:
            raise ProbeError(
                f"{path}, line {rows.line_num}: needed task,category, got {list(row.values())}"
            )
        yield (
            f"line {rows.line_num}",
            from_csv_cell(row["task"].strip()),
            from_csv_cell(row["category"].strip()),
        )


def _of_yaml(path: Path) -> Iterable[tuple[str, str, str]]:
    mapping = read_plain_yaml(path, _NEEDED, ProbeError)
    if not isinstance(mapping, dict):
        got = "a list" if isinstance(mapping, list) else "text"
        raise ProbeError(f"{path}: needed lines of 'task: category', got {got}")
    for task, category in mapping.items():
        if not isinstance(category, str):
            raise ProbeError(
                f"{path}: needed text on both sides, got {task!r:.40}: {category!r:.40}"
            )
        yield f"task {task!r}", task.strip(), category.strip()
