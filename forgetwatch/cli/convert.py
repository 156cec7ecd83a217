"""`forgetwatch convert LOG`: another tool's log to a snapshot."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from forgetwatch.cli.options import (
    LowerOption,
    RightIfOption,
    ScaleOption,
    UnscoredIfOption,
    check_output,
    outcome_rule,
)
from forgetwatch.cli.output import echo
from forgetwatch.cli.resolve import read_outcomes
from forgetwatch.errors import SnapshotError
from forgetwatch.readers.joining import concatenate, null_as_wrong
from forgetwatch.readers.mapping import ColumnMap, read_mapped
from forgetwatch.snapshot import save_snapshot

_log_option = partial(typer.Option, rich_help_panel="Logs of other tools")


_table_option = partial(typer.Option, rich_help_panel="Tables of your own")


def convert_command(
    logs: Annotated[list[Path], typer.Argument(help="Logs, tables, or folders of one model.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Snapshot file to write (Parquet).")
    ],
    as_samples: Annotated[
        bool,
        typer.Option(
            "--as-samples", help="Each file is one more sample of the same items, such as a seed."
        ),
    ] = False,
    null: Annotated[
        Literal["unscored", "wrong"], typer.Option(help="What an answer without a score is.")
    ] = "unscored",
    metric: Annotated[
        str | None, _log_option(help="Metric that decides right or wrong, if a log has several.")
    ] = None,
    right_if: RightIfOption = None,
    scale: ScaleOption = None,
    lower_is_better: LowerOption = False,
    unscored_if: UnscoredIfOption = None,
    fields: Annotated[
        list[str] | None,
        _table_option(
            "--map",
            help="column=field: where a column is in the table, such as correct=eval.is_correct; may be repeated.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        _table_option(
            help="field=value: only rows with this value, such as model=gpt-4-0613; may be repeated."
        ),
    ] = None,
    constants: Annotated[
        list[str] | None,
        _table_option(
            "--set", help="column=value: the same in every row, such as k=2; may be repeated."
        ),
    ] = None,
    rows: Annotated[
        str | None,
        _table_option(
            help="Where the rows are in a JSON document, such as details; dots enter objects."
        ),
    ] = None,
    pair_by: Annotated[
        Literal["question", "order"],
        _table_option(
            help="order: number rows of one question as they come, if nothing else distinguishes them."
        ),
    ] = "question",
    match: Annotated[
        str | None,
        _table_option(
            help="How `output` is graded against `gold`: regex:PATTERN (last match, case ignored), number, exact, ..."
        ),
    ] = None,
) -> None:
    """Write one snapshot from the logs of other tools, or from any table by naming its columns."""
    check_output(output, "a snapshot", logs)
    fields_by_name, wanted, same = (
        _pairs(fields, "--map"),
        _pairs(where, "--where"),
        _pairs(constants, "--set"),
    )
    rule = outcome_rule(right_if, scale, lower_is_better, unscored_if)
    columns = ColumnMap(
        fields=fields_by_name,
        where=wanted,
        constants=same,
        match=match,
        rows=rows,
        by_order=pair_by == "order",
        rule=rule,
    )
    mapped = bool(columns.fields or columns.where or columns.constants or match or rows)
    if mapped and metric is not None:
        raise SnapshotError(
            "--metric is for logs of other tools; in a table --map correct=... names the column"
        )
    read = [
        read_mapped(log, columns) if mapped else read_outcomes(log, metric, texts=True, rule=rule)
        for log in logs
    ]
    snapshot = concatenate(read, as_samples=as_samples)
    if null == "wrong":
        snapshot = null_as_wrong(snapshot)
    save_snapshot(snapshot, output)
    correct, without = snapshot.floats("correct"), int(snapshot.is_unscored.sum())
    outcomes = Counter(snapshot.texts("outcome")[snapshot.is_unscored].tolist())
    reasons = "; ".join(
        f"{count:,} {reason.removeprefix('unscored: ')}"
        for reason, count in outcomes.most_common(3)
    )
    unscored = f", {without:,} unscored ({reasons})" if without else ""
    right = (
        f"{100 * float(np.nanmean(correct)):.1f} % right"
        if np.isfinite(correct).any()
        else "none scored"
    )
    for note in snapshot.notes:
        echo(f"note: {note}")
    echo(f"{len(snapshot):,} rows, {right}{unscored}: {output}")


def _pairs(values: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in values or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{option}: needed name=value, got {text!r}")
        if name in pairs:
            raise typer.BadParameter(f"{option}: {name!r} is given twice")
        pairs[name] = value
    return pairs
