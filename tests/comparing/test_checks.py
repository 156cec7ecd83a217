"""Settings of two snapshots that must not differ, and those that are only noted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import decided, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing import check_settings, repeated_prompts, setting_differences
from forgetwatch.errors import MismatchError


def graded(metric: str, *, task: str = "t", **by_task: str) -> Snapshot:
    """Log of one task whose answers were graded by a metric; others by task."""
    return snapshot([True], task=[task], meta={"metric": metric, "metrics": by_task})


@pytest.mark.parametrize(
    ("before", "after"), [("acc", "acc,none"), ("acc,none", "acc"), ("acc,none", "acc,none"), ("acc", "acc")]
)
def test_a_filter_may_be_left_out(before: str, after: str) -> None:
    check_settings(graded(before), graded(after), allow_prompt_mismatch=False)


@pytest.mark.parametrize(
    ("before", "after"), [("acc", "acc_norm"), ("exact_match,strict", "exact_match,flexible"), ("acc,none", "em,none")]
)
def test_a_task_graded_by_unlike_metrics_or_filters_is_refused(before: str, after: str) -> None:
    with pytest.raises(MismatchError, match=f"task 't': .* is graded by {before} and .* by {after}; name a metric"):
        check_settings(graded(before), graded(after), allow_prompt_mismatch=False)


def test_autocast_that_differs_is_noted_where_both_sides_name_it() -> None:
    metadata = {}, {"autocast": None}, {"autocast": "bfloat16"}
    early, without, within = (snapshot([True], meta=meta) for meta in metadata)
    note = "autocast differs, and rounding with it: none before, bfloat16 after"
    assert setting_differences(without, within) == (note,)
    assert within.meta != without.meta
    for before, after in ((without, without), (within, within), (early, within), (within, early)):
        assert setting_differences(before, after) == ()


def test_metrics_of_tasks_that_one_side_lacks_may_differ() -> None:
    check_settings(graded("acc"), graded("em", task="u"), allow_prompt_mismatch=False)
    check_settings(graded("acc"), graded("em", t="acc"), allow_prompt_mismatch=False)
    check_settings(graded("acc"), snapshot([True]), allow_prompt_mismatch=False)  # own snapshots name no metric


def log(**meta: Any) -> Snapshot:
    return snapshot([True], meta={"date": "2026-01-01", **meta})


@pytest.mark.parametrize(("tasks", "more"), [(3, ""), (4, ", ...")])
def test_of_many_tasks_with_another_setting_three_are_named(tasks: int, more: str) -> None:
    names = [f"t{i}" for i in range(tasks)]
    before, after = (log(task_versions=dict.fromkeys(names, version)) for version in (1, 2))
    expected = f"versions of the task differ: t0 1 and 2, t1 1 and 2, t2 1 and 2{more}"
    assert setting_differences(before, after) == (expected,)
    assert setting_differences(before, log(task_versions={"other": 2})) == ()
    before, after = (
        snapshot([True] * tasks, task=names, meta={"norms": dict.fromkeys(names, norm)}) for norm in ("sum", "bytes")
    )
    expected = f"norms of the score that decides differ: t0 sum and bytes, t1 sum and bytes, t2 sum and bytes{more}"
    assert setting_differences(before, after) == (expected,)


@pytest.mark.parametrize(
    ("before", "after", "when"),
    [("a", "b", "with another text"), ("a", None, "before only"), (None, "b", "after only")],
)
def test_a_chat_template_of_one_side_is_noted_with_the_side(before: str | None, after: str | None, when: str) -> None:
    sides = (log(chat_template_sha=before), log(chat_template_sha=after))
    assert setting_differences(*sides) == (f"a chat template was used {when}",)
    assert setting_differences(sides[0], sides[0]) == ()


@pytest.mark.parametrize(("name", "values"), [("scoring", ("letters", "generate")), ("rendering", ("plain", "chat"))])
def test_a_permitted_prompt_is_no_permission_for_another_scoring(name: str, values: tuple[str, str]) -> None:
    before, after = (snapshot([True], meta={"probe": {name: value}}) for value in values)
    with pytest.raises(MismatchError, match="score both with the same probe") as refused:
        check_settings(before, after, allow_prompt_mismatch=False)
    assert ("--allow-prompt-mismatch" in str(refused.value)) == (name == "rendering")
    if name == "rendering":
        check_settings(before, after, allow_prompt_mismatch=True)
        return
    with pytest.raises(MismatchError, match="was scored with scoring 'letters'"):
        check_settings(before, after, allow_prompt_mismatch=True)


def test_one_percent_of_the_items_is_not_one_percent_of_the_answers() -> None:
    """One item of sixty differs, 1.7 %; with two samples each these are sixty items of 120 answers."""
    ids = [str(i // 2) for i in range(120)]
    columns = {"item_id": ids, "content_hash": ids, "sample": [0, 1] * 60}
    before = snapshot([True] * 120, prompt_hash=["same"] * 120, **columns)
    after = snapshot([True] * 120, prompt_hash=["other"] * 2 + ["same"] * 118, **columns)
    with pytest.raises(MismatchError, match="the prompts of 1 of 60 items differ"):
        compare(before=before, after=after)
    assert compare(before=before, after=after, allow_prompt_mismatch=True).items.prompt_differs == 1


def test_unlike_questions_of_equal_prompts_are_named() -> None:
    ids = ["a", "b", "c", "d", "e", "e"]
    columns = {
        "item_id": ids,
        "sample": [0, 0, 0, 0, 0, 1],
        "content_hash": ["h1", "h2", "h3", "h3", "h4", "h4"],
        "prompt_hash": ["p1", "p1", "p2", "p2", "p3", "p3"],
    }
    # c and d are one question, e has two samples: only a and b differ in what the model never read.
    made = snapshot([True] * 6, **{**columns, "task": ["t", "t", "t", "u", "t", "t"]})
    assert repeated_prompts(made) == (
        "2 items have the token ids of another one, such as 'a' and 'b': the model cannot tell them apart"
    )
    twins = snapshot([True, False], content_hash=["h1", "h2"], prompt_hash=["p1", "p1"])
    assert [note for note in compare(before=twins, after=twins).notes if note == repeated_prompts(twins) != ""]
    unscored = snapshot([None, True], content_hash=["h1", "h2"], prompt_hash=["p1", "p1"], outcome=["unscored", "ok"])
    assert repeated_prompts(unscored) == ""
    assert repeated_prompts(snapshot([True, False])) == ""


def test_equal_ids_with_another_key_are_named_as_such() -> None:
    plain = {"content_hash": [None, None], "k": [4, 4]}
    sides = [snapshot([True, False], gold=gold, **plain) for gold in ([0, 1], [1, 2])]
    says = "no item in common; 2 ids are on both sides, and all of them differ in gold"
    with pytest.raises(MismatchError, match=says):
        compare(before=sides[0], after=sides[1])
    hashed = [snapshot([True, False], content_hash=[f"{side}1", f"{side}2"]) for side in "ab"]
    with pytest.raises(MismatchError, match="all of them differ in content_hash"):
        compare(before=hashed[0], after=hashed[1])
    with pytest.raises(MismatchError, match="no item in common; they are outcomes on different probes"):
        compare(before=hashed[0], after=replace(hashed[1], table=snapshot([True], item_id=["x"]).table))


def test_categories_that_differ_are_noted_and_those_before_are_used() -> None:
    sides = [snapshot([True] * 3, category=names) for names in (["A", "B", ""], ["A", "C", "D"])]
    made = compare(before=sides[0], after=sides[1])
    assert "items whose category differs: 1; that of snapshot, the side before, is used" in made.notes
    assert list(made.by("category")) == ["A", "B", "D"]
    assert not [note for note in compare(before=sides[0], after=sides[0]).notes if "whose category differs" in note]


def test_sides_that_were_decided_by_unlike_norms_are_refused_and_logs_of_other_tools_noted() -> None:
    scores, lengths = np.array([[-4.0, -3.0]] * 3), np.array([[2, 1]] * 3)
    by_sum, by_bytes = (decided(scores, norm=norm, lengths=lengths) for norm in ("sum", "bytes"))
    with pytest.raises(MismatchError, match=r"was decided by the norm 'sum' and .* by 'bytes'; score both with"):
        compare(before=by_sum, after=by_bytes)
    with pytest.raises(MismatchError, match="by the norm"):
        compare(before=by_sum, after=by_sum, null=by_bytes)
    log = replace(by_bytes, meta={**by_bytes.meta, "tool": "lm-evaluation-harness"})
    assert "norms of the score that decides differ" in " ".join(compare(before=by_sum, after=log).notes)
