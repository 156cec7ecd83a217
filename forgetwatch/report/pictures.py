"""Every picture of a comparison or a run, each under a name that says what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.report.heatmap import heatmap_figure
from forgetwatch.report.pareto import matrix_figure, ranking_figure
from forgetwatch.report.plots import bars_figure, drawn, save_figure, trajectory_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


def save_comparisons(
    comparisons: Sequence[Comparison], folder: Path, *, several: ModelComparison | None = None
) -> list[Path]:
    """Draw some comparisons with one base; the files that were written.

    Args:
        comparisons: The base against each model.
        folder: Where; it is made.
        several: What they say together.
    """
    with drawn():
        figures: dict[str, Figure | None] = {}
        if several is not None:
            target = several.target
            against = f"-against-{_safe(target.name)}" if target else ""
            figures[f"retention{against}"] = ranking_figure(several)
            figures["lost-between-models"] = matrix_figure(several)
        for number, comparison in enumerate(comparisons, 1):
            which = f"{number}-" if len(comparisons) > 1 else ""
            figures[f"categories-{which}{_safe(comparison.labels[1])}"] = bars_figure(comparison)
        return _save(figures, folder)


def save_run(trajectory: Trajectory, folder: Path) -> list[Path]:
    """Draw a run; the files that were written.

    Args:
        trajectory: The run.
        folder: Where; it is made.
    """
    if len(trajectory) < 2:
        return []
    with drawn():
        return _save(
            {
                "curves": trajectory_figure(trajectory),
                "items-look-by-look": heatmap_figure(trajectory),
                f"categories-step-{trajectory.steps[-1]}": bars_figure(trajectory.comparisons[-1]),
            },
            folder,
        )


def _save(figures: dict[str, Figure | None], folder: Path) -> list[Path]:
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            for suffix in SUFFIXES:
                paths.append(folder / f"{name}{suffix}")
                save_figure(figure, paths[-1])
    return paths


def _safe(name: str) -> str:
    """A name as part of a file's name: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "model"
