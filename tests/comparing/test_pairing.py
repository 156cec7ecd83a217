"""Aligned pairs: labels, clusters, and which option came second."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import snapshot

from forgetwatch import Snapshot
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.option_columns import Labels, guess_chance
from forgetwatch.measures.pairing import pair


def rows(*keys: tuple[str, str]) -> Snapshot:
    """Items of (id, hash)."""
    ids, hashes = zip(*keys, strict=True)
    return snapshot([True] * len(keys), item_id=list(ids), content_hash=list(hashes))


def names(before: Snapshot, after: Snapshot) -> list[tuple[str, str]]:
    pairing = pair(before, after)
    return list(
        zip(
            before.texts("item_id")[pairing.before],
            after.texts("item_id")[pairing.after],
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("before", "after", "paired"),
    [
        (["1A", "2B", "3C"], ["9C", "8A", "7B"], ["18", "27", "39"]),  # in any order
        (
            ["1A", "2A", "3A"],
            ["2A", "xA", "yA"],
            ["1x", "22", "3y"],
        ),  # by id first, and then in order
        (["1A", "2A", "3A"], ["7A", "8A"], ["17", "28"]),  # never multiplied
    ],
)
def test_rows_pair_by_question(before: list[str], after: list[str], paired: list[str]) -> None:
    sides = rows(*map(tuple, before)), rows(*map(tuple, after))  # type: ignore[arg-type]
    assert names(*sides) == [*map(tuple, paired)]
    pairing = pair(*sides)
    assert pairing.complete == (len(before) == len(after))
    assert (pairing.only_before.tolist(), pairing.only_after.tolist()) == (
        [] if pairing.complete else [2],
        [],
    )


def test_an_id_with_another_question_is_counted_and_not_paired() -> None:
    pairing = pair(rows(("1", "A"), ("2", "B")), rows(("1", "A"), ("2", "C")))
    assert pairing.content_differs == 1
    assert not pairing.complete
    assert (pairing.only_before.tolist(), pairing.only_after.tolist()) == ([1], [1])


def test_the_same_question_in_two_tasks_is_two_items() -> None:
    before = snapshot([True, True], content_hash=["A", "A"], task=["t", "u"])
    after = snapshot([True, True], content_hash=["A", "A"], task=["u", "t"], item_id=["p", "q"])
    pairing = pair(before, after)
    assert (pairing.before.tolist(), pairing.after.tolist()) == ([0, 1], [1, 0])


def test_samples_pair_with_the_same_sample() -> None:
    before = snapshot(
        [True] * 4,
        item_id=["1", "1", "2", "2"],
        content_hash=["A", "A", "B", "B"],
        sample=[0, 1, 0, 1],
    )
    after = snapshot(
        [True] * 4,
        item_id=["2", "2", "1", "1"],
        content_hash=["B", "B", "A", "A"],
        sample=[1, 0, 1, 0],
    )
    assert pair(before, after).after.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("turned", [False, True])
def test_a_side_with_more_samples_than_the_other_pairs_those_that_both_have(turned: bool) -> None:
    many = snapshot([True] * 6, item_id=[*"111222"], content_hash=[*"AAABBB"], sample=[0, 1, 2] * 2)
    one = snapshot([True] * 3, item_id=[*"122"], content_hash=[*"ABB"], sample=[0, 0, 1])
    pairing = pair(one, many) if turned else pair(many, one)
    rows = (pairing.after, pairing.before) if turned else (pairing.before, pairing.after)
    assert [side.tolist() for side in rows] == [[0, 3, 4], [0, 1, 2]]
    assert pairing.item.tolist() == [0, 1, 1]


def test_without_hashes_ids_pair_and_another_gold_shows_another_question() -> None:
    before = snapshot([True] * 3, content_hash=[None] * 3, k=[4, 4, 4], gold=[0, 1, 2])
    after = snapshot([True] * 3, content_hash=[None] * 3, k=[4, 4, 5], gold=[0, 3, 2])
    pairing = pair(before, after)
    assert pairing.by_id == 1
    assert pairing.before.tolist() == [0]
    assert pairing.content_differs == 2


def test_an_item_that_one_side_hashes_pairs_by_its_id() -> None:
    hashed, bare = (
        snapshot([True] * 2, content_hash=["A", "B"]),
        snapshot([True] * 2, content_hash=[None, "B"]),
    )
    for before, after in ((hashed, bare), (bare, hashed)):
        pairing = pair(before, after)
        assert pairing.complete
        assert (pairing.by_id, pairing.content_differs) == (1, 0)


def test_one_missing_hash_does_not_switch_off_the_others() -> None:
    before = snapshot([True] * 3, content_hash=["h1", "h2", None])
    after = snapshot([True] * 3, content_hash=["x1", "x2", None])
    pairing = pair(before, after)
    assert (pairing.before.tolist(), pairing.by_id, pairing.content_differs) == ([2], 1, 2)


def test_the_nth_is_counted_in_the_order_of_the_rows_of_its_task() -> None:
    before = snapshot(
        [True, True, False],
        task=["u", "t", "t"],
        item_id=["4", "3", "4"],
        content_hash=["x", "d", "d"],
    )
    after = snapshot(
        [True, True, False],
        task=["u", "t", "t"],
        item_id=["8", "6", "9"],
        content_hash=["x", "d", "d"],
    )
    assert pair(before, after).after.tolist() == [0, 1, 2]


def test_samples_of_a_repeated_question_stay_together() -> None:
    before = snapshot([True] * 2, item_id=["a", "a"], content_hash=["A", "A"], sample=[0, 1])
    after = snapshot(
        [True] * 4, item_id=["x", "y", "x", "y"], content_hash=["A"] * 4, sample=[0, 0, 1, 1]
    )
    pairing = pair(before, after)
    assert pairing.after.tolist() == [0, 2]
    assert after.texts("item_id")[pairing.only_after].tolist() == ["y"]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 30)),
        min_size=1,
        max_size=30,
        unique_by=lambda key: key[1],
    ),
    st.randoms(),
)
def test_a_shuffled_copy_pairs_completely_each_row_once_and_by_id(
    keys: list[tuple[int, int]], rng: object
) -> None:
    shuffled = list(keys)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    before, after = (rows(*((str(i), str(h)) for h, i in order)) for order in (keys, shuffled))
    pairing = pair(before, after)
    assert pairing.complete
    assert len(np.unique(pairing.after)) == len(keys)
    assert all(one == other for one, other in names(before, after))


@given(*[st.lists(st.integers(0, 5), min_size=1, max_size=20)] * 2)
def test_as_many_pairs_per_question_as_both_sides_have(before: list[int], after: list[int]) -> None:
    pairing = pair(
        rows(*((f"b{i}", str(h)) for i, h in enumerate(before))),
        rows(*((f"a{i}", str(h)) for i, h in enumerate(after))),
    )
    assert len(pairing.before) == sum(min(before.count(h), after.count(h)) for h in range(6))
    assert len(pairing.before) + len(pairing.only_before) == len(before)
    assert len(pairing.after) + len(pairing.only_after) == len(after)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("123"), st.sampled_from("AB")),
        min_size=1,
        max_size=8,
    )
)
@example([("a", "1", "A"), ("b", "2", "A"), ("a", "3", "A"), ("b", "3", "A")])
def test_sides_of_the_same_rows_pair_as_sorting_pairs_them(
    given: list[tuple[str, str, str]],
) -> None:
    first = {(task, name): content for task, name, content in given}
    tasks, ids, hashes = zip(
        *((task, name, content) for (task, name), content in first.items()), strict=True
    )
    columns = {
        "task": [*tasks, *tasks],
        "item_id": [*ids, *ids],
        "content_hash": [*hashes, *hashes],
        "sample": [0] * len(ids) + [1] * len(ids),
    }
    both = [
        snapshot([True] * len(columns["task"]), category=["c"] * len(columns["task"]), **columns)
        for _ in range(2)
    ]
    found = pair(*both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forgetwatch.measures.pairing._are_aligned", lambda *_: False)
        sorted_ = pair(*both)
    assert {name: np.asarray(value).tolist() for name, value in vars(found).items()} == {
        name: np.asarray(value).tolist() for name, value in vars(sorted_).items()
    }


def test_sides_of_the_same_questions_with_samples_in_another_order_pair_by_sample() -> None:
    columns = {
        "task": ["t", "t"],
        "item_id": ["a", "a"],
        "content_hash": ["h", "h"],
        "category": ["c", "c"],
    }
    before, after = (
        snapshot([True, False], sample=samples, **columns) for samples in ([0, 1], [1, 0])
    )
    pairing = pair(before, after)
    assert (pairing.before.tolist(), pairing.after.tolist()) == ([0, 1], [1, 0])


@given(st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=30))
def test_labels_split_into_the_rows_of_each_name_in_order(names: list[str]) -> None:
    labels = Labels.of(pa.chunked_array([pa.array(names, pa.string())]))
    found = {name: rows.tolist() for name, rows in labels.split()}
    assert found == {
        name: [i for i, other in enumerate(names) if other == name]
        for name in dict.fromkeys(names)
        if name
    }


def align(before: Snapshot, after: Snapshot) -> AlignedPairs:
    return AlignedPairs.align(before, after, pair(before, after))[0]


def aligned(before: list[bool | None], after: list[bool | None], **columns: object) -> AlignedPairs:
    return align(snapshot(before, **columns), snapshot(after, **columns))


def test_items_of_one_cluster_share_a_code_across_tasks_and_others_are_alone() -> None:
    pairs = aligned(
        [True] * 6,
        [True] * 6,
        cluster=["p", "p", None, "", "p", "q"],
        task=["t", "t", "t", "t", "u", "u"],
    )
    assert pairs.cluster is not None
    assert pairs.cluster[0] == pairs.cluster[1] == pairs.cluster[4]
    assert len(set(pairs.cluster.tolist())) == 4  # p, two alone, q
    pairs = aligned([True] * 6, [True] * 6, cluster=["", "p", "q", "p", None, "r"])
    assert pairs.cluster is not None
    assert pairs.cluster[1] == pairs.cluster[3]
    assert len(set(pairs.cluster.tolist())) == 5  # wherever those alone are
    assert aligned([True], [True]).cluster is None
    assert aligned([True] * 3, [True] * 3, cluster=["", "", ""]).cluster is None


def test_a_value_that_one_side_lacks_is_taken_from_the_other() -> None:
    bare = {"k": [6, 6], "gold": [0, 0], "chosen": [0, 1]}
    one, other = (
        snapshot([True, False], **bare),
        snapshot([True, False], **bare, cluster=["p", "p"], golds=[[0, 3]] * 2),
    )
    for before, after in ((one, other), (other, one)):
        pairs = align(before, after)
        assert pairs.cluster is not None
        assert len(set(pairs.cluster.tolist())) == 1
        assert pairs.golds.tolist() == [2, 2]


def test_an_item_with_several_samples_is_one_observation_and_left_out_if_one_is_unscored() -> None:
    columns = {
        "item_id": ["1", "1", "2", "2"],
        "content_hash": ["A", "A", "B", "B"],
        "sample": [0, 1, 0, 1],
    }
    pairs = aligned([True] * 4, [True] * 4, **columns)
    assert pairs.samples == 2
    assert pairs.cluster is not None
    assert np.array_equal(pairs.cluster, pairs.item)
    pairs = aligned([True, None, True, True], [True] * 4, **columns)
    assert (len(pairs), pairs.unscored, pairs.samples) == (2, 1, 2)


def test_the_chance_of_a_guess_is_right_options_over_options() -> None:
    rows = snapshot([True] * 3, k=[4, None, 6], gold=[0, None, 0], golds=[None, None, [0, 2]])
    assert guess_chance(rows).tolist() == [0.25, 0.0, 1 / 3]
    assert np.isnan(guess_chance(snapshot([True]))).all()


@pytest.mark.parametrize("turned", [False, True])
def test_options_chosen_on_one_side_alone_are_of_no_use_and_their_number_is_that_of_either_side(
    turned: bool,
) -> None:
    logged, silent = {"k": [3, 3], "gold": [0, 0], "chosen": [0, 1]}, {"k": [3, 3], "gold": [0, 0]}
    sides = [snapshot([True, False], **columns) for columns in (logged, silent)]
    pairs = align(*(sides[::-1] if turned else sides))
    assert pairs.chosen_before is pairs.chosen_after is None
    assert pairs.answers() is None
    sides = [snapshot([True] * 3, k=k) for k in ([4, None, 2], [4, 3, None])]
    assert align(*(sides[::-1] if turned else sides)).k.tolist() == [4, 3, 2]


def test_answers_by_the_sum_stay_where_others_are_decided_by_a_length() -> None:
    """After, every option of both items is e^4 times as likely; only the norm by length makes another choice of it."""
    columns = {"k": [2, 2], "gold": [0, 0], "task": ["t", "u"], "choice_bytes": [[4, 2]] * 2}
    meta = {"norms": {"t": "bytes", "u": "sum"}}
    before = snapshot(
        [True, True],
        chosen=[0, 0],
        choice_logprobs=[[-8.0, -6.5], [-5.0, -6.0]],
        meta=meta,
        **columns,
    )
    after = snapshot(
        [False, True],
        chosen=[1, 0],
        choice_logprobs=[[-4.0, -1.5], [-1.0, -2.0]],
        meta=meta,
        **columns,
    )
    pairs = align(before, after)
    assert pairs.mass_after == pytest.approx([1.0, math.nan], nan_ok=True)
    assert pairs.right_at_constant_mass is not None
    assert pairs.right_at_constant_mass.tolist() == [True, True]
