"""A probe for each task of a sequence of trainings, as one probe.

    {"base": "standard", "task1": "a.csv"}    by name; the questions of `base` keep their tasks and categories
    TRACE/                                    a folder: FOMC/test.json, ScienceQA/test.json, ... one task a folder

The category and the task of a question are the name of its probe, but for `base`, so that a matrix
of stages has a row for each. The layout of the folder is that of TRACE (arXiv 2310.06762): rows of
``prompt`` and ``answer`` in ``test.json``, else ``eval.json``. Tasks whose answers cannot be
graded, such as summaries, are left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe, combine

BASE: Final = "base"
"""Name of the probe whose questions keep their tasks and categories."""


_SPLITS: Final = ("test", "eval")


_TASK_FILES: Final = (".json", ".jsonl", ".csv", ".parquet")


def combine_tasks(
    probes: Mapping[str, Any] | str | Path, load: Callable[[Any], Probe]
) -> tuple[Probe, list[str]]:
    """Combine a probe for each task.

    Args:
        probes: Probes by the name of their task, each a probe or what `load` takes, or the folder
            of a benchmark.
        load: Loads a probe by its name, or from a file.

    Returns:
        (The probe, sentences on tasks that were left out).

    Raises:
        ProbeError: If a named probe cannot be loaded, two cannot be evaluated together, or no task
            is left.
    """
    notes = list[str]()
    if isinstance(probes, Mapping):
        loaded = {
            str(name): probe_given if isinstance(probe_given, Probe) else load(probe_given)
            for name, probe_given in probes.items()
        }
    elif not isinstance(probes, (str, Path)):
        raise ProbeError(
            "probe: needed probes by the name of their task, or a folder, got a "
            f"{type(probes).__name__}"
        )
    else:
        loaded = {}
        for name, path in _files(Path(probes)).items():
            try:
                loaded[name] = load(path)
            except ProbeError as error:
                notes.append(f"{name} is not watched: {error}")
    if not loaded:
        needed = (
            "a probe for each task"
            if isinstance(probes, Mapping)
            else "folders of tasks, each with a test.json"
        )
        raise ProbeError(
            f"probe={str(probes)!r}: needed {needed}, got none that can be read{_first(notes)}"
        )
    probes_named = [
        probe if name == BASE else _of_task(probe, name) for name, probe in loaded.items()
    ]
    try:
        combined = reduce(combine, probes_named)
    except ProbeError as error:
        raise ProbeError(f"probe: {error}") from error
    return replace(combined, name="+".join(loaded)), notes


def _of_task(probe: Probe, name: str) -> Probe:
    number = {item.id for item in probe}
    is_unique = len(number) == len(probe)
    items = [
        replace(
            item,
            task=name,
            category=name,
            id=item.id if is_unique or not item.task else f"{item.task}/{item.id}",
        )
        for item in probe
    ]
    return probe.with_items(items)


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise ProbeError(
            f"probe={str(folder)!r}: needed the folder of a benchmark, with a folder for each task"
        )
    paths = {}
    for task in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = (task / f"{split}{suffix}" for split in _SPLITS for suffix in _TASK_FILES)
        if (path := next((file for file in files if file.is_file()), None)) is not None:
            paths[task.name] = path
    return paths


def _first(notes: list[str]) -> str:
    return f"; {notes[0]}" if notes else ""
