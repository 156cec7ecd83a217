"""Mean change of scores, its interval, and the part that sampling makes: against computations by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from forgetwatch.metrics.mean_score import ItemScores, graded_change, item_scores, sampling_share


def scores(before: list[float], after: list[float]) -> ItemScores:
    rows = len(before)
    return ItemScores(
        before=np.array(before),
        after=np.array(after),
        sampling=np.full(rows, 0.01),
        graded=np.ones(rows, bool),
    )


def test_items_count_alike_whatever_the_number_of_their_samples() -> None:
    mean, variance = item_scores(
        np.array([0.2, 0.4, 0.9, np.nan, 1.0, np.nan]), np.array([0, 0, 1, 1, 2, 3])
    )
    assert mean[:5] == pytest.approx([0.3, 0.3, 0.9, 0.9, 1.0])
    assert math.isnan(mean[5])
    assert variance[0] == pytest.approx(np.var([0.2, 0.4], ddof=1) / 2)
    assert np.isnan(variance[2:]).all()


@pytest.mark.parametrize("unchanged", [0, 40])
def test_the_interval_is_student_t_of_the_differences(unchanged: int) -> None:
    rng = np.random.default_rng(3)
    before = rng.random(100)
    after = np.where(np.arange(100) < unchanged, before, rng.random(100))
    change = graded_change(scores(list(before), list(after)), np.arange(100), None)
    edge = math.sqrt(unchanged / 100)
    values = np.append(after - before, [edge, -edge])
    error = values.std(ddof=1) / math.sqrt(102)
    half = stats.t.ppf(0.975, 99) * error
    mean = (after - before).mean()
    assert change.interval == pytest.approx((mean - half, mean + half), abs=1e-15)


def test_clusters_are_the_observations() -> None:
    rng = np.random.default_rng(4)
    before, after = rng.random(60), rng.random(60)
    cluster = np.repeat(np.arange(20), 3) + 7
    change = graded_change(scores(list(before), list(after)), np.arange(60), cluster)
    centred = np.append(after - before, [0.0, 0.0]) - (after - before).sum() / 62
    sums = np.append(centred[:60].reshape(20, 3).sum(1), centred[60:])
    assert change.error == pytest.approx(math.sqrt((sums**2).sum() * 22 / 21) / 62, abs=1e-15)
    assert change.observations == 20


@pytest.mark.parametrize(("items", "points"), [(60, 4.6), (500, 0.6)])
def test_nothing_changed_has_an_interval(items: int, points: float) -> None:
    same = list(np.linspace(0, 1, items))
    low, high = graded_change(scores(same, same), np.arange(items), None).interval
    assert (round(100 * low, 1), round(100 * high, 1)) == (-points, points)


def test_samples_stand_for_their_item_once() -> None:
    one = scores([0.2, 0.5, 0.9], [0.1, 0.7, 0.3])
    rows = np.repeat(np.arange(3), 4)
    assert graded_change(one.take(rows), rows, rows) == graded_change(one, np.arange(3), None)


@pytest.mark.parametrize("samples", [2, 8])
def test_sampling_share_is_what_more_samples_would_remove(samples: int) -> None:
    rng = np.random.default_rng(samples)
    items, moved, noise = 40_000, 0.1, 0.3
    true = rng.normal(0.0, moved, items)  # how far each item moved
    sides = [rng.normal(centre[:, None], noise, (items, samples)) for centre in (0 * true, true)]
    made = ItemScores(
        before=sides[0].mean(1),
        after=sides[1].mean(1),
        sampling=sum(side.var(1, ddof=1) / samples for side in sides),
        graded=np.ones(items, bool),
    )
    of_sampling = 2 * noise**2 / samples
    share = sampling_share(made, np.arange(items), None)
    assert share == pytest.approx(of_sampling / (of_sampling + moved**2), abs=0.02)


def test_one_sample_shows_no_part_of_sampling() -> None:
    made = ItemScores(
        before=np.array([0.1, 0.2]),
        after=np.array([0.3, 0.1]),
        sampling=np.full(2, np.nan),
        graded=np.ones(2, bool),
    )
    assert math.isnan(sampling_share(made, np.arange(2), None))


@pytest.mark.parametrize("items", [60, 200])
def test_the_interval_covers_about_as_often_as_it_says(items: int) -> None:
    rng = np.random.default_rng(items)
    covered, worlds = 0, 800
    for _ in range(worlds):
        right = rng.beta(1.2, 0.8, items)  # share of five tests that a sample passes
        before, after = (rng.binomial(5, right, (4, items)).mean(0) / 5 for _ in range(2))
        change = graded_change(scores(list(before), list(after)), np.arange(items), None)
        covered += change.interval[0] <= 0.0 <= change.interval[1]
    assert 0.925 <= covered / worlds <= 0.975
