"""`forgetwatch why RUN --train FILE`: were the lost answers barely known, or near the new data?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from forgetwatch.cli.options import STDOUT
from forgetwatch.cli.output import echo, print_hanging, write_json
from forgetwatch.cli.targets import check_json
from forgetwatch.comparing import Cause, Causes, Trajectory, why_lost
from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.extras import missing
from forgetwatch.pairing import count, fit_ends, one_line
from forgetwatch.probes import category_words, nearness_to, training_texts
from forgetwatch.run_folder import run_probe

_CATEGORIES = 8


def run(
    run_of: Annotated[Path, typer.Argument(metavar="RUN", help="A watched run: its folder, or the output_dir.")],
    train: Annotated[
        list[Path] | None,
        typer.Option(help="File of the training set (JSONL, Parquet, CSV, text); may be repeated."),
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write it as JSON to this file; - for stdout.")
    ] = None,
) -> None:
    """Say whether what a run lost was barely known, or lies near the training rows."""
    check_json(json_path, (run_of, *(train or ())))
    trajectory = Trajectory.from_run(run_of).own
    if len(trajectory) < 2:
        raise SnapshotError(f"{run_of}: needed a look after the start, found none; nothing is lost yet")
    near = words = None
    if train:
        probe = run_probe(run_of)
        if probe is None:
            raise SnapshotError(
                f"{run_of}: needed the probe of the run (probe.jsonl), to compare its questions with rows"
            )
        texts = list(training_texts(train))
        try:
            found_near = nearness_to(probe.items, texts)
        except ModuleNotFoundError as error:
            raise ForgetwatchError(missing(error, what="--train") or str(error)) from error
        except ValueError as error:
            raise SnapshotError(f"{', '.join(map(str, train))}: {error}") from error
        near = {(item.task, item.id): float(one) for item, one in zip(probe.items, found_near, strict=True)}
        words = category_words(probe.items, texts)
    found = why_lost(trajectory.baseline, trajectory.last, near=near, words=words)
    if json_path is not None:
        write_json(_json(found), json_path)
    if json_path != STDOUT:
        _show(found, has_rows=bool(train))


def _show(found: Causes, *, has_rows: bool) -> None:
    print_hanging(f"{count(found.lost)} of {count(found.items)} questions that it had right are lost; {found}")
    for one in found.causes:
        print_hanging(_line(one))
    if found.categories:
        echo(f"{'category':<24}{'lost':>6}{'of':>6}   its words in the rows, per 1,000")
        for name, items, lost, uses in found.categories[:_CATEGORIES]:
            echo(f"{fit_ends(one_line(name), 23):<24}{lost:>6}{items:>6}   {uses:.1f}")
    if not has_rows:
        echo("--train FILE adds how near the questions are to the training rows")


def _line(cause: Cause) -> str:
    heads = {"sure": ("least sure", "middle", "surest"), "near": ("farthest", "middle", "nearest")}[cause.column]
    shares = ", ".join(
        f"{head} third {100 * lost / n:.0f} %" for head, (_, _, n, lost) in zip(heads, cause.groups, strict=False)
    )
    if cause.separation is None:
        return f"lost: {shares}; too few to test"
    direction = "less sure" if cause.column == "sure" else "nearer"
    auc = cause.separation.auc if cause.column == "near" else 1 - cause.separation.auc
    pairs = f"the lost one is {direction} in {100 * auc:.0f} % of pairs within categories (p {cause.p_value:.2g})"
    return f"lost: {shares}; {pairs}"


def _json(found: Causes) -> dict[str, Any]:
    return {
        "schema": "forgetwatch/why@1",
        "items": found.items,
        "lost": found.lost,
        "answer": str(found),
        "columns": [
            {
                "column": one.column,
                "groups": [dict(zip(("low", "high", "items", "lost"), group, strict=True)) for group in one.groups],
                "auc": None if one.separation is None else one.separation.auc,
                "p_value": None if one.separation is None else one.p_value,
                "explains": one.explains,
            }
            for one in found.causes
        ],
        "categories": [
            {"category": name, "items": items, "lost": lost, "words_per_1000": uses if uses == uses else None}
            for name, items, lost, uses in found.categories
        ],
    }
