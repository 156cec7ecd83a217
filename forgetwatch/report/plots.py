"""Figures of a run and of a comparison.

    verdict_figure       the verdict's quantity over steps, of all items and of the categories that fell most
    trajectory_figure    accuracy, forgotten, gained and net change over steps, and where options have scores the known
                         and lost items; forgotten and gained also of each category
    passages_figure      change of the bits per byte of passages over steps, of all and of each category
    drift_figure         KL from the base over steps, by each estimator, after the prompts of each set
    bars_figure          what each category forgot and gained, and its net change with the interval

Shapes, line styles and hatches tell curves and bars apart as well as colours do. The plotting
library is imported when a figure is drawn. Names come from files of other people: `name_in` keeps
them from becoming a formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import (
    Leg,
    estimated,
    estimated_categories,
    leg_interval,
    side_of_zero,
)
from forgetwatch.measures.base_drift import SET_NAMES, LookDrift, drift_interval
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import NULL
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.metrics.intervals import Interval
from forgetwatch.text import count, fit_ends

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Final = 12
"""Categories in the figure of a run; of more, those with most forgotten items at the end."""


ROWS: Final = 25
"""Groups in the figure of bars; of more, those of the lowest net change."""


TIPS: Final = "tips"
"""Attribute of a figure: the texts of `set_tooltip`, by the id of what they are about."""


BLUE: Final = "#1f3b73"


GREY: Final = "#777777"


LOST: Final[dict[str, Any]] = {
    "color": "#b3261e",
    "marker": "v",
    "linestyle": "-",
    "label": "forgotten (1→0)",
}


WON: Final[dict[str, Any]] = {
    "color": "#1b6e3c",
    "marker": "^",
    "linestyle": "--",
    "label": "gained (0→1)",
}


_ACCURACY: Final[dict[str, Any]] = {
    "color": BLUE,
    "marker": "o",
    "linestyle": "-",
    "label": "accuracy",
}


_NULL: Final[dict[str, Any]] = {
    "color": GREY,
    "linestyle": ":",
    "linewidth": 2,
    "label": "forgotten when measured again",
}


_NET: Final[dict[str, Any]] = {
    **LOST,
    "marker": "D",
    "label": "less those that guessing explains, 95 %",
}


_ALL: Final[dict[str, Any]] = {
    "color": BLUE,
    "marker": "o",
    "linestyle": "-",
    "label": "all questions, 95 % interval",
}


_WORST: Final[tuple[dict[str, Any], ...]] = tuple(
    {**LOST, "marker": marker, "linestyle": line}
    for marker, line in (("v", "--"), ("s", "-."), ("^", ":"))
)


_BITS: Final[dict[str, Any]] = {"color": BLUE, "marker": "s", "linestyle": "-"}


_ESTIMATORS: Final[dict[str, dict[str, Any]]] = {
    "kl_sampled": {"color": GREY, "marker": "o", "linestyle": ":", "label": "sampled"},
    "kl_summed": {"color": BLUE, "marker": "s", "linestyle": "-", "label": "summed (lower bound)"},
}


_MARKERS: Final = "osv^Dx"


_DASHES: Final = ("-", "--")


_COLUMNS: Final = 3


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """Figure of a run: accuracy and flips of all and by category.

    All items also have their net change and, if some look has them, the known and lost ones.
    """
    from matplotlib.figure import Figure

    steps = trajectory.steps
    totals = [comparison.all for comparison in trajectory.comparisons]
    by_category = [comparison.by("category") for comparison in trajectory.comparisons]
    answered = [
        name for name, group in by_category[-1].items() if group.n
    ]  # others have passages alone
    names = sorted(answered, key=lambda name: -by_category[-1][name].forgotten)[:PANELS]
    rows = -(-len(names) // _COLUMNS)
    height = 5.8
    figure = Figure(figsize=(10, height + 0.4 + 2.1 * rows), layout="constrained")
    top, *below = figure.subfigures(
        2 if names else 1, 1, height_ratios=[height, 2.1 * rows] if names else [1], squeeze=False
    )[:, 0]
    panels = top.subplots(2, 2)
    _draw_whole(panels[0], steps, totals)
    _draw_curve(panels[1][0], steps, totals, _net)
    _label(panels[1][0], "net change, points, 95 % interval")
    _draw_change(panels[1][1], steps, totals, "known_lost_net", _NET)
    _label(panels[1][1], "clearly known, now lost, without lucky guesses")
    _draw_stages(panels.ravel(), trajectory.stages)
    last_total = totals[-1]
    figure.suptitle(
        f"Estimated change {100 * estimated(last_total)[0]:+.1f} points: "
        f"{count(last_total.forgotten)} answers were forgotten and {count(last_total.gained)} "
        f"gained, of {count(last_total.n)}",
        fontsize=13,
        fontweight="bold",
    )
    if names:
        panels = below[0].subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
        most_flips = max(
            max(group.forgotten, group.gained)
            for groups in by_category
            for group in groups.values()
            if group.n
        )
        for panel, name in zip(panels, names, strict=False):
            _draw_flips(panel, steps, [groups[name] for groups in by_category])
            panel.set_title(
                f"{name_in(20, name)}, {count(by_category[-1][name].n)} items", fontsize=9
            )
            panel.set_ylim(0, max(1.05 * most_flips, 1))
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(names) - _COLUMNS) : len(names)]:
            # The panel below may be hidden, and then the shared axis has no labels.
            panel.tick_params(labelbottom=True)
    return figure


Measured = Callable[[Group], tuple[float, Interval] | None]
"""The value of a group with its interval, as shares; None where it is not measured."""


class Curve(NamedTuple):
    """A quantity of the first screen.

    Attributes:
        label: What it is, with its unit.
        limit: Its limit, in percent or points; None for none.
        of: Its value for a group.
    """

    label: str
    limit: float | None
    of: Measured


def _known_lost(group: Group) -> tuple[float, Interval] | None:
    known_items = group[KNOWN]
    if (
        known_items is None
        or known_items.lost_net_share is None
        or known_items.lost_net_share_interval is None
    ):
        return None
    return known_items.lost_net_share, known_items.lost_net_share_interval


def _net(group: Group) -> tuple[float, Interval] | None:
    return estimated(group) if group.n else None


def curves(conclusion: Conclusion, last_group: Group) -> list[Curve]:
    """Quantities of the first screen, that of the verdict first."""
    knowledge, accuracy = conclusion.decision.leg("knowledge"), conclusion.decision.leg("accuracy")

    def limit(leg: Leg | None) -> float | None:
        return None if leg is None or leg.limit is None else 100 * leg.limit

    net = Curve("net change, points", limit(accuracy), _net)
    if _known_lost(last_group) is None:
        return [net]
    lost = Curve("clearly known and now lost, %", limit(knowledge), _known_lost)
    return [net, lost] if conclusion.decision.deciding == "accuracy" else [lost, net]


def verdict_figure(trajectory: Trajectory, conclusion: Conclusion) -> Figure:
    """Small figure of a run: the verdict's quantity.

    Of all items, and of the worst categories.
    """
    from matplotlib.figure import Figure

    steps, comparisons = trajectory.steps, trajectory.comparisons
    curve, *_ = curves(conclusion, trajectory.final.all)
    figure = Figure(figsize=(6.4, 2.7), layout="constrained")
    panel = figure.subplots()
    fell = [category.group.name for category in conclusion.lost][: len(_WORST)]
    for name, style in zip(fell, _WORST, strict=False):
        groups = [comparison.by("category").get(name) for comparison in comparisons]
        ends = [None if group is None else curve.of(group) for group in groups]
        values = [math.nan if end is None else 100 * end[0] for end in ends]
        panel.plot(
            steps, values, **_style({**style, "label": f"{name_in(20, name)}, by itself"}, steps)
        )
    _draw_curve(panel, steps, [comparison.all for comparison in comparisons], curve.of)
    if curve.limit is not None:
        panel.axhline(
            curve.limit, color=GREY, linewidth=1, linestyle=":", label=f"limit {curve.limit:g}"
        )
    _label(panel, curve.label, legend=8)
    _draw_stages([panel], trajectory.stages)
    return figure


def _draw_curve(panel: Axes, steps: Sequence[int], groups: Sequence[Group], of: Measured) -> None:
    # In points or percent; a look without the quantity is a gap.
    ends = [of(group) or (math.nan, (math.nan, math.nan)) for group in groups]
    ends[0] = 0.0, (0.0, 0.0)  # the start is compared with itself: nothing was estimated
    panel.axhline(0, color="#000000", linewidth=0.8)
    _draw_band(
        panel,
        steps,
        [100 * value for value, _ in ends],
        [(100 * a, 100 * b) for _, (a, b) in ends],
        _ALL,
    )


def _draw_whole(panels: Sequence[Axes], steps: Sequence[int], groups: Sequence[Group]) -> None:
    # Accuracy on the left and flips on the right.
    accuracy, flips = panels
    accuracy.plot(
        steps, [100 * group.accuracy_after for group in groups], **_style(_ACCURACY, steps)
    )
    accuracy.set_ylim(0, 100)
    _label(accuracy, "what an average shows: accuracy, %")
    _draw_flips(flips, steps, groups)
    null = [
        (step, null_flips.null_lost)
        for step, group in zip(steps, groups, strict=True)
        if (null_flips := group[NULL])
    ]
    if null:
        flips.plot(*zip(*null, strict=True), **_NULL)
    flips.set_ylim(0, max(1.0, flips.get_ylim()[1]))
    flips.locator_params(axis="y", integer=True)
    _label(flips, "what it hides: answers that changed sides", legend=9)


def _draw_flips(panel: Axes, steps: Sequence[int], groups: Sequence[Group]) -> None:
    panel.plot(steps, [group.forgotten for group in groups], **_style(LOST, steps))
    panel.plot(steps, [group.gained for group in groups], **_style(WON, steps))
    panel.grid(alpha=0.25)


def _draw_change(
    panel: Axes, steps: Sequence[int], groups: Sequence[Group], name: str, style: dict[str, Any]
) -> None:
    # A line is at 0. A panel without any value is hidden.
    values = [group[name] for group in groups]
    intervals = [group[f"{name}_interval"] for group in groups]
    if values[0] is not None:
        intervals[0] = (
            values[0],
            values[0],
        )  # the start is compared with itself: nothing was estimated
    panel.set_visible(any(value is not None for value in values))
    panel.axhline(0, color="#000000", linewidth=0.8)
    _draw_band(panel, steps, values, intervals, style)


def _draw_band(
    panel: Axes,
    steps: Sequence[int],
    values: Iterable[float | None],
    intervals: Iterable[Interval | None],
    style: dict[str, Any],
) -> None:
    # None is a gap.
    low, high = zip(
        *((math.nan, math.nan) if interval is None else interval for interval in intervals),
        strict=True,
    )
    panel.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    panel.plot(steps, [_or_nan(value) for value in values], **_style(style, steps))


def _draw_stages(panels: Iterable[Axes], stages: Sequence[int]) -> None:
    for panel in panels:
        for number, step in enumerate(stages, start=2):
            panel.axvline(step, color=GREY, linewidth=1, linestyle="-.")
            where = ("data", "axes fraction")
            panel.annotate(
                f" stage {number}", (step, 1.0), xycoords=where, va="top", fontsize=8, color=GREY
            )


def _label(panel: Axes, title: str, *, legend: int | None = None) -> None:
    # Steps are whole numbers; `legend` is a font size.
    panel.set_title(title, fontsize=11)
    panel.set_xlabel("optimizer step")
    panel.locator_params(axis="x", integer=True)
    panel.grid(alpha=0.25)
    if legend is not None:
        panel.legend(frameon=False, fontsize=legend)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _style(style: dict[str, Any], steps: Sequence[int]) -> dict[str, Any]:
    # At most some 20 markers on a curve, or they would hide it.
    return {**style, "markersize": 4, "linewidth": 1.6, "markevery": max(1, len(steps) // 20)}


def stages_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of several stages: accuracy of each category.

    Each cell has the accuracy in percent; its colour is the change since the base, blue for more,
    red for less. None for a single run.

    Returns:
        The figure, or None for a single run.
    """
    if trajectory.matrix is None:
        return None
    from matplotlib.figure import Figure

    shares = trajectory.matrix.accuracy("category")
    table = 100 * np.stack(list(shares.values()))
    start = np.array(
        [row[np.isfinite(row)][0] if np.isfinite(row).any() else np.nan for row in table]
    )
    change = table - start[:, None]
    largest = max(float(np.nanmax(np.abs(change), initial=0.0)), 5.0)
    rows, columns = table.shape
    figure = Figure(figsize=(2.6 + 1.3 * columns, 1.2 + 0.38 * rows), layout="constrained")
    panel = figure.subplots()
    drawn = panel.imshow(change, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
    names = [trajectory.matrix.base, *(row.name for row in trajectory.matrix.rows)]
    panel.set_xticks(range(columns), [name_in(16, name) for name in names])
    panel.set_yticks(range(rows), [name_in(24, name) for name in shares])
    panel.xaxis.tick_top()
    for row, column in zip(*np.nonzero(np.isfinite(table)), strict=True):
        dark = abs(change[row, column]) > 0.6 * largest
        panel.text(
            column,
            row,
            f"{table[row, column]:.0f}",
            ha="center",
            va="center",
            color="white" if dark else "black",
        )
    figure.colorbar(drawn, ax=panel, label="change since the base, points")
    return figure


def passages_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of the bits per byte of a run's passages.

    Returns:
        The figure, or None if no look has passages.
    """
    from matplotlib.figure import Figure

    steps = trajectory.steps
    totals = [comparison.all for comparison in trajectory.comparisons]
    if not any(group.passages for group in totals):
        return None
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    together, apart = figure.subplots(1, 2, sharey=True)
    _draw_change(together, steps, totals, "bits_per_byte_change", _BITS)
    _label(together, "bits per byte of the passages: change, 95 % interval")
    by_category = [comparison.by("category") for comparison in trajectory.comparisons]
    names = [name for name, group in by_category[-1].items() if group.passages][:PANELS]
    for number, name in enumerate(names):
        read = [groups[name][PASSAGES] if name in groups else None for groups in by_category]
        curve = [math.nan if bits is None else bits.change.mean for bits in read]
        style = {
            "marker": _MARKERS[number % len(_MARKERS)],
            "linestyle": _DASHES[number // len(_MARKERS) % 2],
        }
        apart.plot(steps, curve, **_style({**style, "label": name_in(20, name)}, steps))
    apart.axhline(0, color="#000000", linewidth=0.8)
    _label(apart, "by category", legend=8 if names else None)
    _draw_stages((together, apart), trajectory.stages)
    return figure


def drift_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of the KL of a run from the base.

    Returns:
        The figure, with a panel for each set of prompts, or None if no look has drift.
    """
    from matplotlib.figure import Figure

    looks = trajectory.drift
    sets = list(dict.fromkeys(name for drift in looks.values() for name in drift))
    if not sets or max(looks) == trajectory.steps[0]:
        return None
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, max(2, len(sets)), squeeze=False)[0]
    for panel, name in zip(panels, sets, strict=False):
        _draw_drift(panel, {step: drift[name] for step, drift in looks.items() if name in drift})
        _label(panel, f"KL after {SET_NAMES.get(name, name_in(20, name))}, nats a token", legend=8)
    for panel in panels[len(sets) :]:
        panel.set_visible(False)
    _draw_stages(panels[: len(sets)], trajectory.stages)
    return figure


def _draw_drift(panel: Axes, looks: Mapping[int, LookDrift]) -> None:
    # In a band of the 95 % interval; the floor is a dashed line.
    for name, style in _ESTIMATORS.items():
        values = np.array([_or_nan(getattr(look, name)) for look in looks.values()])
        values[~np.isfinite(values)] = math.nan  # a model that rules out a token of the base: a gap
        if np.isnan(values).all():
            continue
        ends = [drift_interval(look, name) for look in looks.values()]
        if not values[0]:
            ends[0] = 0.0, 0.0  # the base is compared with itself: nothing was estimated
        _draw_band(panel, list(looks), values, ends, style)
        floors = [look.floor for look in looks.values() if look.floor is not None]
        if floors and (low := getattr(floors[-1], name, None)) is not None and math.isfinite(low):
            label = f"floor, {style['label'].split()[0]}"
            panel.axhline(low, color=style["color"], linestyle="--", linewidth=1, label=label)


def bars_figure(comparison: Comparison) -> Figure | None:
    """Figure of the categories as bars, worst first.

    On the left the shares of forgotten and gained items. On the right the net change, in points,
    with intervals that hold for all categories together.

    Returns:
        The figure, or None for fewer than two categories.
    """
    from matplotlib.figure import Figure

    groups = [
        group
        for group in comparison.by("category").values()
        if group.n and not math.isnan(group.net_change)
    ]
    total, groups = len(groups), sorted(groups, key=lambda group: estimated(group)[0])[:ROWS]
    if len(groups) < 2:
        return None
    figure = Figure(figsize=(10, 1.3 + 0.34 * len(groups)), layout="constrained")
    if total > ROWS:
        figure.supxlabel(f"the {ROWS} of {total} categories that fell most", fontsize=9)
    flips, net = figure.subplots(1, 2, sharey=True)
    rows, lost = range(len(groups)), [-100 * group.forgetting for group in groups]
    flips.barh(rows, lost, height=0.62, hatch="//", fill=False, edgecolor=LOST["color"])
    flips.barh(
        rows, [100 * group.backward_transfer for group in groups], color=WON["color"], height=0.62
    )
    flips.axvline(0, color="#000000", linewidth=0.8)
    flips.set_title("forgotten (left) and gained (right), %", fontsize=10)
    flips.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    categories = len(estimated_categories(comparison))
    for row, group in enumerate(groups):
        interval = leg_interval(group, categories)
        side = side_of_zero(interval)
        color = LOST["color"] if side == "below" else WON["color"] if side == "above" else GREY
        net.plot(
            [100 * end for end in interval],
            [row, row],
            color=color,
            linewidth=1.8,
            solid_capstyle="butt",
        )
        marker = "D" if side in ("below", "above") else "o"
        net.plot([100 * estimated(group)[0]], [row], color=color, marker=marker, markersize=5)
    net.axvline(0, color="#000000", linewidth=0.8)
    net.set_title("net change, points (diamond: beyond 0)", fontsize=10)
    _label_rows((flips, net), [(group.name, count(group.n)) for group in groups])
    return figure


def _label_rows(panels: Sequence[Axes], rows: Sequence[tuple[str, str]]) -> None:
    # A name and a number in brackets; the first is at the top.
    for panel in panels:
        panel.grid(axis="x", alpha=0.25)
        panel.tick_params(labelsize=9)
    panels[0].set_yticks(
        range(len(rows)), [f"{name_in(26, name)}  ({number})" for name, number in rows]
    )
    panels[0].set_ylim(len(rows) - 0.4, -0.6)


def set_tooltip(artist: Artist, text: str) -> None:
    """Give a drawn thing a text that a page shows as tooltip."""
    figure = artist.get_figure(root=True)
    tips = vars(figure).setdefault(TIPS, {})
    artist.set_gid(f"tip-{len(tips)}")
    tips[artist.get_gid()] = text


def name_in(width: int, name: str) -> str:
    """Name in a line of at most `width` columns, for a figure.

    A dollar sign does not begin a formula.
    """
    return fit_ends(name, width).rstrip().replace("$", r"\$")
