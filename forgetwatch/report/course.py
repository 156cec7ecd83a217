"""A run as a table of at most 80 columns: one line a look, then what was ever forgotten, and the alarms.

Beside each number that grows by noise alone stands, in brackets, what a model that only guesses would show.
"""

from __future__ import annotations

import math
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.report.numbers import between, count, fit, percent, points, probability
from forgetwatch.trajectory import Alarm, Trajectory

ROWS: Final = 40
"""Looks that the table shows; of more it shows the first, every n-th, and the last."""


def trajectory_table(trajectory: Trajectory, *, title: str = "") -> Lines:
    """A run as lines for a console.

    Args:
        trajectory: What to show.
        title: The first line; by default the name of the baseline.
    """
    whole = trajectory.comparisons[0]
    lines = [Text("forgetwatch  ", style="bold cyan").append(title or whole.labels[0], style="bold")]
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
    ever, back = int(course.ever_forgotten[-1]), int(course.regained[-1])
    text = Text(f"over {looks} look{'s' if looks > 1 else ''}: ever forgotten {ever:,}")
    text.append(_guess(trajectory, float(trajectory.guessed.ever_forgotten[-1])), style="dim")
    text.append(f", right again {back:,}")
    return text.append(_guess(trajectory, float(trajectory.guessed.regained[-1])), style="dim")


def course_lines(trajectory: Trajectory) -> list[Text]:
    """All that grows with the number of looks, each beside its reference."""
    course, guessed = trajectory.course, trajectory.guessed
    lost_once, lost_often = int((course.events == 1).sum()), int((course.events > 1).sum())
    events = Text(f"forgetting events {int(course.events.sum()):,}")
    events.append(_guess(trajectory, guessed.events), style="dim")
    events.append(f": {lost_once:,} items once, {lost_often:,} more often")
    never = Text(f"never forgotten {course.never_forgotten:,}")
    never.append(_guess(trajectory, guessed.never_forgotten), style="dim")
    temporal = Text(f"right at some look and wrong at the last {percent(course.temporal_forgetting)} %")
    if not math.isnan(guessed.temporal_forgetting):
        temporal.append(f" (a guesser {percent(guessed.temporal_forgetting)} %)", style="dim")
    return [course_line(trajectory), events, never, temporal]


def alarm_lines(trajectory: Trajectory) -> list[Text]:
    """Which losses are more than luck over all looks and groups; what the last look could have seen."""
    verdicts = trajectory.alarms()
    if not verdicts:
        return []
    first: dict[tuple[str, str], Alarm] = {}
    for verdict in verdicts:
        if verdict.verdict.alarm:
            first.setdefault((verdict.group.level, verdict.group.name), verdict)
    lines = [alarm_line(alarm) for alarm in first.values()]
    looked = len(trajectory) - 1
    last = [verdict for verdict in verdicts if verdict.step == verdicts[-1].step]
    sees = last[0].verdict.smallest_loss
    seen = "no loss, too few answers flipped" if math.isnan(sees) else f"a net loss of {percent(sees)} points or more"
    head = f"{len(first)} alarm{'' if len(first) == 1 else 's'}" if first else "no alarm"
    looks = f"{trajectory.planned} looks planned" if trajectory.planned else f"{looked} look{'s' if looked > 1 else ''}"
    text = f"{head} in {looks} at {len(last)} groups; the null is no net loss, not no change"
    return [*lines, Text(text, style="dim"), Text(f"the last look could alarm on {seen}, over all items", style="dim")]


def alarm_line(alarm: Alarm) -> Text:
    """One alarm, with its null in words."""
    group = alarm.group
    text = Text(f"ALARM step {alarm.step}, {group.name}: ", style="bold red")
    return text.append(
        f"-{count(group.forgotten)} +{count(group.gained)} of {count(group.n)} "
        f"(p {_small(alarm.verdict.p_value)}, alarms from {_small(alarm.verdict.level)})",
        style="",
    )


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, len(trajectory.course.events)
    head = (
        f"{'step':>8} {'forgot':>7} {'gained':>7} {'known lost':>10} {'net points':>24} {'ever':>6} {'guess':>6}     p"
    )
    lines = [Text(head, style="bold")]
    looks = len(trajectory) - 1
    stride = -(-looks // ROWS)
    for at in range(looks):
        if at % stride and at != looks - 1:
            continue
        group = trajectory.comparisons[at + 1].all
        known = "-" if group.known_lost is None else count(group.known_lost)
        net = f"{points(group.net_change)} ({between(group.net_change_interval, points)})"
        share = float(guessed.ever_forgotten[at])
        guess = "-" if math.isnan(share) else f"{n * share:,.0f}"
        text = Text(f"{fit(str(trajectory.steps[at + 1]), 8).strip():>8} ")
        text.append(f"{'-' + count(group.forgotten):>7}", style="red").append(" ")
        text.append(f"{'+' + count(group.gained):>7}", style="green")
        text.append(
            f" {known:>10} {net:>24} {int(course.ever_forgotten[at]):>6,} {guess:>6} {probability(group.p_value):>5}"
        )
        lines.append(text)
    return lines


def _guess(trajectory: Trajectory, share: float) -> str:
    """What a pure guesser would show, in brackets; nothing where that is undefined."""
    return "" if math.isnan(share) else f" (a guesser {share * len(trajectory.course.events):,.0f})"


def _small(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"
