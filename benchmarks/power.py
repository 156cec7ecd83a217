"""How often a study of a few pairs sees what forgetting goes with, and how often it sees what is not there.

    python benchmarks/power.py [--studies 2000]      a minute on one core

Each simulated study has pairs of some families. Forgetting of a pair is 10 points, plus what its family adds (deviation
2 points), plus what it adds itself (2 points), plus a slope times the covariate, whose deviation is 1. The covariate
varies within families, is one number for each family, or a word of two families. Size: the slope is 0, and the
covariates are permuted. "held": a second one is fitted too, which goes with the first (correlation .5).
"""

from __future__ import annotations

import argparse

import numpy as np

from forgetwatch.metrics.trend import family_slopes

PAIRS = ((6, 3), (12, 4), (30, 8))
SLOPES = (1.0, 2.0, 4.0)
KINDS = (
    ("within families", False),
    ("within families", True),
    ("one for each family", False),
    ("a word of two", False),
)


def seen(
    pairs: int, families: int, slope: float, *, kind: str, held: bool, permuted: bool, studies: int
) -> float:
    """Share of studies in which the interval of the slope does not contain 0."""
    rng = np.random.default_rng([pairs, families, int(10 * slope), len(kind), held, permuted])
    family = np.sort(np.arange(pairs) % families)
    found = 0
    for _ in range(studies):
        of_family = rng.normal(size=families)
        if kind == "a word of two":
            of_family = rng.permutation(np.arange(families) < 2).astype(float)
        x = rng.normal(size=pairs) if kind == "within families" else of_family[family]
        y = 10 + slope * x + 2 * rng.normal(size=families)[family] + 2 * rng.normal(size=pairs)
        if permuted:
            x = (
                rng.permutation(of_family)[family]
                if kind == "a word of two"
                else rng.permutation(x)
            )
        columns = {"x": x}
        if held:
            columns["other"] = 0.5 * x + np.sqrt(0.75) * rng.normal(size=pairs)
        low, high = family_slopes(y, columns, family)["x"].interval
        found += low > 0 or high < 0
    return found / studies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    print("| pairs, families | covariate | held | permuted | 1 point | 2 points | 4 points |")
    print("|---|---|---|---:|---:|---:|---:|")
    for pairs, families in PAIRS:
        for kind, held in KINDS:
            shares = [
                seen(
                    pairs, families, slope, kind=kind, held=held, permuted=permuted, studies=studies
                )
                for slope, permuted in ((0.0, True), *((slope, False) for slope in SLOPES))
            ]
            cells = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(
                f"| {pairs}, {families} | {kind} | {'yes' if held else ''} | {cells} |", flush=True
            )


if __name__ == "__main__":
    main()
