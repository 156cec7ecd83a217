"""Gate: limits on groups, items that must be right, and the result of checking a comparison against them.

    NoWorseThan   by the interval of the net change: PASS, FAIL, or INCONCLUSIVE if it contains minus the tolerance,
                  or would contain it in the worst case of the answers that vanished
    FailIf        by the value itself: FAIL if the condition holds, else PASS
    MustPass      items that must be right after, whatever they were before:
                      right in every answer      PASS
                      wrong in any               FAIL
                      unscored, none wrong       INCONCLUSIVE
                      missing                    an error

    verdict       FAIL if any finding fails, else INCONCLUSIVE if any is, else PASS

A count or a rate has noise of its own that a FailIf does not allow for; NoWorseThan does. The chance that an unchanged
model fails a NoWorseThan depends on the share d of answers that flip by themselves: with n items and one sample each,
about the part of a normal curve beyond 1.96 + tolerance sqrt(n / d), at most about one in forty. At 2 % and d = .2 that
is 1.5 in 1,000 for 500 items, 4 in 100,000 for 2,000. Every group that is checked adds such a chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from forgetwatch.comparing import Comparison, Group, Level, Trajectory, Word, group_verdict, worst
from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.gates.condition import Condition
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one limit.

    Attributes:
        what: The group and its quantity, or ``must_pass``.
        measured: The measured value, as text.
        limit: The limit, as text.
        verdict: The verdict.
    """

    what: str
    measured: str
    limit: str
    verdict: Word

    @property
    def line(self) -> str:
        """The finding in one line, without the verdict."""
        return f"{self.what} {self.measured} ({self.limit})"


ALL: Final = "all"


@dataclass(frozen=True, kw_only=True)
class NoWorseThan:
    """Limit: accuracy fell by no more than a tolerance.

    Attributes:
        tolerance: The net loss that is tolerated, 0 to 1.
        group: ``all``, ``category:NAME`` or ``task:NAME``.
    """

    tolerance: float
    group: str = ALL

    def judge(self, comparison: Comparison, trajectory: Trajectory | None = None) -> Finding:
        """Check the net change of the group.

        Raises:
            GateError: If there is no such group, or nothing was measured in it.
        """
        group = find_group(comparison, self.group)
        if math.isnan(group.net_change_interval[0]):  # the verdict would be INCONCLUSIVE; a gate needs a number
            raise GateError(f"gate: the net change of {self.group!r} is undefined; none of its items was compared")
        verdict = group_verdict(group, self.tolerance)
        low, high = (f"{100 * end:+.1f}" for end in verdict.interval)
        measured = f"{100 * verdict.net_change:+.1f} points ({low} to {high})"
        if verdict.open_by_vanished:
            low, high = (f"{100 * end:+.1f}" for end in verdict.interval_worst)
            measured += f", {low} to {high} in the worst case of the {verdict.vanished:,} answers that vanished"
        if verdict.items_needed is not None:
            measured += f", about {verdict.items_needed:,} items would decide"
        return Finding(
            what=f"{self.group}.net_change",
            measured=measured,
            limit=f"no worse than -{100 * self.tolerance:g} points",
            verdict=verdict.word,
        )


@dataclass(frozen=True, kw_only=True)
class FailIf:
    """Limit: a condition does not hold.

    Attributes:
        condition: The condition.
        group: The group of its quantity; None if the condition names the group itself.
    """

    condition: Condition
    group: str | None = None

    def judge(self, comparison: Comparison, trajectory: Trajectory | None = None) -> Finding:
        """Check the condition on a comparison, of a run on its last look.

        Raises:
            GateError: If there is no such group or quantity, or it is undefined there.
        """
        condition = self.condition
        if self.group is None:
            what, number = condition.left, condition.measure(comparison, trajectory)
        else:
            what = f"{self.group}.{condition.left}"
            number = condition.measure_in(find_group(comparison, self.group))
        limit = condition.text.removeprefix(condition.left).strip()
        return Finding(
            what=what,
            measured=f"{100 * number:.6g}%" if limit.endswith("%") else f"{number:.6g}",
            limit=f"fails if {limit}" + (", as every value is" if condition.always_holds() else ""),
            verdict="FAIL" if condition.is_met_by(number) else "PASS",
        )


def find_group(comparison: Comparison, name: str) -> Group:
    """Group ``all``, ``category:NAME`` or ``task:NAME`` of a comparison.

    Raises:
        GateError: If there is no such group with compared items.
    """
    if name == ALL:
        return comparison.all
    level, _, own = name.partition(":")
    there = comparison.by(cast(Level, level))
    if own not in there:
        named = ", ".join(f"{level}:{one}" for one in there) or f"no {level} at all"
        meant = did_you_mean(own, there)
        raise GateError(f"gate: no group {name!r} with items that were compared{meant}; there are {ALL}, {named}")
    return there[own]


_NAMED: Final = 5
"""Largest number of items that a finding names."""


@dataclass(frozen=True, kw_only=True)
class MustPass:
    """Limit: these items are right.

    Attributes:
        items: Task and id of each; None as the task if the id alone is unique.
    """

    items: tuple[tuple[str | None, str], ...]

    @classmethod
    def tagged(cls, probe: Probe) -> MustPass:
        """Make the limit of the items of a probe that are marked ``must_pass``.

        Raises:
            GateError: If no item is marked.
        """
        items = tuple((item.task, item.id) for item in probe if item.must_pass)
        if not items:
            raise GateError(f"must_pass: true, and no item of the probe {probe.name!r} is marked must_pass")
        return cls(items=items)

    def judge(self, after: Snapshot) -> Finding:
        """Check all items, with one finding.

        Raises:
            GateError: If an item is missing, or an id is in several tasks and none is named.
        """
        correct = after.floats("correct")
        rows = _rows_by_id(after)
        states: dict[Word, list[str]] = {"PASS": [], "FAIL": [], "INCONCLUSIVE": []}
        for task, item_id in self.items:
            answers = correct[_rows_of(rows, after, task, item_id)]
            # A wrong answer fails whatever else is unscored; an unscored one alone decides nothing.
            unscored: Word = "INCONCLUSIVE" if np.isnan(answers).any() else "PASS"
            states["FAIL" if (answers == 0).any() else unscored].append(item_id)
        measured = f"{len(states['PASS']):,} of {len(self.items):,} right"
        measured += _named("wrong", states["FAIL"]) + _named("unscored", states["INCONCLUSIVE"])
        return Finding(
            what="must_pass",
            measured=measured,
            limit="each right in every answer",
            verdict=worst(word for word, items in states.items() if items),
        )


def _rows_by_id(after: Snapshot) -> dict[str, dict[str, list[int]]]:
    """Rows by item id and task."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (task, item_id) in enumerate(zip(after.texts("task"), after.texts("item_id"), strict=True)):
        rows.setdefault(item_id, {}).setdefault(task, []).append(row)
    return rows


def _rows_of(rows: dict[str, dict[str, list[int]]], after: Snapshot, task: str | None, item_id: str) -> list[int]:
    tasks = rows.get(item_id, {})
    if task is None and len(tasks) > 1:
        raise GateError(
            f"must_pass: item {item_id!r} is in {len(tasks)} tasks of {after.label} "
            f"({', '.join(sorted(tasks)[:5])}); "
            "name the task: must_pass: {TASK: [ID, ...]}"
        )
    found = [of for name, of in tasks.items() if task in (None, name)]
    if not found:
        where = "" if task is None else f" of task {task!r}"
        raise GateError(
            f"must_pass: item {item_id!r}{where} is not among the items of {after.label}; "
            f"its ids are such as {', '.join(repr(one) for one in list(rows)[:3])}"
        )
    return found[0]


def _named(state: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return f"; {state}: {', '.join(items[:_NAMED])}{more}"


Limit = NoWorseThan | FailIf

_RESULTS: Final[dict[Word, str]] = {"PASS": "passed", "FAIL": "failed", "INCONCLUSIVE": "undecided"}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Items to which a comparison is restricted: in one of the tasks, in one of the categories, and in the list.

    Attributes:
        tasks: Names of tasks; empty for no restriction.
        categories: Names of categories; likewise.
        items: Ids of items; likewise.
    """

    tasks: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Result of a gate for one comparison.

    Attributes:
        comparison: The comparison that was checked.
        findings: One for each limit, in the order of the gate.
    """

    comparison: Comparison = field(repr=False)
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Word:
        """The worst of the findings."""
        return worst(finding.verdict for finding in self.findings)

    @property
    def line(self) -> str:
        """The result in one line, with the findings that did not pass, or all findings if all passed."""
        word = self.verdict
        text = f"gate {_RESULTS[word]}: {_numbers(self.findings, word)}"
        unclear = _numbers(self.findings, "INCONCLUSIVE")
        return f"{text}; undecided: {unclear}" if word == "FAIL" and unclear else text


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Limits that a comparison has to keep.

    Attributes:
        limits: Limits on groups.
        must_pass: Items that must be right; None for no such items.
        subset: Items to which the comparison is restricted.
    """

    limits: tuple[Limit, ...] = ()
    must_pass: MustPass | None = None
    subset: Selection = Selection()

    @property
    def is_empty(self) -> bool:
        """True if there is no limit; such a gate has no result."""
        return not self.limits and self.must_pass is None

    @property
    def tolerance(self) -> float | None:
        """Smallest net loss over all items that a limit tolerates; None if no limit sets one."""
        return min(
            (one.tolerance for one in self.limits if isinstance(one, NoWorseThan) and one.group == ALL), default=None
        )

    def judge(self, comparison: Comparison, after: Snapshot, trajectory: Trajectory | None = None) -> GateResult:
        """Check a comparison against all limits.

        Args:
            comparison: The comparison, over the subset.
            after: Its whole snapshot after: an item that must be right may be outside the subset.
            trajectory: The run, if the comparison is its last look against its baseline.

        Raises:
            GateError: If a group, a quantity or an item is missing or undefined.
        """
        findings = [limit.judge(comparison, trajectory) for limit in self.limits]
        findings += [self.must_pass.judge(after)] if self.must_pass is not None else []
        return GateResult(comparison=comparison, findings=tuple(findings))


def _numbers(findings: Sequence[Finding], word: Word) -> str:
    return "; ".join(finding.line for finding in findings if finding.verdict == word)
