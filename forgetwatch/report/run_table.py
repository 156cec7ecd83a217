"""A run in a terminal of 80 columns: the first table at its last look, and every look in detail.

Counts that grow with the number of looks by noise alone have a reference in brackets: a model that only guesses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import TOLERANCE, Alarm, Level, State, Trajectory, raised_alarms
from forgetwatch.measures import LOG_SCORE, MASS, NOT_THERE, PASSAGES, GroupMeasure, net_change
from forgetwatch.pairing import brief, count, nats, one_line, percent, probability
from forgetwatch.report.cells import flips
from forgetwatch.report.detail import comparison_detail
from forgetwatch.report.drift_table import drift_looks, is_measured, spread_looks
from forgetwatch.report.terminal import comparison_table

ROWS: Final = 40
"""Number of looks in the detail; of more it shows the first, every n-th, and the last."""


def run_table(trajectory: Trajectory, *, title: str = "", tolerance: float = TOLERANCE) -> Lines:
    """First table of a run: its last look against the start, and the decisions on this look and on all looks.

    Args:
        trajectory: The run.
        title: Title; by default the steps that are compared.
        tolerance: Net loss of accuracy that the verdict tolerates, 0 to 1.
    """
    if len(trajectory) == 1:
        return Lines(Text().append("forgetwatch  ", style="bold cyan").append("no look after the baseline"))
    title = title or f"step {trajectory.steps[-1]}, against step {trajectory.steps[0]}"
    return comparison_table(trajectory.comparisons[-1], title=title, tolerance=tolerance, trajectory=trajectory)


def run_detail(trajectory: Trajectory, *, by: Level = "category") -> Lines:
    """All numbers of a run that a terminal shows: each look, the item history, the alarms, and the last look in full.

    Args:
        trajectory: The run.
        by: Level of the groups that are listed for the last look.
    """
    last = comparison_detail(trajectory.comparisons[-1], by=by)
    if len(trajectory) == 1:
        return Lines(course_line(trajectory), last)
    looks = _measure_looks(trajectory, PASSAGES, _PASSAGES)
    if trajectory.comparisons[-1].all.n or not looks:
        looks = [
            *_look_lines(trajectory),
            *looks,
            *_measure_looks(trajectory, LOG_SCORE, _SCORES),
            *_mass_looks(trajectory),
            *course_lines(trajectory),
            *alarm_lines(trajectory),
        ]
    looks += drift_looks(trajectory, spread_looks(trajectory.steps[1:], ROWS)) if is_measured(trajectory) else []
    return Lines(*looks, Text(), last)


def course_line(trajectory: Trajectory) -> Text:
    """Number of items forgotten at any look and of those right again, each next to that of a pure guesser."""
    course, looks = trajectory.course, len(trajectory) - 1
    if not looks:
        return Text("no look after the baseline")
    ever, back = course.ever_forgotten[-1], course.regained[-1]
    text = Text(f"over {looks} look{'s' if looks > 1 else ''}: ever forgotten {count(ever)}")
    text.append(_guess(trajectory, float(trajectory.guessed.ever_forgotten[-1])), style="dim")
    text.append(f", right again {count(back)}")
    return text.append(_guess(trajectory, float(trajectory.guessed.regained[-1])), style="dim")


def course_lines(trajectory: Trajectory) -> list[Text]:
    """Lines of the counts that grow with the number of looks, each next to that of a pure guesser."""
    course, guessed = trajectory.course, trajectory.guessed
    # With several samples an item has several rows, and counts are means over them.
    rows = len(course.events) / course.items if course.items else 1
    lost_once, lost_often = (course.events == 1).sum() / rows, (course.events > 1).sum() / rows
    events = Text(f"turned wrong between two looks {count(course.events.sum() / rows)}")
    events.append(_guess(trajectory, guessed.events), style="dim")
    events.append(f": {count(lost_once)} items once, {count(lost_often)} more often")
    never = Text(f"right at some look and never turned wrong {count(course.never_forgotten)}")
    never.append(_guess(trajectory, guessed.never_forgotten), style="dim")
    temporal = Text(f"right at some look and wrong at the last {percent(course.temporal_forgetting)} %")
    if not math.isnan(guessed.temporal_forgetting):
        temporal.append(f" (a guesser {percent(guessed.temporal_forgetting)} %)", style="dim")
    return [course_line(trajectory), events, never, temporal]


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
        text = f"Alarm at step {one.alarm.step:,}, {alarm_subject(one.alarm)}: {_counts(one.alarm)}"
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


def alarm_subject(alarm: Alarm) -> str:
    """Phrase for the kind and the group of an alarm, such as ``net loss of Math``."""
    of = "over all questions" if alarm.group.level == "all" else f"of {one_line(alarm.group.name)}"
    return f"{'net loss' if alarm.kind == 'net' else 'fading'} {of}"


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
    return flips(alarm.group)


def alarm_line(alarm: Alarm) -> Text:
    """Line of one alarm, with its p-value and the level that it had to reach."""
    text = Text(f"ALARM {alarm.kind} {one_line(alarm.group.name)}", style="bold red")
    small = f"p {_small(alarm.p_value)}, alarm at {_small(alarm.alarm_level)}"
    return text.append(
        f", step {alarm.step}: {_now(alarm)} of {count(alarm.group.n)} ({small})"
        if alarm.kind == "net"
        else f", step {alarm.step}: {_now(alarm)} ({small})",
        style="not bold",
    )


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    # Luck is measured for all looks or for none: it needs the scores of the baseline.
    has_net = any(comparison.all.known_lost_net is not None for comparison in trajectory.comparisons)
    known = "known net" if has_net else "known lost"
    head = f"{'step':>7} {'forgot':>7} {'gained':>7} {known:>10} {'net points':>24} {'ever':>6} {'guess':>6}     p"
    lines = [Text(head, style="bold")]
    looks = len(trajectory) - 1
    # The smallest distance at which no more than ROWS looks are left; the last look is always shown.
    stride = -(-looks // ROWS)
    for at in range(looks):
        if at % stride and at != looks - 1:
            continue
        group = trajectory.comparisons[at + 1].all
        lost = group.known_lost_net if has_net else group.known_lost
        known = "-" if lost is None else brief(round(lost, 1), 10)
        net = net_change(group)
        share = float(guessed.ever_forgotten[at])
        guess = "-" if math.isnan(share) else brief(round(n * share), 6)
        text = Text(f"{brief(trajectory.steps[at + 1], 7).replace(',', ''):>7} ")
        text.append(f"{'-' + brief(group.forgotten, 6):>7}", style="red").append(" ")
        text.append(f"{'+' + brief(group.gained, 6):>7}", style="green")
        ever = brief(float(course.ever_forgotten[at]), 6)
        text.append(f" {known:>10} {net:>24} {ever:>6} {guess:>6} {probability(group.p_value):>5}")
        lines.append(text)
    return lines


_PASSAGES: Final = {"bits_per_byte_after": ("bits per byte", ">14"), "bits_per_byte_change": ("change", ">28")}
_SCORES: Final = {"log_score_change_calibrated": ("log score, nats, calibrated", ">28")}
"""Columns of the lines by look: heading and format of each quantity."""


def _measure_looks(
    trajectory: Trajectory, measure: GroupMeasure[Any], columns: Mapping[str, tuple[str, str]]
) -> list[Text]:
    """Lines of a measure at each look, under a heading; none where it is undefined."""
    steps, lines = spread_looks(trajectory.steps[1:], ROWS), list[Text]()
    for step, look in zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True):
        cells = measure.cells(look.all[measure])
        if step in steps and any(cells.get(name, NOT_THERE) != NOT_THERE for name in columns):
            shown = " ".join(f"{cells[name]:{form}}" for name, (_, form) in columns.items())
            lines.append(Text(f"{brief(step, 7).replace(',', ''):>7} {shown}"))
    head = " ".join(f"{heading:{form}}" for heading, form in columns.values())
    return [Text(f"{'step':>7} {head}", style="bold"), *lines] if lines else []


def _mass_looks(trajectory: Trajectory) -> list[Text]:
    """Lines of mass and conditional at each look; none without log-likelihoods of the options."""
    steps = spread_looks(trajectory.steps[1:], ROWS)
    looks = [(step, one.all) for step, one in zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True)]
    rows = [(step, cells) for step, group in looks if step in steps and (cells := MASS.cells(group[MASS]))]
    if not rows:
        return []
    lines = [Text(f"{'step':>7}  {'mass, nats':<26} {'within the options':<26} forgotten", style="bold")]
    for step, cells in rows:
        # Of the forgotten ones without the intervals, which would take two lines.
        lost = [cells[f"forgotten_{name}"].partition(" ")[0] for name in ("log_mass_change", "log_conditional_change")]
        head = f"{brief(step, 7).replace(',', ''):>7}  {cells['log_mass_change']:<26}"
        lines.append(Text(f"{head} {cells['log_conditional_change']:<26} {' and '.join(dict.fromkeys(lost))}"))
    return lines


def _guess(trajectory: Trajectory, share: float) -> str:
    """Count of a pure guesser, in brackets; empty if it is undefined."""
    return "" if math.isnan(share) else f" (a guesser {share * trajectory.course.items:,.0f})"


def _small(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"
