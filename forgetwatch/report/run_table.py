"""A run in a terminal of 80 columns: the first table at its last look, and every look in detail.

Counts that grow with the number of looks by noise alone have a reference in brackets: a model that only guesses.
"""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import TOLERANCE, Alarm, Level, State, Tolerance, Trajectory, estimated, raised_alarms
from forgetwatch.gates import GateResult
from forgetwatch.measures import (
    ESTIMATORS,
    LOG_SCORE,
    MASS,
    NOT_THERE,
    PASSAGES,
    GroupMeasure,
    best_estimator,
    kl_text,
)
from forgetwatch.pairing import brief, count, one_line, percent, points, probability
from forgetwatch.report.cells import drift_looks, spread_looks
from forgetwatch.report.decision import better_checkpoint, merge_command, run_title
from forgetwatch.report.detail import comparison_detail
from forgetwatch.report.terminal import comparison_table, net_text
from forgetwatch.run_folder import RUN_FOLDER, checkpoint_folder

ROWS: Final = 40
"""Number of looks in the detail; of more it shows the first, every n-th, and the last."""


def run_table(
    trajectory: Trajectory,
    *,
    title: str = "",
    run: Path | str = "",
    of: int | None = None,
    tolerance: Tolerance = TOLERANCE,
    gate: GateResult | None = None,
) -> Lines:
    """First table of a run: its last look against the start, and what all looks show.

    Args:
        trajectory: The run.
        title: Title; by default that of `decision.run_title`.
        run: Its folder, which the title and the next command name.
        of: Number of steps of the training, if known.
        tolerance: Losses that the verdict tolerates.
        gate: Result of a gate, which is then the first line.
    """
    if len(trajectory) == 1:
        return Lines(Text().append("forgetwatch  ", style="bold cyan").append("no look after the baseline"))
    # Shorter to type, and read as the same run.
    named = Path(run).parent if Path(run).name == RUN_FOLDER else run
    last = checkpoint_folder(named, trajectory.steps[-1])
    base = str(trajectory.baseline.meta.get("model", ""))
    return comparison_table(
        trajectory.comparisons[-1],
        title=title or run_title(trajectory, run, of=of),
        tolerance=tolerance,
        trajectory=trajectory,
        gate=gate,
        flips=f"forgetwatch flips {shlex.quote(str(named))}" if run else "",
        remedy=(better_checkpoint(trajectory, Path(named)) or merge_command(base, last)) if run else "",
    )


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
    """Lines of the alarms over all looks and groups, and of the smallest fall that the last look could see."""
    tests = trajectory.verdicts()
    if not tests:
        return []
    raised = raised_alarms(trajectory)
    lines = []
    for one in raised:
        now = "" if one.now is one.alarm else f"; now {_now(one.now)}{_STATES[one.state]}"
        lines.append(alarm_line(one.alarm).append(now, "not bold"))
    last = [one for one in tests if one.step == trajectory.steps[-1]]
    taken, planned = len(trajectory) - 1, trajectory.planned
    over = planned is not None and taken > planned
    looks = taken if planned is None or over else planned
    categories = sum(one.group.level == "category" for one in last)
    watched = f"all and {categories} categor{'ies' if categories != 1 else 'y'}" if categories else "all"
    number = f"{len(raised)} alarm{'s' if len(raised) != 1 else ''}" if raised else "no alarm"
    how = f" ({planned} planned)" if over else " planned" if planned else ""
    falls = [one for one in last if one.group.level == "all"]
    sees = falls[0].smallest_loss if falls else math.nan
    seen = "no fall could raise one: too few flips" if math.isnan(sees) else f"{percent(sees)} points would raise one"
    by = "; by flips where fewer than 50 items are scored" if {one.by for one in tests} == {"margins", "flips"} else ""
    return [
        *lines,
        Text(f"{number} over {watched}, {looks} look{'s' if looks > 1 else ''}{how}{by}", "dim"),
        Text(f"a fall over all items at the last look: {seen}", "dim"),
    ]


_STATES: Final[dict[State, str]] = {"lasting": "", "unclear": ", not clear", "recovered": ", recovered"}


def _now(alarm: Alarm) -> str:
    """Estimated net change of the group at the look of a test, and its flips."""
    change, _ = estimated(alarm.group)
    return f"{points(change)} points, -{count(alarm.group.forgotten)} +{count(alarm.group.gained)}"


def alarm_line(alarm: Alarm) -> Text:
    """Line of one alarm, with its p-value and the level that it had to reach."""
    text = Text(f"ALARM {one_line(alarm.group.name)}", style="bold red")
    small = f"p {_small(alarm.p_value)} by {alarm.by}, alarm at {_small(alarm.alarm_level)}"
    return text.append(f", step {alarm.step}: {_now(alarm)} of {count(alarm.group.n)} ({small})", style="not bold")


def _look_lines(trajectory: Trajectory) -> list[Text]:
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    # Luck is measured for all looks or for none: it needs the scores of the baseline.
    has_net = any(comparison.all.known_lost_net is not None for comparison in trajectory.comparisons)
    known = "known gone" if has_net else "known lost"
    head = (
        f"{'step':>7} {'forgot':>7} {'gained':>7} {known:>10} {'net change, points':>24} {'ever':>6} {'guess':>6}     p"
    )
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
        text.append(f" {known:>10} {net_text(group):>24} {ever:>6} {guess:>6} {probability(group.p_value):>5}")
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
