"""How often a study of a few pairs sees what forgetting goes with, and how often it sees what is not there.

    python benchmarks/power.py [--studies 2000]      a minute on one core

Each simulated study has pairs of some families. Forgetting of a pair is 10 points, plus what its family adds (deviation
2 points), plus what it adds itself (2 points), plus a slope times the covariate, whose deviation is 1. The covariate
varies within families, or is one number for each family. Size: the covariates are permuted over the pairs. "held": a
second covariate is fitted too, which goes with the first (correlation .5).
"""

from __future__ import annotations

import argparse

import numpy as np

from forgetwatch.metrics import family_slopes

PAIRS = ((6, 3), (12, 4), (30, 8))
SLOPES = (1.0, 2.0, 4.0)


def seen(pairs: int, families: int, slope: float, *, between: bool, held: bool, permuted: bool, studies: int) -> float:
    """Share of studies in which the interval of the slope does not contain 0."""
    rng = np.random.default_rng([pairs, families, int(10 * slope), between, held, permuted])
    family = np.sort(np.arange(pairs) % families)
    found = 0
    for _ in range(studies):
        x = rng.normal(size=families)[family] if between else rng.normal(size=pairs)
        y = 10 + slope * x + 2 * rng.normal(size=families)[family] + 2 * rng.normal(size=pairs)
        columns = {"x": rng.permutation(x) if permuted else x}
        if held:
            columns["other"] = 0.5 * columns["x"] + np.sqrt(0.75) * rng.normal(size=pairs)
        low, high = family_slopes(y, columns, family)["x"].interval
        found += low > 0 or high < 0
    return found / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    options = parser.parse_args()
    print("| pairs, families | covariate | held | permuted | 1 point | 2 points | 4 points |")
    print("|---|---|---|---:|---:|---:|---:|")
    for pairs, families in PAIRS:
        for between, held in ((False, False), (False, True), (True, False)):

            def share(slope: float, *, permuted: bool = False) -> str:
                settings = {"between": between, "held": held, "permuted": permuted}  # noqa: B023 - called at once
                return f"{100 * seen(pairs, families, slope, studies=options.studies, **settings):.1f}"  # noqa: B023

            cells = [share(2.0, permuted=True), *map(share, SLOPES)]
            where = "one for each family" if between else "within families"
            print(f"| {pairs}, {families} | {where} | {'yes' if held else ''} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
