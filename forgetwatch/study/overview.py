"""The pairs of a study side by side: the terminal's table, and the rows of those in the page and in Markdown.

study_table      one row a pair, 80 columns
pair_cells       questions, flips, net change, known and lost, corrections for guessing
average_cells    what averages show, beside 1->0
"""

from __future__ import annotations

import math
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.measures import NOT_THERE, chance_rows
from forgetwatch.pairing import between, brief, count, fit_ends, percent, points
from forgetwatch.report import group_cells
from forgetwatch.study.pairs import Compared, Failed, Study

PAIR_HEADINGS: Final = {
    "n": "questions",
    "accuracy_before": "right before",
    "accuracy_after": "right after",
    "forgotten": "forgotten",
    "gained": "gained",
    "net_change": "net points",
    "known": "clearly known",
    "known_lost": "now lost",
    "known_lost_net": "less luck",
    "log_score_change_calibrated": "log score, nats",
    "unscored": "unscored",
    "one_sided": "on one side",
}
"""Heading of each column of the table of pairs."""

GUESSING_HEADINGS: Final = {
    "paper": "forgotten, paper",
    "paper_gained": "gained, paper",
    "guess_corrected": "forgotten, guess-corrected",
    "guess_corrected_gained": "gained, guess-corrected",
    "calibrated": "forgotten, calibrated",
    "calibrated_gained": "gained, calibrated",
}
"""Heading of each column of the table of corrections for guessing."""

AVERAGE_HEADINGS: Final = {
    "tasks": "tasks",
    "conventional": "averages show, %",
    "forgetting": "1→0, %",
    "forgotten": "forgotten",
    "fell": "in tasks that fell",
}
"""Heading of each column of the table on averages."""

_WIDTH: Final = 80
_NAME: Final = 24


def study_table(study: Study) -> Lines:
    """Table of all pairs for a console of 80 columns, under the names of their stages."""
    title = Text().append("forgetwatch  ", style="bold cyan")
    pairs = f"{count(len(study.plan.pairs))} pair{'' if len(study.plan.pairs) == 1 else 's'}"
    lines = [title.append(fit_ends(f"{study.plan.name}, {pairs}", _WIDTH - len(title)).rstrip(), style="bold")]
    heading = f"{'pair':<{_NAME}} {'forgotten':>9} {'gained':>7} {'net points':>22} {'shown':>6} {'1→0 %':>6}"
    lines.append(Text(heading, style="bold"))
    results = {one.pair.name: one for one in study.results}
    for stage in study.plan.stages:
        lines.append(Text(fit_ends(stage, _WIDTH).rstrip(), style="dim"))
        lines += [_line(results[pair.name]) for pair in study.plan.of_stage(stage)]
    if study.compared:
        lines.append(Text("shown: the part of 1→0 that the mean accuracies of the tasks show, %", style="dim"))
    if short := sum(any(_left_out(one)) for one in study.compared):
        pairs = f"{count(short)} pair{'' if short == 1 else 's'}"
        lines.append(Text(f"left out in {pairs}: questions unscored, or on one side alone", style="dim"))
    return Lines(*lines)


def _line(result: Compared | Failed) -> Text:
    name = f"  {fit_ends(result.pair.name, _NAME - 2)}"
    if isinstance(result, Failed):
        return Text(f"{name} not compared", style="red")
    whole, averages = result.comparison.all, result.averages
    net = f"{points(whole.net_change)} ({between(whole.net_change_interval, points)})"
    return Text(
        f"{name} {brief(whole.forgotten, 9):>9} {brief(whole.gained, 7):>7} {net:>22} "
        f"{percent(averages.conventional):>6} {percent(averages.forgetting):>6}"
    )


def pair_cells(one: Compared) -> dict[str, str]:
    """Text of each quantity in `PAIR_HEADINGS`."""
    unscored, one_sided = _left_out(one)
    cells = group_cells(one.comparison.all)
    cells |= {"unscored": count(unscored) if unscored else NOT_THERE}
    cells |= {"one_sided": count(one_sided) if one_sided else NOT_THERE}
    return {name: cells[name] for name in PAIR_HEADINGS}


def _left_out(one: Compared) -> tuple[int, int]:
    """Number of questions without an answer that could be graded, and of those that one side alone has."""
    counted = one.comparison.items
    return counted.unscored, counted.only_before + counted.only_after


def guessing_cells(one: Compared) -> dict[str, str]:
    """Text of each quantity in `GUESSING_HEADINGS`, in percent with its interval."""
    found = dict.fromkeys(GUESSING_HEADINGS, NOT_THERE)
    for name, lost, won, _ in chance_rows(one.comparison.all.chance, one.comparison.all.n):
        if (key := name.replace("-", "_")) in found:
            found |= {key: lost, f"{key}_gained": won}
    return found


def average_cells(one: Compared) -> dict[str, str]:
    """Text of each quantity in `AVERAGE_HEADINGS`."""
    averages = one.averages
    share = averages.in_tasks_that_fell / averages.forgotten if averages.forgotten else math.nan
    return {
        "tasks": count(averages.tasks),
        "conventional": percent(averages.conventional),
        "forgetting": percent(averages.forgetting),
        "forgotten": count(averages.forgotten),
        "fell": count(averages.in_tasks_that_fell) + ("" if math.isnan(share) else f" ({percent(share)} %)"),
    }
