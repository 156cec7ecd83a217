"""`forgetwatch score MODEL --probe P -o S.parquet`: a snapshot of a checkpoint, adapter or model id."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.probes import load_probe
from forgetwatch.snapshot import save_snapshot


def run(
    model: Annotated[str, typer.Argument(help="A checkpoint folder, an adapter folder, or a model id.")],
    probe: Annotated[str, typer.Option(help="The items to ask: a probe's name or file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the snapshot is written (Parquet).")],
    engine: Annotated[
        str, typer.Option(help="What writes answers, where items need that: transformers, or vllm (not yet run).")
    ] = "transformers",
    tensor_parallel: Annotated[
        int, typer.Option(min=1, help="With --engine vllm: GPUs that share the weights of one engine.")
    ] = 1,
    data_parallel: Annotated[
        int, typer.Option(min=1, help="With --engine vllm: engines that share the items, each on GPUs of its own.")
    ] = 1,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False,
) -> None:
    """Ask a model every item of a probe, and write one row per item."""
    items = load_probe(probe)
    if output.suffix != ".parquet":
        raise SnapshotError(f"{output}: a snapshot is a Parquet file; give it a name that ends in .parquet")
    if engine not in ("transformers", "vllm"):
        raise ScoringError(f"--engine {engine}: needed transformers or vllm")
    if engine == "transformers" and (tensor_parallel, data_parallel) != (1, 1):
        raise ScoringError("--tensor-parallel and --data-parallel are for --engine vllm; add it, or leave them out")
    folder = output.absolute().parent
    if not os.access(folder, os.W_OK):
        raise SnapshotError(f"{output}: needed a folder that can be written to, and {folder} is none")
    from forgetwatch.cli.output import items_bar
    from forgetwatch.scoring import Scorer
    from forgetwatch.scoring.checkpoints import load_model, silence_loading

    silence_loading()
    if engine == "vllm":
        from forgetwatch.scoring.vllm_checkpoint import score_with_vllm

        with items_bar(f"scoring {model}") as progress:
            snapshot = score_with_vllm(
                model,
                items,
                tensor_parallel=tensor_parallel,
                data_parallel=data_parallel,
                trust_remote_code=trust_remote_code,
                progress=progress,
            )
    else:
        loaded, tokenizer = load_model(model, trust_remote_code=trust_remote_code)
        with items_bar(f"scoring {model}") as progress:
            snapshot = Scorer(items, tokenizer, loaded).score(loaded, name=model, progress=progress)
    save_snapshot(snapshot, output)
    correct = snapshot.floats("correct")
    scored = int(np.isfinite(correct).sum())
    console = Console(highlight=False)
    for why, count in Counter(snapshot.texts("outcome")).most_common():
        if why != "ok":
            console.print(f"{count:,} {why}", soft_wrap=True, markup=False)
    if not scored:
        raise SnapshotError(f"none of the {len(snapshot):,} items could be scored; {output} says of each why")
    console.print(
        f"{scored:,} items scored, {100 * float(np.nanmean(correct)):.1f} % right, "
        f"{snapshot.meta['seconds']:.1f} s: {output}",
        soft_wrap=True,
        markup=False,
    )
