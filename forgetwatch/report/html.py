"""A comparison or a run as one HTML file that opens from disk: no network, no other file, dark and light.

    summary    the first page, in words        figures    curves, categories, question by question
    items      flipped items, with filters     numbers    every group, as in the terminal

All text of items and outputs travels as JSON and is shown as text; nothing in it becomes markup or code.
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

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip, first_forgotten, flips
from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import TOLERANCE
from forgetwatch.probe import Probe
from forgetwatch.report.cells import ASSUMES, HEADINGS, chance_rows, group_cells
from forgetwatch.report.flip_list import flip_list
from forgetwatch.report.formatting import count, visible
from forgetwatch.report.heatmap import heatmap, heatmap_caption, heatmap_figure
from forgetwatch.report.pareto import ranking_figure
from forgetwatch.report.plots import CURVES, bars_figure, svg, trajectory_figure
from forgetwatch.report.ranking_table import matrix_cells, ranking_cells, several_words
from forgetwatch.report.run_table import alarm_sentences
from forgetwatch.report.summary import summary, verdict_sentence

GROUPS: Final = 200
"""Categories, and as many tasks, in the table of all numbers; of more those that lost most."""
LOOKS: Final = 100
"""Looks in the table of looks; of more the last, and others at even distances."""

_Row = tuple[str, str, dict[str, str]]
_HEADED: Final[dict[str, Level]] = {"": "all", "Scored and written": "kind", "Categories": "category", "Tasks": "task"}

_BARS: Final = "Bars: what each category forgot and gained, and its net change; the table of all numbers has the same."
_RANKING: Final = "What each model kept of what the base had right; the table of models has the same numbers."
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
    """The page as text.

    Args:
        comparison: What is shown: of a run, the last look against its baseline.
        changed: The items whose answer changed; see `flips.flips`.
        trajectory: The run, where it is one.
        several: What this comparison, the last of several with one base, says together with the others.
        tolerance: The net loss of accuracy that is tolerated, 0 to 1.
        title: What else stands below the heading: where a run is, say.
    """
    part = files("forgetwatch.report").joinpath("page")
    texts = {
        name: part.joinpath(name).read_text(encoding="utf-8") for name in ("template.html", "style.css", "script.js")
    }
    # What is no markup of ours is escaped, and shown so that nothing in it stays unseen.
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    listed = flip_list(changed)
    levels, more = _levels(comparison)
    first = summary(comparison, changed=changed, trajectory=trajectory, tolerance=tolerance)
    return environment.from_string(texts["template.html"]).render(
        version=version("forgetwatch"),
        style=Markup(texts["style.css"]),
        script=Markup(texts["script.js"]),
        script_hash=base64.b64encode(hashlib.sha256(texts["script.js"].encode("utf-8")).digest()).decode(),
        summary=first,
        verdict_sentence=verdict_sentence(first.verdict),
        several=None if several is None else _several(several),
        title=title,
        facts=_facts(comparison),
        curves=None if run is None else svg(lambda: trajectory_figure(run), name="curves", label=CURVES),
        looks=[] if run is None else _looks(run),
        alarms=[] if run is None else alarm_sentences(run),
        bars=svg(lambda: bars_figure(comparison), name="bars", label=_BARS),
        heatmap=None if run is None else svg(lambda: heatmap_figure(run), name="heatmap", label=_HEATMAP),
        heatmap_caption="" if run is None else heatmap_caption(heatmap(run)),
        listed=listed,
        headings=HEADINGS,
        levels=levels,
        more=more,
        corrections=[(name, lost, won, ASSUMES[name]) for name, lost, won, _ in chance_rows(comparison.all)],
        notes=comparison.notes,
        n=count(comparison.all.n),
        tolerance=f"{100 * tolerance:g}",
        made=f"Made by forgetwatch {version('forgetwatch')} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        data=Markup(listed.data),
    )


def run_page(
    trajectory: Trajectory, *, probe: Probe | None = None, tolerance: float = TOLERANCE, title: str = ""
) -> str:
    """The page of a run: its last look against its baseline, and the way there.

    Args:
        trajectory: The run.
        probe: Gives questions and options.
        tolerance: The net loss of accuracy that is tolerated, 0 to 1.
        title: What stands below the heading.
    """
    changed = flips(trajectory.baseline, trajectory.last, probe=probe, first=first_forgotten(trajectory))
    last = trajectory.comparisons[-1]
    return page(last, changed=changed, trajectory=trajectory, tolerance=tolerance, title=title)


def _facts(comparison: Comparison) -> str:
    probe: Mapping[str, Any] = comparison.after.get("probe") or {}
    name = f"{probe['name']}, " if "name" in probe else ""
    return f"{name}{count(comparison.items.compared)} questions compared, one by one"


def _several(several: ModelComparison) -> dict[str, Any]:
    """The section of several models: their ranking, its picture, and the matrix."""
    matrix = several.matrix
    return {
        "headings": ["place", "no.", "model", "kept %", "net points"]
        + ([several.target.name, "front"] if several.target else []),
        "ranking": [list(ranking_cells(one).values())[: 7 if several.target else 5] for one in several.ranking],
        "words": several_words(several),
        "picture": svg(lambda: ranking_figure(several), name="ranking", label=_RANKING),
        "rows": list(enumerate(zip(matrix.labels, matrix_cells(several), strict=True))),
        "over": count(matrix.items),
        "left_out": count(matrix.left_out),
    }


def _levels(comparison: Comparison) -> tuple[list[tuple[str, list[_Row]]], str]:
    """The groups by level under a heading, in their order; and what is left out, in words."""
    levels: list[tuple[str, list[_Row]]] = []
    left = []
    for heading, level in _HEADED.items():
        groups = [group for group in comparison.groups if group.level == level]
        kept = {group.name for group in sorted(groups, key=lambda group: -group.forgotten)[:GROUPS]}
        if len(groups) > len(kept):
            left.append(f"{count(len(groups) - len(kept))} more {heading.lower()} that lost no more are left out.")
        if groups:
            rows: list[_Row] = [(group.level, group.name, group_cells(group)) for group in groups if group.name in kept]
            levels.append((heading, rows))
    return levels, " ".join([*left, "--json and --output of a .csv file have all."] if left else [])


def _looks(run: Trajectory) -> list[_Row]:
    """The looks after the baseline, each with the numbers of the whole."""
    last = len(run) - 1
    at = sorted(
        {round(1 + (last - 1) * number / (LOOKS - 1)) for number in range(LOOKS)}
        if last > LOOKS
        else range(1, last + 1)
    )
    return [("look", f"{run.steps[look]:,}", group_cells(run.comparisons[look].all)) for look in at]
