"""Logs of lm-evaluation-harness (0.4 and later, written with ``--log_samples``) to a Snapshot.

    samples_<task>_<date>.jsonl       one task; the results next to it, if there are any, describe the run
    results with `samples` in them    what ``simple_evaluate(..., log_samples=True)`` returns, as JSON
    one JSON array                    the rows of one task
    an output folder                  the latest samples of each task

An output folder collects runs; of each task the file with the latest date in its name counts:

    out/org__model/results_2026-01-03T10-00-00.000001.json         the run: model, seeds, versions, settings
    out/org__model/samples_arc_easy_2026-01-03T10-00-00.000001.jsonl
    out/org__model/samples_arc_easy_2026-01-02T09-00-00.000001.jsonl     an older run: ignored

`correct` is a metric of the harness, and no answer is graded again. The rows are read by `lm_eval_samples`; the choice,
its margin and gold's share follow from the log-likelihoods (`option_scores`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.files import read_head
from forgetwatch.readers.json_pieces import Document, begins_json, first_object, json_lines
from forgetwatch.readers.lm_eval_samples import Task, is_sample, norm_of
from forgetwatch.readers.log import Log, Reading
from forgetwatch.readers.option_scores import LogLikelihoods, norms_in_metadata
from forgetwatch.snapshot import Snapshot

TOOL = "lm-evaluation-harness"


def recognises(path: Path) -> bool:
    """True if a file has rows or results of the harness, or a folder has files of samples."""
    if path.is_dir():
        return bool(latest_samples(path))
    if not begins_json(read_head(path)):
        return False
    names = first_object(path)[1]
    return is_sample(names) or names.get("samples") == "{" or {"results", "configs"} <= set(names)


def read(path: Path, reading: Reading) -> Snapshot:
    """The outcomes in a file of samples, in results that hold their samples, or in an output folder.

    Raises:
        SnapshotError: If a row is not what the harness writes, there are no samples, or a folder has those of several
            models.
    """
    if path.is_dir():
        return _read(latest_samples(path), path, reading)
    names = first_object(path)[1]
    if is_sample(names):
        return _read({task_and_date(path)[0]: path}, path, reading)
    if names.get("samples") == "{":
        return _read_results(path, reading)
    raise SnapshotError(
        f"{path}: totals of lm-evaluation-harness without its samples; write them with --log_samples, and give "
        "samples_*.jsonl or the output folder"
    )


def _read_results(path: Path, reading: Reading) -> Snapshot:
    rows = _Rows(path, reading)
    parts: dict[str, Any] = {}
    with Document(path, reading.progress) as document:
        for name in document.members():
            if name != "samples":
                value = document.value()
                if name in PARTS:
                    parts[name] = value
                continue
            for task in document.members():
                rows.task(task, Run(parts)).read(_numbered(document), f"samples of {task}, row")
        document.end()
    # `configs` may follow `samples`, so the runs are described after everything is read.
    return rows.snapshot({task: Run(parts) for task in rows.log.tasks})


def _read(files: Mapping[str, Path], path: Path, reading: Reading) -> Snapshot:
    rows, runs = _Rows(path, reading), {}
    total, before = sum(file.stat().st_size for file in files.values()), 0
    for task, file in files.items():
        runs[task], notes = run_beside(file)
        rows.notes += notes
        reader = rows.task(task, runs[task])
        progress = _shifted(reading, before, total).progress
        with Document(file) as document:
            is_array = document.peek() == "["
        if is_array:
            with Document(file, progress) as document:
                reader.read(_numbered(document), "row")
                document.end()
        else:
            reader.read(json_lines(file, progress), "line")
        before += file.stat().st_size
    return rows.snapshot(runs)


class _Rows:
    """Answers and log-likelihoods of one snapshot."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.log, self.options = Log(path, TOOL, reading.questions), LogLikelihoods()
        self.notes: tuple[str, ...] = ()
        self._metric = reading.metric

    def task(self, name: str, run: Run) -> Task:
        """A reader of one more task's rows."""
        return Task(self.log, self.options, name, run.config(name))

    def snapshot(self, runs: Mapping[str, Run]) -> Snapshot:
        """All rows as a snapshot.

        Args:
            runs: The run of each task.
        """
        log = self.log
        if not len(log):
            raise SnapshotError(f"{log.path}: the log has no answers")
        metric = log.metric(self._metric)
        right, used = log.correctness(metric)
        norms = {task: norm_of(used.get(task, metric)) for task in log.tasks}
        columns, notes = self.options.columns(right=right, tasks=log.task_codes, norms=list(norms.values()))
        meta: dict[str, Any] = {}
        for task, run in runs.items():
            meta = _merge(meta, run.describe([task]))
        # A task of generated answers has no norm; with it a log of one norm would count as one of two.
        with_options = set(log.task_codes[self.options.rows].tolist())
        meta |= norms_in_metadata({task: norms[task] for task, code in log.tasks.items() if code in with_options})
        return log.snapshot(
            metric, meta, (*self.notes, *_several_models(runs), *_short_tasks(log, runs), *notes), columns
        )


def _merge(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The metadata of two tasks' runs as one; if they differ, the second's value counts."""
    return {
        name: {**first[name], **second[name]}
        if isinstance(first.get(name), dict) and isinstance(second.get(name), dict)
        else second.get(name, first.get(name))
        for name in first | second
    }


def _several_models(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """A note that names the models of the runs, if there are several."""
    models = sorted({run.model for run in runs.values() if run.model is not None})
    return (f"its tasks come from runs of several models: {', '.join(models)}",) if len(models) > 1 else ()


def _short_tasks(log: Log, runs: Mapping[str, Run]) -> tuple[str, ...]:
    """A note for each task of which the log has fewer items than its run counts."""
    held = log.items()
    counted = [(task, held[task], run.items(task)) for task, run in runs.items() if task in held]
    return tuple(
        f"{task}: the log holds {found:,} of the {items:,} items that the run's results count"
        for task, found, items in counted
        if items is not None and found < items
    )


def _numbered(document: Document) -> Iterator[tuple[int, Any]]:
    """(number, value) of each element of the array that begins here, from 1."""
    for number, _ in enumerate(document.elements(), start=1):
        yield number, document.value()


def _shifted(reading: Reading, before: int, total: int) -> Reading:
    """The reading with the progress of one file reported as that of all files."""
    if reading.progress is None:
        return reading
    return replace(reading, progress=lambda done, _: reading.report(before + done, total))


# Task names contain underscores and dates do not, so the greedy group ends where the date begins.
_NAME: Final = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?")
# Anchored at a comma or the beginning: `tokenizer_path=` is not `path=`.
_MODEL: Final = re.compile(r"(?:^|,)(peft|delta|pretrained|model|path)=([^,]+)")
# An adapter or delta identifies the model; `pretrained` next to it is only its base.
_MODEL_ORDER: Final = ("peft", "delta", "pretrained", "model", "path")
_SEEDS: Final = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_COPIED: Final = {
    "git_hash": "harness_git_hash",
    "lm_eval_version": "harness_version",
    "transformers_version": "transformers_version",
    "date": "date",
    "chat_template_sha": "chat_template_sha",
    "system_instruction_sha": "system_instruction_sha",
    "fewshot_as_multiturn": "fewshot_as_multiturn",
    "max_length": "max_length",
}
PARTS: Final = frozenset((*_COPIED, "config", "configs", "versions", "n-shot", "n-samples", "model_name"))
"""Members of a run's results that are read. The machine, the chat template and the totals are not needed."""


@dataclass
class Run:
    """Description of one run, from its results; empty if there are none.

    Attributes:
        parts: The members of the results that are read, by name.
    """

    parts: Mapping[str, Any] = field(default_factory=dict)

    def of_task(self, part: str, task: str) -> Any:
        """Entry of one task in a part; None if there is none."""
        by_task = self.parts.get(part)
        return by_task.get(task) if isinstance(by_task, dict) else None

    def config(self, task: str) -> Mapping[str, Any]:
        """Configuration of a task; empty if it is not known."""
        found = self.of_task("configs", task)
        return found if isinstance(found, dict) else {}

    def items(self, task: str) -> int | None:
        """Number of documents of a task that the run counts; None if it is not known."""
        counted = self.of_task("n-samples", task)
        found = counted.get("effective") if isinstance(counted, dict) else None
        return found if isinstance(found, int) else None

    @property
    def model(self) -> str | None:
        """Name or path of the model; None if the run does not name it."""
        named, config = self.parts.get("model_name"), self.parts.get("config")
        if isinstance(named, str) and named:
            return named
        arguments = config.get("model_args") if isinstance(config, dict) else None
        if isinstance(arguments, dict):
            return next((str(arguments[name]) for name in _MODEL_ORDER if arguments.get(name)), None)
        found = dict(_MODEL.findall(arguments)) if isinstance(arguments, str) else {}
        return next((found[name] for name in _MODEL_ORDER if name in found), None)

    def describe(self, tasks: Iterable[str]) -> dict[str, Any]:
        """Metadata of a snapshot, without values that are not known.

        Args:
            tasks: Tasks whose versions and number of examples are included.
        """
        config = self.parts.get("config")
        config = config if isinstance(config, dict) else {}
        found = {
            "model": self.model,
            "model_args": _plain(config.get("model_args")),
            "revision": _plain(config.get("model_sha")) or _plain(config.get("model_revision")),
            "dtype": _plain(config.get("model_dtype")),
            "limit": _plain(config.get("limit")),
            "seeds": {name: config[name] for name in _SEEDS if isinstance(config.get(name), int)},
            **{ours: _plain(self.parts.get(theirs)) for theirs, ours in _COPIED.items()},
        }
        for part, ours in (("versions", "task_versions"), ("n-shot", "num_fewshot")):
            found[ours] = {task: value for task in tasks if (value := _plain(self.of_task(part, task))) is not None}
        return {name: value for name, value in found.items() if value not in (None, "", {})}


def task_and_date(path: Path) -> tuple[str, str]:
    """Task and date in a file's name; both empty for another name, so that renamed files pair."""
    found = _NAME.fullmatch(path.name)
    return (found[1], found[2]) if found else ("", "")


def run_beside(path: Path) -> tuple[Run, tuple[str, ...]]:
    """The run that the results next to a file of samples describe, and a note if they cannot be read."""
    date = task_and_date(path)[1]
    beside = (
        sorted(file for file in path.parent.glob("*_*.json") if file.name.endswith(f"_{date}.json")) if date else []
    )
    # Files of samples may end in .json as well.
    beside = [file for file in beside if not _NAME.fullmatch(file.name)]
    if not beside:  # the harness names the folder of a model "org__model"
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
    # In the order of their dates, so that a later file replaces an earlier one of the same task.
    latest: dict[str, Path] = {}
    for path in sorted(found, key=lambda file: task_and_date(file)[1]):
        latest[task_and_date(path)[0]] = path
    return dict(sorted(latest.items()))


def _plain(value: Any) -> Any:
    """The value, text cut to 500 characters; None if it is neither text nor a number that JSON can hold."""
    if isinstance(value, str):
        return value[:500]
    return value if isinstance(value, (bool, int, float)) and abs(value) < 2**63 else None
