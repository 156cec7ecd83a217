"""Mass and conditional: exact splits, and what is left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.log_score import log_shares
from forgetwatch.metrics.mass import mass_changes, split

Rows = list[list[float]]


def options(
    rows: Rows, golds: list[list[int]] | None = None, scores: Rows | None = None
) -> OptionScores:
    """Options with these log-likelihoods; the first is right, or those of `golds`."""
    right = golds or [[0]] * len(rows)
    mask = [index in of for row, of in zip(rows, right, strict=True) for index in range(len(row))]
    flat = np.array([value for row in rows for value in row], float)
    decides = (
        flat if scores is None else np.array([value for row in scores for value in row], float)
    )
    return OptionScores(np.array([len(row) for row in rows]), decides, np.array(mask), flat)


def drawn(rng: np.random.Generator, rows: int = 40) -> tuple[Rows, Rows, list[list[int]]]:
    """Log-likelihoods of two sides and right options, one to five options a row, some rows with several right ones."""
    ks = rng.integers(1, 6, rows).tolist()
    sides = [[(-rng.exponential(12, k) - 3).tolist() for k in ks] for _ in range(2)]
    return sides[0], sides[1], [rng.permutation(k)[: rng.integers(1, k + 1)].tolist() for k in ks]


@given(st.integers(0, 2**32 - 1))
def test_the_change_of_log_p_of_gold_is_the_sum_of_the_two_changes(seed: int) -> None:
    before, after, golds = drawn(np.random.default_rng(seed))
    found = split(options(before, golds), options(after, golds))
    for row, (was, now, of) in enumerate(zip(before, after, golds, strict=True)):
        change = logsumexp([now[i] for i in of]) - logsumexp([was[i] for i in of])
        assert found.mass_change[row] + found.conditional_change[row] == pytest.approx(
            change, abs=1e-12
        )
        assert found.mass_before[row] == pytest.approx(logsumexp(was), abs=1e-12)


def test_adding_a_constant_to_all_options_changes_the_mass_alone() -> None:
    before, _, golds = drawn(np.random.default_rng(3))
    found = split(
        options(before, golds), options([[x - 2.5 for x in row] for row in before], golds)
    )
    assert found.mass_change == pytest.approx(np.full(40, -2.5))
    assert found.conditional_change == pytest.approx(np.zeros(40), abs=1e-12)


def test_sums_that_differ_by_their_rounding_alone_have_not_changed() -> None:
    before, _, golds = drawn(np.random.default_rng(3))
    found = split(
        options(before, golds), options([[x - 2.5 for x in row] for row in before], golds)
    )
    assert (found.conditional_after != found.conditional_before).any()
    assert (found.conditional_change == 0).all()


def test_items_of_several_samples_are_counted_once() -> None:
    before, after, golds = drawn(np.random.default_rng(7), 60)
    found = split(options(before, golds), options(after, golds))
    means = mass_changes(found, forgotten=np.arange(60) < 30, samples=3)
    assert (means.n, means.forgotten_n) == (20, 10)


def test_log_c_is_that_of_the_log_likelihoods_and_not_of_the_scores_that_decide() -> None:
    rows = [[-4.0, -5.0, -9.0], [-2.0, -2.5, -1.0]]
    by_length = [[-1.0, -5.0, -3.0], [-2.0, -0.5, -1.0]]
    found = split(options(rows, scores=by_length), options(rows))
    assert found.conditional_before == pytest.approx(log_shares(options(rows)))
    assert found.conditional_before != pytest.approx(log_shares(options(rows, scores=by_length)))


def test_rows_that_cannot_be_split_are_nan() -> None:
    fine, infinite = [-1.0, -2.0], [-1.0, -math.inf]
    before = options([fine, fine, [], fine, fine, infinite, []])
    after = options([fine, [], fine, [-1.0, -2.0, -3.0], infinite, infinite, []])
    found = split(before, after)
    assert found.measured.tolist() == [True] + [False] * 6
    for values in vars(found).values():
        assert np.isfinite(values[0])
        assert np.isnan(values[1:]).all()


def test_an_item_without_a_right_option_or_without_log_likelihoods_is_not_split() -> None:
    rows = [[-1.0, -2.0]]
    assert split(options(rows, [[]]), options(rows)) is None
    scores_alone = OptionScores(np.array([2]), np.array(rows[0]), np.array([True, False]))
    assert split(scores_alone, options(rows)) is None


def test_means_and_errors_are_those_of_clustered_means_over_all_and_over_the_forgotten() -> None:
    rng = np.random.default_rng(5)
    before, after, golds = drawn(rng, 60)
    after[7] = [-math.inf] * len(after[7])
    found = split(options(before, golds), options(after, golds))
    forgotten, cluster = rng.random(60) < 0.4, rng.integers(0, 20, 60)
    forgotten[7] = True
    means = mass_changes(found, forgotten=forgotten, cluster=cluster)
    kept = found.measured
    assert (means.n, means.forgotten_n) == (59, (kept & forgotten).sum())
    for change, values, rows in (
        (means.mass, found.mass_change, kept),
        (means.conditional, found.conditional_change, kept),
        (means.forgotten_mass, found.mass_change, kept & forgotten),
        (means.forgotten_conditional, found.conditional_change, kept & forgotten),
    ):
        assert (change.mean, change.error) == clustered_mean(values[rows], cluster[rows])
        assert change.observations == len(set(cluster[rows].tolist()))
    nobody = mass_changes(found, forgotten=np.zeros(60, bool))
    assert nobody.forgotten_mass is nobody.forgotten_conditional is None


def test_the_same_options_twice_change_by_zero_with_an_interval_of_zero() -> None:
    before, _, golds = drawn(np.random.default_rng(6))
    found = split(options(before, golds), options(before, golds))
    means = mass_changes(found, forgotten=np.zeros(40, bool))
    for change in (means.mass, means.conditional):
        assert (change.mean, change.interval) == (0.0, (0.0, 0.0))
