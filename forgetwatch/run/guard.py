"""A guard: limits on the losses of a run, and the action when it exceeds them.

It trips on an alarm, over all looks and groups (`Trajectory.alarms`), of a net loss or of a loss of
what was clearly known, which gains may hide; on outputs that are not finite; on a limit of
``no_worse_than``, as `forgetwatch gate --no-worse-than` has it, at any look; on a `must_pass` item
that was right and is wrong; and on more than 1 % of the answers that were scored at the start and
have no outcome now. Those are in no count, so that nothing else would show them.

With a policy it trips where the policy fails (`policy.policy`), on alarms and on outputs that are
not finite, and the action is the policy's. Looks share the error of the limits.

`rollback` stops, too, and at the end of the training loads the weights of the last saved checkpoint
whose look did not fail.

Each finding is stored with the run. The log of a look has at most one line on alarms and one on the
rest.

A run that the guard has stopped, and that resumes, stops again after its first step, unless the
guard has ``override=True``: a job script that starts ended runs again must not undo a stop.

The training has ended by then and does not go on: what is saved after it are these weights.
Optimizer and schedule stay as they were. Only a folder counts that this run saved, with the files
that it had then, and what was loaded is compared with what was saved: an output_dir may hold the
checkpoints of an earlier training under the same names.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from torch import nn

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.decision import decide, not_finite
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.subset import cut_to_common
from forgetwatch.comparing.trajectory import Alarm, Trajectory
from forgetwatch.comparing.verdict import estimated
from forgetwatch.errors import WatchError, did_you_mean
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.policy.policy import (
    READY,
    Policy,
    check_groups,
    limits_of,
    load_policy,
    parse_no_worse_than,
)
from forgetwatch.policy.ruling import PolicyResult, Sides, apply_policy
from forgetwatch.probe import Probe
from forgetwatch.run.run import Run
from forgetwatch.run_folder.description import GuardFinding, look_name, own_checkpoint
from forgetwatch.scoring.processes import on_all_processes, on_main_process
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.snapshot import read_snapshot
from forgetwatch.text import count, listed, one_line, percent

if TYPE_CHECKING:
    from transformers import Trainer


Action = Literal["warn", "save", "stop", "rollback"]
STOPS: Final = ("stop", "rollback")
"""Actions that end the training."""


@dataclass(frozen=True)
class Guard:
    """Limits on the losses of a run, and the action when it exceeds them.

    Attributes:
        action: ``warn`` logs a warning; ``save`` also requests a checkpoint; ``stop`` also ends the
            run; ``rollback`` ends it and loads the last saved checkpoint whose look did not fail.
        no_worse_than: Losses that are tolerated, such as ``2%`` or ``2%,known=5%,category=5%``;
            None for no such limit.
        override: True to continue a run that the guard has stopped.
        policy: Its limits are in place of all but alarms and outputs that are not finite; None for
            none.
        probe: The probe, for the policy's tags; None for none.

    Raises:
        WatchError: If the action is none.
        GateError: If the losses cannot be read.
    """

    action: Action = "warn"
    no_worse_than: str | None = "2%"
    override: bool = False
    policy: Policy | None = None
    probe: Probe | None = field(default=None, repr=False)

    @classmethod
    def of(cls, guard_given: Guard | str | Path | None, probe: Probe) -> Guard | None:
        """Make the guard of an action, or of a policy's name or file.

        Raises:
            WatchError: If it is neither.
            GateError: If the policy cannot be read, or names a group that the probe does not have.
        """
        if guard_given is None or isinstance(guard_given, Guard):
            return guard_given
        if str(guard_given) in get_args(Action):
            return cls(cast(Action, str(guard_given)))
        if str(guard_given) not in READY and not Path(guard_given).exists():
            names = (*get_args(Action), *READY)
            near = did_you_mean(str(guard_given), names)
            raise WatchError(
                f"guard={str(guard_given)!r}: needed {', '.join(names)}, or the file of a "
                f"policy{near}"
            )
        policy = load_policy(str(guard_given), probe)
        check_groups(policy, probe)
        return cls(policy.on_fail, policy=policy, probe=probe)

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise WatchError(f"guard={self.action!r}: needed one of {', '.join(get_args(Action))}")
        if self.no_worse_than is not None:
            parse_no_worse_than(self.no_worse_than)

    def findings(self, trajectory: Trajectory, lost: Sequence[str] = ()) -> list[GuardFinding]:
        """Everything beyond a limit at the latest look.

        `lost` are the `must_pass` items lost there.
        """
        step, look = trajectory.steps[-1], trajectory.comparisons[-1]
        raised = [alarm for alarm in trajectory.verdicts() if alarm.step == step and alarm.raised]
        # The whole first, then the largest fall.
        raised.sort(key=lambda alarm: (alarm.group.level != "all", estimated(alarm.group)[0]))
        findings = [
            GuardFinding(
                "alarm" if alarm.kind == "net" else "known",
                _name(alarm.group),
                step,
                f"ALARM: {_fall(alarm)} (step {step})",
            )
            for alarm in raised
        ]
        if line := not_finite(look.all):
            findings.append(
                GuardFinding("not_finite", _name(look.all), step, f"{line} at step {step}")
            )
        if self.policy is not None:
            return [*findings, *self._of_limits(self.policy, trajectory)]
        if self.no_worse_than is not None:
            findings += self._of_limits(limits_of(no_worse_than=self.no_worse_than), trajectory)
        findings += _vanished(look.all, step)
        for item in lost:
            line = f"item {item}, which must pass, was right and is wrong at step {step}"
            findings.append(GuardFinding("must_pass", item, step, line))
        return findings

    def judged(
        self, sides: Sides, comparison: Comparison, *, look: int, planned: int | None
    ) -> PolicyResult | None:
        """Apply the policy to a look, which shares the error.

        Args:
            sides: The baseline and the look.
            comparison: Their comparison.
            look: Number of the look, from 1.
            planned: Looks planned after the baseline; None if unknown.

        Returns:
            The result, or None without a policy.
        """
        return (
            None if self.policy is None else _applied(self.policy, sides, comparison, look, planned)
        )

    def _of_limits(self, policy: Policy, trajectory: Trajectory) -> list[GuardFinding]:
        # None unless the policy fails.
        look, step = len(trajectory.steps) - 1, trajectory.steps[-1]
        if not look:
            return []
        sides = Sides(
            before=trajectory.baseline,
            after=trajectory.last,
            probe=self.probe,
            trajectory=trajectory,
        )
        result = _applied(policy, sides, trajectory.comparisons[-1], look, trajectory.planned)
        name = f"policy {one_line(policy.name)}: " if policy is self.policy else ""
        return [
            GuardFinding(
                "policy", ruling.what, step, f"{name}{one_line(ruling.line)} at step {step}"
            )
            for ruling in (result.deciding if result.answer == "FAIL" else ())
        ]


def _applied(
    policy: Policy, sides: Sides, comparison: Comparison, look: int, planned: int | None
) -> PolicyResult:
    # K planned looks and all beyond them share the error as K and 1; without a plan as 1/k^2, whose
    # sum is known.
    planned = planned or 0
    beyond = max(look - planned, 0)
    share = 1.0 if not beyond else math.pi**2 * beyond**2 / 6
    looks = math.ceil((planned + 1) * share) if planned else math.ceil(share)
    return apply_policy(policy, sides, comparison=comparison, looks=looks)


def _vanished(group: Group, step: int) -> list[GuardFinding]:
    # Answers that were scored at the start and are not now; none if they are few.
    if group.outcomes.newly_unscored <= VANISHED_SHARE_NOTED * (group.n + group.outcomes.vanished):
        return []
    line = (
        f"{group.outcomes.newly_unscored:,} answers that were scored at the start have no "
        f"outcome at step {step}, {count(group.vanished_right)} of them right before"
    )
    return [GuardFinding("vanished", _name(group), step, line)]


def finding_lines(new: Sequence[GuardFinding], *, stops: int | None = None) -> list[str]:
    """Lines of the log on the new findings of a look.

    At most one on alarms, and one on all others.

    Args:
        new: The findings of the look that were not reported before.
        stops: Step at which they end the run; None if they do not.
    """
    of = {
        finding_kind: [finding for finding in new if finding.what == finding_kind]
        for finding_kind in ("alarm", "known", "must_pass", "policy")
    }
    parts = []
    if of["policy"]:
        more = len(of["policy"]) - 1
        parts.append(
            of["policy"][0].line
            + (f", and {more:,} more limit{'s' if more > 1 else ''}" if more else "")
        )
    if len(of["must_pass"]) == 1:
        parts.append(of["must_pass"][0].line)
    elif names := [finding.name for finding in of["must_pass"]]:
        parts.append(
            f"items {listed(names)}, which must pass, were right and are wrong at step "
            f"{new[0].step}"
        )
    parts += [finding.line for finding in new if finding.what in ("vanished", "not_finite")]
    sentence = "; ".join(parts)
    if stops is not None:
        sentence = f"the guard stops the run at step {stops}{': ' if sentence else ''}{sentence}"
    elif sentence:
        sentence = f"guard: {sentence}"
    raised = [finding.line for finding in of["known"]] + (
        [_and_others(of["alarm"])] if of["alarm"] else []
    )
    alarms = (
        [f"ALARM: {'; '.join(line.removeprefix('ALARM: ') for line in raised)}"] if raised else []
    )
    return [*alarms, *([sentence] if sentence else [])]


def _and_others(findings: Sequence[GuardFinding]) -> str:
    # The number of further categories follows the first line.
    first_finding, rest = findings[0], len(findings) - 1
    more = "" if first_finding.name.startswith("all:") else "more "
    return first_finding.line + (
        f", and {rest:,} {more}categor{'y' if rest == 1 else 'ies'}" if rest else ""
    )


def _fall(alarm: Alarm) -> str:
    known_items = alarm.group[KNOWN]
    if alarm.kind == "known" and known_items is not None:
        return f"{percent(known_items.lost_net_share or 0.0)} % of what it clearly knew is lost"
    change = 100 * estimated(alarm.group)[0]
    return f"{one_line(alarm.group.name)} {change:.{0 if abs(change) >= 9.95 else 1}f} points"


def _name(group: Group) -> str:
    return f"{group.level}:{group.name}"


def roll_back(
    trainer: Trainer,
    guard: Guard,
    run: Run,
    saved: Mapping[int, str],
    *,
    log: Callable[[str], object],
) -> int | None:
    """Load the last own checkpoint whose look did not fail.

    In every process; what was done is logged.

    One that cannot be loaded, or gives other weights than were saved, is named, and the one before
    it is tried.

    Args:
        trainer: The trainer, after its training.
        guard: The guard, whose policy decides; without one the verdict does.
        run: The run, with its looks.
        saved: Fingerprint of the weights that were saved, by step.
        log: Called with a line in every process.

    Returns:
        Step of the weights that the model has then; None if they are of no step.
    """
    tried, stays = False, trainer.state.global_step
    for step, folder in on_main_process(lambda: list(good_checkpoints(guard, run))):
        if getattr(trainer, "is_deepspeed_enabled", False):
            log(
                f"{folder}: the last good checkpoint; DeepSpeed's weights are not replaced "
                "here, so load it"
            )
            return stays
        tried = True
        try:
            on_all_processes(partial(trainer._load_from_checkpoint, str(folder)))
        except Exception as error:  # whatever reading the files of a checkpoint raises
            log(
                f"{folder} cannot be loaded ({' '.join(str(error).split()):.200}); the one "
                "before it is tried"
            )
            continue
        if saved.get(step) not in (None, model_fingerprint(cast(nn.Module, trainer.model))):
            log(
                f"{folder} does not hold the weights that this run saved; the one before it is "
                "tried"
            )
            continue
        log(f"the weights are those of {folder}, the last checkpoint whose look did not fail")
        return step
    end = "are not those of a good checkpoint: do not use them" if tried else "stay as they are"
    log(
        "this run has no checkpoint that can be loaded and whose look did not fail: the "
        f"weights {end}"
    )
    return None if tried else stays


def good_checkpoints(guard: Guard, run: Run) -> Iterator[tuple[int, Path]]:
    """Yield step and folder of good checkpoints, the last first.

    This run saved them, and their look did not fail.
    """
    steps = sorted(run.comparisons)
    # An alarm on what was known compares two looks, the first of which has lost it already.
    alarms_found = [finding for finding in run.state.findings if finding.what in ("alarm", "known")]
    alarms = [
        bisect_left(steps, finding.step) - (finding.what == "known") for finding in alarms_found
    ]
    for number, step in reversed(
        list(enumerate(steps))[1 : min(alarms, default=None)]
    ):  # the first is the baseline
        stored = run.folder.path / look_name(step)
        folder = own_checkpoint(run.folder.output_dir, step)
        if folder is None or not stored.is_file() or run.baseline is None:
            continue
        before, after, _ = cut_to_common(run.baseline, read_snapshot(stored))
        comparison = compare(before=before, after=after)
        sides = Sides(before=before, after=after, probe=guard.probe)
        judged = guard.judged(sides, comparison, look=number, planned=run.state.planned)
        failed = (decide(comparison) if judged is None else judged).answer == "FAIL"
        if not failed and not not_finite(comparison.all):
            yield step, folder
