from __future__ import annotations

from support import snapshot

from forgetwatch import compare
from forgetwatch.gates import Condition, FailIf, Gate, GateResult, NoWorseThan
from forgetwatch.report import ci_summary

GATE = Gate(limits=(FailIf(condition=Condition.parse("category:a|b.forgotten>1")), NoWorseThan(tolerance=0.02)))
LABELS = {"category": ["a|b", "a|b", "c"]}
BEFORE = snapshot([True, True, True], meta={"model": "base"}, **LABELS)


def judged(right: list[bool | None], name: str) -> GateResult:
    after = snapshot(right, meta={"model": name}, **LABELS)
    return GATE.judge(compare(before=BEFORE, after=after), after)


def test_the_verdict_comes_first_then_the_findings_then_the_counts() -> None:
    text = ci_summary([judged([False, False, None], "new_1")])
    lines = text.splitlines()
    assert lines[:3] == ["## forgetwatch: FORGOT", "", r"**FORGOT** base → new\_1"]
    assert lines[4] == "| verdict | what | measured | limit |"
    assert lines[6] == r"| FORGOT | category:a\|b.forgotten | 2 | fails if \>1 |"
    assert lines[9].startswith("|  | questions | forgotten | gained | now lost | less luck | net points |")
    assert lines[11].startswith("| all | 2 | 2 | 0 | – | – | -100.0 (")
    assert lines[12].startswith(r"| a\|b | 2 | 2 |")
    assert lines[-1] == "Unscored, and in no count: 1 item."
    assert text.endswith("\n")


def test_the_worst_of_several_verdicts_is_the_heading() -> None:
    made = [judged([True, True, True], "one"), judged([False, False, False], "two")]
    text = ci_summary(made)
    assert text.startswith("## forgetwatch: FORGOT\n\n**NOT CLEAR** base → one\n")
    assert "**FORGOT** base → two" in text
