"""One decision for every output."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing.verdict import TOLERANCE, group_verdict, verdict, worst
from forgetwatch.gates import NoWorseThan
from forgetwatch.report.notebook import comparison_fragment
from forgetwatch.report.summary import summary
from forgetwatch.report.terminal import comparison_table
from forgetwatch.watch.guard import Guard

LOST = {"PASS": 0, "INCONCLUSIVE": 5, "FAIL": 60}
"""Forgotten of 400 items, by the verdict at the usual tolerance."""


@pytest.mark.parametrize("word", LOST)
def test_terminal_page_notebook_gate_and_guard_take_one_decision(word: str) -> None:
    before = snapshot([True] * 400, meta={"step": 0})
    after = snapshot([False] * LOST[word] + [True] * (400 - LOST[word]), meta={"step": 1})
    comparison = compare(before=before, after=after)
    decided = verdict(comparison)
    assert decided.word == word
    assert summary(comparison).verdict == decided
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_table(comparison))
    assert f"this comparison: {word}, " in console.file.getvalue()  # type: ignore[attr-defined]
    assert f"<strong>{word}</strong>" in comparison_fragment(comparison)
    assert NoWorseThan(tolerance=TOLERANCE).judge(comparison).verdict == word
    found = Guard(net_loss=TOLERANCE, looks=1).findings(Trajectory.of([before, after]))
    # 400 items of which 60 flip do not see 2 points: the guard says so, and trips on the alarm alone.
    assert {one.what for one in found} == ({"alarm", "net_loss"} if word == "FAIL" else set())


def test_the_verdict_carries_its_numbers() -> None:
    comparison = compare(before=snapshot([True] * 60), after=snapshot([True] * 60))
    found = group_verdict(comparison.all, 0.02)
    assert (found.word, found.tolerance, found.net_change) == ("INCONCLUSIVE", 0.02, 0.0)
    assert found.interval == comparison.all.net_change_interval
    assert found.items_needed == math.ceil(comparison.all.no_worse_than(0.02).items_needed)
    assert group_verdict(comparison.all, 0.5).items_needed is None


def test_nothing_measured_is_inconclusive_and_names_no_number_of_items() -> None:
    found = verdict(compare(before=snapshot([None]), after=snapshot([True])))
    assert (found.word, found.items_needed) == ("INCONCLUSIVE", None)
    assert math.isnan(found.net_change)


def test_a_failure_is_worse_than_a_doubt() -> None:
    assert worst(["PASS", "INCONCLUSIVE", "FAIL"]) == "FAIL"
    assert worst(["PASS", "INCONCLUSIVE"]) == "INCONCLUSIVE"
    with pytest.raises(ValueError, match="empty"):
        worst([])
