"""Aligned pairs: labels, clusters, and which option came second."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import snapshot

from forgetwatch.measures import AlignedPairs, Labels, guess_chance, pair
from forgetwatch.snapshot import Snapshot


@given(st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=30))
def test_labels_split_into_the_rows_of_each_name_in_order(names: list[str]) -> None:
    labels = Labels.of(pa.chunked_array([pa.array(names, pa.string())]))
    found = {name: rows.tolist() for name, rows in labels.split()}
    assert found == {
        name: [i for i, other in enumerate(names) if other == name] for name in dict.fromkeys(names) if name
    }


def align(before: Snapshot, after: Snapshot) -> AlignedPairs:
    return AlignedPairs.align(before, after, pair(before, after))[0]


def aligned(before: list[bool | None], after: list[bool | None], **columns: object) -> AlignedPairs:
    return align(snapshot(before, **columns), snapshot(after, **columns))


def test_items_of_one_cluster_share_a_code_across_tasks_and_others_are_alone() -> None:
    pairs = aligned([True] * 6, [True] * 6, cluster=["p", "p", None, "", "p", "q"], task=["t", "t", "t", "t", "u", "u"])
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
    columns = {"item_id": ["1", "1", "2", "2"], "content_hash": ["A", "A", "B", "B"], "sample": [0, 1, 0, 1]}
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
def test_options_chosen_on_one_side_alone_are_of_no_use_and_their_number_is_that_of_either_side(turned: bool) -> None:
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
    before = snapshot([True, True], chosen=[0, 0], choice_logprobs=[[-8.0, -6.5], [-5.0, -6.0]], meta=meta, **columns)
    after = snapshot([False, True], chosen=[1, 0], choice_logprobs=[[-4.0, -1.5], [-1.0, -2.0]], meta=meta, **columns)
    pairs = align(before, after)
    assert pairs.mass_after == pytest.approx([1.0, math.nan], nan_ok=True)
    assert pairs.right_at_constant_mass is not None
    assert pairs.right_at_constant_mass.tolist() == [True, True]
