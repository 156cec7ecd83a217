"""A run as a table of at most 80 columns: one line a look, then what was ever forgotten, and the alarms.

Beside each number that grows by noise alone stands, in brackets, what a model that only guesses would show.
"""

from __future__ import annotations

import math
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.trajectory import Alarm, Trajectory
from forgetwatch.report.formatting import between, brief, count, one_line, percent, points, probability

ROWS: Final = 40
"""Looks that the table shows; of more it shows the first, every n-th, and the last."""


def trajectory_table(trajectory: Trajectory, *, title: str = "") -> Lines:
    """A run as lines for a console.

    Args:
        trajectory: What to show.
        title: The first line; by default the name of the baseline.
    """
    whole = trajectory.comparisons[0]
    lines = [Text("forgetwatch  ", style="bold cyan").append(one_line(title or whole.labels[0]), style="bold")]
    if len(trajectory) > 1:
        lines += _look_lines(trajectory)
        lines += course_lines(trajectory)
        lines += alarm_lines(trajectory)
    else:
        lines.append(course_line(trajectory))
    return Lines(*lines)


def course_line(trajectory: Trajectory) -> Text:
    """What a run forgot at any look and what came back, beside what a pure guesser would show."""
    course, looks = trajectory.course, len(trajectory) - 1
    if not looks:
        return Text("no look after the baseline")
    ever, back = course.ever_forgotten[-1], course.regained[-1]
    text = Text(f"over {looks} look{'s' if looks > 1 else ''}: ever forgotten {count(ever)}")
    text.append(_guess(trajectory, float(trajectory.guessed.ever_forgotten[-1])), style="dim")
    text.append(f", right again {count(back)}")
    return text.append(_guess(trajectory, float(trajectory.guessed.regained[-1])), style="dim")


def course_lines(trajectory: Trajectory) -> list[Text]:
    """All that grows with the number of looks, each beside its reference."""
    course, guessed = trajectory.course, trajectory.guessed
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
    """Which losses are more than luck over all looks and groups; what the last look could have seen."""
    verdicts = trajectory.verdicts()
    if not verdicts:
        return []
    last = {(one.group.level, one.group.name): one for one in verdicts if one.step == verdicts[-1].step}
    alarms = trajectory.alarms()
    lines = []
    for alarm in alarms:
        now = last[alarm.group.level, alarm.group.name]
        lines.append(alarm_line(alarm).append("" if now is alarm else f"; now {_flips(now)}"))
    taken, planned = len(trajectory) - 1, trajectory.planned
    over = planned is not None and taken > planned
    looks = taken if planned is None or over else planned
    categories = len(last) - 1
    watched = f"all and {categories} categor{'ies' if categories != 1 else 'y'}" if categories else "all"
    number = f"{len(alarms)} alarm{'s' if len(alarms) != 1 else ''}" if alarms else "no alarm"
    how = f" ({planned} planned)" if over else " planned" if planned else ""
    sees = last["all", "all"].smallest_loss
    seen = "could not alarm, too few flips" if math.isnan(sees) else f"could alarm on {percent(sees)} points or more"
    return [
        *lines,
        Text(f"{number} of falling accuracy, over {watched}, {looks} look{'s' if looks > 1 else ''}{how}", "dim"),
        Text(f"an alarm's null: no net loss; the last look {seen}", "dim"),
    ]


def alarm_sentences(trajectory: Trajectory) -> list[tuple[str, bool]]:
    """The same in sentences, each with whether it tells of an alarm."""
    verdicts = trajectory.verdicts()
    if not verdicts:
        return []
    last = {(one.group.level, one.group.name): one for one in verdicts if one.step == verdicts[-1].step}
    told = []
    for alarm in trajectory.alarms():
        now = last[alarm.group.level, alarm.group.name]
        name = "The whole" if alarm.group.level == "all" else alarm.group.name
        text = f"{name} fell by more than luck at step {alarm.step:,}: {_lost_and_won(alarm)}"
        text += f" (p {_small(alarm.p_value)}, needed {_small(alarm.alarm_level)})."
        told.append((text + ("" if now is alarm else f" At the last look: {_lost_and_won(now)}."), True))
    sees = last["all", "all"].smallest_loss
    text = "No look shows a fall of accuracy that is more than luck. " if not told else ""
    text += "Luck alone raises such an alarm, in any group and at any look, in about 5 of 100 runs at most."
    if not math.isnan(sees):
        text += f" At the last look the whole would have raised one from a net loss of {percent(sees)} points on."
    return [*told, (text, False)]


def _lost_and_won(alarm: Alarm) -> str:
    group = alarm.group
    return f"{count(group.forgotten)} of {count(group.n)} questions lost, {count(group.gained)} gained"


def alarm_line(alarm: Alarm) -> Text:
    """One alarm, with its p-value and the level that it had to reach."""
    text = Text(f"ALARM {one_line(alarm.group.name)}", style="bold red")
    small = f"p {_small(alarm.p_value)}, alarm at {_small(alarm.alarm_level)}"
    return text.append(f", step {alarm.step}: {_flips(alarm)} of {count(alarm.group.n)} ({small})", style="not bold")


def _flips(alarm: Alarm) -> str:
    return f"-{count(alarm.group.forgotten)} +{count(alarm.group.gained)}"


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    head = (
        f"{'step':>7} {'forgot':>7} {'gained':>7} {'known lost':>10} {'net points':>24} {'ever':>6} {'guess':>6}     p"
    )
    lines = [Text(head, style="bold")]
    looks = len(trajectory) - 1
    stride = -(-looks // ROWS)
    for at in range(looks):
        if at % stride and at != looks - 1:
            continue
        group = trajectory.comparisons[at + 1].all
        known = "-" if group.known_lost is None else brief(group.known_lost, 10)
        net = f"{points(group.net_change)} ({between(group.net_change_interval, points)})"
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
    """What a pure guesser would show, in brackets; nothing where that is undefined."""
    return "" if math.isnan(share) else f" (a guesser {share * trajectory.course.items:,.0f})"


def _small(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"
