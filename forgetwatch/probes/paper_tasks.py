"""The tasks of arXiv 2510.17776, with the category and k that its released code gives them.

The table is ``paper_tasks.csv`` next to this file: task, category, k in the released code, 1 if the code ignores the
task. Source: github.com/post-forget/post-forget at 5a5ca678.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

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

    ``mmlu:anatomy``, ``mmlu_anatomy`` and ``community|mmlu:anatomy|0`` are one task; so are ``piqa`` and ``piqa:main``.
    """

    rows: Mapping[str, tuple[str, int, bool]]

    @classmethod
    @cache
    def released(cls) -> PaperTasks:
        """The shipped table."""
        rows = {}
        for row in _table():
            of_task = (row["category"], int(row["k"] or DEFAULT_K), row["ignored"] == "1")
            rows[task_key(row["task"])] = of_task
        return cls(rows)

    def category(self, task: str) -> str:
        """The task's category; empty if the code has none."""
        return self.rows.get(task_key(task), ("", DEFAULT_K, False))[0]

    def k(self, task: str) -> int:
        """The task's number of options in the code."""
        return self.rows.get(task_key(task), ("", DEFAULT_K, False))[1]

    def ignored(self, task: str) -> bool:
        """True if the code leaves the task out."""
        return _IGNORED_PART in task or self.rows.get(task_key(task), ("", DEFAULT_K, False))[2]


def named_categories() -> dict[str, str]:
    """Category by task, as the table spells it, of every task that has one."""
    return {row["task"]: row["category"] for row in _table() if row["category"]}


def subjects() -> tuple[str, ...]:
    """Subjects of MMLU, in alphabetical order."""
    names = (name.removeprefix("mmlu_") for name in PaperTasks.released().rows if name.startswith("mmlu_"))
    return tuple(sorted(names))


def task_key(task: str) -> str:
    """One spelling of a task's name for all: ``community|mmlu_custom:anatomy|0`` becomes ``mmlu_anatomy``."""
    # lighteval's names are suite|task|shots.
    parts = task.strip().split("|")
    name = parts[1] if len(parts) > 2 else parts[0]
    for suffix in _SUFFIXES:
        name = name.replace(suffix, "")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").removesuffix("_main")


def _table() -> list[dict[str, str]]:
    text = files("forgetwatch.probes").joinpath("paper_tasks.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
