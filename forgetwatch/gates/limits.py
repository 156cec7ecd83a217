"""The two limits of a group: accuracy no worse than a tolerance, and conditions that must not hold.

    NoWorseThan   by the interval of the net change: PASS, FAIL, or INCONCLUSIVE where it holds minus the tolerance
    FailIf        by the number itself: FAIL if the condition holds, else PASS

A count or a rate has noise of its own, which a FailIf does not know of: NoWorseThan is the one that does not flicker.
How often an unchanged model fails it by luck depends on the share d of answers that flip by themselves: with n items
and one sample each, about the part of a normal curve beyond 1.96 + tolerance sqrt(n / d), at most about one in forty.
At 2 % and d = .2 that is 1.5 in 1,000 for 500 items, 4 in 100,000 for 2,000. Each group has such a chance of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, cast

from forgetwatch.compare import Comparison
from forgetwatch.errors import GateError
from forgetwatch.gates.condition import Condition
from forgetwatch.gates.finding import Finding
from forgetwatch.groups import Group, Level
from forgetwatch.report.verdict import group_verdict

ALL: Final = "all"


@dataclass(frozen=True, kw_only=True)
class NoWorseThan:
    """Accuracy fell by no more than a tolerance.

    Attributes:
        tolerance: The net loss that is tolerated, 0 to 1.
        group: ``all``, ``category:NAME`` or ``task:NAME``.
    """

    tolerance: float
    group: str = ALL

    def judge(self, comparison: Comparison) -> Finding:
        """What the net change of the group says.

        Raises:
            GateError: If there is no such group, or nothing was measured in it.
        """
        group = find_group(comparison, self.group)
        if math.isnan(group.net_change_interval[0]):
            raise GateError(f"gate: the net change of {self.group!r} is undefined; none of its items was compared")
        found = group_verdict(group, self.tolerance)
        return Finding(
            what=f"{self.group}.net_change",
            measured=found.measured,
            limit=f"no worse than -{100 * self.tolerance:g} points",
            verdict=found.word,
        )


@dataclass(frozen=True, kw_only=True)
class FailIf:
    """A condition that must not hold.

    Attributes:
        condition: The condition.
        group: The group that its quantity is of; None where the condition itself says it.
    """

    condition: Condition
    group: str | None = None

    def judge(self, comparison: Comparison) -> Finding:
        """What the condition says of a comparison.

        Raises:
            GateError: If there is no such group or quantity, or it is undefined there.
        """
        condition = self.condition
        if self.group is None:
            what, number = condition.left, condition.measured(comparison)
        else:
            what = f"{self.group}.{condition.left}"
            number = condition.measured_in(find_group(comparison, self.group))
        asked = condition.text.removeprefix(condition.left).strip()
        return Finding(
            what=what,
            measured=f"{100 * number:.6g}%" if asked.endswith("%") else f"{number:.6g}",
            limit=f"fails if {asked}",
            verdict="FAIL" if condition.met_by(number) else "PASS",
        )


def find_group(comparison: Comparison, name: str) -> Group:
    """The group ``all``, ``category:NAME`` or ``task:NAME`` of a comparison.

    Raises:
        GateError: If there is none.
    """
    if name == ALL:
        return comparison.all
    level, _, own = name.partition(":")
    there = comparison.by(cast(Level, level))
    if own not in there:
        named = ", ".join(f"{level}:{one}" for one in there) or f"no {level} at all"
        raise GateError(f"gate: no group {name!r} with items that were compared; there are {ALL}, {named}")
    return there[own]
