"""A comparison in a terminal of 80 columns: the first table.

    forgetwatch  step 600 of 600, against the start
    standard, 2,000 items, plain prompt
    forgotten 142   gained 151   net +0.5 points (-1.2 to +2.1)   can see 2.4 points
    clearly known 1,124   now lost 31, by luck alone 9: net 22 (10 to 34)
    log score -0.04 nats (-0.07 to -0.01), calibrated   measured twice: 1
    passages 60   bits per byte 1.214 -> 1.260: +0.046 (+0.031 to +0.061)
    drift, summed  probe 0.0028 (0.0022 to 0.0034)  training 0.41 (0.39 to 0.43)
    worst categories             n forgotten  gained               net points      q
      Math                     222        14       3       -5.0 (-8.9 to -1.2)   .010
    this look: PASS, no worse than 2 points; 12 looks: no alarm (net, fading)
    one category below zero on its own: Math

The first table has at most `LINES` lines and leaves out whatever is undefined. Its last lines are the decisions of
`comparing.verdict`, each with its question; `report.detail` has every correction, bound and diagnostic. Percentages are
shares of the items, points are differences of percentages, brackets hold 95 % intervals. No meaning is carried by
colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import (
    TOLERANCE,
    Comparison,
    Conclusion,
    Group,
    Level,
    State,
    Trajectory,
    conclude,
    vanished_note,
)
from forgetwatch.measures import (
    ESTIMATORS,
    FLIPS,
    KNOWN,
    LOG_SCORE,
    MEASURES,
    PASSAGES,
    GroupMeasure,
    best_estimator,
    kl_text,
    net_change,
)
from forgetwatch.pairing import (
    between,
    brief,
    count,
    fit,
    fit_ends,
    items,
    one_line,
    percent,
    points,
    probability,
    tolerance_points,
)

WIDTH: Final = 80
LINES: Final = 11
"""Maximum number of lines of the first table; the path of a report below it is the twelfth."""
WORST: Final = 3
"""Groups in the first table."""
NOTES: Final = 3
"""Maximum number of lines of notes in it."""
_VANISHED: Final = 0.05
"""Share of vanished items beyond which the table has a line on them."""

LOST: Final = "red"
WON: Final = "green"
_BRAND: Final = "forgetwatch  "
_NAME: Final = 30
R = TypeVar("R")


def comparison_table(
    comparison: Comparison,
    *,
    by: Level = "category",
    title: str = "",
    tolerance: float = TOLERANCE,
    trajectory: Trajectory | None = None,
) -> Lines:
    """First table of a comparison, for a console.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        by: Level of the groups that are listed, worst net change first; ``all`` lists none.
        title: Title; by default the names of the two snapshots.
        tolerance: Net loss of accuracy that the verdict tolerates, 0 to 1.
        trajectory: The run, if there is one.
    """
    whole = comparison.all
    if not whole.n and whole.passages:
        return _passages_table(comparison, by=by, title=title, trajectory=trajectory)
    if not whole.n:
        nothing = Text("nothing to compare: no item was scored on both sides")
        notes = note_lines(_notes(comparison))
        return Lines(*_heading(comparison, title), nothing, *_vanished_line(whole), *notes)
    bottom = [*decision_lines(conclude(comparison, trajectory=trajectory, tolerance=tolerance))]
    if not whole.forgotten and not whole.gained:
        # No flip to list: the heading is one line, and the known items are left out.
        same = f"no item flipped: {count(whole.retained)} right and {count(whole.missed)} wrong, before and after"
        moved = [*_vanished_line(whole), *_scores_lines(comparison)]
        heading = _heading(comparison, title, in_one=True)
        return Lines(*heading, Text(same), *moved, *bottom, *note_lines(_notes(comparison)))
    top = [*_heading(comparison, title), _flips_line(whole), *_vanished_line(whole), *_known_line(whole)]
    top += [*_scores_lines(comparison)]
    bottom += note_lines(_notes(comparison), max(1, min(NOTES, LINES - len(top) - len(bottom))))
    # The groups give way first: each of the other lines says something that no other one does.
    room = min(WORST, LINES - len(top) - len(bottom) - 1)
    groups = [] if by == "all" else [group for group in comparison.by(by).values() if group.n]
    return Lines(*top, *_worst_lines(groups, room), *bottom)


def _passages_table(comparison: Comparison, *, by: Level, title: str, trajectory: Trajectory | None) -> Lines:
    """First table of a comparison of nothing but passages: their bits per byte, and the groups that rose most."""
    top = [*_heading(comparison, title), *other_lines(comparison.all), *drift_line(comparison)]
    found = conclude(comparison, trajectory=trajectory)
    bottom = [Text("no verdict on correctness: passages have no right answer"), *decision_lines(found)]
    bottom += note_lines(comparison.notes, max(1, min(NOTES, LINES - len(top) - len(bottom))))
    groups = [] if by == "all" else list(comparison.by(by).values())
    groups.sort(key=lambda group: -(group.bits_per_byte_change or 0.0))
    return Lines(*top, *passage_lines(groups, LINES - len(top) - len(bottom) - 1), *bottom)


def _heading(comparison: Comparison, title: str, *, in_one: bool = False) -> list[Text]:
    """Title and facts, in one line if both fit; `in_one` fits them, without the middle of the title."""
    name, facts = one_line(title or " -> ".join(comparison.labels)), _facts(comparison)
    line, room = Text().append(_BRAND, style="bold cyan"), WIDTH - len(_BRAND) - cell_len(facts) - 2
    if in_one or cell_len(name) <= room:
        return [_cut(line.append(fit_ends(name, max(room, 12)), "bold").append(f"  {facts}", "dim"))]
    return [line.append(fit_ends(name, WIDTH - len(_BRAND)).rstrip(), "bold"), Text(facts, "dim")]


def _facts(comparison: Comparison) -> str:
    """Probe, number of items, and all that limits the comparison; the last parts are dropped if they do not fit."""
    found = facts(comparison)
    # The parts are in the order of their weight.
    parts = [part for part in (_name(found.pop("probe")), *found.values()) if part]
    while cell_len(", ".join(parts)) > WIDTH:
        parts.pop()
    return ", ".join(parts)


def facts(comparison: Comparison) -> dict[str, str]:
    """Texts of what was compared and how, by their subject; empty where there is nothing to say."""
    probe: dict[str, Any] = comparison.after.get("probe", {})
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


def _flips_line(group: Group) -> Text:
    parts = measure_line(FLIPS, group).split("   ")
    if not math.isnan(seen := group.detectable_change):
        parts.append(f"can see {percent(seen)} points")
    # Counts of five digits leave less room between the parts, and none for the last word.
    gap = next((gap for gap in (3, 2, 1) if sum(map(len, parts)) + gap * (len(parts) - 1) <= WIDTH), 0)
    text = Text((" " * max(gap, 1)).join(parts))
    if not gap:
        text.right_crop(len(" points"))
    text.highlight_regex(r"(?<=^forgotten )\S+", f"bold {LOST}")
    text.highlight_regex(r"(?<= gained )\S+", f"bold {WON}")
    text.highlight_regex(r"can see .*", "dim")
    return text


def _vanished_line(group: Group) -> list[Text]:
    """Line of the items that were scored on one side alone; none if they are few."""
    if not group.vanished or group.vanished <= _VANISHED * (group.n + group.vanished):
        return []
    text = Text(f"vanished {count(group.vanished)} of {items(group.n + group.vanished)}", style="bold")
    worst = f"   net at worst {between(group.net_change_interval_worst, points)} points"
    return [_cut(text.append(worst, style="not bold"))]


def _notes(comparison: Comparison) -> list[str]:
    """Notes of a comparison, without the one on vanished items if they have a line."""
    said = vanished_note(comparison.all) if _vanished_line(comparison.all) else None
    return [note for note in comparison.notes if note != said]


def _known_line(group: Group) -> list[Text]:
    text = Text(measure_line(KNOWN, group))
    text.highlight_regex(r"(?<=now lost )[\d.,]*\d", f"bold {LOST}")
    return [text] if text else []


def _scores_lines(comparison: Comparison) -> list[Text]:
    """Lines of what moves without a flip: the log score, every other measure that has a line, and the drift."""
    group, lines = comparison.all, []
    if line := measure_line(LOG_SCORE, group):
        text = Text(line)
        if group.null_lost is not None and group.null_gained is not None:
            text.append(f"   measured twice: {count(group.null_lost + group.null_gained)}", style="dim")
        lines.append(_cut(text))
    return [*lines, *other_lines(group), *drift_line(comparison)]


def drift_line(comparison: Comparison) -> list[Text]:
    """Line on the drift by the least noisy estimator; none if it was not measured."""
    if not (drift := comparison.drift):
        return []
    best = best_estimator(drift.values())
    parts = [f"{name} {kl_text(found, best)}" for name, found in drift.items()]
    line = f"drift, KL {ESTIMATORS[best]}   {'   '.join(parts)}"
    if cell_len(line) > WIDTH:
        line = f"drift, {ESTIMATORS[best]}  {'  '.join(parts)}"
    return [_cut(Text(line))]


def other_lines(group: Group) -> list[Text]:
    """Lines of all measures but those of flips, known items and the log score, which have places of their own."""
    lines = [measure_line(measure, group) for measure in MEASURES if measure not in (FLIPS, KNOWN, LOG_SCORE)]
    return [_cut(Text(line)) for line in lines if line]


def measure_line(measure: GroupMeasure[R], group: Group) -> str:
    """Line of a measure for a group; empty where it has none."""
    found = group[measure]
    return "" if found is None or measure.line is None else measure.line(found)


def passage_lines(groups: Sequence[Group], most: int) -> list[Text]:
    """Bits per byte of some groups, in their order, under a heading; no line for fewer than two groups."""
    groups = [group for group in groups if group.passages]
    if len(groups) < 2 or most < 1:
        return []
    # The widths and the gaps add up to 80 columns.
    lines = [
        Text(f"{plural(groups[0].level):<22} {'texts':>6} {'before':>7} {'after':>7} {'change':>28}     q", "bold")
    ]
    for group in groups[:most]:
        passages, before, after, change, q = PASSAGES.cells(group[PASSAGES]).values()
        name = fit(group.name, 20)
        lines.append(Text(f"  {name} {passages:>6} {before:>7} {after:>7} {change:>28} {q:>5}"))
    return lines


def _worst_lines(groups: Sequence[Group], most: int) -> list[Text]:
    """Groups of the lowest net change under a heading; no line for fewer than two groups, or without room."""
    if len(groups) < 2 or most < 1:
        return []
    heading = f"worst {plural(groups[0].level)}"
    # The widths and the gaps add up to 79 columns, so that no line wraps.
    lines = [Text(f"{heading:<22} {'n':>7} {'forgotten':>9} {'gained':>7} {'net points':>24} {'q':>5}", style="bold")]
    for group in sorted(groups, key=_net_first)[:most]:
        text = Text(f"  {fit(group.name, 20)} {brief(group.n, 7):>7} ")
        text.append(f"{brief(group.forgotten, 9):>9}", style=LOST).append(" ")
        text.append(f"{brief(group.gained, 7):>7}", style=WON)
        lines.append(text.append(f" {net_change(group):>24} {probability(group.q_value):>5}"))
    return lines


def plural(level: Level) -> str:
    """Name of the groups of a level."""
    return "categories" if level == "category" else f"{level}s"


def _net_first(group: Group) -> tuple[float, float]:
    # nan has no order: groups without items come last.
    return group.net_change if math.isfinite(group.net_change) else math.inf, -group.forgotten


_STYLES: Final = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold"}
_STATES: Final[dict[State, str]] = {"lasting": "", "unclear": ", unclear now", "recovered": ", recovered"}


def decision_lines(found: Conclusion) -> list[Text]:
    """Lines of all decisions on a comparison or a run, each with its question; as few lines as they fit in."""
    parts = [*_verdict_parts(found), *_alarm_parts(found), *_category_parts(found), *_guard_parts(found)]
    if found.differs:
        parts.append(Text("two questions: the last look at 95 %; all looks and groups at a stricter level", "dim"))
    lines: list[Text] = []
    for part in parts:
        if lines and cell_len(lines[-1].plain) + 2 + cell_len(part.plain) <= WIDTH:
            lines[-1].append("; ").append_text(part)
        else:
            lines.append(part)
    return lines


def _verdict_parts(found: Conclusion) -> list[Text]:
    """The verdict on this look alone; none if the net change has no interval."""
    if found.whole is None:
        return []
    verdict, word, bound = found.verdict, found.verdict.word, tolerance_points(found.verdict.tolerance)
    says = {
        "PASS": f"no worse than {bound}" + (", but below zero" if found.whole == "below" else ""),
        "FAIL": f"worse by more than {bound}",
        "INCONCLUSIVE": f"{'below zero, ' if found.whole == 'below' else ''}perhaps worse by over {bound}",
    }[word]
    if verdict.open_by_vanished:
        says = f"{points(verdict.interval_worst[0])} points possible: answers have vanished"
    text = Text("this comparison: " if found.looks is None else "this look: ").append(word, style=_STYLES[word])
    parts = [text.append(f", {says}", style="not bold")]
    if verdict.items_needed is not None:
        parts.append(Text(f"needs {count(verdict.items_needed)} items"))
    return parts


def _category_parts(found: Conclusion) -> list[Text]:
    """The categories below zero on their own at this look; none if there is none."""
    if not (groups := found.below_zero):
        return []
    start = "one category below zero on its own: "
    if len(groups) > 1:
        start = f"{len(groups)} categories below zero on their own: "
    return [_names(Text(start), [_name(group.name) for group in groups])]


def _alarm_parts(found: Conclusion) -> list[Text]:
    """The alarms over all looks of a run; none if this is no run."""
    if not found.looks or not found.kinds:
        return []
    text = Text(f"{count(found.looks)} look{'s' if found.looks > 1 else ''}: ")
    if not found.alarms:
        return [text.append(f"no alarm ({', '.join(found.kinds)})")]
    text.append(f"{len(found.alarms)} alarm{'s' if len(found.alarms) > 1 else ''}", style="bold red").append(", ")
    named = ((one.alarm, _STATES[one.state]) for one in found.alarms)
    return [_names(text, [f"{one.kind} {_name(one.group.name)} (step {one.step}{state})" for one, state in named])]


def _guard_parts(found: Conclusion) -> list[Text]:
    """The trips of the guard, of which those on alarms are counted; none if all are on alarms, which are named."""
    trips = found.trips
    if all(trip.what in ("alarm", "fading") for trip in trips):
        return []
    on_alarms = sum(trip.what in ("alarm", "fading") for trip in trips)
    names = [f"on {on_alarms} alarm{'s' if on_alarms > 1 else ''}"] if on_alarms else []
    for trip in trips:
        if trip.what in ("net_loss", "must_pass"):
            name = _name(trip.name.split(":", 1)[-1] if trip.what == "net_loss" else f"item {trip.name}")
            names.append(f"{name} (step {trip.step})" if trip.step >= 0 else name)
    return [_names(Text(f"guard tripped {'once' if len(trips) == 1 else f'{len(trips)} times'}: "), names)]


def _name(name: str) -> str:
    """Name in one line, without its middle if it is long."""
    return fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()


def _names(text: Text, names: Sequence[str]) -> Text:
    """Text with as many of the names as fit in a line, and the number of the others."""
    for shown in range(len(names), 0, -1):
        rest = f" and {len(names) - shown} more" if shown < len(names) else ""
        line = ", ".join(names[:shown]) + rest
        if cell_len(text.plain) + cell_len(line) <= WIDTH:
            break
    return _cut(text.append(line, style="not bold"))


def note_lines(notes: Sequence[str], room: int = NOTES) -> list[Text]:
    """Lines of some notes, the most important first, and the number of those that are left out.

    There are at most `room` lines, and at least one; the last line of each note is cut at the margin.
    """
    texts = [Text(f"note: {one_line(note)}", style="dim") for note in notes]
    if len(texts) > room and room == 1:
        return [_cut(Text(f"{len(notes)} notes, the first: {one_line(notes[0])}", style="dim"))]
    lines: list[Text] = []
    shown = texts if len(texts) <= room else texts[: room - 1]
    for index, text in enumerate(shown):
        own = room - len(lines) - (len(texts) > room) - (len(shown) - index - 1)  # every later note has a line
        rest = text
        for _ in range(own - 1):
            first, *others = rest.wrap(Console(width=WIDTH), WIDTH)
            if not others:
                break
            lines.append(Text(first.plain.rstrip(), style="dim"))
            rest = Text(rest.plain[len(first.plain) :].lstrip(), style="dim")
        lines.append(_cut(rest))
    if hidden := len(texts) - len(shown):
        lines.append(Text(f"{hidden} more note{'s' if hidden > 1 else ''}: --detail", style="dim"))
    return lines


def _cut(text: Text) -> Text:
    text.truncate(WIDTH, overflow="ellipsis")
    return text
