"""The log score: its value, its change three ways, and the test of a fall.

Bits per byte: their value, their change, and the interval of the change.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from worlds import draw_rows, option_scores, score_changes

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.log_score import (
    FEWEST_SCORED,
    Passages,
    bits_per_byte,
    log_score,
    log_shares,
)

N = 400


def world(
    seed: int, *, noise: float = 0.7, shift: float = 0.0, factor: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of four options, the right one first, before and after training."""
    rng = np.random.default_rng(seed)
    shared = 2 * rng.normal(size=(N, 4)) + np.array([1.0, 0, 0, 0])
    before, after = (
        shared + noise * rng.normal(size=(N, 4)),
        shared + noise * rng.normal(size=(N, 4)),
    )
    after[:, 0] -= shift
    return before, factor * after


def plain(scores: np.ndarray) -> np.ndarray:
    """The log share of the first option, written out."""
    return np.asarray(scores[:, 0] - np.log(np.exp(scores).sum(axis=1)))


def test_every_number_against_one_written_out() -> None:
    before, after = world(1, shift=0.3)
    found = log_score(option_scores(before), option_scores(after))
    differences = plain(after) - plain(before)
    assert (found.n, found.before, found.after) == pytest.approx(
        (N, plain(before).mean(), plain(after).mean())
    )
    assert found.change.mean == pytest.approx(differences.mean())
    assert found.change.error == pytest.approx(differences.std(ddof=1) / math.sqrt(N))
    half = stats.t.ppf(0.975, N - 1) * found.change.error
    assert found.change.interval == pytest.approx(
        (differences.mean() - half, differences.mean() + half)
    )


def test_equal_sides_change_by_exactly_nothing() -> None:
    scores = option_scores(world(3)[0])
    found = log_score(scores, scores)
    assert (found.change.mean, found.change.interval) == (0.0, (0.0, 0.0))


def test_a_constant_on_all_options_of_an_item_changes_nothing() -> None:
    before, after = world(4)
    moved = after + np.random.default_rng(0).normal(size=(N, 1)) * 5
    one, other = (log_score(option_scores(before), option_scores(side)) for side in (after, moved))
    assert other.change.mean == pytest.approx(one.change.mean, abs=1e-8)


def test_fewer_than_fifty_scored_items_have_means_and_no_change() -> None:
    before, after = (option_scores(side[: FEWEST_SCORED - 1]) for side in world(5))
    found = log_score(before, after)
    assert found.change is None
    assert found.before < 0


def test_rows_without_scores_and_rows_that_rule_gold_out_do_not_count() -> None:
    before, after = world(6)
    whole = option_scores(before), option_scores(after)
    short = OptionScores(
        np.r_[whole[0].k, 0, 2],
        np.r_[whole[0].scores, -math.inf, -1.0],
        np.r_[whole[0].golds, True, False],
    )
    longer = OptionScores(
        np.r_[whole[1].k, 2, 2],
        np.r_[whole[1].scores, [-1.0] * 4],
        np.r_[whole[1].golds, [True, False] * 2],
    )
    one, other = log_score(*whole), log_score(short, longer)
    assert one == other
    assert log_score(short.take(np.array([N])), longer.take(np.array([N]))) is None


def test_an_option_that_is_ruled_out_is_no_obstacle() -> None:
    before, after = world(7)
    before[:, 3] = after[:, 3] = -math.inf
    found = log_score(option_scores(before), option_scores(after))
    three = log_score(option_scores(before[:, :3]), option_scores(after[:, :3]))
    assert found.change.mean == pytest.approx(three.change.mean, abs=1e-9)


def test_items_of_one_cluster_are_one_observation() -> None:
    before, after = world(8)
    once = log_score(option_scores(before), option_scores(after))
    rows = np.tile(np.arange(N), 3)
    thrice = log_score(
        option_scores(before[rows]), option_scores(after[rows]), cluster=rows, samples=3
    )
    assert thrice.n == N
    assert thrice.change.observations == N
    assert thrice.change.interval == pytest.approx(once.change.interval)


def test_the_interval_contains_zero_where_before_and_after_are_exchangeable() -> None:
    """400 worlds."""
    inside = 0
    for seed in range(400):
        before, after = (option_scores(side[:150]) for side in world(1000 + seed))
        found = log_score(before, after)
        low, high = found.change.interval
        inside += low <= 0 <= high
    assert inside / 400 > 0.91


@pytest.mark.parametrize("change", ["noise after", "heavy tails", "clusters"])
def test_the_interval_contains_the_change_of_the_population(change: Any) -> None:
    """100 samples of 100 items; the truth is that of 40,000."""
    rng, size = np.random.default_rng(13), 10 if change == "clusters" else 1
    scores = score_changes(rng, items=40_000, change=change, size=size)
    whole = log_score(*map(option_scores, scores))
    inside = 0
    for _ in range(100):
        rows, cluster = draw_rows(rng, 40_000, 100, size=size)
        found = log_score(*(option_scores(side[rows]) for side in scores), cluster=cluster)
        low, high = found.change.interval
        inside += low <= whole.change.mean <= high
    # Exact binomial bound, passed by chance once in ten thousand times.
    assert inside >= stats.binom.ppf(1e-4, 100, 0.94)


def test_sides_that_change_places_change_the_sign() -> None:
    before, after = world(9, shift=0.3)
    there, back = (
        log_score(*map(option_scores, (before, after))),
        log_score(*map(option_scores, (after, before))),
    )
    assert back.change.mean == pytest.approx(-there.change.mean)


def test_several_right_options_add_up() -> None:
    scores = OptionScores(np.array([3]), np.log([0.2, 0.3, 0.5]), np.array([True, False, True]))
    assert log_shares(scores) == pytest.approx(np.log([0.7]))


def passages(
    before: np.ndarray, after: np.ndarray, length: np.ndarray, cluster: np.ndarray | None = None
) -> Passages:
    return Passages(
        before=before, after=after, bytes_before=length, bytes_after=length, cluster=cluster
    )


def world_of_passages(
    rng: np.random.Generator, *, n: int, change: float, spread: float = 0.08
) -> tuple[Passages, float]:
    """Passages of unlike length and difficulty, whose bits per byte rise by `change` with a spread of their own.

    Returns:
        The passages, and the expected change of the ratio: lengths and changes are independent.
    """
    length = rng.integers(500, 2500, n).astype(float)
    rate = rng.uniform(0.7, 1.6, n)  # bits per byte before
    moved = rng.gamma(4.0, spread / 2, n) - 2 * spread + change  # skewed: a few texts move most
    nats = -math.log(2) * length
    return passages(nats * rate, nats * (rate + moved), length), change


def test_every_number_against_one_written_out_of_passages() -> None:
    rng = np.random.default_rng(1)
    length = rng.integers(100, 2000, 40).astype(float)
    before, after = -rng.uniform(0.5, 1.2, 40) * length, -rng.uniform(0.5, 1.2, 40) * length
    found = bits_per_byte(passages(before, after, length))
    bits = -before / math.log(2), -after / math.log(2)
    rates = [side.sum() / length.sum() for side in bits]
    assert (found.passages, found.before, found.after) == pytest.approx((40, *rates))
    difference = bits[1] - bits[0]
    change = difference.sum() / length.sum()
    residual = difference - change * length
    error = math.sqrt((residual**2).sum() * 40 / 39) / length.sum()
    assert found.change.mean == pytest.approx(change)
    assert found.change.error == pytest.approx(error)
    low, high = found.change.interval
    assert (low + high) / 2 == pytest.approx(change)
    assert high - low == pytest.approx(
        2 * 2.0226909 * error, rel=1e-6
    )  # Student's t with 39 degrees of freedom


def test_a_uniform_model_over_bytes_has_eight_bits_per_byte() -> None:
    length = np.array([100.0, 300.0])
    found = bits_per_byte(passages(-length * math.log(256), -length * math.log(256), length))
    assert found.before == pytest.approx(8)


def test_no_passages_have_no_bits_per_byte() -> None:
    assert bits_per_byte(passages(np.empty(0), np.empty(0), np.empty(0))) is None


def test_equal_sides_change_by_exactly_nothing_of_passages() -> None:
    one, _ = world_of_passages(np.random.default_rng(2), n=12, change=0)
    same = bits_per_byte(passages(one.before, one.before, one.bytes_before))
    assert (same.change.mean, same.change.interval) == (0.0, (0.0, 0.0))


def test_one_passage_has_a_change_and_no_interval() -> None:
    found = bits_per_byte(passages(np.array([-700.0]), np.array([-710.0]), np.array([1000.0])))
    assert found.change.mean == pytest.approx(10 / math.log(2) / 1000)
    assert all(math.isnan(end) for end in found.change.interval)


def test_swapping_before_and_after_changes_the_sign_alone() -> None:
    one, _ = world_of_passages(np.random.default_rng(3), n=30, change=0.05)
    there = bits_per_byte(one)
    back = bits_per_byte(passages(one.after, one.before, one.bytes_before))
    assert back.change.mean == pytest.approx(-there.change.mean)
    assert back.change.error == pytest.approx(there.change.error)


def test_passages_of_one_cluster_count_as_one_observation() -> None:
    one, _ = world_of_passages(np.random.default_rng(4), n=20, change=0.05)
    doubled = one.take(np.repeat(np.arange(20), 2))
    cluster = np.repeat(np.arange(20), 2)
    alone = bits_per_byte(one)
    together = bits_per_byte(passages(doubled.before, doubled.after, doubled.bytes_before, cluster))
    assert together.change.observations == 20
    assert together.change.error == pytest.approx(alone.change.error)


@pytest.mark.parametrize(("n", "least"), [(60, 0.93), (10, 0.90), (3, 0.89)])
def test_the_interval_covers_the_change(n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(2000):
        drawn, change = world_of_passages(rng, n=n, change=0.03)
        found = bits_per_byte(drawn)
        low, high = found.change.interval
        covered.append(low <= change <= high)
    assert least <= np.mean(covered) <= 0.97
