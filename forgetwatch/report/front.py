"""Which look of a run to keep: what is kept of the known, against the trainer's own figure of the new task.

    kept       share of what was clearly known that is not lost, less luck; or of the right answers that are still right
    figure     loss or reward that the trainer logged, at the look or before it
    front      looks of which no other has both more kept and a better figure

A look is worth keeping if its verdict is not FORGOT, and the loss from it to the last look is more than chance:
one-sided, at 5 % over all looks, because it is chosen among them. Of several the knee is taken: the one with the
largest sum of both, each from 0 to 1 over the run; without a figure, the one of the highest estimated accuracy. What a
look shows is partly so by chance, the more so the more looks there are; `benchmarks/optimism.py` measures how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from forgetwatch.comparing import Comparison, Trajectory, decide, estimated
from forgetwatch.measures import KNOWN
from forgetwatch.metrics import sign_flip
from forgetwatch.pairing import count, item_codes
from forgetwatch.run_folder import checkpoint_folder, own_checkpoint

_DOUBT: Final = 0.05
"""Largest p-value of a loss from a look to the last one, over all looks."""


@dataclass(frozen=True, kw_only=True)
class FrontLook:
    """A look after the start.

    Attributes:
        step: Its optimizer step.
        comparison: The start against it.
        kept: Share of the known that is kept, 0 to 1.
        figure: The trainer's figure; None if it logged none by then.
        on_front: True if no other look has both more kept and a better figure; False without a figure.
        is_forgot: True if its verdict is FORGOT.
        is_better: True if it is not FORGOT, and the loss from it to the last look is more than chance.
    """

    step: int
    comparison: Comparison
    kept: float
    figure: float | None
    on_front: bool
    is_forgot: bool
    is_better: bool


def front_looks(trajectory: Trajectory) -> tuple[FrontLook, ...]:
    """Return the looks of a run after its start, or of a later stage since its start, in order."""
    own, task = trajectory.own, trajectory.task
    steps, comparisons = own.steps[1:], own.comparisons[1:]
    kept = [_kept(one) for one in comparisons]
    figures = [None if task is None else task.at(step) for step in steps]
    good = [np.nan if one is None else -one if task is not None and task.falls else one for one in figures]
    pairs = list(zip(kept, good, strict=True))
    forgot = [decide(one).word == "FORGOT" for one in comparisons]
    return tuple(
        FrontLook(
            step=step,
            comparison=comparison,
            kept=share,
            figure=figure,
            on_front=figure is not None and not any(x >= share and y >= z and (x, y) != (share, z) for x, y in pairs),
            is_forgot=is_forgot,
            is_better=step != steps[-1] and not is_forgot and _loss_after(own, step) * len(steps) <= _DOUBT,
        )
        for step, comparison, share, figure, z, is_forgot in zip(
            steps, comparisons, kept, figures, good, forgot, strict=True
        )
    )


def best_by_both(trajectory: Trajectory) -> FrontLook | None:
    """Return the look with the best figure of the new task among those that are not FORGOT; None without one."""
    task = trajectory.task
    looks = [one for one in front_looks(trajectory) if one.figure is not None and not one.is_forgot]
    if task is None or not looks:
        return None
    return min(looks, key=lambda one: (one.figure or 0.0) if task.falls else -(one.figure or 0.0))


def task_text(trajectory: Trajectory) -> str:
    """Return what the new task gained, and the look that is best by both; empty without a figure."""
    if trajectory.task is None:
        return ""
    best = best_by_both(trajectory)
    if best is None or best.figure is None:
        none = all(one.is_forgot for one in front_looks(trajectory))
        return str(trajectory.task) + ("; best by both: none, every look is FORGOT" if none else "")
    lost = f"{count(best.comparison.all.forgotten)} forgotten"
    return f"{trajectory.task}; best by both: step {best.step:,} ({best.figure:.3g}, not FORGOT, {lost})"


def worth_keeping(trajectory: Trajectory) -> list[FrontLook]:
    """Return the looks that are better than the last one beyond chance, the knee first."""
    looks = front_looks(trajectory)
    better = [one for one in looks if one.is_better]
    better.sort(key=lambda one: -estimated(one.comparison.all)[0])
    figures = {one.step: one.figure for one in looks if one.figure is not None}
    if trajectory.task is None or len(set(figures.values())) < 2:
        return better
    sign = -1 if trajectory.task.falls else 1
    learned = _from_0_to_1([sign * value for value in figures.values()])
    kept = _from_0_to_1([one.kept for one in looks if one.step in figures])
    both = {step: x + y for step, x, y in zip(figures, learned, kept, strict=True)}
    # Where no figure was logged yet, little may have been learned: such a look comes last.
    return sorted(better, key=lambda one: -both.get(one.step, -1.0))


def saved_look(trajectory: Trajectory, output_dir: Path) -> tuple[FrontLook, Path] | None:
    """Return the look to keep and the folder of the checkpoint that is nearest to it; None if there is none.

    The nearest checkpoint is nearer to the look than half-way to the looks beside it.
    """
    numbers = [folder.name.rpartition("-")[2] for folder in output_dir.glob("checkpoint-*") if folder.is_dir()]
    saved = [int(number) for number in numbers if number.isdecimal() and own_checkpoint(output_dir, int(number))]
    steps = trajectory.own.steps
    for look in worth_keeping(trajectory):
        near = min(saved, key=lambda one: abs(one - look.step), default=None)
        if near is not None and all(abs(near - look.step) < abs(near - step) for step in steps if step != look.step):
            return look, checkpoint_folder(output_dir, near)
    return None


def best_look(trajectory: Trajectory) -> tuple[int | None, float]:
    """Return the step of the look of the highest accuracy, and its estimated net change.

    None for the start, which is 0. In a later stage the change is that since the start of the stage.

    Of equal looks it is the first. The best of many looks is partly so by chance.
    """
    own = trajectory.own
    changes = [estimated(one.all)[0] for one in own.comparisons]
    steps = list(zip(own.steps[1:], changes[1:], strict=True))
    step, change = max(steps, key=lambda one: one[1], default=(0, 0.0))
    return (step, change) if change > 0 else (None, 0.0)


def _from_0_to_1(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def _kept(comparison: Comparison) -> float:
    whole = comparison.all
    known = whole[KNOWN]
    if known is not None and known.lost_net_share is not None:
        return min(max(1 - known.lost_net_share, 0.0), 1.0)
    right = whole.retained + whole.forgotten
    return float(whole.retained / right) if right else 1.0


def _loss_after(own: Trajectory, step: int) -> float:
    """Return the one-sided p-value of the loss of right answers from the look at a step to the last look."""
    change = own.right[-1] - own.right[own.steps.index(step)]
    scored, start = np.isfinite(change), own.baseline
    names = zip(start.texts("cluster").tolist(), item_codes(start).tolist(), strict=True)
    _, cluster = np.unique([str(name or f"item {item}") for name, item in names], return_inverse=True)
    return float(sign_flip(change[scored].astype(np.int64), cluster[scored]).loss_p_value)
