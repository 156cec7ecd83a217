"""How much better a chosen look, or a chosen share of a merge, seems than it is.

    python benchmarks/optimism.py          a minute on one core

Each question has a lead of its right answer, in nats. A training moves it at each look by a step that is shared by all
questions and one of its own, so that looks that follow each other are alike. The true value of a look is that over
200,000 other questions of the same kind. Three trainings: one that moves questions by noise alone, one that loses more
and more, and one that gains until its middle and then loses. The chosen look is that of the highest accuracy, as
`forgetwatch report` chooses it without a figure of the new task; it is proposed only if the loss from it to the last
look is significant, at 5 % over all looks.

For a merge the leads are those of the end times alpha. Of five shares the largest is chosen that keeps 98 % of what was
clearly known, and a second probe of the same size confirms it (`forgetwatch merge --keep-known`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.significance import sign_flip

Floats = NDArray[np.float64]

MANY = 200_000
OWN, ALPHAS, LIMIT = 1.2, (0.1, 0.3, 0.5, 0.7, 0.9), 0.98
"""Nats by which the whole training moves a question by itself; shares of a merge; share of the known to be kept."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Mean lead of all questions at each look, relative to the start, in nats."""

    name: str
    path: Floats


def trainings(looks: int) -> list[Training]:
    at = np.arange(1, looks + 1) / looks
    return [
        Training(name="noise alone", path=np.zeros(looks)),
        Training(name="loses more and more", path=-0.8 * at),
        Training(name="gains, then loses", path=0.6 * at * (1 - at) * 4 - 0.8 * at),
    ]


def outcomes(training: Training, items: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Right or wrong at the start and at each look; bool [1 + looks, items]."""
    looks = len(training.path)
    start = rng.normal(0.7, 2.0, items)
    walk = np.cumsum(rng.normal(0, OWN / np.sqrt(looks), (looks, items)), axis=0)
    return np.vstack([start, start + walk + training.path[:, None]]) > 0


def proposed(
    training: Training, items: int, rng: np.random.Generator, true: Floats
) -> tuple[float, float]:
    """(Lead over the last look that the chosen look shows, its true one), in points; nan where none is proposed."""
    right = outcomes(training, items, rng)
    looks = len(right) - 1
    best = int(right[1:-1].mean(axis=1).argmax())
    change = right[-1].astype(int) - right[1 + best]
    p_value = sign_flip(change, np.arange(items)).loss_p_value
    if p_value * looks > 0.05:
        return np.nan, np.nan
    return float(-100 * change.mean()), float(true[best] - true[-1])


def kept_by_alpha(items: int, rng: np.random.Generator) -> Floats:
    """Share of the clearly known that each share of a merge keeps; float64 [alphas]."""
    start = rng.normal(0.7, 2.0, items)
    known = start > np.log(0.8 / 0.2)
    tuned = rng.normal(-1.0, 1.8, items)
    return np.array([(start[known] + alpha * tuned[known] > 0).mean() for alpha in ALPHAS])


def main() -> None:
    rng = np.random.default_rng(0)
    print(
        "| training | looks | questions | proposed | lead over the last look: shown | true | too good by, points |"
    )
    print("|---|---|---|---|---|---|---|")
    for looks in (5, 12):
        for training in trainings(looks):
            many = outcomes(training, MANY, rng).mean(axis=1)
            true = 100 * (many[1:] - many[0])
            for items in (250, 500, 2000):
                drawn = np.array([proposed(training, items, rng, true) for _ in range(400)])
                made = drawn[np.isfinite(drawn[:, 0])]
                shown, real = made.mean(axis=0) if len(made) else (np.nan, np.nan)
                told = [
                    f"{100 * len(made) / len(drawn):.0f} %",
                    f"{shown:.1f}",
                    f"{real:.1f}",
                    f"{shown - real:.1f}",
                ]
                print(f"| {training.name} | {looks} | {items:,} | {' | '.join(told)} |")
    true = kept_by_alpha(2_000_000, rng)
    print(
        "\n| questions | kept at the chosen share: shown | true | true share below 98 % | second probe shows |"
    )
    print("|---|---|---|---|---|")
    for items in (250, 500, 2000):
        shown, real, second = [], [], []
        for _ in range(1000):
            kept, again = kept_by_alpha(items, rng), kept_by_alpha(items, rng)
            enough = [at for at, share in enumerate(kept) if share >= LIMIT]
            if enough:
                at = max(enough)
                shown.append(kept[at])
                real.append(true[at])
                second.append(again[at])
        below = np.mean(np.array(real) < LIMIT)
        cells = [f"{100 * np.mean(one):.1f} %" for one in (shown, real)]
        print(
            f"| {items:,} | {' | '.join(cells)} | {100 * below:.0f} % | {100 * np.mean(second):.1f} % |"
        )
    told = [f"{alpha:g}: {100 * share:.1f} %" for alpha, share in zip(ALPHAS, true, strict=True)]
    print("true shares:", ", ".join(told))


if __name__ == "__main__":
    main()
