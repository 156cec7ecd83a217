"""The numbers of one look as a row of trackers and of a trainer's evaluation."""

import math
from collections.abc import Mapping

from forgetwatch.errors import WatchError
from forgetwatch.measures.base_drift import drift_row
from forgetwatch.report.tracker_rows import PREFIX, tracker_name, tracker_row
from forgetwatch.run.run import STAGE, Run
from forgetwatch.run_folder.task_figure import TaskFigure


def figure_key(task: TaskFigure) -> str:
    """Key of the figure of the new task, such as ``eval_forget/new_task_loss``."""
    return f"{PREFIX}/new_task_{tracker_name(task.name.removeprefix('eval_'))}"


def look_row(run: Run, *, step: int, full: bool, chosen_by: str | None = None) -> dict[str, float]:
    """Numbers of the look at a step by tracker key.

    Empty if there is no look.

    Args:
        run: The run.
        step: Step of the look.
        full: True for the numbers of every group, and the drift.
        chosen_by: Key by which the best checkpoint is chosen; the row has it in any case.
    """
    if step not in run.comparisons:
        return {}
    always, seconds = chosen_by or "", run.looks.seconds.get(step, 0.0)
    trajectory = run.trajectory() if full or always else None
    row = tracker_row(
        run.looks.headline[step],
        seconds=seconds,
        of=run.kept_of,
        full=full,
        trajectory=trajectory,
        also=always,
    )
    drift = {
        f"{PREFIX}/all/{name}": value
        for name, value in drift_row(run.comparisons[step].drift or {}).items()
    }
    row |= {
        key: value
        for key, value in drift.items()
        if math.isfinite(value) and (full or key == always)
    }
    if run.state.task is not None and (figure := run.state.task.at(step)) is not None:
        row[figure_key(run.state.task)] = figure
    if run.looks.firsts:
        # Only the first: the prefix may occur in the name of a category too.
        prefix = f"{PREFIX}_{STAGE}/"
        stage_row = tracker_row(
            run.comparisons[step],
            seconds=None,
            full=full,
            also=always.replace(prefix, f"{PREFIX}/", 1),
        )
        row |= {key.replace(f"{PREFIX}/", prefix, 1): value for key, value in stage_row.items()}
    return row


def composite_row(share: float, metrics: Mapping[str, float], name: str | None) -> dict[str, float]:
    """Row with the harmonic mean of kept share and evaluation metric.

    The kept share alone is highest for a model that has not learned anything.

    Args:
        share: The kept share, nan for none; values beyond 0 to 1 count as its end.
        metrics: The evaluation.
        name: Name of the metric, from 0 to 1 and higher for better; None for no composite.

    Returns:
        The row; empty without a share or a name.
    """
    if name is None or math.isnan(share):
        return {}
    share = min(max(share, 0.0), 1.0)
    task = metrics.get(f"eval_{name.removeprefix('eval_')}")
    if not isinstance(task, (int, float)) or not 0 <= task <= 1:
        metric_names = ", ".join(
            sorted(key.removeprefix("eval_") for key, value in metrics.items() if 0 <= value <= 1)
        )
        raise WatchError(
            f"composite={name!r} is {'not in the evaluation' if task is None else task}; needed "
            f"a metric from 0 to 1, such as {metric_names or 'none of these'}"
        )
    return {
        f"{PREFIX}/all/composite": 2 * task * share / (task + share) if task + share > 0 else 0.0
    }
