"""The corrections on worked numbers, and on simulated answers whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import logits

from forgetwatch.metrics import (
    Answers,
    guess_corrected,
    paper,
)


def answers(**columns: Any) -> Answers:
    rows = len(columns["before"])
    given_columns = {"golds": np.ones(rows, np.int64), "task": np.zeros(rows, np.int64), **columns}
    kinds = {"before": bool, "after": bool, "second_before": float, "second_after": float}
    return Answers(**{name: np.asarray(values, kinds.get(name, np.int64)) for name, values in given_columns.items()})


def together(one: Answers, other: Answers) -> Answers:
    """The answers of two tasks."""
    columns = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])
        for name in Answers.__dataclass_fields__
        if name not in ("task", "cluster", "samples")
    }
    return Answers(**columns, task=np.repeat([0, 1], [len(one.k), len(other.k)]))


def world(
    rng: np.random.Generator, *, n: int, k: int, persistence: float, lost: float, won: float
) -> tuple[Answers, float, float]:
    """Know-or-guess answers with a preferred position; guesses persist with a probability. And the true rates."""
    known = rng.random(n) < 0.55
    known_after = np.where(known, rng.random(n) >= lost, rng.random(n) < won)
    preference = np.r_[0.4, np.full(k - 1, 0.6 / (k - 1))]
    gold = rng.integers(0, k, n)
    guess = rng.choice(k, n, p=preference)
    guess_after = np.where(rng.random(n) < persistence, guess, rng.choice(k, n, p=preference))
    chosen, chosen_after = np.where(known, gold, guess), np.where(known_after, gold, guess_after)
    made = answers(
        before=chosen == gold,
        after=chosen_after == gold,
        chosen_before=chosen,
        chosen_after=chosen_after,
        k=np.full(n, k),
    )
    return made, float((known & ~known_after).mean()), float((~known & known_after).mean())


@pytest.mark.parametrize(("k", "persists"), [(3, 0.0), (4, 0.5), (5, 0.9)])
def test_guess_corrected_finds_the_truth_where_the_papers_rule_does_not(k: int, persists: float) -> None:
    made, lost, won = world(np.random.default_rng(7), n=60_000, k=k, persistence=persists, lost=0.06, won=0.08)
    result = guess_corrected(made)
    assert result.forgetting == pytest.approx(lost, abs=0.006)
    assert result.backward_transfer == pytest.approx(won, abs=0.006)
    assert abs(paper(made.before, made.after, made.k).forgetting - lost) > 0.008


def test_the_standard_error_is_the_spread_over_repetitions() -> None:
    rng = np.random.default_rng(3)
    results = [guess_corrected(world(rng, n=400, k=4, persistence=0.5, lost=0.1, won=0.1)[0]) for _ in range(400)]
    rates = [r.forgetting for r in results if r]
    errors = [r.forgetting_se for r in results if r]
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.12)


def test_guess_corrected_item_by_item() -> None:
    # right->other, wrong->other wrong, right->none, wrong->none, none->right, none->wrong; k = 4, lambda = 1/2
    made = answers(
        before=[1, 0, 1, 0, 0, 0],
        after=[0, 0, 0, 0, 1, 0],
        chosen_before=[0, 1, 0, 1, -1, -1],
        chosen_after=[1, 2, -1, -1, 0, 1],
        k=[4] * 6,
    )
    result = guess_corrected(made)
    assert result.n == 6
    assert result.forgetting == pytest.approx((4 / 3 - 4 / 3 / 2 + 1 - 1 / 3) / 6)
    assert result.backward_transfer == pytest.approx((0 - 4 / 3 / 2 + 1 - 1 / 3) / 6)


def test_several_right_options_change_every_factor() -> None:
    # k = 6 with 2 right: k/g = 3, so k/(k-1) -> 3/2 and lambda -> 2/3
    made = answers(before=[1, 0], after=[0, 0], chosen_before=[0, 2], chosen_after=[3, 4], k=[6, 6], golds=[2, 2])
    result = guess_corrected(made)
    assert result.forgetting == pytest.approx((1.5 - 1.5 * 2 / 3) / 2)


def test_guess_corrected_needs_two_wrong_options() -> None:
    assert guess_corrected(answers(before=[1], after=[0], chosen_before=[0], chosen_after=[1], k=[2])) is None


CELLS = [50, 20, 5, 25]


def test_the_band_is_its_formula() -> None:
    made = logits(np.random.default_rng(1), n=800, unknown="attractor", lost=0.05, noise=0.8).answers
    result = guess_corrected(made)
    p10, p01 = np.mean(made.before & ~made.after), np.mean(~made.before & made.after)
    correction = 0.5 * np.mean(made.wrong_to_other_wrong)
    low = max(0, p10 - min(2 * correction, p01)) - 1.645 * result.forgetting_se
    high = 4 / 3 * (p10 - correction / 2) + 1.645 * result.forgetting_se
    assert result.forgetting_band == pytest.approx((low, high))
    assert result.forgetting == pytest.approx(4 / 3 * (p10 - correction))


def test_both_directions_change_places_with_the_models() -> None:
    made = logits(np.random.default_rng(1), n=300, unknown="attractor", lost=0.05, noise=0.8).answers
    turned = replace(
        made,
        **{one: getattr(made, other) for one, other in TURNED.items()},
        **{other: getattr(made, one) for one, other in TURNED.items()},
    )
    there, back = guess_corrected(made), guess_corrected(turned)
    for name in ("", "_se", "_band"):
        one, other = getattr(there, f"forgetting{name}"), getattr(back, f"backward_transfer{name}")
        assert one == pytest.approx(other)
        assert getattr(back, f"forgetting{name}") == pytest.approx(getattr(there, f"backward_transfer{name}"))
    assert there.n == back.n == 300


TURNED = {"before": "after", "chosen_before": "chosen_after"}


def test_the_band_holds_the_truth_where_the_plain_interval_does_not() -> None:
    rng, plain, band, runs = np.random.default_rng(5), 0, 0, 60
    for _ in range(runs):
        found = guess_corrected(logits(rng, n=1000, unknown="ruled out", lost=0.03, noise=1.0).answers)
        plain += abs(found.forgetting - 0.03) <= 1.96 * found.forgetting_se
        band += found.forgetting_band[0] <= 0.03 <= found.forgetting_band[1]
    assert plain / runs < 0.4
    assert band / runs > 0.9


def bias(unknown: Any, *, noise: float, runs: int = 80) -> float:
    """Mean error in points, where 3 points were planted."""
    rng = np.random.default_rng(6)
    made = [logits(rng, n=1000, unknown=unknown, lost=0.03, noise=noise).answers for _ in range(runs)]
    return float(np.mean([100 * (guess_corrected(one).forgetting - 0.03) for one in made]))


def test_the_directions_of_error_are_those_that_the_documentation_states() -> None:
    assert bias("exchangeable", noise=0.3) == pytest.approx(0.0, abs=0.35)
    assert bias("ruled out", noise=0.3) > 1.0
    assert bias("partial", noise=1.0) > 2.0
    assert bias("attractor", noise=1.0) < -0.5


def test_the_band_is_within_minus_one_and_one() -> None:
    """Two items: the standard error of 4/3 and -2/3 is 1."""
    found = guess_corrected(answers(before=[1, 0], after=[0, 0], chosen_before=[0, 1], chosen_after=[1, 2], k=[4, 4]))
    assert found.forgetting_se == pytest.approx(1.0)
    assert found.forgetting_band == (-1.0, 1.0)
    assert found.backward_transfer_band == (pytest.approx(-1.645 / 3), pytest.approx(-1 / 6 + 1.645 / 3))


@given(st.integers(0, 2**32 - 1))
def test_the_same_answers_twice_lose_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = rng.integers(3, 6, 20)
    chosen = rng.integers(0, k)
    right = chosen == 0
    made = answers(before=right, after=right, chosen_before=chosen, chosen_after=chosen, k=k)
    result = guess_corrected(made)
    assert (result.forgetting, result.backward_transfer) == (0.0, 0.0)
