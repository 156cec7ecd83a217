"""Conditions on a comparison: a quantity of a group, set against a number.

    forgetting>0.05                      the whole; a share, 5% is the same
    known_lost_net>20                    a count
    category:Math.forgotten>=10          one category
    task:gsm8k.net_change<-0.02          one task
    chance.paper.forgetting>2%           a number below `chance`
    drift.probe.kl_sampled>0.05          drift of the model from its base, in nats a token
    history.ever_forgotten>40            a count over all looks of a run

A condition whose quantity is unknown or undefined is an error, never a pass. So are one that can
never hold, such as ``forgetting>5`` of a share, one with a limit below every value, such as
``forgetting>-5%``, and a percentage of what is not a share: the number is of another unit than was
meant. The finding of one that holds of every value, such as ``n>=0``, says so.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Self

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group, group_values
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.measures.base import Unit
from forgetwatch.measures.base_drift import DRIFT
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.history import HISTORY
from forgetwatch.measures.quantities import (
    BEYOND_GROUPS,
    INTERVALS,
    MEASURE_OF,
    QUANTITIES,
    range_of,
    unit_of,
    value_at,
)
from forgetwatch.measures.scores import PASSAGES

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
# `>=` and `<=` before `>` and `<`: alternatives are tried in their order.
_CONDITION: Final = re.compile(
    r"^\s*(?P<left>.+?)\s*(?P<op>>=|<=|>|<)\s*(?P<limit>[^<>=]+?)\s*$", re.DOTALL
)

ALL: Final = "all"
EVERY: Final = "*"
LEVELS: Final = ("category", "task", "wording")

_UNITS: Final[dict[Unit, str]] = {
    **{"count": "a count", "share": "a share", "ratio": "a ratio"},
    **{"nats": "in nats", "bits": "in bits per byte"},
}
_PAIRS: Final = (
    *(("forgotten", "forgetting"), ("gained", "backward_transfer"), ("retained", "retention")),
    *(("known_lost", "known_lost_net_share"), ("known_lost_net", "known_lost_net_share")),
)
_SAME_AS: Final = dict(_PAIRS) | {share: count for count, share in _PAIRS}
"""Share of each count that has one, and the reverse."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """``[[category:|task:]NAME.]quantity OP number``; without NAME the quantity is that of all items.

    Attributes:
        text: The whole text.
        left: The part before the operator; without a name once its group is known.
        op: The operator.
        limit: The number after it.
        bound: Operator and number as in the text.
    """

    text: str
    left: str
    op: str
    limit: float
    bound: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition.

        Raises:
            GateError: If the text is not a condition, or names no known quantity.
        """
        match = _CONDITION.match(text)
        try:
            if match is None:
                raise ValueError(text)
            limit = parse_fraction(match["limit"])
        except ValueError as error:
            raise GateError(
                f"gate {text!r:.80}: needed [[category:|task:]NAME.]quantity OP number with OP "
                "one of > >= < <=, as in category:Math.forgetting>0.05"
            ) from error
        parts = match["left"].split(".")
        readings = [".".join(parts[start:]) for start in range(len(parts))]
        if match["left"] in INTERVALS:  # not a group of the name before the last dot
            ends = f"{match['left']}_low and {match['left']}_high"
            remedy = (
                f"its ends are {ends}"
                if f"{match['left']}_low" in QUANTITIES
                else "a gate needs one number"
            )
            raise GateError(f"gate {text!r}: {match['left']} is an interval; {remedy}")
        quantities = [name for name in readings if name in QUANTITIES]
        quantities += readings[:1] if match["left"] in BEYOND_GROUPS else []
        if not quantities:
            near = did_you_mean(match["left"], BEYOND_GROUPS) or did_you_mean(parts[-1], QUANTITIES)
            remedy = (
                near or f"; docs/reference/statistics.md lists them, as {', '.join(QUANTITIES[:6])}"
            )
            raise GateError(f"gate {text!r}: {parts[-1]!r} is not a quantity{remedy}")
        bound = text.strip().removeprefix(match["left"]).strip()
        condition = cls(
            text=text.strip(), left=match["left"], op=match["op"], limit=limit, bound=bound
        )
        # `chance.n` is also the n of a category named chance: a fault counts if every reading has
        # one.
        faults = [
            condition._fault(name, in_percent=match["limit"].endswith("%")) for name in quantities
        ]
        if None not in faults:
            raise GateError(f"gate {text!r}: {faults[0]}")
        return condition

    def named(self) -> tuple[str | None, Self]:
        """Split off a group named with level.

        Returns:
            The group, ``all`` if none is named, None for a group without level; and the condition
            on that group.
        """
        if self.left in BEYOND_GROUPS or self.left in QUANTITIES:
            return ALL, self
        # Of several readings the longest quantity: in `category:Math.chance.n>9` it is `chance.n`.
        quantity = max((name for name in QUANTITIES if self.left.endswith(f".{name}")), key=len)
        of = self.left.removesuffix(f".{quantity}")
        return of if of == ALL or ":" in of else None, replace(self, left=quantity)

    def about(self, comparison: Comparison) -> tuple[str, Self]:
        """Split off the group that the condition names.

        Names of groups may hold dots and look like quantities, so every reading is tried.

        Returns:
            The group, as ``all`` or ``LEVEL:NAME``; and the condition on that group.

        Raises:
            GateError: If there is no such group, or several.
        """
        if self.left in BEYOND_GROUPS:
            return ALL, self
        level, name, quantity = self.reading(
            (group.level, group.name) for group in comparison.groups
        )
        return ALL if level == ALL else f"{level}:{name}", replace(self, left=quantity)

    def measure(
        self,
        comparison: Comparison,
        trajectory: Trajectory | None = None,
        *,
        group: Group | None = None,
    ) -> float:
        """Measure the quantity in a group.

        Args:
            comparison: The comparison; of a run, its last look against its baseline.
            trajectory: The run; needed for its history.
            group: The group.

        Raises:
            GateError: If there is no such group, or the quantity is undefined there.
        """
        if self.left in BEYOND_GROUPS:
            return self._beyond_groups(comparison, trajectory)
        quantity = self.left
        if group is None:
            level, name, quantity = self.reading(
                (group.level, group.name) for group in comparison.groups
            )
            group = next(
                group for group in comparison.groups if (group.level, group.name) == (level, name)
            )
        values = group_values(group)
        value = value_at(values, quantity)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            numbers = [name for name, number in values.items() if isinstance(number, (int, float))]
            raise GateError(
                f"gate {self.text!r}: {quantity!r} has no number in {group.name!r}; there are "
                f"{', '.join(numbers[:6])}"
            )
        return value

    @property
    def interval(self) -> str | None:
        """Name of the interval of the quantity.

        Returns:
            The name, or None without an interval.
        """
        name = f"{self.left}_interval"
        # The interval of `known_lost` is about the share.
        return (
            name if name in INTERVALS and MEASURE_OF[name][1].unit == unit_of(self.left) else None
        )

    @property
    def counts_unmeasured(self) -> bool:
        """Is the quantity a number without items on both sides?"""
        return self.left in _COUNTS

    def is_open(self, group: Group) -> bool:
        """Do answers missing on one side bound the quantity?

        Such answers are not included in the quantity.
        """
        if self.left in BEYOND_GROUPS:
            return False
        name = (
            self.left if self.left in MEASURE_OF else self.left.rpartition("_")[0]
        )  # an end of an interval
        is_of_answers = self.left not in _WITH_VANISHED and MEASURE_OF[name][0] is not PASSAGES
        return group.vanished_share > VANISHED_SHARE_NOTED and is_of_answers

    def is_met_by(self, number: float) -> bool:
        """Does a number meet the condition?"""
        return _OPERATORS[self.op](number, self.limit)

    def check_reach(self, group: Group) -> None:
        """Refuse a count beyond the questions of a group.

        Raises:
            GateError: If no outcome of the group could fail it.
        """
        if self.op.startswith(">") and self.left in _OF_QUESTIONS and not self.is_met_by(group.n):
            raise GateError(
                f"gate {self.text!r}: {self.left} is at most {group.n:g}, the questions of "
                f"{group.name!r}: the gate would never fail; needed a lower limit"
            )

    def always_holds(self) -> bool:
        """Does every value of the quantity meet the condition?

        0 always meets ``n>=0``.
        """
        known = (*QUANTITIES, *BEYOND_GROUPS)
        names = [name for name in known if self.left == name or self.left.endswith(f".{name}")]
        ends = [range_of(name) for name in names]
        return all(self.is_met_by(low if self.op.startswith(">") else high) for low, high in ends)

    def _fault(self, quantity: str, *, in_percent: bool) -> str | None:
        unit, (low, high) = unit_of(quantity), range_of(quantity)
        group, same_as, limit = (
            self.left[: -len(quantity)],
            _SAME_AS.get(quantity),
            f"{self.limit:g}",
        )
        if in_percent and unit != "share":
            percent = f"{100 * self.limit:g}"
            remedy = f"needed a number, as in {self.left}{self.op}{percent if unit == 'count' else limit}"
            remedy += f", or the share {group}{same_as}{self.op}{percent}%" if same_as else ""
            return f"{quantity} is {_UNITS[unit]}, not a share; {remedy}"
        # If the largest value does not meet `>`, none does; if the smallest does, all do. For `<`
        # it is the reverse.
        most, least = (high, low) if self.op.startswith(">") else (low, high)
        can_hold, must_hold = self.is_met_by(most), self.is_met_by(least) and self.limit != least
        if can_hold and not must_hold and not (unit == "share" and abs(self.limit) > 1):
            return None
        remedy = "needed a limit inside that range"
        if unit == "share" and 1 < abs(self.limit) <= 100:
            remedy = f"needed a fraction or a percentage, as in {self.left}{self.op}{limit}%"
            remedy += f", or the count {group}{same_as}{self.op}{limit}" if same_as else ""
        ends = (
            f"{low:g} to {high:g}"
            if unit == "share"
            else f"at most {high:g}"
            if math.isfinite(high)
            else "at least 0"
        )
        # A ratio of differences has no range; beyond 1 it is as good as certain on which side of
        # the limit it is.
        outcome = "always fail" if must_hold or (can_hold and self.is_met_by(0.0)) else "never fail"
        return f"{quantity} is {_UNITS[unit]}, {ends}: the gate would {outcome}; {remedy}"

    def _beyond_groups(self, comparison: Comparison, trajectory: Trajectory | None) -> float:
        measure, _, rest = self.left.partition(".")
        source: object
        if measure == HISTORY.key:
            source = None if trajectory is None else trajectory[HISTORY]
            needed = "a run with a look after its baseline (forgetwatch report)"
        else:
            name = rest.partition(".")[0]
            source = (comparison[DRIFT] or {}).get(name)
            needed = f"a drift that was measured after the {name} prompts (--drift)"
        value = None if source is None else BEYOND_GROUPS[self.left].read(source)
        if value is None or math.isnan(value):
            raise GateError(f"gate {self.text!r}: {self.left} has no number; needed {needed}")
        return value

    def reading(self, groups: Iterable[tuple[str, str]]) -> tuple[str, str, str]:
        """Find level, name and quantity of the condition.

        Names of groups may hold dots and look like quantities, so every reading is tried; more than
        one is an error.

        Args:
            groups: Level and name of each group that there is.

        Raises:
            GateError: If there is no such group, or several.
        """
        level, colon, rest = self.left.partition(":")
        if not colon or level not in LEVELS:
            level, rest = "", self.left
        elif rest.startswith(f"{EVERY}.") and rest[2:] in QUANTITIES:
            return level, EVERY, rest[2:]
        there = [(at, name) for at, name in groups if not level or at == level]
        readings = [] if level else [(ALL, ALL, rest)]
        readings += [
            (at, name, rest[len(name) + 1 :]) for at, name in there if rest.startswith(f"{name}.")
        ]
        readings = [reading for reading in readings if reading[2] in QUANTITIES]
        if not readings:
            names = [f"{at}:{name}" for at, name in there if level or at == "category"]
            # The quantity after the last dot is known, since a condition with another is refused
            # when it is read.
            near = did_you_mean(f"{level or 'category'}:{rest.rpartition('.')[0]}", names)
            raise GateError(
                f"gate {self.text!r}: no such group{near}; the groups are all, {', '.join(names)}"
            )
        if not level and len(readings) > 1:  # "all." is always the whole
            readings = [
                reading for reading in readings if reading[0] == ALL and rest.startswith("all.")
            ] or readings
        if len(readings) > 1:
            meant = " or ".join(f"{quantity} of {at} {name!r}" for at, name, quantity in readings)
            raise GateError(
                f"gate {self.text!r} may mean {meant}; write all., category: or task: before "
                "the name"
            )
        return readings[0]


_OF_QUESTIONS: Final = tuple(count for count, _ in _PAIRS)
_COUNTS: Final = ("vanished", "unscored_before", "unscored_after", "newly_unscored")
_WORST: Final = ("net_change_interval_worst_low", "net_change_interval_worst_high")
_WITH_VANISHED: Final = frozenset(
    (*_COUNTS, *_WORST, "n", "effective_n", "retention", "known_vanished")
)
"""Quantities that include the answers that vanished, or are about none."""


def parse_fraction(text: str) -> float:
    """Parse a number, or a percentage as a fraction.

    0.7% is exactly 0.007.

    Raises:
        ValueError: If the text is neither, or not finite, or its digits are not 0 to 9.
    """
    if not text.isascii() or "_" in text:  # Decimal reads the digits of every script, and 1_000
        raise ValueError(text)
    try:
        # Not a float by 100: 0.7 / 100 is less than 0.007.
        value = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
    except ArithmeticError as error:
        raise ValueError(text) from error
    if not math.isfinite(value):
        raise ValueError(text)
    return value
