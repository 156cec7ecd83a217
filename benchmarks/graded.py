"""Comparisons of scores between wrong and right in simulated worlds: how often they say FORGOT, and what they cover.

    python benchmarks/graded.py [--worlds 2000]

A world draws how good a model is at each question, scores of each side, and compares the two. The scores are those of a
judge (a beta distribution), of five tests (a binomial share), or right and wrong with one in ten half right. Nothing
changed, or half of the questions fell by 8 or 16 points. Each finished row is printed.
"""

import argparse
import itertools
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.decision import decide

Floats = NDArray[np.float64]
FALL = 0.08
TRUE_DRAWS = 200_000


def drawn(rng: np.random.Generator, level: Floats, kind: str, samples: int) -> Floats:
    """Scores of each question and sample, [questions, samples]."""
    shape = (len(level), samples)
    if kind == "judge":
        return rng.beta(6 * level[:, None], 6 * (1 - level)[:, None], shape)
    if kind == "five tests":
        return rng.binomial(5, level[:, None], shape) / 5
    right = (rng.random(shape) < level[:, None]).astype(float)
    return np.where(rng.random(shape) < 0.1, 0.5, right)


def levels(rng: np.random.Generator, questions: int, fell: bool) -> tuple[Floats, Floats]:
    """How good the model is at each question, before and after."""
    before = rng.beta(1.2, 0.8, questions)
    falls = FALL * rng.choice(3, questions, p=[0.5, 0.3, 0.2]) if fell else 0.0
    return np.clip(before, 0.02, 0.98), np.clip(before - falls, 0.02, 0.98)


def snapshot(scores: Floats) -> Snapshot:
    """Scores as a snapshot of six categories."""
    questions, samples = scores.shape
    return Snapshot.from_columns(
        {
            "item_id": np.repeat([f"q{number}" for number in range(questions)], samples),
            "sample": np.tile(np.arange(samples), questions),
            "category": np.repeat([f"c{number % 6}" for number in range(questions)], samples),
            "correct": scores.ravel() >= 0.5,
            "score": scores.ravel(),
        },
        {},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000)
    worlds = parser.parse_args().worlds
    print(
        "| scores | questions | samples | fell | FORGOT, % | KEPT, % | covered, % | half width, points |"
    )
    print("|---|---|---|---|---|---|---|---|")
    kinds = ("judge", "five tests", "mostly right or wrong")
    for kind, questions, samples, fell in itertools.product(kinds, (60, 200, 500), (4, 1), (0, 1)):
        rng = np.random.default_rng([questions, samples, fell])
        before, after = levels(rng, TRUE_DRAWS, bool(fell))
        truth = (0.9 if kind.startswith("mostly") else 1.0) * (after - before).mean()
        words, covered, width = Counter[str](), 0, 0.0
        for _ in range(worlds):
            sides = [
                drawn(rng, level, kind, samples) for level in levels(rng, questions, bool(fell))
            ]
            comparison = compare(before=snapshot(sides[0]), after=snapshot(sides[1]))
            words[decide(comparison).word] += 1
            low, high = comparison.all["score_change_interval"]
            covered, width = covered + (low <= truth <= high), width + (high - low) / 2
        shares = [
            100 * count / worlds for count in (words["FORGOT"], words["KEPT"], covered, width)
        ]
        cells = [
            kind,
            questions,
            samples,
            "yes" if fell else "no",
            *(f"{share:.1f}" for share in shares),
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
