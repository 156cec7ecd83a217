"""Known and lost: the counts, what luck makes of them, and the interval of the net; losses of form, item by item."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import snapshot
from worlds import Population, confidence, option_scores, planted_losses

from forgetwatch import compare
from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.intervals import wilson
from forgetwatch.metrics.known import (
    TAU,
    Confidence,
    Known,
    count_known,
    count_losses,
    is_known,
    lost_form,
)

SURE, UNSURE = 6.0, 0.1


def items(before: list[tuple[int, float]], after: list[int], *, k: int = 4) -> Confidence:
    """Items whose right option is 0: the option chosen before with its lead in nats, and the option chosen after."""
    scores = [np.zeros((len(after), k)), np.zeros((len(after), k))]
    for row, ((chosen, lead), now) in enumerate(zip(before, after, strict=True)):
        scores[0][row, chosen], scores[1][row, now] = lead, SURE
    return confidence(option_scores(scores[0]), option_scores(scores[1]))


def test_each_count_by_hand() -> None:
    found = count_known(
        items(
            # known and kept, known and lost twice, right but unsure, then confident wrong answers: kept, moved to
            # another wrong option, moved to the right one; wrong but unsure, moved; unsure and newly known
            [
                (0, SURE),
                (0, SURE),
                (0, SURE),
                (0, UNSURE),
                (1, SURE),
                (1, SURE),
                (1, SURE),
                (1, UNSURE),
                (2, UNSURE),
            ],
            [0, 1, 2, 1, 1, 2, 0, 3, 0],
        )
    )
    assert (found.known, found.known_lost, found.newly_known) == (3, 2, 2)
    assert found.known_by_luck == pytest.approx(3 / 3)
    assert found.known_lost_by_luck == pytest.approx(1 / 2)
    assert found.known_net == pytest.approx(2)
    assert found.lost_net == pytest.approx(1.5)
    assert found.lost_net_share is None  # of 2 items
    # Wilson's limits of 2 and of 1 in 9, the second with weight 1/2, combined with the correlation of two shares of
    # one sample.
    (low, high), (low_moved, high_moved) = (0.063225, 0.547411), (0.019891, 0.435000)
    phi = -math.sqrt(2 / 9 * 1 / 9 / (7 / 9 * 8 / 9))
    below, above = (2 / 9 - low, (high_moved - 1 / 9) / 2), (high - 2 / 9, (1 / 9 - low_moved) / 2)
    expected = [
        9 * (1.5 / 9 + sign * math.sqrt(a * a + b * b - 2 * phi * a * b))
        for sign, (a, b) in ((-1, below), (1, above))
    ]
    assert found.lost_net_interval == pytest.approx(expected, abs=1e-4)


def test_known_needs_a_right_answer_and_the_share() -> None:
    right, share = np.array([True, True, False, True]), np.array([TAU, TAU - 1e-9, 0.99, np.nan])
    assert is_known(right, share).tolist() == [True, False, False, False]


def test_two_options_take_no_part() -> None:
    assert count_known(items([(0, SURE), (1, SURE)], [1, 0], k=2)) is None


def test_several_right_options_have_their_own_weights() -> None:
    k, g = 6, 2
    scores = np.zeros((2, k))
    scores[:, 4] = SURE
    after = np.zeros((2, k))
    after[0, 5] = after[1, 4] = SURE
    golds = np.tile(np.arange(k) < g, 2)
    found = count_known(
        confidence(*(OptionScores(np.full(2, k), x.ravel(), golds) for x in (scores, after)))
    )
    assert found.known_by_luck == pytest.approx(2 * g / (k - g))
    assert found.known_lost_by_luck == pytest.approx(g / (k - g - 1))


def test_without_scores_there_is_no_net_and_the_reason_is_given() -> None:
    shares_alone = replace(items([(0, SURE), (1, SURE)], [1, 2]), wrong_share=None)
    found = count_known(shares_alone)
    assert (found.known, found.known_lost) == (1, 1)
    assert found.lost_net is found.lost_net_interval is found.known_by_luck is None
    assert (
        found.why_no_net
        == "the options chosen, or the scores of the options, are not recorded on both sides"
    )


def test_without_a_wrong_answer_there_is_no_mirror_and_the_reason_is_given() -> None:
    found = count_known(items([(0, SURE), (0, SURE)], [1, 0]))
    assert found.known_lost == 1
    assert found.lost_net is None
    assert found.why_no_net == "no answer was wrong before"


def test_luck_is_measured_by_confident_wrong_answers_that_take_part() -> None:
    """Right before, unsure, without a share after, with one wrong option: none of them is a mirror."""
    made = Confidence(
        before=np.array([True, False, False, False, False]),
        after=np.zeros(5, bool),
        share_before=np.full(5, 0.05),
        share_after=np.array([0.5, 0.5, np.nan, 0.5, 0.5]),
        wrong_share=np.array([0.9, TAU - 0.01, 0.9, 0.9, TAU]),
        other_wrong=np.array([False, True, True, True, True]),
        k=np.array([4, 4, 4, 2, 5]),
        golds=np.ones(5, np.int64),
    )
    of_known, of_lost = made.luck()
    assert of_known.tolist() == [0, 0, 0, 0, 1 / 4]
    assert of_lost.tolist() == [0, 0, 0, 0, 1 / 3]


def test_a_share_is_given_from_twenty_known_items_on() -> None:
    counts = {
        "known_lost": 7.0,
        "newly_known": 0.0,
        "known_by_luck": 3.0,
        "known_lost_by_luck": 2.0,
    }
    assert Known(known=23.0, **counts).lost_net_share == 0.25
    assert Known(known=22.9, **counts).lost_net_share is None


def test_without_a_mirrored_item_that_moved_the_interval_allows_for_one_of_the_largest_weight() -> (
    None
):
    """40 items with four options, 5 known and lost; a wrong answer of three options has the weight 1, of four 1/2."""
    rows = items([(0, SURE)] * 39 + [(1, SURE)], [1] * 5 + [0] * 34 + [1])
    found = count_known(replace(rows, k=np.array([4] * 39 + [3])))
    assert (found.known_lost, found.known_lost_by_luck) == (5, 0)
    (low, high), moved = wilson(5, 40), wilson(0, 40)[1]
    expected = (5 - 40 * math.hypot(5 / 40 - low, 1.0 * moved), 40 * high)
    assert found.lost_net_interval == pytest.approx(expected)


def test_newly_known_items_are_the_lost_ones_with_the_sides_swapped() -> None:
    before = [(0, SURE)] * 30 + [(1, SURE)] * 12
    after = [0] * 25 + [1] * 5 + [0] * 4 + [2] * 6 + [1] * 2
    made = items(before, after)
    found, swapped = count_known(made), count_known(made.reversed)
    assert found.newly_known_net == pytest.approx(swapped.lost_net)
    assert found.newly_known_net_interval == pytest.approx(swapped.lost_net_interval)
    assert swapped.newly_known_net == pytest.approx(found.lost_net)
    assert found.newly_known == swapped.known_lost == 4
    low, high = found.newly_known_net_interval
    assert low < found.newly_known_net < high


def test_without_a_wrong_answer_after_newly_known_is_not_net_of_luck() -> None:
    found = count_known(items([(0, SURE), (1, SURE)], [0, 0]))
    assert (found.newly_known, found.newly_known_net, found.newly_known_net_interval) == (
        1,
        None,
        None,
    )


def test_the_interval_of_the_share_is_that_of_the_items_over_the_known() -> None:
    found = count_known(
        items([(0, SURE)] * 40 + [(1, SURE)] * 30, [1] * 20 + [0] * 20 + [2] * 15 + [1] * 15)
    )
    known, interval = found.known_net, found.lost_net_interval
    assert known == pytest.approx(40 - 30 / 3)
    assert found.lost_net_share_interval == pytest.approx(
        (interval[0] / known, interval[1] / known)
    )
    assert (
        found.lost_net_share_interval[0] < found.lost_net_share < found.lost_net_share_interval[1]
    )
    few = count_known(items([(0, SURE), (1, SURE)], [1, 2]))
    assert few.lost_net_share is few.lost_net_share_interval is None


def test_nothing_measured_is_none() -> None:
    missing = items([(0, SURE)], [0])
    assert count_known(replace(missing, share_after=np.array([np.nan]))) is None


def test_samples_divide_the_counts_and_leave_the_interval_in_items() -> None:
    once = items([(0, SURE)] * 40 + [(1, SURE)] * 40, [1] * 20 + [0] * 20 + [2] * 20 + [1] * 20)
    cluster = np.tile(np.arange(80), 2)
    twice = replace(once.take(np.tile(np.arange(80), 2)), cluster=cluster)
    one, two = count_known(replace(once, cluster=np.arange(80))), count_known(twice, samples=2)
    assert (two.known, two.known_lost, two.lost_net) == (one.known, one.known_lost, one.lost_net)
    assert two.lost_net_interval == pytest.approx(one.lost_net_interval)
    assert two.lost_net_share == pytest.approx((20 - 10) / (40 - 40 / 3))


def test_keys_drawn_at_random_give_nothing() -> None:
    """A model that knows nothing: 300 worlds of 600 items whose guesses are confident, prefer places, and move."""
    rng, nets, misses = np.random.default_rng(5), [], 0
    for _ in range(300):
        before = 2.5 * rng.normal(size=(600, 4)) + np.array([1.0, 0.0, 0.5, 0.0])
        after = before + 1.5 * rng.normal(size=(600, 4))
        gold = rng.integers(0, 4, 600)
        found = count_known(confidence(option_scores(before, gold), option_scores(after, gold)))
        nets.append(found.lost_net)
        low, high = found.lost_net_interval
        misses += not low <= 0 <= high
    assert abs(np.mean(nets)) < 4 * np.std(nets) / np.sqrt(300)
    assert misses / 300 < 0.09


def planted(name: str) -> Population:
    """Population of 40,000 items with known losses; learned items and guesses that move are in all of them."""
    rng = np.random.default_rng(8)
    if name == "mixed k":
        return Population.mixed(
            [planted_losses(rng, items=10_000, k=k, lost=0.1, learned=0.3) for k in (3, 4, 5, 10)]
        )
    if name == "passages":
        return planted_losses(rng, items=40_000, lost=0.3, learned=0.1, size=5)
    return planted_losses(
        rng, items=40_000, k=10 if name == "ten options" else 4, lost=0.02, learned=0.3
    )


@pytest.mark.parametrize(
    ("world", "n"), [("few losses", 100), ("ten options", 400), ("mixed k", 400), ("passages", 400)]
)
def test_the_interval_contains_planted_losses(world: str, n: int) -> None:
    """300 samples: a share below .92 or above .99 would be far outside what a coverage of 95 % gives."""
    population, rng = planted(world), np.random.default_rng(9)
    truth, inside, nets = n * population.lost.mean(), 0, []
    for _ in range(300):
        found = count_known(population.draw(rng, n))
        low, high = found.lost_net_interval
        inside += low <= truth <= high
        nets.append(found.lost_net)
    assert abs(np.mean(nets) - truth) < 4 * np.std(nets) / np.sqrt(300)
    # Exact binomial bounds, each passed by chance once in ten thousand times by a coverage of .94 or of .975. With few
    # events the interval is wider.
    assert inside >= stats.binom.ppf(1e-4, 300, 0.94)
    assert inside <= stats.binom.ppf(1 - 1e-4, 300, 0.975) or world == "few losses"


def test_the_interval_grows_with_the_clusters() -> None:
    rows = items([(0, SURE)] * 60 + [(1, SURE)] * 60, [1] * 30 + [0] * 30 + [2] * 30 + [1] * 30)
    alone, together = count_known(rows), count_known(replace(rows, cluster=np.arange(120) // 10))
    assert alone.lost_net == together.lost_net
    (low, high), (lower, higher) = (
        alone.lost_net_interval or (0, 0),
        together.lost_net_interval or (0, 0),
    )
    assert lower < low < high < higher


def test_options_in_another_order_have_the_same_counts() -> None:
    rng = np.random.default_rng(3)
    before = 6 * rng.normal(size=(300, 5))
    after = before + 6 * rng.normal(size=(300, 5))
    gold = rng.integers(0, 5, 300)
    order = rng.permuted(np.tile(np.arange(5), (300, 1)), axis=1)
    moved_gold = (order == gold[:, None]).argmax(axis=1)
    shuffled = [np.take_along_axis(side, order, axis=1) for side in (before, after)]
    one = count_known(confidence(option_scores(before, gold), option_scores(after, gold)))
    other = count_known(confidence(*(option_scores(side, moved_gold) for side in shuffled)))
    assert one.known_lost > 0
    assert other == one


def test_an_unchanged_model_lost_nothing() -> None:
    scores = option_scores(3 * np.random.default_rng(4).normal(size=(200, 4)))
    found = count_known(confidence(scores, scores))
    assert (found.known_lost, found.known_lost_by_luck, found.lost_net) == (0, 0, 0)
    low, high = found.lost_net_interval or (0, 0)
    assert low < 0 < high < 5  # none of 200: at most 3.84


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([SURE, UNSURE]), st.integers(0, 3)), min_size=1
    )
)
def test_counts_are_within_their_bounds(rows: list[tuple[int, float, int]]) -> None:
    answers = items([(chosen, lead) for chosen, lead, _ in rows], [now for _, _, now in rows])
    found = count_known(answers)
    assert 0 <= found.known_lost <= found.known <= len(rows)
    if found.lost_net is not None and found.lost_net_interval is not None:
        low, high = found.lost_net_interval
        assert low <= found.lost_net <= high
        assert found.known_lost_by_luck >= 0
    turned = count_known(answers.take(np.arange(len(rows))[::-1]))
    assert turned.lost_net == pytest.approx(found.lost_net)


@pytest.mark.parametrize(
    ("before", "after", "form_before", "form_after", "forced_after", "expected"),
    [
        (1, 0, 1, 0, 1, (1, 0)),  # no form any more, and the right option still scores highest
        (1, 0, 1, 0, 0, (0, 1)),  # no form, and another option scores higher
        (1, 0, 1, 1, 1, (0, 1)),  # another answer, in its form
        (1, 0, 1, 0, math.nan, (1, 0)),  # no form, and nothing else to be seen: an open answer
        (
            1,
            1,
            1,
            0,
            1,
            (1, 0),
        ),  # the option's text instead of its letter: found, and not in the form
        (1, 1, 1, 1, 1, (0, 0)),
        (0, 0, 1, 0, 1, (0, 0)),  # what was not right cannot be lost
        (1, 0, 0, 0, 1, (0, 1)),  # it had no form before
        (0, 1, 0, 1, 1, (0, 0)),
    ],
)
def test_each_loss_is_of_form_or_of_knowledge(
    before: int,
    after: int,
    form_before: float,
    form_after: float,
    forced_after: float,
    expected: tuple[int, int],
) -> None:
    right = np.array([before == 1]), np.array([after == 1])
    form = lost_form(
        *right, *(np.array([float(x)]) for x in (form_before, form_after, forced_after))
    )
    found = count_losses(*right, form)
    assert (found.format_lost, found.knowledge_lost) == expected


def test_losses_are_undefined_if_no_form_was_measured() -> None:
    lost = compare(before=snapshot([True, False]), after=snapshot([False, True])).all
    assert (lost["format_lost"], lost["knowledge_lost"]) == (None, None)


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 5), min_size=1, max_size=30), st.integers(1, 3))
def test_every_forgotten_answer_is_lost_once(rows: list[tuple[int, ...]], samples: int) -> None:
    before, after, form_before, form_after, forced = (
        np.array(column) for column in zip(*rows * samples, strict=True)
    )
    form = lost_form(
        before == 1, after == 1, *(x.astype(float) for x in (form_before, form_after, forced))
    )
    found = count_losses(before == 1, after == 1, form, samples=samples)
    forgotten = ((before == 1) & (after == 0)).sum() / samples
    still_right = (
        (before == 1) & (after == 1) & (form_before == 1) & (form_after == 0)
    ).sum() / samples
    assert found.format_lost + found.knowledge_lost == pytest.approx(forgotten + still_right)


def test_a_choice_that_is_right_at_constant_mass_lost_its_form_alone() -> None:
    """Under a score divided by a length another option is chosen although none became likelier than another."""
    before, after = np.array([True, True, True, False]), np.array([False, False, True, False])
    nothing, constant_mass = np.full(4, math.nan), np.array([1.0, 0.0, 1.0, 1.0])
    found = lost_form(
        before, after, nothing, nothing, after.astype(float), constant_mass=constant_mass
    )
    assert found.tolist() == [True, False, False, False]
    counted = count_losses(before, after, found)
    assert (counted.format_lost, counted.knowledge_lost) == (1, 1)
