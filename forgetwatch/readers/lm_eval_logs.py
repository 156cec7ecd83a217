"""Logs of lm-evaluation-harness (0.4 and later, written with ``--log_samples``) to a Snapshot.

    samples_<task>_<date>.jsonl       one task; the results beside it, where they are, describe the run
    results with `samples` in them    what ``simple_evaluate(..., log_samples=True)`` returns, as JSON
    one JSON array                    the rows of one task
    an output folder                  the latest samples of each task

`correct` is what the harness judged, by the metric asked for; nothing is judged again. What the log-likelihoods of the
options say besides (the choice, its margin, gold's share) stands in `log_likelihoods.py`.

Files and folders of lm-evaluation-harness: which belong together, and what the run's results say about it.

    out/org__model/results_2026-01-03T10-00-00.000001.json         the run: model, seeds, versions, settings
    out/org__model/samples_arc_easy_2026-01-03T10-00-00.000001.jsonl
    out/org__model/samples_arc_easy_2026-01-02T09-00-00.000001.jsonl     an older run: left alone

A folder gathers runs. Of each task the latest by the date in the name counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.readers.json_pieces import Document, Progress, json_lines
from forgetwatch.readers.lm_eval_samples import Task, norm_of
from forgetwatch.readers.log import Log
from forgetwatch.readers.option_scores import LogLikelihoods, norms_in_metadata
from forgetwatch.readers.question_text import Kept
from forgetwatch.snapshot import Snapshot

TOOL = "lm-evaluation-harness"


def read_samples(path: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    """The outcomes in a file of samples: one row a line, or one array of rows."""
    return _read({task_of(path)[0]: path}, path, metric, progress, kept)


def read_folder(folder: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot | None:
    """The outcomes in an output folder; None where it holds no samples.

    Raises:
        SnapshotError: If it holds those of several models.
    """
    files = latest_samples(folder)
    return _read(files, folder, metric, progress, kept) if files else None


def read_results(path: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    """The outcomes in results that hold their samples."""
    gathered = _Gathered(path, kept)
    parts: dict[str, Any] = {}
    with Document(path, progress) as document:
        for name in document.members():
            if name != "samples":
                value = document.value()
                if name in PARTS:
                    parts[name] = value
                continue
            for task in document.members():
                gathered.task(task, Run(parts)).read(_numbered(document), f"samples of {task}, row")
        document.end()
    return gathered.snapshot(metric, {task: Run(parts) for task in gathered.log.tasks})


def _read(
    files: Mapping[str, Path], path: Path, metric: str | None, progress: Progress | None, kept: Kept | None
) -> Snapshot:
    gathered, runs = _Gathered(path, kept), {}
    total, before = sum(one.stat().st_size for one in files.values()), 0
    for task, file in files.items():
        runs[task], notes = run_beside(file)
        gathered.notes += notes
        told = None if progress is None else _shifted(progress, before, total)
        reader = gathered.task(task, runs[task])
        with Document(file) as document:
            is_array = document.peek() == "["
        if is_array:
            with Document(file, told) as document:
                reader.read(_numbered(document), "row")
                document.end()
        else:
            reader.read(json_lines(file, told), "line")
        before += file.stat().st_size
    return gathered.snapshot(metric, runs)


class _Gathered:
    """Answers and log-likelihoods of one snapshot."""

    def __init__(self, path: Path, kept: Kept | None) -> None:
        self.log, self.options = Log(path, TOOL, kept), LogLikelihoods()
        self.notes: tuple[str, ...] = ()

    def task(self, name: str, run: Run) -> Task:
        """A reader of one more task."""
        return Task(self.log, self.options, name, run.config(name))

    def snapshot(self, wanted: str | None, runs: Mapping[str, Run]) -> Snapshot:
        """Everything that was read."""
        log = self.log
        if not len(log):
            raise SnapshotError(f"{log.path}: the log has no answers")
        metric = log.metric(wanted)
        right, used = log.judged(metric)
        norms = {task: norm_of(used.get(task, metric)) for task in log.tasks}
        columns, notes = self.options.columns(right=right, tasks=log.task_codes, norms=list(norms.values()))
        meta: dict[str, Any] = {}
        for task, run in runs.items():
            meta = _merged(meta, run.describe([task]))
        with_options = set(log.task_codes[self.options.rows].tolist())
        meta |= norms_in_metadata({task: norms[task] for task, code in log.tasks.items() if code in with_options})
        return log.snapshot(metric, meta, (*self.notes, *_several(runs), *_fewer(log, runs), *notes), columns)


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What two tasks of one model say of their runs; the second is kept where they differ."""
    return {
        name: {**one[name], **other[name]}
        if isinstance(one.get(name), dict) and isinstance(other.get(name), dict)
        else other.get(name, one.get(name))
        for name in one | other
    }


def _several(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """The models of the runs, where they are not the same."""
    models = sorted({run.model for run in runs.values() if run.model is not None})
    return (f"its tasks come from runs of several models: {', '.join(models)}",) if len(models) > 1 else ()


def _fewer(log: Log, runs: Mapping[str, Run]) -> tuple[str, ...]:
    """Tasks of which the run asked more than the log holds."""
    counts = log.items()
    short = [(task, counts[task], run.items(task)) for task, run in runs.items() if task in counts]
    return tuple(
        f"{task}: the log holds {found:,} of the {asked:,} items that the run's results count"
        for task, found, asked in short
        if asked is not None and found < asked
    )


def _numbered(document: Document) -> Iterator[tuple[int, Any]]:
    for number, _ in enumerate(document.elements(), start=1):
        yield number, document.value()


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)


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
