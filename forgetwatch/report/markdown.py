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
from forgetwatch.report.cells import HEADINGS, PANELS, group_cells
from forgetwatch.report.drift_table import drift_rows, is_measured, spread_looks
from forgetwatch.report.summary import summary
from forgetwatch.visible_text import visible, without_folders

ITEMS = 20
"""Maximum number of lost items that are listed."""
LOOKS = 20
"""Looks in the table of the drift; of more it has every n-th, and the last."""


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
    lines = [f"# {escaped(first.before)} → {escaped(first.after)}", ""]
    for decided in first.decisions:
        lines += [f"**{decided.word}** {escaped(decided.sentence)}" if decided.word else escaped(decided.sentence), ""]
    for heading, text in first.sections:
        lines += [f"**{heading}** {escaped(text)}", ""]
    lines += [*groups_table(comparison, by=by), *panel_tables(comparison, by=by)]
    lines += drift_table(comparison, trajectory)
    if rows := chance_rows(comparison.all.chance, comparison.all.n):
        lines += [
            "",
            *table(
                ["corrected", "forgotten %", "gained %", "assumption and error"],
                [[*row[:3], ASSUMES[row[0]]] for row in rows],
            ),
        ]
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten"][:ITEMS]
    if lost:
        there = sum(flip.what == "forgotten" for flip in changed)
        lines += [
            "",
            f"{len(lost)} of {there:,} forgotten, those of the largest margin:"
            if there > len(lost)
            else f"{there:,} forgotten:",
            "",
        ]
        lines += table(["item", "question", "before", "after"], [_item(flip) for flip in lost])
    notes = [*([] if trajectory is None else trajectory.notes), *comparison.notes]
    lines += ["", *(f"* {escaped(without_folders(note))}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def groups_table(
    comparison: Comparison, *, by: Level = "category", columns: Sequence[str] = tuple(HEADINGS)
) -> list[str]:
    """Lines of a table of the whole and of the groups of one level that have answers; none for passages alone.

    Args:
        comparison: The comparison.
        by: Level of the groups; ``all`` for the whole alone.
        columns: Quantities of `HEADINGS`.
    """
    if not comparison.all.n and comparison.all.passages:
        return []
    groups = [comparison.all, *(group for group in _groups(comparison, by)[1:] if group.n)]
    rows = [[group.name, *(group_cells(group)[name] for name in columns)] for group in groups]
    return table(["", *(HEADINGS[name] for name in columns)], rows)


def panel_tables(
    comparison: Comparison, *, by: Level = "category", panels: Sequence[GroupMeasure[Any]] = PANELS
) -> list[str]:
    """Lines of a table of each measure that has its own, of the whole and of the groups of one level.

    Args:
        comparison: The comparison.
        by: Level of the groups; ``all`` for the whole alone.
        panels: The measures.
    """
    lines = []
    for measure in panels:
        cells = [(group.name, measure.cells(group[measure])) for group in _groups(comparison, by)]
        rows = [[name, *shown.values()] for name, shown in cells if shown]
        lines += ["", *table(["", *measure.headings.values()], rows)] if rows else []
    return lines


def drift_table(comparison: Comparison, trajectory: Trajectory | None = None) -> list[str]:
    """Lines of a table of the drift from the base, of a run at each look; none where it was not measured."""
    looks = {"": comparison.drift or {}}
    if trajectory is not None and is_measured(trajectory):
        shown = spread_looks(trajectory.steps[1:], LOOKS)
        looks = {f"step {step:,}, ": drift for step, drift in trajectory.drift.items() if step in shown}
    rows = [[f"{step}{name}", *cells.values()] for step, drift in looks.items() for name, cells in drift_rows(drift)]
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


_COLUMNS: Final = ("n", "forgotten", "gained", "known_lost", "known_lost_net", "net_change")


def ci_summary(judgements: Sequence[GateResult]) -> str:
    """Markdown of the results of a gate.

    Args:
        judgements: At least one; the heading has the worst verdict.
    """
    lines = [f"## forgetwatch: {worst(one.verdict for one in judgements)}", ""]
    for judgement in judgements:
        comparison = judgement.comparison
        lines += [f"**{judgement.verdict}** {' → '.join(map(escaped, comparison.labels))}", ""]
        rows = [[one.verdict, one.what, one.measured, one.limit] for one in judgement.findings]
        lines += [*table(["verdict", "what", "measured", "limit"], rows), ""]
        lines += [*groups_table(comparison, columns=_COLUMNS), *panel_tables(comparison, panels=(PASSAGES,)), ""]
        if comparison.items.unscored:
            lines += [f"Unscored, and in no count: {items(comparison.items.unscored)}.", ""]
    return "\n".join(lines).rstrip() + "\n"
