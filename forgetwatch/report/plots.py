"""Pictures of a run: what was forgotten and gained, by category over steps, with the accuracy beside it.

The plotting library is imported when a picture is drawn, not before. Names come from files of others: `name_in` keeps
what they hold from becoming a formula or a line of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forgetwatch.groups import Group
from forgetwatch.report.numbers import count, fit_ends
from forgetwatch.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOST: Final[dict[str, Any]] = {"color": "#b3261e", "marker": "v", "linestyle": "-", "label": "forgotten (1→0)"}
WON: Final[dict[str, Any]] = {"color": "#1b6e3c", "marker": "^", "linestyle": "--", "label": "gained (0→1)"}
_ACCURACY: Final[dict[str, Any]] = {"color": "#1f3b73", "marker": "o", "linestyle": "-", "label": "accuracy"}
_NULL: Final[dict[str, Any]] = {
    "color": "#777777",
    "linestyle": ":",
    "linewidth": 2,
    "label": "forgotten by noise alone",
}

_FONTS: Final = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "Microsoft YaHei", "PingFang SC", "Noto Emoji")

COLUMNS: Final = 3
PANELS: Final = 12
"""Categories that are drawn, those with most forgotten items at the end first."""


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """A run as a figure: accuracy, forgotten and gained of all items, then of each category.

    Shapes and line styles tell the curves apart as well as colours do.
    """
    from matplotlib.figure import Figure

    steps = trajectory.steps
    whole = [comparison.all for comparison in trajectory.comparisons]
    by_category = [comparison.by("category") for comparison in trajectory.comparisons]
    names = sorted(by_category[-1], key=lambda name: -by_category[-1][name].forgotten)[:PANELS]
    rows = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(10, 3.4 + 2.1 * rows), layout="constrained")
    top, *below = figure.subfigures(
        2 if names else 1, 1, height_ratios=[3.0, 2.1 * rows] if names else [1], squeeze=False
    )[:, 0]
    _draw_whole(top.subplots(1, 2), steps, whole, trajectory.stages)
    last = whole[-1]
    figure.suptitle(
        f"Accuracy moved by {100 * last.net_change:+.1f} points: "
        f"{count(last.forgotten)} answers were forgotten and {count(last.gained)} gained, of {count(last.n)}",
        fontsize=13,
        fontweight="bold",
    )
    if names:
        panels = below[0].subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
        most = max(max(group.forgotten, group.gained) for groups in by_category for group in groups.values())
        for panel, name in zip(panels, names, strict=False):
            _draw_flips(panel, steps, [groups[name] for groups in by_category])
            panel.set_title(f"{name_in(20, name)}, {count(by_category[-1][name].n)} items", fontsize=9)
            panel.set_ylim(0, max(1.05 * most, 1))
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(names) - COLUMNS) : len(names)]:
            panel.tick_params(labelbottom=True)  # the lowest of a column may have a hidden one below it
    return figure


@contextmanager
def drawn() -> Iterator[None]:
    """Where pictures are made: fonts of other scripts are taken where they are installed; a sign of none is a box."""
    import matplotlib
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    family = [*matplotlib.rcParams["font.family"], *(name for name in _FONTS if name in there)]
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": family}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def name_in(width: int, name: str) -> str:
    """A name of others as a picture shows it: in one line of at most so many columns, never as a formula."""
    return fit_ends(name, width).rstrip().replace("$", r"\$")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; the format follows the file's suffix (png, svg, pdf)."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Date": None} if Path(path).suffix == ".svg" else None)


def _draw_whole(
    panels: Sequence[Axes], steps: Sequence[int], groups: Sequence[Group], stages: Sequence[int] = ()
) -> None:
    accuracy, flips = panels
    for panel in panels:
        for number, step in enumerate(stages, start=2):
            panel.axvline(step, color="#777777", linewidth=1, linestyle="-.")
            panel.annotate(
                f" stage {number}",
                (step, 1.0),
                xycoords=("data", "axes fraction"),
                va="top",
                fontsize=8,
                color="#777777",
            )
    accuracy.plot(steps, [100 * group.accuracy_after for group in groups], **_style(_ACCURACY, steps))
    accuracy.set_ylim(0, 100)
    accuracy.set_title("what an average shows: accuracy, %", fontsize=11)
    accuracy.set_xlabel("optimizer step")
    accuracy.grid(alpha=0.25)
    _draw_flips(flips, steps, groups)
    null = [(step, group.null_lost) for step, group in zip(steps, groups, strict=True) if group.null_lost is not None]
    if null:
        flips.plot(*zip(*null, strict=True), **_NULL)
    flips.set_ylim(0, max(1.0, flips.get_ylim()[1]))
    flips.set_title("what it hides: answers that changed sides", fontsize=11)
    flips.set_xlabel("optimizer step")
    flips.legend(frameon=False, fontsize=9)


def _draw_flips(panel: Axes, steps: Sequence[int], groups: Sequence[Group]) -> None:
    panel.plot(steps, [group.forgotten for group in groups], **_style(LOST, steps))
    panel.plot(steps, [group.gained for group in groups], **_style(WON, steps))
    panel.grid(alpha=0.25)


def _style(style: dict[str, Any], steps: Sequence[int]) -> dict[str, Any]:
    return {**style, "markersize": 4, "linewidth": 1.6, "markevery": max(1, len(steps) // 20)}
