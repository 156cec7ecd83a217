"""Which checkpoint of a run to keep, by the same rule in table, page and advice.

    the last look           where it is KEPT and saved
    else the knee           of the saved looks that are not FORGOT: the largest sum of `comparing.kept_share` and the
                            trainer's figure of the new task, each from 0 to 1 over the looks after
                            the start
    without a figure        the last of them that is KEPT, else the one that kept most

The knee of all looks is named too, where it was not saved. What a look shows is partly so by
chance, the more so the more looks there are; `benchmarks/optimism.py` measures how much.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Decision, decide
from forgetwatch.comparing.kept_share import kept, kept_of
from forgetwatch.comparing.trajectory import Trajectory, this_stage
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.run_folder.description import own_checkpoint


@dataclass(frozen=True, kw_only=True)
class RunLook:
    """A look after the start of a run.

    Attributes:
        step: Its optimizer step.
        comparison: The start against it.
        kept: Share that it keeps of what the start knew; nan if nothing was right.
        figure: The trainer's figure of the new task; None if it logged none by then.
        decision: The decision on it.
        checkpoint: Folder of its checkpoint; None if none was saved, or it is not there.
    """

    step: int
    comparison: Comparison
    kept: float
    figure: float | None
    decision: Decision
    checkpoint: Path | None


def look_to_keep(
    trajectory: Trajectory, output_dir: Path, tolerance: Tolerance = TOLERANCE
) -> tuple[RunLook | None, RunLook | None]:
    """Choose the saved look to keep.

    Of a run, or of a later stage since its start.

    Args:
        trajectory: The run.
        output_dir: Folder of its checkpoints.
        tolerance: Losses that the verdict tolerates.

    Returns:
        The look, and a better one that was not saved; None where there is none.
    """
    stage, task = this_stage(trajectory), trajectory.task
    of = kept_of([stage.comparisons[0].all])
    looks = [
        RunLook(
            step=step,
            comparison=comparison,
            kept=kept(comparison.all, of).share,
            figure=None if task is None else task.at(step),
            decision=decide(comparison, tolerance),
            checkpoint=own_checkpoint(output_dir, step),
        )
        for step, comparison in zip(stage.steps[1:], stage.comparisons[1:], strict=True)
    ]
    saved = [look for look in looks if look.checkpoint is not None]
    last_saved = next(
        (look for look in saved if look.step == stage.final_step and look.decision.word == "KEPT"),
        None,
    )
    if last_saved is not None:
        return last_saved, None
    sums = _sums(looks, -1 if task is not None and task.falls else 1)
    best, better = _best(saved, sums), _best(looks, sums)
    return best, None if better is None or better.checkpoint is not None else better


def _sums(looks: Sequence[RunLook], sign: int) -> dict[int, float]:
    # Keys are steps, sums lie from 0 to 2; empty if all figures are the same.
    with_figure = [look for look in looks if look.figure is not None and not math.isnan(look.kept)]
    learned = [sign * look.figure for look in with_figure if look.figure is not None]
    if len(set(learned)) < 2:
        return {}
    pairs = zip(
        with_figure,
        _from_0_to_1(learned),
        _from_0_to_1([look.kept for look in with_figure]),
        strict=True,
    )
    return {look.step: x + y for look, x, y in pairs}


def _best(looks: Sequence[RunLook], sums: Mapping[int, float]) -> RunLook | None:
    # Without sums the last that is KEPT, else the one that kept most.
    allowed = [look for look in looks if look.decision.word != "FORGOT"]
    if with_sum := [look for look in allowed if look.step in sums]:
        return max(with_sum, key=lambda look: sums[look.step])
    kept_looks = [look for look in allowed if look.decision.word == "KEPT"]
    return kept_looks[-1] if kept_looks else max(allowed, key=lambda look: look.kept, default=None)


def _from_0_to_1(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]
