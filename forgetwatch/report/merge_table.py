"""A sweep between two models as text: the first table, its detail, Markdown, JSON and CSV.

    alpha     lost gained  net against base       lost gained  net against tuned
    0.2 *       12     10  -0.4 (-2.3 to +1.5)      31     24  -1.4 (-3.6 to +0.8)

The columns are those of both ends. An asterisk marks the front, if there is a target. The table prefers no point:
below it are the same numbers on the second probe.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import Comparison, Group, MergeSweep, ProbeSweep
from forgetwatch.measures import KNOWN, NOT_THERE, json_value, net_change
from forgetwatch.pairing import brief, count, fit_ends, items, percent, points
from forgetwatch.report.export import comparison_json, comparisons_csv, several_json
from forgetwatch.report.markdown import escaped, table
from forgetwatch.report.ranking_table import several_markdown, target_text
from forgetwatch.report.terminal import note_lines
from forgetwatch.visible_text import csv_cell

SCHEMA: Final = "forgetwatch/merge@1"
_WIDTH: Final = 80
_LINES: Final = 12
_END: Final = 35
_FRONT: Final = "*"
HEADINGS: Final = ("lost", "gained", "net points", "known and lost, less luck")
"""Headings of the columns of one end."""


def merge_table(sweep: MergeSweep) -> Lines:
    """First table of a sweep, of at most 12 lines: as many points as fit, and one line each for what else there is."""
    title = Text().append("forgetwatch  ", style="bold cyan")
    facts = f"  {sweep.method}, {_short(sweep.chosen_on.probe)}, {items(sweep.chosen_on.n)}"
    room = _WIDTH - len(title) - len(facts)
    title.append(fit_ends(f"merge {' and '.join(sweep.ends)}", room).rstrip(), style="bold").append(facts, style="dim")
    notes = note_lines(sweep.notes, 1)
    rest = [sweep.targets, sweep.confirmed_on, notes]
    most, there = _LINES - 4 - sum(map(bool, rest)), len(sweep.chosen_on.points)
    shown = there if there <= most else most - 1
    lines = [title, *_rows(sweep, sweep.chosen_on, shown)]
    if there > shown:
        lines.append(Text(f"{there - shown} more; --detail has all", style="dim"))
    if sweep.confirmed_on is not None:
        nets = ", ".join(points(point.from_a.all.net_change) for point in sweep.confirmed_on.points[:shown])
        name = f"net against {_short(sweep.ends[0])} on {_short(sweep.confirmed_on.probe)}"
        if len(name) + len(nets) + 2 > _WIDTH:
            name = fit_ends(f"net on {sweep.confirmed_on.probe}", _WIDTH - len(nets) - 2).strip()
        lines.append(Text(f"{name}: {nets}"))
    return Lines(*lines, Text(distance_sentence(sweep), style="dim"), *notes)


def merge_detail(sweep: MergeSweep) -> Lines:
    """All points on each probe, what was lost of the clearly known, and the distance of each layer."""
    lines: list[Text] = []
    for one in sweep.everywhere.values():
        lines += [Text(f"{one.probe}, {items(one.n)}", style="bold"), *_rows(sweep, one, len(one.points))]
        lines.append(Text("known and lost, less luck", style="bold"))
        for point in one.points:
            known = (f"{_known_lost_net(group):<{_END}}" for group in (point.from_a.all, point.from_b.all))
            lines.append(Text(f"{f'{point.alpha:g}':<8}{''.join(known)}".rstrip()))
        lines.append(Text())
    lines += [Text("distance of the weights, relative to the first model's", style="bold")]
    lines += [Text(f"{fit_ends(name, 50)} {text}") for name, text in distance_rows(sweep)]
    return Lines(*lines, *(Text(sentence, style="dim") for sentence in [*merge_words(sweep), *sweep.notes]))


def _rows(sweep: MergeSweep, one: ProbeSweep, most: int) -> list[Text]:
    """Headings and one line for each point."""
    has_target = bool(sweep.targets) and one is sweep.chosen_on
    ends = "".join(f"{fit_ends(f'against {_short(end)}', _END - 1):<{_END}}" for end in sweep.ends)
    heads = f"{'lost':>5}{'gained':>7} {'net points':<{_END - 13}}" * 2
    lines = [Text(f"{'':<8}{ends}".rstrip(), style="bold"), Text(f"{'alpha':<8}{heads}".rstrip(), style="bold")]
    for point in one.points[:most]:
        front = _FRONT if has_target and sweep.targets[point.alpha][1] else ""
        cells = "".join(
            f"{brief(group.forgotten, 5):>5}{brief(group.gained, 6):>7} {net_change(group):<{_END - 13}}"
            for group in (point.from_a.all, point.from_b.all)
        )
        lines.append(Text(f"{f'{point.alpha:g} {front}':<8}{cells}".rstrip()))
    if has_target and sweep.ranking.target is not None:
        values = f": {', '.join(target_text(sweep.targets[point.alpha][0]) for point in one.points[:most])}"
        legend = f"; {_FRONT} the front"
        name = fit_ends(sweep.ranking.target.name, _WIDTH - len(values) - len(legend)).strip()
        lines.append(Text(f"{name}{values}{legend}"))
    return lines


def _short(name: str, width: int = 20) -> str:
    return fit_ends(name, width).strip()


def distance_sentence(sweep: MergeSweep) -> str:
    """Sentence on how far apart the weights of the two models are."""
    found = sweep.distance
    share, base = 100 * found.overall, _short(sweep.ends[0], 12 if sweep.method == "slerp" else 20)
    sentence = f"weights {f'{share:.2g}' if share < 100 else f'{share:.0f}'} % of {base}'s norm apart"
    if math.isnan(share):
        sentence = f"the distance of the weights from {base}'s is unknown"
    if sweep.method == "slerp":
        sentence += f"; slerp: {found.tensors - found.turned} of {found.tensors} tensors linear"
    return sentence


def distance_rows(sweep: MergeSweep) -> list[list[str]]:
    """Rows of the table of distances: layer, distance relative to its norm; a dash where it is unknown."""
    layers = sweep.distance.layers.items()
    return [[name, NOT_THERE if math.isnan(value) else f"{value:.5f}"] for name, value in layers]


def merge_words(sweep: MergeSweep) -> list[str]:
    """Sentences on how to read the table, and on what it does not decide."""
    a, b = sweep.ends
    words = [
        f"Alpha is the share of {b}: 0 is {a}, 1 is {b}. Lost and gained count questions, against the model that heads "
        "the columns; brackets hold 95 % intervals.",
        "The table prefers no point. One that looks best among several owes a part of that to chance, the more so the "
        "more points there are: its numbers on a probe on which nothing was chosen do not.",
    ]
    if sweep.method == "slerp":
        words.append(
            "Slerp is linear in a tensor whose versions are nearly parallel, since the angle says nothing there."
        )
    if sweep.targets:
        words.append(
            f"{_FRONT} The front: no other point is at least as good in both what is kept of {a} on "
            f"{sweep.chosen_on.probe} and the target, and better in one."
        )
    return words


def merge_markdown(sweep: MergeSweep) -> str:
    """Markdown of a sweep: both probes, the distance, and the ranking if there is a target."""
    a, b = map(escaped, sweep.ends)
    lines = [f"# Between {a} and {b}, {sweep.method}", "", *(escaped(one) for one in merge_words(sweep)), ""]
    for one in sweep.everywhere.values():
        lines += [f"## {escaped(one.probe)}, {items(one.n)}", "", *table(*sweep_table(sweep, one)), ""]
    lines += [f"{escaped(distance_sentence(sweep))}.", ""]
    lines += [*table(["layer", "relative distance"], distance_rows(sweep)), ""]
    if sweep.ranking.target is not None:
        lines += [several_markdown(sweep.ranking).replace("# ", "## ", 1)]
    return "\n".join([*lines, *(f"* {escaped(note)}" for note in sweep.notes)]).rstrip() + "\n"


def sweep_table(sweep: MergeSweep, one: ProbeSweep) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the points on one probe."""
    headings = ["alpha", "right %"]
    headings += [f"{name}, against {_short(end)}" for end in sweep.ends for name in HEADINGS]
    rows = []
    for point in one.points:
        cells = [f"{point.alpha:g}", percent(point.from_a.all.accuracy_after)]
        for group in (point.from_a.all, point.from_b.all):
            cells += [count(group.forgotten), count(group.gained), net_change(group), _known_lost_net(group)]
        rows.append(cells)
    return headings, rows


def side_by_side(sweep: MergeSweep) -> tuple[list[str], list[list[str]]]:
    """Headings and rows with the net change of each point on both probes, next to each other."""
    headings = ["alpha", *(f"against {_short(end)}, on {one.probe}" for end in sweep.ends for one in sweep.sweeps)]
    rows = []
    for number, point in enumerate(sweep.chosen_on.points):
        both = [one.points[number] for one in sweep.sweeps]
        groups = [*(one.from_a.all for one in both), *(one.from_b.all for one in both)]
        rows.append([f"{point.alpha:g}", *map(net_change, groups)])
    if sweep.ranking.target is not None:
        headings += [sweep.ranking.target.name, "front"]
        for row, point in zip(rows, sweep.chosen_on.points, strict=True):
            value, is_front = sweep.targets[point.alpha]
            row += [target_text(value), _FRONT if is_front else ""]
    return headings, rows


def merge_json(sweep: MergeSweep) -> dict[str, Any]:
    """JSON document of a sweep; undefined quantities are null."""
    found = sweep.distance
    return {
        "schema": SCHEMA,
        "a": sweep.ends[0],
        "b": sweep.ends[1],
        "method": sweep.method,
        "probes": [
            {
                "part": part,
                "probe": one.probe,
                "points": [
                    {
                        "alpha": point.alpha,
                        "from_a": comparison_json(point.from_a),
                        "from_b": comparison_json(point.from_b),
                    }
                    for point in one.points
                ],
            }
            for part, one in sweep.everywhere.items()
        ],
        **several_json(sweep.ranking),
        "distance": json_value(
            {"overall": found.overall, "layers": dict(found.layers), "tensors": found.tensors, "turned": found.turned}
        ),
        "notes": list(sweep.notes),
        "kept": None if sweep.kept is None else str(sweep.kept),
    }


def merge_csv(sweep: MergeSweep) -> str:
    """CSV table with a line for each probe, point, end and group, and a column for each quantity."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["probe", "alpha", *_csv_rows(sweep.chosen_on.points[0].from_a)[0]])
    for one in sweep.everywhere.values():
        for point in one.points:
            for comparison in point.ends:
                for row in _csv_rows(comparison)[1:]:
                    writer.writerow([csv_cell(one.probe), f"{point.alpha:g}", *row])
    return text.getvalue()


def _csv_rows(comparison: Comparison) -> Sequence[list[str]]:
    return list(csv.reader(io.StringIO(comparisons_csv([comparison]))))


def _known_lost_net(group: Group) -> str:
    """Known and lost items less luck with their interval; a dash where that is not measured."""
    return KNOWN.cells(group[KNOWN]).get("known_lost_net", NOT_THERE)
