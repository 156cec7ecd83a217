"""A comparison or a run in a terminal of 78 columns: the first table, and the sections below it.

`first_lines` shows the first table of `report.eight_lines`, which is of at most eight lines;
optional rows give way to those that must be read. `comparison_detail` has every correction, bound
and diagnostic, from `report.sections`. Percentages are shares of the items, points are differences
of percentages, brackets hold 95 % intervals, of the categories simultaneous ones. No meaning is
carried by colour alone.
"""

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.measures.base_drift import ESTIMATORS, REVERSE, best_estimator, kl_text
from forgetwatch.report.cells import HEADINGS
from forgetwatch.report.eight_lines import FirstTable, first_table
from forgetwatch.report.sections import Aside, Bullets, Heading, Part, Table, document
from forgetwatch.report.sentences import summary
from forgetwatch.report.side_names import shortened
from forgetwatch.text import fit_ends, one_line
from forgetwatch.visible_text import visible

WIDTH: Final = 78
DETAIL_WIDTH: Final = 100
LINES: Final = 8
"""Lines of the first table at most, and one for a gate or a guard; the path of a report follows them."""
NOTES: Final = 3
"""Maximum number of lines of notes in it."""

_LABEL: Final = 11
_NAME_ROOM: Final = 8
"""Columns that a name keeps beside a long claim."""
_GIVES_WAY: Final = ("new task", "when", "passages")
"""Rows for which there may be no room, in their order."""
_JOINED: Final = "\ue000"
"""Stands for a blank at which no line ends; of private use, so that no text has it."""
_STYLES: Final = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold"}


def first_lines(verdict_table: FirstTable, notes: Sequence[str] = ()) -> Lines:
    """First table for a console, with notes that fit.

    Print with `soft_wrap`: all lines fit but the next command, which is copied and must stay whole.

    Print it with `soft_wrap`: all lines fit but the next command, which is copied and must stay
    whole.
    """
    decision = verdict_table.decision
    name, room = verdict_table.name, WIDTH - _LABEL - cell_len(decision.claim) - 2
    if cell_len(name) > room:  # the side before is known to whoever compares
        own_name, comma, step = name.partition(" against ")[0].partition(", ")
        room -= cell_len(
            comma + step
        )  # beside a claim that takes two lines anyway the name is as usual
        name = (
            shortened(own_name)
            if room < _NAME_ROOM
            else fit_ends(own_name, min(room, cell_len(own_name))).rstrip()
        )
        name += comma + step
    lines = _hanging(decision.word, f"{name}: {decision.claim}", _STYLES[decision.answer])
    lines += _hanging("", decision.basis, "") if decision.basis else []
    rows = {label: _hanging(label, cell, "bold") for label, cell in verdict_table.rows}
    if verdict_table.command:  # it is copied, and so is whole, however long
        rows["next"] = [
            Text(f"{'next':<{_LABEL}}", "bold").append(verdict_table.command, "not bold")
        ]
    acted = sum(label in rows for label in ("gate", "guard"))
    for label in _GIVES_WAY:
        if len(lines) + sum(map(len, rows.values())) > LINES + acted:
            rows.pop(label, None)
    lines += [line for of_row in rows.values() for line in of_row]
    room = LINES + acted - len(lines)
    if notes and room > 0:
        lines += note_lines(notes, min(NOTES, room))
    elif notes:
        hint = f"  ({len(notes)} note{'s'[: len(notes) > 1]}: --detail)"
        fits = [
            line
            for line in lines[: len(lines) - bool(verdict_table.command)]
            if cell_len(line.plain) + len(hint) <= WIDTH
        ]
        (fits or lines)[-1].append(hint, "dim")
    return Lines(*lines)


def comparison_text(comparison: Comparison, trajectory: Trajectory | None = None) -> str:
    """First table of a comparison or of a run, as plain text."""
    return plain_text(first_lines(first_table(comparison, trajectory=trajectory), comparison.notes))


def plain_text(lines: Lines) -> str:
    """Table as text without colours."""
    out = StringIO()
    Console(file=out, width=WIDTH).print(lines, soft_wrap=True)
    return out.getvalue().rstrip()


def _hanging(label: str, text: str, style: str) -> list[Text]:
    # " %" stays with its number.
    whole = one_line(text).replace(" %", f"{_JOINED}%")
    first_line, *rest = (
        line.plain.rstrip().replace(_JOINED, " ")
        for line in Text(whole).wrap(Console(width=WIDTH), WIDTH - _LABEL)
    )
    return [
        Text().append(f"{label:<{_LABEL}}", style).append(first_line),
        *(Text(" " * _LABEL + line) for line in rest),
    ]


def drift_line(comparison: Comparison) -> list[Text]:
    """Line on the drift by the least noisy estimator.

    None if drift was not measured.
    """
    if not (drift := comparison.drift):
        return []
    best = best_estimator(drift.values())
    parts = [
        f"{'after||base' if name == REVERSE else name} {kl_text(set_drift, best)}"
        for name, set_drift in drift.items()
    ]
    return [_cut(Text(f"drift, KL {ESTIMATORS[best]}  {'  '.join(parts)}"))]


def note_lines(notes: Sequence[str], room: int = NOTES) -> list[Text]:
    """Lines of notes, the most important first.

    The number of notes left out is counted.

    There are at most `room` lines, and at least one. No note is cut: those that do not fit as a
    whole are counted.
    """
    lines: list[Text] = []
    for index, note in enumerate(notes):
        wrapped = Text(f"note: {one_line(note)}").wrap(Console(width=WIDTH), WIDTH)
        hidden = len(notes) - index
        if len(lines) + len(wrapped) + (hidden > 1) > room:
            more = "more " if index else ""
            return [
                *lines,
                Text(f"{hidden} {more}note{'s' if hidden > 1 else ''}: --detail", style="dim"),
            ]
        lines += [Text(line.plain.rstrip(), style="dim") for line in wrapped]
    return lines


def _cut(text: Text) -> Text:
    text.truncate(WIDTH, overflow="ellipsis")
    return text


_LEFT_OUT: Final = "accuracy_"
"""Beginnings of the columns of the table of all groups for which a terminal has no room."""
_NAME: Final = 40
_GAP: Final = 2
_INDENT: Final = 2


def comparison_detail(
    comparison: Comparison,
    verdict_table: FirstTable,
    *,
    trajectory: Trajectory | None = None,
    by: Level = "category",
) -> Lines:
    """All sections of a comparison or run, for a console.

    Args:
        comparison: The comparison.
        verdict_table: Its first table.
        trajectory: The run, if it is of one.
        by: Level of the groups that are listed.
    """
    levels: tuple[Level, ...] = tuple(dict.fromkeys(("all", "kind", by)))
    blocks: list[RenderableType] = []
    sections = document(
        comparison, summary(comparison, verdict_table), trajectory=trajectory, levels=levels
    )
    for number, section in enumerate(sections):
        blocks += (
            [Text(), Text(section.heading, "bold")] if number else [Text(section.heading, "bold")]
        )
        for at, part in enumerate(section.parts):
            blocks += [Text()] if at and isinstance(part, (Table, Bullets)) else []
            blocks += [Padding(block, (0, 0, 0, _INDENT), expand=False) for block in _shown(part)]
    return Lines(*blocks)


def _shown(part: Part) -> Iterator[RenderableType]:
    if isinstance(part, Table):
        yield _grid(part)
    elif isinstance(part, Bullets):
        yield from (
            Text(f"* {visible(line)}", "bold red" if is_alarm else "")
            for line, is_alarm in part.lines
        )
    elif isinstance(part, Heading):
        yield Text(f"\n{part.text}", "bold")
    elif isinstance(part, Aside):
        yield Text(visible(part.text), "dim")
    else:
        yield Text(visible(part))


def _grid(table: Table) -> Grid:
    bodies = [[(_short(row.name), row.cells) for row in body] for _, body in table.bodies]
    rows = [row for body in bodies for row in body]
    grid = Grid(table.of, box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    grid.columns[0].no_wrap = True
    names, room = list[str](), DETAIL_WIDTH - _INDENT - max(cell_len(name) for name, _ in rows)
    for name in table.headings:
        if table.headings is HEADINGS and name.startswith(_LEFT_OUT):
            continue
        is_text = name == "text" or not table.attribute
        # Words are wrapped; a column of numbers for which there is no room is left out, with those
        # after it.
        longest = max(map(cell_len, table.headings[name].split()))
        room -= _GAP + (
            0 if is_text else max([longest, *(cell_len(cells.get(name, "")) for _, cells in rows)])
        )
        if room < 0:
            break
        names.append(name)
        grid.add_column(table.headings[name], justify="left" if is_text else "right")
    for number, body in enumerate(bodies):
        if number:
            grid.add_row()
        for row, cells in body:
            grid.add_row(Text(row), *(Text(visible(cells.get(name, ""))) for name in names))
    return grid


def _short(name: str) -> str:
    return fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()
