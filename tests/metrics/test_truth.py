"""The correction finds a planted truth, and each way of getting it wrong is caught by the same check.

The full tables are made by benchmarks/truth.py.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from worlds import know_or_guess, logits

from forgetwatch.metrics.guessing import Answers, guess_corrected, paper
from forgetwatch.metrics.known import count_known

Estimator = Callable[[Answers], tuple[float, float]]
TASKS, ITEMS = 300, 250
TOLERANCE = 0.006
"""Three standard errors of the mean over tasks, at least."""

WORLDS = {
    "nothing forgotten, fresh guesses": {"known": 0.6},
    "mild, guesses persist": {"known": 0.6, "lost": 0.05, "won": 0.1, "persistence": 0.9},
    "moderate, three to six options": {
        "known": 0.4,
        "lost": 0.2,
        "won": 0.05,
        "persistence": 0.3,
        "mixed": True,
    },
    "some give no answer": {"known": 0.3, "lost": 0.2, "won": 0.1, "silent": 0.5},
}


def is_right(estimator: Estimator) -> bool:
    """True if the mean over tasks is the truth, in every world and both directions."""
    right = True
    for number, given in enumerate(WORLDS.values()):
        rng, settings = np.random.default_rng(number), dict(given)
        mixed, found = settings.pop("mixed", False), []
        for _ in range(TASKS):
            k = rng.integers(3, 7, ITEMS) if mixed else 4
            world = know_or_guess(rng, n=ITEMS, k=k, **settings)
            found.append(estimator(world.answers))
        errors = np.mean(found, axis=0) - (world.lost, world.won)
        right &= bool((np.abs(errors) < TOLERANCE).all())
    return right


def ours(answers: Answers) -> tuple[float, float]:
    found = guess_corrected(answers)
    return found.forgetting, found.backward_transfer


def by_formula(
    answers: Answers, *, sign: float = 1.0, less: int = 1, wrong: int = 2, nulls: bool = True
) -> tuple[float, float]:
    """The formula written down anew, with a place for each mistake."""
    k, none = answers.k.astype(float), -1

    def direction(
        before: np.ndarray, after: np.ndarray, first: np.ndarray, then: np.ndarray
    ) -> float:
        churn = ~before & ~after & (first != none) & (then != none) & (first != then)
        z = k / (k - less) * ((before & ~after & (then != none)) - sign * churn / (k - wrong))
        if nulls:
            z = (
                z
                + 1.0 * (before & (then == none))
                - (~before & (first != none) & (then == none)) / (k - 1)
            )
        return float(z.mean())

    sides = (answers.before, answers.after), (answers.chosen_before, answers.chosen_after)
    return direction(*sides[0], *sides[1]), direction(*sides[0][::-1], *sides[1][::-1])


def raw(answers: Answers) -> tuple[float, float]:
    return float(np.mean(answers.before & ~answers.after)), float(
        np.mean(~answers.before & answers.after)
    )


def papers(answers: Answers) -> tuple[float, float]:
    found = paper(answers.before, answers.after, answers.k)
    return found.forgetting_unclipped, found.backward_transfer_unclipped


def test_the_correction_is_right_and_is_the_formula() -> None:
    assert is_right(ours)
    assert is_right(by_formula)
    answers = know_or_guess(
        np.random.default_rng(1), n=500, known=0.5, lost=0.1, silent=0.2
    ).answers
    assert ours(answers) == pytest.approx(by_formula(answers))


@pytest.mark.parametrize(
    "mistaken",
    [
        pytest.param(lambda a: by_formula(a, sign=-1.0), id="a switched sign"),
        pytest.param(lambda a: by_formula(a, wrong=1), id="k-1 for k-2"),
        pytest.param(lambda a: by_formula(a, less=0), id="no k/(k-1)"),
        pytest.param(lambda a: by_formula(a, nulls=False), id="no answers dropped"),
        pytest.param(
            lambda a: tuple(max(rate, 0.0) for rate in ours(a)), id="clipped before averaging"
        ),
        pytest.param(lambda a: ours(replace(a, k=np.full_like(a.k, 4))), id="one k for all"),
        pytest.param(raw, id="raw"),
        pytest.param(papers, id="the paper's rule"),
    ],
)
def test_the_check_catches_every_mistake(mistaken: Estimator) -> None:
    assert not is_right(mistaken)


def test_known_and_lost_stays_right_where_corrections_do_not() -> None:
    """Partial knowledge, nothing planted: raw 2.4 and guess-corrected 1.0 points, known and lost none."""
    rng, found = np.random.default_rng(3), []
    for _ in range(40):
        world = logits(rng, n=2000, unknown="partial", lost=0.0, noise=0.3)
        known = count_known(world.confidence)
        found.append((*raw(world.answers)[:1], ours(world.answers)[0], known.known_lost / 2000))
    raw_rate, corrected, known_rate = np.mean(found, axis=0)
    assert raw_rate > 0.02
    assert corrected > 0.008
    assert known_rate < 0.0005
