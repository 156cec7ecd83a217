"""A sweep between two models as one HTML file, and its figure: the net change against alpha, for both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forgetwatch.comparing import MergeSweep
from forgetwatch.pairing import items
from forgetwatch.report.html import made_line, render
from forgetwatch.report.merge_table import distance_rows, distance_sentence, merge_words, side_by_side, sweep_table
from forgetwatch.report.pareto import ranking_figure
from forgetwatch.report.plots import name_in, svg
from forgetwatch.report.ranking_table import several_words
from forgetwatch.visible_text import without_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES: Final = "Curves: net change of each point against both models; the table below has the numbers."
_RANKING: Final = "Share that each point kept of what the first model had right, against the target."
_COLORS: Final = ("#1f3b73", "#777777")


def merge_page(sweep: MergeSweep) -> str:
    """Page of a sweep, as text."""
    distance = distance_sentence(sweep)
    return render(
        "merge.html",
        a=sweep.ends[0],
        b=sweep.ends[1],
        facts=", ".join([sweep.method, *(f"{one.probe} ({items(one.n)})" for one in sweep.sweeps)]),
        words=merge_words(sweep),
        curves=svg(lambda: merge_figure(sweep), name="merge", label=_CURVES),
        confirmed=sweep.confirmed_on is not None,
        both=side_by_side(sweep),
        probes=[(one.probe, *sweep_table(sweep, one)) for one in sweep.everywhere.values()],
        ranking=_ranking(sweep),
        distance=f"{distance[0].upper()}{distance[1:]}.",
        layers=distance_rows(sweep),
        notes=[without_folders(note) for note in sweep.notes],
        made=made_line(),
    )


def _ranking(sweep: MergeSweep) -> dict[str, Any] | None:
    """Section of the target: how to read it, and the front; None without a target."""
    if sweep.ranking.target is None:
        return None
    picture = svg(lambda: ranking_figure(sweep.ranking), name="ranking", label=_RANKING)
    caption = f"Kept on {sweep.chosen_on.probe}, against {sweep.ranking.target.name}."
    return {"words": several_words(sweep.ranking), "picture": picture, "caption": caption}


def merge_figure(sweep: MergeSweep) -> Figure:
    """Figure of the net change in points against alpha, one panel for each end, one curve for each probe."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for side, panel in enumerate(panels):
        for number, one in enumerate(sweep.sweeps):
            groups = [(point.from_b if side else point.from_a).all for point in one.points]
            # Two probes beside each other: at equal alpha their intervals would cover one another.
            at = [point.alpha + 0.008 * number for point in one.points]
            low, high = zip(*(group.net_change_interval for group in groups), strict=True)
            panel.vlines(
                at, [100 * end for end in low], [100 * end for end in high], color=_COLORS[number], linewidth=1.5
            )
            panel.plot(
                at,
                [100 * group.net_change for group in groups],
                color=_COLORS[number],
                marker="os"[number],
                linestyle=("-", "--")[number],
                markerfacecolor="none" if number else _COLORS[number],
                markersize=5,
                linewidth=1.2,
                label=name_in(30, one.probe),
            )
        panel.axhline(0, color="#000000", linewidth=0.8)
        panel.set_title(f"net change against {name_in(30, sweep.ends[side])}, points", fontsize=11)
        panel.set_xlabel(f"alpha, the share of {name_in(30, sweep.ends[1])}", fontsize=10)
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, fontsize=9)
    return figure
