"""Outputs of a study: a table for the terminal, a JSON document, a page, Markdown, a CSV table.

    study.json        forgetwatch/study@1: every number, and the pairs that could not be compared
    study.html        one page that opens from disk
    study.md          the same tables in Markdown
    study.csv         one table: a row for each pair, with what the file says of it and its numbers
    study.tex         the paper's tables in LaTeX (booktabs), if they are asked for

None holds a question or an answer. Undefined numbers are null in JSON and empty in CSV.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.document import causes_json
from forgetwatch.comparing.groups import group_values
from forgetwatch.files.writing import write_text
from forgetwatch.measures.base import MISSING_CELL, json_value
from forgetwatch.measures.base_drift import drift_json
from forgetwatch.measures.chance import chance_rows
from forgetwatch.metrics.trend import Slope
from forgetwatch.report.cells import group_cells, measure_tables
from forgetwatch.report.html import made_line, render
from forgetwatch.report.markdown import escaped, table
from forgetwatch.study.factors import Finding, Trend, findings, not_asked, trends
from forgetwatch.study.pair_rows import _map_json, study_csv
from forgetwatch.study.pairs import RATES, Compared, Failed, Study, Value
from forgetwatch.study.paper_tables import _tables, rows, study_latex
from forgetwatch.text import (
    between,
    brief,
    count,
    fit_ends,
    listed,
    percent,
    points,
    short_name,
)
from forgetwatch.visible_text import without_folders

SCHEMA: Final = "forgetwatch/study@1"


PAGE: Final = "study.html"


_RULES: Final = {
    "own": "Each question counts with its own number of options; “What it goes with” takes means of values that are "
    "not cut off.",
    "paper-compat": "As in the paper's released code, all questions of a task have one number of options, and some "
    "tasks are left out.",
}


_OF_TASK: Final = ("name", "n", "forgotten", "gained", "accuracy_before", "accuracy_after")


_PAIR_HEADINGS: Final = {
    "n": "questions",
    "accuracy_before": "right before",
    "accuracy_after": "right after",
    "forgotten": "forgotten",
    "gained": "gained",
    "net": "net change, points",
    "worst": "fell most, points",
    "known_net": "clearly known",
    "known_lost_net": "now lost",
    "unscored": "unscored",
    "one_sided": "on one side",
}


_GUESSING_HEADINGS: Final = {
    f"{key}{end}": f"{column}, {key.replace('_', '-')}"
    for key in ("paper", "guess_corrected")
    for end, column in (("", "forgotten"), ("_gained", "gained"))
}


_AVERAGE_HEADINGS: Final = {
    "tasks": "tasks",
    "conventional": "averages show, %",
    "forgetting": "1→0, %",
    "forgotten": "forgotten",
    "fell": "in tasks that fell",
}


_CAUSE_HEADINGS: Final = {
    "answer": "what it lost",
    "sure": "how sure it was explains, %",
    "near": "nearness explains, %",
}
"""Headings of the columns of the tables of pairs, by the name of their quantity."""


_WIDTH: Final = 80


_NAME: Final = 24


def write_numbers(study: Study, folder: Path, *, with_latex: bool = False) -> None:
    """Write all numbers of a study, and its page."""
    document = json.dumps(study_json(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "study.json", document)
    write_text(folder / "study.csv", study_csv(study))
    write_text(folder / "study.md", study_markdown(study))
    if with_latex:
        write_text(folder / "study.tex", study_latex(study))
    else:
        (folder / "study.tex").unlink(missing_ok=True)  # that of other numbers
    write_text(folder / PAGE, _page(study))


def study_json(study: Study) -> dict[str, Any]:
    """JSON document of a study."""
    return {
        "schema": SCHEMA,
        "name": study.plan.name,
        "chance": study.plan.chance,
        "stages": [
            {
                "name": stage,
                "pairs": [
                    _pair_json(result) for result in study.results if result.pair.stage == stage
                ],
            }
            for stage in study.plan.stages
        ],
        "trends": [_trend_json(trend) for trend in trends(study)],
        "findings": [vars(finding) for finding in findings(study)],
        "failed": [failure.pair.name for failure in study.failed],
    }


def _trend_json(trend: Trend) -> dict[str, Any]:
    def slope(slope_found: Slope | None) -> dict[str, Any] | None:
        if slope_found is None:
            return None
        value = (
            math.nan if math.isnan(slope_found.error) else slope_found.slope
        )  # without an error it is no measurement
        numbers = {
            "slope": value,
            "interval": slope_found.interval,
            "degrees": slope_found.degrees,
            "p_value": slope_found.p_value,
        }
        numbers |= {
            "interval_of_all": slope_found.interval_of(trend.questions),
            "seen": slope_found.seen(trend.questions),
        }
        return {name: json_value(value) for name, value in numbers.items()}

    values = {
        "rate": trend.rate,
        "covariate": trend.covariate,
        "unit": trend.unit,
        "pairs": trend.pairs,
        "families": trend.families,
    }
    values |= {"questions": trend.questions, "held_pairs": trend.held_pairs}
    return {**values, "alone": slope(trend.alone), "held": slope(trend.held)}


def _pair_json(result: Compared | Failed) -> dict[str, Any]:
    # Null if the pair could not be compared.
    pair = result.pair
    found: dict[str, Any] = {
        "name": pair.name,
        "family": pair.family,
        "kind": pair.kind,
        "size": pair.size,
        "data": pair.data,
        "covariates": {name: json_value(value) for name, value in pair.covariates.items()},
        "before": [source.given for source in pair.before],
        "after": [source.given for source in pair.after],
    }
    if isinstance(result, Failed):
        return {
            **found,
            "error": result.reason,
            **dict.fromkeys(("verdict", "items", "paper", "averages", "groups")),
        }
    comparison = result.comparison
    tasks = [group_values(group) for group in comparison.by("task").values()]
    return {
        **found,
        "error": None,
        "labels": list(comparison.labels),
        "verdict": {
            name: getattr(result.decision, name) for name in ("word", "answer", "sentence")
        },
        "samples": comparison.samples,
        "items": json_value(vars(comparison.items)),
        "paper": {
            rate.replace(" ", "_"): {
                **_value_json(result.total(rate)),
                "unclipped": json_value(result.unclipped(rate)),
                "by_category": {
                    name: _value_json(value) for name, value in result.values(rate).items()
                },
            }
            for rate in RATES
        },
        "averages": json_value(vars(result.averages)),
        "why": None if result.causes is None else causes_json(result.causes),
        "groups": [group_values(group) for group in comparison.groups if group.level != "task"],
        "tasks": [{name: values[name] for name in _OF_TASK} for values in tasks],
        "drift": drift_json(comparison.drift),
        "notes": list(comparison.notes),
    }


def _value_json(value: Value) -> dict[str, Any]:
    rate, ceiling = (
        {"mean": json_value(mean_and_sd.mean), "sd": json_value(mean_and_sd.sd)}
        for mean_and_sd in value
    )
    return {**rate, "ceiling": ceiling}


def study_markdown(study: Study) -> str:
    """Markdown of a study: pairs, averages, and the paper's tables."""
    lines = [f"# {escaped(study.plan.name)}", "", _facts(study), "", escaped(_verdicts(study)), ""]
    if study.failed:
        lines += [
            "Not compared:",
            "",
            *(f"* {escaped(without_folders(failure.reason))}" for failure in study.failed),
            "",
        ]
    if study.compared:
        lines += ["## What averages hide", "", *_table(study, _AVERAGE_HEADINGS, _average_cells)]
        lines += ["## Every pair", "", *_table(study, _PAIR_HEADINGS, _pair_cells)]
        if study.has_causes:
            lines += ["## Which knowledge was lost", "", CAUSES_ABOUT, ""]
            lines += _table(study, _CAUSE_HEADINGS, _cause_cells)
        if trends_found := trends(study):
            lines += ["## What it goes with", "", TRENDS_ABOUT, ""]
            lines += [*table(TREND_HEADINGS, [*map(_trend_cells, trends_found)]), ""]
        if found_here := [finding for finding in findings(study) if study.plan.asks_for_findings]:
            lines += ["## The paper's findings, asked of this study", "", FINDINGS_ABOUT, ""]
            lines += [*table(FINDING_HEADINGS, [*map(_finding_cells, found_here)]), ""]
        lines += [
            "## Corrected for guessing, %",
            "",
            *_table(study, _GUESSING_HEADINGS, _guessing_cells),
        ]
        for title, headings, of_pairs in _measure_tables(study):
            lines += [f"## {title}", "", *table(headings, of_pairs), ""]
        lines += ["## The paper's tables", ""]
        for stage, rate, names in _tables(study):
            lines += [f"### {escaped(stage)}: {rate}, % ± sd (ceiling)", ""]
            lines += [*table([rate, *map(escaped, names)], rows(study, stage, rate)), ""]
    if notes := _notes(study):
        lines += ["## Notes", "", *(f"* {escaped(note)}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


CAUSES_ABOUT: Final = (
    "Whether the lost questions are those that the model before was less sure of, or those near "
    "the training rows, within categories. In brackets what 95 of 100 permuted columns stay below; "
    "a star is beyond it."
)


TRENDS_ABOUT: Final = (
    "Change of the total, in points, with one more step of what the file gives each pair, within "
    "its stage; a word or a stage is compared with the most frequent one. The model family is the "
    "unit. In 95 of 100 studies all brackets of the column “points” hold their value: one that "
    "contains 0 tells nothing, and a dash stands where families are too few, one family alone "
    "differs, or the stage determines it. “Others held” is the change with all other quantities of "
    "the table held too; “would be seen” is the change that 80 of 100 such studies would tell."
)


FINDINGS_ABOUT: Final = (
    "The abstract of arXiv 2510.17776 says small, low, moderate and large without numbers; the "
    "bounds here are ours. Intervals are of 95 % over model families."
)


TREND_HEADINGS: Final = [
    "rate",
    "goes with",
    "points",
    "others held",
    "would be seen",
    "pairs",
    "families",
]


FINDING_HEADINGS: Final = ["finding", "here", "numbers"]


def _trend_cells(trend: Trend) -> list[str]:
    def slope(slope_found: Slope | None) -> str:
        # Without degrees of freedom a slope is no measurement.
        if slope_found is None or math.isnan(slope_found.error):
            return MISSING_CELL
        return f"{points(slope_found.slope)} ({between(slope_found.interval_of(trend.questions), points)})"

    name = f"{trend.covariate}, per {trend.unit}" if trend.unit else trend.covariate
    seen = MISSING_CELL if math.isnan(trend.seen) else points(trend.seen).lstrip("+")
    held = slope(trend.held)
    held += (
        f", {count(trend.held_pairs)} pairs"
        if trend.held is not None and trend.held_pairs != trend.pairs
        else ""
    )
    return [
        trend.rate,
        name,
        slope(trend.alone),
        held,
        seen,
        count(trend.pairs),
        count(trend.families),
    ]


def _finding_cells(finding: Finding) -> list[str]:
    return [f"{finding.number}: {finding.claim}", finding.answer, finding.numbers]


def _page(study: Study) -> str:
    stages = []
    for stage in study.plan.stages:
        if pairs := study.of_stage(stage):
            names = [pair.pair.name for pair in pairs]
            tables = [(rate, names, rows(study, stage, rate)) for rate in RATES]
            seeds = any(pair.comparison.samples > 1 for pair in pairs)
            stages.append({"name": stage, "tables": tables, "seeds": seeds})
    return render(
        "study.html",
        scripts=["study.js"],
        name=study.plan.name,
        facts=_facts(study),
        verdicts=_verdicts(study),
        failed=[without_folders(failure.reason) for failure in study.failed],
        averages=_staged(study, _AVERAGE_HEADINGS, _average_cells),
        pairs=_staged(study, _PAIR_HEADINGS, _pair_cells),
        guessing=_staged(study, _GUESSING_HEADINGS, _guessing_cells),
        causes=_staged(study, _CAUSE_HEADINGS, _cause_cells),
        measures=_measure_tables(study),
        stages=stages,
        about={"causes": CAUSES_ABOUT, "trends": TRENDS_ABOUT, "findings": FINDINGS_ABOUT},
        trends=(TREND_HEADINGS, [*map(_trend_cells, trends(study))]),
        findings=(
            FINDING_HEADINGS,
            [*map(_finding_cells, findings(study))] if study.plan.asks_for_findings else [],
        ),
        map=_map_json(study),
        notes=_notes(study),
        rule=_RULES[study.plan.chance],
        made=made_line(),
    )


def _staged(
    study: Study, headings: Mapping[str, str], cells: Callable[[Compared], dict[str, str]]
) -> dict[str, Any]:
    # Columns that no pair has are left out.
    cells_of = {result.pair.name: cells(result) for result in study.compared}
    kept = [
        name
        for name in headings
        if any(of_pair[name] != MISSING_CELL for of_pair in cells_of.values())
    ]
    rows_of = {
        name: {column: of_pair[column] for column in kept} for name, of_pair in cells_of.items()
    }
    stages = [
        (stage, [(pair.pair.name, rows_of[pair.pair.name]) for pair in pairs])
        for stage in study.plan.stages
        if (pairs := study.of_stage(stage))
    ]
    return {"headings": {name: headings[name] for name in kept}, "stages": stages}


def _table(
    study: Study, headings: Mapping[str, str], cells: Callable[[Compared], dict[str, str]]
) -> list[str]:
    section = _staged(study, headings, cells)
    lines = [[pair, *of_pair.values()] for _, pairs in section["stages"] for pair, of_pair in pairs]
    return [*table(["pair", *section["headings"].values()], lines), ""]


def _measure_tables(study: Study) -> list[tuple[str, list[str], list[list[str]]]]:
    # Drift has such a table, with a row for each pair.
    return measure_tables([(result.pair.name, result.comparison) for result in study.compared])


def _notes(study: Study) -> list[str]:
    of_pairs = [
        (result.pair.name, note)
        for result in study.compared
        for note in (*result.comparison.notes, *result.left_out)
    ]
    return [*not_asked(study), *(without_folders(f"{name}: {note}") for name, note in of_pairs)]


def _facts(study: Study) -> str:
    stages, pairs = len(study.plan.stages), len(study.compared)
    largest = max((result.comparison.items.compared for result in study.compared), default=0.0)
    return (
        f"{count(pairs)} of {count(len(study.plan.pairs))} pairs in {count(stages)} "
        f"stage{'' if stages == 1 else 's'}, "
        f"each compared question by question, on up to {count(largest)} questions"
    )


def _verdicts(study: Study) -> str:
    # Pairs with a clear verdict are named; empty without a pair.
    of_word: dict[str, list[str]] = {}
    for result in study.compared:
        of_word.setdefault(result.decision.word, []).append(short_name(result.pair.name))
    parts = [
        f"{word} {count(len(names))}"
        + (f" ({listed(names)})" if word in ("KEPT", "FORGOT") else "")
        for word, names in of_word.items()
    ]
    return f"{', '.join(parts)} of {_pairs(len(study.compared))}" if parts else ""


def study_table(study: Study, *, with_findings: bool = False) -> Lines:
    """Table of all pairs in 80 columns, and the trends.

    Pairs are under their stages. With findings, those of the paper follow, each with the answer
    here.

    With findings, those of the paper follow, each with its answer here.
    """
    title = Text().append("forgetwatch  ", style="bold cyan")
    name = f"{study.plan.name}, {_pairs(len(study.plan.pairs))}"
    lines = [title.append(fit_ends(name, _WIDTH - len(title)).rstrip(), style="bold")]
    heading = f"{'pair':<{_NAME}} {'forgotten':>9} {'gained':>7} {'net points':>22} {'shown':>6} {'1→0 %':>6}"
    lines.append(Text(heading, style="bold"))
    for stage in study.plan.stages:
        lines.append(Text(fit_ends(stage, _WIDTH).rstrip(), style="dim"))
        for one in (result for result in study.results if result.pair.stage == stage):
            name = f"  {fit_ends(one.pair.name, _NAME - 2)}"
            if isinstance(one, Failed):
                lines.append(Text(f"{name} not compared", style="red"))
                continue
            group = one.comparison.all
            averages = (
                f"{percent(one.averages.conventional):>6} {percent(one.averages.forgetting):>6}"
            )
            lines.append(
                Text(
                    f"{name} {brief(group.forgotten, 9):>9} {brief(group.gained, 7):>7} "
                    f"{one.net_change:>22} {averages}"
                )
            )
    if study.compared:
        lines.append(Text(_verdicts(study)))
        lines.append(
            Text(
                "shown: share of the loss (1→0) that the mean accuracies of the tasks reveal, %",
                style="dim",
            )
        )
    if short := sum(any(_left_out(result)) for result in study.compared):
        lines.append(
            Text(
                f"left out in {_pairs(short)}: questions unscored, or on one side alone",
                style="dim",
            )
        )
    lines += [Text(str(trend)) for trend in trends(study)]
    lines += [Text(f"note: {sentence}") for sentence in not_asked(study)]
    if with_findings:
        lines.append(Text("the paper's findings, asked of this study", style="bold"))
        lines += [
            Text(f"{finding.number}  {finding.answer}: {finding.claim}; {finding.numbers}")
            for finding in findings(study)
        ]
    return Lines(*lines)


def _pairs(number: int) -> str:
    return f"{count(number)} pair{'' if number == 1 else 's'}"


def _pair_cells(result: Compared) -> dict[str, str]:
    cells = group_cells(result.comparison.all) | {"net": result.net_change, "worst": result.worst}
    for name, number in zip(("unscored", "one_sided"), _left_out(result), strict=True):
        cells[name] = count(number) if number else MISSING_CELL
    return {name: cells[name] for name in _PAIR_HEADINGS}


def _left_out(result: Compared) -> tuple[int, int]:
    # Questions without an answer that could be graded, and those that one side alone has.
    counted = result.comparison.items
    return counted.unscored, counted.only_before + counted.only_after


def _guessing_cells(result: Compared) -> dict[str, str]:
    # Rates are in percent, with intervals.
    cells = dict.fromkeys(_GUESSING_HEADINGS, MISSING_CELL)
    for name, lost, won, _ in chance_rows(result.comparison.all.chance, result.comparison.all.n):
        if (key := name.replace("-", "_")) in cells:
            cells |= {key: lost, f"{key}_gained": won}
    return cells


def _cause_cells(result: Compared) -> dict[str, str]:
    # Chance is in brackets; a star marks what is beyond chance.
    cells = dict.fromkeys(_CAUSE_HEADINGS, MISSING_CELL)
    if result.causes is None or not result.causes.is_tested:
        return cells
    cells["answer"] = str(result.causes)
    for cause in result.causes.causes:
        if cause.explained is not None:
            share, chance = percent(cause.explained.share), percent(cause.explained.permuted)
            cells[cause.column] = f"{share} ({chance}){' *' if cause.explains else ''}"
    return cells


def _average_cells(result: Compared) -> dict[str, str]:
    averages = result.averages
    share = averages.in_tasks_that_fell / averages.forgotten if averages.forgotten else math.nan
    return {
        "tasks": count(averages.tasks),
        "conventional": percent(averages.conventional),
        "forgetting": percent(averages.forgetting),
        "forgotten": count(averages.forgotten),
        "fell": count(averages.in_tasks_that_fell)
        + ("" if math.isnan(share) else f" ({percent(share)} %)"),
    }
