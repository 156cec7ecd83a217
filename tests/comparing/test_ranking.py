"""Several models against one base: the matrix, the ranking, the front."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import decided, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.kept_share import kept, kept_of
from forgetwatch.comparing.ranking import RankedModel, Target, rank_models, transition_matrix

OUTCOMES = st.lists(
    st.lists(st.sampled_from([True, False, None]), min_size=6, max_size=6), min_size=1, max_size=5
)


def outcomes(right: str, **columns: list[Any]) -> Snapshot:
    """A snapshot from one letter an answer: 1, 0, or - for unscored."""
    return snapshot([{"1": True, "0": False, "-": None}[letter] for letter in right], **columns)


def against(base: list[bool], *others: list[bool]) -> list[Comparison]:
    before = snapshot(base, meta={"model": "base"})
    afters = [snapshot(right, meta={"model": f"m{at}"}) for at, right in enumerate(others, 1)]
    return [compare(before=before, after=after) for after in afters]


def keeping(*kept: int, target: Target | None = None) -> tuple[RankedModel, ...]:
    """Models that keep so many of ten right answers."""
    return rank_models(against([True] * 10, *([at < n for at in range(10)] for n in kept)), target)


def test_a_row_is_right_and_a_column_is_wrong() -> None:
    sides = [outcomes(right) for right in ("1110", "1001", "1100")]
    found = transition_matrix(sides)
    assert found.lost == [[0, 2, 1], [1, 0, 1], [0, 1, 0]]
    assert {type(count) for row in found.lost for count in row} == {int}
    assert (found.answers.dtype, found.items, found.left_out) == (np.int64, 4, 0)


def test_an_item_that_one_model_lacks_or_could_not_answer_is_in_no_count() -> None:
    base, full = snapshot([True, True, True, True]), snapshot([False, False, False, False])
    unscored = snapshot([True, None, True, True])
    fewer = snapshot([True, True, True])
    found = transition_matrix([base, full, unscored, fewer])
    assert (found.items, found.left_out) == (2, 2)
    assert found.lost[0] == [0, 2, 0, 0]


def test_rows_of_the_matrix_pair_by_question_in_any_order() -> None:
    other = snapshot([False, True], item_id=["1", "0"], content_hash=["h1", "h0"])
    assert transition_matrix([snapshot([True, True]), other]).lost == [[0, 1], [0, 0]]


def test_samples_count_as_parts_of_an_item() -> None:
    rows: dict[str, list[Any]] = {
        "item_id": [*"aabb"],
        "content_hash": [*"aabb"],
        "sample": [0, 1] * 2,
    }
    found = transition_matrix([outcomes("1111", **rows), outcomes("011-", **rows)])
    assert (found.items, found.left_out, found.samples) == (1, 1, 2)
    assert found.lost == [[0, 0.5], [0, 0]]


@given(OUTCOMES)
def test_the_matrix_is_the_comparison_of_each_two(outcomes: list[list[bool | None]]) -> None:
    found = transition_matrix([snapshot(right) for right in outcomes])
    kept = [items for items in zip(*outcomes, strict=True) if None not in items]
    for row in range(len(outcomes)):
        for column in range(len(outcomes)):
            assert found.lost[row][column] == sum(
                bool(items[row]) and not items[column] for items in kept
            )
    assert (found.items, found.left_out) == (len(kept), 6 - len(kept))


def test_the_model_that_kept_most_is_first_with_its_interval() -> None:
    first, second, third = keeping(7, 9, 8)
    assert [one.number for one in (first, second, third)] == [2, 3, 1]
    assert (first.place, first.label, first.kept.share) == (1, "m2", 0.9)
    low, high = first.kept.interval
    assert low == pytest.approx(0.5958, abs=1e-3)  # Wilson, 9 of 10
    assert high == pytest.approx(0.9821, abs=1e-3)
    assert (first.target, first.on_front) == (None, None)


def test_the_interval_is_wider_where_items_come_in_clusters() -> None:
    base, after = [True] * 40, [at >= 10 for at in range(40)]
    clusters = {"cluster": [f"p{at // 5}" for at in range(40)]}
    alone = rank_models([compare(before=snapshot(base), after=snapshot(after))])[0].kept.interval
    pair = compare(before=snapshot(base, **clusters), after=snapshot(after, **clusters))
    together = rank_models([pair])[0].kept.interval
    assert together[1] - together[0] > 1.5 * (alone[1] - alone[0])


def test_equal_shares_share_a_rank_and_the_next_rank_is_skipped() -> None:
    assert [(one.number, one.place) for one in keeping(8, 9, 8, 7)] == [
        (2, 1),
        (1, 2),
        (3, 2),
        (4, 4),
    ]


@pytest.mark.parametrize(
    ("kept", "values", "front"),
    [
        ((9, 7, 8, 6), (0.5, 0.7, 0.6, 0.6), [True, True, True, False]),
        ((9, 8), (0.5, 0.5), [True, False]),  # of equal targets the one that kept more
        ((8, 8), (0.5, 0.5), [True, True]),  # equal in both: together
    ],
)
def test_the_front_holds_the_models_that_no_other_beats(
    kept: tuple[int, ...], values: tuple[float, ...], front: list[bool]
) -> None:
    found = {
        one.number: one.on_front for one in keeping(*kept, target=Target(name="x", values=values))
    }
    assert [found[number] for number in sorted(found)] == front


@pytest.mark.parametrize(("name", "best"), [("eval_loss", 1), ("eval_accuracy", 2)])
def test_less_of_a_loss_is_better(name: str, best: int) -> None:
    found = keeping(8, 8, target=Target(name=name, values=(0.5, 0.9)))
    assert [one.number for one in found if one.on_front] == [best]
    assert found[0].number == best  # equal shares and changes: the target decides the order


def of_options(lost: int, moved: int, *, items: int = 240, gone: int = 0) -> Comparison:
    """A base that is sure of half of its answers, and as sure of a wrong option in a quarter.

    `lost` of the first are wrong now, `moved` of the second on another wrong option, and `gone` of the first have no
    outcome.
    """
    scores = np.full((items, 4), -4.0)
    scores[: items // 2, 0], scores[items // 2 : 3 * items // 4, 1], scores[3 * items // 4 :, 2] = (
        0.0,
        0.0,
        -3.5,
    )
    after = scores.copy()
    after[:lost, 0], after[:lost, 3] = -4.0, 0.0
    after[items // 2 : items // 2 + moved, 1], after[items // 2 : items // 2 + moved, 3] = -4.0, 0.0
    chosen = after.argmax(axis=1).tolist()
    there = [not lost <= at < lost + gone for at in range(items)]
    outcomes = snapshot(
        [one == 0 if is_there else None for one, is_there in zip(chosen, there, strict=True)],
        meta={"probe": {"norm": "sum"}, "model": "a"},
        k=[4] * items,
        gold=[0] * items,
        chosen=[one if is_there else None for one, is_there in zip(chosen, there, strict=True)],
        choice_logprobs=[
            row if is_there else None for row, is_there in zip(after.tolist(), there, strict=True)
        ],
    )
    return compare(before=decided(scores, meta={"model": "b"}), after=outcomes)


@pytest.mark.parametrize(
    ("lost", "moved", "gone", "share"),
    [
        (12, 10, 0, 1 - 7 / 100),  # K = 120 - 60/3; 12 lost less 10/2
        (0, 10, 0, 1 + 5 / 100),  # not clipped where it ranks
        (12, 10, 6, 1 - 13 / 100),  # those without an outcome are lost
        (0, 0, 60, 1 - 60 / 100),
    ],
)
def test_the_known_are_kept_less_luck_and_vanished_ones_are_lost(
    lost: int, moved: int, gone: int, share: float
) -> None:
    found = kept(of_options(lost, moved, gone=gone).all, "known")
    assert (found.of, found.share) == ("known", pytest.approx(share))
    assert found.interval[0] <= found.share <= found.interval[1]
    assert found.shown[0] == min(found.share, 1.0)


def test_a_base_decides_once_what_is_kept() -> None:
    few, many = of_options(3, 0, items=80), of_options(3, 0)
    assert kept(few.all).of == "right"  # 33 known less luck are too few
    assert kept_of([many.all, few.all]) == "right"
    assert kept(many.all, kept_of([many.all, few.all])).of == "right"
    plain = against([True] * 60 + [False] * 40, [True] * 50 + [False] * 50)[0]
    assert (kept(plain.all).of, kept(plain.all).share) == ("answers", pytest.approx(5 / 6))


def test_a_base_that_knew_nothing_ranks_nobody() -> None:
    found = rank_models(
        against([False, False], [True, False], [True, True]), Target(name="x", values=(1.0, 2.0))
    )
    assert all(
        math.isnan(one.kept.share) and one.place is None and one.on_front is False for one in found
    )


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 4)), min_size=1, max_size=6))
def test_no_point_of_the_front_is_dominated_and_every_other_is(
    points: list[tuple[int, int]],
) -> None:
    target = Target(name="x", values=tuple(float(value) for _, value in points))
    for one in keeping(*(right for right, _ in points), target=target):
        mine = points[one.number - 1]
        dominated = any(
            other[0] >= mine[0] and other[1] >= mine[1] and other != mine for other in points
        )
        assert one.on_front is not dominated
