"""The document of a comparison or a run in a terminal: what stands below its first table (`report.document`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from forgetwatch.comparing import TOLERANCE, Comparison, Level, Tolerance, Trajectory, conclude
from forgetwatch.pairing import fit_ends, one_line
from forgetwatch.report.cells import HEADINGS
from forgetwatch.report.document import Aside, Bullets, Heading, Part, Table, document
from forgetwatch.report.summary import summary
from forgetwatch.report.terminal import WIDTH
from forgetwatch.visible_text import visible

_NARROW: Final = ("n", "forgotten", "gained", "known", "known_lost", "net_change", "q_value")
"""Columns of the table of all groups that a terminal shows; the JSON document has all."""
_NAME: Final = 40
_GAP: Final = 2
_INDENT: Final = 2


def comparison_detail(
    comparison: Comparison,
    *,
    trajectory: Trajectory | None = None,
    by: Level = "category",
    tolerance: Tolerance = TOLERANCE,
) -> Lines:
    """Return all sections of a comparison, or of a run at its last look, for a console.

    Args:
        comparison: The comparison.
        trajectory: The run, if it is of one.
        by: Level of the groups that are listed.
        tolerance: Losses that the verdict tolerates.
    """
    first = summary(comparison, trajectory=trajectory, tolerance=tolerance)
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    found = None if run is None else conclude(comparison, trajectory=run, tolerance=tolerance)
    levels: tuple[Level, ...] = tuple(dict.fromkeys(("all", "kind", by)))
    made: list[RenderableType] = []
    sections = document(comparison, first, trajectory=trajectory, found=found, levels=levels, every=True)
    for number, section in enumerate(sections):
        made += [Text(), Text(section.heading, "bold")] if number else [Text(section.heading, "bold")]
        for at, part in enumerate(section.parts):
            made += [Text()] if at and isinstance(part, (Table, Bullets)) else []
            made += [Padding(shown, (0, 0, 0, _INDENT), expand=False) for shown in _shown(part)]
    return Lines(*made)


def _shown(part: Part) -> Iterator[RenderableType]:
    if isinstance(part, Table):
        yield _grid(part)
    elif isinstance(part, Bullets):
        yield from (Text(f"* {visible(line)}", "bold red" if is_alarm else "") for line, is_alarm in part.lines)
    elif isinstance(part, Heading):
        yield Text(f"\n{part.text}", "bold")
    elif isinstance(part, Aside):
        yield Text(visible(part.text), "dim")
    else:
        yield Text(visible(part))


def _grid(table: Table) -> Grid:
    bodies = [[(_short(row.name, table), row.cells) for row in body] for _, body in table.bodies]
    rows = [row for body in bodies for row in body]
    grid = Grid(table.of, box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    grid.columns[0].no_wrap = True
    names, room = list[str](), WIDTH - _INDENT - max(cell_len(name) for name, _ in rows)
    for name in _NARROW if table.headings is HEADINGS else table.headings:
        is_text = name == "text" or not table.attribute
        # Words are wrapped; a column of numbers for which there is no room is left out, with those after it.
        longest = max(map(cell_len, table.headings[name].split()))
        room -= _GAP + (0 if is_text else max([longest, *(cell_len(cells.get(name, "")) for _, cells in rows)]))
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


def _short(name: str, table: Table) -> str:
    # The name of a quantity is copied.
    return name if table.attribute == "every" else fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()
