"""The paper's tables: a row for each category, a column for each pair; as texts, and in LaTeX.

    forgetting     llama-3.1-8b        mistral-7b
    Math           4.1 ± 0.2 (23.0)    7.9 ± 0.4 (17.5)
    Total          5.0 ± 0.1 (29.4)    8.7 ± 0.3 (22.0)

Values are the chance-adjusted rates of arXiv 2510.17776, averaged over the tasks of a category,
then over categories; sd is the sample deviation over seeds and is left out for one. The ceiling is
what the value can be at most by the paper's model of guessing, averaged in the same way. Each
task's value is clipped at 0 for each seed before any mean, as in the paper; the trends are of the
means that are not clipped.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from forgetwatch.measures.base import MISSING_CELL
from forgetwatch.report.html import made_line
from forgetwatch.study.pairs import RATES, Rate, Study
from forgetwatch.text import (
    one_line,
)
from forgetwatch.visible_text import visible

NAMELESS: Final = "no category"
"""Name of the items without a category."""

TOTAL: Final = "Total"
"""Name of the row of all categories; a category may have the same name."""


def rows(study: Study, stage: str, rate: Rate) -> list[list[str]]:
    """Rows of the table of a stage.

    A category's name and the text of each pair, in one order in all stages.
    """
    pairs = study.of_stage(stage)
    of_pairs = [pair.values(rate) for pair in pairs]
    body = [
        [
            name or NAMELESS,
            *(values[name].text if name in values else MISSING_CELL for values in of_pairs),
        ]
        for name in study.categories
        if any(name in values for values in of_pairs)
    ]
    return [*body, [TOTAL, *(pair.total(rate).text for pair in pairs)]]


def _tables(study: Study) -> Iterator[tuple[str, Rate, list[str]]]:
    for stage in study.plan.stages:
        if names := [result.pair.name for result in study.of_stage(stage)]:
            yield from ((stage, rate, names) for rate in RATES)


def study_latex(study: Study) -> str:
    """Tables of the paper in LaTeX, for the package booktabs.

    A stage and a rate each, value +- sd (ceiling).
    """
    lines = [f"% {one_line(visible(study.plan.name))}, {made_line()}"]
    parts = [
        (stage, rate, slice(start, start + _TEX_PAIRS), names)
        for stage, rate, names in _tables(study)
        for start in range(0, len(names), _TEX_PAIRS)
    ]
    for stage, rate, columns, table_rows in parts:
        names = table_rows[columns]
        body = [[name, *cells[columns]] for name, *cells in rows(study, stage, rate)]
        lines += [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{_tex(stage)}: {rate}, \%, and its ceiling}}",
        ]
        lines += [
            rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
            r"\toprule",
            _tex_row(["", *names]),
            r"\midrule",
        ]
        lines += [*map(_tex_row, body[:-1]), r"\midrule", _tex_row(body[-1])]
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


_TEX_PAIRS: Final = 6
"""Pairs beside each other that fit a page."""


_TEX: Final = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
    },
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "→": r"$\rightarrow$"},
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in visible(text))


def _tex_row(cells: Sequence[str]) -> str:
    # A row that begins with a bracket or a star would be an argument of the line before it.
    return ("{}" if cells[0][:1] in ("[", "*") else "") + " & ".join(map(_tex, cells)) + r" \\"
