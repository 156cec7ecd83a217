"""`forgetwatch why RUN --train FILE`: were the lost answers the less sure ones, or near the new data?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from forgetwatch.cli.options import STDOUT, JsonOption
from forgetwatch.cli.output import echo, print_hanging, write_json
from forgetwatch.cli.targets import check_json
from forgetwatch.comparing import COLUMNS, Cause, Causes, Trajectory, why_lost
from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.extras import missing
from forgetwatch.pairing import count, fit_ends, one_line, percent
from forgetwatch.probe import Probe
from forgetwatch.probes import answers_of, category_words, nearness_to, training_texts
from forgetwatch.report import causes_json
from forgetwatch.run_folder import run_probe

_CATEGORIES = 8

TrainOption = Annotated[
    list[Path] | None,
    typer.Option(help="File of the training set (JSONL, Parquet, CSV, text); may be repeated."),
]


def run(
    run_of: Annotated[Path, typer.Argument(metavar="RUN", help="A watched run: its folder, or the output_dir.")],
    train: TrainOption = None,
    json_path: JsonOption = None,
) -> None:
    """Say whether what a run lost was barely known, or lies near the training rows."""
    check_json(json_path, (run_of, *(train or ())), kind="why")
    trajectory = Trajectory.from_run(run_of).own
    if len(trajectory) < 2:
        raise SnapshotError(f"{run_of}: needed a look after the start, found none; nothing is lost yet")
    found = run_causes(run_of, trajectory, train=train)
    if json_path is not None:
        write_json(causes_json(found), json_path)
    if json_path != STDOUT:
        _show(found, step=trajectory.steps[-1], has_rows=bool(train))


def run_causes(run_of: Path, trajectory: Trajectory, *, train: Sequence[Path] | None) -> Causes:
    """Return why the last look of a run lost answers, with the nearness to the rows of some files."""
    probe = run_probe(run_of)
    if not train:
        return why_lost(trajectory.baseline, trajectory.last, answers=None if probe is None else answers_of(probe))
    if probe is None:
        raise SnapshotError(f"{run_of}: needed the probe of the run (probe.jsonl), to compare its questions with rows")
    texts, named = list(training_texts(train)), ", ".join(map(str, train))
    try:
        near = nearness_to(probe.items, texts)
    except ModuleNotFoundError as error:
        raise ForgetwatchError(missing(error, what="--train") or str(error)) from error
    except ValueError as error:
        raise SnapshotError(f"{named}: {error}") from error
    return why_lost(
        trajectory.baseline,
        trajectory.last,
        near=_by_key(probe, near),
        words=category_words(probe.items, texts),
        answers=answers_of(probe),
    )


def _by_key(probe: Probe, values: Any) -> Mapping[tuple[str, str], float]:
    return {(item.task, item.id): float(one) for item, one in zip(probe, values, strict=True)}


def _show(found: Causes, *, step: int, has_rows: bool) -> None:
    of = f"step {count(step)}: {count(found.lost)} of {count(found.items)} questions that it had right are lost"
    print_hanging(of)
    for told in filter(None, (found.answers_text(), str(found))):
        print_hanging(told)
    parts = max((len(one.parts) for one in found.causes), default=0)
    if parts:
        part = {3: "third", 10: "tenth"}.get(parts, "part")
        echo(
            f"{f'lost of each {part}, %':<44}"
            + "".join(f"{at:>5}" for at in range(1, parts + 1))
            + "   explains, beside the others"
        )
    for one in found.causes:
        echo(_line(one))
    if parts:
        echo(f"{part} 1: the least sure, or the farthest from the rows, of each category")
    if found.categories:
        echo(f"{'category':<24}{'lost':>6}{'of':>6}   its words in the rows, per 1,000")
        for name, items, lost, uses in found.categories[:_CATEGORIES]:
            echo(f"{fit_ends(one_line(name), 23):<24}{lost:>6}{items:>6}   {uses:.1f}")
    if told := found.between_text():
        print_hanging(told)
    if not has_rows:
        echo("--train FILE adds how near the questions are to the training rows")


def _line(cause: Cause) -> str:
    cells = "".join(f"{100 * part.lost / part.items:>5.0f}" for part in cause.parts)
    if cause.separation is None or cause.explained is None:
        return f"{COLUMNS[cause.column]:<44}{cells}   too few to test"
    share, chance = percent(cause.explained.share), percent(cause.explained.permuted)
    return f"{COLUMNS[cause.column]:<44}{cells}   {share} % (chance {chance}), p {cause.p_value:.2g}"
