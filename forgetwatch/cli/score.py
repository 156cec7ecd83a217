"""`forgetwatch score MODEL|URL --probe P -o S.parquet`: a snapshot of a checkpoint, a model id, or a served model."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from forgetwatch.cli.options import (
    ConcurrencyOption,
    DeviceMapOption,
    TrustOption,
    YesOption,
    check_device_map,
    check_distinct,
    check_output,
)
from forgetwatch.cli.output import echo, shared_work
from forgetwatch.cli.resolve import fitted, score_named
from forgetwatch.comparing.checks import repeated_prompts
from forgetwatch.endpoint.address import is_endpoint
from forgetwatch.errors import SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.measures.aligned import snapshot_bits
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.snapshot import Snapshot, save_snapshot


def score_command(
    model: Annotated[
        str,
        typer.Argument(
            help="A checkpoint folder, an adapter folder, a model id, or a server: http://HOST:PORT#NAME."
        ),
    ],
    probe: Annotated[str, typer.Option(help="Probe to score: a name or a file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Snapshot file to write (Parquet).")
    ],
    name: Annotated[
        str | None, typer.Option("--model", help="Name of a served model, as #NAME in its address.")
    ] = None,
    repeat: Annotated[
        Path | None,
        typer.Option(
            help="Measure a served model a second time, into this file: compare --repeat reads it."
        ),
    ] = None,
    concurrency: ConcurrencyOption = 16,
    yes: YesOption = False,
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Score a model on a probe, and write a snapshot with one row for each item.

    A model that was scored on this probe before is taken from the cache; a
    served one is asked anew. Generated answers of a measurement that was
    interrupted are kept beside the output, and it continues.

    Several processes share the items: torchrun --nproc-per-node 2 -m forgetwatch
    score ...
    """
    with shared_work():
        items = load_probe(probe)
        if (name or repeat) and not is_endpoint(model):
            raise typer.BadParameter("--model and --repeat are for a served model, http://...")
        if name:
            model = f"{model}#{name}"
        check_distinct(repeat, output)
        outputs = [output, *([repeat] if repeat else [])]
        for path in outputs:
            check_output(path, "a snapshot", [probe])
            # Checked before the model is loaded: scoring may take hours.
            if not os.access(folder := path.absolute().parent, os.W_OK):
                raise SnapshotError(
                    f"{path}: needed a folder that can be written to, and {folder} cannot"
                )
        check_device_map(device_map)
        loading = Loading(
            trust_remote_code=trust_remote_code,
            device_map=device_map,
            concurrency=concurrency,
            may_spend=yes,
        )
        items = fitted(items, model, loading=loading)
        for path in outputs:
            answers = path.with_name(f"{path.name}.answers")
            snapshot = score_named(
                model, items, loading=loading, answers=answers, is_second=path == repeat
            )
            if is_first_process():
                save_snapshot(snapshot, path)
                answers.unlink(missing_ok=True)
            _print_result(snapshot, path)


def _print_result(snapshot: Snapshot, output: Path) -> None:
    correct, passages = snapshot.floats("correct"), int(snapshot.is_passage.sum())
    scored = int(np.isfinite(correct).sum())
    for outcome, count in Counter(snapshot.texts("outcome")).most_common():
        if outcome != "ok":
            echo(f"{count:,} {outcome}")
    if not scored and not passages:
        raise SnapshotError(
            f"none of the {len(snapshot):,} items could be scored; {output} has the reason for each"
        )
    if repeated := repeated_prompts(snapshot):
        echo(repeated)
    parts = (
        [f"{scored:,} items scored, {100 * float(np.nanmean(correct)):.1f} % right"]
        if scored
        else []
    )
    parts += (
        [f"{passages:,} passages scored, {snapshot_bits(snapshot):.3f} bits per byte"]
        if passages
        else []
    )
    echo(f"{', '.join(parts)}, {snapshot.meta['seconds']:.1f} s: {output}")
