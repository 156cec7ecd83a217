"""A policy applied to two models: the answer to each limit, and the answer of all.

    FAIL          a critical or supporting limit fails
    INCONCLUSIVE  a critical limit is unclear or missing, or more supporting ones than allowed
    PASS          otherwise

All intervals of critical and supporting limits hold together: of m limits each has the level 1 -
error/m, so that a model whose answers changed by chance alone fails in at most that share, however
many limits there are. Advisory limits have the same level. The limit ``verdict`` answers as the
verdict does, at the verdict's own level, and shares no error.

A limit shows what a leg of the verdict would (`comparing.verdict.Leg.shows`), or that it is
missing, which means not measured, or excused until a day. The answer is a line of its own beside
the verdict, and never changes its word. Of a run whose end was not measured nothing passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Final, Literal, cast

import numpy as np
import pyarrow as pa

from forgetwatch.comparing.checks import OnMismatch
from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.decision import Decision, at_start, decide, decide_run, unmeasured
from forgetwatch.comparing.groups import Group, Level, group_values
from forgetwatch.comparing.subset import select
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import (
    SMALL_LOSS,
    TOLERANCE,
    Answer,
    Leg,
    Tolerance,
    accuracy_leg,
    at_level,
    category_leg,
    knowledge_leg,
    worst,
    would_decide,
)
from forgetwatch.errors import GateError, did_you_mean, some_of
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.quantities import range_of, value_at
from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.margin_change import FEWEST
from forgetwatch.policy.condition import EVERY, Condition
from forgetwatch.policy.policy import MustPass, Policy, Rule, Selection, Tier
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import one_line
from forgetwatch.wording import SHIPPED

_CLOSE: Final = 1e-9
"""Gain of a metric that rounding alone makes."""

VERDICT_ERROR: Final = 0.05
"""Error of the verdict, which the looks of a run share."""

_OF_VERDICT: Final = {
    "FAIL": "beyond the limit",
    "PASS": "within the limit",
    "INCONCLUSIVE": "not clear",
}
VANISHED_OPEN: Final = ", without the answers that vanished"

Ruled = Literal["PASS", "FAIL", "INCONCLUSIVE", "MISSING"]


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Answer to one limit.

    Attributes:
        tier: Its tier.
        what: The group and what is limited.
        limit: The limit, as text.
        measured: What was measured, as text.
        answer: The answer.
        word: What it shows.
        value: The value; None if not measured.
        interval: Its interval; None without one.
        items: Number of items of the group; None where it is of no group.
        excused: Reason and last day of an exception that holds; empty without one. Then it does not
            decide.
        note: What else a reader should know, such as an exception that has ended.
        of_gain: True if it is a limit on a gain, so that no loss fails it.
    """

    tier: Tier
    what: str
    limit: str
    measured: str
    answer: Ruled
    word: str
    value: float | None = None
    interval: Interval | None = None
    items: float | None = None
    excused: str = ""
    note: str = ""
    of_gain: bool = False

    @property
    def decides(self) -> bool:
        """Does the ruling take part in the policy's answer?"""
        return self.tier != "advisory" and not self.excused

    @property
    def line(self) -> str:
        """The limit and what was measured, in one line."""
        return f"{self.what} {self.measured} ({self.limit}): {self.word}" + (
            f"; {self.note}" if self.note else ""
        )


@dataclass(frozen=True, kw_only=True)
class PolicyResult:
    """Answer of a policy to two models.

    Attributes:
        policy: The policy.
        comparison: The comparison.
        decision: The verdict on it, which no limit changes.
        rulings: The answers to its limits, in the order of the policy.
        level: Level of each interval, 0 to 1.
        limits: Number of limits that share the error.
        unmeasured: Reason why nothing passes: the end of the run was not measured; empty if it was.
    """

    policy: Policy
    comparison: Comparison = field(repr=False)
    decision: Decision
    rulings: tuple[Ruling, ...]
    level: float
    limits: int
    unmeasured: str = ""

    @property
    def answer(self) -> Answer:
        """The answer of all limits."""
        answers = {ruling.answer for ruling in self.rulings if ruling.decides}
        if "FAIL" in answers:
            return "FAIL"
        # What nothing was measured for does not pass.
        return "INCONCLUSIVE" if self.unmeasured or self._open or "PASS" not in answers else "PASS"

    @property
    def line(self) -> str:
        """The answer and the limits that decide, in one line."""
        parts = [
            *([self.unmeasured] if self.unmeasured else []),
            *(ruling.line for ruling in self.deciding),
        ]
        return f"gate {self.answer}: {'; '.join(parts)}"

    @property
    def _open(self) -> tuple[Ruling, ...]:
        # Critical limits, and supporting ones if they are more than allowed.
        undecided = [
            ruling
            for ruling in self.rulings
            if ruling.decides and ruling.answer in ("INCONCLUSIVE", "MISSING")
        ]
        supporting = sum(ruling.tier == "supporting" for ruling in undecided)
        allowed = self.policy.unclear is None or supporting <= self.policy.unclear
        return tuple(ruling for ruling in undecided if ruling.tier == "critical" or not allowed)

    @property
    def shown(self) -> tuple[Ruling, ...]:
        """Limits of all items, and limits of groups unless they hold."""
        return tuple(
            ruling
            for ruling in self.rulings
            if ruling.answer != "PASS"
            or ruling.word == SMALL_LOSS
            or ruling.note
            or ":" not in ruling.what
        )

    @property
    def deciding(self) -> tuple[Ruling, ...]:
        """Limits that make the answer what it is.

        All that decide if the answer is PASS.
        """
        deciding = tuple(ruling for ruling in self.rulings if ruling.decides)
        failed = tuple(ruling for ruling in deciding if ruling.answer == "FAIL")
        return deciding if self.answer == "PASS" else failed or self._open


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a policy is applied to.

    Attributes:
        before: Outcomes before.
        after: Outcomes after.
        probe: The probe, for tags and marked items; None without one.
        metrics: Values before and after of metrics that the snapshots do not have, by name.
        trajectory: The run, if there is one.
    """

    before: Snapshot
    after: Snapshot
    probe: Probe | None = None
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    trajectory: Trajectory | None = None


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the limits are about, and the limits and level of the verdict."""

    sides: Sides
    comparison: Comparison
    tolerance: Tolerance
    level: float

    @cached_property
    def decision(self) -> Decision:
        """Verdict; of a run on the delivered look."""
        run = self.sides.trajectory
        if run is not None and run.final is self.comparison:
            return decide_run(run, self.tolerance, level=self.level)
        return decide(self.comparison, self.tolerance, level=self.level)


def apply_policy(
    policy: Policy,
    sides: Sides,
    *,
    comparison: Comparison | None = None,
    today: date | None = None,
    looks: int = 1,
    on_mismatch: OnMismatch = "error",
    tolerance: Tolerance = TOLERANCE,
) -> PolicyResult:
    """Apply a policy to two models.

    Args:
        policy: The policy.
        sides: The models.
        comparison: Their comparison, if it is known.
        today: The day on which exceptions hold; by default today, in UTC.
        looks: Number of looks that share the policy's error.
        on_mismatch: What is done about items of one side alone, as in `compare`, where the policy
            has a subset.
        tolerance: Losses that the verdict tolerates.

    Raises:
        GateError: If a group does not exist, or an item that must pass is missing.
    """
    whole, measured_sides = comparison, sides
    if policy.subset != Selection():
        before, after = (
            select(side, **vars(policy.subset)) for side in (sides.before, sides.after)
        )
        whole, measured_sides = None, replace(sides, before=before, after=after)
    whole = (
        compare(before=measured_sides.before, after=measured_sides.after, on_mismatch=on_mismatch)
        if whole is None
        else whole
    )
    day = datetime.now(UTC).date() if today is None else today
    for exemption in policy.exemptions:
        if not exemption.of.endswith(f":{EVERY}"):
            _group(exemption.of, measured_sides, whole)  # a name that does not exist is an error
    rules = [_named(rule, measured_sides, whole) for rule in policy.rules]
    expanded = [
        (rule, group) for rule in rules for group in _groups_of(rule, measured_sides, whole)
    ]
    sharing = sum(rule.tier != "advisory" and rule.has_interval for rule, _ in expanded)
    level = 1 - policy.error / max(sharing * looks, 1)
    judged = _Asked(
        sides=measured_sides,
        comparison=whole,
        tolerance=tolerance,
        level=1 - VERDICT_ERROR / max(looks, 1),
    )
    rulings = [
        _with_exception(_rule(rule, of, judged, level), of, policy, day) for rule, of in expanded
    ]
    rulings += [_required(of, measured_sides, whole) for of in policy.required]
    if policy.must_pass:
        rulings.append(_of_items(policy.must_pass, sides))
    return PolicyResult(
        policy=policy,
        comparison=whole,
        decision=judged.decision,
        rulings=tuple(rulings),
        level=level,
        limits=sharing,
        unmeasured="" if sides.trajectory is None else unmeasured(sides.trajectory),
    )


def _named(rule: Rule, sides: Sides, comparison: Comparison) -> Rule:
    # A quantity without a number there is an error.
    if rule.of or rule.condition is None:
        return rule
    of, condition = rule.condition.about(comparison)
    if of.endswith(f":{EVERY}"):
        return replace(rule, of=of, condition=condition)
    group = _group(of, sides, comparison) or comparison.all
    condition.measure(comparison, sides.trajectory, group=group)
    condition.check_reach(group)
    return replace(rule, of=of, condition=condition)


def _groups_of(rule: Rule, sides: Sides, comparison: Comparison) -> list[str]:
    # ``*`` names all groups with questions on any side, measured or not.
    level, _, name = rule.of.partition(":")
    if name != EVERY:
        return [rule.of]
    if level == "tag":
        names = list(dict.fromkeys(tag for item in sides.probe or () for tag in item.tags))
    else:
        names = [group.name for group in comparison.by(cast(Level, level)).values() if group.n]
        names += sorted(_names(sides, level) - {*names, ""})
    if not names and (rule.tier == "critical" or level == "tag"):
        needed = (
            "name the probe, which has the tags, with --probe"
            if level == "tag"
            else "limit all, or another level"
        )
        raise GateError(f"policy: {rule.of} is about no group: there is no {level}; {needed}")
    return [f"{level}:{name}" for name in names]


def _names(sides: Sides, level: str) -> set[str]:
    names: set[str] = set()
    for side in (sides.before, sides.after):
        is_question = ~side.is_passage
        names |= {
            str(name or (SHIPPED if level == "wording" else ""))
            for name in side.texts(level)[is_question]
        }
    # One wording alone is no group.
    return set() if level == "wording" and len(names) == 1 else names


def _group(of: str, sides: Sides, comparison: Comparison) -> Group | None:
    if of == "all":
        return comparison.all if comparison.all.n or comparison.all.passages else None
    level, _, name = of.partition(":")
    if level == "tag":
        return _tagged(name, sides)
    there = comparison.by(cast(Level, level))
    if name in there and (there[name].n or there[name].passages):
        return there[name]
    names_known = _names(sides, level) | set(there)
    if name not in names_known and not any(
        getattr(item, level, None) == name for item in sides.probe or ()
    ):
        near = did_you_mean(name, sorted(names_known))
        listed = (
            ", ".join(f"{level}:{name}" for name in sorted(names_known - {""})[:20])
            or f"no {level} at all"
        )
        raise GateError(f"policy: no group {of!r}{near}; there are {listed}")
    return None


def _tagged(tag: str, sides: Sides) -> Group | None:
    if sides.probe is None:
        raise GateError(
            f"policy: tag:{tag} needs the probe, which has the tags; name it with --probe"
        )
    keys = {(item.task, item.id) for item in sides.probe if tag in item.tags}
    if not keys:
        tags = sorted({tag for item in sides.probe for tag in item.tags})
        raise GateError(
            f"policy: no item of the probe has the tag {tag!r}{did_you_mean(tag, tags)}"
        )
    before, after = (
        _items(side, keys) for side in (sides.before, sides.after)
    )  # perhaps none of its items is there
    if not len(before) or not len(after):
        return None
    tagged = replace(
        compare(before=before, after=after, on_mismatch="intersect").all,
        level=cast(Level, "tag"),
        name=tag,
    )
    return tagged if tagged.n else None


def _items(snapshot: Snapshot, keys: set[tuple[str, str]]) -> Snapshot:
    return replace(
        snapshot,
        table=snapshot.table.filter(
            pa.array([item_key in keys for item_key in snapshot.item_keys])
        ),
    )


def _required(of: str, sides: Sides, comparison: Comparison) -> Ruling:
    group = _group(of, sides, comparison)
    missing = 0 if group is None else _left_out(of, group, sides)
    measured = "not measured" if group is None else f"{group.n:g} items"
    return Ruling(
        tier="critical",
        what=f"{of} required",
        limit="all of it is measured",
        measured=measured + (f", {missing:,} left out" if missing else ""),
        answer="MISSING" if group is None or missing else "PASS",
        word="missing" if group is None or missing else "measured",
        items=0.0 if group is None else group.n,
    )


def _left_out(of: str, group: Group, sides: Sides) -> int:
    # 0 for a tag or a wording.
    level, _, name = of.partition(":")
    if level in ("tag", "wording"):
        return 0
    sizes = []
    for side in (sides.before, sides.after):
        of_group = ~side.is_passage & (
            np.full(len(side), True) if of == "all" else side.texts(level) == name
        )
        sizes.append(
            len(
                set(zip(side.texts("task")[of_group], side.texts("item_id")[of_group], strict=True))
            )
        )
    without = group.outcomes
    paired = group.n + (without.unscored_before + without.unscored_after + without.vanished) / 2
    return max(0, *(size - round(paired) for size in sizes))


def _with_exception(ruling: Ruling, of: str, policy: Policy, day: date) -> Ruling:
    if ruling.answer == "PASS":
        return ruling
    for exemption in policy.exemptions:
        if exemption.excuses(of):
            if day <= exemption.until:
                return replace(
                    ruling,
                    excused=f"{exemption.reason}, until {exemption.until}",
                    word=f"excused ({ruling.word})",
                )
            return replace(ruling, note=f"its exception ended on {exemption.until}")
    return ruling


def _rule(rule: Rule, of: str, request: _Asked, level: float) -> Ruling:
    limit_name = replace(rule, of=of).name
    missing = Ruling(
        tier=rule.tier,
        what=limit_name,
        limit=rule.words,
        measured="not measured",
        answer="MISSING",
        word="missing",
    )
    sides, comparison = request.sides, request.comparison
    if rule.kind == "metric":
        return _of_metric(rule, sides, missing)
    if rule.kind == "verdict":
        decision = request.decision
        return replace(
            missing,
            measured=decision.word,
            answer=decision.answer,
            word=_OF_VERDICT[decision.answer],
            items=comparison.all.n,
        )
    group = _group(of, sides, comparison)
    if group is None and rule.condition is not None and rule.condition.counts_unmeasured:
        at, _, name = of.partition(":")
        group = comparison.by(cast(Level, at)).get(name) if name else comparison.all
    if group is None:
        return missing
    missing = replace(missing, items=group.n)
    leg = _leg(rule, group, request, level)
    if leg is None or leg.value is None or (leg.interval is None and rule.condition is None):
        return replace(
            missing,
            measured=f"not measured: {leg.reason}" if leg and leg.reason else "not measured",
        )
    answered = replace(
        missing, measured=_measured(rule, leg), value=leg.value, interval=leg.interval
    )
    if rule.kind == "gain":
        word = {"PASS": "gained", "FAIL": "gained too little"}.get(str(leg.answer), "not clear")
        return replace(answered, answer=cast(Ruled, leg.answer), word=word, of_gain=True)
    # As in the verdict, a share that shows no loss passes.
    tolerable = leg.is_tolerable and rule.kind in ("known", "category")
    answer = "PASS" if tolerable else cast(Ruled, leg.answer)
    start = at_start(group) if rule.condition is None and answer == "PASS" else ""
    if rule.kind == "accuracy" and (more := would_decide(leg, group)):
        answered = replace(answered, measured=f"{answered.measured}; {more}")
    return replace(answered, answer="INCONCLUSIVE" if start else answer, word=start or leg.shows)


def _leg(rule: Rule, group: Group, request: _Asked, level: float) -> Leg | None:
    if rule.condition is not None:
        return _of_condition(rule.condition, group, request, level)
    if rule.kind == "category":
        return category_leg(request.comparison, -rule.limit, level)
    if rule.kind == "known":
        return knowledge_leg(request.comparison, group, rule.limit, level=level)
    leg = accuracy_leg(group, -rule.loss_allowed(group.accuracy_before), level=level)
    if leg is None or leg.interval is None or leg.worst is None:
        return None
    (low, high), worst_low = leg.interval, leg.worst
    if rule.kind == "gain":
        low = min(low, worst_low)
        answer: Answer = (
            "PASS" if low >= rule.limit else "FAIL" if high < rule.limit else "INCONCLUSIVE"
        )
        return replace(leg, answer=answer, reason="")
    if rule.kind == "no worsening":
        estimate = group[NET_ESTIMATE]
        bounded = None if estimate is None else estimate.interval_at(level, worst=True)
        hidden = group.n < FEWEST or (bounded is not None and bounded[1] < 0 <= high)
        answer = "FAIL" if high < 0 else "INCONCLUSIVE" if hidden else "PASS"
        return replace(leg, answer=answer, limit=0.0, is_tolerable=False, shows_loss=high < 0)
    return leg


def _measured(rule: Rule, leg: Leg) -> str:
    if rule.condition is not None:
        scale, unit = (100, " %") if rule.condition.bound.endswith("%") else (1, "")
        text, *ends = (
            f"{scale * number:.6g}" for number in (leg.value or 0.0, *(leg.interval or ()))
        )
        text += unit + (f" ({' to '.join(f'{float(end):.4g}' for end in ends)})" if ends else "")
        return text + leg.reason
    low, high = leg.interval or (0.0, 0.0)
    value = leg.value or 0.0
    if rule.kind == "known":
        text = f"{100 * value:.1f} % lost ({100 * low:.1f} to {100 * high:.1f})"
    else:
        name = f"{one_line(leg.group)} " if rule.kind == "category" else ""
        text = f"{name}{100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
        if leg.is_open_by_vanished and leg.worst is not None:
            text += f", to {100 * leg.worst:+.1f} in the worst case of the answers that vanished"
    return text + (f"; {leg.reason}" if leg.reason and rule.kind != "gain" else "")


def _of_condition(condition: Condition, group: Group, request: _Asked, level: float) -> Leg | None:
    try:
        value = condition.measure(request.comparison, request.sides.trajectory, group=group)
    except GateError:
        return None
    ends = None if condition.interval is None else value_at(group_values(group), condition.interval)
    interval = None
    if ends is not None and not np.isnan(ends).any():
        low, high = at_level(value, (ends[0], ends[1]), level, _observations(group))
        least, most = range_of(condition.left)
        interval = max(low, least), min(high, most)
    met = [condition.is_met_by(end) for end in interval or (value,)]
    is_open = condition.is_open(group)
    answer: Answer = "FAIL" if all(met) else "INCONCLUSIVE" if any(met) or is_open else "PASS"
    reason = VANISHED_OPEN * is_open
    return Leg(name="accuracy", value=float(value), interval=interval, answer=answer, reason=reason)


def _of_metric(rule: Rule, sides: Sides, missing: Ruling) -> Ruling:
    if rule.metric not in sides.metrics:
        return missing
    before, after = sides.metrics[rule.metric]
    gained = after - before >= rule.limit - _CLOSE
    return replace(
        missing,
        measured=f"{before:g} -> {after:g} ({100 * (after - before):+.1f} points)",
        value=after - before,
        answer="PASS" if gained else "FAIL",
        word="gained" if gained else "gained too little",
        of_gain=True,
    )


def _observations(group: Group) -> int | None:
    estimate = group[NET_ESTIMATE]
    return None if estimate is None else estimate.change.observations


def _of_items(items: MustPass, sides: Sides) -> Ruling:
    # A wrong answer fails; an unscored item, or one left out of the probe, leaves the answer open.
    after, left_out = sides.after, {item.id for item in sides.probe or ()}
    correct = after.floats("correct")
    rows: dict[str, dict[str, list[int]]] = {}  # by id and task
    for row, (task, item_id) in enumerate(after.item_keys):
        rows.setdefault(item_id, {}).setdefault(task, []).append(row)
    states: dict[Answer, list[str]] = {"PASS": [], "FAIL": [], "INCONCLUSIVE": []}
    for of_task, item_id in items:
        if item_id not in rows and item_id in left_out:
            states["INCONCLUSIVE"].append(item_id)
            continue
        answers = correct[_rows_of(rows, after, of_task, item_id)]
        # A wrong answer fails whatever else is unscored; an unscored one alone decides nothing.
        unscored: Answer = "INCONCLUSIVE" if np.isnan(answers).any() else "PASS"
        states["FAIL" if (answers == 0).any() else unscored].append(item_id)
    measured = f"{len(states['PASS']):,} of {len(items):,} right"
    measured += _first("wrong", states["FAIL"]) + _first("unscored", states["INCONCLUSIVE"])
    answer = worst(word for word, has_items in states.items() if has_items)
    return Ruling(
        tier="critical",
        what="must_pass",
        limit="each right in every answer",
        measured=measured,
        answer=answer,
        word={"PASS": "right", "FAIL": "wrong", "INCONCLUSIVE": "unclear"}[answer],
    )


def _rows_of(
    rows: dict[str, dict[str, list[int]]], after: Snapshot, task: str | None, item_id: str
) -> list[int]:
    tasks = rows.get(item_id, {})
    if task is None and len(tasks) > 1:
        raise GateError(
            f"must_pass: item {item_id!r} is in {len(tasks)} tasks of {after.label} "
            f"({', '.join(sorted(tasks)[:5])}); name the task: must_pass: {{TASK: [ID, ...]}}"
        )
    for name, found in tasks.items():
        if task in (None, name):
            return found
    where = "" if task is None else f" of task {task!r}"
    raise GateError(
        f"must_pass: item {item_id!r}{where} is not among the items of {after.label}; "
        f"its ids are such as {some_of(map(repr, rows), 3)}"
    )


def _first(state: str, items: Sequence[str]) -> str:
    return f"; {state}: {some_of(items, 5)}" if items else ""
