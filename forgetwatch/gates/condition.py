"""A condition on a comparison: a quantity of a group, set against a number.

    forgetting>0.05                      the whole
    category:Math.known_lost>=10         one category
    task:gsm8k.net_change<-0.02          one task
    chance.paper.forgetting>2%           a number below `chance`; 2% is 0.02

A condition whose quantity is unknown or undefined is an error, never a pass.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.quantities import QUANTITIES, group_values, value_at
from forgetwatch.errors import GateError

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION: Final = re.compile(r"^\s*(?P<left>.+?)\s*(?P<op>>=|<=|>|<)\s*(?P<limit>[^<>=]+?)\s*$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """``[[category:|task:]NAME.]quantity OP number``; without NAME it speaks of all items.

    Attributes:
        text: The condition as it was written.
        left: What stands before the operator.
        op: One of > >= < <=.
        limit: The number behind it.
    """

    text: str
    left: str
    op: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """The condition in a text.

        Raises:
            GateError: If the text is no condition.
        """
        match = _CONDITION.match(text)
        try:
            if match is None:
                raise ValueError(text)
            limit = parse_fraction(match["limit"])
        except ValueError as error:
            raise GateError(
                f"gate {text!r}: needed [[category:|task:]NAME.]quantity OP number with OP one of > >= < <=, "
                "as in category:Math.forgetting>0.05"
            ) from error
        parts = match["left"].split(".")
        if not any(".".join(parts[start:]) in QUANTITIES for start in range(len(parts))):
            near = difflib.get_close_matches(parts[-1], QUANTITIES)
            there = f"near it are {', '.join(near)}" if near else f"they are {', '.join(QUANTITIES)}"
            raise GateError(f"gate {text!r}: {parts[-1]!r} is no quantity; {there}")
        return cls(text=text.strip(), left=match["left"], op=match["op"], limit=limit)

    def measure(self, comparison: Comparison) -> float:
        """The number that the condition speaks of.

        Raises:
            GateError: If there is no such group or quantity, or it is undefined there.
        """
        group, quantity = self._group(comparison)
        return self._number(group, quantity)

    def measure_in(self, group: Group) -> float:
        """The number in one group, of a condition that names none.

        Raises:
            GateError: If the quantity is undefined there.
        """
        return self._number(group, self.left)

    def is_met_by(self, number: float) -> bool:
        """Whether a number meets the condition."""
        return _OPERATORS[self.op](number, self.limit)

    def holds(self, comparison: Comparison) -> bool:
        """Whether the condition is true of a comparison."""
        return self.is_met_by(self.measure(comparison))

    def _number(self, group: Group, quantity: str) -> float:
        values = group_values(group)
        value = value_at(values, quantity)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            known = ", ".join(name for name, number in values.items() if isinstance(number, (int, float)))
            raise GateError(
                f"gate {self.text!r}: {quantity!r} is no number for {group.name!r}; the quantities there are {known}"
            )
        return value

    def _group(self, comparison: Comparison) -> tuple[Group, str]:
        """The group and the quantity; names may hold dots, so every reading is tried."""
        level, colon, rest = self.left.partition(":")
        if not colon or level not in ("category", "task"):
            level, rest = "", self.left
        readings = [(comparison.all, rest)] if not level else []
        for group in comparison.groups:
            if level in ("", group.level) and rest.startswith(f"{group.name}."):
                readings.append((group, rest[len(group.name) + 1 :]))
        readings = [(group, quantity) for group, quantity in readings if quantity in QUANTITIES]
        if not readings:
            names = ", ".join(f"{g.level}:{g.name}" for g in comparison.groups if g.level == (level or "category"))
            raise GateError(f"gate {self.text!r}: no such group; the groups are all, {names}")
        if not level and len(readings) > 1:  # "all." is always the whole
            readings = [r for r in readings if r[0].level == "all" and rest.startswith("all.")] or readings
        if len(readings) > 1:
            meant = " or ".join(f"{quantity} of {group.level} {group.name!r}" for group, quantity in readings)
            raise GateError(f"gate {self.text!r} may mean {meant}; write all., category: or task: before the name")
        return readings[0]


def parse_fraction(text: str) -> float:
    """A number as it is written, or a percentage as a fraction: 0.7% is exactly 0.007.

    Raises:
        ValueError: If it is neither, or not finite.
    """
    try:
        # Not a float by 100: 0.7 / 100 is less than 0.007.
        value = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
    except ArithmeticError as error:
        raise ValueError(text) from error
    if not math.isfinite(value):
        raise ValueError(text)
    return value
