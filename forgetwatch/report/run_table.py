"""A run in a terminal of 80 columns: the first table at its last look, and every look in detail.

Counts that grow with the number of looks by noise alone have a reference in brackets: a model that only guesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import TOLERANCE, Alarm, Level, State, Trajectory, raised_alarms
from forgetwatch.measures import (
    ESTIMATORS,
    LOG_SCORE,
    MASS,
    NOT_THERE,
    PASSAGES,
    GroupMeasure,
    best_estimator,
    kl_text,
    net_change,
)
from forgetwatch.pairing import brief, count, nats, one_line, percent, probability
from forgetwatch.report.cells import drift_looks, spread_looks
from forgetwatch.report.detail import comparison_detail
from forgetwatch.report.terminal import comparison_table

ROWS: Final = 40
"""Number of looks in the detail; of more it shows the first, every n-th, and the last."""


def run_table(trajectory: Trajectory, *, title: str = "", tolerance: float = TOLERANCE) -> Lines:
    """First table of a run: its last look against the start, and the decisions on this look and on all looks.

    The title is by default the steps that are compared; `tolerance` is 0 to 1.
    """
    if len(trajectory) == 1:
        return Lines(Text().append("forgetwatch  ", style="bold cyan").append("no look after the baseline"))
    title = title or f"step {trajectory.steps[-1]}, against step {trajectory.steps[0]}"
    return comparison_table(trajectory.comparisons[-1], title=title, tolerance=tolerance, trajectory=trajectory)


def run_detail(trajectory: Trajectory, *, by: Level = "category") -> Lines:
    """All numbers of a run that a terminal shows: each look, the item history, the alarms, and the last look in full.

    The groups of the level `by` are listed for the last look.
    """
    last = comparison_detail(trajectory.comparisons[-1], by=by)
    if len(trajectory) == 1:
        return Lines(course_line(trajectory), last)
    looks = _measure_looks(trajectory, PASSAGES)
    if trajectory.comparisons[-1].all.n or not looks:
        looks = [*_look_lines(trajectory), *looks]
        looks += [*_measure_looks(trajectory, LOG_SCORE), *_measure_looks(trajectory, MASS)]
        looks += [*_course_lines(trajectory), *alarm_lines(trajectory)]
    return Lines(*looks, *_drift_looks(trajectory), Text(), last)


def course_line(trajectory: Trajectory) -> Text:
    """Number of items forgotten at any look and of those right again, each next to that of a pure guesser."""
    course, guessed, looks = trajectory.course, trajectory.guessed, len(trajectory) - 1
    if not looks:
        return Text("no look after the baseline")
    ever = f"{count(course.ever_forgotten[-1])}{_guess(trajectory, float(guessed.ever_forgotten[-1]))}"
    back = f"{count(course.regained[-1])}{_guess(trajectory, float(guessed.regained[-1]))}"
    return _dim_guesser(f"over {looks} look{'s' if looks > 1 else ''}: ever forgotten {ever}, right again {back}")


def _course_lines(trajectory: Trajectory) -> list[Text]:
    """Lines of the counts that grow with the number of looks, each next to that of a pure guesser."""
    course, guessed = trajectory.course, trajectory.guessed
    # With several samples an item has several rows, and counts are means over them.
    rows = len(course.events) / course.items if course.items else 1
    lost_once, lost_often = (course.events == 1).sum() / rows, (course.events > 1).sum() / rows
    events = f"{count(course.events.sum() / rows)}{_guess(trajectory, guessed.events)}"
    never = f"{count(course.never_forgotten)}{_guess(trajectory, guessed.never_forgotten)}"
    temporal = f"{percent(course.temporal_forgetting)} %"
    if not math.isnan(guessed.temporal_forgetting):
        temporal += f" (a guesser {percent(guessed.temporal_forgetting)} %)"
    lines = (
        f"turned wrong between two looks {events}: {count(lost_once)} items once, {count(lost_often)} more often",
        f"right at some look and never turned wrong {never}",
        f"right at some look and wrong at the last {temporal}",
    )
    return [course_line(trajectory), *map(_dim_guesser, lines)]


def _guess(trajectory: Trajectory, share: float) -> str:
    """Count of a pure guesser, in brackets; empty if it is undefined."""
    return "" if math.isnan(share) else f" (a guesser {share * trajectory.course.items:,.0f})"


def _dim_guesser(line: str) -> Text:
    text = Text(line)
    text.highlight_regex(r"\(a guesser [^)]*\)", "dim")
    return text


def alarm_lines(trajectory: Trajectory) -> list[Text]:
    """Lines of the alarms over all looks and groups, and of the smallest loss that the last look could see."""
    tests = trajectory.verdicts()
    if not tests:
        return []
    raised = raised_alarms(trajectory, tests)
    lines = [
        alarm_line(one.alarm).append("" if one.now is one.alarm else f"; now {_now(one.now)}{_STATES[one.state]}")
        for one in raised
    ]
    last = [one for one in tests if one.step == trajectory.steps[-1]]
    taken, planned = len(trajectory) - 1, trajectory.planned
    over = planned is not None and taken > planned
    looks = taken if planned is None or over else planned
    categories = sum(one.group.level == "category" for one in last if one.kind == "net")
    watched = f"all and {categories} categor{'ies' if categories != 1 else 'y'}" if categories else "all"
    number = f"{len(raised)} alarm{'s' if len(raised) != 1 else ''}" if raised else "no alarm"
    kinds = ", ".join(dict.fromkeys(one.kind for one in tests))
    how = f" ({planned} planned)" if over else " planned" if planned else ""
    sees = next(one.smallest_loss for one in last if (one.kind, one.group.level) == ("net", "all"))
    seen = "no loss could raise one: too few flips" if math.isnan(sees) else f"{percent(sees)} points would raise one"
    return [
        *lines,
        Text(f"{number} ({kinds}) over {watched}, {looks} look{'s' if looks > 1 else ''}{how}", "dim"),
        *([Text(tested.removeprefix("; "), "dim")] if (tested := _tested(tests)) else []),
        Text(f"net loss over all items at the last look: {seen}", "dim"),
    ]


def alarm_sentences(trajectory: Trajectory) -> list[tuple[str, bool]]:
    """(sentence, is an alarm) of each alarm, and a last sentence on how rare and how sensitive they are."""
    tests = trajectory.verdicts()
    if not tests:
        return []
    sentences = []
    for one in raised_alarms(trajectory, tests):
        of = "over all questions" if one.alarm.group.level == "all" else f"of {one_line(one.alarm.group.name)}"
        what = f"{'net loss' if one.alarm.kind == 'net' else 'fading'} {of}"
        text = f"Alarm at step {one.alarm.step:,}, {what}: {_counts(one.alarm)}"
        text += f" (p {_small(one.alarm.p_value)}, needed {_small(one.alarm.alarm_level)})."
        if one.now is not one.alarm:
            text += f" At the last look: {_counts(one.now)}{_STATE_WORDS[one.state]}."
        sentences.append((text, True))
    kinds = " and ".join(
        {"net": "a net loss", "fading": "fading"}[kind] for kind in dict.fromkeys(t.kind for t in tests)
    )
    groups = len({(one.group.level, one.group.name) for one in tests})
    looks = len(trajectory) - 1
    over = f"{looks} look{'s' if looks > 1 else ''} and {groups} group{'s' if groups > 1 else ''}"
    text = "" if sentences else f"No alarm over {over}, tested for {kinds}{_tested(tests)}. "
    text += "An unchanged model raises an alarm, in any group and at any look, in at most 5 of 100 runs."
    sees = next(one.smallest_loss for one in tests[::-1] if (one.kind, one.group.level) == ("net", "all"))
    if not math.isnan(sees):
        text += f" At the last look a net loss of {percent(sees)} points over all questions would have raised one."
    return [*sentences, (text, False)]


def _tested(tests: Sequence[Alarm]) -> str:
    """Number of the groups that are tested for fading, where it is not that of all; empty otherwise."""
    groups = {kind: {(t.group.level, t.group.name) for t in tests if t.kind == kind} for kind in ("net", "fading")}
    if not groups["fading"] or len(groups["fading"]) == len(groups["net"]):
        return ""
    fewer = len(groups["fading"])
    return f"; {fewer} group{' has' if fewer == 1 else 's have'} enough scored items for fading"


_STATES: Final[dict[State, str]] = {"lasting": "", "unclear": ", unclear", "recovered": ", recovered"}
_STATE_WORDS: Final[dict[State, str]] = {
    "lasting": "",
    "unclear": ", which is no longer clearly below zero",
    "recovered": ", so it has recovered",
}


def _counts(alarm: Alarm) -> str:
    """Numbers that the alarm is about, in words."""
    group = alarm.group
    if alarm.kind == "net":
        return f"{count(group.forgotten)} of {count(group.n)} questions lost, {count(group.gained)} gained"
    change = group.log_score_change_calibrated
    return "no log score" if change is None else f"calibrated log score {nats(change)[0]} nats a question"


def _now(alarm: Alarm) -> str:
    """Numbers that the alarm is about, in brief."""
    change = alarm.group.log_score_change_calibrated
    if alarm.kind == "fading" and change is not None:
        return f"{nats(change)[0]} nats"
    return f"-{count(alarm.group.forgotten)} +{count(alarm.group.gained)}"


def alarm_line(alarm: Alarm) -> Text:
    """Line of one alarm, with its p-value and the level that it had to reach."""
    text = Text(f"ALARM {alarm.kind} {one_line(alarm.group.name)}", style="bold red")
    of = f" of {count(alarm.group.n)}" if alarm.kind == "net" else ""
    small = f"p {_small(alarm.p_value)}, alarm at {_small(alarm.alarm_level)}"
    return text.append(f", step {alarm.step}: {_now(alarm)}{of} ({small})", style="not bold")


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    # Luck is measured for all looks or for none: it needs the scores of the baseline.
    has_net = any(comparison.all.known_lost_net is not None for comparison in trajectory.comparisons)
    known = "known net" if has_net else "known lost"
    head = f"{'step':>7} {'forgot':>7} {'gained':>7} {known:>10} {'net points':>24} {'ever':>6} {'guess':>6}     p"
    lines = [Text(head, style="bold")]
    shown = spread_looks(trajectory, ROWS)
    for at, (step, look) in enumerate(zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True)):
        if step not in shown:
            continue
        group = look.all
        lost = group.known_lost_net if has_net else group.known_lost
        known = "-" if lost is None else brief(round(lost, 1), 10)
        share = float(guessed.ever_forgotten[at])
        guess = "-" if math.isnan(share) else brief(round(n * share), 6)
        text = Text(f"{_step(step)} ")
        text.append(f"{'-' + brief(group.forgotten, 6):>7}", style="red").append(" ")
        text.append(f"{'+' + brief(group.gained, 6):>7}", style="green")
        ever = brief(float(course.ever_forgotten[at]), 6)
        text.append(f" {known:>10} {net_change(group):>24} {ever:>6} {guess:>6} {probability(group.p_value):>5}")
        lines.append(text)
    return lines


_LOOKS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    PASSAGES.key: ("{:>14} {:>28}", {"bits_per_byte_after": "bits per byte", "bits_per_byte_change": "change"}),
    LOG_SCORE.key: ("{:>28}", {"log_score_change_calibrated": "log score, nats, calibrated"}),
    MASS.key: (
        " {:<26} {:<26} {}",
        {"log_mass_change": "mass, nats", "log_conditional_change": "within the options", "forgotten": "forgotten"},
    ),
}
"""Format of the lines by look, and the heading of each of their quantities, of each measure that has such lines."""


def _measure_looks(trajectory: Trajectory, measure: GroupMeasure[Any]) -> list[Text]:
    """Lines of a measure at each look, under a heading; none where it is undefined."""
    form, columns = _LOOKS[measure.key]
    shown, lines = spread_looks(trajectory, ROWS), list[Text]()
    for step, look in zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True):
        cells = measure.cells(look.all[measure])
        if cells and measure is MASS:
            # Of the forgotten ones without the intervals, which would take two lines.
            changes = (cells["forgotten_log_mass_change"], cells["forgotten_log_conditional_change"])
            cells["forgotten"] = " and ".join(dict.fromkeys(change.partition(" ")[0] for change in changes))
        if step in shown and any(cells.get(name, NOT_THERE) != NOT_THERE for name in columns):
            lines.append(Text(f"{_step(step)} {form.format(*(cells[name] for name in columns))}"))
    return [Text(f"{'step':>7} {form.format(*columns.values())}", style="bold"), *lines] if lines else []


def _drift_looks(trajectory: Trajectory) -> list[Text]:
    """Lines of the drift at some looks of a run, under a heading; none where no look has one."""
    looks = drift_looks(trajectory, ROWS)
    drifts = trajectory.drift.values()
    best = {
        name: best_estimator(found[name] for found in drifts if name in found)
        for name in dict.fromkeys(name for found in looks.values() for name in found)
    }
    if not best:
        return []
    head = " ".join(f"{f'drift {name}, {ESTIMATORS[one]}':>33}" for name, one in best.items())
    lines = [Text(f"{'step':>7} {head}", "bold")]
    for step, found in looks.items():
        cells = (kl_text(found[name], one) if name in found else "" for name, one in best.items())
        lines.append(Text(f"{step:>7} " + " ".join(f"{cell:>33}" for cell in cells)))
    return lines


def _step(step: int) -> str:
    return f"{brief(step, 7).replace(',', ''):>7}"


def _small(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"
