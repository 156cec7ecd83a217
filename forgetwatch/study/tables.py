"""Tables of a study: the pairs side by side, and the paper's, with a row for each category.

study_table      one row a pair, 80 columns, for the terminal
*_cells          questions, flips and known and lost of a pair; corrections for guessing; what averages show beside 1->0
rows             a table of the paper, a column for each pair: value +- sd (ceiling), in percent

    forgetting     llama-3.1-8b        mistral-7b
    Math           4.1 ± 0.2 (23.0)    7.9 ± 0.4 (17.5)
    Total          5.0 ± 0.1 (29.4)    8.7 ± 0.3 (22.0)

Values are the chance-adjusted rates of arXiv 2510.17776, averaged over the tasks of a category, then over categories;
sd is the sample deviation over seeds and is left out for one. The ceiling is what the value can be at most by the
paper's model of guessing, averaged in the same way. Negative means are shown as 0; the JSON document keeps them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import CategoryMeans, Spread
from forgetwatch.measures import NOT_THERE, chance_rows
from forgetwatch.pairing import between, brief, count, fit_ends, percent, points
from forgetwatch.report import escaped, group_cells, table
from forgetwatch.study.pairs import Compared, Failed, Study
from forgetwatch.visible_text import csv_cell, visible

Rate = Literal["forgetting", "backward transfer"]

RATES: Final[tuple[Rate, ...]] = ("forgetting", "backward transfer")
TOTAL: Final = "Total"
"""Name of the row of all categories; a category may have the same name."""
NAMELESS: Final = "no category"
"""Name of the row of items without a category."""

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\to$",
    "±": r"$\pm$",
    "–": "--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # After the end of a row or a rule these would begin its argument.
    "[": "{[}",
    "*": "{*}",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}
"""Characters that LaTeX would obey, or lacks in its older engines."""

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


class Value(NamedTuple):
    """One cell of a table: fractions, over seeds."""

    rate: Spread
    ceiling: Spread

    @property
    def text(self) -> str:
        """The cell as text in percent, such as ``5.0 ± 0.1 (29.4)``."""
        if math.isnan(self.rate.mean):
            return NOT_THERE
        sd = "" if math.isnan(self.rate.sd) else f" ± {percent(self.rate.sd)}"
        return f"{percent(shown(self.rate.mean))}{sd} ({percent(shown(self.ceiling.mean))})"


def shown(rate: float) -> float:
    """Rate as tables and figures show it: not below 0; nan stays nan."""
    return rate if math.isnan(rate) else max(rate, 0.0)


def values(means: CategoryMeans, rate: Rate) -> dict[str, Value]:
    """Value of each category."""
    which = RATES.index(rate)
    return {
        name: Value(rates[which], means.ceilings_by_category[name][which]) for name, rates in means.by_category.items()
    }


def total(means: CategoryMeans, rate: Rate) -> Value:
    """Value of all categories: the mean over them."""
    which = RATES.index(rate)
    return Value((means.forgetting, means.backward_transfer)[which], means.ceilings[which])


def categories(pairs: Sequence[Compared]) -> list[str]:
    """Categories that some pair has, in the order in which they are met."""
    return list(dict.fromkeys(name for one in pairs for name in one.means.by_category))


def rows(study: Study, stage: str, rate: Rate) -> list[list[str]]:
    """Rows of the table of a stage: a category's name and the text of each pair, in one order in all stages."""
    pairs = study.of_stage(stage)
    of_pairs = [values(one.means, rate) for one in pairs]
    there = {name for found in of_pairs for name in found}
    body = [
        [name or NAMELESS, *(found[name].text if name in found else NOT_THERE for found in of_pairs)]
        for name in categories(study.compared)
        if name in there
    ]
    return [*body, [TOTAL, *(total(one.means, rate).text for one in pairs)]]


def _tables(study: Study) -> Iterator[tuple[str, Rate, list[str]]]:
    """Stage, rate and names of the pairs of each of the paper's tables."""
    for stage in study.plan.stages:
        if names := [one.pair.name for one in study.of_stage(stage)]:
            yield from ((stage, rate, names) for rate in RATES)


def tables_markdown(study: Study) -> str:
    """Markdown of the paper's tables of all stages."""
    lines = []
    for stage, rate, names in _tables(study):
        heading = f"### {escaped(stage)}: {rate}, % ± sd (ceiling)"
        lines += [heading, "", *table([rate, *map(escaped, names)], rows(study, stage, rate)), ""]
    return "\n".join(lines)


def tables_latex(study: Study) -> str:
    """LaTeX of the paper's tables of all stages, to be included in a document."""
    lines = [r"% needs \usepackage{booktabs} and \usepackage{graphicx}"]
    for stage, rate, names in _tables(study):
        *body, last = rows(study, stage, rate)
        lines += [
            r"\begin{table}",
            rf"\caption{{{_latex(stage)}: {rate} in percent, $\pm$ standard deviation over seeds (ceiling).}}",
            r"\centering\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
            r"\toprule",
            _latex_row(["category", *names]),
            r"\midrule",
            *map(_latex_row, body),
            r"\midrule",
            _latex_row(last),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    return "\n".join(lines) + "\n"


def tables_csv(study: Study) -> str:
    """CSV of the paper's tables: a row for each stage, pair, rate and category, as fractions, not cut off at 0.

    The column `level` is ``category``, or ``all`` in the rows of the totals.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["stage", "pair", "rate", "level", "category", "mean", "sd", "ceiling"])
    for one in study.compared:
        for rate in RATES:
            of_categories = [("category", name, value) for name, value in values(one.means, rate).items()]
            for level, name, value in [*of_categories, ("all", TOTAL, total(one.means, rate))]:
                numbers = (value.rate.mean, value.rate.sd, value.ceiling.mean)
                cells = ["" if math.isnan(number) else number for number in numbers]
                first = [csv_cell(one.pair.stage), csv_cell(one.pair.name), rate, level, csv_cell(name)]
                writer.writerow([*first, *cells])
    return text.getvalue()


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    """Text in one line that LaTeX shows unchanged."""
    line = visible(" ".join(text.split()))
    return re.sub(f"[{re.escape(''.join(_LATEX))}]", lambda found: _LATEX[found[0]], line)
