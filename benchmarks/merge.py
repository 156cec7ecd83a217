"""Memory and time of merging two models, and the numbers next to mergekit's where that is installed.

    python benchmarks/merge.py A B [--alpha 0.2,0.5,0.8]

Peak: the highest resident memory while two points are written, minus what was resident before, as a share of the size
of one model. The files of both models are read in parts, and those pages count as long as they are mapped.
Against mergekit's `slerp`: the largest difference of an element, relative to the largest of its tensor, and how far
both are from the arc in fp64.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file

from forgetwatch.study.merging import geometry_of, merged, plan_merge, write_merged


class Peak(threading.Thread):
    """Highest resident memory of this process, sampled every millisecond."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.ended = resident(), threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.001):
            self.bytes = max(self.bytes, resident())


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--alpha", default="0.2,0.5,0.8")
    given = parser.parse_args()
    plan = plan_merge(given.a, given.b)
    before, peak = resident(), Peak()
    peak.start()
    began = time.perf_counter()
    geometry = geometry_of(plan)
    print(f"angles and distances: {time.perf_counter() - began:.1f} s")
    with TemporaryDirectory() as folder:
        for method in ("linear", "slerp"):
            began = time.perf_counter()
            write_merged(plan, Path(folder, method), alpha=0.5, method=method, geometry=geometry)
            print(f"{method}: {time.perf_counter() - began:.1f} s")
    peak.ended.set()
    print(
        f"one model {plan.bytes / 2**20:.0f} MiB; resident before {before / 2**20:.0f} MiB, at most "
        f"{(peak.bytes - before) / 2**20:.0f} MiB more: {(peak.bytes - before) / plan.bytes:.2f} models"
    )
    against_mergekit(given, plan, geometry)


def against_mergekit(given: argparse.Namespace, plan, geometry) -> None:  # type: ignore[no-untyped-def]
    try:
        from mergekit.merge_methods.slerp import slerp
    except ModuleNotFoundError:
        print("mergekit is not installed")
        return
    sides = [{}, {}]
    for pair in plan.pairs:
        for side, one in zip(sides, (pair.a, pair.b), strict=True):
            if one.name not in side:
                side |= load_file(one.file)
    for alpha in map(float, given.alpha.split(",")):
        worst = {"between": 0.0, "ours": 0.0, "theirs": 0.0}
        for pair in plan.pairs:
            a, b = (side[pair.a.name] for side in sides)
            of_a, of_b = geometry[pair.a.name].weights(alpha, "slerp")
            exact = of_a * a.double() + of_b * b.double()
            ours = merged(a, b, (of_a, of_b), dtype=pair.dtype).double()
            theirs = slerp(torch.tensor([alpha]), a[None], b[None])[0].double()
            for name, x, y in (("between", ours, theirs), ("ours", ours, exact), ("theirs", theirs, exact)):
                worst[name] = max(worst[name], float((x - y).abs().max() / exact.abs().max()))
        print(
            f"slerp at {alpha:g}, relative to the largest weight: {worst['between']:.1e} apart; from fp64 "
            f"{worst['ours']:.1e} ours, {worst['theirs']:.1e} mergekit's"
        )


if __name__ == "__main__":
    main()
