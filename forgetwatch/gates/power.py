"""What a policy can see, before any model is scored.

With psi the share of answers that flip, n the items of a group, and z the quantile of the level that a limit has among
all limits of its policy, a loss d beyond a limit L is seen with a power if

    d - L = (z_level + z_power) sqrt((max(psi, d) - d^2) / n)

and an unchanged model passes it with that power if L is at least (z_level + z_power) sqrt(psi / n). Items of a cluster
count once. That is by flips alone: where options get scores the estimate from margins sees somewhat more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scipy import special

from forgetwatch.gates.policy import EVERY, Policy, Rule
from forgetwatch.item import Item
from forgetwatch.metrics import detectable_known_lost
from forgetwatch.probe import Probe
from forgetwatch.probes import questions_once

_ACCURACY = ("accuracy", "no worsening", "gain")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one limit of a policy can see.

    Attributes:
        rule: The limit, of one group.
        items: Items of the group.
        sees: Smallest loss of accuracy, 0 to 1, that fails it with the power; of a gain the smallest that passes; nan
            where no loss does, or it is of another quantity.
        known_lost: Smallest number of clearly known and lost items above 0 that it sees; nan for other limits.
        passes: True if an unchanged model passes it with the power; None for a gain, and other quantities.
    """

    rule: Rule
    items: int
    sees: float = math.nan
    known_lost: float = math.nan
    passes: bool | None = None


def planned_power(
    policy: Policy, probe: Probe, *, flips: float = 0.1, power: float = 0.8, before: float = 0.6
) -> list[Planned]:
    """Return what each limit of a policy can see on a probe.

    Args:
        policy: The policy.
        probe: The probe.
        flips: Share of answers that flip either way.
        power: Probability of seeing a loss that is there.
        before: Accuracy before, to which relative limits refer.
    """
    items = [item for item in probe if not item.is_passage]
    found = [(rule, questions_once(of)) for given in policy.rules for rule, of in _expanded(given, items)]
    sharing = sum(rule.tier != "advisory" and rule.has_interval for rule, _ in found)
    z = float(special.ndtri(1 - policy.error / (2 * max(sharing, 1))))
    return [_planned(rule, of, z, flips=flips, power=power, before=before) for rule, of in found]


def smallest_seen_beyond(limit: float, n: float, flips: float, z: float) -> float:
    """Return the smallest loss, 0 to 1, that n items see beyond a limit; nan if none.

    Args:
        limit: The loss that is allowed, 0 to 1.
        n: Number of items, by flips.
        flips: Share of answers that flip either way.
        z: Quantile of the level plus that of the power.
    """
    if n <= 0:
        return math.nan
    low, high = limit, 1.0

    def lacks(loss: float) -> bool:
        return loss - limit < z * math.sqrt(max(max(flips, loss) - loss**2, 0.0) / n)

    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lacks(middle) else (low, middle)
    return high


def _planned(rule: Rule, items: Sequence[Item], z: float, *, flips: float, power: float, before: float) -> Planned:
    both = z + float(special.ndtri(power))
    n = len({item.cluster or (item.task, item.id) for item in items})
    if rule.kind == "known":
        mirrored = sum(len(item.choices) - len(item.answers) >= 2 for item in items if item.choices)
        usual = float(special.ndtri(0.975) + special.ndtri(power))
        return Planned(rule=rule, items=mirrored, known_lost=detectable_known_lost(mirrored, flips) * both / usual)
    if rule.kind not in _ACCURACY:
        return Planned(rule=rule, items=len(items))
    limit = rule.loss_allowed(before)
    if rule.kind == "gain":
        return Planned(rule=rule, items=len(items), sees=smallest_seen_beyond(limit, n, flips, both))
    passes = rule.kind == "no worsening" or (n > 0 and limit >= both * math.sqrt(flips / n))
    return Planned(rule=rule, items=len(items), sees=smallest_seen_beyond(limit, n, flips, both), passes=passes)


def _expanded(rule: Rule, items: Sequence[Item]) -> Iterator[tuple[Rule, Sequence[Item]]]:
    """Yield the limit of each group that it is about, with the group's items."""
    if rule.kind == "metric":
        yield rule, ()
        return
    level, _, name = rule.of.partition(":")
    if rule.of == "all":
        yield rule, items
        return
    groups: dict[str, list[Item]] = {}
    for item in items:
        for of in _names(item, level):
            groups.setdefault(of, []).append(item)
    for of in (name for name in groups if name) if name == EVERY else [name]:
        yield replace(rule, of=f"{level}:{of}"), groups.get(of, [])


def _names(item: Item, level: str) -> Sequence[str]:
    if level == "tag":
        return item.tags
    if level == "wording":
        return ["shipped" if item.wording is None else item.wording.name]
    return [item.task if level == "task" else item.category]
