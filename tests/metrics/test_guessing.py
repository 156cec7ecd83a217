"""The corrections on worked numbers, and on simulated answers whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import logits, rights

from forgetwatch.metrics import (
    MAX_SECOND_CHOICE,
    Answers,
    bound,
    guess_corrected,
    guess_corrected_calibrated,
    paper,
    persistence,
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


def test_persistence_next_to_the_share_that_fresh_guesses_would_keep() -> None:
    made = answers(
        before=[0, 0, 0, 1], after=[0, 0, 0, 0], chosen_before=[1, 1, 2, 0], chosen_after=[1, 2, 2, 3], k=[4, 4, 4, 4]
    )
    result = persistence(made)
    assert result.same_wrong == pytest.approx(2 / 3)
    assert result.same_wrong_if_fresh == pytest.approx(1 / 3)
    assert result.tipping_ratio == pytest.approx(2.0)  # one flip, one changed wrong answer, k - 2 = 2


def test_the_tipping_ratio_without_changed_wrong_answers_is_infinite_or_undefined() -> None:
    lost = answers(before=[1], after=[0], chosen_before=[0], chosen_after=[1], k=[4])
    kept = answers(before=[1], after=[1], chosen_before=[0], chosen_after=[0], k=[4])
    assert persistence(lost).tipping_ratio == math.inf
    assert math.isnan(persistence(kept).tipping_ratio)
    assert math.isnan(persistence(kept).same_wrong)


def test_the_bound_runs_from_net_loss_to_scaled_flips() -> None:
    before, after = rights(*CELLS)
    one = np.ones(100, np.int64)
    result = bound(before, after, np.full(100, 2), one)
    assert result.forgetting == pytest.approx((0.15, 0.40))
    assert result.backward_transfer == pytest.approx((0.0, 0.10))
    assert bound(before, after, one, one) is None
    several = bound(before, after, np.full(100, 6), 2 * one)
    assert several.forgetting == pytest.approx((0.15, 0.20 * 6 / 4))


def test_rows_without_a_wrong_option_take_no_part_in_the_bound() -> None:
    before, after = rights(10, 20, 5, 15)
    one = np.ones(50, np.int64)
    alone = bound(before, after, np.full(50, 4), one)
    mixed = np.r_[before, before], np.r_[after, after], np.r_[np.full(50, 4), one], np.r_[one, one]
    assert bound(*mixed) == bound(*mixed, cluster=np.arange(100)) == alone


def test_the_bounds_ends_are_shares() -> None:
    """Among two options twice the flips could be forgotten; 70 flips of 100 would be a share of 1.4."""
    before, after = rights(10, 70, 5, 15)
    result = bound(before, after, np.full(100, 2), np.ones(100, np.int64))
    assert result.forgetting == (pytest.approx(0.65), 1.0)
    assert result.forgetting_interval[1] == 1.0
    assert result.backward_transfer == pytest.approx((0.0, 0.10))
    flips = 2.0 * (~before & after)
    assert result.backward_transfer_interval == (0.0, pytest.approx(0.10 + 1.645 * stats.sem(flips)))


def test_the_bounds_interval_adds_the_error_of_each_end() -> None:
    before, after = rights(*CELLS)
    result = bound(before, after, np.full(100, 4), np.ones(100, np.int64))
    net, flips = 1.0 * (before & ~after) - (~before & after), (before & ~after) * 4 / 3
    assert result.forgetting_interval == pytest.approx(
        (0.15 - 1.645 * stats.sem(net), 0.20 * 4 / 3 + 1.645 * stats.sem(flips))
    )


CELLS = [50, 20, 5, 25]


@pytest.mark.parametrize("estimator", [guess_corrected, guess_corrected_calibrated])
def test_the_band_is_its_formula(estimator: Any) -> None:
    made = logits(np.random.default_rng(1), n=800, unknown="attractor", lost=0.05, noise=0.8).answers
    result = estimator(made)
    h = 1 / 3 if result.second_choice is None else result.second_choice
    p10, p01 = np.mean(made.before & ~made.after), np.mean(~made.before & made.after)
    correction = h / (1 - h) * np.mean(made.wrong_to_other_wrong)
    low = max(0, p10 - min(2 * correction, p01)) - 1.645 * result.forgetting_se
    high = 4 / 3 * (p10 - correction / 2) + 1.645 * result.forgetting_se
    assert result.forgetting_band == pytest.approx((low, high))
    assert result.forgetting == pytest.approx(4 / 3 * (p10 - correction))


@pytest.mark.parametrize("estimator", [guess_corrected, guess_corrected_calibrated])
def test_both_directions_change_places_with_the_models(estimator: Any) -> None:
    made = logits(np.random.default_rng(1), n=300, unknown="attractor", lost=0.05, noise=0.8).answers
    turned = replace(
        made,
        **{one: getattr(made, other) for one, other in TURNED.items()},
        **{other: getattr(made, one) for one, other in TURNED.items()},
    )
    there, back = estimator(made), estimator(turned)
    for name in ("", "_se", "_band"):
        one, other = getattr(there, f"forgetting{name}"), getattr(back, f"backward_transfer{name}")
        assert one == pytest.approx(other)
        assert getattr(back, f"forgetting{name}") == pytest.approx(getattr(there, f"backward_transfer{name}"))
    assert there.n == back.n == 300


TURNED = {"before": "after", "chosen_before": "chosen_after", "second_before": "second_after"}


def test_the_band_holds_the_truth_where_the_plain_interval_does_not() -> None:
    rng, plain, band, runs = np.random.default_rng(5), 0, 0, 60
    for _ in range(runs):
        found = guess_corrected(logits(rng, n=1000, unknown="ruled out", lost=0.03, noise=1.0).answers)
        plain += abs(found.forgetting - 0.03) <= 1.96 * found.forgetting_se
        band += found.forgetting_band[0] <= 0.03 <= found.forgetting_band[1]
    assert plain / runs < 0.4
    assert band / runs > 0.9


def bias(unknown: Any, *, noise: float, runs: int = 80) -> tuple[float, float]:
    """Mean error of the assumed and the measured ratio, in points, where 3 points were planted."""
    rng, errors = np.random.default_rng(6), []
    for _ in range(runs):
        made = logits(rng, n=1000, unknown=unknown, lost=0.03, noise=noise).answers
        found = guess_corrected(made), guess_corrected_calibrated(made)
        errors.append([100 * (one.forgetting - 0.03) for one in found if one])
    assumed, measured = np.mean(errors, axis=0)
    return assumed, measured


def test_the_measured_ratio_is_right_where_options_are_ruled_out() -> None:
    assumed, measured = bias("ruled out", noise=0.3)
    assert assumed > 1.0
    assert measured == pytest.approx(0.0, abs=0.35)


def test_both_are_right_where_unknown_options_are_alike() -> None:
    assert bias("exchangeable", noise=0.3) == pytest.approx((0.0, 0.0), abs=0.35)


def test_the_directions_of_error_are_those_that_the_documentation_states() -> None:
    assert bias("partial", noise=1.0)[0] > 2.0
    assert bias("attractor", noise=1.0)[0] < -0.5


def test_the_calibrated_standard_error_counts_the_ratio_as_estimated() -> None:
    rng, rates, errors = np.random.default_rng(7), [], []
    for _ in range(500):
        found = guess_corrected_calibrated(logits(rng, n=300, unknown="exchangeable", lost=0.05, noise=1.0).answers)
        rates.append(found.forgetting)
        errors.append(found.forgetting_se)
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.08)


def test_the_calibrated_standard_error_by_hand() -> None:
    # four items, k = 4: right->wrong, wrong->other wrong twice, wrong->right; gold second in 3 of 6 wrong answers
    made = answers(
        before=[1, 0, 0, 0],
        after=[0, 0, 0, 1],
        chosen_before=[0, 1, 1, 2],
        chosen_after=[1, 2, 3, 0],
        k=[4] * 4,
        second_before=[np.nan, 1, 0, 1],
        second_after=[1, 0, 0, np.nan],
    )
    found = guess_corrected_calibrated(made)
    h, d, r = 0.5, 2 / 4, 4 / 3
    assert found.second_choice == h
    influence = 4 * np.array([1 - h, (1 - h) + (0 - h), 2 * (0 - h), 1 - h]) / 6
    z = r * (np.array([1, 0, 0, 0]) - h / (1 - h) * np.array([0, 1, 1, 0]) - d / (1 - h) ** 2 * influence)
    assert found.forgetting == pytest.approx(z.mean())
    assert found.forgetting_se == pytest.approx(stats.sem(z))


def test_the_ratio_is_measured_within_task_and_number_of_options() -> None:
    rng = np.random.default_rng(8)
    even = logits(rng, n=2000, unknown="exchangeable", lost=0.0, noise=1.0).answers
    skewed = logits(rng, n=2000, unknown="ruled out", lost=0.0, noise=1.0).answers
    both = together(even, skewed)
    apart = guess_corrected_calibrated(both)
    alone = [guess_corrected_calibrated(one) for one in (even, skewed)]
    assert apart.forgetting == pytest.approx(np.mean([one.forgetting for one in alone if one]))
    pooled = guess_corrected_calibrated(replace(both, task=0 * both.task))
    assert pooled.forgetting != pytest.approx(apart.forgetting, abs=1e-4)


def test_the_measured_ratio_is_over_the_wrong_answers_of_all_tasks() -> None:
    """Gold is second in 1 of 4 wrong answers of one task and in 3 of 6 of another: 4 of 10 together."""
    one = answers(
        before=[0, 0],
        after=[0, 0],
        chosen_before=[1, 2],
        chosen_after=[2, 2],
        k=[4, 4],
        second_before=[1, 0],
        second_after=[0, 0],
    )
    other = answers(
        before=[0, 0, 0],
        after=[0, 0, 0],
        chosen_before=[1, 2, 3],
        chosen_after=[2, 2, 3],
        k=[4, 4, 4],
        second_before=[1, 1, 0],
        second_after=[0, 0, 1],
    )
    found = guess_corrected_calibrated(together(one, other))
    assert found.second_choice == pytest.approx(0.4)
    # lambda = h/(1-h) is 1/3 in one task and 1 in the other; one wrong answer of each became another.
    assert found.forgetting == pytest.approx(-4 / 3 * (1 / 3 + 1) / 5)


@pytest.mark.parametrize("strata", [((0, 7, 1), (1, 3, 1)), ((0, 5, 3), (0, 6, 1))])
def test_each_task_number_of_options_and_of_right_ones_has_its_own_ratio(
    strata: tuple[tuple[int, int, int], ...],
) -> None:
    """Gold is never second in the first stratum, and in every other wrong answer of the second."""
    task, k, golds = np.repeat(np.array(strata).T, 4, axis=1)
    found = guess_corrected_calibrated(
        answers(
            before=[0] * 8,
            after=[0] * 8,
            chosen_before=k - 1,
            chosen_after=k - 2,
            k=k,
            golds=golds,
            task=task,
            second_before=[0] * 4 + [1] * 4,
            second_after=[0] * 8,
        )
    )
    _, k_second, golds_second = strata[1]
    assert found.forgetting == pytest.approx(-0.5 * k_second / (k_second - golds_second))


def test_the_band_is_within_minus_one_and_one() -> None:
    """Two items: the standard error of 4/3 and -2/3 is 1."""
    found = guess_corrected(answers(before=[1, 0], after=[0, 0], chosen_before=[0, 1], chosen_after=[1, 2], k=[4, 4]))
    assert found.forgetting_se == pytest.approx(1.0)
    assert found.forgetting_band == (-1.0, 1.0)
    assert found.backward_transfer_band == (pytest.approx(-1.645 / 3), pytest.approx(-1 / 6 + 1.645 / 3))


def test_a_task_whose_wrong_answers_stay_needs_no_ratio() -> None:
    """Gold is always second there: the ratio would be infinite, and nothing is multiplied with it."""
    columns = {"before": [0] * 9, "after": [0] * 9, "chosen_before": [1] * 9, "k": [4] * 9}
    still = answers(**columns, chosen_after=[1] * 9, second_before=[1] * 9, second_after=[1] * 9)
    moved = answers(**columns, chosen_after=[2] * 9, second_before=[0] * 9, second_after=[1] * 9)
    found = guess_corrected_calibrated(together(still, moved))
    assert (found.n, found.forgetting) == (18, pytest.approx(-4 / 3 * 9 / 18))
    assert math.isfinite(found.forgetting_se)


def test_a_second_choice_that_is_always_gold_gives_no_estimate() -> None:
    columns = {"before": [0] * 9, "after": [0] * 9, "chosen_before": [1] * 9, "chosen_after": [2] * 9, "k": [4] * 9}
    sure = answers(**columns, second_before=[1] * 9, second_after=[1] * 9)
    assert MAX_SECOND_CHOICE < 1
    assert guess_corrected_calibrated(sure) is None
    assert guess_corrected_calibrated(answers(**columns)) is None  # no scores
    other = answers(**columns, second_before=[0] * 9, second_after=[1] * 9)
    found = guess_corrected_calibrated(together(sure, other))
    assert (found.n, found.second_choice) == (9, 0.5)  # the other task's items only


@given(st.integers(0, 2**32 - 1))
def test_the_same_answers_twice_lose_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = rng.integers(3, 6, 20)
    chosen = rng.integers(0, k)
    right = chosen == 0
    made = answers(before=right, after=right, chosen_before=chosen, chosen_after=chosen, k=k)
    result = guess_corrected(made)
    assert (result.forgetting, result.backward_transfer) == (0.0, 0.0)
