"""A guard: bounds on the losses of a run, and the action when they are exceeded.

It trips on three things: an alarm of a net loss or of fading, over all looks and groups (`metrics.alarm_level`); a net
loss whose whole interval lies beyond a bound, at consecutive looks; a `must_pass` item that was right and is wrong.

A net loss beyond the bound does not count in a category whose items do not see a loss of the size of the bound
(`Group.detectable_change`): among many categories of few items, some fall far by chance. The guard says so once for
each category; alarms, whose level accounts for the number of groups, watch it all the same. The whole is one test, and
counts.

A run that the guard has stopped, and that resumes with what it found still lost, stops again after its first step,
unless the guard has ``override=True``: a job script that starts ended runs again must not undo a stop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from forgetwatch.comparing import Group, Trajectory, can_see, group_verdict
from forgetwatch.errors import WatchError
from forgetwatch.measures import net_change
from forgetwatch.pairing import percent, tolerance_points
from forgetwatch.progress import Failures
from forgetwatch.report import alarm_line
from forgetwatch.run_folder import GuardFinding
from forgetwatch.watch.watch import Watch

Action = Literal["warn", "save", "stop"]


@dataclass(frozen=True)
class Guard:
    """Bounds on the losses of a run, and the action when they are exceeded.

    Attributes:
        action: ``warn`` logs a warning; ``save`` also requests a checkpoint; ``stop`` also ends the run.
        net_loss: Net loss of accuracy, 0 to 1, that the whole 95 % interval may not exceed; None for no such bound.
        looks: Number of consecutive looks at which it is exceeded.
        override: True to continue a run that the guard has stopped past what it found before the resume.

    Raises:
        WatchError: If a value is out of range.
    """

    action: Action = "warn"
    net_loss: float | None = 0.02
    looks: int = 2
    override: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        if self.action not in get_args(Action):
            raise WatchError(f"guard={self.action!r}: needed one of {', '.join(get_args(Action))}")
        if self.net_loss is not None and not 0 <= self.net_loss < 1:
            raise WatchError(f"net_loss={self.net_loss!r}: needed a share of the items, from 0 to 1")
        if self.looks < 1:
            raise WatchError(f"looks={self.looks!r}: needed at least 1")

    def findings(self, trajectory: Trajectory, lost: Sequence[str] = ()) -> list[GuardFinding]:
        """Everything that exceeds a bound at the latest look, at which these `must_pass` items are `lost`."""
        step = trajectory.steps[-1]
        found = []
        for alarm in trajectory.verdicts():
            if alarm.step == step and alarm.raised:
                what = "alarm" if alarm.kind == "net" else alarm.kind
                found.append(GuardFinding(what, _name(alarm.group), step, alarm_line(alarm).plain))
        found += self._net_losses(trajectory)
        for item in lost:
            line = f"item {item}, which must pass, was right and is wrong at step {step}"
            found.append(GuardFinding("must_pass", item, step, line))
        return found

    def _net_losses(self, trajectory: Trajectory) -> list[GuardFinding]:
        """Net losses beyond the bound at consecutive looks, the latest among them."""
        recent = trajectory.comparisons[1:][-self.looks :]  # the first is the baseline against itself
        if self.net_loss is None or len(recent) < self.looks:
            return []
        bound, step = self.net_loss, trajectory.steps[-1]
        beyond = [
            {_name(group) for group in look.groups if group_verdict(group, bound).word == "FAIL"} for look in recent
        ]
        categories = [group for group in recent[-1].by("category").values() if group.n]
        found = []
        # A single category is the whole.
        for group in (recent[-1].all, *(categories if len(categories) > 1 else ())):
            # The same group at each of these looks, or groups that take turns by chance would trip the guard.
            if not all(_name(group) in look for look in beyond):
                continue
            at = f"{self.looks} looks in a row" if self.looks > 1 else "this look"
            line = f"{group.name}, step {step}: {net_change(group)} points, below -{tolerance_points(bound)} at {at}"
            what = "net_loss"
            if group.level == "category" and not can_see(group, bound):
                sees = group.detectable_change
                seen = "no net loss" if math.isnan(sees) else f"losses from {percent(sees)} points"
                what, line = "too_few_items", f"{line}; the guard does not trip on it: its {group.n:g} items see {seen}"
                line += f", and the bound is {tolerance_points(bound)}"
            found.append(GuardFinding(what, _name(group), step, line))
        return found

    def remaining(
        self, trajectory: Trajectory, lost: Sequence[str], *, stopped: int, tripped: Sequence[GuardFinding]
    ) -> list[GuardFinding]:
        """Findings that still hold at the latest look of a run that the guard has stopped at a step.

        Those that `tripped` it hold where looks that could show otherwise are missing.
        """
        is_seen = trajectory.steps[-1] >= stopped and len(trajectory.steps) > self.looks
        return [one for one in (self.findings(trajectory, lost) if is_seen else tripped) if one.trips]


@dataclass
class Tripped:
    """Findings of a run so far, in the order in which they were made; each is reported once."""

    findings: list[GuardFinding] = field(default_factory=list)

    @classmethod
    def of(cls, stored: Iterable[Any]) -> Tripped:
        """Findings of an earlier process, as `stored` gave them."""
        return cls([finding for one in stored if (finding := GuardFinding.of(one)) is not None])

    @property
    def stored(self) -> list[dict[str, Any]]:
        """The findings as JSON values."""
        return [dict(vars(finding)) for finding in self.findings]

    def new(self, found: Iterable[GuardFinding]) -> list[GuardFinding]:
        """Return the findings that were not reported before, and count them as reported."""
        reported = {(finding.what, finding.name) for finding in self.findings}
        fresh = [finding for finding in found if (finding.what, finding.name) not in reported]
        self.findings += fresh
        return fresh

    def at_look(self, guard: Guard | None, watch: Watch, *, step: int, failures: Failures) -> list[GuardFinding]:
        """New findings of the look at a step, which are stored with the run; failures are tolerated."""
        new = list[GuardFinding]()
        with failures.tolerate("the guard", step=step):
            if guard is not None:
                new = self.new(guard.findings(watch.trajectory(), watch.lost_must_pass(step)))
        # Apart: a full disk must not disable the guard.
        with failures.tolerate("storing the findings of the guard", step=step):
            watch.report_findings(self.findings)
        return new


def _name(group: Group) -> str:
    return f"{group.level}:{group.name}"
