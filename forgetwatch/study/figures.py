"""Figures of a study, after those of arXiv 2510.17776.

    radar_figures      one stage: the categories as axes, a line for each pair
    scale_figure       the total of each pair against its size, data or another number, with the trend over families

Rates are the chance-adjusted ones of the tables, in percent. Points are named beside them; the names of many are next
to the axes, with a thin line to each point. The plotting library is imported when a figure is drawn.

Figures name at most 40 pairs: of more, those with the highest 1->0, and the legend says so. The radars of a stage leave
the others out. Against size or data every pair is a point, or the trend would be that of the worst.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forgetwatch.report import name_in, set_tooltip
from forgetwatch.study.factors import TENFOLD, Trend, number_of, trends
from forgetwatch.study.pairs import RATES, Compared, Rate, Study
from forgetwatch.text import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMELESS: Final = "no category"
"""Name of the items without a category."""

_COLORS: Final = (
    *("#b3261e", "#1f3b73", "#1b6e3c", "#b26a00", "#7b3f9e", "#0f7c8a"),
    *("#8a5a44", "#777777", "#d1577e", "#6b8e23", "#4f6fd8", "#c0a000"),
)
_MARKERS: Final = "osv^DxP*<>hp"
_DASHES: Final = ("-", "--", "-.", ":")
_NAMED: Final = 40
"""Pairs that a figure names."""
_AXES: Final = 3
"""Fewest categories that make a radar."""
_LINES: Final = 12
"""Pairs in one radar; the lines of more could not be told apart."""
_BESIDE: Final = 12
"""Points that are named beside them; the names of more are at the right of the panel."""
_NAME_WIDTH: Final = 0.3
"""Share of a panel's width that the longest names take."""
_LINES_PER_INCH: Final = 5
"""Lines of names in an inch of a panel with its labels."""
_LEGEND: Final[dict[str, Any]] = {"frameon": False, "fontsize": 9, "title_fontsize": 9}
_LABELS: Final = {"size": "parameters", "data": "data"}


def radar_figures(study: Study, stage: str) -> list[Callable[[], Figure]]:
    """Return the functions that draw the radars of one stage, of at most 12 pairs each.

    None for fewer than three categories.
    """
    of_stage, names = study.of_stage(stage), study.categories
    if len(names) < _AXES:
        return []
    pairs = _most_forgetting(of_stage)
    parts = -(-len(pairs) // _LINES)
    size = -(-len(pairs) // parts) if parts else 1
    # One scale for all stages, or the eye would compare circles of unlike size.
    radii = {rate: [value.rate.mean for one in study.compared for value in one.values(rate).values()] for rate in RATES}
    most = {rate: max(found, default=0.0) for rate, found in radii.items()}
    note = _left_out(len(pairs), len(of_stage), what="in the radars")
    return [partial(_radar, pairs[at : at + size], names, most, note) for at in range(0, len(pairs), size)]


def _most_forgetting(pairs: Sequence[Compared]) -> list[Compared]:
    """Return the pairs that a figure names: all of them, or those with the highest 1->0, in the order of the study."""
    highest = sorted(range(len(pairs)), key=lambda index: -pairs[index].averages.forgetting)[:_NAMED]
    return [pairs[index] for index in sorted(highest)]


def _left_out(named: int, pairs: int, *, what: str = "shown") -> str | None:
    """Return the title of the legend of a figure that does not name all pairs; None if it names all."""
    if named == pairs:
        return None
    return f"{what}: the {named} of {count(pairs)} pairs with the highest 1→0; the tables have all"


def _radar(pairs: Sequence[Compared], names: Sequence[str], most: Mapping[Rate, float], note: str | None) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = -(-len(pairs) // 3)
    figure = Figure(figsize=(10, 4.4 + 0.24 * rows), layout="constrained")
    panels = figure.subplots(1, 2, subplot_kw={"projection": "polar"})
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    for panel, rate in zip(panels, RATES, strict=True):
        for number, one in enumerate(pairs):
            found = one.values(rate)
            radii = [100 * found[name].rate.mean if name in found else math.nan for name in names]
            closed = [*radii, radii[0]]
            style = {
                "color": _COLORS[number % len(_COLORS)],
                "marker": _MARKERS[number % len(_MARKERS)],
                "linestyle": _DASHES[(number // len(_COLORS) + number) % len(_DASHES)],
            }
            label = name_in(34, one.pair.name)
            (line,) = panel.plot([*angles, angles[0]], closed, label=label, linewidth=1.6, markersize=4, **style)
            numbers = (f"{name or NAMELESS} {100 * found[name].rate.mean:.1f} %" for name in names if name in found)
            set_tooltip(line, f"{one.pair.name}, {rate}: {', '.join(numbers)}")
        panel.set_theta_zero_location("N")
        panel.set_theta_direction(-1)
        panel.set_xticks(angles, [_two_lines(name or NAMELESS) for name in names], fontsize=9)
        for angle, label in zip(angles, panel.get_xticklabels(), strict=True):
            # Beside the circle a label begins or ends at it: a centred one would cross the outermost ring.
            side = math.sin(angle)
            label.set_horizontalalignment("left" if side > 0.2 else "right" if side < -0.2 else "center")
        panel.set_ylim(0, max(100 * most[rate] * 1.05, 1))
        panel.yaxis.set_major_locator(MaxNLocator(4))
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        panel.set_rlabel_position(180 / len(names))
        panel.tick_params(axis="y", labelsize=8)
        panel.grid(alpha=0.4)
        panel.set_title(f"{rate}, chance-adjusted", fontsize=11, pad=14)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title=note, **_LEGEND)
    return figure


def _two_lines(name: str) -> str:
    """Return the name of an axis, on two lines if it is long: the circle gets what its names leave."""
    line = name_in(28, name)
    return "\n".join(textwrap.wrap(line, 14, max_lines=2, placeholder="…")) if len(line) > 14 else line


def scales(study: Study) -> dict[str, Trend]:
    """Return the trends of forgetting with what is a number of each pair, such as its size, by its name."""
    return {one.covariate: one for one in trends(study) if one.rate == RATES[0] and one.unit}


def scale_figure(study: Study, by: str) -> Figure:
    """Return the figure of the total of each pair against a number: its size, its data, or a covariate."""
    from matplotlib.figure import Figure

    pairs = [one for one in study.compared if number_of(one.pair, by) is not None]
    named = {one.pair.name for one in _most_forgetting(pairs)}
    figure = Figure(figsize=(10, 2 * max(2.6, 0.9 + 0.19 * len(named))), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    for panel, rate in zip(panels, RATES, strict=True):
        _draw_scale(panel, study, pairs, by, rate, named)
    note = _left_out(len(named), len(pairs), what="named")
    panels[1].set_xlabel(_LABELS.get(by, by), fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=note, **_LEGEND)
    return figure


def _draw_scale(
    panel: Axes, study: Study, pairs: Sequence[Compared], by: str, rate: Rate, named: Collection[str]
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    spots = []
    for number, stage in enumerate(study.plan.stages):
        own = [one for one in pairs if one.pair.stage == stage]
        totals = [one.total(rate) for one in own]
        xs, ys = [float(number_of(one.pair, by) or 0.0) for one in own], [100 * found.rate.mean for found in totals]
        means = [100 * found.rate.mean for found in totals]
        color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
        bars = [0.0 if math.isnan(found.rate.sd) else 100 * found.rate.sd for found in totals]
        if own:
            # Around the mean itself: one below 0 is shown as 0, and its bar would rise above what was measured.
            panel.errorbar(xs, means, yerr=bars, fmt="none", ecolor=color, capsize=2)
            for one, x, y in zip(own, xs, ys, strict=True):
                label = name_in(60, stage) if one is own[0] else None
                (point,) = panel.plot([x], [y], linestyle="", color=color, marker=marker, markersize=6, label=label)
                set_tooltip(point, f"{one.pair.name}: {rate} {y:.1f} %, {_LABELS.get(by, by)} {short_number(x)}")
        names = [one.pair.name for one in own]
        spots += [(x, y, name) for x, y, name in zip(xs, ys, names, strict=True) if name in named and math.isfinite(y)]
    panel.margins(x=0.08, y=0.12)
    panel.set_ylim(bottom=0)
    if scales(study)[by].unit == TENFOLD:
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    panel.tick_params(labelsize=9, labelbottom=True)
    panel.set_ylabel(f"{rate}, %", fontsize=10)
    panel.grid(alpha=0.25)
    _name_points(panel, spots)


def _name_points(panel: Axes, spots: Sequence[tuple[float, float, str]]) -> None:
    """Write the names of points: beside them, or where they are many at the right with a thin line to each."""
    from matplotlib.patches import ConnectionPatch

    ordered = sorted(spots, key=lambda spot: -spot[1])
    to_axes = panel.transData + panel.transAxes.inverted()
    points = [tuple(map(float, to_axes.transform((x, y)))) for x, y, _ in ordered]
    beside = len(points) <= _BESIDE
    near = _NAME_WIDTH if beside else math.inf
    lines = panel.get_figure().get_size_inches()[1] / 2 * _LINES_PER_INCH  # type: ignore[union-attr]
    for (x, y, name), (right, at), place in zip(ordered, points, _apart(points, near=near, gap=1 / lines), strict=True):
        side = -1 if beside and right > 1 - _NAME_WIDTH else 1  # within the panel
        end = right + side * 0.012 if beside else 1.035
        if not beside or abs(place - at) > 0.01:
            leader = ConnectionPatch((x, y), (end, place), "data", "axes fraction", axesA=panel, axesB=panel)
            leader.set(color="#777777", linewidth=0.5, alpha=0.5)
            panel.add_artist(leader)
        where: dict[str, Any] = {"transform": panel.transAxes, "va": "center", "ha": "left" if side > 0 else "right"}
        panel.text(end + side * 0.005, place, name_in(34, name), fontsize=8, **where)


def _apart(points: Sequence[Sequence[float]], *, near: float, gap: float) -> list[float]:
    """Return the heights of the names of points, each at its point or moved so that names do not cover each other.

    Points are in shares of the panel, highest first. Two names touch within `near` to the right; a line is `gap` high.
    """
    places: list[float] = []
    for right, at in points:
        taken = sorted((y for (x, _), y in zip(points, places, strict=False) if abs(x - right) < near), reverse=True)
        for y in taken:
            at = min(at, y - gap)
        places.append(at)
    # Names that were pushed below the panel rise again, and those above them with them.
    floor = 0.0
    for index in reversed(range(len(places))):
        places[index] = max(places[index], floor)
        floor = places[index] + gap if math.isinf(near) else 0.0
    return places


def short_number(value: float) -> str:
    """Return the text of a large number, such as ``8B`` or ``114K``.

    >>> short_number(8e9), short_number(114_000), short_number(817), short_number(5.5e12)
    ('8B', '114K', '817', '5.5T')
    """
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"
