"""The files that a training writes at its steps, as the looks of a run: which belong together, and the step of each.

    verl          40.jsonl                                  NeMo RL    val_data_step40.jsonl
    SkyRL         global_step_40_evals/SET.jsonl            TRL        completions_00040.parquet
    checkpoints   results/checkpoint-40/ of an evaluation   others     a number after step, iter, epoch, ...
    one file      rows of many steps, with a column of it   others     a form of the names, ``run_{N}/x.csv``

The first step is the baseline. Files of one step are its sets. A step that is there twice counts as
the file that was written last: a training that was started again writes its steps again. What cannot
be read, such as a file that is still being written, is left out and named.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow as pa

from forgetwatch.errors import SnapshotError, some_of
from forgetwatch.files.json_pieces import Progress
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule
from forgetwatch.readers import tools
from forgetwatch.readers.log import Reading
from forgetwatch.readers.outcomes import MODEL_FILES, SUFFIXES, load_snapshot
from forgetwatch.snapshot import SAMPLED, Snapshot
from forgetwatch.text import count

PLACE: Final = "{N}"
"""Place of the step in a form of names."""

_STEP: Final = re.compile(
    r"(?:step|iter(?:ation)?|epoch|checkpoint|ckpt|completions|version|update)s?[-_=]?(\d+)",
    re.IGNORECASE,
)
_OWN_FOLDERS: Final = "_forgetwatch"
"""Beginning of the names of folders that hold looks of ours."""

_TOTALS: Final = re.compile(r"aggregated_results|results_|summary|config|args")
"""Beginnings of names of files beside the answers."""


@dataclass(frozen=True)
class Dumps:
    """The looks in the files of a training.

    Attributes:
        looks: A snapshot for each step, by rising step.
        failed: Step and reason of each that is left out.
        notes: Sentences on what was left out, doubled, or missing.
    """

    looks: tuple[Snapshot, ...]
    failed: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]


def step_of(path: Path, form: str = "") -> int | None:
    """Step in a name.

    Args:
        path: A file or a folder.
        form: Form of the end of its path, with `PLACE`; empty for the usual ones.

    Returns:
        The step, or None if there is none.

    >>> step_of(Path("x/val_data_step40.jsonl")), step_of(Path("40.jsonl")), step_of(Path("notes.jsonl"))
    (40, 40, None)
    """
    if PLACE in form:
        before, after = map(re.escape, form.split(PLACE, 1))
        match = re.search(rf"{before}(\d+){after}$", path.as_posix())
    else:
        match = re.fullmatch(r"(\d+)", path.stem) or _STEP.search(path.name)
    return None if match is None else int(match[1])


def files_of_steps(paths: Iterable[Path], form: str = "") -> dict[int, list[Path]]:
    """Find the files of steps.

    Args:
        paths: Files, folders of one step, or folders that hold either.
        form: As of `step_of`.

    Returns:
        The files of a training, or the log of another tool, by step.
    """
    files, taken = dict[int, list[Path]](), set[Path]()
    for path in paths:
        for entry in [path, *(sorted(path.rglob("*")) if path.is_dir() else ())]:
            step = step_of(entry, form)
            if step is not None and taken.isdisjoint(entry.parents) and (logs := _logs(entry)):
                taken.add(entry)
                files.setdefault(step, []).extend(logs)
    return files


def is_dumps(paths: Sequence[Path], form: str = "") -> bool:
    """Are paths the files of a training, and not run folders?"""
    return bool(form or files_of_steps(paths) or any(map(tools.is_dump, _answers(paths))))


def _answers(paths: Iterable[Path]) -> list[Path]:
    # Files of answers, also below folders, without those that we write.
    return [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file() and file.suffix in SUFFIXES and not _TOTALS.match(file.name)
        if not any(name.startswith(_OWN_FOLDERS) for name in file.parts)
    ]


def _logs(folder: Path) -> list[Path]:
    # Of the folder of a step: the files of a training in it, else it is the log of another tool.
    answers = _answers([folder])
    is_model = any((folder / name).is_file() for name in MODEL_FILES)
    log = [folder] if answers and not is_model else []
    return [file for file in answers if tools.is_dump(file)] or log


def read_step(
    files: Sequence[Path], *, metric: str | None = None, rule: OutcomeRule = UPPER_HALF
) -> Snapshot:
    """Read the answers of a step, with the text of every question.

    Several files are sets of questions, each a category.

    Args:
        files: Its files; of one name the one that was written last counts.
        metric: Metric that makes right or wrong, if there are several.
        rule: How outcomes between wrong and right are read.

    Raises:
        SnapshotError: If one cannot be read.
    """
    by_time = sorted(files, key=lambda file: file.stat().st_mtime)
    names = {file.name for file in files}
    # A set is named by its file, or by the folder of files of one name.
    sets = {(file if len(names) > 1 else file.parent).stem: file for file in by_time}
    if all(step_of(file) is not None for file in files):
        sets = {"": by_time[-1]}
    looks = [
        named(load_snapshot(file, metric=metric, rule=rule, texts=True), name * (len(sets) > 1))
        for name, file in sets.items()
    ]
    table = pa.concat_tables([look.table for look in looks])
    source = looks[0].meta.get("source") if len(looks) == 1 else None
    return replace(looks[0], table=table, meta={**looks[0].meta, "source": source})


def read_dumps(
    paths: Sequence[Path],
    *,
    base: Path | None = None,
    form: str = "",
    metric: str | None = None,
    rule: OutcomeRule = UPPER_HALF,
    progress: Progress | None = None,
) -> Dumps:
    """Read the looks in the files of a training.

    Args:
        paths: As of `files_of_steps`; or files with rows of many steps.
        base: Outcomes before the training, in place of the first step.
        form: Form of the names, or the column of the step.
        metric: Metric that makes right or wrong, if there are several.
        rule: How outcomes between wrong and right are read.
        progress: Called with the files that are read and their number.

    Raises:
        SnapshotError: If there is no step that can be read, or none with the same questions.
    """
    column = form if PLACE not in form else ""
    files = {} if column else files_of_steps(paths, form)
    looks, failed = _read_files(files, metric, rule, progress)
    if not files and (column or not form):
        reading = Reading(metric=metric, rule=rule, texts=True)
        looks = tools.read_steps(_answers(paths), reading, column)
    if not looks:
        raise SnapshotError(
            next(iter(failed.values()), None)
            or f"{paths[0]}: needed files of a training's steps (40.jsonl, val_data_step40.jsonl, "
            "global_step_40_evals/, completions_00040.parquet), found none"
            f"{f' as {form}' if form else ''}; --step names a column, or a form with {PLACE}"
        )
    if base is not None:
        looks[-1] = read_step(_logs(base) or [base], metric=metric, rule=rule)
    start = min(looks)
    name = "the base" if start < 0 else f"step {start}"
    for step in sorted(looks):
        if unlike := unlike_questions(looks[start], looks[step]):
            failed[step] = f"{unlike} than {name}"
            del looks[step]
    if len(looks) == 1 and failed:
        raise SnapshotError(
            f"{paths[0]}: no step can be compared with {name}: step {min(failed)} has "
            f"{failed[min(failed)]}; needed the same questions at each step"
        )
    dated = (
        replace(look, meta={**look.meta, "step": step, SAMPLED: True})
        for step, look in sorted(looks.items())
    )
    notes = _notes(looks, failed, [step for step in sorted(files) if _is_twice(files[step])])
    return Dumps(tuple(dated), tuple(sorted(failed.items())), notes)


def _read_files(
    files: Mapping[int, Sequence[Path]],
    metric: str | None,
    rule: OutcomeRule,
    progress: Progress | None,
) -> tuple[dict[int, Snapshot], dict[int, str]]:
    # Looks, and the reason of each step without one.
    looks, failed = dict[int, Snapshot](), dict[int, str]()
    for number, step in enumerate(sorted(files), start=1):
        try:
            look = read_step(files[step], metric=metric, rule=rule)
            looks[step] = look if not looks or number == len(files) else _without_texts(look)
        except SnapshotError as error:
            failed[step] = str(error)
        if progress:
            progress(number, len(files))
    return looks, failed


def _notes(
    looks: Mapping[int, Snapshot], failed: Mapping[int, str], twice: Sequence[int]
) -> tuple[str, ...]:
    start = min(looks)
    notes = [f"step {count(step)} is left out: {why}" for step, why in sorted(failed.items())]
    if twice:
        notes.append(
            f"steps that are there twice: {some_of(twice, 5)}; the files that were written last count"
        )
    notes += _gaps(sorted({*looks, *failed} - {-1}))
    if start > 0:
        notes.append(
            f"no file of step 0: counted from step {count(start)}, and what was lost before does "
            "not show; --base names outcomes of the model before"
        )
    if all(look.missing("k") for look in looks.values()):
        notes.append("the files name no options: what was clearly known is not measured")
    return tuple(notes)


def unlike_questions(baseline: Snapshot, look: Snapshot) -> str:
    """Say how the answers of a step are about other questions.

    Returns:
        The words, or an empty text if they are about the same.
    """
    keys, keys_before = sorted(look.item_keys), sorted(baseline.item_keys)
    if keys == keys_before:
        return ""
    fewer = "fewer" if len(keys) < len(keys_before) else "more"
    return f"{fewer} answers" if len(keys) != len(keys_before) else "other questions"


def _is_twice(files: Sequence[Path]) -> bool:
    return len(files) > 1 and all(step_of(file) is not None for file in files)


def named(look: Snapshot, name: str) -> Snapshot:
    """Name the task and the category of rows, where they have none."""
    table = look.table
    for column in ("task", "category") if name else ():
        if not any(look.texts(column)):
            position = table.column_names.index(column)
            table = table.set_column(position, column, pa.array([name] * len(look)))
    return replace(look, table=table)


def _gaps(steps: Sequence[int]) -> list[str]:
    # Steps that a regular interval would have.
    gaps = [after - before for before, after in pairwise(steps)]
    interval = int(median(gaps)) if len(gaps) > 2 else 0
    missing = [
        step
        for before, after in pairwise(steps)
        for step in range(before + interval, after, interval or 1)
        if interval and (after - before) % interval == 0
    ]
    return [f"steps without a file: {some_of(list(map(str, missing)), 5)}"] if missing else []


def _without_texts(look: Snapshot) -> Snapshot:
    # Of looks between the first and the last no report shows a text.
    table = look.table
    for name in ("output", "question"):
        position = table.column_names.index(name)
        nulls = pa.nulls(len(look), table.schema.field(position).type)
        table = table.set_column(position, name, nulls)
    return replace(look, table=table)
