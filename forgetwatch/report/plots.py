"""Figures of a run and of a comparison, and how any figure is saved as a file or put into a page.

    trajectory_figure   accuracy, forgotten and gained over steps, of all items and of each category; of all items also
                        known and lost less luck, and the calibrated log score, where options have scores
    passages_figure     change of the bits per byte of passages over steps, of all and of each category
    drift_figure        KL from the base over steps, by each estimator, after the prompts of each set
    bars_figure         what each category forgot and gained, and its net change with the interval
    svg                 a figure as markup in the colours of the page, with its label for screen readers

Shapes, line styles and hatches tell curves and bars apart as well as colours do. The plotting library is imported when
a figure is drawn. Names come from files of other people: `name_in` keeps them from becoming a formula.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from markupsafe import Markup, escape

from forgetwatch.comparing import Comparison, Group, Level, Trajectory, own_side
from forgetwatch.files import write_atomically
from forgetwatch.measures import SET_NAMES, LookDrift, drift_interval
from forgetwatch.metrics import Interval
from forgetwatch.pairing import count, fit_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Final = 12
"""Categories in the figure of a run; of more, those with most forgotten items at the end."""
ROWS: Final = 25
"""Groups in the figure of bars; of more, those of the lowest net change."""
CURVES: Final = (
    "Curves: accuracy, forgotten and gained answers at each look, and where options have scores also known and lost "
    "answers and the log score; the table of looks has the same numbers."
)
"""Label of the figure of a run."""
PASSAGES: Final = (
    "Curves: change of the bits per byte of the passages at each look, of all of them with its 95 % interval and of "
    "each category; the table of passages has the numbers."
)
"""Label of the figure of a run's passages."""
DRIFT: Final = (
    "Curves: KL from the base at each look by each estimator with its 95 % interval, a panel for each set of prompts, "
    "and the floor as a dashed line; the table of the drift has the numbers."
)
"""Label of the figure of a run's drift."""

LOST: Final[dict[str, Any]] = {"color": "#b3261e", "marker": "v", "linestyle": "-", "label": "forgotten (1→0)"}
WON: Final[dict[str, Any]] = {"color": "#1b6e3c", "marker": "^", "linestyle": "--", "label": "gained (0→1)"}
_ACCURACY: Final[dict[str, Any]] = {"color": "#1f3b73", "marker": "o", "linestyle": "-", "label": "accuracy"}
_NULL: Final[dict[str, Any]] = {
    "color": "#777777",
    "linestyle": ":",
    "linewidth": 2,
    "label": "forgotten by noise alone",
}
_NET: Final[dict[str, Any]] = {
    "color": LOST["color"],
    "marker": "D",
    "linestyle": "-",
    "label": "less luck, 95 % interval",
}
_LOG_SCORE: Final[dict[str, Any]] = {"color": "#1f3b73", "marker": "s", "linestyle": "-"}
_ESTIMATORS: Final[dict[str, dict[str, Any]]] = {
    "kl_sampled": {"color": "#777777", "marker": "o", "linestyle": ":", "label": "sampled"},
    "kl_summed": {"color": "#1f3b73", "marker": "s", "linestyle": "-", "label": "summed (lower bound)"},
    "kl_exact": {"color": "#1b6e3c", "marker": "^", "linestyle": "-.", "label": "exact"},
}
_IN_PAGE: Final = {LOST["color"]: "var(--lost)", WON["color"]: "var(--won)", _ACCURACY["color"]: "var(--accent)"}
"""Variables of the page that replace colours, so that figures follow its dark and light style."""

_MARKERS: Final = "osv^Dx"
_DASHES: Final = ("-", "--")
_COLUMNS: Final = 3
_FONTS: Final = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "Microsoft YaHei", "PingFang SC", "Noto Emoji")


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """Figure of a run: accuracy, forgotten and gained of all items, then of each category.

    If some look has them, all items also have curves of the known and lost ones and of the calibrated log score.
    """
    from matplotlib.figure import Figure

    steps = trajectory.steps
    whole = [comparison.all for comparison in trajectory.comparisons]
    by_category = [comparison.by("category") for comparison in trajectory.comparisons]
    answered = [name for name, group in by_category[-1].items() if group.n]  # others have passages alone
    names = sorted(answered, key=lambda name: -by_category[-1][name].forgotten)[:PANELS]
    rows = -(-len(names) // _COLUMNS)
    scored = has_scores(whole)
    height = 5.8 if scored else 3.0
    figure = Figure(figsize=(10, height + 0.4 + 2.1 * rows), layout="constrained")
    top, *below = figure.subfigures(
        2 if names else 1, 1, height_ratios=[height, 2.1 * rows] if names else [1], squeeze=False
    )[:, 0]
    panels = top.subplots(2 if scored else 1, 2, squeeze=False)
    _draw_whole(panels[0], steps, whole)
    if scored:
        _draw_known(panels[1][0], steps, whole)
        _draw_log_score(panels[1][1], steps, whole)
    _draw_stages(panels.ravel(), trajectory.stages)
    last = whole[-1]
    figure.suptitle(
        f"Accuracy moved by {100 * last.net_change:+.1f} points: "
        f"{count(last.forgotten)} answers were forgotten and {count(last.gained)} gained, of {count(last.n)}",
        fontsize=13,
        fontweight="bold",
    )
    if names:
        panels = below[0].subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
        most = max(max(group.forgotten, group.gained) for groups in by_category for group in groups.values() if group.n)
        for panel, name in zip(panels, names, strict=False):
            _draw_flips(panel, steps, [groups[name] for groups in by_category])
            panel.set_title(f"{name_in(20, name)}, {count(by_category[-1][name].n)} items", fontsize=9)
            panel.set_ylim(0, max(1.05 * most, 1))
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(names) - _COLUMNS) : len(names)]:
            # The panel below may be hidden, and then the shared axis has no labels.
            panel.tick_params(labelbottom=True)
    return figure


def passages_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of the bits per byte of a run's passages: all of them on the left, categories on the right.

    None if no look has passages.
    """
    from matplotlib.figure import Figure

    steps = trajectory.steps
    whole = [comparison.all for comparison in trajectory.comparisons]
    if not any(group.passages for group in whole):
        return None
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    together, apart = figure.subplots(1, 2, sharey=True)
    changes = [group.bits_per_byte_change for group in whole]
    _draw_with_interval(together, steps, changes, [group.bits_per_byte_change_interval for group in whole], _LOG_SCORE)
    together.set_title("bits per byte of the passages: change, 95 % interval", fontsize=11)
    by_category = [comparison.by("category") for comparison in trajectory.comparisons]
    names = [name for name, group in by_category[-1].items() if group.passages][:PANELS]
    for number, name in enumerate(names):
        curve = [or_nan(groups[name].bits_per_byte_change) if name in groups else math.nan for groups in by_category]
        style = {"marker": _MARKERS[number % len(_MARKERS)], "linestyle": _DASHES[number // len(_MARKERS) % 2]}
        apart.plot(steps, curve, **_style({**style, "label": name_in(20, name)}, steps))
    apart.axhline(0, color="#000000", linewidth=0.8)
    apart.grid(alpha=0.25)
    apart.set_title("by category", fontsize=11)
    if names:
        apart.legend(frameon=False, fontsize=8)
    for panel in (together, apart):
        label_steps(panel)
    _draw_stages((together, apart), trajectory.stages)
    return figure


def drift_figure(trajectory: Trajectory) -> Figure | None:
    """Figure of the KL of a run from its base, one panel for each set of prompts; None if no look has one."""
    from matplotlib.figure import Figure

    looks = trajectory.drift
    sets = list(dict.fromkeys(name for drift in looks.values() for name in drift))
    if not sets or max(looks) == trajectory.steps[0]:
        return None
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, max(2, len(sets)), squeeze=False)[0]
    for panel, name in zip(panels, sets, strict=False):
        _draw_drift(panel, {step: drift[name] for step, drift in looks.items() if name in drift})
        panel.set_title(f"KL after {SET_NAMES.get(name, name_in(20, name))}, nats a token", fontsize=11)
        label_steps(panel)
    for panel in panels[len(sets) :]:
        panel.set_visible(False)
    _draw_stages(panels[: len(sets)], trajectory.stages)
    return figure


def _draw_drift(panel: Axes, looks: Mapping[int, LookDrift]) -> None:
    """Draw the curve of each estimator in a band of its 95 % interval, and its floor as a dashed line."""
    steps = list(looks)
    for name, style in _ESTIMATORS.items():
        values = np.array([or_nan(getattr(found, name)) for found in looks.values()])
        values[~np.isfinite(values)] = math.nan  # a model that rules out a token of the base: a gap
        if np.isnan(values).all():
            continue
        ends = [drift_interval(found, name) for found in looks.values()]
        if not values[0]:
            ends[0] = 0.0, 0.0  # the base is compared with itself: nothing was estimated
        lower, upper = zip(*ends, strict=True)
        panel.fill_between(steps, lower, upper, color=style["color"], alpha=0.15, linewidth=0)
        panel.plot(steps, values, **_style(style, steps))
        floors = [found.floor for found in looks.values() if found.floor is not None]
        if floors and (low := getattr(floors[-1], name, None)) is not None and math.isfinite(low):
            label = f"floor, {style['label'].split()[0]}"
            panel.axhline(low, color=style["color"], linestyle="--", linewidth=1, label=label)
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, fontsize=8)


def has_scores(groups: Sequence[Group]) -> bool:
    """True if a look has known items less luck, or a change of the calibrated log score."""
    return any(
        value is not None for group in groups for value in (group.known_lost_net, group.log_score_change_calibrated)
    )


def _draw_stages(panels: Iterable[Axes], stages: Sequence[int]) -> None:
    """Draw a line in each panel where a later stage begins."""
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


def label_steps(panel: Axes) -> None:
    """Label an axis of steps, which are whole numbers."""
    panel.set_xlabel("optimizer step")
    panel.locator_params(axis="x", integer=True)


def _draw_whole(panels: Sequence[Axes], steps: Sequence[int], groups: Sequence[Group]) -> None:
    """Draw accuracy on the left and flips on the right."""
    accuracy, flips = panels
    accuracy.plot(steps, [100 * group.accuracy_after for group in groups], **_style(_ACCURACY, steps))
    accuracy.set_ylim(0, 100)
    accuracy.set_title("what an average shows: accuracy, %", fontsize=11)
    label_steps(accuracy)
    accuracy.grid(alpha=0.25)
    _draw_flips(flips, steps, groups)
    null = [(step, group.null_lost) for step, group in zip(steps, groups, strict=True) if group.null_lost is not None]
    if null:
        flips.plot(*zip(*null, strict=True), **_NULL)
    flips.set_ylim(0, max(1.0, flips.get_ylim()[1]))
    flips.set_title("what it hides: answers that changed sides", fontsize=11)
    label_steps(flips)
    flips.locator_params(axis="y", integer=True)
    flips.legend(frameon=False, fontsize=9)


def _draw_known(panel: Axes, steps: Sequence[int], groups: Sequence[Group]) -> None:
    """Draw the known and lost items less luck with their interval, and the two counts behind it."""
    _draw_with_interval(
        panel,
        steps,
        [group.known_lost_net for group in groups],
        [group.known_lost_net_interval for group in groups],
        _NET,
    )
    panel.plot(
        steps, [or_nan(group.known_lost) for group in groups], color="#777777", linewidth=1.2, label="now lost, in all"
    )
    by_luck = [or_nan(group.known_lost_by_luck) for group in groups]
    panel.plot(steps, by_luck, **{**_NULL, "label": "lost by luck alone"})
    panel.set_title("clearly known at the start, now lost", fontsize=11)
    label_steps(panel)
    panel.legend(frameon=False, fontsize=9)


def _draw_log_score(panel: Axes, steps: Sequence[int], groups: Sequence[Group]) -> None:
    """Draw the change of the calibrated log score with its interval."""
    changes = [group.log_score_change_calibrated for group in groups]
    intervals = [group.log_score_change_calibrated_interval for group in groups]
    _draw_with_interval(panel, steps, changes, intervals, _LOG_SCORE)
    panel.set_title("log score, calibrated: change in nats, 95 % interval", fontsize=11)
    label_steps(panel)


def _draw_with_interval(
    panel: Axes,
    steps: Sequence[int],
    values: Sequence[float | None],
    intervals: Sequence[Interval | None],
    style: dict[str, Any],
) -> None:
    """Draw a curve in a band, and a line at 0; looks without a value are gaps. A panel without any is hidden."""
    panel.set_visible(any(value is not None for value in values))
    ends = [(math.nan, math.nan) if one is None else one for one in intervals]
    if ends and values[0] is not None:
        ends[0] = values[0], values[0]  # the start is compared with itself: nothing was estimated
    low, high = zip(*ends, strict=True)
    panel.axhline(0, color="#000000", linewidth=0.8)
    panel.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    panel.plot(steps, [or_nan(value) for value in values], **_style(style, steps))
    panel.grid(alpha=0.25)


def or_nan(value: float | None) -> float:
    """The value, nan for None: a gap in a curve."""
    return math.nan if value is None else value


def _draw_flips(panel: Axes, steps: Sequence[int], groups: Sequence[Group]) -> None:
    panel.plot(steps, [group.forgotten for group in groups], **_style(LOST, steps))
    panel.plot(steps, [group.gained for group in groups], **_style(WON, steps))
    panel.grid(alpha=0.25)


def _style(style: dict[str, Any], steps: Sequence[int]) -> dict[str, Any]:
    # At most some 20 markers on a curve, or they would hide it.
    return {**style, "markersize": 4, "linewidth": 1.6, "markevery": max(1, len(steps) // 20)}


def bars_figure(comparison: Comparison, *, by: Level = "category") -> Figure | None:
    """Figure of the groups of one level as bars, worst first; None if there are fewer than two.

    On the left the shares of forgotten and gained items, on the right the net change with its 95 % interval, in points.
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
    lost = [-100 * group.forgetting for group in groups]
    flips.barh(rows, lost, height=0.62, hatch="//", fill=False, edgecolor=LOST["color"])
    flips.barh(rows, [100 * group.backward_transfer for group in groups], color=WON["color"], height=0.62)
    flips.axvline(0, color="#000000", linewidth=0.8)
    flips.set_title("forgotten (left) and gained (right), %", fontsize=10)
    flips.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    for row, group in enumerate(groups):
        low, high = (100 * end for end in group.net_change_interval)
        side = own_side(group)
        color = LOST["color"] if side == "below" else WON["color"] if side == "above" else "#777777"
        net.plot([low, high], [row, row], color=color, linewidth=1.8, solid_capstyle="butt")
        net.plot(
            [100 * group.net_change],
            [row],
            color=color,
            marker="D" if side in ("below", "above") else "o",
            markersize=5,
        )
    net.axvline(0, color="#000000", linewidth=0.8)
    net.set_title("net change, points (diamond: q at most .05)", fontsize=10)
    for panel in (flips, net):
        panel.grid(axis="x", alpha=0.25)
        panel.tick_params(labelsize=9)
    flips.set_yticks(list(rows), [f"{name_in(26, group.name)}  ({count(group.n)})" for group in groups])
    flips.set_ylim(len(groups) - 0.4, -0.6)  # the worst at the top
    return figure


def svg(draw: Callable[[], Figure | None], *, name: str, label: str) -> Markup | None:
    """SVG element of a figure; None if there is no figure.

    Args:
        draw: Function that makes the figure.
        name: First part of its element ids, different for each figure of a page.
        label: Description for screen readers.
    """
    import matplotlib

    # Text stays text.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), drawn():
        figure = draw()
        if figure is None:
            return None
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Markup(_in_page(buffer.getvalue(), name, label))


def _in_page(text: str, name: str, label: str) -> str:
    """Markup of one figure without the parts of a separate file, in the colours of the page."""
    # The XML declaration and the document type are not allowed inside HTML.
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    # Ids such as "axes_1" repeat from figure to figure; only those that are referred to are kept.
    used = dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    # Matplotlib's ids are hashes of bounds whose last bits differ from one layout to the next: numbers replace them,
    # behind a digest of the figure, so that two figures in one notebook do not share them.
    numbers = {old: str(number) for number, old in enumerate(used)}
    text = _with_ids(text, numbers)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]
    text = _with_ids(text, {number: f"{name}-{digest}-{number}" for number in numbers.values()})
    for color, variable in _IN_PAGE.items():
        text = text.replace(color, variable)
    text = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _with_ids(text: str, ids: Mapping[str, str]) -> str:
    """Text of a figure with other ids, where they are defined and where they are referred to."""
    return re.sub(r'(url\(#|href="#| id=")([^")]+)', lambda found: found[1] + ids.get(found[2], found[2]), text)


@contextmanager
def drawn() -> Iterator[None]:
    """Context for drawing names in any script: more fonts are tried, and a missing glyph gives no warning."""
    import matplotlib
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    family = [*matplotlib.rcParams["font.family"], *(name for name in _FONTS if name in installed)]
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": family}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def name_in(width: int, name: str) -> str:
    """Name of at most `width` columns for a figure, in one line; a dollar sign does not begin a formula."""
    return fit_ends(name, width).rstrip().replace("$", r"\$")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure, whole or not at all; the format follows the file's suffix (png, svg, pdf)."""
    path = Path(path)
    kind = path.suffix.removeprefix(".")
    # Without the date, equal figures give equal SVG files.
    metadata = {"Date": None} if kind == "svg" else None
    write_atomically(path, lambda partial: figure.savefig(partial, format=kind, dpi=150, metadata=metadata))
