"""A guard: bounds on the losses of a run, and the action when they are exceeded.

It trips on three things: an alarm of falling accuracy, over all looks and groups (`metrics.alarm`); a net loss whose
whole interval lies beyond a bound, at consecutive looks; a `must_pass` item that was right and is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import group_verdict
from forgetwatch.errors import WatchError
from forgetwatch.report.run_table import alarm_line

Action = Literal["warn", "save", "stop"]


@dataclass(frozen=True)
class Finding:
    """One thing that tripped the guard.

    Attributes:
        what: ``alarm``, ``net_loss`` or ``must_pass``.
        name: The group's level and name, or the item's id.
        step: Optimizer step of the look.
        line: The finding in one line, without text of any item.
    """

    what: str
    name: str
    step: int
    line: str


@dataclass(frozen=True)
class Guard:
    """Bounds on the losses of a run, and the action when they are exceeded.

    Attributes:
        action: ``warn`` logs a warning; ``save`` also requests a checkpoint; ``stop`` also ends the run.
        net_loss: Net loss of accuracy, 0 to 1, that the whole 95 % interval may not exceed; None for no such bound.
        looks: Number of consecutive looks at which it is exceeded.

    Raises:
        WatchError: If a value is out of range.
    """

    action: Action = "warn"
    net_loss: float | None = 0.02
    looks: int = 2

    def __post_init__(self) -> None:
        """Check the values."""
        if self.action not in get_args(Action):
            raise WatchError(f"guard={self.action!r}: needed one of {', '.join(get_args(Action))}")
        if self.net_loss is not None and not 0 <= self.net_loss < 1:
            raise WatchError(f"net_loss={self.net_loss!r}: needed a share of the items, from 0 to 1")
        if self.looks < 1:
            raise WatchError(f"looks={self.looks!r}: needed at least 1")

    def findings(self, trajectory: Trajectory, lost: Sequence[str] = ()) -> list[Finding]:
        """Everything that exceeds a bound at the latest look.

        Args:
            trajectory: The run so far.
            lost: Ids of the `must_pass` items that are lost at its latest look.
        """
        step = trajectory.steps[-1]
        found = [
            Finding("alarm", f"{alarm.group.level}:{alarm.group.name}", step, alarm_line(alarm).plain)
            for alarm in trajectory.verdicts()
            if alarm.step == step and alarm.raised
        ]
        recent = trajectory.comparisons[1:][-self.looks :]  # the first is the baseline against itself
        if self.net_loss is not None and len(recent) == self.looks:
            beyond = [
                {
                    (group.level, group.name)
                    for group in look.groups
                    if group_verdict(group, self.net_loss).word == "FAIL"
                }
                for look in recent
            ]
            for group in recent[-1].groups:
                # The same group at each of these looks, or groups that take turns by chance would trip the guard.
                if group.level in ("all", "category") and all((group.level, group.name) in look for look in beyond):
                    low, high = (100 * end for end in group.net_change_interval)
                    line = (
                        f"{group.name}, step {step}: {100 * group.net_change:+.1f} points ({low:+.1f} to {high:+.1f}), "
                        f"below -{100 * self.net_loss:g} points at {self.looks} looks in a row"
                    )
                    found.append(Finding("net_loss", f"{group.level}:{group.name}", step, line))
        found += [
            Finding("must_pass", item, step, f"item {item}, which must pass, was right and is wrong at step {step}")
            for item in lost
        ]
        return found


@dataclass
class Tripped:
    """Findings of a run so far; each is reported once.

    Attributes:
        reported: `what` and `name` of the findings.
        lines: One line for each finding of this process but alarms; the last table counts them and names the first.
    """

    reported: set[tuple[str, str]] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, stored: Iterable[Sequence[str]]) -> Tripped:
        """Findings of an earlier process, as `stored` gave them."""
        return cls({(what, name) for what, name in stored})

    @property
    def stored(self) -> list[list[str]]:
        """The reported findings as JSON values."""
        return sorted(map(list, self.reported))

    def new(self, found: Iterable[Finding]) -> list[Finding]:
        """Return the findings that were not reported before, and count them as reported."""
        fresh = [finding for finding in found if (finding.what, finding.name) not in self.reported]
        self.reported |= {(finding.what, finding.name) for finding in fresh}
        self.lines += [finding.line for finding in fresh if finding.what != "alarm"]
        return fresh
