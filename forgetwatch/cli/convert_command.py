"""`forgetwatch convert LOG [LOG ...] -o S.parquet`: another tool's log to a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from forgetwatch.cli.options import check_folder
from forgetwatch.cli.resolve import outcomes
from forgetwatch.errors import SnapshotError
from forgetwatch.readers.mapping import Columns, read_mapped
from forgetwatch.readers.table import joined
from forgetwatch.snapshot import save_snapshot


def run(
    logs: Annotated[list[Path], typer.Argument(help="Logs, tables, or folders of one model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the snapshot is written (Parquet).")],
    places: Annotated[
        list[str] | None,
        typer.Option("--map", help="column=place: what a column of the table is, such as correct=eval.is_correct."),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="place=value: only rows that have it, such as model=gpt-4-0613.")
    ] = None,
    constants: Annotated[
        list[str] | None, typer.Option("--set", help="column=value: the same in every row, such as k=2.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(help="How output is judged by gold: regex:PATTERN (last match, without case), number, exact, ..."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Which of a log's metrics makes right and wrong.")] = None,
    as_samples: Annotated[
        bool, typer.Option("--as-samples", help="Each file is one more sample of the same items, such as a seed.")
    ] = False,
) -> None:
    """Write one snapshot from the logs of other tools, or from any table by naming its columns."""
    if output.suffix != ".parquet":
        raise SnapshotError(f"{output}: a snapshot is a Parquet file; give it a name that ends in .parquet")
    check_folder(str(output))
    columns = Columns(
        places=_pairs(places, "--map"),
        where=_pairs(where, "--where"),
        constants=_pairs(constants, "--set"),
        match=match,
    )
    mapped = bool(columns.places or columns.where or columns.constants or match)
    if mapped and metric is not None:
        raise SnapshotError("--metric is for logs of other tools; in a table --map correct=... names the column")
    read = [read_mapped(log, columns) if mapped else outcomes(log, metric) for log in logs]
    snapshot = joined(read, as_samples=as_samples)
    save_snapshot(snapshot, output)
    correct = snapshot.floats("correct")
    scored = int(np.isfinite(correct).sum())
    unscored = f", {len(snapshot) - scored:,} unscored" if scored < len(snapshot) else ""
    right = f"{100 * float(np.nanmean(correct)):.1f} % right" if scored else "none scored"
    console = Console(highlight=False)
    for note in snapshot.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    console.print(f"{len(snapshot):,} rows, {right}{unscored}: {output}", soft_wrap=True, markup=False)


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{option}: needed name=value, got {text!r}")
        if name in pairs:
            raise typer.BadParameter(f"{option}: {name!r} is given twice")
        pairs[name] = value
    return pairs
