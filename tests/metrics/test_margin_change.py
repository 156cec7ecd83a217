"""Net change from margins: against its formulas in plain Python, its symmetries, and its level and coverage.

Shrinkage of changes of groups, against its formulas and against planted groups.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.intervals import newcombe
from forgetwatch.metrics.margin_change import (
    CURVE,
    EXCESS,
    FEWEST,
    FEWEST_TESTED,
    FLOOR,
    Boundary,
    NetMargin,
    boundary,
    fall_test,
    margins,
    net_margin,
)
from forgetwatch.metrics.shrinkage import shrunk
from forgetwatch.metrics.transitions import count_cells

Floats = np.ndarray

finite = st.floats(-12, 12, allow_nan=False)
sides = st.integers(FEWEST, 40).flatmap(
    lambda n: st.tuples(
        st.lists(finite, min_size=n, max_size=n), st.lists(finite, min_size=n, max_size=n)
    )
)


def options(*items: tuple[list[float], set[int]]) -> OptionScores:
    """Scores of items, each with the indices of its right options."""
    return OptionScores(
        np.array([len(scores) for scores, _ in items]),
        np.array([score for scores, _ in items for score in scores]),
        np.array([index in golds for scores, golds in items for index in range(len(scores))], bool),
    )


def measured(before: Floats, after: Floats, cluster: np.ndarray | None = None) -> NetMargin:
    """Both measurements for the margins of two sides, where an answer is right with a margin above 0."""
    widths = boundary(before, after)
    assert widths is not None
    right = before > 0, after > 0
    found = net_margin(
        widths.softened(before, after),
        right[1].astype(float) - right[0],
        newcombe(count_cells(*right)),
        cluster,
    )
    assert found is not None
    return found


def world(
    rng: np.random.Generator, items: int, *, fall: float, spread: float = 1.0
) -> tuple[Floats, Floats]:
    """Margins of a model before, and of the same model whose margins fell by `fall` nats with noise."""
    before = rng.normal(1.0, 3.0, items)
    return before, before - fall + rng.normal(0, spread, items)


def test_a_margin_is_the_best_right_score_less_the_best_wrong_one() -> None:
    found = margins(
        options(
            ([-1.0, -3.0, -2.5], {0}),
            ([-1.0, -3.0, -2.5], {1, 2}),  # the better of two right options counts
            ([-1.0, -1.0], {1}),
            ([-math.inf, -2.0], {0}),
            ([-2.0, -math.inf], {0}),
        )
    )
    assert found.tolist() == [1.5, -1.5, 0.0, -math.inf, math.inf]


@pytest.mark.parametrize(
    ("scores", "golds"),
    [
        ([-1.0, -2.0], set()),
        ([-1.0, -2.0], {0, 1}),
        ([-1.0], {0}),
        ([-math.inf] * 2, {0}),
        ([math.nan, -1.0], {1}),
    ],
    ids=["no right option", "no wrong option", "one option", "nothing finite", "nan"],
)
def test_an_item_without_two_kinds_of_scores_has_no_margin(
    scores: list[float], golds: set[int]
) -> None:
    assert margins(options((scores, golds), ([-1.0, -2.0, -3.0], {0})))[0].item() != 0
    assert math.isnan(margins(options((scores, golds), ([-1.0, -2.0, -3.0], {0})))[0])


def test_the_estimate_is_that_of_its_formulas() -> None:
    before, after = world(np.random.default_rng(1), 60, fall=1.5, spread=2.5)
    found = measured(before, after)
    cdf, n = NormalDist().cdf, len(before)
    middles = [sorted(map(abs, side)) for side in (before, after)]
    medians = [(one[n // 2 - 1] + one[n // 2]) / 2 for one in middles]
    h, h_after = (
        0.75 * sum(min(abs(m), 30 * md) for m in side) / n
        for side, md in zip((before, after), medians, strict=True)
    )
    soft = [cdf(b / h_after) - cdf(a / h) for a, b in zip(before, after, strict=True)]
    flips = [int(b > 0) - int(a > 0) for a, b in zip(before, after, strict=True)]
    low, high = newcombe(count_cells(before > 0, after > 0))
    mean_soft, mean_flips = sum(soft) / n, sum(flips) / n
    v_soft = sum((x - mean_soft) ** 2 for x in soft) / (n - 1) / n
    v_flips = ((high - low) / 2 / 1.959963984540054) ** 2
    shared = float(np.corrcoef(soft, flips)[0, 1]) * math.sqrt(v_soft * v_flips)
    excess = (mean_flips - mean_soft) ** 2 - EXCESS * (v_flips + v_soft - 2 * shared)
    bias = FLOOR**2 + (CURVE * mean_soft**2) ** 2 + max(0.0, excess)
    w = min(max((v_flips - shared) / (v_flips + v_soft - 2 * shared + bias), 0), 1)
    variance = (1 - w) ** 2 * v_flips + w**2 * (v_soft + bias) + 2 * w * (1 - w) * shared
    half = float(stats.t.ppf(0.975, n - 1)) * math.sqrt(variance)
    mean = (1 - w) * mean_flips + w * mean_soft
    assert 0 < w < 1
    assert found.weight() == pytest.approx(w, rel=1e-9)
    estimate = found.estimate()
    assert estimate.mean == pytest.approx(mean, rel=1e-9)
    assert estimate.interval == pytest.approx((mean - half, mean + half), rel=1e-9)


@given(given=sides)
def test_swapped_sides_give_the_opposite_change(given: tuple[list[float], list[float]]) -> None:
    before, after = (np.array(side) for side in given)
    if boundary(before, after) is None:
        return
    one, other = measured(before, after), measured(after, before)
    assert other.margins.mean == pytest.approx(-one.margins.mean, abs=1e-12)
    assert other.weight() == pytest.approx(one.weight(), abs=1e-9)
    assert other.estimate().mean == pytest.approx(-one.estimate().mean, abs=1e-12)


@given(given=sides, factor=st.floats(0.2, 5))
def test_a_model_that_only_becomes_surer_does_not_change(
    given: tuple[list[float], list[float]], factor: float
) -> None:
    before = np.array(given[0])
    widths = boundary(before, before * factor)
    if widths is None:
        return
    assert np.abs(widths.softened(before, before * factor)).max() < 1e-12


def test_the_estimate_is_the_net_change_of_the_flips_as_items_grow() -> None:
    rng = np.random.default_rng(3)
    few, many = (measured(*world(rng, items, fall=0.4, spread=2.0)) for items in (250, 400_000))
    assert few.weight() > 0.6
    assert many.weight() < 0.1
    assert many.estimate().mean == pytest.approx(many.flips, abs=5e-4)


def test_the_interval_is_narrower_for_small_changes_and_hardly_wider_for_large_ones() -> None:
    rng = np.random.default_rng(4)
    for fall, least, most in ((0.1, 0.3, 0.8), (6.0, 0.8, 1.05)):
        found = measured(*world(rng, 300, fall=fall))
        low, high = found.estimate().interval
        assert least < (high - low) / (2 * 1.96 * math.sqrt(found.flips_variance)) < most


def test_nothing_changed_is_no_change_with_some_doubt() -> None:
    before = np.linspace(-3, 5, 30)
    found = measured(before, before)
    estimate = found.estimate()
    assert (found.flips, found.margins.mean, found.margins.error) == (0, 0, 0)
    assert estimate.mean == 0
    assert FLOOR < estimate.interval[1] < newcombe(count_cells(before > 0, before > 0))[1]


def test_rows_of_a_cluster_count_once() -> None:
    before, after = world(np.random.default_rng(5), 40, fall=0.3)
    single = measured(before, after)
    repeated = measured(
        *(np.repeat(side, 6) for side in (before, after)), cluster=np.repeat(np.arange(40), 6)
    )
    assert repeated.margins.mean == pytest.approx(single.margins.mean)
    assert repeated.margins.error == pytest.approx(single.margins.error)
    assert repeated.margins.observations == 40


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.0] * 5, [1.0] * 5), ([1.0] * 5, [math.inf] * 5), ([math.nan] * 5, [1.0] * 5), ([], [])],
    ids=["all on the boundary", "infinite", "no margin", "no item"],
)
def test_without_a_mean_distance_there_is_no_boundary(
    before: list[float], after: list[float]
) -> None:
    assert boundary(np.array(before, float), np.array(after, float)) is None


def test_margins_that_are_all_equal_have_no_spread() -> None:
    found = measured(np.full(8, 2.0), np.full(8, 2.0))
    assert (found.margins.error, found.correlation) == (0, 0)
    assert found.estimate().mean == 0


def test_an_infinite_margin_of_one_item_is_a_whole_answer() -> None:
    widths = Boundary(h=1.0, h_after=1.0)
    assert widths.softened(
        np.array([-math.inf, 0.0]), np.array([math.inf, -math.inf])
    ).tolist() == [1.0, -0.5]


def test_few_items_have_no_estimate() -> None:
    values = np.zeros(FEWEST - 1)
    assert net_margin(values, values, (-0.1, 0.1)) is None


@pytest.mark.parametrize("items", [50, 250])
def test_sides_swapped_at_random_are_called_a_change_at_the_level_of_the_interval(
    items: int,
) -> None:
    """5 % of the intervals of S leave out 0, of 4,000 exchangeable pairs, within 4 standard errors."""
    rng = np.random.default_rng(items)
    runs, called = 4_000, 0
    before, after = world(rng, items, fall=0.8, spread=2.0)
    widths = Boundary(h=2.0, h_after=2.0)
    softened = widths.softened(before, after)
    for _ in range(runs):
        swapped = softened * rng.choice([-1, 1], items)
        found = net_margin(swapped, swapped, (-0.1, 0.1))
        assert found is not None
        called += not found.margins.interval[0] <= 0 <= found.margins.interval[1]
    assert abs(called / runs - 0.05) < 4 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(("fall", "spread", "least"), [(0.0, 1.5, 0.92), (0.3, 0.5, 0.86)])
def test_the_interval_covers_the_net_change_of_the_items_that_were_not_drawn(
    fall: float, spread: float, least: float
) -> None:
    """Draws of 250 of 4,000 items; S takes .5 points of 4.0 too few where the margins of all items fall alike."""
    rng = np.random.default_rng(7)
    before, after = world(rng, 4_000, fall=fall, spread=spread)
    flips = (after > 0).astype(float) - (before > 0)
    covered = 0
    for _ in range(500):
        drawn = rng.permutation(4_000) < 250
        low, high = measured(before[drawn], after[drawn]).estimate().interval
        covered += low <= float(flips[~drawn].mean()) <= high
    assert covered / 500 >= least


def test_a_fall_is_tested_with_one_more_observation_of_plus_1() -> None:
    softened = np.random.default_rng(5).normal(-0.02, 0.1, 80)
    found = fall_test(softened)
    assert found is not None
    expected = stats.ttest_1samp([*softened, 1.0], 0.0, alternative="less").pvalue
    assert found.p_value == pytest.approx(expected)
    level = 0.001
    moved = fall_test(softened - (found.smallest_fall(level) + softened.mean()))
    assert moved is not None
    # The observation that was added does not move with the others, and varies more beside them.
    assert level < moved.p_value < 2 * level


def test_a_fall_over_clusters_has_their_sums_and_a_further_one_as_observations() -> None:
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 5, 60)
    cluster, values = np.repeat(np.arange(60), sizes), np.repeat(rng.normal(-0.05, 0.1, 60), sizes)
    found = fall_test(values, cluster)
    assert found is not None
    assert found.change.observations == 61
    mean = len(values) / 60
    sums = [values[cluster == one].sum() / mean for one in range(60)]
    expected = stats.ttest_1samp([*sums, sizes.max() / mean], 0.0, alternative="less").pvalue
    assert found.p_value == pytest.approx(expected)
    assert found.p_value > fall_test(values).p_value  # type: ignore[union-attr]


def test_few_items_are_not_tested_and_a_rise_of_all_is_no_fall() -> None:
    assert fall_test(np.full(FEWEST_TESTED - 1, -0.5)) is None
    rise = fall_test(np.ones(FEWEST_TESTED))
    assert rise is not None
    assert rise.p_value > 0.8
    fall = fall_test(np.full(FEWEST_TESTED, -0.5))
    assert fall is not None
    assert fall.p_value < 1e-6


INDEX = np.arange(400)
MARGINS = (INDEX % 21 - 9.5) / 2
WORKED = {
    "noise and a fall": (
        MARGINS - 0.4 + 0.3 * (INDEX % 7 - 3),
        (2.104313, -0.0475, 1.18227e-4, -0.037421, 1.29032e-5, 2.38439e-5, 0.781095),
        (-0.039627, -0.050360, -0.028895),
        1.5e-14,
    ),
    "right answers less sure, none flipped": (
        np.where(MARGINS > 0, 0.6 * MARGINS, MARGINS),
        (1.546125, 0.0, 6.23825e-6, -0.037596, 8.3796e-7, 0.00142331, 0.004361),
        (-0.000164, -0.005063, 0.004736),
        8e-32,
    ),
}
"""Margins after, then h', R, V_R, S, V_S, b^2, w; the estimate with its interval; and p of the fall.

Computed by a program of its own that follows the formulas of the module."""


@pytest.mark.parametrize("case", WORKED)
def test_worked_cases(case: str) -> None:
    after, (h_after, flips, v_flips, soft, v_soft, bias, weight), (mean, low, high), p_value = (
        WORKED[case]
    )
    widths = boundary(MARGINS, after)
    assert widths is not None
    assert (widths.h, widths.h_after) == pytest.approx((1.977187, h_after), abs=1e-6)
    found = measured(MARGINS, after)
    assert (found.flips, found.margins.mean) == pytest.approx((flips, soft), abs=1e-6)
    assert (found.flips_variance, found.margins.error**2, found.bias) == pytest.approx(
        (v_flips, v_soft, bias), rel=1e-4
    )
    assert found.weight() == pytest.approx(weight, abs=1e-5)
    estimate = found.estimate()
    assert (estimate.mean, *estimate.interval) == pytest.approx((mean, low, high), abs=1e-6)
    fall = fall_test(widths.softened(MARGINS, after))
    assert fall is not None
    assert fall.p_value == pytest.approx(p_value, rel=0.05)


def test_one_margin_does_not_decide_the_width() -> None:
    """A sentinel of a million, or an infinite margin, counts as 30 times the median."""
    before = np.random.default_rng(8).normal(1, 3, 200)
    plain = boundary(before, before)
    assert plain is not None
    for extreme in (1e6, math.inf):
        widths = boundary(np.append(before, extreme), np.append(before, 1.0))
        assert widths is not None
        assert plain.h < widths.h < 1.2 * plain.h


def test_margins_that_contradict_the_flips_give_way() -> None:
    """Half of the right answers are lost, and no margin moves: the estimate is that of the flips."""
    rng = np.random.default_rng(9)
    before = rng.normal(0.5, 2, 300)
    flipped = np.where((before > 0) & (rng.random(300) < 0.5), -1.0, 0.0)
    lost = int(-flipped.sum())
    cells = count_cells(np.arange(300) < lost, np.zeros(300, bool))
    found = net_margin(np.zeros(300), flipped, newcombe(cells))
    assert found is not None
    assert found.weight() < 0.05
    assert found.estimate().mean == pytest.approx(found.flips, abs=0.01)


def test_a_group_is_charged_at_least_the_bias_of_all() -> None:
    found = measured(*world(np.random.default_rng(10), 60, fall=0.2))
    assert found.weight(least_bias=0.01) < found.weight()
    assert found.estimate(least_bias=0.01).error > found.estimate().error
    assert found.estimate(least_bias=found.bias / 2) == found.estimate()


def test_one_cluster_shows_no_spread() -> None:
    values = np.linspace(-1, 1, 20)
    assert net_margin(values, np.sign(values), (-0.1, 0.1), np.zeros(20, np.int64)) is None


def test_it_follows_the_formulas() -> None:
    changes, errors, overall = np.array([-0.10, 0.02, 0.05]), np.array([0.02, 0.03, 0.04]), -0.01
    w = [1 / error**2 for error in errors]
    u = sum(weight * change for weight, change in zip(w, changes, strict=True)) / sum(w)
    q = sum(weight * (change - u) ** 2 for weight, change in zip(w, changes, strict=True))
    between = (q - 2) / (sum(w) - sum(each**2 for each in w) / sum(w))
    found = shrunk(changes, errors, overall=overall)
    assert found.p_value == pytest.approx(stats.chi2.sf(q, 2))
    assert found.spread == pytest.approx(math.sqrt(between))
    expected = [
        overall + between / (between + error**2) * (change - overall)
        for change, error in zip(changes, errors, strict=True)
    ]
    assert found.values == pytest.approx(expected)


def test_groups_that_differ_by_less_than_chance_are_all_the_change_of_all() -> None:
    found = shrunk(np.array([-0.01, 0.01, 0.0]), np.full(3, 0.05), overall=-0.002)
    assert found.spread == 0
    assert found.values == pytest.approx([-0.002] * 3)
    assert found.p_value > 0.9


def test_fewer_than_two_groups_are_left_as_they_are() -> None:
    found = shrunk(np.array([-0.1]), np.array([0.01]), overall=0.0)
    assert (found.values.tolist(), math.isnan(found.p_value), found.spread) == ([-0.1], True, 0.0)


@pytest.mark.parametrize("spread", [0.0, 0.03])
def test_the_shown_worst_is_nearer_to_the_truth_than_the_observed_worst(spread: float) -> None:
    rng, errors = np.random.default_rng(3), np.full(9, 0.03)
    observed, shown, ranked = [], [], 0
    for _ in range(400):
        truth = -0.02 + spread * rng.normal(size=9)
        seen = truth + errors * rng.normal(size=9)
        found = shrunk(seen, errors, overall=float(seen.mean()))
        at = int(seen.argmin())
        observed.append(seen[at] - truth[at])
        shown.append(found.values[at] - truth[at])
        ranked += found.p_value <= 0.05
    assert np.mean(np.square(shown)) < 0.6 * np.mean(np.square(observed))
    assert abs(np.mean(shown)) < 0.5 * abs(np.mean(observed))
    assert (ranked / 400 < 0.08) == (spread == 0)
