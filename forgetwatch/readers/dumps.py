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
from collections.abc import Iterable, Iterator, Sequence
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
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import count

PLACE: Final = "{N}"
"""Place of the step in a form of names."""

_STEP: Final = re.compile(
    r"(?:step|iter(?:ation)?|epoch|checkpoint|ckpt|completions|version|update)s?[-_=]?(\d+)",
    re.IGNORECASE,
)
_TOTALS: Final = re.compile(r"aggregated_results|results_|summary|config|args")
"""Beginnings of names of files beside the answers."""

SAMPLED: Final = "sampled"
"""Metadata of outcomes of a training's own validation, whose answers may be sampled."""


@dataclass(frozen=True)
class Dumps:
    """The looks in the files of a training.

    Attributes:
        looks: A snapshot for each step, by rising step.
        notes: Sentences on what was left out, doubled, or missing.
    """

    looks: tuple[Snapshot, ...]
    notes: tuple[str, ...] = ()


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


def files_of_steps(paths: Sequence[Path], form: str = "") -> list[tuple[int, str, Path]]:
    """Find the files of steps.

    Args:
        paths: Files, folders of one step, or folders that hold either.
        form: As of `step_of`.

    Returns:
        The step of each, its name within the step, and its path: a file of a training, or the log
        of another tool.
    """
    found, taken = list[tuple[int, str, Path]](), set[Path]()
    for path in paths:
        for place in [path, *(sorted(path.rglob("*")) if path.is_dir() else ())]:
            step = step_of(place, form)
            if step is None or not taken.isdisjoint(place.parents):
                continue
            answers = _answers([place])
            dumps = [file for file in answers if tools.is_dump(file)]
            is_model = any((place / name).is_file() for name in MODEL_FILES)
            logs = dumps or ([place] if answers and not is_model else [])
            taken |= {place} if logs else set()
            found += [(step, log.relative_to(place).as_posix(), log) for log in logs]
    return found


def is_dumps(paths: Sequence[Path], form: str = "") -> bool:
    """Are these the files of a training, and not its run folders?"""
    return bool(form or files_of_steps(paths) or any(map(tools.is_dump, _answers(paths))))


def _answers(paths: Iterable[Path]) -> list[Path]:
    # Files of answers, also below folders.
    return [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file() and file.suffix in SUFFIXES and not _TOTALS.match(file.name)
    ]


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
        paths: As of `files_of_steps`; or one file with rows of many steps.
        base: Outcomes before the training, in place of the first step.
        form: Form of the names, or the column of the step.
        metric: Metric that makes right or wrong, if there are several.
        rule: How outcomes between wrong and right are read.
        progress: Called with the files that are read and their number.

    Raises:
        SnapshotError: If there is no step that can be read.
    """
    reading = Reading(metric=metric, rule=rule, texts=True)
    column = form if PLACE not in form else ""
    files = [] if column else files_of_steps(paths, form)
    notes = list[str]()
    if files:
        sets, twice = dict[int, dict[str, Path]](), set[int]()
        for of_step, name, path in files:
            # A file's own name holds the step; what is below a folder has a name of its own.
            earlier = sets.setdefault(of_step, {}).get(name)
            twice |= {of_step} if earlier else set()
            if earlier is None or path.stat().st_mtime >= earlier.stat().st_mtime:
                sets[of_step][name] = path
        looks = dict(_read_sets(sets, reading, notes, progress))
        if twice:
            notes.append(
                f"steps that are there twice: {some_of([str(step) for step in sorted(twice)], 5)}; "
                "the files that were written last count"
            )
    else:
        looks = tools.read_steps(_answers(paths) if column or not form else [], reading, column)
    if not looks:
        raise SnapshotError(
            f"{paths[0]}: needed files of a training's steps (40.jsonl, val_data_step40.jsonl, "
            "global_step_40_evals/, completions_00040.parquet), found none that can be read"
            f"{f': {notes[0]}' if notes else ''}; --step names a column, or a form with {PLACE}"
        )
    steps = sorted(looks)
    notes += _gaps(steps)
    if base is not None:
        of_base = load_snapshot(base, metric=metric, rule=rule)
        looks[min(-1, steps[0] - 1)] = of_base
    elif steps[0]:
        notes.append(
            f"no file of step 0: counted from step {count(steps[0])}, after which nothing before "
            "shows; --base names outcomes of the model before"
        )
    if all(look.missing("k") for look in looks.values()):
        notes.append("the files name no options: what was clearly known is not measured")
    made = (
        replace(look, meta={**look.meta, "step": step, SAMPLED: True})
        for step, look in sorted(looks.items())
    )
    return Dumps(tuple(made), tuple(notes))


def _read_sets(
    sets: dict[int, dict[str, Path]],
    reading: Reading,
    notes: list[str],
    progress: Progress | None,
) -> Iterator[tuple[int, Snapshot]]:
    for number, (step, places) in enumerate(sorted(sets.items()), start=1):
        try:
            stems = {place.stem for place in places.values()}
            looks = [
                named(
                    load_snapshot(place, metric=reading.metric, rule=reading.rule, texts=True),
                    (place if len(stems) > 1 else place.parent).stem * (len(places) > 1),
                )
                for place in places.values()
            ]
        except SnapshotError as error:
            notes.append(f"step {count(step)} is left out: {error}")
            continue
        if progress:
            progress(number, len(sets))
        look = replace(looks[0], table=pa.concat_tables([look.table for look in looks]))
        yield step, look if number in (1, len(sets)) else _without_texts(look)


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
    every = int(median(gaps)) if len(gaps) > 2 else 0
    missing = [
        step
        for before, after in pairwise(steps)
        for step in range(before + every, after, every or 1)
        if every and (after - before) % every == 0
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
