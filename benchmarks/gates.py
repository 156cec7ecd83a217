"""Error rate of `--no-worse-than 2%` by chance: measured on sampled answers, and computed for one sample.

    python benchmarks/gates.py [runs]

Unchanged: the same model answers twice. Lost: 6 points of accuracy are planted. Computed: the sum over all tables of a
multinomial distribution in which a share of the answers flips, as often one way as the other, and 60 % are right; the
items right twice, on which the interval hardly depends, at five of their quantiles.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sampled import chances, forgetful, scored, with_outcomes
from support import snapshot

from forgetwatch import compare
from forgetwatch.metrics.intervals import newcombe
from forgetwatch.metrics.transitions import Cells
from forgetwatch.policy.policy import limits_of
from forgetwatch.policy.ruling import Sides, apply_policy

TOLERANCE = 0.02
RIGHT = 0.6
NEGLIGIBLE = 1e-14
LIMITS = limits_of(no_worse_than="2%")
OUT = Console(highlight=False, width=120)


def measured(items: int, samples: int, loss: float, runs: int) -> Counter[str]:
    """The verdicts over the runs; every model is drawn anew."""
    rng = np.random.default_rng(items + samples)
    one = snapshot([True])
    template = compare(before=one, after=one)
    found: Counter[str] = Counter()
    for _ in range(runs):
        chance = chances(rng, items)
        before, after = (
            scored(rng, chance, samples),
            scored(rng, forgetful(rng, chance, loss), samples),
        )
        made = with_outcomes(template, before, after, samples)
        found[apply_policy(LIMITS, Sides(before=one, after=one), comparison=made).answer] += 1
    return found


def fails_by_chance(items: int, flips: float) -> float:
    """Probability that an unchanged model fails."""
    total = 0.0
    for flipped in range(items + 1):
        of_flips = float(stats.binom.pmf(flipped, items, flips))
        if of_flips < NEGLIGIBLE:
            continue
        retained = stats.binom(items - flipped, (RIGHT - flips / 2) / (1 - flips))
        steps = [int(retained.ppf(q)) for q in (0.025, 0.15, 0.5, 0.85, 0.975)]
        for forgotten in range(flipped + 1):
            gained = flipped - forgotten
            if forgotten - gained <= TOLERANCE * items:
                continue
            here = of_flips * float(stats.binom.pmf(forgotten, flipped, 0.5))
            if here < NEGLIGIBLE:
                continue
            failing = 0.0
            for share, n11 in zip((0.05, 0.2, 0.5, 0.2, 0.05), steps, strict=True):
                table = Cells(
                    retained=n11, forgotten=forgotten, gained=gained, missed=items - flipped - n11
                )
                failing += share * (newcombe(table)[1] < -TOLERANCE)
            total += here * failing
    return total


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    OUT.print(
        "| items | samples | unchanged: FAIL | INCONCLUSIVE | PASS | 6 points lost: PASS | FAIL |"
    )
    OUT.print("|---|---|---|---|---|---|---|")
    for items in (500, 2000):
        for samples in (1, 4):
            same, lost = (measured(items, samples, loss, runs) for loss in (0.0, 0.06))
            cells = [
                items,
                samples,
                same["FAIL"],
                same["INCONCLUSIVE"],
                same["PASS"],
                lost["PASS"],
                lost["FAIL"],
            ]
            OUT.print(f"| {' | '.join(map(str, cells))} |")
    OUT.print(
        f"\nof {runs:,} runs each\n\n| items | flips | probability that an unchanged model fails |\n|---|---|---|"
    )
    for items in (200, 500, 1000, 2000):
        for flips in (0.02, 0.05, 0.1, 0.2, 0.4):
            OUT.print(f"| {items} | {100 * flips:g} % | {fails_by_chance(items, flips):.1e} |")


if __name__ == "__main__":
    main()
