"""Radars of a study, after those of arXiv 2510.17776: the categories of one stage as axes, a line for each pair.

Rates are the chance-adjusted ones of the tables, in percent. The radars of a stage name at most 40
pairs: of more, those with the highest 1->0, and the legend says so. The plotting library is
imported when a figure is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forgetwatch.report.plots import name_in, set_tooltip
from forgetwatch.study.pairs import RATES, Compared, Rate, Study
from forgetwatch.text import count

if TYPE_CHECKING:
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
_LEGEND: Final[dict[str, Any]] = {"frameon": False, "fontsize": 9, "title_fontsize": 9}


def radar_figures(study: Study, stage: str) -> list[Callable[[], Figure]]:
    """Functions that draw the radars of a stage.

    At most 12 pairs each; no radar for fewer than three categories.

    None for fewer than three categories.
    """
    of_stage, names = study.of_stage(stage), study.categories
    if len(names) < _AXES:
        return []
    pairs = _most_forgetting(of_stage)
    parts = -(-len(pairs) // _LINES)
    size = -(-len(pairs) // parts) if parts else 1
    # One scale for all stages, or the eye would compare circles of unlike size.
    radii = {
        rate: [
            value.rate.mean for result in study.compared for value in result.values(rate).values()
        ]
        for rate in RATES
    }
    largest = {rate: max(radii_of_rate, default=0.0) for rate, radii_of_rate in radii.items()}
    note = _left_out(len(pairs), len(of_stage))
    return [
        partial(_radar, pairs[at : at + size], names, largest, note)
        for at in range(0, len(pairs), size)
    ]


def _most_forgetting(pairs: Sequence[Compared]) -> list[Compared]:
    # All of them, or those with the highest 1->0, in the order of the study.
    highest = sorted(range(len(pairs)), key=lambda index: -pairs[index].averages.forgetting)[
        :_NAMED
    ]
    return [pairs[index] for index in sorted(highest)]


def _left_out(named_count: int, pairs: int) -> str | None:
    # None if all pairs are named.
    if named_count == pairs:
        return None
    return f"in the radars: the {named_count} of {count(pairs)} pairs with the highest 1→0; the tables have all"


def _radar(
    pairs: Sequence[Compared], names: Sequence[str], largest: Mapping[Rate, float], note: str | None
) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = -(-len(pairs) // 3)
    figure = Figure(figsize=(10, 4.4 + 0.24 * rows), layout="constrained")
    panels = figure.subplots(1, 2, subplot_kw={"projection": "polar"})
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    for panel, rate in zip(panels, RATES, strict=True):
        for number, result in enumerate(pairs):
            values = result.values(rate)
            radii = [100 * values[name].rate.mean if name in values else math.nan for name in names]
            closed = [*radii, radii[0]]
            style = {
                "color": _COLORS[number % len(_COLORS)],
                "marker": _MARKERS[number % len(_MARKERS)],
                "linestyle": _DASHES[(number // len(_COLORS) + number) % len(_DASHES)],
            }
            label = name_in(34, result.pair.name)
            (line,) = panel.plot(
                [*angles, angles[0]], closed, label=label, linewidth=1.6, markersize=4, **style
            )
            numbers = (
                f"{name or NAMELESS} {100 * values[name].rate.mean:.1f} %"
                for name in names
                if name in values
            )
            set_tooltip(line, f"{result.pair.name}, {rate}: {', '.join(numbers)}")
        panel.set_theta_zero_location("N")
        panel.set_theta_direction(-1)
        panel.set_xticks(angles, [_two_lines(name or NAMELESS) for name in names], fontsize=9)
        for angle, label in zip(angles, panel.get_xticklabels(), strict=True):
            # Beside the circle a label begins or ends at it: a centred one would cross the
            # outermost ring.
            side = math.sin(angle)
            label.set_horizontalalignment(
                "left" if side > 0.2 else "right" if side < -0.2 else "center"
            )
        panel.set_ylim(0, max(100 * largest[rate] * 1.05, 1))
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
    # The circle gets what its names leave.
    line = name_in(28, name)
    return (
        "\n".join(textwrap.wrap(line, 14, max_lines=2, placeholder="…")) if len(line) > 14 else line
    )
