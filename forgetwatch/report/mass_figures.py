"""Figures of mass and conditional: of a comparison by category, and of a run over steps. See `metrics.mass`.

    mass_figure          change of each part, of all items and of the forgotten ones, with 95 % intervals
    mass_curves_figure   the same over the steps of a run, of all its items

The plotting library is imported when a figure is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from forgetwatch.comparing import Comparison, Group, Trajectory
from forgetwatch.measures import MASS as MEASURE
from forgetwatch.pairing import count
from forgetwatch.report.plots import LOST, ROWS, label_steps, name_in, or_nan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MASS: Final = (
    "Points with intervals: change of the log probability of all options together, and of the right option's share of "
    "it, of each category, over all questions and over the forgotten ones; the table has the numbers."
)
"""Label of the figure of a comparison."""
CURVES: Final = (
    "Curves: change of the log probability of all options together and of the right option's share of it at each look, "
    "over all questions and over the forgotten ones; the table of looks has the numbers."
)
"""Label of the figure of a run."""

_PARTS: Final = {
    "log_mass_change": "mass: all options together, nats",
    "log_conditional_change": "the right one within the options, nats",
}
_ALL: Final[dict[str, Any]] = {"color": "#1f3b73", "marker": "o", "label": "all questions"}
_FORGOTTEN: Final[dict[str, Any]] = {"color": LOST["color"], "marker": "v", "label": "forgotten ones"}
_SERIES: Final = (("", _ALL, -0.13), ("forgotten_", _FORGOTTEN, 0.13))
"""Beginning of the quantities' names, style, and distance from the middle of a row, of each series of points."""


def mass_figure(comparison: Comparison) -> Figure | None:
    """Figure of the whole and of the categories that forgot most; None if nothing was forgotten or has mass."""
    from matplotlib.figure import Figure

    whole = comparison.all
    if whole.forgotten_log_mass_change is None:
        return None
    measured = [group for group in comparison.by("category").values() if group[MEASURE] is not None]
    groups = [whole]
    if len(measured) > 1:
        groups += sorted(measured, key=lambda group: -group.forgotten)[:ROWS]
    figure = Figure(figsize=(10, 1.5 + 0.42 * len(groups)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (name, title) in zip(panels, _PARTS.items(), strict=True):
        for prefix, style, aside in _SERIES:
            _draw_points(panel, [row + aside for row in range(len(groups))], groups, f"{prefix}{name}", style)
        panel.axvline(0, color="#000000", linewidth=0.8)
        panel.set_title(f"change of the {title}" if title.startswith("mass") else f"change of {title}", fontsize=10)
        panel.grid(axis="x", alpha=0.25)
        panel.tick_params(labelsize=9)
    labels = [f"{name_in(26, group.name)}  ({count(group.forgotten)} of {count(group.n)})" for group in groups]
    panels[0].set_yticks(range(len(groups)), labels)
    panels[0].set_ylim(len(groups) - 0.4, -0.6)  # the whole at the top
    figure.legend(
        *panels[0].get_legend_handles_labels(), frameon=False, fontsize=9, loc="outside lower center", ncols=2
    )
    return figure


def mass_curves_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of both parts over steps, of all items and of those forgotten at each look; None without mass."""
    from matplotlib.figure import Figure

    steps = trajectory.steps
    whole = [comparison.all for comparison in trajectory.comparisons]
    if all(group[MEASURE] is None for group in whole[1:]):
        return None
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for panel, (name, title) in zip(figure.subplots(1, 2), _PARTS.items(), strict=True):
        for prefix, style, _ in _SERIES:
            values = [or_nan(getattr(group, f"{prefix}{name}")) for group in whole]
            ends = [getattr(group, f"{prefix}{name}_interval") or (math.nan, math.nan) for group in whole]
            panel.fill_between(steps, *zip(*ends, strict=True), color=style["color"], alpha=0.15, linewidth=0)
            every = max(1, len(steps) // 20)  # more markers would hide the curve
            panel.plot(steps, values, **style, markersize=4, linewidth=1.6, markevery=every)
        panel.axhline(0, color="#000000", linewidth=0.8)
        panel.grid(alpha=0.25)
        panel.set_title(title, fontsize=11)
        label_steps(panel)
        panel.legend(frameon=False, fontsize=9)
        for step in trajectory.stages:
            panel.axvline(step, color="#777777", linewidth=1, linestyle="-.")
    return figure


def _draw_points(
    panel: Axes, places: Sequence[float], groups: Sequence[Group], name: str, style: dict[str, Any]
) -> None:
    """Draw a quantity of each group as a point with its interval; a group without it has none."""
    for place, group in zip(places, groups, strict=True):
        interval = getattr(group, f"{name}_interval")
        if interval is not None:
            panel.plot(interval, [place, place], color=style["color"], linewidth=1.6, solid_capstyle="butt")
    values = [or_nan(getattr(group, name)) for group in groups]
    panel.plot(values, places, **style, linestyle="", markersize=5)
