"""Intervals and tests against scipy, statsmodels-free published values, and their own definitions.

Sampled decoding and measuring twice, on worked numbers and simulated samples.

Every quantity is defined where there is little to count: no item, one item, all right, all wrong, k = 1, k mixed.
"""

import math
import statistics
from dataclasses import asdict, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.guessing import Answers, as_released, guess_corrected, paper
from forgetwatch.metrics.intervals import (
    cluster_codes,
    clustered_mean,
    effective_items,
    flip_interval,
    mean_interval,
    newcombe,
    wilson,
)
from forgetwatch.metrics.known import Confidence, count_known
from forgetwatch.metrics.log_score import log_score
from forgetwatch.metrics.noise import noise_floor, null
from forgetwatch.metrics.significance import loss_p_value, mcnemar, sign_flip, smallest_loss
from forgetwatch.metrics.transitions import Cells, count_cells, guesser_history, item_history


@pytest.mark.parametrize(("count", "n"), [(0, 10), (1, 10), (37, 100), (10, 10), (1127, 12032)])
def test_wilson_is_scipys(count: int, n: int) -> None:
    expected = stats.binomtest(count, n).proportion_ci(method="wilson")
    assert wilson(count, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_intervals_of_nothing_are_nan() -> None:
    assert all(math.isnan(end) for end in (*wilson(0, 0), *flip_interval(0, 0)))
    nothing = newcombe(Cells(retained=0, forgotten=0, gained=0, missed=0))
    assert all(math.isnan(end) for end in nothing)


def test_no_flips_have_the_exact_one_sided_limit() -> None:
    low, high = flip_interval(0, 100)
    assert low == 0.0
    assert (1 - high) ** 100 == pytest.approx(0.05)
    assert high == pytest.approx(3 / 100, rel=0.02)
    assert flip_interval(1, 100) == wilson(1, 100)


def test_newcombe_gives_fagerlands_published_interval() -> None:
    # Fagerland, Lydersen and Laake 2014, table n11, n10, n01, n00 = 1, 1, 7, 12, as p10 - p01: -.507 to -.026
    low, high = newcombe(Cells(retained=1, forgotten=1, gained=7, missed=12))
    assert (-high, -low) == pytest.approx((-0.507, -0.026), abs=5e-4)


def score_ends(count: int, n: int, *, level: float) -> tuple[float, float]:
    """Shares whose score statistic equals the normal quantile, by bisection: Wilson's ends without his formula."""
    z, share = statistics.NormalDist().inv_cdf((1 + level) / 2), count / n

    def end(outside: float) -> float:
        inside = share
        for _ in range(200):
            middle = (inside + outside) / 2
            rejected = abs(share - middle) > z * math.sqrt(middle * (1 - middle) / n)
            inside, outside = (inside, middle) if rejected else (middle, outside)
        return inside

    return end(0.0), end(1.0)


# The first table is 6.2 of Altman, Machin, Bryant and Gardner 2000, Statistics with Confidence. In it n11 n00 exceeds
# n10 n01 by more than n/2 (phi .7233, and .7748 without the correction), in the second by less (0), and in the third
# it is below (-.3162, which has no correction).
@pytest.mark.parametrize(
    ("table", "phi"),
    [
        ((14, 5, 0, 22), (Fraction(14 * 22 - 5 * 0) - Fraction(41, 2), 19 * 22 * 14 * 27)),
        ((59, 6, 16, 80), (Fraction(59 * 80 - 6 * 16) - Fraction(161, 2), 65 * 96 * 75 * 86)),
        ((3, 4, 5, 9), (Fraction(0), 7 * 14 * 8 * 13)),
        ((2, 9, 7, 5), (Fraction(2 * 5 - 9 * 7), 11 * 12 * 9 * 14)),
    ],
)
@pytest.mark.parametrize("level", [0.95, 0.9])
def test_newcombe_squares_and_adds_with_the_corrected_phi(
    table: tuple[int, int, int, int], phi: tuple[Fraction, int], level: float
) -> None:
    retained, forgotten, gained, missed = table
    n, correlation = sum(table), float(phi[0]) / math.sqrt(phi[1])
    one, other = (retained + forgotten) / n, (retained + gained) / n
    (low_one, high_one), (low_other, high_other) = (
        score_ends(count, n, level=level) for count in (retained + forgotten, retained + gained)
    )
    down, up = (other - low_other, high_one - one), (high_other - other, one - low_one)
    expected = [
        other - one + sign * math.sqrt(a * a - 2 * correlation * a * b + b * b)
        for sign, (a, b) in ((-1, down), (1, up))
    ]
    cells = Cells(retained=retained, forgotten=forgotten, gained=gained, missed=missed)
    assert newcombe(cells, level=level) == pytest.approx(expected, abs=1e-9)


def test_the_continuity_correction_of_phi_shows_in_the_third_digit() -> None:
    """With the plain phi of Altman's table .7748 the interval would be -.222 to -.016."""
    cells = Cells(retained=14, forgotten=5, gained=0, missed=22)
    assert newcombe(cells) == pytest.approx((-0.2265, -0.0115), abs=5e-5)


def test_newcombe_turns_around_with_the_direction() -> None:
    low, high = newcombe(Cells(retained=40, forgotten=12, gained=5, missed=43))
    back = newcombe(Cells(retained=40, forgotten=5, gained=12, missed=43))
    assert back == pytest.approx((-high, -low))


@given(*[st.integers(0, 400)] * 4)
def test_newcombe_holds_the_change_and_stays_in_range(a: int, b: int, c: int, d: int) -> None:
    cells = Cells(retained=a, forgotten=b, gained=c, missed=d)
    if cells.n:
        low, high = newcombe(cells)
        assert -1 <= low <= cells.net_change + 1e-12
        assert cells.net_change - 1e-12 <= high <= 1


def test_clustered_mean_of_single_rows_is_the_usual_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=50)
    mean, error = clustered_mean(values, np.arange(50))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(stats.sem(values))
    copied = clustered_mean(np.repeat(values, 4), np.repeat(np.arange(50), 4))
    assert copied == pytest.approx((mean, error))


def test_clustered_mean_of_little_has_no_error() -> None:
    assert all(math.isnan(x) for x in clustered_mean(np.array([]), np.array([], int)))
    assert math.isnan(clustered_mean(np.array([1.0]), np.array([0]))[1])


def test_effective_items_of_single_rows_are_the_rows() -> None:
    values = np.random.default_rng(1).normal(size=400)
    assert effective_items(values, np.arange(400)) == pytest.approx(400, rel=0.02)


def test_copies_are_worth_one_item() -> None:
    values = np.random.default_rng(1).normal(size=400)
    assert effective_items(np.repeat(values, 5), np.repeat(np.arange(400), 5)) == pytest.approx(
        400, rel=0.02
    )


def test_rows_that_cancel_within_their_cluster_are_worth_themselves_at_most() -> None:
    assert effective_items(np.tile([1.0, -1.0], 50), np.repeat(np.arange(50), 2)) == 100


def test_equal_rows_are_worth_the_number_of_their_clusters() -> None:
    assert effective_items(np.zeros(0), np.zeros(0, int)) == 0
    assert effective_items(np.ones(5), np.zeros(5, int)) == 1
    assert effective_items(np.ones(6), np.repeat([3, 9], 3)) == 2  # nothing differs: the clusters


def test_cluster_codes_have_no_gaps() -> None:
    assert cluster_codes(np.array([7, 3, 7, 100])).tolist() == [1, 0, 1, 2]
    assert cluster_codes(np.array([], int)).size == 0


def test_the_interval_of_a_mean_stays_in_its_range() -> None:
    assert mean_interval(0.5, 0.1) == pytest.approx((0.5 - 0.195996, 0.5 + 0.195996), abs=1e-5)
    assert mean_interval(0.95, 0.1)[1] == 1.0
    assert all(math.isnan(end) for end in mean_interval(0.5, math.nan))


def test_few_clusters_are_worth_less_by_their_t_quantile() -> None:
    values, cluster = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]), np.repeat(np.arange(4), 2)
    error = clustered_mean(values, cluster)[1]
    wider = stats.t.ppf(0.975, 3) / stats.norm.ppf(0.975)
    assert effective_items(values, cluster) == pytest.approx(
        min(values.var() / error**2 / wider**2, 8)
    )


def test_equal_values_have_no_standard_error() -> None:
    assert math.isnan(clustered_mean(np.full(9, 0.25))[1])
    assert math.isnan(clustered_mean(np.full(9, 0.25), np.arange(9) // 3)[1])


def samples(rng: np.random.Generator, shares: np.ndarray, number: int) -> np.ndarray:
    """Right answers, bool [items * number], samples of an item side by side."""
    return (rng.random((len(shares), number)) < shares[:, None]).ravel()


def test_an_unchanged_model_is_at_its_noise_floor() -> None:
    rng = np.random.default_rng(1)
    shares, number = rng.beta(0.5, 0.5, 4000), 4
    item = np.repeat(np.arange(4000), number)
    found = noise_floor(
        samples(rng, shares, number), samples(rng, shares, number), item, samples=number
    )
    assert found == pytest.approx(np.mean(shares * (1 - shares)), abs=0.004)


def test_pairs_of_the_same_sample_are_not_counted() -> None:
    """Two samples that were drawn with common numbers agree sample by sample; that says nothing about the noise."""
    right = np.array([True, False, True, False])
    found = noise_floor(right, right, np.array([0, 0, 1, 1]), samples=2)
    assert found == 0.5


def test_the_floor_needs_two_samples() -> None:
    assert noise_floor(np.array([True]), np.array([True]), np.array([0]), samples=1) is None
    assert noise_floor(np.zeros(0, bool), np.zeros(0, bool), np.zeros(0, int), samples=2) is None


def test_rows_of_an_item_may_come_in_any_order() -> None:
    rng = np.random.default_rng(4)
    before, after, item = rng.random(30) < 0.5, rng.random(30) < 0.5, np.repeat(np.arange(10), 3)
    order = rng.permutation(30)
    assert noise_floor(before, after, item, samples=3) == noise_floor(
        before[order], after[order], 7 * item[order], samples=3
    )


def test_measuring_twice_counts_the_flips() -> None:
    before, again = np.array([True, True, False, False]), np.array([1.0, 0.0, 1.0, np.nan])
    found = null(before, again)
    assert (found.measured, found.null_lost, found.null_gained) == (3, 1, 1)
    assert null(before, np.full(4, np.nan)) is None
    halves = null(before, again, samples=2)
    assert halves.null_lost == 0.5


CASES = {
    "no item": (0, [], []),
    "one item, lost": (1, [True], [False]),
    "one item, kept": (1, [True], [True]),
    "all right": (5, [True] * 5, [True] * 5),
    "all wrong": (5, [False] * 5, [False] * 5),
    "all lost": (5, [True] * 5, [False] * 5),
}
OPTIONS = {
    "k = 1": [1],
    "k = 2": [2],
    "k = 4": [4],
    "k mixed": [1, 2, 3, 4, 10],
    "open answers": [-1],
}


def everything(
    before: np.ndarray, after: np.ndarray, k: np.ndarray, *, clustered: bool
) -> list[Any]:
    """Each quantity once."""
    n = len(before)
    cluster = np.arange(n) // 2 if clustered else None
    share = np.linspace(0.05, 0.95, n)
    cells = count_cells(before, after)
    rows = k >= 2
    options = np.maximum(k[rows], 2)
    answers = Answers(
        before=before[rows],
        after=after[rows],
        chosen_before=np.where(before[rows], 0, options - 1),
        chosen_after=np.where(after[rows], 0, 1),
        k=options,
        golds=np.ones(len(options), np.int64),
        task=np.zeros(len(options), np.int64),
        cluster=None if cluster is None else cluster[rows],
    )
    sizes = np.maximum(k, 0)
    scores = OptionScores(sizes, np.linspace(-3, 0, sizes.sum()), np.arange(sizes.sum()) % 3 == 0)
    clear = Confidence(
        before=before,
        after=after,
        share_before=share,
        share_after=share,
        wrong_share=share,
        other_wrong=~before & ~after,
        k=k,
        golds=np.ones(n, np.int64),
        cluster=cluster,
    )
    change = after.astype(np.int64) - before
    lost, won = int(cells.forgotten), int(cells.gained)
    return [
        cells.net_change,
        cells.retention,
        count_known(clear),
        paper(before, after, k, cluster=cluster),
        as_released(before, after, k=4),
        guess_corrected(answers),
        noise_floor(before, after, np.arange(n), samples=1),
        null(before, after.astype(float)),
        wilson(lost, n),
        flip_interval(lost, n),
        newcombe(cells),
        clustered_mean(change.astype(float), cluster),
        effective_items(change.astype(float), np.arange(n) // 2),
        mcnemar(lost, won),
        mcnemar(lost, won, mid=False),
        loss_p_value(lost, won),
        sign_flip(change, np.arange(n) // 2),
        newcombe(cells),
        smallest_loss(lost + won, 0.001),
        item_history(np.stack([before, after])).temporal_forgetting,
        guesser_history(1 / k[k >= 1], looks=2).temporal_forgetting,
        log_score(scores, scores.take(np.arange(n)[::-1]), cluster=cluster),
    ]


def numbers(value: Any) -> list[float]:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in numbers(part)]
    return [] if value is None or isinstance(value, str) else [float(value)]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("n", "before", "after"), CASES.values(), ids=CASES)
def test_every_quantity_is_a_number_or_says_that_it_is_none(
    n: int, before: list[bool], after: list[bool], options: list[int], clustered: bool
) -> None:
    k = np.resize(np.array(options), n)
    found = everything(np.array(before, bool), np.array(after, bool), k, clustered=clustered)
    for number in numbers(found):
        assert math.isnan(number) or math.isinf(number) or -1e6 < number < 1e6
    if n == 0:  # rates of nothing are nan, never 0
        assert math.isnan(found[0])
        assert math.isnan(found[3].forgetting)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.booleans())
def test_rates_stay_in_their_range_and_intervals_hold_them(
    seed: int, n: int, clustered: bool
) -> None:
    rng = np.random.default_rng(seed)
    before, after, k = rng.random(n) < 0.5, rng.random(n) < 0.5, rng.integers(1, 6, n)
    cluster = rng.integers(0, 5, n) if clustered else None
    found = paper(before, after, k, cluster=cluster)
    if found.n:
        assert -1 <= found.forgetting_unclipped <= 1
        low, high = found.forgetting_interval
        assert math.isnan(low) or low <= found.forgetting_unclipped <= high
