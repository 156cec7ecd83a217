"""`forgetwatch score MODEL --probe P -o S.parquet`: a snapshot of a checkpoint, adapter or model id.

`forgetwatch convert LOG [LOG ...] -o S.parquet`: another tool's log to a snapshot.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from forgetwatch.cli.options import DeviceMapOption, TrustOption, check_device_map, check_output
from forgetwatch.cli.output import echo, scoring, shared_work
from forgetwatch.cli.resolve import fitted, read_outcomes
from forgetwatch.comparing import repeated_prompts
from forgetwatch.errors import SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.measures import snapshot_bits
from forgetwatch.probes import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.readers import ColumnMap, concatenate, null_as_wrong, read_mapped
from forgetwatch.snapshot import Snapshot, save_snapshot


def score_command(
    model: Annotated[str, typer.Argument(help="A checkpoint folder, an adapter folder, or a model id.")],
    probe: Annotated[str, typer.Option(help="Probe to score: a name or a file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Snapshot file to write (Parquet).")],
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Score a model on a probe, and write a snapshot with one row for each item.

    A model that was scored on this probe before is taken from the cache, and an interrupted measurement continues.

    Several processes share the items: torchrun --nproc-per-node 2 -m forgetwatch score ...
    """
    with shared_work():
        items = load_probe(probe)
        check_output(output, "a snapshot", [probe])
        # Checked before the model is loaded: scoring may take hours.
        if not os.access(folder := output.absolute().parent, os.W_OK):
            raise SnapshotError(f"{output}: needed a folder that can be written to, and {folder} cannot")
        check_device_map(device_map)
        loading = Loading(trust_remote_code=trust_remote_code, device_map=device_map)
        items = fitted(items, model, loading=loading)
        with scoring(model, items) as progress:
            from forgetwatch.scoring import score_checkpoint, silence_loading

            silence_loading()
            snapshot = score_checkpoint(model, items, loading=loading, progress=progress)
        if is_first_process():
            save_snapshot(snapshot, output)
        _print_result(snapshot, output)


def _print_result(snapshot: Snapshot, output: Path) -> None:
    """Print how many items were scored and why others were not; raise SnapshotError if none was."""
    correct, passages = snapshot.floats("correct"), int(snapshot.is_passage.sum())
    scored = int(np.isfinite(correct).sum())
    for outcome, count in Counter(snapshot.texts("outcome")).most_common():
        if outcome != "ok":
            echo(f"{count:,} {outcome}")
    if not scored and not passages:
        raise SnapshotError(f"none of the {len(snapshot):,} items could be scored; {output} has the reason for each")
    if repeated := repeated_prompts(snapshot):
        echo(repeated)
    parts = [f"{scored:,} items scored, {100 * float(np.nanmean(correct)):.1f} % right"] if scored else []
    parts += [f"{passages:,} passages scored, {snapshot_bits(snapshot):.3f} bits per byte"] if passages else []
    echo(f"{', '.join(parts)}, {snapshot.meta['seconds']:.1f} s: {output}")


_log_option = partial(typer.Option, rich_help_panel="Logs of other tools")
_table_option = partial(typer.Option, rich_help_panel="Tables of your own")


def convert_command(
    logs: Annotated[list[Path], typer.Argument(help="Logs, tables, or folders of one model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Snapshot file to write (Parquet).")],
    as_samples: Annotated[
        bool, typer.Option("--as-samples", help="Each file is one more sample of the same items, such as a seed.")
    ] = False,
    null: Annotated[Literal["unscored", "wrong"], typer.Option(help="What an answer without a score is.")] = "unscored",
    metric: Annotated[str | None, _log_option(help="Metric that decides right or wrong, if a log has several.")] = None,
    fields: Annotated[
        list[str] | None,
        _table_option(
            "--map",
            help="column=field: where a column is in the table, such as correct=eval.is_correct; may be repeated.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        _table_option(help="field=value: only rows with this value, such as model=gpt-4-0613; may be repeated."),
    ] = None,
    constants: Annotated[
        list[str] | None,
        _table_option("--set", help="column=value: the same in every row, such as k=2; may be repeated."),
    ] = None,
    rows: Annotated[
        str | None,
        _table_option(help="Where the rows are in a JSON document, such as details; dots enter objects."),
    ] = None,
    pair_by: Annotated[
        Literal["question", "order"],
        _table_option(help="order: number rows of one question as they come, if nothing else distinguishes them."),
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
    named, wanted, same = _pairs(fields, "--map"), _pairs(where, "--where"), _pairs(constants, "--set")
    columns = ColumnMap(fields=named, where=wanted, constants=same, match=match, rows=rows, by_order=pair_by == "order")
    mapped = bool(columns.fields or columns.where or columns.constants or match or rows)
    if mapped and metric is not None:
        raise SnapshotError("--metric is for logs of other tools; in a table --map correct=... names the column")
    read = [read_mapped(log, columns) if mapped else read_outcomes(log, metric, texts=True) for log in logs]
    snapshot = concatenate(read, as_samples=as_samples)
    if null == "wrong":
        snapshot = null_as_wrong(snapshot)
    save_snapshot(snapshot, output)
    correct, without = snapshot.floats("correct"), int(snapshot.is_unscored.sum())
    outcomes = Counter(snapshot.texts("outcome")[snapshot.is_unscored].tolist())
    reasons = "; ".join(f"{count:,} {reason.removeprefix('unscored: ')}" for reason, count in outcomes.most_common(3))
    unscored = f", {without:,} unscored ({reasons})" if without else ""
    right = f"{100 * float(np.nanmean(correct)):.1f} % right" if np.isfinite(correct).any() else "none scored"
    for note in snapshot.notes:
        echo(f"note: {note}")
    echo(f"{len(snapshot):,} rows, {right}{unscored}: {output}")


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """Return the values of an option of the form name=value, by name; another form, or a name twice, is wrong usage."""
    pairs: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{option}: needed name=value, got {text!r}")
        if name in pairs:
            raise typer.BadParameter(f"{option}: {name!r} is given twice")
        pairs[name] = value
    return pairs
