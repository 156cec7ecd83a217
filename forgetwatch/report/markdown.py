"""Comparisons and runs in Markdown, for a pull request, a chat, or the summary of a pipeline: plain tables, no HTML.

`comparison_markdown` shows the losses of the largest margin with their texts.
"""

import math
import re
from collections.abc import Sequence

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip, sort_flips
from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.report.eight_lines import FirstTable, first_table
from forgetwatch.report.sections import Aside, Bullets, Heading, Part, Table, document
from forgetwatch.report.sentences import Summary, summary
from forgetwatch.text import shorten
from forgetwatch.visible_text import visible, without_folders

ITEMS = 20
"""Maximum number of lost items that are listed."""


def comparison_markdown(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    by: Level = "category",
    tolerance: Tolerance = TOLERANCE,
    title: str = "",
) -> str:
    """Markdown of a comparison.

    The first screen, its sections, the groups of one level, and lost questions.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        changed: Items whose answer changed.
        trajectory: The run, if there is one.
        by: Level of the groups that are listed.
        tolerance: Losses that the verdict tolerates.
        title: Name of the run.
    """
    verdict_table = first_table(comparison, trajectory=trajectory, tolerance=tolerance, name=title)
    screen = summary(comparison, verdict_table, changed=changed)
    levels: tuple[Level, ...] = tuple(dict.fromkeys(("all", "kind", "wording", by)))
    lines = _first_screen(screen)
    for section in document(comparison, screen, trajectory=trajectory, levels=levels):
        lines += [f"## {escaped(section.heading)}", ""]
        for part in section.parts:
            lines += [*_part(part), ""]
    forgotten = [flip for flip in sort_flips(changed) if flip.what == "forgotten"]
    if lost := forgotten[:ITEMS]:
        more = len(forgotten) > len(lost)
        which = "those of the largest margin" if math.isfinite(lost[0].margin) else "the first"
        listed = f"{len(lost)} of {len(forgotten):,} forgotten, {which}:"
        lines += ["## Which questions", "", listed if more else f"{len(lost):,} forgotten:", ""]
        lines += table(["item", "question", "before", "after"], [_item(flip) for flip in lost])
    for note in () if trajectory is None else trajectory.notes:
        lines += ["", f"* {escaped(without_folders(note))}"]
    return "\n".join(lines).rstrip() + "\n"


def _part(part: Part) -> list[str]:
    if isinstance(part, Table):
        rows = [[row.name, *row.cells.values()] for _, rows in part.bodies for row in rows]
        return table([part.of, *part.headings.values()], rows)
    if isinstance(part, Bullets):
        return [f"* {escaped(line)}" for line, _ in part.lines]
    if isinstance(part, Heading):
        return [f"### {escaped(part.text)}"]
    return [escaped(part.text if isinstance(part, Aside) else part)]


def _first_screen(screen: Summary) -> list[str]:
    lines = [*_first_table(screen.first), ""]
    if screen.lost:
        lines += [f"**{escaped(screen.lost_title)}**", ""]
        lines += [
            f"* {escaped(f'{example.question} before {example.before}, now {example.after}')}"
            for example in screen.lost
        ]
        lines += [""]
    return lines


def _first_table(verdict_table: FirstTable, more: Sequence[tuple[str, str]] = ()) -> list[str]:
    # `more` are further rows.
    decision, rows = verdict_table.decision, [*verdict_table.rows, *more]
    lines = [f"**{decision.word}** {escaped(f'{verdict_table.name}: {decision.claim}')}", ""]
    lines += [escaped(decision.basis), ""] if decision.basis else []
    return [*lines, *table([*map(escaped, rows[0])], rows[1:])] if rows else lines


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the text of cells is escaped."""
    lines = [names, ["---"] * len(names), *([escaped(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def escaped(text: str) -> str:
    """Text in one line that Markdown shows unchanged."""
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", visible(" ".join(text.split())))


def _item(flip: Flip) -> list[str]:
    said = [flip.answer(flip.before), flip.answer(flip.after)]
    return [
        f"{flip.task} / {flip.item_id}",
        shorten(flip.question or ""),
        *(shorten(cell or "", 60) for cell in said),
    ]
