"""Verdicts where answers vanish: how often a model that lost exactly the limit passes.

    python benchmarks/vanished.py [runs]

Each run draws 1,000 items, 70 % of them right before; 6 % are forgotten and 4 % gained, so that the true loss is the
limit of 2 points. Then a share of the answers after vanishes: at random, or only wrong ones, or only right ones.
``own``: an unchanged model of which that share vanishes. With the rule, and without it, as the interval over the rest
alone decides.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing import TOLERANCE
from forgetwatch.comparing.verdict import verdict

ITEMS = 1000
SHARES = (0.0, 0.01, 0.05, 0.2)
OUT = Console(highlight=False, width=120)


def drawn(rng: np.random.Generator, *, changed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Right answers before and after, bool [items] each."""
    before = rng.random(ITEMS) < 0.7
    # 6 points of the 70 that are right, and 4 of the 30 that are wrong.
    flips = rng.random(ITEMS) < np.where(before, 0.06 / 0.7, 0.04 / 0.3)
    return before, before ^ flips if changed else before.copy()


def measured(which: str, share: float, runs: int) -> tuple[int, int, int]:
    """Runs that pass with the rule, and without; passes although the right answers that vanished exceed the limit."""
    rng = np.random.default_rng(round(1000 * share) + len(which))
    passed = without = exceeded = 0
    for _ in range(runs):
        before, after = drawn(rng, changed=which != "own")
        eligible = {"wrong": ~after, "right": after}.get(which, np.ones(ITEMS, bool))
        rows = np.flatnonzero(eligible)
        gone = np.zeros(ITEMS, bool)
        gone[rng.choice(rows, min(round(share * ITEMS), len(rows)), replace=False)] = True
        seen = [None if hidden else bool(right) for hidden, right in zip(gone, after, strict=True)]
        made = compare(before=snapshot(before.tolist()), after=snapshot(seen))
        word = verdict(made).word
        passed += word == "PASS"
        without += made.all.net_change_interval[0] > -TOLERANCE
        exceeded += word == "PASS" and (before & gone).mean() > TOLERANCE
    return passed, without, exceeded


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    OUT.print(f"| answers that vanish | share | PASS of {runs:,} | without the rule | PASS beyond the limit alone |")
    OUT.print("|---|---|---|---|---|")
    for which in ("at random", "wrong", "right", "own"):
        for share in SHARES:
            passed, without, exceeded = measured(which, share, runs)
            OUT.print(f"| {which} | {100 * share:g} % | {passed:,} | {without:,} | {exceeded:,} |")


if __name__ == "__main__":
    main()
