"""The corrections on worked numbers, and on simulated answers whose truth is known.

The paper's rule on its own example, on worked numbers, and against repeated samples.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import know_or_guess, logits, rights

from forgetwatch.metrics.guessing import Answers, as_released, guess_corrected, paper


def answers(**columns: Any) -> Answers:
    rows = len(columns["before"])
    given_columns = {"golds": np.ones(rows, np.int64), "task": np.zeros(rows, np.int64), **columns}
    kinds = {"before": bool, "after": bool, "second_before": float, "second_after": float}
    return Answers(
        **{
            name: np.asarray(values, kinds.get(name, np.int64))
            for name, values in given_columns.items()
        }
    )


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
def test_guess_corrected_finds_the_truth_where_the_papers_rule_does_not(
    k: int, persists: float
) -> None:
    made, lost, won = world(
        np.random.default_rng(7), n=60_000, k=k, persistence=persists, lost=0.06, won=0.08
    )
    result = guess_corrected(made)
    assert result.forgetting == pytest.approx(lost, abs=0.006)
    assert result.backward_transfer == pytest.approx(won, abs=0.006)
    assert abs(paper(made.before, made.after, made.k).forgetting - lost) > 0.008


def test_the_standard_error_is_the_spread_over_repetitions() -> None:
    rng = np.random.default_rng(3)
    results = [
        guess_corrected(world(rng, n=400, k=4, persistence=0.5, lost=0.1, won=0.1)[0])
        for _ in range(400)
    ]
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
    made = answers(
        before=[1, 0],
        after=[0, 0],
        chosen_before=[0, 2],
        chosen_after=[3, 4],
        k=[6, 6],
        golds=[2, 2],
    )
    result = guess_corrected(made)
    assert result.forgetting == pytest.approx((1.5 - 1.5 * 2 / 3) / 2)


def test_guess_corrected_needs_two_wrong_options() -> None:
    assert (
        guess_corrected(answers(before=[1], after=[0], chosen_before=[0], chosen_after=[1], k=[2]))
        is None
    )


def test_the_band_is_its_formula() -> None:
    made = logits(
        np.random.default_rng(1), n=800, unknown="attractor", lost=0.05, noise=0.8
    ).answers
    result = guess_corrected(made)
    p10, p01 = np.mean(made.before & ~made.after), np.mean(~made.before & made.after)
    correction = 0.5 * np.mean(made.wrong_to_other_wrong)
    low = max(0, p10 - min(2 * correction, p01)) - 1.645 * result.forgetting_se
    high = 4 / 3 * (p10 - correction / 2) + 1.645 * result.forgetting_se
    assert result.forgetting_band == pytest.approx((low, high))
    assert result.forgetting == pytest.approx(4 / 3 * (p10 - correction))


def test_both_directions_change_places_with_the_models() -> None:
    made = logits(
        np.random.default_rng(1), n=300, unknown="attractor", lost=0.05, noise=0.8
    ).answers
    turned = replace(
        made,
        **{one: getattr(made, other) for one, other in TURNED.items()},
        **{other: getattr(made, one) for one, other in TURNED.items()},
    )
    there, back = guess_corrected(made), guess_corrected(turned)
    for name in ("", "_se", "_band"):
        one, other = getattr(there, f"forgetting{name}"), getattr(back, f"backward_transfer{name}")
        assert one == pytest.approx(other)
        assert getattr(back, f"forgetting{name}") == pytest.approx(
            getattr(there, f"backward_transfer{name}")
        )
    assert there.n == back.n == 300


TURNED = {"before": "after", "chosen_before": "chosen_after"}


def test_the_band_holds_the_truth_where_the_plain_interval_does_not() -> None:
    rng, plain, band, runs = np.random.default_rng(5), 0, 0, 60
    for _ in range(runs):
        found = guess_corrected(
            logits(rng, n=1000, unknown="ruled out", lost=0.03, noise=1.0).answers
        )
        plain += abs(found.forgetting - 0.03) <= 1.96 * found.forgetting_se
        band += found.forgetting_band[0] <= 0.03 <= found.forgetting_band[1]
    assert plain / runs < 0.4
    assert band / runs > 0.9


def bias(unknown: Any, *, noise: float, runs: int = 80) -> float:
    """Mean error in points, where 3 points were planted."""
    rng = np.random.default_rng(6)
    made = [
        logits(rng, n=1000, unknown=unknown, lost=0.03, noise=noise).answers for _ in range(runs)
    ]
    return float(np.mean([100 * (guess_corrected(one).forgetting - 0.03) for one in made]))


def test_the_directions_of_error_are_those_that_the_documentation_states() -> None:
    assert bias("exchangeable", noise=0.3) == pytest.approx(0.0, abs=0.35)
    assert bias("ruled out", noise=0.3) > 1.0
    assert bias("partial", noise=1.0) > 2.0
    assert bias("attractor", noise=1.0) < -0.5


def test_the_band_is_within_minus_one_and_one() -> None:
    """Two items: the standard error of 4/3 and -2/3 is 1."""
    found = guess_corrected(
        answers(before=[1, 0], after=[0, 0], chosen_before=[0, 1], chosen_after=[1, 2], k=[4, 4])
    )
    assert found.forgetting_se == pytest.approx(1.0)
    assert found.forgetting_band == (-1.0, 1.0)
    assert found.backward_transfer_band == (
        pytest.approx(-1.645 / 3),
        pytest.approx(-1 / 6 + 1.645 / 3),
    )


@given(st.integers(0, 2**32 - 1))
def test_the_same_answers_twice_lose_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = rng.integers(3, 6, 20)
    chosen = rng.integers(0, k)
    right = chosen == 0
    made = answers(before=right, after=right, chosen_before=chosen, chosen_after=chosen, k=k)
    result = guess_corrected(made)
    assert (result.forgetting, result.backward_transfer) == (0.0, 0.0)


def test_the_papers_own_example_gives_eight_percent_by_its_own_formula() -> None:
    before, after = rights(70, 10, 0, 20)
    result = paper(before, after, np.full(100, 4))
    assert result.expected == pytest.approx(0.2 * 0.3 / 3)
    assert result.forgetting == pytest.approx(0.0800, abs=1e-12)


def test_the_papers_forgetting_can_exceed_its_own_maximum() -> None:
    before, after = rights(0, 30, 30, 40)
    result = paper(before, after, np.full(100, 4))
    assert result.forgetting == pytest.approx(0.1367, abs=5e-5)
    assert result.forgetting_max == pytest.approx(0.0667, abs=5e-5)


def test_the_largest_rates_add_up_over_groups_of_equal_k() -> None:
    """Of 100 items with k = 4, 70 and then 80 are right; with k = 2 60 and 90. (k acc - 1)/(k-1) adds up by items."""
    (four, four_after), (two, two_after) = rights(70, 0, 10, 20), rights(60, 0, 30, 10)
    result = paper(np.r_[four, two], np.r_[four_after, two_after], np.repeat([4, 2], 100))
    assert result.forgetting_max_unclipped == pytest.approx((0.6 + 0.2) / 2)
    assert result.backward_transfer_max_unclipped == pytest.approx(((4 * 0.8 - 1) / 3 + 0.8) / 2)
    assert result.forgetting_max == result.forgetting_max_unclipped
    assert result.backward_transfer_max == result.backward_transfer_max_unclipped


def test_the_largest_rates_of_a_model_below_chance_are_clipped_to_zero() -> None:
    result = paper(*rights(10, 0, 5, 85), np.full(100, 4))
    assert result.forgetting_max_unclipped == pytest.approx((0.4 - 1) / 3)
    assert result.backward_transfer_max_unclipped == pytest.approx((0.6 - 1) / 3)
    assert (result.forgetting_max, result.backward_transfer_max) == (0.0, 0.0)


def test_chance_adds_up_over_groups_of_equal_k_and_leaves_out_single_options() -> None:
    before = np.array([True, True, False, False, True, False, True])
    after = np.array([False, True, False, True, False, False, False])
    k = np.array([2, 2, 2, 5, 5, 5, 1])
    result = paper(before, after, k)
    two, five = (1 / 3) * (2 / 3) / 1, (2 / 3) * (2 / 3) / 4
    assert result.n == 6
    assert result.expected == pytest.approx((two + five) / 2)
    assert result.forgetting_unclipped == pytest.approx(2 / 6 - (two + five) / 2)


def test_the_paper_keeps_what_clipping_hides() -> None:
    before, after = rights(10, 0, 10, 80)
    result = paper(before, after, np.full(100, 2))
    assert result.forgetting == 0.0
    assert result.forgetting_unclipped == pytest.approx(-0.9 * 0.8)


def test_the_paper_is_undefined_without_options() -> None:
    result = paper(np.array([True]), np.array([False]), np.array([-1]))
    assert result.n == 0
    assert math.isnan(result.forgetting)


def test_half_known_and_nothing_forgotten_is_reported_as_forgetting() -> None:
    """The closed form of fresh guesses: (k-1)/k^2 of the variance of knowing, 6.25, 4.69 and 2.25 %."""
    rng = np.random.default_rng(2)
    for k, expected in ((2, 0.0625), (4, 0.0469), (10, 0.0225)):
        answers = know_or_guess(rng, n=400_000, k=k, known=0.5).answers
        assert paper(answers.before, answers.after, answers.k).forgetting == pytest.approx(
            expected, abs=0.002
        )


def test_the_standard_error_is_the_spread_over_repetitions_of_paper() -> None:
    rng, rates, errors = np.random.default_rng(3), [], []
    for _ in range(500):
        k = rng.choice([2, 4, 10], 300)
        answers = know_or_guess(
            rng, n=300, k=k, known=0.5, lost=0.2, won=0.1, persistence=0.3
        ).answers
        result = paper(answers.before, answers.after, answers.k)
        rates.append((result.forgetting_unclipped, result.backward_transfer_unclipped))
        errors.append((result.forgetting_se, result.backward_transfer_se))
    assert np.std(rates, axis=0) == pytest.approx(np.mean(errors, axis=0), rel=0.1)


def test_the_standard_error_is_the_delta_methods() -> None:
    """Gradient over (p11, p10, p01, p00), times the covariance of a multinomial."""
    before, after = rights(40, 12, 5, 43)
    result, n, k = paper(before, after, np.full(100, 4)), 100, 4
    shares, acc, acc_after = np.array([40, 12, 5, 43]) / n, 0.52, 0.45
    wrong, wrong_after = 1 - acc, 1 - acc_after
    gradient = np.array(
        [0, 1 - wrong / (k - 1), -wrong_after / (k - 1), -(wrong + wrong_after) / (k - 1)]
    )
    variance = (np.dot(shares, gradient**2) - np.dot(shares, gradient) ** 2) / (n - 1)
    assert result.forgetting_se == pytest.approx(math.sqrt(variance))
    low, high = result.forgetting_interval
    assert (low + high) / 2 == pytest.approx(result.forgetting_unclipped)


def test_clusters_widen_the_standard_error() -> None:
    before, after = rights(40, 12, 5, 43)
    k = np.full(100, 4)
    single = paper(before, after, k).forgetting_se
    copies = paper(
        np.repeat(before, 9),
        np.repeat(after, 9),
        np.repeat(k, 9),
        cluster=np.repeat(np.arange(100), 9),
    )
    assert copies.forgetting_se == pytest.approx(single)


def test_the_released_code_uses_one_k_and_clips_at_once() -> None:
    before, after = rights(70, 10, 0, 20)
    assert as_released(before, after, k=4) == pytest.approx((0.08, 0.0, 2.2 / 3, 0.6))
    assert as_released(before, after, k=2) == pytest.approx((0.04, 0.0, 0.6, 0.4))
    nothing = np.zeros(0, bool)
    assert all(math.isnan(rate) for rate in as_released(nothing, nothing, k=4))


@given(st.integers(0, 2**32 - 1))
def test_forgetting_and_backward_transfer_change_places_with_the_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after, k = rng.random(40) < 0.5, rng.random(40) < 0.6, rng.integers(1, 6, 40)
    one, other = paper(before, after, k), paper(after, before, k)
    assert one.forgetting_unclipped == pytest.approx(other.backward_transfer_unclipped, nan_ok=True)
    assert one.forgetting_se == pytest.approx(other.backward_transfer_se, nan_ok=True)
