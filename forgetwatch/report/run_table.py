"""A run in a terminal of 80 columns: the first table at its last look, and every look in detail.

Counts that grow with the number of looks by noise alone have a reference in brackets: a model that only guesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.trajectory import Alarm, AlarmKind, Trajectory
from forgetwatch.comparing.verdict import TOLERANCE
from forgetwatch.report.cells import flips, net_change
from forgetwatch.report.formatting import brief, count, one_line, percent, probability
from forgetwatch.report.terminal import comparison_detail, comparison_table

ROWS: Final = 40
"""Number of looks in the detail; of more it shows the first, every n-th, and the last."""


def run_table(
    trajectory: Trajectory, *, title: str = "", tolerance: float = TOLERANCE, tripped: Sequence[str] = ()
) -> Lines:
    """First table of a run: its last look against the start, and its alarms in one line.

    Args:
        trajectory: The run.
        title: Title; by default the steps that are compared.
        tolerance: Net loss of accuracy that the verdict tolerates, 0 to 1.
        tripped: Lines of the guard, in the order in which it tripped.
    """
    if len(trajectory) == 1:
        return Lines(Text().append("forgetwatch  ", style="bold cyan").append("no look after the baseline"))
    title = title or f"step {trajectory.steps[-1]}, against step {trajectory.steps[0]}"
    alarms = _alarm_summary(trajectory, tripped)
    return comparison_table(trajectory.comparisons[-1], title=title, tolerance=tolerance, alarms=alarms)


def _alarm_summary(trajectory: Trajectory, tripped: Sequence[str]) -> Text:
    """Number of alarms and of trips of the guard, with the first of each."""
    looks, alarms = len(trajectory) - 1, trajectory.alarms()
    text = Text(f"{looks} look{'s' if looks > 1 else ''}: ")
    if alarms:
        first = min(alarms, key=lambda alarm: alarm.step)
        text.append(f"{len(alarms)} alarm{'s' if len(alarms) > 1 else ''}", style="bold red")
        text.append(f" ({'first ' if len(alarms) > 1 else ''}{one_line(first.group.name)}, step {first.step})")
    else:
        text.append("no alarm")
    if tripped:
        # A trip of a group is "NAME, step N: the numbers"; the numbers were logged when it tripped.
        first_trip = one_line(tripped[0]).split(": ")[0]
        text.append(f", guard tripped {len(tripped)} time{'s' if len(tripped) > 1 else ''} ({first_trip})")
    return text


def run_detail(trajectory: Trajectory, *, by: Level = "category") -> Lines:
    """All numbers of a run that a terminal shows: each look, the item history, the alarms, and the last look in full.

    Args:
        trajectory: The run.
        by: Level of the groups that are listed for the last look.
    """
    last = comparison_detail(trajectory.comparisons[-1], by=by)
    if len(trajectory) == 1:
        return Lines(course_line(trajectory), last)
    return Lines(*_look_lines(trajectory), *course_lines(trajectory), *alarm_lines(trajectory), Text(), last)


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
    events = Text(f"forgetting events {count(course.events.sum() / rows)}")
    events.append(_guess(trajectory, guessed.events), style="dim")
    events.append(f": {count(lost_once)} items once, {count(lost_often)} more often")
    never = Text(f"never forgotten {count(course.never_forgotten)}")
    never.append(_guess(trajectory, guessed.never_forgotten), style="dim")
    temporal = Text(f"right at some look and wrong at the last {percent(course.temporal_forgetting)} %")
    if not math.isnan(guessed.temporal_forgetting):
        temporal.append(f" (a guesser {percent(guessed.temporal_forgetting)} %)", style="dim")
    return [course_line(trajectory), events, never, temporal]


def alarm_lines(trajectory: Trajectory) -> list[Text]:
    """Lines of the alarms over all looks and groups, and of the smallest loss that the last look could see."""
    verdicts = trajectory.verdicts()
    if not verdicts:
        return []
    last = _last_tests(verdicts)
    alarms = trajectory.alarms()
    lines = []
    for alarm in alarms:
        now = last[alarm.kind, alarm.group.level, alarm.group.name]
        lines.append(alarm_line(alarm).append("" if now is alarm else f"; now {flips(now.group)}"))
    taken, planned = len(trajectory) - 1, trajectory.planned
    over = planned is not None and taken > planned
    looks = taken if planned is None or over else planned
    categories = sum(level == "category" for kind, level, _ in last if kind == "net")
    watched = f"all and {categories} categor{'ies' if categories != 1 else 'y'}" if categories else "all"
    number = f"{len(alarms)} alarm{'s' if len(alarms) != 1 else ''}" if alarms else "no alarm"
    how = f" ({planned} planned)" if over else " planned" if planned else ""
    sees = last["net", "all", "all"].smallest_loss
    seen = "could not alarm, too few flips" if math.isnan(sees) else f"could alarm on {percent(sees)} points or more"
    return [
        *lines,
        Text(f"{number} of falling accuracy, over {watched}, {looks} look{'s' if looks > 1 else ''}{how}", "dim"),
        Text(f'an alarm rejects "no net loss"; the last look {seen}', "dim"),
    ]


def alarm_sentences(trajectory: Trajectory) -> list[tuple[str, bool]]:
    """(sentence, is an alarm) of each alarm, and a last sentence on how rare and how sensitive they are."""
    verdicts = trajectory.verdicts()
    if not verdicts:
        return []
    last = _last_tests(verdicts)
    sentences = []
    for alarm in trajectory.alarms():
        now = last[alarm.kind, alarm.group.level, alarm.group.name]
        name = "The whole" if alarm.group.level == "all" else alarm.group.name
        text = f"{name} fell by more than luck at step {alarm.step:,}: {_lost_and_won(alarm)}"
        text += f" (p {_small(alarm.p_value)}, needed {_small(alarm.alarm_level)})."
        sentences.append((text + ("" if now is alarm else f" At the last look: {_lost_and_won(now)}."), True))
    sees = last["net", "all", "all"].smallest_loss
    text = "No look shows a fall of accuracy that is more than luck. " if not sentences else ""
    text += "Luck alone raises such an alarm, in any group and at any look, in about 5 of 100 runs at most."
    if not math.isnan(sees):
        text += f" At the last look a net loss of {percent(sees)} points over all questions would have raised one."
    return [*sentences, (text, False)]


def _last_tests(verdicts: Sequence[Alarm]) -> dict[tuple[AlarmKind, Level, str], Alarm]:
    """Tests of the last look, by kind, level and name of the group."""
    return {(one.kind, one.group.level, one.group.name): one for one in verdicts if one.step == verdicts[-1].step}


def _lost_and_won(alarm: Alarm) -> str:
    group = alarm.group
    return f"{count(group.forgotten)} of {count(group.n)} questions lost, {count(group.gained)} gained"


def alarm_line(alarm: Alarm) -> Text:
    """Line of one alarm, with its p-value and the level that it had to reach."""
    text = Text(f"ALARM {one_line(alarm.group.name)}", style="bold red")
    small = f"p {_small(alarm.p_value)}, alarm at {_small(alarm.alarm_level)}"
    return text.append(
        f", step {alarm.step}: {flips(alarm.group)} of {count(alarm.group.n)} ({small})", style="not bold"
    )


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    head = (
        f"{'step':>7} {'forgot':>7} {'gained':>7} {'known lost':>10} {'net points':>24} {'ever':>6} {'guess':>6}     p"
    )
    lines = [Text(head, style="bold")]
    looks = len(trajectory) - 1
    # The smallest distance at which no more than ROWS looks are left; the last look is always shown.
    stride = -(-looks // ROWS)
    for at in range(looks):
        if at % stride and at != looks - 1:
            continue
        group = trajectory.comparisons[at + 1].all
        known = "-" if group.known_lost is None else brief(group.known_lost, 10)
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


def _guess(trajectory: Trajectory, share: float) -> str:
    """Count of a pure guesser, in brackets; empty if it is undefined."""
    return "" if math.isnan(share) else f" (a guesser {share * trajectory.course.items:,.0f})"


def _small(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"
