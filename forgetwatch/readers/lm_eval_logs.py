"""Logs of lm-evaluation-harness (0.4 and later, written with ``--log_samples``) to a Snapshot.

    samples_<task>_<date>.jsonl       one task; the results beside it, where they are, describe the run
    results with `samples` in them    what ``simple_evaluate(..., log_samples=True)`` returns, as JSON
    one JSON array                    the rows of one task
    an output folder                  the latest samples of each task

`correct` is what the harness judged, by the metric asked for; nothing is judged again. What the log-likelihoods of the
options say besides (the choice, its margin, gold's share) stands in `log_likelihoods.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetwatch.errors import SnapshotError
from forgetwatch.readers.asked import Kept
from forgetwatch.readers.json_pieces import Document, Progress, json_lines
from forgetwatch.readers.lm_eval_runs import PARTS, Run, latest_samples, run_beside, task_of
from forgetwatch.readers.lm_eval_samples import Task, norm_of
from forgetwatch.readers.log import Log
from forgetwatch.readers.log_likelihoods import LogLikelihoods
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
        with_options = np.unique(log.task_codes[self.options.rows]).tolist()
        if len(deciding := {list(norms.values())[code] for code in with_options}) == 1:
            meta["probe"] = {"norm": deciding.pop()}
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
