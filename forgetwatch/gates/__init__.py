"""Gates: what a comparison must keep for a pipeline to go on.

    condition      a quantity of a group against a number: category:Math.forgetting>5%
    finding        what was measured, its limit, PASS, FAIL or INCONCLUSIVE
    limits         no worse than a tolerance; fails if a condition holds
    must_pass      items that must be right
    gate           all of these, and the judgement on a comparison: the worst of its findings
    gate_file      a gate as YAML; parse_plain_yaml reads YAML as texts, lists and mappings alone
    ci_summary     judgements as Markdown

A gate never passes for want of a number: a group, an item or a quantity that is not there is an error.
"""

from forgetwatch.gates.condition import Condition
from forgetwatch.gates.gate import FailIf, Finding, Gate, GateResult, MustPass, NoWorseThan, Selection
from forgetwatch.gates.gate_file import read_gate

__all__ = ["Condition", "FailIf", "Finding", "Gate", "GateResult", "MustPass", "NoWorseThan", "Selection", "read_gate"]
