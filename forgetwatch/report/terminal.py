"""A comparison or a run in a terminal of 78 columns: the first table.

    forgetwatch  tuned against base  standard, 2,000 items, plain prompt
    FORGOT        29 % of what it clearly knew is gone (55 of 187 without lucky
                  guesses; 95 %: 21 to 37 %; limit 5 %), most in History (17
                  of 39) and Trade (16 of 42)
    accuracy      70.3 -> 69.2 %; estimated true change -1.4 points (-4.2 to
                  +1.4), limit -2
    questions     68 of 360 forgotten, 64 gained; the same weights measured
                  twice: none changes
    clearly known 63 of the 195 it was sure of are now wrong, about 8 of them
                  guessed; 50 newly known
    new task      loss 2.24 -> 0.668
    worst         History -24.1 points (-36.0 to -12.2), Trade -15.3 (-28.1 to
                  -2.5), limit -5
    since         History: step 60
    next          keep run/checkpoint-45; or forgetwatch report run

At most 18 lines, for somebody who never read the glossary. The verdict is first, in a word and the
sentence of `comparing.decision`; the facts are those of `report.sentences`. Every line has a label, every number a
unit. A line that has nothing to say is left out; notes that do not fit are counted. `comparison_detail` has every
correction, bound and diagnostic. Percentages are shares of the items, points are differences of percentages, brackets
hold 95 % intervals, of the categories simultaneous ones. No meaning is carried by colour alone.

`comparison_detail` is what stands below the first table (`report.document`).
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from forgetwatch.comparing import (
    TOLERANCE,
    Comparison,
    Conclusion,
    Group,
    Level,
    RankedCategory,
    Tolerance,
    Trajectory,
    conclude,
    vanished_note,
)
from forgetwatch.measures import ESTIMATORS, MEASURES, PASSAGES, best_estimator, kl_text
from forgetwatch.policy import PolicyResult
from forgetwatch.report.advice import look_to_keep, model_names, more_of_run, run_title, shortened
from forgetwatch.report.document import HEADINGS, Aside, Bullets, Heading, Part, Table, document
from forgetwatch.report.sentences import fact_rows, short_name, summary
from forgetwatch.run_folder import RUN_FOLDER
from forgetwatch.text import between, fit, fit_ends, items, one_line, points
from forgetwatch.visible_text import visible

WIDTH: Final = 78
DETAIL_WIDTH: Final = 100
LINES: Final = 18
"""Maximum number of lines of the first table, its title among them; the path of a report follows them."""
WORST: Final = 3
"""Maximum number of categories in it."""
_VANISHED: Final = 0.05
"""Share of vanished items up to which they have no line."""
NOTES: Final = 3
"""Maximum number of lines of notes in it."""

LOST: Final = "red"
WON: Final = "green"
_FINDINGS: Final = 2
"""Limits of a gate in its sentence."""
_LEGS: Final = {"accuracy": "accuracy", "known": "knowledge", "category": "category"}
"""Leg of the verdict that each limit asks about."""
_BRAND: Final = "forgetwatch  "
_LABEL: Final = 14
_JOINED: Final = "\ue000"
"""Stands for a blank at which no line ends; of private use, so that no text has it."""
_STYLES: Final = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold"}


def comparison_table(
    comparison: Comparison,
    *,
    title: str = "",
    tolerance: Tolerance = TOLERANCE,
    trajectory: Trajectory | None = None,
    flips: str = "",
    remedy: str = "",
    more: str = "",
    gate: PolicyResult | None = None,
) -> Lines:
    """Return the first table of a comparison, for a console.

    Print it with `soft_wrap`: all lines fit but the next command, which is copied and must stay whole.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        title: Title; by default the names of the two models.
        tolerance: Losses that the verdict tolerates.
        trajectory: The run, if there is one.
        flips: Command that lists the items whose answer changed, to which the worst category is added.
        remedy: What to do about a loss: a checkpoint to keep, or the command of a merge.
        more: Command that measures more.
        gate: Result of a gate, which has a line of its own.
    """
    whole = comparison.all
    found = conclude(comparison, trajectory=trajectory, tolerance=tolerance)
    lines = _verdict_lines(found, gate)
    rows = dict(fact_rows(comparison, found, trajectory))
    first = ("accuracy", "questions", "clearly known", "new task", "this stage")
    lines += [line for label in first if label in rows for line in _fact(label, rows[label])]
    lines += _worst_line(found) if whole.n else []
    if whole.outcomes.vanished <= _VANISHED * (whole.n + whole.outcomes.vanished):
        rows.pop("vanished", None)
    if all(trip.what in ("alarm", "known") for trip in found.findings):  # the row on alarms names them
        rows.pop("guard", None)
    lines += (_fact("vanished", rows["vanished"]) if "vanished" in rows else []) + other_lines(whole)
    if not whole.n:
        rose = sorted(
            comparison.by("category").values(), key=lambda one: -(read.change.mean if (read := one[PASSAGES]) else 0.0)
        )
        lines += passage_lines(rose, WORST)
    last = [label for label in ("since", "looks", "guard", "ended") if label in rows]
    lines += [line for label in last for line in _fact(label, rows[label])]
    lines += _next_line(comparison, found, flips, remedy, more)
    said = vanished_note(whole) if "vanished" in rows else None
    return Lines(_title(comparison, title), *_with_notes(lines, [note for note in comparison.notes if note != said]))


def run_table(
    trajectory: Trajectory,
    *,
    title: str = "",
    run: Path | str = "",
    of: int | None = None,
    tolerance: Tolerance = TOLERANCE,
    gate: PolicyResult | None = None,
    has_advice: bool = False,
) -> Lines:
    """Return the first table of a run: its last look against the start, and what all looks show.

    Args:
        trajectory: The run.
        title: Title; by default that of `decision.run_title`.
        run: Its folder, which the title and the next command name.
        of: Number of steps of the training, if known.
        tolerance: Losses that the verdict tolerates.
        gate: Result of a gate, which has a line of its own.
        has_advice: True if what can be tried is printed below it.
    """
    if len(trajectory) == 1:
        return Lines(Text().append("forgetwatch  ", style="bold cyan").append("no look after the baseline"))
    # Shorter to type, and read as the same run.
    named = Path(run).parent if Path(run).name == RUN_FOLDER else run
    advise = "what is listed below" if has_advice else f"forgetwatch report {shlex.quote(str(named))}"
    look = look_to_keep(trajectory, Path(named), tolerance)[0] if run else None
    is_earlier = look is not None and look.step != trajectory.own.final_step
    kept = f"keep {shlex.quote(str(look.checkpoint))}; or " if look is not None and is_earlier else ""
    return comparison_table(
        trajectory.final,
        title=title or run_title(trajectory, run, of=of),
        tolerance=tolerance,
        trajectory=trajectory,
        gate=gate,
        flips=f"forgetwatch flips {shlex.quote(str(named))}" if run else "",
        remedy=f"{kept}{advise}" if run else "",
        more=more_of_run(trajectory, Path(named)) if run else "",
    )


def plain_text(lines: Lines) -> str:
    """Return a table as text without colours."""
    out = StringIO()
    Console(file=out, width=WIDTH).print(lines, soft_wrap=True)
    return out.getvalue().rstrip()


def _row(label: str, text: str, *, style: str = "") -> Text:
    return _cut(Text(f"{label:<{_LABEL}}", style or "bold").append(one_line(text), "not bold"))


def _title(comparison: Comparison, title: str) -> Text:
    """Return what was compared with what, on which probe, in one line.

    Of facts the last are dropped if they do not fit.
    """
    after, before = reversed(model_names(comparison))
    name = one_line(title or f"{shortened(after)} against {shortened(before)}")
    found = facts(comparison)
    # The parts are in the order of their weight.
    parts = [part for part in (short_name(found.pop("probe")), *found.values()) if part]
    while len(parts) > 1 and len(_BRAND) + cell_len(name) + 2 + cell_len(", ".join(parts)) > WIDTH:
        parts.pop()
    line, told = Text().append(_BRAND, style="bold cyan"), ", ".join(parts)
    room = WIDTH - len(_BRAND) - cell_len(told) - 2
    return _cut(line.append(fit_ends(name, max(min(room, cell_len(name)), 12)), "bold").append(f"  {told}", "dim"))


def facts(comparison: Comparison) -> dict[str, str]:
    """Return the texts of what was compared and how, by their subject; empty where there is nothing to say."""
    probe: dict[str, Any] = comparison.after.get("probe") or {}
    counted, clusters = comparison.items, comparison.clusters
    left_out = counted.only_before + counted.only_after
    return {
        "probe": one_line(str(probe["name"])) if "name" in probe else "",
        "items": items(counted.compared) if counted.compared or not comparison.all.passages else "",
        "unscored": f"{counted.unscored:,} unscored" if counted.unscored else "",
        "left out": f"{left_out:,} left out" if left_out else "",
        "samples": f"{comparison.samples} samples each" if comparison.samples > 1 else "",
        "clusters": f"in {clusters:,} cluster{'s' if clusters > 1 else ''}" if clusters else "",
        "prompt": f"{one_line(str(probe['rendering']))} prompt" if "rendering" in probe else "",
    }


def _verdict_lines(found: Conclusion, gate: PolicyResult | None) -> list[Text]:
    """Return the decision with a hanging indent, what else a reader must know, and the answer of a gate."""
    made = found.decision
    lines = _hanging(f"{made.word:<{_LABEL}}", made.sentence, _STYLES[made.answer])
    if made.reasons:
        lines += _hanging(f"{'caution':<{_LABEL}}", "; ".join(made.reasons), "bold")
    if gate is not None:
        lines += _hanging(f"{'gate':<{_LABEL}}", f"{gate.answer}: {_of_gate(gate)}", _STYLES[gate.answer])
    return lines


def _hanging(label: str, text: str, style: str) -> list[Text]:
    """Return a text in as many lines as it takes beside its label; " %" stays with its number."""
    whole = one_line(text).replace(" %", f"{_JOINED}%")
    first, *rest = (
        line.plain.rstrip().replace(_JOINED, " ") for line in Text(whole).wrap(Console(width=WIDTH), WIDTH - _LABEL)
    )
    return [Text().append(label, style).append(first), *(Text(" " * _LABEL + line) for line in rest)]


def _of_gate(result: PolicyResult) -> str:
    """Return what decides the answer of a gate."""
    parts = [f"{one.what.removeprefix('all ')} {one.measured}, {one.limit}" for one in result.deciding[:_FINDINGS]]
    if len(result.deciding) > _FINDINGS:
        parts.append(f"{len(result.deciding) - _FINDINGS} more")
    return "; ".join([result.unmeasured, *parts] if result.unmeasured else parts)


def _fact(label: str, text: str) -> list[Text]:
    rows = _hanging(f"{label:<{_LABEL}}", text, "bold")
    for row in rows:
        row.highlight_regex(r"\S+(?= of \S+ (forgotten|lost))|\S+(?= of the \S+ it was sure of)", f"bold {LOST}")
        row.highlight_regex(r"\S+(?= gained)", f"bold {WON}")
    return rows


def _worst_line(found: Conclusion) -> list[Text]:
    """Return the categories that lost most, beyond chance; none for fewer than two categories."""
    leg = found.decision.leg("category")
    if not found.categories:
        return []
    shown = found.lost or tuple(one for one in found.ranked if one.change < 0)
    if not found.ranked and not shown:
        return (
            [] if leg is not None and not leg.allows else [_row("categories", f"none of {found.categories} stands out")]
        )
    if not shown or (not found.lost and found.decision.word == "KEPT"):
        won = f"; {_ranked(found.won[:WORST], 44)} gained" if found.won else ""
        return [_row("categories", f"none clearly fell{won}")]
    limit = "" if leg is None or leg.limit is None else f", limit {100 * leg.limit:g}"
    return _hanging(f"{'worst':<{_LABEL}}", _ranked(shown, 2 * (WIDTH - _LABEL) - len(limit)) + limit, "bold")


def _ranked(categories: Sequence[RankedCategory], room: int) -> str:
    """Return some categories with their changes and intervals, as many as fit; the first stays."""
    text = ""
    for one in categories[:WORST]:
        unit = "" if text else " points"
        part = f"{short_name(one.group.name)} {points(one.change)}{unit} ({between(one.interval, points)})"
        if text and cell_len(text) + 2 + cell_len(part) > room:
            break
        text += f", {part}" if text else part
    return text


def _next_line(comparison: Comparison, found: Conclusion, flips: str, remedy: str, more: str) -> list[Text]:
    """Return what to do next, at most two things: a remedy, and the command that lists the lost questions."""
    then, lost = found.decision.next, found.lost
    if then == "measure" and more:
        return [_whole(more)]
    if not flips or not comparison.all.forgotten or then in ("nothing", "vanished", "measure"):
        return []
    leg = found.decision.leg("category")
    name = (
        lost[0].group.name if lost else leg.group if leg is not None and found.decision.deciding == "category" else ""
    )
    of = f" --category {shlex.quote(name)}" if name and one_line(name) == name else ""
    parts = [one_line(remedy)] if remedy else []
    parts += [more] if more and then == "measure twice" else []
    return [_whole("; or ".join([*parts, one_line(flips) + of]))]


def _whole(command: str) -> Text:
    """Return the line of a command: it is copied, and so is whole, however long."""
    return Text(f"{'next':<{_LABEL}}", "bold").append(command, "not bold")


def _with_notes(lines: list[Text], notes: Sequence[str]) -> list[Text]:
    """Return the lines with as many notes as there is room for; those that do not fit are counted."""
    # Optional lines give way: what measuring adds is said by others, or in the detail.
    for label in ("guard", "categories", "looks"):
        at = next((at for at, line in enumerate(lines) if line.plain.startswith(f"{label} ")), None)
        if len(lines) >= LINES and at is not None:
            below = itertools.dropwhile(lambda line: line.plain.startswith(" " * _LABEL), lines[at + 1 :])
            lines = [*lines[:at], *below]
    room = LINES - 1 - len(lines)
    if notes and room > 0:
        return [*lines, *note_lines(notes, min(NOTES, room))]
    if notes:
        text = f"  ({len(notes)} note{'s' if len(notes) > 1 else ''}: --detail)"
        at = next((at for at in range(len(lines) - 1, -1, -1) if cell_len(lines[at].plain) + len(text) <= WIDTH), -1)
        lines[at].append(text, "dim")
    return lines


def drift_line(comparison: Comparison) -> list[Text]:
    """Return the line on the drift by the least noisy estimator; none if it was not measured."""
    if not (drift := comparison.drift):
        return []
    best = best_estimator(drift.values())
    parts = [f"{name} {kl_text(found, best)}" for name, found in drift.items()]
    line = f"drift, KL {ESTIMATORS[best]}   {'   '.join(parts)}"
    if cell_len(line) > WIDTH:
        line = f"drift, {ESTIMATORS[best]}  {'  '.join(parts)}"
    return [_cut(Text(line))]


def other_lines(group: Group) -> list[Text]:
    """Return the lines of all measures that have one."""
    found = [(measure.line, group[measure]) for measure in MEASURES if measure.line is not None]
    lines = [line(result) for line, result in found if result is not None]
    return [_cut(Text(line)) for line in lines if line]


def passage_lines(groups: Sequence[Group], most: int) -> list[Text]:
    """Return the bits per byte of some groups, in their order, under a heading; no line for fewer than two groups."""
    groups = [group for group in groups if group.passages]
    if len(groups) < 2 or most < 1:
        return []
    # The widths and the gaps stay under 80 columns.
    lines = [Text(f"{plural(groups[0].level):<22} {'texts':>6} {'before':>7} {'after':>7} {'change':>28}", "bold")]
    for group in groups[:most]:
        passages, before, after, change = PASSAGES.cells(group[PASSAGES]).values()
        name = fit(group.name, 20)
        lines.append(Text(f"  {name} {passages:>6} {before:>7} {after:>7} {change:>28}"))
    return lines


def plural(level: Level) -> str:
    """Return the name of the groups of a level."""
    return "categories" if level == "category" else f"{level}s"


def note_lines(notes: Sequence[str], room: int = NOTES) -> list[Text]:
    """Return the lines of some notes, the most important first, and the number of those that are left out.

    There are at most `room` lines, and at least one. No note is cut: those that do not fit as a whole are counted.
    """
    lines: list[Text] = []
    for index, note in enumerate(notes):
        wrapped = Text(f"note: {one_line(note)}").wrap(Console(width=WIDTH), WIDTH)
        hidden = len(notes) - index
        if len(lines) + len(wrapped) + (hidden > 1) > room:
            more = "more " if index else ""
            return [*lines, Text(f"{hidden} {more}note{'s' if hidden > 1 else ''}: --detail", style="dim")]
        lines += [Text(line.plain.rstrip(), style="dim") for line in wrapped]
    return lines


def _cut(text: Text) -> Text:
    text.truncate(WIDTH, overflow="ellipsis")
    return text


_LEFT_OUT: Final = ("accuracy_", "log_")
"""Beginnings of the columns of the table of all groups for which a terminal has no room."""
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
    sections = document(comparison, first, trajectory=trajectory, found=found, levels=levels, is_page=False)
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
    bodies = [[(_short(row.name), row.cells) for row in body] for _, body in table.bodies]
    rows = [row for body in bodies for row in body]
    grid = Grid(table.of, box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    grid.columns[0].no_wrap = True
    names, room = list[str](), DETAIL_WIDTH - _INDENT - max(cell_len(name) for name, _ in rows)
    for name in table.headings:
        if table.headings is HEADINGS and name.startswith(_LEFT_OUT):
            continue
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


def _short(name: str) -> str:
    return fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()
