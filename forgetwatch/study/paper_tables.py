"""The paper's tables of a study: a row for each category, a column for each pair: value +- sd (ceiling), in percent.

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
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from forgetwatch.comparing import CategoryMeans, Spread
from forgetwatch.pairing import percent
from forgetwatch.report import escaped, table
from forgetwatch.study.pairs import Compared, Study
from forgetwatch.visible_text import csv_cell, visible

Rate = Literal["forgetting", "backward transfer"]

RATES: Final[tuple[Rate, ...]] = ("forgetting", "backward transfer")
TOTAL: Final = "Total"
"""Name of the row of all categories; a category may have the same name."""
NAMELESS: Final = "no category"
"""Name of the row of items without a category."""
NOT_THERE: Final = "–"

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


def tables_markdown(study: Study) -> str:
    """Markdown of the paper's tables of all stages."""
    lines = []
    for stage in study.plan.stages:
        if not (pairs := study.of_stage(stage)):
            continue
        for rate in RATES:
            names = [rate, *(escaped(one.pair.name) for one in pairs)]
            lines += [
                f"### {escaped(stage)}: {rate}, % ± sd (ceiling)",
                "",
                *table(names, rows(study, stage, rate)),
                "",
            ]
    return "\n".join(lines)


def tables_latex(study: Study) -> str:
    """LaTeX of the paper's tables of all stages, to be included in a document."""
    lines = [r"% needs \usepackage{booktabs} and \usepackage{graphicx}"]
    for stage in study.plan.stages:
        if not (pairs := study.of_stage(stage)):
            continue
        for rate in RATES:
            *body, last = rows(study, stage, rate)
            lines += [
                r"\begin{table}",
                rf"\caption{{{_latex(stage)}: {rate} in percent, $\pm$ standard deviation over seeds (ceiling).}}",
                r"\centering\resizebox{\textwidth}{!}{%",
                rf"\begin{{tabular}}{{l{'r' * len(pairs)}}}",
                r"\toprule",
                _latex_row(["category", *(one.pair.name for one in pairs)]),
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
