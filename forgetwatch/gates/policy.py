"""A policy: limits in three tiers, judged together with one error.

    policy: release                             its name
    error: 5%                                   an unchanged model fails at most so often, over all limits together
    required: [category:Math]                   groups that must be measured, else MISSING
    critical:                                   a limit that fails or is unclear decides
      - {of: all, accuracy: 2%}                 accuracy may fall by at most 2 points
      - {of: all, known: 5%}                    of what it clearly knew at most 5 % may be lost, without luck
      - {of: "task:*", accuracy: "5% of before, at least 1%"}   at most 5 % of its accuracy before, or 1 point
      - {of: task:support, gain: 2%}            the new task gains at least 2 points
      - {metric: eval_accuracy, gain: 2%}       so does a metric whose values are given with the two models
      - {of: all, fail_if: "newly_unscored>10"} a condition on any quantity, as in a gate
    supporting:                                 one that fails decides, and more than so many that are unclear
      unclear: 1                                a number, or all
      limits:
        - {of: "category:*", accuracy: no worsening}   not worse beyond chance
    advisory: [{of: "tag:slow", accuracy: 5%}]  shown, and decides nothing
    must_pass: [refund-1]                       as in a gate: a list, {TASK: [ID]}, or true
    exceptions:
      - {of: category:History, reason: dates are removed on purpose, until: 2027-03-31}
    on_fail: warn                               for a guard in a training: warn, save, stop or rollback

A group is ``all``, ``category:NAME``, ``task:NAME``, ``wording:NAME`` or ``tag:NAME``; the name ``*`` stands for all of
them, each with a limit of its own. A limit that can never fail, never pass or never be decided is refused when the file
is read, and so is one that another limit makes useless.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, cast, get_args

from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.files import MAX_SIZE, Plain, parse_plain_yaml, read_text
from forgetwatch.gates.condition import Condition, parse_fraction
from forgetwatch.gates.gate import MustPass, as_mapping, as_texts, read_must_pass, short
from forgetwatch.measures import BEYOND_GROUPS, INTERVALS
from forgetwatch.probe import Probe
from forgetwatch.wording import SHIPPED

Tier = Literal["critical", "supporting", "advisory"]
Kind = Literal["accuracy", "known", "no worsening", "gain", "metric", "condition"]
OnFail = Literal["warn", "save", "stop", "rollback"]
READY: Final = ("fine-tune", "quantise", "merge")
"""Names of the policies that are shipped."""

EVERY: Final = "*"
_LEVELS: Final = ("category", "task", "wording", "tag")
_EXACT: Final = frozenset({"newly_unscored"})
"""Quantities without an interval that an unchanged model has as 0."""
_RISES: Final = frozenset({"known_lost_net", "known_lost_net_share", "bits_per_byte_change"})
_FALLS: Final = frozenset(
    {"net_change", "net_change_estimate", "margin_change", "log_score_change", "log_score_change_calibrated"}
)
"""Quantities that are around 0 for an unchanged model, and rise or fall with a loss; flips one way are not."""

_RELATIVE: Final = re.compile(r"(?P<share>\S+) of before(?:, at least (?P<floor>\S+))?")
_KEYS: Final = ("of", "accuracy", "known", "gain", "fail_if", "metric")
_MOST_ERROR: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One limit of a policy.

    Attributes:
        tier: Its tier.
        of: The group; with the name ``*`` one limit for each.
        kind: What is limited.
        limit: Largest loss of accuracy or of the clearly known, or smallest gain, 0 to 1; 0 for ``no worsening``.
        relative: True if the limit is a share of the accuracy before.
        floor: Smallest limit that a relative one comes to.
        condition: The condition, for that kind.
        metric: Name of the metric, for that kind.
    """

    tier: Tier
    of: str
    kind: Kind
    limit: float = 0.0
    relative: bool = False
    floor: float = 0.0
    condition: Condition | None = None
    metric: str = ""

    @property
    def has_interval(self) -> bool:
        """True if it is decided by an interval, and so has a part of the policy's error."""
        if self.condition is not None:
            return f"{self.condition.left}_interval" in INTERVALS
        return self.kind != "metric"

    @property
    def name(self) -> str:
        """What it limits, as in ``category:Math accuracy``."""
        if self.kind == "metric":
            return f"{self.metric} gain"
        what = self.condition.left if self.condition is not None else self.kind
        return f"{self.of} {'accuracy' if what == 'no worsening' else what}"

    @property
    def words(self) -> str:
        """The limit as text."""
        points = f"{100 * self.limit:g}"
        if self.condition is not None:
            return f"fails if {self.condition.text.removeprefix(self.condition.left).strip()}"
        if self.kind == "no worsening":
            return "not worse beyond chance"
        if self.kind in ("gain", "metric"):
            return f"gains at least {points} points"
        if self.kind == "known":
            return f"at most {points} % lost"
        if self.relative:
            floor = f", or {100 * self.floor:g} points" if self.floor else ""
            return f"no worse than -{points} % of before{floor}"
        return f"no worse than -{points} points"

    def loss_allowed(self, accuracy_before: float) -> float:
        """Return the largest loss of accuracy, 0 to 1, for a model with an accuracy before."""
        return max(self.limit * accuracy_before, self.floor) if self.relative else self.limit


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """A group in which limits do not decide until a day, with the reason."""

    of: str
    reason: str
    until: date

    def excuses(self, group: str) -> bool:
        """Return True if it is about a group."""
        level, _, name = self.of.partition(":")
        return group == self.of or (name == EVERY and group.startswith(f"{level}:"))


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits in three tiers, judged with one error.

    Attributes:
        name: Its name.
        text: The file that it was read from.
        rules: The limits, in the order of the file.
        error: Share of unchanged models that fail at most, over all limits.
        required: Groups that must be measured.
        unclear: Number of supporting limits that may be unclear; None for all.
        must_pass: Items that must be right; None for no such items.
        exemptions: Groups that are excused for a time.
        on_fail: Action of a guard.
    """

    name: str
    text: str
    rules: tuple[Rule, ...]
    error: float = 0.05
    required: tuple[str, ...] = ()
    unclear: int | None = 0
    must_pass: MustPass | None = None
    exemptions: tuple[Exemption, ...] = ()
    on_fail: OnFail = "warn"

    @property
    def checksum(self) -> str:
        """SHA-256 (64 hex digits) of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def policy_text(name: str) -> str:
    """Return the text of a shipped policy by its name, or of a file.

    Raises:
        GateError: If there is none, or it cannot be read.
    """
    if name in READY:
        return files(__package__).joinpath("policies", f"{name}.yaml").read_text("utf-8")
    path = Path(name)
    if not path.exists():
        near = did_you_mean(name, READY)
        raise GateError(f"{name}: no such file, and no policy of that name{near}; they are {', '.join(READY)}")
    return read_text(path, "a policy in YAML", GateError, limit=MAX_SIZE)


def load_policy(name: str, probe: Probe | None = None) -> Policy:
    """Read a policy: a shipped one by its name, or a file.

    Raises:
        GateError: If there is none, or it cannot be read.
    """
    return parse_policy(policy_text(name), name, probe)


def parse_policy(text: str, source: str, probe: Probe | None = None) -> Policy:
    """Read a policy from its text.

    Args:
        text: YAML.
        source: Name of the file, for messages.
        probe: The probe whose marked items ``must_pass: true`` means.

    Raises:
        GateError: If it is no policy, or has a limit that decides nothing.
    """
    keys = ("policy", "error", "required", *get_args(Tier), "must_pass", "exceptions", "on_fail")
    read = parse_plain_yaml(text, source, "a policy in YAML", GateError)
    if isinstance(read, dict) and (of_gate := sorted({"tolerance", "fail_if", "groups", "subset"} & set(read))):
        raise GateError(f"{source}: {of_gate[0]} is a key of a gate file; `forgetwatch compare --gate` reads it")
    given = as_mapping(read, source, keys)
    name = given.get("policy", Path(source).stem)
    if not isinstance(name, str) or not name.strip():
        raise GateError(f"{source}: policy: needed a name, got {short(name)}")
    rules: list[Rule] = []
    unclear: int | None = 0
    for tier in (tier for tier in get_args(Tier) if tier in given):
        listed: Plain = given[tier]
        if tier == "supporting" and isinstance(listed, dict):
            nested = as_mapping(listed, f"{source}: supporting", ("unclear", "limits"))
            listed, unclear = nested.get("limits", []), _unclear(nested.get("unclear", "0"), source)
        rules += _rules(listed, tier, f"{source}: {tier}")
    required = as_texts(given["required"], f"{source}: required") if "required" in given else ()
    for group in required:
        _check_group(group, f"{source}: required")
    on_fail = given.get("on_fail", "warn")
    if on_fail not in get_args(OnFail):
        raise GateError(f"{source}: on_fail: needed one of {', '.join(get_args(OnFail))}, got {short(on_fail)}")
    policy = Policy(
        name=name.strip(),
        text=text,
        rules=tuple(rules),
        error=_error(given.get("error", "5%"), source),
        required=required,
        unclear=unclear,
        must_pass=read_must_pass(given["must_pass"], source, probe) if "must_pass" in given else None,
        exemptions=_exemptions(given.get("exceptions"), f"{source}: exceptions"),
        on_fail=cast(OnFail, on_fail),
    )
    _check_use(policy, source)
    return policy


def check_groups(policy: Policy, probe: Probe) -> None:
    """Refuse a policy that is about groups which a probe does not have.

    Raises:
        GateError: If a category, task or tag is not in the probe.
    """
    there = {
        "category": {item.category for item in probe},
        "task": {item.task for item in probe},
        "tag": {tag for item in probe for tag in item.tags},
        "wording": {SHIPPED if item.wording is None else item.wording.name for item in probe},
    }
    for of in (*(rule.of for rule in policy.rules), *policy.required):
        level, _, name = of.partition(":")
        if of != "all" and name != EVERY and name not in there[level]:
            near = did_you_mean(name, sorted(there[level]))
            raise GateError(f"policy {policy.name}: the probe {probe.name!r} has no {level} {name!r}{near}")


def _rules(given: Plain, tier: Tier, where: str) -> list[Rule]:
    if not isinstance(given, list) or not given:
        raise GateError(f"{where}: needed a list of limits, at least one, got {short(given)}")
    return [_rule(one, tier, f"{where}, limit {number}") for number, one in enumerate(given, start=1)]


def _rule(given: Plain, tier: Tier, where: str) -> Rule:
    named = as_mapping(given, where, _KEYS)
    metric = named.pop("metric", None)
    if metric is not None and (not isinstance(metric, str) or not metric or set(named) != {"gain"}):
        raise GateError(f"{where}: a metric has a name and a gain, as in {{metric: eval_accuracy, gain: 2%}}")
    of = named.pop("of", "all")
    if not isinstance(of, str):
        raise GateError(f"{where}: of: needed a group, got {short(of)}")
    if metric is None:
        _check_group(of, where)
    if len(named) != 1:
        needed = "accuracy, known, gain or fail_if"
        raise GateError(f"{where}: needed one of {needed}, got {', '.join(named) or 'none'}")
    ((what, value),) = named.items()
    if not isinstance(value, str):
        raise GateError(f"{where}: {what}: needed a text, got {short(value)}")
    if what == "fail_if":
        return _of_condition(value, of, tier, where)
    if what == "accuracy" and value == "no worsening":
        return Rule(tier=tier, of=of, kind="no worsening")
    found = _RELATIVE.fullmatch(value) if what == "accuracy" else None
    limit = _share(found["share"] if found else value, f"{where}: {what}")
    floor = _share(found["floor"], f"{where}: {what}") if found and found["floor"] else 0.0
    if floor >= limit:
        raise GateError(f"{where}: {what}: {short(value)} is never more than its floor; write the floor alone")
    kind = cast(Kind, "metric" if metric is not None else what)
    return Rule(
        tier=tier, of=of, kind=kind, limit=limit, relative=found is not None, floor=floor, metric=str(metric or "")
    )


def _of_condition(text: str, of: str, tier: Tier, where: str) -> Rule:
    """Return the limit of a condition; one that noise alone can fail is advisory."""
    condition = Condition.parse(text)
    beyond = condition.left in BEYOND_GROUPS
    if beyond and of != "all":
        raise GateError(f"{where}: {condition.left} is a number of the whole; leave out its group {of!r}")
    if not beyond and condition.left.partition(":")[0] in _LEVELS:
        raise GateError(f"{where}: {short(text)} needs a quantity alone; the group is named with of:")
    if condition.always_holds():
        raise GateError(f"{where}: {short(text)} holds of every value: the limit would always fail")
    rule = Rule(tier=tier, of=of, kind="condition", condition=condition)
    is_loss = condition.left in _EXACT or (
        condition.limit >= 0 and condition.op.startswith(">")
        if condition.left in _RISES
        else condition.left in _FALLS and condition.limit <= 0 and condition.op.startswith("<")
    )
    if tier != "advisory" and not is_loss:
        raise GateError(
            f"{where}: an unchanged model may fail {short(text)} by noise alone; make it advisory, or limit accuracy, "
            f"known, or a loss of {', '.join(sorted(_FALLS | _RISES | _EXACT))}"
        )
    return rule


def _check_group(of: str, where: str) -> None:
    level, colon, name = of.partition(":")
    if of != "all" and not (colon and level in _LEVELS and name):
        needed = ", ".join(f"{one}:NAME" for one in _LEVELS)
        raise GateError(f"{where}: needed all, {needed}; got the group {of!r}{did_you_mean(level, _LEVELS)}")


def _share(text: str, where: str) -> float:
    with suppress(ValueError):
        if 0 < (value := parse_fraction(text)) < 1:
            return value
    raise GateError(
        f"{where}: needed a share above 0 and below 1, such as 2%, got {short(text)}: "
        "with another one the limit would never fail, or never pass"
    )


def _error(given: Plain, source: str) -> float:
    with suppress(ValueError):
        if isinstance(given, str) and 0 < (value := parse_fraction(given)) <= _MOST_ERROR:
            return value
    raise GateError(f"{source}: error: needed a share above 0, {100 * _MOST_ERROR:g}% at most, got {short(given)}")


def _unclear(given: Plain, source: str) -> int | None:
    if given == "all":
        return None
    if isinstance(given, str) and given.isascii() and given.isdigit():
        return int(given)
    raise GateError(f"{source}: supporting: unclear: needed a number of limits, or all, got {short(given)}")


def _exemptions(given: Plain | None, where: str) -> tuple[Exemption, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        raise GateError(f"{where}: needed a list, at least one, got {short(given)}")
    found = []
    for number, one in enumerate(given, start=1):
        at = f"{where}, number {number}"
        named = as_mapping(one, at, ("of", "reason", "until"))
        if missing := [key for key in ("of", "reason", "until") if not str(named.get(key, "")).strip()]:
            raise GateError(f"{at}: needed {', '.join(missing)}: an exception has a group, a reason and a last day")
        of, reason, until = (str(named[key]) for key in ("of", "reason", "until"))
        _check_group(of, at)
        try:
            found.append(Exemption(of=of, reason=reason.strip(), until=date.fromisoformat(until)))
        except ValueError as error:
            raise GateError(f"{at}: until: needed a day such as 2027-03-31, got {short(until)}") from error
    return tuple(found)


def _check_use(policy: Policy, source: str) -> None:
    """Raise GateError for a policy without limits, and for limits or exceptions that others make useless."""
    deciding = [rule for rule in policy.rules if rule.tier != "advisory"]
    if not deciding and policy.must_pass is None:
        raise GateError(f"{source}: has no limit that decides; needed one that is critical or supporting, or must_pass")
    supporting = sum(rule.tier == "supporting" for rule in policy.rules)
    several = any(rule.tier == "supporting" and rule.of.endswith(f":{EVERY}") for rule in policy.rules)
    if policy.unclear and policy.unclear >= supporting and not several:
        raise GateError(
            f"{source}: supporting: unclear: {policy.unclear} of {supporting} limits may be unclear, so that none ever "
            "counts as unclear; write unclear: all, or a smaller number"
        )
    for at, rule in enumerate(policy.rules):
        for other in policy.rules[:at]:
            if (problem := _useless(other, rule)) is not None:
                raise GateError(f"{source}: {rule.name}: {problem}")
    for one in policy.exemptions:
        if not any(one.excuses(rule.of) or _covers(rule.of, one.of) for rule in policy.rules):
            raise GateError(f"{source}: exceptions: no limit is about {one.of!r}; take the exception out")
        if one.of in policy.required:
            raise GateError(f"{source}: exceptions: {one.of!r} is required and excepted; take it out of one of them")


def _covers(of: str, group: str) -> bool:
    level, _, name = of.partition(":")
    return of == group or (name == EVERY and group.startswith(f"{level}:"))


def _covered(every: Rule, one: Rule) -> str | None:
    """Return why the limit of one group decides nothing beside that of every such group; None if it does."""
    comparable = every.condition is None and not every.relative and not one.relative
    if not (every.of.endswith(f":{EVERY}") and _covers(every.of, one.of) and comparable):
        return None
    gains, rank = one.kind in ("gain", "metric"), get_args(Tier).index
    is_looser = one.limit <= every.limit if gains else one.limit >= every.limit
    if is_looser and rank(every.tier) <= rank(one.tier):
        return f"the limit {every.words!r} of {every.of} is as strict, so that this one can never decide"
    return None


def _useless(first: Rule, second: Rule) -> str | None:
    """Return why one of two limits decides nothing beside the other; None if both do."""
    if first.kind != second.kind or first.metric != second.metric:
        return None
    if first.of != second.of:
        return _covered(first, second) or _covered(second, first)
    if first.condition is not None and second.condition is not None:
        if (first.condition.left, first.condition.op) != (second.condition.left, second.condition.op):
            return None
        return "it is limited twice; keep the stricter limit"
    if first.relative != second.relative:
        return None
    strict, loose = sorted((first, second), key=lambda rule: rule.limit, reverse=second.kind in ("gain", "metric"))
    rank = get_args(Tier).index
    if first.tier == second.tier or rank(strict.tier) <= rank(loose.tier) or strict.limit == loose.limit:
        return f"it is limited twice, and the limit {loose.words!r} of tier {loose.tier} can never decide"
    return None
