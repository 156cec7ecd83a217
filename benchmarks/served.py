"""A served model against the same weights by transformers, and requests a second by how many are asked at once.

    vllm serve MODEL --served-model-name base --dtype float32 --port 8000
    python benchmarks/served.py http://127.0.0.1:8000#base --model MODEL [--items 500] [--speed 100] [--at-once 1,16,64]

First both score the same questions: how many answers differ, at what margins, and how far the log-likelihoods are
apart. Then the server alone is timed. Peak memory is that of this process.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np

from forgetwatch import Item, Probe, Snapshot, load_probe
from forgetwatch.endpoint.served import score_endpoint
from forgetwatch.loading import Loading


def apart(here: Snapshot, served: Snapshot) -> str:
    """Differences between two snapshots of the same weights, as a line."""
    changed = here.floats("correct") != served.floats("correct")
    changed &= np.isfinite(here.floats("correct"))
    margins = here.floats("margin")[changed]
    line = f"{changed.sum()} of {len(here)} differ"
    line += (
        f", at margins up to {np.nanmax(margins):.3f} nats" if np.isfinite(margins).any() else ""
    )
    if not served.missing("choice_logprobs") and served.meta["way"] == "log-likelihood":
        there = served.table["choice_logprobs"].is_valid()
        sides = (side.table["choice_logprobs"].filter(there).to_pylist() for side in (here, served))
        largest = max(np.abs(np.subtract(*pair)).max() for pair in zip(*sides, strict=True))
        line += f"; log-likelihoods at most {largest:.4f} nats apart"
    if not served.missing("output"):
        line += f"; {(here.texts('output') != served.texts('output')).sum()} texts are not the same"
    return line


def made(count: int) -> Probe:
    """Short questions with two options."""
    items = [
        Item(
            id=str(n),
            task="sums",
            prompt=f"Question: What is {n} plus 1?\nAnswer:",
            choices=(f" {n + 1}", f" {n + 2}"),
            answer=0,
        )
        for n in range(count)
    ]
    return Probe(items, name=f"{count} sums")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="http://HOST:PORT#NAME")
    parser.add_argument("--model", help="the same weights, a folder")
    parser.add_argument("--probe", default="standard")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument(
        "--speed", type=int, default=100, help="questions that are timed; 0 for none"
    )
    parser.add_argument("--at-once", default="1,16,64")
    options = parser.parse_args()
    if options.model:
        from forgetwatch.scoring.cached_score import score_checkpoint

        probe = load_probe(options.probe).head(options.items)
        served = score_endpoint(options.address, probe)
        print(f"| way | {served.meta['way']} |")
        settings = {name: served.meta["probe"][name] for name in ("scoring", "rendering")}
        if settings["scoring"] != probe.scoring:
            items = [replace(item, shots="") if item.choices else item for item in probe]
            decoding = served.meta["probe"].get("decoding")
            probe = replace(probe, items=items, norm="sum", decoding=decoding, **settings)
        print(
            f"| {probe.name} | {apart(score_checkpoint(options.model, probe), served)} |",
            flush=True,
        )
    for at_once in map(int, options.at_once.split(",")) if options.speed else ():
        started = time.perf_counter()
        score_endpoint(options.address, made(options.speed), loading=Loading(concurrency=at_once))
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        requests = 2 * (options.speed + 8) + 8
        print(
            f"| {at_once} at once | {requests / seconds:.0f} requests a second | {peak:.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
