"""Picture files of a comparison or a run, each named for its content, as PNG and SVG."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forgetwatch.comparing import Comparison, ModelComparison, Trajectory
from forgetwatch.report.heatmap import heatmap_figure
from forgetwatch.report.mass_figures import mass_curves_figure, mass_figure
from forgetwatch.report.pareto import matrix_figure, ranking_figure
from forgetwatch.report.plots import bars_figure, drawn, drift_figure, passages_figure, save_figure, trajectory_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


def save_comparisons(
    comparisons: Sequence[Comparison], folder: Path, *, several: ModelComparison | None = None
) -> list[Path]:
    """Draw comparisons with one base, and return the files written.

    Args:
        comparisons: Comparisons of the base with each model.
        folder: Folder to write to; it is made.
        several: Ranking and matrix, if there are several.
    """
    with drawn():
        figures: dict[str, Figure | None] = {}
        if several is not None:
            target = several.target
            against = f"-against-{file_name(target.name)}" if target else ""
            figures[f"retention{against}"] = ranking_figure(several)
            figures["lost-between-models"] = matrix_figure(several)
        for number, comparison in enumerate(comparisons, 1):
            which = f"{number}-" if len(comparisons) > 1 else ""
            figures[f"categories-{which}{file_name(comparison.labels[1])}"] = bars_figure(comparison)
            figures[f"mass-{which}{file_name(comparison.labels[1])}"] = mass_figure(comparison)
        return save_figures(figures, folder)


def save_run(trajectory: Trajectory, folder: Path) -> list[Path]:
    """Draw a run, and return the files written; none for a baseline alone.

    Args:
        trajectory: The run.
        folder: Folder to write to; it is made.
    """
    if len(trajectory) < 2:
        return []
    with drawn():
        return save_figures(
            {
                "curves": trajectory_figure(trajectory) if trajectory.comparisons[-1].all.n else None,
                "mass": mass_curves_figure(trajectory),
                "passages": passages_figure(trajectory),
                "drift": drift_figure(trajectory),
                "items-look-by-look": heatmap_figure(trajectory),
                f"categories-step-{trajectory.steps[-1]}": bars_figure(trajectory.comparisons[-1]),
            },
            folder,
        )


def save_figures(figures: Mapping[str, Figure | None], folder: Path) -> list[Path]:
    """Write each figure as PNG and SVG under its name, and return the files; None is left out."""
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            for suffix in SUFFIXES:
                paths.append(folder / f"{name}{suffix}")
                save_figure(figure, paths[-1])
    return paths


def file_name(name: str) -> str:
    """Part of a file name for a name: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "model"
