"""A comparison or a run as one HTML file that opens from disk: no network, no other file, dark and light.

    first screen    first table, curve of a run, three lost questions; what to do
    below a fold    which questions, categories, the run, causes, how sure, all numbers, method

With several models their ranking is above all of that. The template gets one object for each
section. Text of items and outputs is embedded as JSON, which the page's script shows as text: none
of it becomes markup or code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from forgetwatch.comparing.causes import Causes, why_lost
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion
from forgetwatch.comparing.flips import Flip, first_forgotten, flips
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory, this_stage
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.measures.base_drift import DRIFT
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.metrics.known import TAU
from forgetwatch.probe import Probe
from forgetwatch.probes.nearness import answers_of
from forgetwatch.report import plots
from forgetwatch.report.advice import advise, proposed
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.flip_list import flip_list, script_json
from forgetwatch.report.heatmap import heatmap, heatmap_caption, heatmap_figure
from forgetwatch.report.pictures import svg
from forgetwatch.report.sections import (
    LEVELS,
    Aside,
    Bullets,
    Heading,
    Part,
    Table,
    document,
)
from forgetwatch.report.sentences import Summary, loss_sentences, summary
from forgetwatch.report.several_models import (
    RANKING,
    matrix_cells,
    ranking_cells,
    ranking_figure,
    several_words,
)
from forgetwatch.report.side_names import model_names
from forgetwatch.run_folder.contents import run_probe
from forgetwatch.text import count, passages
from forgetwatch.version import VERSION
from forgetwatch.visible_text import visible, without_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES: Final = 3
"""Categories in the curve of the first screen."""
_VENDOR: Final = "vendor/uPlot.iife.min.js"
_VENDOR_STYLE: Final = "vendor/uPlot.min.css"
"""uPlot, unchanged; its licence is beside it."""

_CLASSES: Final = {
    "KEPT": "pass",
    "FORGOT": "fail",
    "NOT CLEAR": "inconclusive",
    "NO VERDICT": "none",
}
"""Class of the style of each word of a verdict."""
_LABELS: Final = {
    "ranking": "Share that each model kept of what the base had right; the table of models has the numbers.",
    "verdict": "Curves: the verdict's quantity of all questions, and of the categories that fell most, at each look.",
    "curves": (
        "Curves: accuracy, forgotten and gained answers and net change at each look, and where "
        "options have scores "
        "also clearly known answers that are lost; the table of looks has the same numbers."
    ),
    "passages": (
        "Curves: change of the bits per byte of the passages at each look, of all of them with "
        "its 95 % interval and of each category; the table of passages has the numbers."
    ),
    "drift": (
        "Curves: KL from the base at each look by each estimator with its 95 % interval, a "
        "panel for each set of "
        "prompts, and the floor as a dashed line; the table of the drift has the numbers."
    ),
    "stages": "Cells: right answers of each category at the base and after each stage; the table has the numbers.",
    "bars": "Bars: forgotten and gained answers of each category, and its net change; the table below has the numbers.",
    "heatmap": "Every answer that changed, as a row, with a column for each look; the list of questions has them.",
}
"""Label of each figure, for screen readers."""
_CAPTIONS: Final = {
    "passages": (
        "Curves of the passages",
        "The change at each look, of all passages and of each category.",
    ),
    "stages": (
        "Categories by stage",
        "Numbers are right answers in percent; colours are the change since the base.",
    ),
    "drift": (
        "Curves of the drift",
        "The drift at each look, by each estimator. Bands are 95 % intervals, dashed lines the "
        "floor.",
    ),
}
"""Heading for screen readers, and caption, of each figure in the section of a measure."""
_CURVES: Final = {
    "stages": plots.stages_figure,
    PASSAGES.key: plots.passages_figure,
    DRIFT.key: plots.drift_figure,
}
"""Functions that draw the figures of a run, by the key of the heading above them."""


def page(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    several: ModelComparison | None = None,
    tolerance: Tolerance = TOLERANCE,
    title: str = "",
    folder: Path | None = None,
    causes: Causes | None = None,
) -> str:
    """Page of a comparison, as text.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        changed: Items whose answer changed; see `flips.flips`.
        trajectory: The run, if the page is of one.
        several: Ranking and matrix, if the comparison is the last of several with one base.
        tolerance: Losses that the verdict tolerates.
        title: Name of the run.
        folder: Its folder, by which the page says what to do about a loss.
        causes: Why the run lost answers; by default by how sure the base was alone.
    """
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    verdict_table = first_table(
        comparison,
        trajectory=trajectory,
        run=folder or "",
        tolerance=tolerance,
        name="" if folder else title,
    )
    screen = summary(comparison, verdict_table, changed=changed)
    # The start compared with itself shows nothing.
    compared = run is not None or trajectory is None
    if run is not None and causes is None:
        answers = (
            None if folder is None or (probe := run_probe(folder)) is None else answers_of(probe)
        )
        causes = why_lost(run.baseline, run.last, answers=answers)
    sections = _sections(comparison, screen, trajectory, causes)
    return render(
        "template.html",
        scripts=[*([_VENDOR, "chart.js"] if run is not None else []), "script.js"],
        styles=["style.css", *([_VENDOR_STYLE] if run is not None else [])],
        labels=model_names(comparison),
        facts=_facts(comparison),
        several=several and _several(several),
        first=screen,
        table=verdict_table,
        then=without_folders(verdict_table.command),
        why=loss_sentences(comparison, trajectory) if compared else [],
        style=_CLASSES[verdict_table.decision.word],
        sections=sections,
        figures=_figures(run) if compared else {},
        run=None if run is None else _run(run, verdict_table.found),
        damages=[] if trajectory is None else [*map(without_folders, trajectory.notes)],
        compared=compared,
        bars=_picture("bars", lambda: plots.bars_figure(comparison)) if compared else None,
        listed=flip_list(changed),
        passages=bool(comparison.all.passages),
        advice=[] if run is None or folder is None else _advice(run, folder, tolerance),
        method={
            "n": count(comparison.all.n),
            "tau": f"{TAU:g}",
            "made": made_line(),
        },
    )


def run_page(
    trajectory: Trajectory,
    *,
    probe: Probe | None = None,
    tolerance: Tolerance = TOLERANCE,
    title: str = "",
    folder: Path | None = None,
    causes: Causes | None = None,
) -> str:
    """Page of a run.

    Its last look against its baseline, and the looks in between; a probe gives the questions.
    """
    changed = flips(
        trajectory.baseline, trajectory.last, probe=probe, first=first_forgotten(trajectory)
    )
    final = trajectory.final
    return page(
        final,
        changed=changed,
        trajectory=trajectory,
        tolerance=tolerance,
        title=title,
        folder=folder,
        causes=causes,
    )


def _advice(run: Trajectory, folder: Path, tolerance: Tolerance) -> list[tuple[str, str, str]]:
    # Without folders.
    proposals = (
        proposed(advise(run, folder, tolerance=tolerance)) if len(this_stage(run)) > 1 else []
    )
    return [
        (without_folders(advice.text), advice.measured, without_folders(advice.command))
        for advice in proposals
    ]


def render(
    template: str,
    *,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = ("style.css",),
    **sections: Any,
) -> str:
    """Page of a template, with styles, scripts and sections.

    Text that is not our own markup is escaped, with control characters made visible.

    Text that is not markup of our own is escaped, with its control characters made visible.
    """
    folder = files("forgetwatch.report").joinpath("page")
    template_text, style, script_text = (
        "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
        for names in ([template], styles, scripts)
    )
    assets = {
        "style": Markup(style),
        "script": Markup(script_text),
        # By this the policy of the page admits this script alone.
        "hash": base64.b64encode(hashlib.sha256(script_text.encode("utf-8")).digest()).decode(),
        "version": VERSION,
    }
    return _compiled(template_text).render(assets=assets, **sections)


@cache
def _compiled(template: str) -> Template:
    def shown(value: Any) -> Any:
        return visible(value) if type(value) is str else value

    return Environment(autoescape=True, undefined=StrictUndefined, finalize=shown).from_string(
        template
    )


def _facts(comparison: Comparison) -> str:
    probe: Mapping[str, Any] = comparison.after.get("probe") or {}
    texts, compared = comparison.all.passages, comparison.items.compared
    counted = [f"{count(compared)} questions"] if compared or not texts else []
    counted += [passages(texts)] if texts else []
    probe_words = f"{without_folders(probe['name'])}, " if "name" in probe else ""
    return f"{probe_words}{' and '.join(counted)} compared, one by one"


def made_line() -> str:
    """Sentence on what made a page, and when."""
    return f"Made by forgetwatch {VERSION} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def _picture(name: str, draw: Callable[[], Figure | None]) -> Markup | None:
    # None if there is nothing to draw.
    return svg(draw, name=name, label=_LABELS[name])


def _run(run: Trajectory, conclusion: Conclusion) -> dict[str, Any]:
    # Of passages alone there is no answer to draw: they have a figure of their own.
    answered = bool(run.final.all.n)
    return {
        "verdict": _picture(
            "verdict",
            lambda: (
                plots.verdict_figure(run, conclusion) if answered else plots.passages_figure(run)
            ),
        ),
        "chart": _chart(run, conclusion) if answered else "",
        "curves": _picture("curves", lambda: plots.trajectory_figure(run)) if answered else "",
        "heatmap": _picture("heatmap", lambda: heatmap_figure(run)),
        "caption": heatmap_caption(heatmap(run)),
    }


def _chart(run: Trajectory, conclusion: Conclusion) -> str:
    # All questions and the categories that fell most; the new task.
    fell = ["", *(category.group.name for category in conclusion.lost[:_LINES])]
    views = []
    for curve in plots.curves(conclusion, run.final.all):
        series = []
        for name in fell:
            groups = [
                look.by("category").get(name) if name else look.all for look in run.comparisons
            ]
            ends = [None if group is None else curve.of(group) for group in groups]
            ends = [(0.0, (0.0, 0.0)), *ends[1:]]  # the start is compared with itself
            row: dict[str, Any] = {
                "category": name,
                "n": next((group.n for group in reversed(groups) if group), 0),
            }
            row["value"] = [None if end is None else round(100 * end[0], 2) for end in ends]
            for side, at in (("low", 0), ("high", 1)):
                row[side] = [None if end is None else round(100 * end[1][at], 2) for end in ends]
            for flip_kind in ("forgotten", "gained"):
                row[flip_kind] = [
                    0 if group is None else round(getattr(group, flip_kind), 1) for group in groups
                ]
            series.append(row)
        views.append({"label": curve.label, "limit": curve.limit, "series": series})
    if task := run.task:
        values = [task.at(step) for step in run.steps]
        task_name = task.name.replace("_", " ")
        views.append(
            {
                "label": f"new task: {task_name}",
                "limit": None,
                "series": [{"category": "", "value": values}],
            }
        )
    return script_json({"steps": run.steps, "views": views})


def _sections(
    comparison: Comparison,
    screen: Summary,
    trajectory: Trajectory | None,
    causes: Causes | None,
) -> list[dict[str, Any]]:
    sections = document(
        comparison, screen, trajectory=trajectory, causes=causes, levels=tuple(LEVELS)
    )
    return [
        {"heading": section.heading, "key": section.key, "parts": [*map(_part, section.parts)]}
        for section in sections
    ]


def _part(part: Part) -> dict[str, Any]:
    # The kind chooses the markup.
    if isinstance(part, (Table, Bullets, Aside, Heading)):
        return {"kind": type(part).__name__, "it": part}
    return {"kind": "Text", "it": part}


def _figures(run: Trajectory | None) -> dict[str, tuple[str, Markup, str]]:
    # (heading, picture, caption), by the key of their heading.
    pictures = (
        {}
        if run is None
        else {key: _picture(key, partial(draw, run)) for key, draw in _CURVES.items()}
    )
    return {
        key: (_CAPTIONS[key][0], picture, _CAPTIONS[key][1])
        for key, picture in pictures.items()
        if picture
    }


def _several(several: ModelComparison) -> dict[str, Any]:
    # Ranking, picture, and matrix.
    matrix = several.matrix
    headings = [*RANKING]
    headings += [several.target.name, "front"] if several.target else []
    return {
        "headings": headings,
        "ranking": [
            list(ranking_cells(model).values())[: len(headings)] for model in several.ranking
        ],
        "words": several_words(several),
        "picture": _picture("ranking", lambda: ranking_figure(several)),
        "rows": list(enumerate(zip(matrix.labels, matrix_cells(several), strict=True))),
        "over": count(matrix.items),
        "left_out": count(matrix.left_out),
    }
