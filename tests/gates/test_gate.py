from __future__ import annotations

import pytest
from support import snapshot

from forgetwatch import compare
from forgetwatch.gates import Condition, FailIf, Finding, Gate, GateResult, MustPass, NoWorseThan

BEFORE, AFTER = snapshot([True] * 9), snapshot([True] * 8 + [None])
COMPARISON = compare(before=BEFORE, after=AFTER)
PASSES = FailIf(condition=Condition.parse("forgotten>0"))
FAILS = FailIf(condition=Condition.parse("n>1"))
UNCLEAR = NoWorseThan(tolerance=0.02)
UNSCORED = MustPass(items=((None, "8"),))


@pytest.mark.parametrize(
    ("gate", "verdict"),
    [
        (Gate(limits=(PASSES,)), "PASS"),
        (Gate(limits=(PASSES, UNCLEAR)), "INCONCLUSIVE"),
        (Gate(limits=(PASSES,), must_pass=UNSCORED), "INCONCLUSIVE"),
        (Gate(limits=(UNCLEAR, FAILS, PASSES)), "FAIL"),
    ],
)
def test_the_worst_finding_is_the_verdict(gate: Gate, verdict: str) -> None:
    judgement = gate.judge(COMPARISON, AFTER)
    assert judgement.verdict == verdict
    assert len(judgement.findings) == len(gate.limits) + (gate.must_pass is not None)


def test_one_line_holds_what_did_not_pass_and_nothing_else() -> None:
    line = Gate(limits=(PASSES, FAILS, UNCLEAR)).judge(COMPARISON, AFTER).line
    assert line.startswith("gate failed: n 8 (fails if >1); undecided: all.net_change +0.0 points (")
    assert "forgotten" not in line
    assert Gate(limits=(PASSES,)).judge(COMPARISON, AFTER).line == "gate passed: forgotten 0 (fails if >0)"
    assert Gate(limits=(UNCLEAR,)).judge(COMPARISON, AFTER).line.startswith("gate undecided: all.net_change")


def test_the_tolerance_over_all_is_the_strictest() -> None:
    of_a_group = NoWorseThan(tolerance=0.001, group="category:c")
    assert Gate(limits=(of_a_group, NoWorseThan(tolerance=0.05), UNCLEAR)).tolerance == 0.02
    assert Gate(limits=(of_a_group, PASSES)).tolerance is None


def test_a_gate_without_limits_is_empty() -> None:
    assert Gate().is_empty
    assert not Gate(must_pass=UNSCORED).is_empty


def test_a_result_is_made_of_its_findings() -> None:
    finding = Finding(what="x", measured="1", limit="fails if >0", verdict="FAIL")
    assert GateResult(comparison=COMPARISON, findings=(finding,)).line == "gate failed: x 1 (fails if >0)"
