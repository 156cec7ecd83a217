"""A comparison or a run as one HTML file that opens from disk: no network, no other file, dark and light.

    several     ranking of models with one base      items      changed questions, with filters
    summary     verdict and sentences                numbers    every group, and corrections for guessing
    run         curves, table of looks, heatmap      method     how it was measured
    passages    bits per byte by category, curves
    drift       KL from the base, curves
    mass        the options as a whole, and the choice among them, by category and over looks

The template gets one object for each section. Text of items and outputs is embedded as JSON, which the page's script
shows as text: none of it becomes markup or code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from forgetwatch.comparing import (
    TOLERANCE,
    Comparison,
    Flip,
    Level,
    ModelComparison,
    Trajectory,
    first_forgotten,
)
from forgetwatch.comparing.flips import flips
from forgetwatch.measures import ASSUMES, DRIFT, MASS, PASSAGES, SET_NAMES, GroupMeasure, LookDrift, chance_rows
from forgetwatch.metrics import DELTA, TAU
from forgetwatch.pairing import count, passages
from forgetwatch.probe import Probe
from forgetwatch.report.cells import HEADINGS, PANELS, group_cells
from forgetwatch.report.drift_table import drift_rows, is_measured, spread_looks
from forgetwatch.report.flip_list import flip_list
from forgetwatch.report.heatmap import heatmap, heatmap_caption, heatmap_figure
from forgetwatch.report.mass_figures import CURVES as MASS_CURVES
from forgetwatch.report.mass_figures import MASS as MASS_LABEL
from forgetwatch.report.mass_figures import mass_curves_figure, mass_figure
from forgetwatch.report.pareto import ranking_figure
from forgetwatch.report.plots import (
    CURVES,
    bars_figure,
    drift_figure,
    has_scores,
    passages_figure,
    svg,
    trajectory_figure,
)
from forgetwatch.report.plots import DRIFT as DRIFT_LABEL
from forgetwatch.report.plots import PASSAGES as PASSAGES_LABEL
from forgetwatch.report.ranking_table import matrix_cells, ranking_cells, several_words
from forgetwatch.report.run_table import alarm_sentences
from forgetwatch.report.summary import summary
from forgetwatch.visible_text import visible, without_folders

GROUPS: Final = 200
"""Categories, and also tasks, in the table of all numbers; of more, those that lost most."""
LOOKS: Final = 100
"""Looks in the table of looks; of more, the last and others at even distances."""

_Row = tuple[str, str, dict[str, str]]
_LEVELS: Final[dict[str, Level]] = {
    "": "all",
    "Scored and written": "kind",
    "Categories": "category",
    "Tasks": "task",
}
"""Level of the groups under each heading of the table."""

_BARS: Final = (
    "Bars: forgotten and gained answers of each category, and its net change; the table below has the numbers."
)
_CLASSES: Final = {
    "PASS": "verdict pass",
    "FAIL": "verdict fail",
    "LOSS": "verdict fail",
    "ALARM": "verdict fail",
    "GUARD": "verdict fail",
    "INCONCLUSIVE": "verdict inconclusive",
    "NO ALARM": "verdict inconclusive",
}
"""Class of the style of each decision, by its word."""
_RANKING: Final = "Share that each model kept of what the base had right; the table of models has the numbers."
_MASS_CAPTION: Final = (
    "Left: the options together. Right: the share of the right one among them. Circles are all questions, triangles "
    "the forgotten ones; lines are 95 % intervals."
)
_MASS_CURVES_CAPTION: Final = (
    "The same at each look. The forgotten questions are those forgotten at that look; bands are 95 % intervals."
)
_PASSAGES_CAPTION: Final = "The change at each look, of all passages and of each category."
_HEATMAP: Final = "Every answer that changed, as a row, with a column for each look; the list of questions has them."


def page(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    several: ModelComparison | None = None,
    tolerance: float = TOLERANCE,
    title: str = "",
) -> str:
    """Page of a comparison, as text.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        changed: Items whose answer changed; see `flips.flips`.
        trajectory: The run, if the page is of one.
        several: Ranking and matrix, if the comparison is the last of several with one base.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
        title: Line below the heading, such as the name of a run.
    """
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    first = summary(comparison, changed=changed, trajectory=trajectory, tolerance=tolerance)
    return render(
        "template.html",
        script="script.js",
        header={"facts": _facts(comparison), "title": title},
        several=None if several is None else _several(several),
        summary=first,
        decisions=[(_CLASSES.get(one.word, "quiet"), one.word, one.sentence) for one in first.decisions],
        run=None if run is None else _run(run),
        damages=[] if trajectory is None else [*map(without_folders, trajectory.notes)],
        bars=svg(lambda: bars_figure(comparison), name="bars", label=_BARS),
        listed=flip_list(changed),
        headings=HEADINGS,
        numbers=_numbers(comparison),
        panels=_panels(comparison, run),
        passages=bool(comparison.all.passages),
        drift=_drift(comparison, run),
        method={
            "n": count(comparison.all.n),
            "tolerance": f"{100 * tolerance:g}",
            "tau": f"{TAU:g}",
            "delta": f"{DELTA:g}",
            "made": made_line(),
        },
    )


def run_page(
    trajectory: Trajectory, *, probe: Probe | None = None, tolerance: float = TOLERANCE, title: str = ""
) -> str:
    """Page of a run: its last look against its baseline, and the looks in between.

    Args:
        trajectory: The run.
        probe: Probe that gives questions and options; None leaves them out.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
        title: Line below the heading.
    """
    changed = flips(trajectory.baseline, trajectory.last, probe=probe, first=first_forgotten(trajectory))
    last = trajectory.comparisons[-1]
    return page(last, changed=changed, trajectory=trajectory, tolerance=tolerance, title=title)


def render(template: str, *, script: str | None = None, **sections: Any) -> str:
    """Page of a template in the folder ``page``, with the style of all pages.

    Text that is not markup of our own is escaped, with its control characters made visible.

    Args:
        template: Name of the template.
        script: Name of its script; None for a page without one.
        sections: Objects of the template.
    """
    folder = files("forgetwatch.report").joinpath("page")
    texts = [
        "" if name is None else folder.joinpath(name).read_text(encoding="utf-8")
        for name in (template, "style.css", script)
    ]
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    return environment.from_string(texts[0]).render(assets=_assets(*texts[1:]), **sections)


def _assets(style: str, script: str) -> dict[str, str]:
    """Style and script of the page, with the hash by which the page's policy admits this script alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return {"style": Markup(style), "script": Markup(script), "hash": digest, "version": version("forgetwatch")}


def _facts(comparison: Comparison) -> str:
    probe: Mapping[str, Any] = comparison.after.get("probe") or {}
    name = f"{probe['name']}, " if "name" in probe else ""
    texts = passages(comparison.all.passages) if comparison.all.passages else ""
    if texts and not comparison.items.compared:
        return f"{without_folders(name)}{texts} compared, one by one"
    also = f" and {texts}" if texts else ""
    return f"{without_folders(name)}{count(comparison.items.compared)} questions{also} compared, one by one"


def made_line() -> str:
    """Sentence on what made a page, and when."""
    return f"Made by forgetwatch {version('forgetwatch')} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def _run(run: Trajectory) -> dict[str, Any]:
    """Sections of a run: curves, alarms, table of looks, and heatmap."""
    return {
        # Of passages alone there is no answer to draw: they have a figure of their own.
        "curves": svg(lambda: trajectory_figure(run), name="curves", label=CURVES) if run.comparisons[-1].all.n else "",
        "scored": has_scores([comparison.all for comparison in run.comparisons]),
        "alarms": alarm_sentences(run),
        "guard": [
            (finding.line, finding.trips)
            for finding in run.findings
            if finding.line and finding.what not in ("alarm", "fading")  # the alarms are listed already
        ],
        "looks": _looks(run),
        "heatmap": svg(lambda: heatmap_figure(run), name="heatmap", label=_HEATMAP),
        "caption": heatmap_caption(heatmap(run)),
    }


def _panels(comparison: Comparison, run: Trajectory | None) -> list[dict[str, Any]]:
    """Sections of the measures that have one: figures, groups, and looks of a run."""
    panels = []
    for measure in PANELS:
        if comparison.all[measure] is None:
            continue
        levels = []
        for heading, level in _LEVELS.items():
            groups = [group for group in comparison.groups if group.level == level]
            if measure is MASS:
                groups.sort(key=lambda group: -group.forgotten)
            shown = [(group.level, group.name, measure.cells(group[measure])) for group in groups]
            rows = [row for row in shown if row[2]]
            levels += [(heading, rows[:GROUPS])] if rows else []
        looks = [] if run is None else zip(run.steps[1:], run.comparisons[1:], strict=True)
        panels.append(
            {
                "measure": measure,
                "levels": levels,
                "looks": [("look", f"{step:,}", measure.cells(look.all[measure])) for step, look in looks],
                "figures": _figures(measure, comparison, run),
            }
        )
    return panels


def _figures(
    measure: GroupMeasure[Any], comparison: Comparison, run: Trajectory | None
) -> list[tuple[str, Markup, str]]:
    """(label, picture, caption) of the figures of a measure's section."""
    made = []
    if measure is MASS:
        picture = svg(lambda: mass_figure(comparison), name="mass", label=MASS_LABEL)
        made.append(("Mass by category", picture, _MASS_CAPTION))
    if run is not None:
        if measure is MASS:
            curves = svg(lambda: mass_curves_figure(run), name="masscurves", label=MASS_CURVES)
            made.append(("Curves of the mass", curves, _MASS_CURVES_CAPTION))
        if measure is PASSAGES:
            curves = svg(lambda: passages_figure(run), name="passages", label=PASSAGES_LABEL)
            made.append(("Curves of the passages", curves, _PASSAGES_CAPTION))
    return [(label, picture, caption) for label, picture, caption in made if picture]


def _drift(comparison: Comparison, run: Trajectory | None) -> dict[str, Any] | None:
    """Section of the drift from the base: curves of a run, and numbers; None where it was not measured."""
    looks: dict[int, Mapping[str, LookDrift]] = {}
    if run is not None and is_measured(run):
        shown = spread_looks(run.steps[1:], LOOKS)
        looks = {step: found for step, found in run.drift.items() if step in shown}
    # The last look of a run may lack the drift that earlier ones have.
    latest = comparison.drift or next(reversed(looks.values()), None)
    if not latest:
        return None
    return {
        "headings": DRIFT.headings,
        "levels": [("", [("drift", name, cells) for name, cells in drift_rows(comparison.drift or {})])],
        "looks": [
            ("look", f"{step:,}, {name}", cells) for step, drift in looks.items() for name, cells in drift_rows(drift)
        ],
        "curves": None if run is None else svg(lambda: drift_figure(run), name="drift", label=DRIFT_LABEL),
        "texts": ", ".join(
            f"{count(found.completions)} after {SET_NAMES.get(name, name)}" for name, found in latest.items()
        ),
    }


def _several(several: ModelComparison) -> dict[str, Any]:
    """Section of several models: ranking, picture, and matrix."""
    matrix = several.matrix
    return {
        "headings": ["place", "no.", "model", "kept %", "net points"]
        + ([several.target.name, "front"] if several.target else []),
        # Without a target the last two cells, target and front, have no heading.
        "ranking": [list(ranking_cells(one).values())[: 7 if several.target else 5] for one in several.ranking],
        "words": several_words(several),
        "picture": svg(lambda: ranking_figure(several), name="ranking", label=_RANKING),
        "rows": list(enumerate(zip(matrix.labels, matrix_cells(several), strict=True))),
        "over": count(matrix.items),
        "left_out": count(matrix.left_out),
    }


def _numbers(comparison: Comparison) -> dict[str, Any]:
    """Section of all numbers: groups, corrections for guessing, and notes."""
    levels, left_out = _levels(comparison)
    corrections = [
        (name, lost, won, ASSUMES[name]) for name, lost, won, _ in chance_rows(comparison.all.chance, comparison.all.n)
    ]
    return {
        "levels": levels,
        "left_out": left_out,
        "corrections": corrections,
        "notes": [*map(without_folders, comparison.notes)],
    }


def _levels(comparison: Comparison) -> tuple[list[tuple[str, list[_Row]]], str]:
    """Groups of each level under its heading, in their order, and a sentence on those left out."""
    levels: list[tuple[str, list[_Row]]] = []
    left = []
    for heading, level in _LEVELS.items():
        groups = [group for group in comparison.groups if group.level == level]
        if comparison.all.passages:  # groups of passages alone have a table of their own
            groups = [group for group in groups if group.n]
        # Chosen by what they lost, shown in the order of the probe.
        kept = {group.name for group in sorted(groups, key=lambda group: -group.forgotten)[:GROUPS]}
        if len(groups) > len(kept):
            left.append(f"{count(len(groups) - len(kept))} more {heading.lower()} that lost no more are left out.")
        if groups:
            rows: list[_Row] = [(group.level, group.name, group_cells(group)) for group in groups if group.name in kept]
            levels.append((heading, rows))
    return levels, " ".join([*left, "--json and --output of a .csv file have all."] if left else [])


def _looks(run: Trajectory) -> list[_Row]:
    """Looks after the baseline, each with the numbers of all items."""
    last = len(run) - 1
    looks: Sequence[int] = range(1, last + 1)
    if last > LOOKS:
        # At even distances, from the first look to the last.
        looks = sorted({round(1 + (last - 1) * number / (LOOKS - 1)) for number in range(LOOKS)})
    return [("look", f"{run.steps[look]:,}", group_cells(run.comparisons[look].all)) for look in looks]
