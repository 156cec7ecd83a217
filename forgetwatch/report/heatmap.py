"""Heatmap of the items of a run that changed: a row for each item, a column for each look.

    right at the start     pale while right, dark red while forgotten        first forgotten first
    wrong at the start     pale while wrong, green while gained              first gained first

Rows are sorted by the look at which the item first changed. Items that never changed are left out
and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP_ROWS: Final = 2000
"""Maximum number of rows that are drawn; of more, a sample at even distances."""


_LOST: Final = "#d0453c"


_WON: Final = "#2f9457"
"""Colours of cells, which are pixels and so the same on a light and on a dark page."""


SAME, FORGOTTEN, GAINED, UNSCORED = range(4)


@dataclass(frozen=True, kw_only=True, eq=False)
class Heatmap:
    """Cells of a heatmap, uint8 [rows, looks with the baseline], each `SAME`, `FORGOTTEN`, `GAINED` or `UNSCORED`.

    `forgotten` rows were right at the baseline, and come first. `changed` items changed at some
    look, drawn or not, and `unchanged` ones never.
    """

    cells: NDArray[np.uint8]
    forgotten: int
    changed: int
    unchanged: int


def heatmap(trajectory: Trajectory, *, rows: int = MAP_ROWS) -> Heatmap:
    """Heatmap of a run, sorted by the first change of items.

    At most `rows` rows.
    """
    right = trajectory.right
    start = right[0]
    lost, won = (start == 1) & (right == 0), (start == 0) & (right == 1)
    cells = np.where(
        np.isnan(right), UNSCORED, np.where(lost, FORGOTTEN, np.where(won, GAINED, SAME))
    ).astype(np.uint8)
    changed = np.flatnonzero((lost | won).any(axis=0))
    first_change = np.argmax((lost | won)[:, changed], axis=0)
    often = -(lost | won)[:, changed].sum(axis=0)
    # lexsort takes the last key first: right at the start, then the first change, then those that
    # changed most often.
    order = changed[np.lexsort([often, first_change, start[changed] != 1])]
    if len(order) > rows:
        # Even distances keep the shares of the kinds.
        order = order[np.linspace(0, len(order) - 1, rows).astype(int)]
    return Heatmap(
        cells=cells[:, order].T,
        forgotten=int((start[order] == 1).sum()),
        changed=len(changed),
        unchanged=right.shape[1] - int(trajectory.baseline.is_passage.sum()) - len(changed),
    )


def heatmap_caption(heatmap_drawn: Heatmap) -> str:
    """Sentences on a heatmap's rows and on those left out."""
    drawn = len(heatmap_drawn.cells)
    caption = f"Each row is one of {drawn:,} answers that changed at some look; the upper rows were right at the start."
    if drawn < heatmap_drawn.changed:
        caption += (
            f" {heatmap_drawn.changed - drawn:,} more changed and are left out, at even distances."
        )
    return caption + f" {heatmap_drawn.unchanged:,} never changed and are left out."


def heatmap_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of the heatmap.

    Returns:
        The figure, or None if nothing changed.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    heatmap_drawn = heatmap(trajectory)
    if not heatmap_drawn.changed:
        return None
    # With alpha, for a light and a dark page; unscored cells are transparent.
    colors = ["#9a969f33", _LOST, _WON, "#00000000"]
    looks = len(trajectory.steps)
    figure = Figure(
        figsize=(10, 1.5 + min(6.0, max(1.2, 0.02 * len(heatmap_drawn.cells)))),
        layout="constrained",
    )
    panel = figure.subplots()
    # Half a unit around the codes 0 to 3, so that each has one colour.
    panel.imshow(
        heatmap_drawn.cells,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(colors),
        vmin=-0.5,
        vmax=3.5,
    )
    if 0 < heatmap_drawn.forgotten < len(heatmap_drawn.cells):
        # Pixel rows are centred on whole numbers: the line runs between two of them.
        panel.axhline(heatmap_drawn.forgotten - 0.5, color="#000000", linewidth=0.8)
    # At most twelve labels, or they would overlap.
    ticks = range(0, looks, -(-looks // 12))
    panel.set_xticks(
        list(ticks),
        [f"{trajectory.steps[look]:,}" if look else "start" for look in ticks],
        fontsize=9,
    )
    parts = [
        ("right", 0, heatmap_drawn.forgotten),
        ("wrong", heatmap_drawn.forgotten, len(heatmap_drawn.cells)),
    ]
    parts = [segment for segment in parts if segment[1] < segment[2]]
    names = [f"{name} at\nthe start:\n{end - start:,}" for name, start, end in parts]
    panel.set_yticks([(start + end - 1) / 2 for _, start, end in parts], names, fontsize=9)
    panel.tick_params(axis="y", length=0)
    panel.set_xlabel("optimizer step of the look", fontsize=10)
    kinds = {
        "forgotten at this look": _LOST,
        "gained at this look": _WON,
        "as at the start": "#9a969f55",
    }
    handles = [Patch(facecolor=color, label=label) for label, color in kinds.items()]
    above = (0.5, 1.0)
    panel.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=above,
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure
