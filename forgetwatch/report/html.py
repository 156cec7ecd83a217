"""A comparison or a run as one HTML file that opens from disk: no network, no other file, dark and light.

    summary    the first page, in words        figures    curves, categories, question by question
    items      flipped items, with filters     numbers    every group, as in the terminal

All text of items and outputs travels as JSON and is shown as text; nothing in it becomes markup or code.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from forgetwatch.compare import Comparison
from forgetwatch.flips import Flip, Side, first_forgotten, flips, ordered
from forgetwatch.probe import Probe
from forgetwatch.report.bars import bars_figure
from forgetwatch.report.course import alarm_lines
from forgetwatch.report.heatmap import heatmap, heatmap_caption, heatmap_figure
from forgetwatch.report.numbers import count, visible
from forgetwatch.report.pareto import ranking_figure
from forgetwatch.report.plots import trajectory_figure
from forgetwatch.report.rows import HEADINGS, group_cells
from forgetwatch.report.several import matrix_cells, ranking_cells, several_words
from forgetwatch.report.summary import summary
from forgetwatch.report.svg import inline_svg
from forgetwatch.report.terminal import ASSUMES, chance_rows
from forgetwatch.report.verdict import TOLERANCE
from forgetwatch.several import Several
from forgetwatch.trajectory import Trajectory

MOST: Final = 500
"""Flipped items of each kind in the page: those of the largest margin."""
LONGEST: Final = 1024
"""Characters of an output in the page."""
_QUESTION: Final = 4096


def page(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    several: Several | None = None,
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
        title: What stands below the heading; by default what was compared.
    """
    part = files("forgetwatch.report").joinpath("page")
    texts = {
        name: part.joinpath(name).read_text(encoding="utf-8") for name in ("template.html", "style.css", "script.js")
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    shown = {
        what: ordered([flip for flip in changed if flip.what == what])[:MOST]
        for what in ("forgotten", "gained", "churned")
    }
    return environment.from_string(texts["template.html"]).render(
        version=version("forgetwatch"),
        style=Markup(texts["style.css"]),
        script=Markup(texts["script.js"]),
        summary=summary(comparison, changed=changed, trajectory=trajectory, tolerance=tolerance),
        several=None if several is None else _several(several),
        facts=title or _facts(comparison),
        curves=None if run is None else inline_svg(trajectory_figure(run)),
        alarms=[] if run is None else [(line.plain, line.plain.startswith("ALARM")) for line in alarm_lines(run)],
        bars=inline_svg(bars_figure(comparison)),
        heatmap=None if run is None else inline_svg(heatmap_figure(run)),
        heatmap_caption="" if run is None else heatmap_caption(heatmap(run)),
        left_out=_left_out(changed, shown),
        headings=HEADINGS,
        rows=[(group.level, group.name, group_cells(group)) for group in comparison.groups],
        corrections=[(name, lost, won, ASSUMES[name]) for name, lost, won, _ in chance_rows(comparison.all)],
        notes=comparison.notes,
        n=count(comparison.all.n),
        tolerance=f"{100 * tolerance:g}",
        made=f"Made by forgetwatch {version('forgetwatch')} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        data=Markup(_data(changed, shown)),
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


def _several(several: Several) -> dict[str, Any]:
    """The section of several models: their ranking, its picture, and the matrix."""
    matrix = several.matrix
    return {
        "headings": ["place", "no.", "model", "kept %", "net points"]
        + ([several.target.name, "front"] if several.target else []),
        "ranking": [list(ranking_cells(one).values())[: 7 if several.target else 5] for one in several.ranking],
        "words": several_words(several),
        "picture": inline_svg(ranking_figure(several)),
        "rows": list(enumerate(zip(matrix.labels, matrix_cells(several), strict=True))),
        "items": count(matrix.items),
        "left_out": count(matrix.left_out),
    }


def _left_out(changed: Sequence[Flip], shown: Mapping[str, Sequence[Flip]]) -> str:
    """What of the list is not in the page, in words."""
    parts = []
    for what, some in shown.items():
        there = sum(flip.what == what for flip in changed)
        if there > len(some):
            parts.append(f"{count(len(some))} of the {count(there)} {what}")
    listed = f"Of the largest margin: {', '.join(parts)}; the others are left out. " if parts else ""
    if changed and all(flip.item is None for flip in changed):
        listed += "The questions' text is not in these files; --probe gives it. "
    return f"{listed}Outputs are cut at {LONGEST:,} characters."


def _data(changed: Sequence[Flip], shown: Mapping[str, Sequence[Flip]]) -> str:
    """The flipped items as JSON that no markup can end."""
    place = {id(flip): at for at, flip in enumerate(changed)}
    forgotten = [flip for flip in changed if flip.what == "forgotten"]
    counts = {"known_lost": sum(flip.known for flip in forgotten)} if any(flip.known for flip in forgotten) else {}
    counts |= {what: sum(flip.what == what for flip in changed) for what in shown}
    rows = [_flip(flip, place[id(flip)]) for some in shown.values() for flip in some]
    text = json.dumps({"counts": counts, "flips": rows}, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _flip(flip: Flip, place: int) -> dict[str, Any]:
    cut_before, cut_after = _cut(flip.before.output), _cut(flip.after.output)
    parts_before, parts_after = marked(cut_before, cut_after)
    question = flip.question
    return {
        "what": flip.what,
        "known": flip.known,
        "id": visible(flip.item_id),
        "task": visible(flip.task),
        "category": visible(flip.category),
        "question": None if question is None else _short(question),
        "options": [_short(option.strip()) for option in (flip.item.choices if flip.item else ())],
        "gold": list(flip.gold),
        "right": None if flip.right is None else _short(flip.right),
        "before": _side(flip, flip.before, parts_before),
        "after": _side(flip, flip.after, parts_after),
        "margin": flip.margin if math.isfinite(flip.margin) else None,
        "first": flip.first,
        "place": place,
    }


def _side(flip: Flip, side: Side, parts: list[tuple[bool, str]]) -> dict[str, Any]:
    answer = flip.answer(side)
    long = side.output is not None and len(side.output) > LONGEST
    return {
        "chosen": side.chosen,
        "answer": None if answer is None else _short(answer, 200),
        "parts": parts,
        "cut": len(side.output) if side.output is not None and long else 0,
    }


def marked(before: str, after: str) -> tuple[list[tuple[bool, str]], list[tuple[bool, str]]]:
    """Two texts in pieces, each with whether it stands in both; words are compared.

    >>> marked("a b c", "a x c")
    ([(True, 'a '), (False, 'b'), (True, ' c')], [(True, 'a '), (False, 'x'), (True, ' c')])
    """
    if not before or not after:
        return [(True, before)] if before else [], [(True, after)] if after else []
    one, other = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (before, after))
    sides: tuple[list[tuple[bool, str]], list[tuple[bool, str]]] = ([], [])
    for what, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        for side, words in zip(sides, (one[a:b], other[c:d]), strict=True):
            if words:
                side.append((what == "equal", "".join(words)))
    return sides


def _cut(output: str | None) -> str:
    return visible((output or "")[:LONGEST])


def _short(text: str, longest: int = _QUESTION) -> str:
    cut = visible(text[:longest])
    return cut if len(text) <= longest else f"{cut} … cut here; {len(text):,} characters in all"
