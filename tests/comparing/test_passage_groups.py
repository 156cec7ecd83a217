"""Passages in a comparison: bits per byte of each group, and in no count of answers."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from passage_texts import read

from forgetwatch import Trajectory, compare, load_snapshot, save_snapshot
from forgetwatch.comparing import conclude, group_values, side_of_zero
from forgetwatch.measures import QUANTITIES, value_at
from forgetwatch.metrics import false_discovery
from forgetwatch.policy import Condition
from forgetwatch.report import comparison_json, trajectory_json

RNG = np.random.default_rng(0)
BEFORE = RNG.uniform(0.8, 1.6, 20)
AFTER = BEFORE + RNG.normal(0.05, 0.03, 20)
QUESTIONS = [True, True, False, True, False, True]
TESTS = ("bits_per_byte_p_value", "bits_per_byte_q_value")
ENDS = ("bits_per_byte_change_interval_low", "bits_per_byte_change_interval_high")
KEYS = ("passages", "bits_per_byte_before", "bits_per_byte_after", "bits_per_byte_change")


def test_each_group_has_the_bits_per_byte_of_its_passages() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    whole, news = made.all, made.by("category")["News"]
    for group, rows in ((whole, slice(20)), (news, slice(10))):
        one, other = BEFORE[rows], AFTER[rows]
        expected = [len(one), one.mean(), other.mean(), (other - one).mean()]
        assert [group[name] for name in KEYS] == pytest.approx(expected)
    assert list(made.by("task")) == ["passages:news", "passages:code"]
    assert whole["bits_per_byte_change_interval"] is not None
    low, high = whole["bits_per_byte_change_interval"]
    assert low < whole["bits_per_byte_change"] < high
    assert whole["bits_per_byte_p_value"] < 0.001


def test_passages_pair_by_their_text_whatever_their_order() -> None:
    after = read(bits=AFTER)
    turned = replace(after, table=after.table.take(list(reversed(range(20)))))
    one, other = (compare(before=read(bits=BEFORE), after=side).all for side in (after, turned))
    assert other["bits_per_byte_change"] == pytest.approx(one["bits_per_byte_change"])
    assert other["bits_per_byte_change_interval"] == pytest.approx(one["bits_per_byte_change_interval"])


def test_passages_are_in_no_count_of_answers() -> None:
    after = [True, False, False, True, True, False]
    alone = compare(before=read(bits=[], questions=QUESTIONS), after=read(bits=[], questions=after))
    beside = compare(before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=after))
    assert beside.items == alone.items
    for level in ("all", "category"):
        one, other = (group_values(made.by(level)["all" if level == "all" else "Math"]) for made in (alone, beside))
        passages = {name for name in one if name.startswith(("passages", "bits_per_byte"))} if level == "all" else set()
        assert {name for name in one if one[name] != other[name]} == passages
    assert all(value is None for name, value in group_values(alone.all).items() if name.startswith("bits_per_byte"))
    assert alone.all.passages is None


def test_a_group_of_passages_alone_is_null_and_never_nan() -> None:
    made = compare(before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=QUESTIONS))
    news = json.loads(json.dumps(group_values(made.by("category")["News"]), allow_nan=False))
    assert (news["n"], news["passages"]) == (0, 10)
    assert {name for name in QUANTITIES if value_at(news, name) is not None and name != "n"} == {*KEYS, *TESTS, *ENDS}
    nulls = ("accuracy_after", "net_change", "p_value", "loss_p_value", "q_value", "known", "detectable_change")
    assert all(news[name] is None for name in nulls)
    only = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    json.dumps(comparison_json(only), allow_nan=False)
    assert (only.all.n, only.items.unscored, only.items.compared) == (0, 0, 0)


def test_categories_of_passages_do_not_change_the_q_values_of_others() -> None:
    after = [False] * 6
    alone = compare(before=read(bits=[], questions=[True] * 6), after=read(bits=[], questions=after))
    beside = compare(before=read(bits=BEFORE, questions=[True] * 6), after=read(bits=AFTER, questions=after))
    assert beside.by("category")["Math"].q_value == alone.by("category")["Math"].q_value
    assert conclude(beside).ranked == conclude(alone).ranked == ()
    assert conclude(beside).categories == 0


def test_p_values_of_passages_are_adjusted_for_the_categories() -> None:
    groups = compare(before=read(bits=BEFORE), after=read(bits=AFTER)).by("category").values()
    p_values = np.array([group["bits_per_byte_p_value"] for group in groups])
    assert len(groups) == 2
    assert [group["bits_per_byte_q_value"] for group in groups] == pytest.approx(false_discovery(p_values).tolist())
    assert max(p_values) > 0
    whole = compare(before=read(bits=BEFORE), after=read(bits=AFTER)).all
    assert whole["bits_per_byte_q_value"] == whole["bits_per_byte_p_value"]


def test_a_passage_scored_on_one_side_is_unscored() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER, unscored=[3, 12]))
    assert (made.items.unscored, made.all.passages) == (2, 18)
    assert made.by("category")["News"].passages == 9


def test_equal_sides_change_by_exactly_nothing() -> None:
    whole = compare(before=read(bits=BEFORE), after=read(bits=BEFORE, step=5)).all
    assert whole["bits_per_byte_change"] == 0
    assert (whole["bits_per_byte_change_interval"], whole["bits_per_byte_p_value"]) == ((0.0, 0.0), 1.0)


def test_one_passage_has_a_change_and_a_null_interval() -> None:
    whole = group_values(compare(before=read(bits=[1.0]), after=read(bits=[1.1])).all)
    assert whole["bits_per_byte_change"] == pytest.approx(0.1)
    assert whole["bits_per_byte_change_interval"] == [None, None]
    assert whole["bits_per_byte_p_value"] is None
    assert whole["bits_per_byte_q_value"] is None


def test_passages_alone_have_no_verdict_on_correctness() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    found = conclude(made)
    assert not found.has_answers
    assert found.whole is None
    assert side_of_zero(made.all["bits_per_byte_change_interval"]) == "above"


def test_passages_do_not_change_a_verdict() -> None:
    after = [True, False, False, True, True, False]
    alone = conclude(compare(before=read(bits=[], questions=QUESTIONS), after=read(bits=[], questions=after)))
    beside = conclude(compare(before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=after)))
    assert beside.has_answers
    assert beside.decision == alone.decision


def test_a_snapshot_of_passages_comes_back_from_its_file(tmp_path: object) -> None:
    made = read(bits=BEFORE, questions=QUESTIONS)
    save_snapshot(made, f"{tmp_path}/s.parquet")
    back = load_snapshot(f"{tmp_path}/s.parquet")
    assert back.checksum == made.checksum
    assert back.is_passage.tolist() == made.is_passage.tolist() == [False] * 6 + [True] * 20


def test_alarms_of_a_run_watch_no_group_of_passages_alone() -> None:
    looks = [read(bits=BEFORE + 0.05 * step, questions=QUESTIONS, step=step) for step in range(3)]
    run = Trajectory.of(looks, planned=2)
    assert {test.group.name for test in run.verdicts()} == {"all"}  # Math is the only category with answers
    assert [one.all["bits_per_byte_change"] for one in run.comparisons] == pytest.approx([0, 0.05, 0.1])
    only = Trajectory.of([read(bits=BEFORE + 0.05 * step, step=step) for step in range(3)], planned=2)
    assert only.verdicts() == ()
    assert math.isnan(only.guessed.temporal_forgetting)
    json.dumps(trajectory_json(only), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("bits_per_byte_change>0.02", True),
        ("bits_per_byte_change>0.5", False),
        ("category:News.bits_per_byte_after>0.5", True),
        ("passages<20", False),
    ],
)
def test_a_gate_measures_bits_per_byte(text: str, holds: bool) -> None:
    condition = Condition.parse(text)
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    assert condition.is_met_by(condition.measure(made)) is holds
