"""Gate: limits on groups, items that must be right, the result of checking a comparison against them, and gate files.

    NoWorseThan   by the interval of a leg of the verdict: PASS, FAIL, or INCONCLUSIVE if it contains the limit, or
                  would contain it in the worst case of the answers that vanished
    FailIf        by the value itself: FAIL if the condition holds; INCONCLUSIVE if more than 1 % of the answers
                  vanished, and the value does not include them; else PASS
    MustPass      items that must be right after, whatever they were before:
                      right in every answer      PASS
                      wrong in any               FAIL
                      unscored, none wrong       INCONCLUSIVE
                      missing                    an error

    verdict       FAIL if any finding fails, else INCONCLUSIVE if any is, else PASS

A count or a rate has noise of its own that a FailIf does not allow for; NoWorseThan does: of unchanged models at most
one in forty fails it. Every group that is checked adds such a chance.

A gate file is a gate in YAML. Every key is optional, but there must be a limit; an unknown key is an error.

    tolerance: 2%                              accuracy over all items: no worse than that
    tolerance: {accuracy: 2%, known: 5%, category: 5%}    also of the clearly known items, and of each category
    fail_if: ["known_lost>20"]                 conditions as in --fail-if
    groups:                                    the same of category:NAME, task:NAME or all
      category:Math: {tolerance: 3%, fail_if: ["known_lost>5"]}
    must_pass: [refund-1, refund-2]            these items must be right; {TASK: [ID, ...]} where ids repeat
    must_pass: true                            or: those that the probe marks so
    subset:                                    the comparison is about these items alone
      {tasks: [gsm8k], categories: [Math], items: ids.txt}    an id a line; in the folder of the gate file

Every scalar stays the text in the file, so ids and 2% need no quotes. A gate may come from elsewhere:
the file of `subset.items` must be a regular file in the folder of the gate file or below it, links included.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

import numpy as np

from forgetwatch.comparing import (
    TOLERANCE,
    Answer,
    Comparison,
    Group,
    LegName,
    Level,
    Tolerance,
    Trajectory,
    accuracy_leg,
    at_start,
    legs_of,
    worst,
)
from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.files import Plain, file_errors, read_plain_yaml, read_text
from forgetwatch.gates.condition import Condition, parse_fraction
from forgetwatch.measures import QUANTITIES
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one limit.

    Attributes:
        what: The group and its quantity, or ``must_pass``.
        measured: The measured value, as text.
        limit: The limit, as text.
        verdict: The answer.
        leg: Leg of the verdict over all items that the limit asks about; None for any other limit.
    """

    what: str
    measured: str
    limit: str
    verdict: Answer
    leg: LegName | None = None

    @property
    def line(self) -> str:
        """The finding in one line, without the verdict."""
        return f"{self.what} {self.measured} ({self.limit})"


ALL: Final = "all"


@dataclass(frozen=True, kw_only=True)
class NoWorseThan:
    """Limit: one leg of the verdict is within a tolerance, 0 to 1; see `comparing.verdict`.

    Attributes:
        tolerance: The loss that is tolerated.
        leg: ``accuracy``, ``knowledge`` or ``category``.
        group: ``all``, ``category:NAME`` or ``task:NAME``, of which the accuracy is meant; the other legs are of all.
    """

    tolerance: float
    leg: LegName = "accuracy"
    group: str = ALL

    def judge(self, comparison: Comparison, trajectory: Trajectory | None = None) -> Finding:
        """Check the leg. One that is not measured is undecided.

        Raises:
            GateError: If there is no such group, or its accuracy was not measured.
        """
        if self.leg == "accuracy":
            leg = accuracy_leg(group := _find_group(comparison, self.group), -self.tolerance, level=0.95)
        else:
            group = comparison.all
            (leg,) = legs_of(comparison, Tolerance(**{**_NONE, _OF_LEG[self.leg]: self.tolerance}))
        what = f"{self.group}.net_change_estimate" if self.leg == "accuracy" else self.leg
        asked = self.leg if self.group == ALL else None
        if leg is None or leg.interval is None or leg.value is None:
            if self.leg == "accuracy":  # the verdict would be INCONCLUSIVE; a gate needs a number
                raise GateError(f"gate: the net change of {self.group!r} is undefined; none of its items was compared")
            limit = f"at most {100 * self.tolerance:g} points" if self.leg == "category" else _share(self.tolerance)
            reason = f"not measured: {leg.reason if leg else self.group}"
            return Finding(what=what, measured=reason, limit=limit, verdict="INCONCLUSIVE", leg=asked)
        if self.leg == "knowledge":
            low, high = (f"{100 * end:.1f}" for end in leg.interval)
            measured, limit = f"{100 * leg.value:.1f} % lost ({low} to {high})", _share(self.tolerance)
        else:
            low, high = (f"{100 * end:+.1f}" for end in leg.interval)
            measured = f"{leg.group + ' ' if leg.group else ''}{100 * leg.value:+.1f} points ({low} to {high})"
            limit = f"no worse than -{100 * self.tolerance:g} points"
        if leg.is_open_by_vanished and leg.worst is not None:
            vanished = group.outcomes.vanished
            measured += f", to {100 * leg.worst:+.1f} in the worst case of the {vanished:,} answers that vanished"
        passes = leg.allows if self.leg != "accuracy" else leg.answer == "PASS"
        answer: Answer = "FAIL" if leg.answer == "FAIL" else "PASS" if passes else "INCONCLUSIVE"
        if start := at_start(comparison.all):
            answer, measured = "INCONCLUSIVE", f"{measured}; {start}"
        elif leg.reason:
            measured += f"; {leg.reason}"
        return Finding(what=what, measured=measured, limit=limit, verdict=answer, leg=asked)


_OF_LEG: Final[dict[LegName, str]] = {"accuracy": "accuracy", "knowledge": "known", "category": "category"}
"""Name of each leg in a tolerance."""

VANISHED_OPEN: Final = ", without the answers that vanished"
_NONE: Final[dict[str, float | None]] = dict.fromkeys(_OF_LEG.values())


def _share(tolerance: float) -> str:
    return f"at most {100 * tolerance:g} % of what it clearly knew"


@dataclass(frozen=True, kw_only=True)
class FailIf:
    """Limit: a condition does not hold, in a group; None as the group if the condition names it itself."""

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
            number = condition.measure_in(_find_group(comparison, self.group))
        is_open = condition.is_open(comparison, None if self.group is None else _find_group(comparison, self.group))
        limit = condition.text.removeprefix(condition.left).strip()
        return Finding(
            what=what,
            measured=(f"{100 * number:.6g}%" if limit.endswith("%") else f"{number:.6g}") + VANISHED_OPEN * is_open,
            limit=f"fails if {limit}" + (", as every value is" if condition.always_holds() else ""),
            verdict="FAIL" if condition.is_met_by(number) else "INCONCLUSIVE" if is_open else "PASS",
        )


def _find_group(comparison: Comparison, name: str) -> Group:
    """Return the group ``all``, ``category:NAME`` or ``task:NAME`` of a comparison."""
    if name == ALL:
        return comparison.all
    level, _, own = name.partition(":")
    there = comparison.by(cast(Level, level))
    if own not in there:
        named = ", ".join(f"{level}:{one}" for one in there) or f"no {level} at all"
        meant = did_you_mean(own, there)
        raise GateError(f"gate: no group {name!r} with items that were compared{meant}; there are {ALL}, {named}")
    return there[own]


@dataclass(frozen=True, kw_only=True)
class MustPass:
    """Limit: these items, by task and id, are right; None as the task if the id alone is unique."""

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
        rows: dict[str, dict[str, list[int]]] = {}  # by id and task
        for row, (task, item_id) in enumerate(zip(after.texts("task"), after.texts("item_id"), strict=True)):
            rows.setdefault(item_id, {}).setdefault(task, []).append(row)
        states: dict[Answer, list[str]] = {"PASS": [], "FAIL": [], "INCONCLUSIVE": []}
        for of_task, item_id in self.items:
            answers = correct[_rows_of(rows, after, of_task, item_id)]
            # A wrong answer fails whatever else is unscored; an unscored one alone decides nothing.
            unscored: Answer = "INCONCLUSIVE" if np.isnan(answers).any() else "PASS"
            states["FAIL" if (answers == 0).any() else unscored].append(item_id)
        measured = f"{len(states['PASS']):,} of {len(self.items):,} right"
        measured += _named("wrong", states["FAIL"]) + _named("unscored", states["INCONCLUSIVE"])
        return Finding(
            what="must_pass",
            measured=measured,
            limit="each right in every answer",
            verdict=worst(word for word, items in states.items() if items),
        )


def _rows_of(rows: dict[str, dict[str, list[int]]], after: Snapshot, task: str | None, item_id: str) -> list[int]:
    tasks = rows.get(item_id, {})
    if task is None and len(tasks) > 1:
        raise GateError(
            f"must_pass: item {item_id!r} is in {len(tasks)} tasks of {after.label} ({', '.join(sorted(tasks)[:5])}); "
            "name the task: must_pass: {TASK: [ID, ...]}"
        )
    for name, found in tasks.items():
        if task in (None, name):
            return found
    where = "" if task is None else f" of task {task!r}"
    raise GateError(
        f"must_pass: item {item_id!r}{where} is not among the items of {after.label}; "
        f"its ids are such as {', '.join(repr(one) for one in list(rows)[:3])}"
    )


def _named(state: str, items: Sequence[str]) -> str:
    """Return the first items in a state, and the number of others; empty for no item."""
    named, more = items[:5], len(items) - 5
    return f"; {state}: {', '.join(named)}{f' and {more:,} more' if more > 0 else ''}" if items else ""


Limit = NoWorseThan | FailIf


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Items to which a comparison is restricted: in one of the tasks, in one of the categories, and in the list of ids.

    An empty part restricts nothing.
    """

    tasks: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Result of a gate for one comparison: a finding for each limit, in the order of the gate."""

    comparison: Comparison = field(repr=False)
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Answer:
        """The worst of the findings."""
        return worst(finding.verdict for finding in self.findings)

    @property
    def line(self) -> str:
        """The result in one line, with the findings that did not pass, or all findings if all passed."""

        def lines(verdict: Answer) -> str:
            return "; ".join(finding.line for finding in self.findings if finding.verdict == verdict)

        word, unclear = self.verdict, lines("INCONCLUSIVE")
        text = f"gate {word}: {lines(word)}"
        return f"{text}; inconclusive: {unclear}" if word == "FAIL" and unclear else text


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
    def tolerance(self) -> Tolerance:
        """The smallest losses over all items that the limits tolerate; the default where no limit sets one."""
        found: dict[str, float] = {}
        for one in self.limits:
            if isinstance(one, NoWorseThan) and one.group == ALL:
                name = _OF_LEG[one.leg]
                found[name] = min(one.tolerance, found.get(name, 1.0))
        return replace(TOLERANCE, **found)

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


_LIMITS: Final = ("tolerance", "fail_if")
_MAX_ITEMS_SIZE: Final = 2**26
"""Bytes of a file of ids."""


def read_gate(path: Path, probe: Probe | None = None) -> Gate:
    """Read a gate file.

    Args:
        path: A YAML file.
        probe: The probe whose marked items ``must_pass: true`` means.

    Raises:
        GateError: If the file cannot be read, or is not a gate.
    """
    source = str(path)
    keys = (*_LIMITS, "groups", "must_pass", "subset")
    given = as_mapping(read_plain_yaml(path, "a gate in YAML", GateError), source, keys)
    limits = _limits(given, source, None)
    groups = given.get("groups", {})
    for name, limited in as_mapping(groups, f"{source}: groups").items():
        level, _, own = name.partition(":")  # names of groups may contain further colons
        if name != ALL and not (level in ("category", "task", "wording") and own):
            raise GateError(f"{source}: groups: needed all, category:NAME or task:NAME, got {short(name)}")
        where = f"{source}: groups: {name}"
        limits += _limits(as_mapping(limited, where, _LIMITS), where, name)
    gate = Gate(
        limits=tuple(limits),
        must_pass=read_must_pass(given["must_pass"], source, probe) if "must_pass" in given else None,
        subset=_subset(given["subset"], path) if "subset" in given else Selection(),
    )
    if gate.is_empty:
        raise GateError(f"{source}: has no limit; needed at least one of tolerance, fail_if, groups, must_pass")
    return gate


def _limits(given: dict[str, Plain], where: str, group: str | None) -> list[Limit]:
    """Return the limits of one group, or of the top level of the file for None."""
    found: list[Limit] = []
    if "tolerance" in given:
        found += _tolerances(given["tolerance"], where, group)
    for text in as_texts(given["fail_if"], f"{where}: fail_if") if "fail_if" in given else ():
        condition = Condition.parse(text)
        if group is not None and condition.left not in QUANTITIES:
            raise GateError(f"{where}: fail_if: {short(text)} needs a quantity alone, the group is named above it")
        found.append(FailIf(condition=condition, group=group))
    return found


def _tolerances(given: Plain, where: str, group: str | None) -> list[NoWorseThan]:
    """Return the limits of a tolerance: of accuracy alone, or of the legs that a mapping names."""
    named = as_mapping(given, f"{where}: tolerance", tuple(_NONE)) if isinstance(given, dict) else {"accuracy": given}
    if group not in (None, ALL) and (others := [name for name in named if name != "accuracy"]):
        raise GateError(f"{where}: tolerance: {others[0]} is about all items; set it at the top of the file")
    if not named:
        raise GateError(f"{where}: tolerance: needed at least one of {', '.join(_NONE)}")
    of_name = {name: leg for leg, name in _OF_LEG.items()}
    return [
        NoWorseThan(tolerance=_tolerance(value, where), leg=of_name[name], group=group or ALL)
        for name, value in named.items()
    ]


def parse_no_worse_than(text: str) -> list[NoWorseThan]:
    """Return the limits of a text such as ``2%``, for accuracy alone, or ``2%,known=5%,category=5%``.

    Raises:
        ValueError: If it is not such a text.
    """
    of_name = {name: leg for leg, name in _OF_LEG.items()}
    found: dict[LegName, NoWorseThan] = {}
    for part in text.split(","):
        name, equals, value = part.strip().rpartition("=")
        leg = of_name.get(name if equals else "accuracy")
        share = parse_fraction(value.strip())
        if leg is None or leg in found or not 0 < share < 1:
            raise ValueError(text)
        found[leg] = NoWorseThan(tolerance=share, leg=leg)
    return list(found.values())


def _tolerance(given: Plain, where: str) -> float:
    with suppress(ValueError):
        if isinstance(given, str) and 0 < (value := parse_fraction(given)) < 1:
            return value
    raise GateError(f"{where}: tolerance: needed a share above 0 and below 1, such as 2% or 0.02, got {short(given)}")


def read_must_pass(given: Plain, source: str, probe: Probe | None) -> MustPass:
    """Return the items that must pass, as a file has them."""
    where = f"{source}: must_pass"
    if isinstance(given, str):
        if given.lower() != "true":  # scalars stay texts, and YAML also spells it True and TRUE
            raise GateError(f"{where}: needed true, a list of ids, or a mapping of tasks to ids, got {short(given)}")
        if probe is None:
            raise GateError(f"{where}: true means the items marked in the probe; name it with --probe, or list the ids")
        return MustPass.tagged(probe)
    if isinstance(given, dict):
        named = [(task, item) for task, items in given.items() for item in as_texts(items, f"{where}: {task}")]
        if not named:
            raise GateError(f"{where}: names no item")
        return MustPass(items=tuple(named))
    return MustPass(items=tuple((None, item) for item in as_texts(given, where)))


def _subset(given: Plain, path: Path) -> Selection:
    where, known = f"{path}: subset", ("tasks", "categories", "items")
    keys = as_mapping(given, where, known)
    if not keys:
        raise GateError(f"{where}: needed at least one of {', '.join(known)}")
    named = {name: as_texts(keys[name], f"{where}: {name}") for name in ("tasks", "categories") if name in keys}
    items = _ids(keys["items"], path.parent, f"{where}: items") if "items" in keys else ()
    return Selection(tasks=named.get("tasks", ()), categories=named.get("categories", ()), items=items)


def _ids(name: Plain, folder: Path, where: str) -> tuple[str, ...]:
    """Return the ids in a file in the gate file's folder, one a line."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise GateError(f"{where}: needed the name of a file with an id a line, got {short(name)}")
    file = folder / name
    with file_errors(file, "a file with an id a line", GateError):
        # Resolved, so that a link out of the folder counts as what it leads to.
        if not file.resolve().is_relative_to(folder.resolve()):
            raise GateError(f"{where}: needed a file in the folder of the gate file, got {short(name)}; copy it there")
    text = read_text(file, "a file with an id a line", GateError, limit=_MAX_ITEMS_SIZE)
    found = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not found:
        raise GateError(f"{file}: needed one id per line, and the file is empty")
    return found


def as_mapping(given: Plain, where: str, known: tuple[str, ...] | None = None) -> dict[str, Plain]:
    """Return a mapping that a file has at a place; an unknown key is an error."""
    if not isinstance(given, dict):
        raise GateError(f"{where}: needed a mapping (key: value), got {short(given)}")
    if known is not None and (unknown := [key for key in given if key not in known]):
        meant = did_you_mean(unknown[0], known)
        raise GateError(f"{where}: unknown key {short(unknown[0])}{meant}; the keys are {', '.join(known)}")
    return given


def as_texts(given: Plain, where: str) -> tuple[str, ...]:
    """Return the texts of a list that a file has at a place, each once; an empty list is an error."""
    # A text is a sequence of characters too: fail_if: n>1 would read as three conditions.
    if isinstance(given, (str, dict)) or not given or not all(isinstance(one, str) and one for one in given):
        raise GateError(f"{where}: needed a list of texts, at least one, got {short(given)}")
    return tuple(dict.fromkeys(str(one) for one in given))


def short(given: Plain) -> str:
    """Return what a file has at a place as a short text."""
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:79]}…"
