"""A policy: limits in three tiers, judged together with one error.

    policy: release                             its name
    error: 5%                                   an unchanged model fails at most so often, over all limits together
    required: [category:Math]                   groups that must be measured, else MISSING
    critical:                                   a limit that fails or is unclear decides
      - verdict                                 FORGOT fails, KEPT passes; it shares no error with the other limits
      - {accuracy: 2%}                          accuracy may fall by at most 2 points
      - {known: 5%}                             of what it clearly knew at most 5 % may be lost, without luck
      - {category: 5%}                          no category may fall by more than 5 points, as in the verdict
      - {of: "task:*", accuracy: "5% of before, at least 1%"}   at most 5 % of its accuracy before, or 1 point
      - {of: task:support, gain: 2%}            the new task gains at least 2 points
      - {metric: eval_accuracy, gain: 2%}       so does a metric whose values are given with the two models
      - newly_unscored>10                       fails if this holds of a quantity: `policy.condition`
      - category:*.known_lost_net>5
    supporting:                                 one that fails decides, and more than so many that are unclear
      unclear: 1                                a number, or all
      limits:
        - {of: "category:*", accuracy: no worsening}   not worse beyond chance
    advisory: [{of: "tag:slow", accuracy: 5%}]  shown, and decides nothing
    must_pass: [refund-1]                       these items are right after; {TASK: [ID, ...]} where ids repeat;
                                                true: those that the probe marks so
    subset: {tasks: [gsm8k], categories: [Math], items: ids.txt}    the limits are about these items alone
    exceptions:
      - {of: category:History, reason: dates are removed on purpose, until: 2027-03-31}
    on_fail: warn                               for a guard in a training: warn, save, stop or rollback

A group is ``all``, which needs no name, ``category:NAME``, ``task:NAME``, ``wording:NAME`` or
``tag:NAME``; the name ``*`` stands for all of them, each with a limit of its own. Every key is
optional, but there must be a limit that decides; an unknown key is an error. Every scalar stays the
text in the file, so that ids and 2% need no quotes. A policy may come from elsewhere: the file of
`subset.items` must be in its folder or below it, links included.

Options of a command are a policy too: `limits_of`.
"""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, cast, get_args

from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.files.reading import MAX_SIZE, Plain, file_errors, parse_plain_yaml, read_text
from forgetwatch.measures.history import HISTORY
from forgetwatch.policy.condition import EVERY, LEVELS, Condition, parse_fraction
from forgetwatch.probe import Probe
from forgetwatch.wording import SHIPPED

Tier = Literal["critical", "supporting", "advisory"]
Kind = Literal[
    "verdict", "accuracy", "known", "category", "no worsening", "gain", "metric", "condition"
]
OnFail = Literal["warn", "save", "stop", "rollback"]
READY: Final = ("fine-tune", "quantise", "merge")
"""Names of the policies that are shipped."""

_LEVELS: Final = (*LEVELS, "tag")
_RELATIVE: Final = re.compile(r"(?P<share>\S+) of before(?:, at least (?P<floor>\S+))?")
_KEYS: Final = ("of", "accuracy", "known", "category", "gain", "metric")
_LEGS: Final = ("accuracy", "known", "category")
"""Limits of the verdict."""

_OF_RUN: Final = frozenset(quantity.name for quantity in HISTORY.quantities)
"""Quantities of a run, which no part of its items has."""

_MOST_ERROR: Final = 0.2
_USUAL_ERROR: Final = 0.05
_MAX_ITEMS_SIZE: Final = 2**26
"""Bytes of a file of ids."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One limit of a policy.

    Attributes:
        tier: Its tier.
        of: The group; with the name ``*`` one limit for each; empty if the condition names it.
        kind: What is limited.
        limit: Largest loss of accuracy or of the clearly known, or smallest gain, 0 to 1; 0 for
            ``no worsening``. Of ``category`` the largest loss of accuracy of any category.
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
        """Does an interval decide the rule?

        Such a rule has a part of the policy's error.
        """
        if self.condition is not None:
            return self.condition.interval is not None
        return self.kind not in ("metric", "verdict")

    @property
    def name(self) -> str:
        """Name of the limit, as in ``category:Math accuracy``."""
        if self.kind == "metric":
            return f"{self.metric} gain"
        if self.kind == "verdict":
            return self.kind
        subject = self.condition.left if self.condition is not None else self.kind
        return f"{self.of} {'accuracy' if subject == 'no worsening' else subject}".strip()

    @property
    def words(self) -> str:
        """The limit as text."""
        points = f"{100 * self.limit:g}"
        if self.condition is not None:
            always = ", as every value is" if self.condition.always_holds() else ""
            return f"fails if {self.condition.bound}{always}"
        if self.kind == "verdict":
            return "needs KEPT"
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
        """Largest loss of accuracy, 0 to 1, for an accuracy before."""
        return max(self.limit * accuracy_before, self.floor) if self.relative else self.limit


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """A group in which limits do not decide until a day, with the reason."""

    of: str
    reason: str
    until: date

    def excuses(self, group: str) -> bool:
        """Is the exemption about a group?"""
        level, _, name = self.of.partition(":")
        return group == self.of or (name == EVERY and group.startswith(f"{level}:"))


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Items in one of the tasks, in one of the categories, and in the list of ids; an empty part restricts nothing."""

    tasks: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


MustPass = tuple[tuple[str | None, str], ...]
"""Task and id of items that must be right; None as the task if the id alone is unique."""


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
        must_pass: Items that must be right.
        subset: Items that the limits are about; those that must be right may be others.
        exemptions: Groups that are excused for a time.
        on_fail: Action of a guard.
    """

    name: str
    text: str
    rules: tuple[Rule, ...]
    error: float = 0.05
    required: tuple[str, ...] = ()
    unclear: int | None = 0
    must_pass: MustPass = ()
    subset: Selection = Selection()
    exemptions: tuple[Exemption, ...] = ()
    on_fail: OnFail = "warn"

    @property
    def checksum(self) -> str:
        """SHA-256 of the file and of the ids of the subset's file.

        64 hex digits.
        """
        return hashlib.sha256("\n".join((self.text, *self.subset.items)).encode()).hexdigest()


def policy_text(name: str) -> str:
    """Text of a shipped policy, or of a file.

    Raises:
        GateError: If there is none, or it cannot be read.
    """
    if name in READY:
        return files(__package__).joinpath("policies", f"{name}.yaml").read_text("utf-8")
    path = Path(name)
    if not path.exists():
        near = did_you_mean(name, READY)
        raise GateError(
            f"{name}: no such file, and no policy of that name{near}; they are {', '.join(READY)}"
        )
    return read_text(path, "a policy in YAML", GateError, limit=MAX_SIZE)


def load_policy(name: str, probe: Probe | None = None) -> Policy:
    """Read a shipped policy by name, or a file.

    Raises:
        GateError: If there is none, or it cannot be read.
    """
    return parse_policy(policy_text(name), name, probe)


def parse_policy(text: str, source: str, probe: Probe | None = None) -> Policy:
    """Read a policy from text.

    Args:
        text: YAML.
        source: Name of the file, for messages.
        probe: The probe whose marked items ``must_pass: true`` means.

    Raises:
        GateError: If it is no policy, or has a limit that decides nothing.
    """
    keys = (
        "policy",
        "error",
        "required",
        *get_args(Tier),
        "must_pass",
        "subset",
        "exceptions",
        "on_fail",
    )
    keys_given = _mapping(
        parse_plain_yaml(text, source, "a policy in YAML", GateError), source, keys
    )
    name = keys_given.get("policy", Path(source).stem)
    if not isinstance(name, str) or not name.strip():
        raise GateError(f"{source}: policy: needed a name, got {_short(name)}")
    rules: list[Rule] = []
    unclear: int | None = 0
    for tier in (tier for tier in get_args(Tier) if tier in keys_given):
        listed: Plain = keys_given[tier]
        if tier == "supporting" and isinstance(listed, dict):
            nested = _mapping(listed, f"{source}: supporting", ("unclear", "limits"))
            listed, unclear = nested.get("limits", []), _unclear(nested.get("unclear", "0"), source)
        rules += _rules(listed, tier, f"{source}: {tier}")
    required = (
        _texts(keys_given["required"], f"{source}: required") if "required" in keys_given else ()
    )
    for group in required:
        _check_group(group, f"{source}: required")
    on_fail = keys_given.get("on_fail", "warn")
    if on_fail not in get_args(OnFail):
        raise GateError(
            f"{source}: on_fail: needed one of {', '.join(get_args(OnFail))}, got {_short(on_fail)}"
        )
    policy = Policy(
        name=name.strip(),
        text=text,
        rules=tuple(rules),
        error=_error(keys_given.get("error", "5%"), source),
        required=required,
        unclear=unclear,
        must_pass=_must_pass(keys_given["must_pass"], f"{source}: must_pass", probe)
        if "must_pass" in keys_given
        else (),
        subset=_subset(keys_given["subset"], Path(source))
        if "subset" in keys_given
        else Selection(),
        exemptions=_exemptions(keys_given.get("exceptions"), f"{source}: exceptions"),
        on_fail=cast(OnFail, on_fail),
    )
    _check_use(policy, source)
    return policy


def check_groups(policy: Policy, probe: Probe) -> None:
    """Refuse a policy on groups or items that a probe lacks.

    Raises:
        GateError: If a category, task, tag or id is not in the probe.
    """
    there = {
        "category": {item.category for item in probe},
        "task": {item.task for item in probe},
        "tag": {tag for item in probe for tag in item.tags},
        "wording": {SHIPPED if item.wording is None else item.wording.name for item in probe},
        "item": {item.id for item in probe},
    }
    chosen = policy.subset
    present = {"category": chosen.categories, "task": chosen.tasks, "item": chosen.items}
    items = [f"item:{item}" for _, item in policy.must_pass]
    items += [f"{level}:{name}" for level, names in present.items() for name in names]
    groups = [("all", "all"), *((level, name) for level in LEVELS for name in there[level])]
    for rule in policy.rules:
        if not rule.of and rule.condition is not None and ":" in rule.condition.left:
            rule.condition.reading(groups)
    of_rules = (rule.of for rule in policy.rules if rule.of)
    for of in (
        *of_rules,
        *policy.required,
        *(exemption.of for exemption in policy.exemptions),
        *items,
    ):
        level, _, name = of.partition(":")
        if of != "all" and (name != EVERY or not there.get(level)) and name not in there[level]:
            near = did_you_mean(name, sorted(there[level]))
            raise GateError(
                f"policy {policy.name}: the probe {probe.name!r} has no {level} {name!r}{near}"
            )


def _rules(limits: Plain, tier: Tier, where: str) -> list[Rule]:
    if not isinstance(limits, list) or not limits:
        raise GateError(f"{where}: needed a list of limits, at least one, got {_short(limits)}")
    return [
        _rule(limit, tier, f"{where}, limit {number}")
        for number, limit in enumerate(limits, start=1)
    ]


def _rule(given: Plain, tier: Tier, where: str) -> Rule:  # noqa: C901
    if given == "verdict":
        return Rule(tier=tier, of="all", kind="verdict")
    if isinstance(given, str):
        return _of_condition(given, tier, where)
    keys = _mapping(given, where, _KEYS)
    metric = keys.pop("metric", None)
    if metric is not None and (not isinstance(metric, str) or not metric or set(keys) != {"gain"}):
        raise GateError(
            f"{where}: a metric has a name and a gain, as in {{metric: eval_accuracy, gain: 2%}}"
        )
    of = keys.pop("of", "all")
    if not isinstance(of, str):
        raise GateError(f"{where}: of: needed a group, got {_short(of)}")
    if metric is None:
        _check_group(of, where)
    if len(keys) != 1:
        needed = "accuracy, known, category or gain"
        raise GateError(f"{where}: needed one of {needed}, got {', '.join(keys) or 'none'}")
    ((subject, value),) = keys.items()
    if subject == "category" and of != "all":
        raise GateError(
            f"{where}: category is about the categories of all items; for one write {{of: {of}, "
            f"accuracy: …}}"
        )
    if not isinstance(value, str):
        raise GateError(f"{where}: {subject}: needed a text, got {_short(value)}")
    if subject == "accuracy" and value == "no worsening":
        return Rule(tier=tier, of=of, kind="no worsening")
    relative = _RELATIVE.fullmatch(value) if subject == "accuracy" else None
    limit = parse_share(relative["share"] if relative else value, f"{where}: {subject}")
    floor = (
        parse_share(relative["floor"], f"{where}: {subject}")
        if relative and relative["floor"]
        else 0.0
    )
    if floor >= limit:
        raise GateError(
            f"{where}: {subject}: {_short(value)} is never more than its floor; write the floor "
            "alone"
        )
    kind = cast(Kind, "metric" if metric is not None else subject)
    return Rule(
        tier=tier,
        of=of,
        kind=kind,
        limit=limit,
        relative=relative is not None,
        floor=floor,
        metric=str(metric or ""),
    )


def _of_condition(text: str, tier: Tier, where: str) -> Rule:
    with_name = Condition.parse(text)
    of, condition = with_name.named()
    if of is None:
        raise GateError(
            f"{where}: {_short(text)}: needed the level of the group, as in "
            f"category:{with_name.left}"
        )
    _check_group(of, where)
    return Rule(tier=tier, of=of, kind="condition", condition=condition)


def _check_group(of: str, where: str) -> None:
    level, colon, name = of.partition(":")
    if of != "all" and not (colon and level in _LEVELS and name):
        needed = ", ".join(f"{level}:NAME" for level in _LEVELS)
        raise GateError(
            f"{where}: needed all, {needed}; got the group {of!r}{did_you_mean(level, _LEVELS)}"
        )


def parse_share(text: str, where: str) -> float:
    """Parse a share from 0 to 1, such as ``2%`` or ``0.02``.

    `where` begins the message.

    Raises:
        GateError: If it is none.
    """
    with suppress(ValueError):
        if 0 < (value := parse_fraction(text)) < 1:
            return value
    needed = "needed a share above 0 and below 1, such as 2% or 0.02"
    raise GateError(f"{where}: {needed}, got {_short(text)}{_in_percent(text)}")


def _in_percent(text: str) -> str:
    return f", did you mean {text}%?" if text.isdigit() and 0 < int(text) < 100 else ""


def _error(error: Plain, source: str) -> float:
    with suppress(ValueError):
        if isinstance(error, str) and 0 < (value := parse_fraction(error)) <= _MOST_ERROR:
            return value
    raise GateError(
        f"{source}: error: needed a share above 0, {100 * _MOST_ERROR:g}% at most, got "
        f"{_short(error)}"
    )


def _unclear(unclear: Plain, source: str) -> int | None:
    if unclear == "all":
        return None
    if isinstance(unclear, str) and unclear.isascii() and unclear.isdigit():
        return int(unclear)
    raise GateError(
        f"{source}: supporting: unclear: needed a number of limits, or all, got {_short(unclear)}"
    )


def _exemptions(exemptions_given: Plain | None, where: str) -> tuple[Exemption, ...]:
    if exemptions_given is None:
        return ()
    if not isinstance(exemptions_given, list) or not exemptions_given:
        raise GateError(f"{where}: needed a list, at least one, got {_short(exemptions_given)}")
    exemptions = []
    for number, exemption in enumerate(exemptions_given, start=1):
        at = f"{where}, number {number}"
        keys = _mapping(exemption, at, ("of", "reason", "until"))
        if missing := [
            key for key in ("of", "reason", "until") if not str(keys.get(key, "")).strip()
        ]:
            raise GateError(
                f"{at}: needed {', '.join(missing)}: an exception has a group, a reason and a "
                "last day"
            )
        of, reason, until = (str(keys[key]) for key in ("of", "reason", "until"))
        _check_group(of, at)
        try:
            exemptions.append(
                Exemption(of=of, reason=reason.strip(), until=date.fromisoformat(until))
            )
        except ValueError as error:
            raise GateError(
                f"{at}: until: needed a day such as 2027-03-31, got {_short(until)}"
            ) from error
    return tuple(exemptions)


def _check_use(policy: Policy, source: str) -> None:
    of_run = [
        rule.condition.left
        for rule in policy.rules
        if rule.condition and rule.condition.left in _OF_RUN
    ]
    if of_run and policy.subset != Selection():
        raise GateError(
            f"{source}: {of_run[0]} counts all items of a run, and the policy has a subset; "
            "take one out"
        )
    if all(rule.tier == "advisory" for rule in policy.rules) and not policy.must_pass:
        raise GateError(
            f"{source}: has no limit that decides; needed one that is critical or supporting, "
            "or must_pass"
        )
    for exemption in policy.exemptions:
        if not any(
            exemption.excuses(rule.of) or _covers(rule.of, exemption.of) for rule in policy.rules
        ):
            raise GateError(
                f"{source}: exceptions: no limit is about {exemption.of!r}; take the exception out"
            )
        if exemption.of in policy.required:
            raise GateError(
                f"{source}: exceptions: {exemption.of!r} is required and excepted; take it out "
                "of one of them"
            )


def _covers(of: str, group: str) -> bool:
    level, _, name = of.partition(":")
    return of == group or (name == EVERY and group.startswith(f"{level}:"))


def limits_of(
    *, fail_if: Sequence[str] = (), no_worse_than: str | None = None, policy: Policy | None = None
) -> Policy:
    """Combine limits of a command with a policy.

    Each is a critical limit at 95 %.

    Args:
        fail_if: Conditions that name their group.
        no_worse_than: Limits of the verdict: ``2%`` for accuracy alone, or
            ``2%,known=5%,category=5%``.
        policy: The policy, which keeps its error; None for none.

    Raises:
        GateError: If a text is no condition, or no such limits.
    """
    rules = [
        Rule(tier="critical", of="", kind="condition", condition=Condition.parse(condition))
        for condition in fail_if
    ]
    if no_worse_than is not None:
        tolerated = parse_no_worse_than(no_worse_than)
        rules += [
            Rule(tier="critical", of="all", kind=cast(Kind, name), limit=limit)
            for name, limit in tolerated.items()
        ]
    if policy is not None:
        return replace(
            policy, rules=(*policy.rules, *rules), name=policy.name + " and options" * bool(rules)
        )
    error = _USUAL_ERROR * max(sum(rule.has_interval for rule in rules), 1)
    return Policy(
        name="options", text=repr((*fail_if, no_worse_than)), rules=tuple(rules), error=error
    )


def parse_no_worse_than(text: str) -> dict[str, float]:
    """Read the limit of each leg, as in ``2%,known=5%,category=5%``.

    Raises:
        GateError: If it is not such a text.
    """
    tolerated: dict[str, float] = {}
    with suppress(ValueError):
        for word in text.split(","):
            name, equals, value = word.strip().rpartition("=")
            leg, share = name if equals else "accuracy", parse_fraction(value.strip())
            if leg not in _LEGS or leg in tolerated or not 0 < share < 1:
                raise ValueError(text)
            tolerated[leg] = share
        return tolerated
    needed = "needed a share above 0 and below 1, such as 2% or 0.02, or 2%,known=5%,category=5%"
    raise GateError(f"{needed}, got {text!r}{_in_percent(text)}")


def _must_pass(items_given: Plain, where: str, probe: Probe | None) -> MustPass:
    if isinstance(items_given, str):
        if (
            items_given.lower() != "true"
        ):  # scalars stay texts, and YAML also spells it True and TRUE
            raise GateError(
                f"{where}: needed true, a list of ids, or a mapping of tasks to ids, got "
                f"{_short(items_given)}"
            )
        if probe is None:
            raise GateError(
                f"{where}: true means the items marked in the probe; name it with --probe, or "
                "list the ids"
            )
        if not (marked := tuple((item.task, item.id) for item in probe if item.must_pass)):
            raise GateError(
                f"{where}: true, and no item of the probe {probe.name!r} is marked must_pass"
            )
        return marked
    if isinstance(items_given, dict):
        named = [
            (task, item)
            for task, items in items_given.items()
            for item in _texts(items, f"{where}: {task}")
        ]
        if not named:
            raise GateError(f"{where}: names no item")
        return tuple(named)
    return tuple((None, item) for item in _texts(items_given, where))


def _subset(subset_given: Plain, path: Path) -> Selection:
    where, keys_known = f"{path}: subset", ("tasks", "categories", "items")
    keys = _mapping(subset_given, where, keys_known)
    if not keys:
        raise GateError(f"{where}: needed at least one of {', '.join(keys_known)}")
    texts = {
        name: _texts(keys[name], f"{where}: {name}")
        for name in ("tasks", "categories")
        if name in keys
    }
    items = _ids(keys["items"], path.parent, f"{where}: items") if "items" in keys else ()
    return Selection(
        tasks=texts.get("tasks", ()), categories=texts.get("categories", ()), items=items
    )


def _ids(name: Plain, folder: Path, where: str) -> tuple[str, ...]:
    if not isinstance(name, str) or not name or "\0" in name:
        raise GateError(f"{where}: needed the name of a file with an id a line, got {_short(name)}")
    file = folder / name
    with file_errors(file, "a file with an id a line", GateError):
        # Resolved, so that a link out of the folder counts as what it leads to.
        if not file.resolve().is_relative_to(folder.resolve()):
            raise GateError(
                f"{where}: needed a file in the folder of the policy, got {_short(name)}; copy "
                "it there"
            )
    lines = read_text(file, "a file with an id a line", GateError, limit=_MAX_ITEMS_SIZE)
    ids = tuple(dict.fromkeys(line.strip() for line in lines.splitlines() if line.strip()))
    if not ids:
        raise GateError(f"{file}: needed one id per line, and the file is empty")
    return ids


def _mapping(
    mapping: Plain, where: str, keys_known: tuple[str, ...] | None = None
) -> dict[str, Plain]:
    if not isinstance(mapping, dict):
        raise GateError(f"{where}: needed a mapping (key: value), got {_short(mapping)}")
    if keys_known is not None and (unknown := [key for key in mapping if key not in keys_known]):
        meant = did_you_mean(unknown[0], keys_known)
        raise GateError(
            f"{where}: unknown key {_short(unknown[0])}{meant}; the keys are "
            f"{', '.join(keys_known)}"
        )
    return mapping


def _texts(list_given: Plain, where: str) -> tuple[str, ...]:
    # Each once; an empty list is an error.
    # A text is a sequence of characters too: fail_if: n>1 would read as three conditions.
    if (
        isinstance(list_given, (str, dict))
        or not list_given
        or not all(isinstance(text, str) and text for text in list_given)
    ):
        raise GateError(f"{where}: needed a list of texts, at least one, got {_short(list_given)}")
    return tuple(dict.fromkeys(str(text) for text in list_given))


def _short(value: Plain) -> str:
    shortened = repr(value)
    return shortened if len(shortened) <= 80 else f"{shortened[:79]}…"
