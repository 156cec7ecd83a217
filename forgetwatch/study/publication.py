"""Files of a study: a JSON document, a page, Markdown, two CSV tables, LaTeX, and pictures.

    study.json        forgetwatch/study@1: every number, and the pairs that could not be compared
    study.html        one page that opens from disk
    study.md          the same tables in Markdown
    pairs.csv         a row for each pair
    categories.csv    a row for each pair, rate and category of the paper's tables
    tables.tex        the paper's tables
    pictures/         each figure as PNG and SVG

All numbers are written before the first figure is drawn, and the page without its figures with them. Then each figure
is drawn by itself, and the page is written again. A figure that cannot be drawn is named, and nothing else is lost.

None holds a question or an answer. Undefined numbers are null in JSON and empty in CSV.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from forgetwatch.comparing import CategoryMeans, Spread, group_values
from forgetwatch.files import write_text
from forgetwatch.measures import NOT_THERE, QUANTITIES, drift_json, json_value, value_at
from forgetwatch.pairing import count
from forgetwatch.progress import Done, Progress
from forgetwatch.report import (
    SUFFIXES,
    drawn,
    escaped,
    file_name,
    made_line,
    measure_tables,
    name_in,
    render,
    save_figures,
    svg,
    table,
)
from forgetwatch.study.figures import Scale, averages_figure, has_scale, radar_figures, scale_figure
from forgetwatch.study.pairs import Compared, Failed, Study
from forgetwatch.study.tables import (
    AVERAGE_HEADINGS,
    GUESSING_HEADINGS,
    PAIR_HEADINGS,
    RATES,
    average_cells,
    guessing_cells,
    pair_cells,
    rows,
    tables_csv,
    tables_latex,
    tables_markdown,
    total,
    values,
)
from forgetwatch.visible_text import csv_cell, without_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA: Final = "forgetwatch/study@1"
PAGE: Final = "study.html"
_SCALES: Final[dict[Scale, str]] = {"size": "Forgetting against size", "data": "Forgetting against the scale of data"}
_RULES: Final = {
    "own": "Each question counts with its own number of options, and nothing is cut off at 0 before it is averaged.",
    "paper-compat": "As in the paper's released code, all questions of a task have one number of options, some tasks "
    "are left out, and each task's value is cut off at 0 before it is averaged.",
}
_TASK: Final = ("name", "n", "forgotten", "gained", "accuracy_before", "accuracy_after")


def write_numbers(study: Study, folder: Path) -> None:
    """Write all numbers of a study into its folder, and the page without figures."""
    texts: dict[str, Callable[[Study], str]] = {
        "study.json": lambda study: json.dumps(study_json(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "pairs.csv": pairs_csv,
        "categories.csv": tables_csv,
        "tables.tex": tables_latex,
        "study.md": study_markdown,
        PAGE: lambda study: _page(study, {}),
    }
    for name, text in texts.items():
        write_text(folder / name, text(study))


def draw_figures(study: Study, folder: Path, *, progress: Progress | None) -> dict[str, str]:
    """Draw the figures of a study, each by itself, and write the page with them.

    Args:
        study: The study.
        folder: Its folder, which has the numbers.
        progress: Called before each figure.

    Returns:
        Why a figure could not be drawn, by the figure's name; empty if all were drawn.
    """
    figures = _figures(study)
    _remove_pictures(folder, figures)  # those of an earlier study do not belong to these numbers
    drawings: dict[str, Markup | None] = {}
    failed = {}
    for number, (name, figure) in enumerate(figures.items()):
        if progress:
            progress(Done(count=number, total=len(figures), share=number / len(figures), unit="figures"))
        try:
            drawings[name] = _saved(figure, name, number, folder)
        except Exception as error:  # whatever a plotting library raises; the numbers do not depend on it
            drawings[name], failed[name] = None, " ".join(str(error).split()) or type(error).__name__
            _remove_pictures(folder, [name])
    write_text(folder / PAGE, _page(study, drawings))
    return failed


def _saved(figure: _Figure, name: str, number: int, folder: Path) -> Markup | None:
    """Markup of a figure for the page, after its pictures were written."""
    with drawn():
        made = figure.draw()
        markup = svg(lambda: made, name=f"figure{number}", label=f"{name}; the tables have its numbers")
        if made is not None and figure.stage:  # on the page it is under a heading
            made.suptitle(name_in(80, figure.stage), fontsize=12, fontweight="bold")
        save_figures({name: made}, folder / "pictures")
    return markup


def _remove_pictures(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        for suffix in SUFFIXES:
            with suppress(OSError):  # what cannot be removed cannot be drawn either, and is then named
                (folder / "pictures" / f"{name}{suffix}").unlink(missing_ok=True)


def study_json(study: Study) -> dict[str, Any]:
    """JSON document of a study."""
    results = {one.pair.name: one for one in study.results}
    return {
        "schema": SCHEMA,
        "name": study.plan.name,
        "chance": study.plan.chance,
        "stages": [
            {"name": stage, "pairs": [_pair_json(results[pair.name]) for pair in study.plan.of_stage(stage)]}
            for stage in study.plan.stages
        ],
        "failed": [one.pair.name for one in study.failed],
    }


def _pair_json(result: Compared | Failed) -> dict[str, Any]:
    """JSON values of one pair; its numbers are null if it could not be compared."""
    pair = result.pair
    found: dict[str, Any] = {
        "name": pair.name,
        "size": pair.size,
        "data": pair.data,
        "before": [source.given for source in pair.before],
        "after": [source.given for source in pair.after],
    }
    if isinstance(result, Failed):
        return {**found, "error": result.reason, "items": None, "paper": None, "averages": None, "groups": None}
    comparison = result.comparison
    tasks = [group_values(group) for group in comparison.by("task").values()]
    return {
        **found,
        "error": None,
        "labels": list(comparison.labels),
        "samples": comparison.samples,
        "items": json_value(vars(comparison.items)),
        "paper": _paper_json(result.means),
        "averages": json_value(vars(result.averages)),
        "groups": [group_values(group) for group in comparison.groups if group.level != "task"],
        "tasks": [{name: values[name] for name in _TASK} for values in tasks],
        "drift": drift_json(comparison.drift),
        "notes": list(comparison.notes),
    }


def _paper_json(means: CategoryMeans) -> dict[str, Any]:
    """JSON values of the paper's tables of one pair: by rate, of all and of each category."""
    found = {}
    for rate in RATES:
        of_all = total(means, rate)
        found[rate.replace(" ", "_")] = {
            **_spread(of_all.rate),
            "ceiling": _spread(of_all.ceiling),
            "by_category": {
                name: {**_spread(value.rate), "ceiling": _spread(value.ceiling)}
                for name, value in values(means, rate).items()
            },
        }
    return found


def _spread(spread: Spread) -> dict[str, Any]:
    return {"mean": json_value(spread.mean), "sd": json_value(spread.sd)}


def pairs_csv(study: Study) -> str:
    """CSV table with a row for each pair: its place in the study, and each quantity of all its questions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    averages = ("tasks", "conventional", "forgetting", "in_tasks_that_fell")
    items = ("unscored", "only_before", "only_after")
    own = [*(f"items.{name}" for name in items), *(f"averages.{name}" for name in averages)]
    writer.writerow(["stage", "pair", "size", "data", "error", *own, *QUANTITIES])
    for one in study.results:
        pair = one.pair
        first = [csv_cell(pair.stage), csv_cell(pair.name), pair.size, pair.data]
        if isinstance(one, Failed):
            writer.writerow([*first, csv_cell(one.reason), *([None] * (len(own) + len(QUANTITIES)))])
            continue
        document = group_values(one.comparison.all)
        shown = [getattr(one.comparison.items, name) for name in items]
        shown += [json_value(getattr(one.averages, name)) for name in averages]
        writer.writerow([*first, None, *shown, *(value_at(document, path) for path in QUANTITIES)])
    return text.getvalue()


def study_markdown(study: Study) -> str:
    """Markdown of a study: pairs, averages, and the paper's tables."""
    lines = [f"# {escaped(study.plan.name)}", "", _facts(study), ""]
    if study.failed:
        lines += ["Not compared:", "", *(f"* {escaped(without_folders(one.reason))}" for one in study.failed), ""]
    if study.compared:
        lines += ["## What averages hide", "", *_table(study, AVERAGE_HEADINGS, average_cells)]
        lines += ["## Every pair", "", *_table(study, PAIR_HEADINGS, pair_cells)]
        lines += ["## Corrected for guessing, %", "", *_table(study, GUESSING_HEADINGS, guessing_cells)]
        for title, headings, of_pairs in _measure_tables(study):
            lines += [f"## {title}", "", *table(headings, of_pairs), ""]
        lines += ["## The paper's tables", "", tables_markdown(study)]
    if notes := _notes(study):
        lines += ["## Notes", "", *(f"* {escaped(note)}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


class _Figure(NamedTuple):
    """A figure that is not drawn yet, and the stage that it is of."""

    draw: Callable[[], Figure | None]
    stage: str = ""


def _figures(study: Study) -> dict[str, _Figure]:
    """Figures by the names of their files."""
    figures = {"averages": _Figure(partial(averages_figure, study))} if study.compared else {}
    for by in _SCALES:
        if has_scale(study, by):
            figures[f"against-{by}"] = _Figure(partial(scale_figure, study, by))
    for number, stage in enumerate(study.plan.stages, 1):
        for part, draw in enumerate(radar_figures(study, stage), 1):
            figures[f"radar-{number}-{part}-{file_name(stage)}"] = _Figure(draw, stage)
    return figures


def _page(study: Study, drawings: Mapping[str, Markup | None]) -> str:
    """The page, as text.

    Args:
        study: The study.
        drawings: Figures by name; None for one that could not be drawn, and no entry for one that is not drawn yet.
    """
    stages = []
    for number, stage in enumerate(study.plan.stages, 1):
        if pairs := study.of_stage(stage):
            own = [drawing for name, drawing in drawings.items() if name.startswith(f"radar-{number}-")]
            names = [one.pair.name for one in pairs]
            tables = [(rate, names, rows(study, stage, rate)) for rate in RATES]
            seeds = any(one.comparison.samples > 1 for one in pairs)
            stages.append({"name": stage, "pictures": own, "tables": tables, "seeds": seeds})
    return render(
        "study.html",
        name=study.plan.name,
        facts=_facts(study),
        failed=[without_folders(one.reason) for one in study.failed],
        averages=_staged(study, AVERAGE_HEADINGS, average_cells),
        picture=drawings.get("averages"),
        pairs=_staged(study, PAIR_HEADINGS, pair_cells),
        guessing=_staged(study, GUESSING_HEADINGS, guessing_cells),
        measures=_measure_tables(study),
        stages=stages,
        scales=[(text, drawings[f"against-{by}"]) for by, text in _SCALES.items() if f"against-{by}" in drawings],
        notes=_notes(study),
        rule=_RULES[study.plan.chance],
        made=made_line(),
    )


def _staged(study: Study, headings: Mapping[str, str], cells: Callable[[Compared], dict[str, str]]) -> dict[str, Any]:
    """Section of a table of pairs under their stages, without the columns that no pair has."""
    found = {one.pair.name: cells(one) for one in study.compared}
    kept = [name for name in headings if any(of_pair[name] != NOT_THERE for of_pair in found.values())]
    staged = [(stage, pairs) for stage in study.plan.stages if (pairs := study.of_stage(stage))]
    return {
        "headings": {name: headings[name] for name in kept},
        "stages": [
            (stage, [(one.pair.name, {name: found[one.pair.name][name] for name in kept}) for one in pairs])
            for stage, pairs in staged
        ],
    }


def _table(study: Study, headings: Mapping[str, str], cells: Callable[[Compared], dict[str, str]]) -> list[str]:
    """Lines of the same table in Markdown."""
    section = _staged(study, headings, cells)
    lines = [[pair, *of_pair.values()] for _, pairs in section["stages"] for pair, of_pair in pairs]
    return [*table(["pair", *section["headings"].values()], lines), ""]


def _measure_tables(study: Study) -> list[tuple[str, list[str], list[list[str]]]]:
    """Tables of the measures that have their own, such as bits per byte and drift, with a row for each pair."""
    return measure_tables([(one.pair.name, one.comparison) for one in study.compared])


def _notes(study: Study) -> list[str]:
    """Sentences about the comparisons, each with the name of its pair."""
    return [without_folders(f"{one.pair.name}: {note}") for one in study.compared for note in one.comparison.notes]


def _facts(study: Study) -> str:
    """Line on the size of a study."""
    stages, pairs = len(study.plan.stages), len(study.compared)
    most = max((one.comparison.items.compared for one in study.compared), default=0.0)
    return (
        f"{count(pairs)} of {count(len(study.plan.pairs))} pairs in {count(stages)} stage{'' if stages == 1 else 's'}, "
        f"each compared question by question, on up to {count(most)} questions"
    )
