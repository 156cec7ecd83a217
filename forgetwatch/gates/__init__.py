"""Gates: conditions that a comparison has to meet for a pipeline to continue.

    condition      a quantity of a group set against a number: category:Math.forgetting>5%
    gate           limits, items that must be right, and the selection of items; the result of a gate; a gate as YAML
    policy         limits in three tiers with one error, as YAML; the policies that are shipped
    ruling         a policy applied to two models
    power          what a policy can see, before any model is scored

A gate never passes for lack of a number: a missing group, item or quantity is an error. PASS, FAIL and INCONCLUSIVE of
accuracy are those of `comparing.verdict`. Start with `gate`.
"""

from forgetwatch.gates.condition import Condition, parse_fraction
from forgetwatch.gates.gate import (
    FailIf,
    Finding,
    Gate,
    GateResult,
    Limit,
    MustPass,
    NoWorseThan,
    Selection,
    parse_no_worse_than,
    read_gate,
)
from forgetwatch.gates.policy import (
    READY,
    Exemption,
    Policy,
    Rule,
    check_groups,
    load_policy,
    parse_policy,
    policy_text,
)
from forgetwatch.gates.ruling import PolicyResult, Ruling, Sides, apply_policy
