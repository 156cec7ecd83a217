"""Sentences below the first table: how sure it is, its legs, its alarms, and what was not measured.

Each is complete without the tables below, and none repeats the verdict or a table. Page, Markdown
and the detail in a terminal show the same.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion, less_luck, round_percent
from forgetwatch.comparing.flips import Flip
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import Alarm, Trajectory, this_stage
from forgetwatch.comparing.verdict import Leg, LegName, estimated
from forgetwatch.measures.base import sentence_of
from forgetwatch.measures.history import HISTORY
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import FORM, NULL
from forgetwatch.measures.option_mass import MASS, mass_mode
from forgetwatch.metrics.intervals import flip_interval
from forgetwatch.report.eight_lines import FirstTable
from forgetwatch.report.flip_list import Lost, lost_examples
from forgetwatch.text import (
    between,
    count,
    is_or_are,
    listed,
    one_line,
    passages,
    percent,
    points,
    questions,
    short_name,
)


def how_sure(comparison: Comparison, found: Conclusion | None) -> list[str]:
    """What intervals do not show, and what was not measured.

    A text each; `found` is None for no look.
    """
    parts = [_how_sure(comparison)] if found is not None and found.has_answers else []
    forgotten, form = comparison.all.forgotten, comparison.all[FORM]
    if form is not None and (of_form := forgotten - form.knowledge_lost) > 0:
        parts.append(
            f"{count(of_form)} of the {count(forgotten)} lost answers lost only their form."
        )
    if (wordings := comparison.wordings) is not None:
        than = (
            "between wordings beyond chance"
            if wordings.differ
            else "between wordings no more than by chance"
        )
        parts.append(f"The net change differs {than} ({wordings}).")
    if comparison.again is not None:
        parts.append(f"{capital(str(comparison.again))}.")
    return [*parts, _not_measured(comparison)]


def loss_sentences(comparison: Comparison, trajectory: Trajectory | None) -> list[str]:
    """Sentences on losses by mass or choice, and on returns.

    Returned answers are of a run.
    """
    mass = comparison.all[MASS]
    sentences = [] if mass is None or mass_mode(mass) is None else [sentence_of(MASS, mass)]
    history = (
        None
        if trajectory is None or len(this_stage(trajectory)) < 3
        else this_stage(trajectory)[HISTORY]
    )
    if history is not None:
        ever, back = float(history.items.ever_forgotten[-1]), float(history.items.regained[-1])
        if ever:
            lost = f"Of {count(ever)} right answer{'s'[: ever != 1]} lost at some look"
            sentences.append(
                f"{lost}, {count(back)} {is_or_are(back)} right again at the last look."
            )
    return [*filter(None, sentences)]


def capital(text: str) -> str:
    """Text with a capital at the beginning."""
    return text[:1].upper() + text[1:]


def _how_sure(comparison: Comparison) -> str:
    # Measurement noise, guessing and vanished outcomes.
    group, parts = comparison.all, list[str]()
    if (null_flips := group[NULL]) is not None:
        changed = null_flips.null_lost + null_flips.null_gained
        ends = between(flip_interval(changed, null_flips.measured), percent)
        parts.append(
            f"When {questions(null_flips.measured).lower()} were measured again with the same "
            f"weights, {count(changed)} had another result (95 %: {ends} %)."
        )
    if (vanished := group.outcomes.vanished) > 0:
        gone = questions(vanished)
        were = "was" if vanished == 1 else "were"
        parts.append(
            f"{gone} {were} scored on one side alone; a limit is kept only if all of these may "
            "be lost."
        )
    return " ".join([*parts, "An interval that contains 0 shows neither a loss nor a gain."])


_NO_KNOWLEDGE: Final = (
    "Clear knowledge needs the probabilities of three or more options a question; none has them."
)


def _not_measured(comparison: Comparison) -> str:
    counted, parts = comparison.items, list[str]()
    if counted.unscored:
        parts.append(
            f"{questions(counted.unscored)} could not be scored and "
            f"{is_or_are(counted.unscored)} in no count."
        )
    if counted.only_before or counted.only_after:
        parts.append(
            f"{questions(counted.only_before)} of the first side and "
            f"{questions(counted.only_after).lower()} of the "
            "second have no counterpart on the other and are left out."
        )
    subset = Subset.from_metadata(comparison.after)
    if subset.items is not None and subset.total is not None:
        parts.append(
            f"The looks evaluate the first {count(subset.items)} of {count(subset.total)} "
            "questions, to save time."
        )
    if subset.missing_categories:
        parts.append(
            f"No question of {listed(subset.missing_categories)} is among those that the looks "
            "evaluate."
        )
    texts = comparison.all.passages
    if comparison.all[KNOWN] is None and (counted.compared or not texts):
        parts.append(_NO_KNOWLEDGE)
    these = [
        "this question" if counted.compared == 1 else f"these {count(counted.compared)} questions"
    ]
    if texts:
        these = [*these, passages(texts)] if counted.compared else [f"these {passages(texts)}"]
    parts.append(f"Nothing beyond {' and '.join(these)} was measured.")
    return " ".join(parts)


class LegRow(NamedTuple):
    """One leg of the verdict, as text."""

    what: str
    measured: str
    interval: str
    limit: str
    result: str


LEG_HEADINGS: Final = LegRow("what", "measured", "interval", "limit", "result")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """First screen of a report, and how sure it is.

    Attributes:
        first: The first table.
        lost_of: Category of the lost questions; empty for all.
        lost: The lost questions.
        legs: Legs of the verdict.
        sure: What intervals do not show, and what was not measured.
    """

    first: FirstTable
    lost_of: str
    lost: tuple[Lost, ...]
    legs: tuple[LegRow, ...]
    sure: tuple[str, ...]

    @property
    def lost_title(self) -> str:
        """Heading of the lost questions."""
        return f"Lost questions of {one_line(self.lost_of)}" if self.lost_of else "Lost questions"


def summary(
    comparison: Comparison, verdict_table: FirstTable, *, changed: Sequence[Flip] = ()
) -> Summary:
    """First screen of a comparison, or of a run's last look.

    `changed` are the items whose answer changed.
    """
    conclusion = verdict_table.found
    lost_of, lost = lost_examples(changed, verdict_table.worst)
    return Summary(
        first=verdict_table,
        lost_of=lost_of,
        lost=lost,
        legs=tuple(_leg(leg) for leg in conclusion.decision.legs) if conclusion.has_answers else (),
        sure=tuple(how_sure(comparison, conclusion)),
    )


def _limit(leg: Leg) -> str:
    # The limit of a change has a sign.
    return f"{100 * (leg.limit or 0.0):g} {'%' if leg.name == 'knowledge' else 'points'}"


def _of(alarm: Alarm, named: Callable[[str], str] = short_name) -> str:
    if alarm.kind == "known":
        return "what it clearly knew"
    return "all questions" if alarm.group.level == "all" else named(alarm.group.name)


def alarm_sentences(trajectory: Trajectory, conclusion: Conclusion) -> list[tuple[str, bool]]:
    """Sentences on alarms, and on how rare and sensitive they are.

    Returns:
        (sentence, is an alarm) of each.
    """
    tests = trajectory.verdicts()
    if not tests:
        return []
    sentences = []
    for alarm in conclusion.alarms:
        sentence = (
            f"{capital(_of(alarm.alarm, one_line))}, step {alarm.alarm.step:,}: "
            f"{_numbers(alarm.alarm)}"
        )
        if alarm.now is not alarm.alarm:
            stage = this_stage(trajectory)
            at = (
                "at the last look"
                if stage.final_step == stage.steps[-1]
                else f"at step {stage.final_step:,}"
            )
            sentence += f"; {at} {_numbers(alarm.now)}"
        sentences.append((f"{sentence}: {alarm.told or 'still below the start'}.", True))
    net_alarm = next(
        test for test in tests[::-1] if test.group.level == "all" and test.kind == "net"
    )
    sentence = "" if sentences else "None. "
    sentence += "A model that does not change raises an alarm, at any look and in any group, in at most 5 of 100 runs."
    if not math.isnan(net_alarm.smallest_loss):
        sentence += (
            f" At the last look a fall of {percent(net_alarm.smallest_loss)} points "
            "over all questions raises one."
        )
    return [*sentences, (sentence, False)]


def _numbers(alarm: Alarm) -> str:
    group, known_items = alarm.group, alarm.group[KNOWN]
    if alarm.kind == "known" and known_items is not None:
        share = round_percent(known_items.lost_net_share or 0.0)
        return f"{share} % lost ({less_luck(known_items)} without lucky guesses)"
    counts = (
        f"{count(group.forgotten)} forgotten, {count(group.gained)} gained, of {count(group.n)}"
    )
    return f"{points(estimated(group)[0])} points ({counts})"


# Legs


_LEGS: Final[dict[LegName, str]] = {
    "accuracy": "net change of all questions",
    "knowledge": "lost of {}",
    "category": "net change of a category",
}


def _leg(leg: Leg) -> LegRow:
    subject = (
        f"net change of {one_line(leg.group)}" if leg.group else _LEGS[leg.name].format(leg.of)
    )
    limit = "" if leg.limit is None else _limit(leg)
    if leg.value is None or leg.interval is None or leg.answer is None:
        return LegRow(subject, "not measured", "", limit, leg.reason)
    show = percent if leg.name == "knowledge" else points
    unit = "%" if leg.name == "knowledge" else "points"
    return LegRow(
        subject,
        f"{show(leg.value)} {unit}",
        between(leg.interval, show),
        limit,
        leg.reason or leg.shows,
    )
