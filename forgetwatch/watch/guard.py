"""A guard: bounds on the losses of a run, and the action when they are exceeded.

It trips on five things: an alarm, over all looks and groups (`Trajectory.alarms`), of a net loss or of a loss of what
was clearly known, which gains may hide; a net loss whose whole interval lies
beyond a bound, at consecutive looks; a `must_pass` item that was right and is wrong; more than 1 % of the answers that
were scored at the start and have no outcome now. Those are in no count, so that nothing else would show them.

A net loss beyond the bound does not count in a category whose items do not show a loss of the size of the bound
(`comparing.smallest_seen`): among many categories of few items, some fall far by chance. Alarms, whose level accounts
for the number of groups, cover it all the same. The whole is one test, and counts.

With a policy it trips where the policy fails instead (`gates.policy`): at each look by the same rules, with its error
shared by all looks. The action is the policy's.

`rollback` stops, too, and at the end of the training loads the weights of the last saved checkpoint whose look did not
fail (`watch.rollback`).

Each finding is stored with the run. The log of a look has at most one line on alarms and one on the rest.

A run that the guard has stopped, and that resumes, stops again after its first step, unless the guard has
``override=True``: a job script that starts ended runs again must not undo a stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast, get_args

from forgetwatch.comparing import Alarm, Comparison, Group, Trajectory, can_see, estimated, is_beyond
from forgetwatch.errors import WatchError, did_you_mean
from forgetwatch.gates import READY, Policy, PolicyResult, Sides, apply_policy, check_groups, load_policy
from forgetwatch.measures import KNOWN, VANISHED_SHARE_NOTED
from forgetwatch.pairing import change_points, count, listed, one_line, percent, tolerance_points
from forgetwatch.probe import Probe
from forgetwatch.run_folder import GuardFinding

Action = Literal["warn", "save", "stop", "rollback"]
STOPS: Final = ("stop", "rollback")
"""Actions that end the training."""


@dataclass(frozen=True)
class Guard:
    """Bounds on the losses of a run, and the action when they are exceeded.

    Attributes:
        action: ``warn`` logs a warning; ``save`` also requests a checkpoint; ``stop`` also ends the run; ``rollback``
            ends it and loads the last saved checkpoint whose look did not fail.
        net_loss: Net loss of accuracy, 0 to 1, that the whole 95 % interval may not exceed; None for no such bound.
        looks: Number of consecutive looks at which it is exceeded.
        override: True to continue a run that the guard has stopped.
        policy: Decides in place of the other bounds; None for none.
        probe: The probe, for the policy's tags; None for none.

    Raises:
        WatchError: If a value is out of range.
    """

    action: Action = "warn"
    net_loss: float | None = 0.02
    looks: int = 2
    override: bool = False
    policy: Policy | None = None
    probe: Probe | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: Guard | str | Path | None, probe: Probe) -> Guard | None:
        """Return the guard that an action, or the name or file of a policy, means.

        Raises:
            WatchError: If it is neither.
            GateError: If the policy cannot be read, or names a group that the probe does not have.
        """
        if given is None or isinstance(given, Guard):
            return given
        if str(given) in get_args(Action):
            return cls(cast(Action, str(given)))
        if str(given) not in READY and not Path(given).exists():
            known = (*get_args(Action), *READY)
            near = did_you_mean(str(given), known)
            raise WatchError(f"guard={str(given)!r}: needed {', '.join(known)}, or the file of a policy{near}")
        policy = load_policy(str(given), probe)
        check_groups(policy, probe)
        return cls(policy.on_fail, policy=policy, probe=probe)

    def __post_init__(self) -> None:
        """Check the values."""
        if self.action not in get_args(Action):
            raise WatchError(f"guard={self.action!r}: needed one of {', '.join(get_args(Action))}")
        if self.net_loss is not None and not 0 <= self.net_loss < 1:
            raise WatchError(f"net_loss={self.net_loss!r}: needed a share of the items, from 0 to 1")
        if self.looks < 1:
            raise WatchError(f"looks={self.looks!r}: needed at least 1")

    def findings(self, trajectory: Trajectory, lost: Sequence[str] = ()) -> list[GuardFinding]:
        """Return everything that exceeds a bound at the latest look, at which these `must_pass` items are `lost`."""
        step = trajectory.steps[-1]
        if self.policy is not None:
            return self._of_policy(trajectory)
        raised = [alarm for alarm in trajectory.verdicts() if alarm.step == step and alarm.raised]
        # The whole first, then the largest fall.
        raised.sort(key=lambda alarm: (alarm.group.level != "all", estimated(alarm.group)[0]))
        found = [
            GuardFinding(
                "alarm" if alarm.kind == "net" else "known",
                _name(alarm.group),
                step,
                f"ALARM: {_fall(alarm)} (step {step})",
            )
            for alarm in raised
        ]
        found += self._net_losses(trajectory)
        found += _vanished(trajectory.comparisons[-1].all, step)
        for item in lost:
            line = f"item {item}, which must pass, was right and is wrong at step {step}"
            found.append(GuardFinding("must_pass", item, step, line))
        return found

    def judged(self, sides: Sides, comparison: Comparison, *, look: int, planned: int | None) -> PolicyResult | None:
        """Return what the policy says about a look, which is one of those that share its error; None without a policy.

        Args:
            sides: The baseline and the look.
            comparison: Their comparison.
            look: Number of the look, from 1.
            planned: Looks planned after the baseline; None if unknown.
        """
        if self.policy is None:
            return None
        # K planned looks and all beyond them share the error as K and 1; without a plan as 1/k^2, whose sum is known.
        planned = planned or 0
        beyond = max(look - planned, 0)
        share = 1.0 if not beyond else math.pi**2 * beyond**2 / 6
        looks = math.ceil((planned + 1) * share) if planned else math.ceil(share)
        return apply_policy(self.policy, sides, comparison=comparison, looks=looks)

    def _of_policy(self, trajectory: Trajectory) -> list[GuardFinding]:
        """Return the limits of the policy that fail at the latest look; none unless the policy does."""
        look, step = len(trajectory.steps) - 1, trajectory.steps[-1]
        sides = Sides(before=trajectory.baseline, after=trajectory.last, probe=self.probe, trajectory=trajectory)
        found = self.judged(sides, trajectory.comparisons[-1], look=look, planned=trajectory.planned) if look else None
        if found is None or found.answer != "FAIL":
            return []
        name = one_line(found.policy.name)
        return [
            GuardFinding("policy", one.what, step, f"policy {name}: {one_line(one.line)} at step {step}")
            for one in found.deciding
        ]

    def _net_losses(self, trajectory: Trajectory) -> list[GuardFinding]:
        """Return the net losses beyond the bound at consecutive looks, the latest among them."""
        recent = trajectory.comparisons[1:][-self.looks :]  # the first is the baseline against itself
        if self.net_loss is None or len(recent) < self.looks:
            return []
        bound, step = self.net_loss, trajectory.steps[-1]
        beyond = [{_name(group) for group in look.groups if is_beyond(group, bound)} for look in recent]
        categories = [group for group in recent[-1].by("category").values() if group.n]
        found = []
        # A single category is the whole.
        for group in (recent[-1].all, *(categories if len(categories) > 1 else ())):
            # The same group at each of these looks, or groups that take turns by chance would trip the guard.
            if not all(_name(group) in look for look in beyond):
                continue
            at = f"{self.looks} looks in a row" if self.looks > 1 else "this look"
            what, why = "net_loss", f"below -{tolerance_points(bound)} at {at}"
            if group.level == "category" and not can_see(group, bound):
                what, why = "too_few_items", f"too few items ({count(group.n)}) for the {100 * bound:g}-point rule"
                why += "; the alarm covers this category"
            line = f"{one_line(group.name)}, {change_points(*estimated(group))} at step {step}: {why}"
            found.append(GuardFinding(what, _name(group), step, line))
        return found


def _vanished(whole: Group, step: int) -> list[GuardFinding]:
    """Return the finding on answers that were scored at the start and are not now; none if they are few."""
    if whole.outcomes.newly_unscored <= VANISHED_SHARE_NOTED * (whole.n + whole.outcomes.vanished):
        return []
    line = (
        f"{whole.outcomes.newly_unscored:,} answers that were scored at the start have no outcome at step {step}, "
        f"{count(whole.vanished_right)} of them right before"
    )
    return [GuardFinding("vanished", _name(whole), step, line)]


def finding_lines(new: Sequence[GuardFinding], found: Sequence[GuardFinding], *, stops: int | None = None) -> list[str]:
    """Return the lines of the log on the new findings of a look: at most one on alarms, and one on all others.

    Args:
        new: The findings of the look that were not reported before.
        found: All findings of the run, these included.
        stops: Step at which they end the run; None if they do not.
    """
    kinds = ("alarm", "known", "net_loss", "must_pass", "policy")
    of = {what: [one for one in new if one.what == what] for what in kinds}
    few = [one for one in found if one.what == "too_few_items"]
    parts = [_and_others(of["net_loss"])] if of["net_loss"] else []
    if of["policy"]:
        more = len(of["policy"]) - 1
        parts.append(of["policy"][0].line + (f", and {more:,} more limits" if more else ""))
    if len(of["must_pass"]) == 1:
        parts.append(of["must_pass"][0].line)
    elif names := [one.name for one in of["must_pass"]]:
        parts.append(f"items {listed(names)}, which must pass, were right and are wrong at step {new[0].step}")
    parts += [one.line for one in new if one.what == "vanished"]
    # Once in a run: it is a property of the probe, and all small categories of a run that is lost have it.
    if few and few[0] in new:
        parts.append(few[0].line)
    told = "; ".join(parts)
    if stops is not None:
        told = f"the guard stops the run at step {stops}{': ' if told else ''}{told}"
    elif told:
        told = f"guard: {told}"
    raised = [one.line for one in of["known"]] + ([_and_others(of["alarm"])] if of["alarm"] else [])
    alarms = [f"ALARM: {'; '.join(one.removeprefix('ALARM: ') for one in raised)}; see the page"] if raised else []
    return [*alarms, *([told] if told else [])]


def _and_others(findings: Sequence[GuardFinding]) -> str:
    """Return the line of the first finding, and the number of categories among the others."""
    first, others = findings[0], len(findings) - 1
    more = "" if first.name.startswith("all:") else "more "
    return first.line + (f", and {others:,} {more}categor{'y' if others == 1 else 'ies'}" if others else "")


def _fall(alarm: Alarm) -> str:
    known = alarm.group[KNOWN]
    if alarm.kind == "known" and known is not None:
        return f"{percent(known.lost_net_share or 0.0)} % of what it clearly knew is lost"
    change = 100 * estimated(alarm.group)[0]
    return f"{one_line(alarm.group.name)} {change:.{0 if abs(change) >= 9.95 else 1}f} points"


def _name(group: Group) -> str:
    return f"{group.level}:{group.name}"
