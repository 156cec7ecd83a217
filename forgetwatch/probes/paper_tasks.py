"""The tasks and categories of arXiv 2510.17776, and what its released code takes for them.

The table stands in ``paper_tasks.csv`` beside this file: task, category, the k of the released code, whether it ignores
the task. Facts from github.com/post-forget/post-forget at 5a5ca678.
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
"""What the released code takes for every task outside BIG-Bench Hard."""

UNMAPPED: Final = "Missing"
"""The released code's category of tasks that its categories do not name."""

_IGNORED_PART: Final = "global_mmlu"
_SUFFIXES: Final = ("_custom", "_reasoning_letter", "_reasoning_custom_prompt_letter")
"""In the order of the released code, which never finds the last: `_custom` is gone by then."""


@dataclass(frozen=True)
class PaperTasks:
    """What the released code takes for a task, by its name in any of the usual spellings.

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
        """The task's category; empty where the code has none."""
        return self.rows.get(task_key(task), ("", DEFAULT_K, False))[0]

    def k(self, task: str) -> int:
        """The number of options that the code takes for it."""
        return self.rows.get(task_key(task), ("", DEFAULT_K, False))[1]

    def ignored(self, task: str) -> bool:
        """Whether the code leaves it out."""
        return _IGNORED_PART in task or self.rows.get(task_key(task), ("", DEFAULT_K, False))[2]


def named_categories() -> dict[str, str]:
    """The category of every task that has one, by the name that the table gives the task."""
    return {row["task"]: row["category"] for row in _table() if row["category"]}


def subjects() -> tuple[str, ...]:
    """The subjects of MMLU, in the order of their names."""
    names = (name.removeprefix("mmlu_") for name in PaperTasks.released().rows if name.startswith("mmlu_"))
    return tuple(sorted(names))


def task_key(task: str) -> str:
    """One spelling for all: ``community|mmlu_custom:anatomy|0`` becomes ``mmlu_anatomy``."""
    parts = task.strip().split("|")
    name = parts[1] if len(parts) > 2 else parts[0]
    for suffix in _SUFFIXES:
        name = name.replace(suffix, "")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").removesuffix("_main")


def _table() -> list[dict[str, str]]:
    text = files("forgetwatch.probes").joinpath("paper_tasks.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
