"""Memory and time of merging two models in memory.

    python benchmarks/merge.py A B

Peak: the highest resident memory, minus what was resident once torch and transformers were there, as a share of the
size of one model. The pages of the files that are read count as long as they are mapped.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from pathlib import Path

from forgetwatch.merge.weights import ModelPair
from forgetwatch.scoring.model_loading import size_of


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
    given = parser.parse_args()
    for method in ("linear", "slerp"):
        pair = ModelPair(a=given.a, b=given.b, method=method, alphas=(0.5,))
        before, peak = resident(), Peak()
        peak.start()
        began = time.perf_counter()
        pair.check()
        loaded = time.perf_counter()
        with pair.at(0.5):
            made = time.perf_counter()
        peak.ended.set()
        peak.join()
        size, most = size_of(given.b, loading=pair.loading), peak.bytes - before
        print(
            f"{method}: loaded and checked in {loaded - began:.1f} s, a point in {made - loaded:.1f} s; one model "
            f"{size / 2**20:.0f} MiB, at most {most / 2**20:.0f} MiB: {most / size:.2f} models"
        )


if __name__ == "__main__":
    main()
