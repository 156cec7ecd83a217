"""Files and folders of lm-evaluation-harness: which belong together, and what the run's results say about it.

    out/org__model/results_2026-01-03T10-00-00.000001.json         the run: model, seeds, versions, settings
    out/org__model/samples_arc_easy_2026-01-03T10-00-00.000001.jsonl
    out/org__model/samples_arc_easy_2026-01-02T09-00-00.000001.jsonl     an older run: left alone

A folder gathers runs. Of each task the latest by the date in the name counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError

_NAME: Final = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?")
_MODEL: Final = re.compile(r"(?:^|,)(peft|delta|pretrained|model|path)=([^,]+)")
_MODEL_ORDER: Final = ("peft", "delta", "pretrained", "model", "path")
_SEEDS: Final = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_KEPT: Final = {
    "git_hash": "harness_git_hash",
    "lm_eval_version": "harness_version",
    "transformers_version": "transformers_version",
    "date": "date",
    "chat_template_sha": "chat_template_sha",
    "system_instruction_sha": "system_instruction_sha",
    "fewshot_as_multiturn": "fewshot_as_multiturn",
    "max_length": "max_length",
}
PARTS: Final = frozenset((*_KEPT, "config", "configs", "versions", "n-shot", "n-samples", "model_name"))
"""What is read of a run's results; the rest (the machine, the chat template, the totals) is not."""


@dataclass
class Run:
    """What the results of one run say; empty where there are none.

    Attributes:
        parts: The members of the results that are read.
    """

    parts: Mapping[str, Any] = field(default_factory=dict)

    def of_task(self, part: str, task: str) -> Any:
        """What a part says about one task; None where it does not."""
        whole = self.parts.get(part)
        return whole.get(task) if isinstance(whole, dict) else None

    def config(self, task: str) -> Mapping[str, Any]:
        """The task's configuration; empty where it is not known."""
        found = self.of_task("configs", task)
        return found if isinstance(found, dict) else {}

    def items(self, task: str) -> int | None:
        """The number of documents that the run counts."""
        counted = self.of_task("n-samples", task)
        found = counted.get("effective") if isinstance(counted, dict) else None
        return found if isinstance(found, int) else None

    @property
    def model(self) -> str | None:
        """The model's name or path, as far as the run names it."""
        named, config = self.parts.get("model_name"), self.parts.get("config")
        if isinstance(named, str) and named:
            return named
        arguments = config.get("model_args") if isinstance(config, dict) else None
        if isinstance(arguments, dict):
            return next((str(arguments[name]) for name in _MODEL_ORDER if arguments.get(name)), None)
        found = dict(_MODEL.findall(arguments)) if isinstance(arguments, str) else {}
        return next((found[name] for name in _MODEL_ORDER if name in found), None)

    def describe(self, tasks: Iterable[str]) -> dict[str, Any]:
        """What a snapshot keeps of the run."""
        config = self.parts.get("config")
        config = config if isinstance(config, dict) else {}
        found = {
            "model": self.model,
            "model_args": _plain(config.get("model_args")),
            "revision": _plain(config.get("model_sha")) or _plain(config.get("model_revision")),
            "dtype": _plain(config.get("model_dtype")),
            "limit": _plain(config.get("limit")),
            "seeds": {name: config[name] for name in _SEEDS if isinstance(config.get(name), int)},
            **{ours: _plain(self.parts.get(theirs)) for theirs, ours in _KEPT.items()},
        }
        for part, ours in (("versions", "task_versions"), ("n-shot", "num_fewshot")):
            found[ours] = {task: value for task in tasks if (value := _plain(self.of_task(part, task))) is not None}
        return {name: value for name, value in found.items() if value not in (None, "", {})}


def task_of(path: Path) -> tuple[str, str]:
    """The task and the date in a file's name; empty where it has another name, so that renamed files pair."""
    found = _NAME.fullmatch(path.name)
    return (found[1], found[2]) if found else ("", "")


def run_beside(path: Path) -> tuple[Run, tuple[str, ...]]:
    """What the results beside a file of samples say, and a note where they cannot be read."""
    date = task_of(path)[1]
    beside = sorted(one for one in path.parent.glob("*_*.json") if one.name.endswith(f"_{date}.json")) if date else []
    beside = [one for one in beside if not _NAME.fullmatch(one.name)]
    if not beside:
        folder = path.parent.name
        return Run({"model_name": folder.replace("__", "/")} if "__" in folder else {}), ()
    try:
        results = json.loads(beside[0].read_bytes().decode("utf-8"))
        if not isinstance(results, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        return Run(), (f"{beside[0].name} cannot be read, so nothing is known of the run ({error})",)
    return Run({name: value for name, value in results.items() if name in PARTS}), ()


def latest_samples(folder: Path) -> dict[str, Path]:
    """The latest file of samples of each task in an output folder, or in the one folder of a model within it.

    Raises:
        SnapshotError: If several folders hold samples.
    """
    found = sorted(path for path in folder.rglob("samples_*") if _NAME.fullmatch(path.name) and path.is_file())
    homes = sorted({path.parent for path in found})
    if len(homes) > 1:
        listed = ", ".join(str(home.relative_to(folder)) for home in homes[:5])
        more = f" and {len(homes) - 5} more" if len(homes) > 5 else ""
        raise SnapshotError(
            f"{folder}: needed the results of one model, got {len(homes)} folders with samples: {listed}{more}; give "
            "one of them"
        )
    latest: dict[str, Path] = {}
    for path in sorted(found, key=lambda one: task_of(one)[1]):
        latest[task_of(path)[0]] = path
    return dict(sorted(latest.items()))


def _plain(value: Any) -> Any:
    """The value if it is short enough to keep."""
    if isinstance(value, str):
        return value[:500]
    return value if isinstance(value, (bool, int, float)) and abs(value) < 2**63 else None
