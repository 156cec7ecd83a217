"""A sweep between two models for people and programs: the first table, its detail, page, Markdown, JSON and CSV.

    alpha     lost gained  net against base       lost gained  net against tuned
    0.2 *       12     10  -0.4 (-2.3 to +1.5)      31     24  -1.4 (-3.6 to +0.8)

The columns are those of both ends. An asterisk marks the front, if there is a target.
"""

from __future__ import annotations

import csv
import io
import json
import math
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.document import comparison_json, several_json
from forgetwatch.comparing.groups import Group
from forgetwatch.measures.base import MISSING_CELL, json_value
from forgetwatch.measures.flip_counts import net_change
from forgetwatch.measures.known_items import KNOWN, net_of_luck
from forgetwatch.merge.choice import Choice, KeptShare
from forgetwatch.merge.sweep import MergeSweep, ProbeSweep
from forgetwatch.report.cells import measure_tables
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.html import made_line, render
from forgetwatch.report.markdown import escaped, table
from forgetwatch.report.pictures import svg
from forgetwatch.report.plots import name_in
from forgetwatch.report.several_models import (
    ranking_figure,
    several_markdown,
    several_words,
    target_text,
)
from forgetwatch.report.terminal import note_lines
from forgetwatch.text import brief, count, fit_ends, items, percent
from forgetwatch.visible_text import csv_cell, without_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA: Final = "forgetwatch/merge@1"
_WIDTH: Final = 80
_LINES: Final = 12
_END: Final = 35
_FRONT: Final = "*"
_HEADINGS: Final = ("lost", "gained", "net points", "known and lost, less luck")
"""Headings of the columns of one end."""
_CURVES: Final = (
    "Curves: net change of each point against both models; the table below has the numbers."
)
_RANKING: Final = (
    "Share that each point kept of what the first model had right, against the target."
)
_COLORS: Final = ("#1f3b73", "#777777")


def merge_table(sweep: MergeSweep) -> Lines:
    """First table of a sweep, of at most 12 lines.

    As many points as fit, and one line each for what else there is.
    """
    title = Text().append("forgetwatch  ", style="bold cyan")
    facts = f"  {sweep.method}, {_short(sweep.chosen_on.probe)}, {items(sweep.chosen_on.n)}"
    room = _WIDTH - len(title) - len(facts)
    title.append(fit_ends(f"merge {' and '.join(sweep.ends)}", room).rstrip(), style="bold").append(
        facts, style="dim"
    )
    notes = note_lines(sweep.notes, 1)
    most_rows = _LINES - 4 - sum(map(bool, (sweep.targets, notes)))
    rows_listed = there if (there := len(sweep.chosen_on.points)) <= most_rows else most_rows - 1
    lines = [title, *_rows(sweep, sweep.chosen_on, rows_listed)]
    if there > rows_listed:
        lines.append(Text(f"{there - rows_listed} more; --detail has all", style="dim"))
    return Lines(*lines, Text(distance_sentence(sweep), style="dim"), *notes)


def merge_detail(sweep: MergeSweep) -> Lines:
    """All points on each probe, known losses, and layer distances."""
    lines: list[Text] = []
    for probe_sweep in sweep.everywhere.values():
        lines += [
            Text(f"{probe_sweep.probe}, {items(probe_sweep.n)}", style="bold"),
            *_rows(sweep, probe_sweep, len(probe_sweep.points)),
        ]
        lines.append(Text("known and lost, less luck", style="bold"))
        for point in probe_sweep.points:
            known_cells = (f"{_lost_net(end.all):<{_END}}" for end in point.ends)
            lines.append(Text(f"{f'{point.alpha:g}':<8}{''.join(known_cells)}".rstrip()))
        lines.append(Text())
    lines += [Text("distance of the weights, relative to the first model's", style="bold")]
    lines += [Text(f"{fit_ends(name, 50)} {distances}") for name, distances in distance_rows(sweep)]
    return Lines(
        *lines, *(Text(sentence, style="dim") for sentence in [*merge_words(sweep), *sweep.notes])
    )


def _rows(sweep: MergeSweep, probe_sweep: ProbeSweep, most_rows: int) -> list[Text]:
    has_target = bool(sweep.targets) and probe_sweep is sweep.chosen_on
    ends = "".join(f"{fit_ends(f'against {_short(end)}', _END - 1):<{_END}}" for end in sweep.ends)
    heads = f"{'lost':>5}{'gained':>7} {'net points':<{_END - 13}}" * 2
    lines = [
        Text(f"{'':<8}{ends}".rstrip(), style="bold"),
        Text(f"{'alpha':<8}{heads}".rstrip(), style="bold"),
    ]
    for point in probe_sweep.points[:most_rows]:
        front = _FRONT if has_target and sweep.targets[point.alpha][1] else ""
        cells = "".join(
            f"{brief(end.all.forgotten, 5):>5}{brief(end.all.gained, 6):>7} "
            f"{net_change(end.all):<{_END - 13}}"
            for end in point.ends
        )
        lines.append(Text(f"{f'{point.alpha:g} {front}':<8}{cells}".rstrip()))
    if has_target and sweep.ranking.target is not None:
        texts = [
            target_text(sweep.targets[point.alpha][0]) for point in probe_sweep.points[:most_rows]
        ]
        values = f": {', '.join(texts)}"
        legend = f"; {_FRONT} the front"
        name = fit_ends(
            sweep.ranking.target.name, max(_WIDTH - len(values) - len(legend), 20)
        ).strip()
        lines += map(Text, wrap(f"{name}{values}{legend}", _WIDTH))
    return lines


def _short(name: str, width: int = 20) -> str:
    return fit_ends(name, width).strip()


def distance_sentence(sweep: MergeSweep) -> str:
    """Sentence on how far apart the two models' weights are."""
    distance = sweep.distance
    share, base = (
        100 * distance.overall,
        _short(sweep.ends[0], 12 if sweep.method == "slerp" else 20),
    )
    sentence = (
        f"weights {f'{share:.2g}' if share < 100 else f'{share:.0f}'} % of {base}'s norm apart"
    )
    if math.isnan(share):
        sentence = f"the distance of the weights from {base}'s is unknown"
    if sweep.method == "slerp":
        sentence += (
            f"; slerp: {distance.tensors - distance.turned} of {distance.tensors} tensors linear"
        )
    return sentence


def distance_rows(sweep: MergeSweep) -> list[list[str]]:
    """Rows of the table of distances.

    Layer, and distance relative to the norm of the layer; a dash where unknown.
    """
    layers = sweep.distance.layers.items()
    return [[name, MISSING_CELL if math.isnan(value) else f"{value:.5f}"] for name, value in layers]


def merge_words(sweep: MergeSweep) -> list[str]:
    """Sentences on how to read the table, and on what is not decided."""
    a, b = sweep.ends
    words = [
        f"Alpha is the share of {b}: 0 is {a}, 1 is {b}. Lost and gained count questions, "
        "against the model that heads the columns; brackets hold 95 % intervals.",
        "The table prefers no point. One that looks best among several owes a part of that to "
        "chance, the more so the "
        "more points there are: its numbers on a probe on which nothing was chosen do not.",
    ]
    if sweep.method == "slerp":
        words += ["Where two versions of a tensor are nearly parallel, slerp is linear."]
    if sweep.targets:
        words.append(
            f"{_FRONT} The front: no other point is at least as good in both what is kept of "
            f"{a} on {sweep.chosen_on.probe} and the target, and better in one."
        )
    return words


def merge_markdown(sweep: MergeSweep) -> str:
    """Markdown of a sweep."""
    a, b = map(escaped, sweep.ends)
    lines = [
        f"# Between {a} and {b}, {sweep.method}",
        "",
        *(escaped(sentence) for sentence in merge_words(sweep)),
        "",
    ]
    for probe_sweep in sweep.everywhere.values():
        lines += [
            f"## {escaped(probe_sweep.probe)}, {items(probe_sweep.n)}",
            "",
            *table(*sweep_table(sweep, probe_sweep)),
            "",
        ]
    for probe_sweep in sweep.everywhere.values():
        for title, headings, rows in _measure_tables(sweep, probe_sweep):
            lines += [f"## {title}, {escaped(probe_sweep.probe)}", "", *table(headings, rows), ""]
    lines += [f"{escaped(distance_sentence(sweep))}.", ""]
    lines += [*table(["layer", "relative distance"], distance_rows(sweep)), ""]
    if sweep.ranking.target is not None:
        lines += [several_markdown(sweep.ranking).replace("# ", "## ", 1)]
    return "\n".join([*lines, *(f"* {escaped(note)}" for note in sweep.notes)]).rstrip() + "\n"


def sweep_table(sweep: MergeSweep, probe_sweep: ProbeSweep) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the points on one probe."""
    headings = ["alpha", "right %"]
    headings += [f"{name}, against {_short(end)}" for end in sweep.ends for name in _HEADINGS]
    rows = []
    for point in probe_sweep.points:
        cells = [f"{point.alpha:g}", percent(point.from_a.all.accuracy_after)]
        for group in (end.all for end in point.ends):
            cells += [
                count(group.forgotten),
                count(group.gained),
                net_change(group),
                _lost_net(group),
            ]
        rows.append(cells)
    return headings, rows


def _measure_tables(
    sweep: MergeSweep, probe_sweep: ProbeSweep
) -> list[tuple[str, list[str], list[list[str]]]]:
    # A row for each point and end.
    return measure_tables(
        [
            (f"{point.alpha:g}, against {_short(name)}", point.ends[side])
            for side, name in enumerate(sweep.ends)
            for point in probe_sweep.points
        ]
    )


def side_by_side(sweep: MergeSweep) -> tuple[list[str], list[list[str]]]:
    """Net change of each point on both probes, side by side."""
    headings = [
        "alpha",
        *(
            f"against {_short(end)}, on {probe_sweep.probe}"
            for end in sweep.ends
            for probe_sweep in sweep.sweeps
        ),
    ]
    rows = []
    for number, point in enumerate(sweep.chosen_on.points):
        ends = zip(*(probe_sweep.points[number].ends for probe_sweep in sweep.sweeps), strict=True)
        rows.append(
            [
                f"{point.alpha:g}",
                *(net_change(comparison.all) for of_end in ends for comparison in of_end),
            ]
        )
    if sweep.ranking.target is not None:
        headings += [sweep.ranking.target.name, "front"]
        for row, point in zip(rows, sweep.chosen_on.points, strict=True):
            value, is_front = sweep.targets[point.alpha]
            row += [target_text(value), _FRONT if is_front else ""]
    return headings, rows


def merge_json(sweep: MergeSweep) -> dict[str, Any]:
    """JSON document of a sweep; undefined quantities are null."""
    return {
        "schema": SCHEMA,
        "a": sweep.ends[0],
        "b": sweep.ends[1],
        "method": sweep.method,
        "probes": [
            {
                "part": probe_part,
                "probe": probe_sweep.probe,
                "points": [
                    {
                        "alpha": at.alpha,
                        "from_a": comparison_json(at.from_a),
                        "from_b": comparison_json(at.from_b),
                    }
                    for at in probe_sweep.points
                ],
            }
            for probe_part, probe_sweep in sweep.everywhere.items()
        ],
        **several_json(sweep.ranking),
        "distance": json_value(vars(sweep.distance)),
        "notes": list(sweep.notes),
        "kept": None if sweep.kept is None else str(sweep.kept),
    }


def choice_json(choice: Choice) -> dict[str, Any]:
    """JSON values of the point that a limit chooses."""
    return {
        "keep_known": choice.limit,
        "alpha": choice.alpha,
        **{name: _kept_json(getattr(choice, name)) for name in ("chosen", "confirmed")},
        "outcome": choice.outcome,
    }


def _kept_json(share: KeptShare | None) -> dict[str, Any] | None:
    return None if share is None else {"probe": share.probe, **json_value(vars(share.kept))}


def merge_csv(sweep: MergeSweep) -> str:
    """CSV table with a line for each probe, point, end and group."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = []
    for probe_sweep in sweep.everywhere.values():
        for point in probe_sweep.points:
            for comparison in point.ends:
                headings, *lines = csv.reader(io.StringIO(comparisons_csv([comparison])))
                rows += [[csv_cell(probe_sweep.probe), f"{point.alpha:g}", *line] for line in lines]
    writer.writerows([["probe", "alpha", *headings], *rows])
    return text.getvalue()


def _lost_net(group: Group) -> str:
    # A dash where it is not measured.
    return str(net_of_luck(group[KNOWN]) or MISSING_CELL)


def merge_report(sweep: MergeSweep, suffix: str) -> str:
    """Text of a report in the format of a suffix.

    .html, .md, .csv or .json.
    """
    makers = {".html": merge_page, ".md": merge_markdown, ".csv": merge_csv}
    if suffix in makers:
        return makers[suffix](sweep)
    return json.dumps(merge_json(sweep), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def merge_page(sweep: MergeSweep) -> str:
    """Page of a sweep, as text."""
    distance, ranking = distance_sentence(sweep), None
    if sweep.ranking.target is not None:
        ranking = {
            "words": several_words(sweep.ranking),
            "picture": svg(lambda: ranking_figure(sweep.ranking), name="ranking", label=_RANKING),
            "caption": f"Kept on {sweep.chosen_on.probe}, against {sweep.ranking.target.name}.",
        }
    return render(
        "merge.html",
        a=sweep.ends[0],
        b=sweep.ends[1],
        facts=", ".join(
            [
                sweep.method,
                *(f"{probe_sweep.probe} ({items(probe_sweep.n)})" for probe_sweep in sweep.sweeps),
            ]
        ),
        words=merge_words(sweep),
        curves=svg(lambda: merge_figure(sweep), name="merge", label=_CURVES),
        confirmed=sweep.confirmed_on is not None,
        both=side_by_side(sweep),
        probes=[
            (probe_sweep.probe, *sweep_table(sweep, probe_sweep))
            for probe_sweep in sweep.everywhere.values()
        ],
        measures=[
            (probe_sweep.probe, *measure_table)
            for probe_sweep in sweep.everywhere.values()
            for measure_table in _measure_tables(sweep, probe_sweep)
        ],
        ranking=ranking,
        distance=f"{distance[0].upper()}{distance[1:]}.",
        layers=distance_rows(sweep),
        notes=[without_folders(note) for note in sweep.notes],
        made=made_line(),
    )


def merge_figure(sweep: MergeSweep) -> Figure:
    """Figure of the net change against alpha.

    In points; one panel for each end, one curve for each probe.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for side, panel in enumerate(panels):
        for number, probe_sweep in enumerate(sweep.sweeps):
            groups = [point.ends[side].all for point in probe_sweep.points]
            # Two probes beside each other: at equal alpha their intervals would cover one another.
            at = [point.alpha + 0.008 * number for point in probe_sweep.points]
            low, high = zip(*(group.net_change_interval for group in groups), strict=True)
            color = _COLORS[number]
            panel.vlines(
                at,
                [100 * end for end in low],
                [100 * end for end in high],
                color=color,
                linewidth=1.5,
            )
            style = {
                "marker": "os"[number],
                "linestyle": ("-", "--")[number],
                "linewidth": 1.2,
                "markersize": 5,
            }
            fill = "none" if number else color
            changes = [100 * group.net_change for group in groups]
            panel.plot(
                at,
                changes,
                color=color,
                markerfacecolor=fill,
                label=name_in(30, probe_sweep.probe),
                **style,
            )
        panel.axhline(0, color="#000000", linewidth=0.8)
        panel.set_title(f"net change against {name_in(30, sweep.ends[side])}, points", fontsize=11)
        panel.set_xlabel(f"alpha, the share of {name_in(30, sweep.ends[1])}", fontsize=10)
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, fontsize=9)
    return figure
