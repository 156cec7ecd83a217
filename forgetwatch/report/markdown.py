"""Markdown for a pull request, a chat, or the summary of a pipeline. Plain tables, no HTML.

comparison_markdown   sentences, groups, corrections, and the losses of the largest margin with their texts
ci_summary            verdict, findings and counts of a gate; no text of any question or answer
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from forgetwatch.comparing import TOLERANCE, Comparison, Flip, Group, Level, Trajectory, sort_flips, worst
from forgetwatch.gates import GateResult
from forgetwatch.measures import ASSUMES, DRIFT, PASSAGES, GroupMeasure, chance_rows
from forgetwatch.pairing import items, shorten
from forgetwatch.report.cells import HEADINGS, PANELS, drift_looks, drift_rows, group_cells, measure_rows
from forgetwatch.report.summary import summary
from forgetwatch.visible_text import visible, without_folders

ITEMS = 20
"""Maximum number of lost items that are listed."""
LOOKS = 20
"""Looks in the table of the drift; of more it has every n-th, and the last."""
_OF_GATES: Final = ("n", "forgotten", "gained", "known_lost", "known_lost_net", "net_change")
"""Columns of the table of a gate."""


def comparison_markdown(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    by: Level = "category",
    tolerance: float = TOLERANCE,
) -> str:
    """Markdown of a comparison: the first page, the groups of one level, the losses of the largest margin.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        changed: Items whose answer changed.
        trajectory: The run, if there is one.
        by: Level of the groups that are listed.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
    """
    first = summary(comparison, changed=changed, trajectory=trajectory, tolerance=tolerance)
    lines = [f"# {' → '.join(map(escaped, comparison.labels))}", ""]
    for decided in first.decisions:
        lines += [f"**{decided.word}** {escaped(decided.sentence)}" if decided.word else escaped(decided.sentence), ""]
    for heading, text in first.sections:
        lines += [f"**{heading}** {escaped(text)}", ""]
    lines += _groups_table(comparison, by)
    for measure in PANELS:
        lines += _panel_table(measure, _groups(comparison, by))
    lines += _drift_table(comparison, trajectory)
    if rows := chance_rows(comparison.all.chance, comparison.all.n):
        headings = ["corrected", "forgotten %", "gained %", "assumption and error"]
        lines += ["", *table(headings, [[*row[:3], ASSUMES[row[0]]] for row in rows])]
    forgotten = [flip for flip in sort_flips(changed) if flip.what == "forgotten"]
    if lost := forgotten[:ITEMS]:
        more = len(forgotten) > len(lost)
        listed = f"{len(lost)} of {len(forgotten):,} forgotten, those of the largest margin:"
        lines += ["", listed if more else f"{len(lost):,} forgotten:", ""]
        lines += table(["item", "question", "before", "after"], [_item(flip) for flip in lost])
    notes = [*([] if trajectory is None else trajectory.notes), *comparison.notes]
    lines += ["", *(f"* {escaped(without_folders(note))}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _groups_table(comparison: Comparison, by: Level, columns: Sequence[str] = tuple(HEADINGS)) -> list[str]:
    """Lines of a table of some `HEADINGS`, of the whole and of the groups of one level that have answers.

    There is none for passages alone.
    """
    if not comparison.all.n and comparison.all.passages:
        return []
    groups = [comparison.all, *(group for group in _groups(comparison, by)[1:] if group.n)]
    rows = [[group.name, *(group_cells(group)[name] for name in columns)] for group in groups]
    return table(["", *(HEADINGS[name] for name in columns)], rows)


def _panel_table(measure: GroupMeasure[Any], groups: Sequence[Group]) -> list[str]:
    """Lines of the table that a measure has of its own; none if no group has the measure."""
    rows = [[group.name, *cells.values()] for group, cells in measure_rows(measure, groups)]
    return ["", *table(["", *measure.headings.values()], rows)] if rows else []


def _drift_table(comparison: Comparison, trajectory: Trajectory | None) -> list[str]:
    """Lines of a table of the drift from the base, of a run at each look; none where it was not measured."""
    looks = {} if trajectory is None else drift_looks(trajectory, LOOKS)
    rows = [
        [f"step {step:,}, {name}", *cells.values()] for step, one in looks.items() for name, cells in drift_rows(one)
    ]
    if not looks:
        rows = [[name, *cells.values()] for name, cells in drift_rows(comparison.drift or {})]
    if not rows:
        return []
    text = "Drift from the base: KL(base to now) in nats a token, on texts that the base generated after these prompts."
    return ["", text, "", *table(["prompts", *DRIFT.headings.values()], rows)]


def _groups(comparison: Comparison, by: Level) -> list[Group]:
    """The whole, and the groups of one level."""
    return [comparison.all] if by == "all" else [comparison.all, *comparison.by(by).values()]


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the text of its cells is escaped."""
    lines = [names, ["---"] * len(names), *([escaped(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def escaped(text: str) -> str:
    """Text in one line, escaped so that Markdown shows it unchanged."""
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", visible(" ".join(text.split())))


def _item(flip: Flip) -> list[str]:
    said = [flip.answer(flip.before), flip.answer(flip.after)]
    return [f"{flip.task} / {flip.item_id}", shorten(flip.question or ""), *(shorten(one or "", 60) for one in said)]


def ci_summary(judgements: Sequence[GateResult]) -> str:
    """Markdown of the results of a gate, at least one; the heading has the worst verdict."""
    lines = [f"## forgetwatch: {worst(one.verdict for one in judgements)}", ""]
    for judgement in judgements:
        comparison = judgement.comparison
        lines += [f"**{judgement.verdict}** {' → '.join(map(escaped, comparison.labels))}", ""]
        rows = [[one.verdict, one.what, one.measured, one.limit] for one in judgement.findings]
        lines += [*table(["verdict", "what", "measured", "limit"], rows), ""]
        groups = _groups(comparison, "category")
        lines += [*_groups_table(comparison, "category", _OF_GATES), *_panel_table(PASSAGES, groups), ""]
        if comparison.items.unscored:
            lines += [f"Unscored, and in no count: {items(comparison.items.unscored)}.", ""]
    return "\n".join(lines).rstrip() + "\n"
