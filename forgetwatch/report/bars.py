"""Categories as bars: what each lost and gained, and both together with its interval.

Shapes and signs tell the bars apart as well as colours do. The plotting library is imported when a picture is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from forgetwatch.compare import Comparison
from forgetwatch.groups import Level
from forgetwatch.report.numbers import count
from forgetwatch.report.plots import LOST, WON, name_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS: Final = 25
"""Groups that are drawn, those that lost most first."""


def bars_figure(comparison: Comparison, *, by: Level = "category") -> Figure | None:
    """The groups of one level as bars, worst first; None where there are fewer than two.

    Left the shares of forgotten and gained items, right the net change with its 95 % interval, in points.
    """
    from matplotlib.figure import Figure

    groups = sorted(
        (group for group in comparison.by(by).values() if group.n and not math.isnan(group.net_change)),
        key=lambda group: group.net_change,
    )[:ROWS]
    if len(groups) < 2:
        return None
    figure = Figure(figsize=(10, 1.3 + 0.34 * len(groups)), layout="constrained")
    flips, net = figure.subplots(1, 2, sharey=True)
    rows = range(len(groups))
    flips.barh(
        rows,
        [-100 * group.forgetting for group in groups],
        color=LOST["color"],
        height=0.62,
        hatch="//",
        fill=False,
        edgecolor=LOST["color"],
    )
    flips.barh(rows, [100 * group.backward_transfer for group in groups], color=WON["color"], height=0.62)
    flips.axvline(0, color="#000000", linewidth=0.8)
    flips.set_title("forgotten (left) and gained (right), %", fontsize=10)
    flips.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    for row, group in enumerate(groups):
        low, high = (100 * end for end in group.net_change_interval)
        color = LOST["color"] if high < 0 else WON["color"] if low > 0 else "#777777"
        net.plot([low, high], [row, row], color=color, linewidth=1.8, solid_capstyle="butt")
        net.plot([100 * group.net_change], [row], color=color, marker="o" if low <= 0 <= high else "D", markersize=5)
    net.axvline(0, color="#000000", linewidth=0.8)
    net.set_title("net change, points (diamond: beyond 0)", fontsize=10)
    for panel in (flips, net):
        panel.grid(axis="x", alpha=0.25)
        panel.tick_params(labelsize=9)
    flips.set_yticks(list(rows), [f"{name_in(26, group.name)}  ({count(group.n)})" for group in groups])
    flips.set_ylim(len(groups) - 0.4, -0.6)  # the worst above
    return figure
