"""`forgetwatch score MODEL --probe P -o S.parquet`: a snapshot of a checkpoint, adapter or model id."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from forgetwatch.cli.options import DeviceMapOption, TrustOption, check_device_map, check_output
from forgetwatch.cli.output import echo, scoring, shared_work
from forgetwatch.cli.resolve import fitted
from forgetwatch.comparing.checks import repeated_prompts
from forgetwatch.errors import SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.measures.aligned import snapshot_bits
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.snapshot import Snapshot, save_snapshot


def score_command(
    model: Annotated[
        str, typer.Argument(help="A checkpoint folder, an adapter folder, or a model id.")
    ],
    probe: Annotated[str, typer.Option(help="Probe to score: a name or a file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Snapshot file to write (Parquet).")
    ],
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Score a model on a probe, and write a snapshot with one row for each item.

    A model that was scored on this probe before is taken from the cache, and an
    interrupted measurement continues.

    Several processes share the items: torchrun --nproc-per-node 2 -m forgetwatch
    score ...
    """
    with shared_work():
        items = load_probe(probe)
        check_output(output, "a snapshot", [probe])
        # Checked before the model is loaded: scoring may take hours.
        if not os.access(folder := output.absolute().parent, os.W_OK):
            raise SnapshotError(
                f"{output}: needed a folder that can be written to, and {folder} cannot"
            )
        check_device_map(device_map)
        loading = Loading(trust_remote_code=trust_remote_code, device_map=device_map)
        items = fitted(items, model, loading=loading)
        with scoring(model, items) as progress:
            from forgetwatch.scoring.cached_score import score_checkpoint
            from forgetwatch.scoring.model_loading import silence_loading

            silence_loading()
            snapshot = score_checkpoint(model, items, loading=loading, progress=progress)
        if is_first_process():
            save_snapshot(snapshot, output)
        _print_result(snapshot, output)


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
