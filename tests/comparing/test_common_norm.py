"""Snapshots that were decided by unlike norms are compared by one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from support import model, probe, snapshot, tokenizer

from forgetwatch import Item, Probe, Snapshot, Trajectory, compare, score
from forgetwatch.comparing import decided_by, in_common_norm, transition_matrix
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import MismatchError

TOK = tokenizer()
DECIDED = ("chosen", "correct", "gold_share", "margin")


@cache
def outcomes(norm: str, *, seed: int = 0, step: int | None = None, items: int = 30) -> Snapshot:
    made = score(model(TOK, seed=seed), TOK, probe(items, norm=norm))
    return replace(made, meta={**made.meta, "step": step})


def recorded(norm: str, logprobs: list[list[float]], **columns: Any) -> Snapshot:
    """One item for each list: the first option is right, and has two bytes, the others one."""
    k = [len(of_item) for of_item in logprobs]
    given: dict[str, Any] = {
        "k": k,
        "gold": [0] * len(k),
        "choice_logprobs": logprobs,
        "choice_bytes": [[2] + [1] * (options - 1) for options in k],
        **columns,
    }
    undecided = snapshot([True] * len(k), meta={"probe": {"norm": "chars"}}, **given)
    made = decided_by(undecided, dict.fromkeys(undecided.norms, norm))
    return replace(made, meta={"probe": {"norm": norm}}, notes=())


def with_scores(made: Snapshot, logprobs: list[list[float] | None]) -> Snapshot:
    table = made.table
    column = table.column_names.index("choice_logprobs")
    return replace(made, table=table.set_column(column, "choice_logprobs", [logprobs]).cast(table.schema))


@pytest.mark.parametrize("norm", ["bytes", "chars", "tokens"])
def test_a_snapshot_decided_again_is_that_of_a_probe_with_the_norm(norm: str) -> None:
    by_length, by_sum = outcomes(norm), outcomes("sum")
    assert not by_length.table["chosen"].equals(by_sum.table["chosen"])
    again = decided_by(by_length, dict.fromkeys(by_length.norms, "sum"))
    for name in DECIDED:
        np.testing.assert_allclose(again.floats(name), by_sum.floats(name), rtol=0, atol=1e-12, err_msg=name)
    assert again.norms == by_sum.norms
    assert again.meta["probe"]["recorded_norm"] == norm
    back = decided_by(again, dict.fromkeys(by_length.norms, norm))
    assert all(back.table[name].equals(by_length.table[name]) for name in DECIDED)
    assert "recorded_norm" not in back.meta["probe"]


def test_forced_and_free_answers_stay() -> None:
    made = recorded("bytes", [[-4.0, -3.0]], free_correct=[True], forced_correct=[False])
    again = decided_by(made, {"t": "sum"})
    assert made.table["correct"].to_pylist() == [True]
    assert again.table["correct"].to_pylist() == [False]
    assert again.table["free_correct"].to_pylist() == [True]
    assert again.table["forced_correct"].to_pylist() == [False]


def test_generated_open_and_unscored_answers_are_left_alone() -> None:
    logprobs = [[-4.0, -3.0], [-4.0, -3.0], [-1.0]]
    made = recorded("bytes", logprobs, k=[2, 2, None], gold=[0, 0, None], output=["A", None, None])
    correct = made.table.column_names.index("correct")
    made = replace(made, table=made.table.set_column(correct, "correct", [[True, None, True]]))
    again = decided_by(made, {"t": "sum"})
    assert again.table["correct"].to_pylist() == [True, None, True]
    assert again.notes == ()


def test_a_comparison_decides_a_side_of_another_norm_again_and_says_so() -> None:
    base, now = outcomes("sum"), outcomes("sum", seed=1)
    old = outcomes("bytes")
    expected, found = compare(before=base, after=now), compare(before=old, after=now)
    assert (found.all.forgotten, found.all.gained) == (expected.all.forgotten, expected.all.gained)
    assert found.before["probe"]["norm"] == "sum"
    changed = int((old.floats("correct") != base.floats("correct")).sum())
    assert changed > 0
    assert any(
        f"decided again by sum (recorded: bytes) from its stored log-likelihoods; right or wrong differs for {changed} "
        "of 30 answers" in note
        for note in found.notes
    )
    # Of two sides under one norm neither is decided again.
    assert compare(before=old, after=outcomes("bytes", seed=1)).before["probe"]["norm"] == "bytes"


def test_all_readers_of_two_snapshots_count_the_same_flips() -> None:
    old, now = outcomes("bytes", step=0), outcomes("sum", seed=1, step=5)
    comparison, changed = compare(before=old, after=now), flips(old, now)
    for what, count in (("forgotten", comparison.all.forgotten), ("gained", comparison.all.gained)):
        assert sum(flip.what == what for flip in changed) == count
    run = Trajectory.of([old, now])
    assert run.comparisons[1].all == comparison.all
    assert (run.right[0] > run.right[1]).sum() == comparison.all.forgotten
    assert run.comparisons[0].all.forgotten == run.comparisons[0].all.gained == 0
    assert transition_matrix([old, now]).answers[0, 1] == comparison.all.forgotten


@pytest.mark.parametrize(("before", "after", "null"), [("bytes", "sum", "bytes"), ("bytes", "bytes", "sum")])
def test_a_null_is_decided_by_the_norm_of_the_side_before(before: str, after: str, null: str) -> None:
    found = compare(before=outcomes(before), after=outcomes(after, seed=1), null=outcomes(null))
    assert (found.all["null_lost"], found.all["null_gained"]) == (0, 0)
    assert any(note.startswith("the null was decided again by ") for note in found.notes)


def test_a_side_without_scores_is_refused() -> None:
    old, now = outcomes("bytes"), outcomes("sum", seed=1)
    with pytest.raises(MismatchError, match=r"decided by the norm 'bytes'.*again by 'sum'.*of its 30 answers none has"):
        compare(before=with_scores(old, [None] * len(old)), after=now)


def test_an_answer_without_scores_is_unscored() -> None:
    made = recorded("bytes", [[-4.0, -3.0], [-1.0, -9.0]])
    again = decided_by(with_scores(made, [None, [-1.0, -9.0]]), {"t": "sum"})
    assert again.table["correct"].to_pylist() == [None, True]
    assert again.table["outcome"].to_pylist() == ["unscored: no log-likelihoods to decide by", "ok"]
    assert "1 without usable log-likelihoods are unscored" in again.notes[0]


def test_without_hashes_nothing_is_decided_again() -> None:
    columns: dict[str, Any] = {"content_hash": [None, None]}
    logprobs = [[-4.0, -3.0], [-1.0, -9.0]]
    with pytest.raises(MismatchError, match=r"unlike norms, and .* has no content_hash for 2 of its 2 rows"):
        compare(before=recorded("bytes", logprobs, **columns), after=recorded("sum", logprobs))


def test_another_tools_answers_are_not_decided_again() -> None:
    made = recorded("bytes", [[-4.0, -3.0]])
    log = replace(made, meta={**made.meta, "tool": "lm-evaluation-harness", "metric": "acc_bytes"})
    assert decided_by(log, {"t": "sum"}) is log
    assert in_common_norm([log, recorded("sum", [[-4.0, -3.0]])])[0] is log


def test_tasks_of_one_snapshot_may_have_unlike_norms() -> None:
    both = recorded("sum", [[-4.0, -3.0], [-4.0, -3.0]], task=["a", "b"])
    mixed = decided_by(both, {"a": "bytes"})
    assert mixed.norms == {"a": "bytes", "b": "sum"}
    assert mixed.table["correct"].to_pylist() == [True, False]
    found = in_common_norm([mixed, both])
    assert found[1] is both
    assert found[0].table["correct"].to_pylist() == [False, False]


def test_looks_under_unlike_norms_are_cut_to_the_items_of_all() -> None:
    old, now = outcomes("bytes", step=0), outcomes("sum", seed=1, step=5, items=30).head(12)
    part = {**now.meta["probe"], "items": 12, "of": 30}
    now = replace(now, meta={**now.meta, "probe": part})
    found = Trajectory.of([old, now]).comparisons[1]
    assert found.items.compared == 12
    other = Probe([replace(item, prompt=f"{item.prompt} w1") for item in probe()], norm="bytes")
    unlike = score(model(TOK), TOK, other)
    unlike = replace(unlike, meta={**unlike.meta, "step": 0})
    with pytest.raises(MismatchError, match="no item in common"):
        Trajectory.of([unlike, now])


def test_the_margin_of_an_answer_decided_again_is_compared_with_the_noise() -> None:
    item = Item(id="1", task="t", prompt="Q", choices=(" w1", " w2"), answer=0)
    made = score(model(TOK), TOK, Probe([item], norm="bytes"))
    wide = replace(made, meta={**made.meta, "noise": 100.0})
    again = decided_by(wide, {"t": "sum"})
    assert made.table["unstable"].to_pylist() == [False]
    assert again.table["unstable"].to_pylist() == [True]


def test_the_note_names_the_norms_in_order() -> None:
    norms = ["tokens", "sum", "chars", "bytes", "chars_with_space"]
    tasks = [f"t{i}" for i in range(5)]
    lengths = {f"choice_{unit}": [[1, 2]] * 5 for unit in ("bytes", "chars", "tokens")}
    made = snapshot(
        [True] * 5,
        task=tasks,
        k=[2] * 5,
        gold=[0] * 5,
        choice_logprobs=[[-1.0, -9.0]] * 5,
        meta={"norms": dict(zip(tasks, norms, strict=True))},
        **lengths,
    )
    note = decided_by(made, dict.fromkeys(tasks, "bytes")).notes[0]
    assert note.startswith("decided again by bytes (recorded: chars, chars_with_space, sum, tokens) from its stored")
