"""Figures of several models against one base: the ranking, with or without a target, and the matrix.

Names are next to the axes, at even distances in the order of the ranking, with a thin line to each point, so that they
never overlap however close the points are. The plotting library is imported when a figure is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from forgetwatch.comparing import ModelComparison, RankedModel
from forgetwatch.pairing import count
from forgetwatch.report.plots import name_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRONT: Final = "#1f3b73"
_BEATEN: Final = "#777777"
_NAME: Final = 40


def ranking_figure(several: ModelComparison) -> Figure | None:
    """Figure of each model's retention, against the target if there is one; None if no retention is defined."""
    from matplotlib.figure import Figure

    ranking = [one for one in several.ranking if not math.isnan(one.retention)]
    if not ranking:
        return None
    height = 1.3 + 0.34 * len(ranking)
    figure = Figure(figsize=(10, height if several.target is None else max(3.6, height)), layout="constrained")
    panel = figure.subplots()
    if several.target is None:
        _draw_alone(panel, ranking)
    else:
        _draw_against(panel, ranking, several.target.name, less_is_better=several.target.less_is_better)
    base = name_in(_NAME, several.matrix.labels[0])
    figure.suptitle(f"Kept of what {base} had right, with 95 % intervals", fontsize=11)
    panel.grid(alpha=0.25)
    panel.tick_params(labelsize=9)
    return figure


def _draw_alone(panel: Axes, ranking: list[RankedModel]) -> None:
    for row, one in enumerate(ranking):
        panel.plot([100 * end for end in one.retention_interval], [row, row], color=_FRONT, linewidth=1.8)
        panel.plot([100 * one.retention], [row], color=_FRONT, marker="o", markersize=5)
    panel.set_yticks(range(len(ranking)), [_named(one) for one in ranking])
    panel.set_xlabel("kept, %", fontsize=10)
    panel.invert_yaxis()  # the first of the ranking at the top


def _draw_against(panel: Axes, ranking: list[RankedModel], target: str, *, less_is_better: bool) -> None:
    """Draw points with intervals, the front as a line of diamonds, and the names at the right."""
    from matplotlib.patches import ConnectionPatch

    # With a target every model has a value of it.
    spots = [(one.target or 0.0, 100 * one.retention) for one in ranking]
    for one, (x, y) in zip(ranking, spots, strict=True):
        color, marker = (_FRONT, "D") if one.on_front else (_BEATEN, "o")
        panel.plot([x, x], [100 * end for end in one.retention_interval], color=color, linewidth=1.0, alpha=0.5)
        panel.plot([x], [y], color=color, marker=marker, markersize=6, zorder=3)
    front = sorted({spot for one, spot in zip(ranking, spots, strict=True) if one.on_front})
    panel.plot([x for x, _ in front], [y for _, y in front], color=_FRONT, linestyle="--", linewidth=1.2, zorder=2)
    if less_is_better:
        panel.invert_xaxis()
    panel.margins(x=0.06, y=0.06)
    for place, (one, spot) in enumerate(zip(ranking, spots, strict=True)):
        at = 1 - (place + 0.5) / len(ranking)
        # From the point, in units of the data, to the name, in units of the axes.
        leader = ConnectionPatch(spot, (1.035, at), "data", "axes fraction", axesA=panel, axesB=panel)
        leader.set(color=_BEATEN, linewidth=0.5, alpha=0.6)
        panel.add_artist(leader)
        weight = "bold" if one.on_front else "normal"
        panel.text(1.04, at, _named(one), transform=panel.transAxes, va="center", fontsize=9, fontweight=weight)
    better = "less is better, to the right" if less_is_better else "more is better"
    panel.set_xlabel(f"{name_in(_NAME, target)} ({better}); diamonds: the front", fontsize=10)
    panel.set_ylabel("kept, %", fontsize=10)


def matrix_figure(several: ModelComparison) -> Figure:
    """Figure of the matrix as a heatmap with its numbers; the base is number 0."""
    from matplotlib.figure import Figure

    matrix = several.matrix
    lost = matrix.lost
    models, most = len(lost), max(max(row) for row in lost)
    texts = [[count(number) for number in row] for row in lost]
    cell = 0.2 + 0.08 * max(len(text) for row in texts for text in row)
    figure = Figure(figsize=(4.4 + cell * models, 1.6 + 0.32 * models), layout="constrained")
    panel = figure.subplots()
    panel.imshow(lost, aspect="auto", cmap="Reds", vmin=0, vmax=max(most, 1))
    for row in range(models):
        for column in range(models):
            shown = "–" if row == column else texts[row][column]
            # White on dark cells, where black could not be read.
            color = "#ffffff" if lost[row][column] > 0.6 * max(most, 1) else "#000000"
            panel.text(column, row, shown, ha="center", va="center", fontsize=8, color=color)
    panel.set_xticks(range(models), [str(number) for number in range(models)])
    panel.set_yticks(range(models), [f"{at}  {name_in(_NAME, name)}" for at, name in enumerate(matrix.labels)])
    panel.tick_params(labelsize=9, length=0)
    panel.xaxis.tick_top()
    figure.suptitle(f"right in the row, wrong in the column, of {count(matrix.items)} items", fontsize=10)
    return figure


def _named(one: RankedModel) -> str:
    return f"{one.number}  {name_in(_NAME, one.label)}"
