"""The verdict in one sentence, with the number that decides, as every output shows it.

    FORGOT      29 % of what it clearly knew is gone (55 of 187 without lucky guesses; 95 %: 21 to 37 %), most in
                History and Trade
    KEPT        accuracy fell by at most 1.2 points; of what it clearly knew at most 3.1 % is lost
    NOT CLEAR   accuracy may have fallen by up to 4.2 points (limit 2); of what it clearly knew at most 3.1 % is lost

The sentence follows the word, so it begins in lower case and has no full stop. Every bound is the end of an interval of
`comparing.verdict`. A loss that is named after KEPT is said to be within its limit.

Also the names of the models, and of a run the state of each alarm and the look of the highest accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.comparing import (
    Answer,
    Comparison,
    Conclusion,
    Group,
    Leg,
    RaisedAlarm,
    Trajectory,
    Verdict,
    estimated,
    group_verdict,
)
from forgetwatch.gates import GateResult
from forgetwatch.measures import CONSTANT_MASS, FORM, KNOWN, net_of_luck
from forgetwatch.pairing import count, fit_ends, listed, one_line, run_name

GATE: Final[Mapping[Answer, str]] = {"PASS": "GATE PASSED", "FAIL": "GATE FAILED", "INCONCLUSIVE": "UNDECIDED"}
"""Word of a gate in the first table."""
_FINDINGS: Final = 2
"""Findings of a gate in its sentence."""
NO_ANSWERS: Final = "passages alone were compared, and they have no right answer"
_CLASS: Final = re.compile(r"model|[A-Z]\w*(For[A-Z]\w+|Model)")
"""What metadata have for the name of a model that was made in memory: ``model``, or its class."""


def decision(comparison: Comparison, found: Conclusion) -> str:
    """Return the sentence of the verdict, without its word."""
    if not found.has_answers:
        return NO_ANSWERS
    if found.whole is None:
        return "no item was scored on both sides"
    verdict = found.verdict
    if verdict.little_to_lose:
        return little_to_lose(comparison.all)
    if verdict.answer == "FAIL":
        return _forgot(comparison, found) + form_alone(comparison.all) + part_of_wording(comparison)
    if verdict.answer == "PASS":
        within = [f"; {_fell(leg)}, within the limit of {_limit(leg)}" for leg in verdict.legs if _named_loss(leg)]
        return "; ".join(bounds(verdict.legs)) + "".join(within) + _unmeasured(verdict)
    blocking = [leg for leg in verdict.legs if not leg.allows or (leg.name == "accuracy" and leg.answer != "PASS")]
    rest = [leg for leg in verdict.legs if leg not in blocking]
    text = "; ".join([*(_unclear(leg) for leg in blocking), *bounds(rest)])
    if not any(leg.shows_loss for leg in blocking):
        return text
    return text + form_alone(comparison.all) + part_of_wording(comparison)


def gate_decision(result: GateResult, found: Conclusion) -> str:
    """Return the sentence of a gate, without its word.

    What decides it, and the losses beyond a limit that no limit asks about.
    """
    deciding = [one for one in result.findings if one.verdict == result.verdict]
    lines = [f"{one.leg or one.what} {one.measured}, {one.limit}" for one in deciding[:_FINDINGS]]
    if len(deciding) > _FINDINGS:
        lines.append(f"{len(deciding) - _FINDINGS} more")
    asked = {one.leg for one in result.findings}
    others = [leg for leg in found.verdict.legs if leg.answer == "FAIL" and leg.name not in asked]
    return "; ".join([*lines, *([f"not asked for: {' and '.join(map(_loss, others))}"] if others else [])])


def _loss(leg: Leg) -> str:
    if leg.name == "knowledge" and leg.value is not None:
        return f"{_percent(min(leg.value, 1.0))} % of what it clearly knew is gone"
    return f"{one_line(leg.group) or 'accuracy'} fell by {_range(leg)} points"


def little_to_lose(whole: Group) -> str:
    """Return the sentence on a model that answered no better than guessing before."""
    if not whole.retained and not whole.forgotten:
        return f"before training it answered none of {count(whole.n)} questions right: there is nothing to forget here"
    return "before training it answered no better than guessing: there is next to nothing to forget here"


def _forgot(comparison: Comparison, found: Conclusion) -> str:
    """Return the loss that decides, and the categories that fell most."""
    leg = found.verdict.deciding
    if leg.interval is None or leg.value is None or leg.limit is None:
        return ""
    low, high = leg.interval
    if leg.name == "category":
        return f"{one_line(leg.group)} fell by {_points(leg.value)} points ({_range(leg)}; limit {_limit(leg)})"
    fell = [one_line(one.group.name) for one in found.lost[:2]]
    where = f", most in {listed(fell)}" if fell else ""
    if leg.name == "knowledge" and fell:  # the categories are those whose accuracy fell, known or not
        where = f"; accuracy fell in {listed(fell)}"
    if leg.name == "accuracy":
        return f"accuracy fell by {_points(leg.value)} points (95 %: {_range(leg)}; limit {_limit(leg)}){where}"
    known = comparison.all[KNOWN]
    net = net_of_luck(known)
    counted = ""
    if known is not None and leg.value >= 1:  # less luck, the lost can be more than the known
        return f"all that it clearly knew is gone ({count(known.known_lost)} of {count(known.known)} questions){where}"
    if net is not None and known is not None:
        counted = f"{net.net} of {count(round(known.known_net or 0))} without lucky guesses; "
    between = f"95 %: {_percent(low)} to {_percent(min(high, 1.0))} %; limit {_limit(leg)}"
    return f"{_percent(leg.value)} % of what it clearly knew is gone ({counted}{between}){where}"


def bounds(legs: list[Leg] | tuple[Leg, ...]) -> list[str]:
    """Return the largest losses of accuracy and of knowledge that the intervals allow.

    One phrase for each measured leg.
    """
    made = []
    for leg in legs:
        if leg.interval is None or leg.worst is None or leg.answer is None:
            continue
        if leg.name == "knowledge":
            most = f"of what it clearly knew at most {_percent(leg.worst)} % is lost"
            if leg.answer != "PASS" and not leg.shows_loss:
                # Too few are known for the interval to stay within the limit.
                most = f"of what it clearly knew no loss is shown, {_percent(leg.worst)} % at most"
                most += f" (limit {_limit(leg)})"
            made.append(most if leg.worst > 0 else "nothing that it clearly knew is lost")
        elif leg.name == "accuracy":
            rose = leg.worst > 0
            made.append(f"accuracy {'rose by at least' if rose else 'fell by at most'} {_points(leg.worst)} points")
    return made


def _named_loss(leg: Leg) -> bool:
    """Return True for a leg that shows a loss within its limit which its bound alone does not say to be one."""
    return leg.answer == "PASS" and leg.shows_loss and leg.interval is not None and leg.name != "accuracy"


def _fell(leg: Leg) -> str:
    if leg.name == "knowledge" and leg.value is not None:
        return f"{_percent(leg.value)} % of it is gone"
    return f"{one_line(leg.group)} fell by {_range(leg)} points"


def _unmeasured(verdict: Verdict) -> str:
    """Return a phrase if clear knowledge was not measured, so that KEPT speaks of accuracy alone."""
    leg = verdict.leg("knowledge")
    if leg is None or leg.answer is not None or not leg.reason:
        return ""
    return f"; what it clearly knew is not measured ({leg.reason})"


def _unclear(leg: Leg) -> str:
    """Return the phrase of a leg that stands in the way of a decision."""
    if leg.interval is None or leg.worst is None or leg.limit is None:
        return f"{leg.name} is not measured: {leg.reason}"
    limit = f"limit {_limit(leg)}"
    if leg.is_open_by_vanished:
        limit += "; answers have vanished"
    if leg.name == "knowledge":
        low, high = max(leg.interval[0], 0.0), min(max(leg.worst, leg.interval[1]), 1.0)
        if leg.shows_loss and low > 0:
            return f"{_percent(low)} to {_percent(high)} % of what it clearly knew is lost ({limit})"
        return f"up to {_percent(high)} % of what it clearly knew may be lost ({limit})"
    what = one_line(leg.group) or "accuracy"
    most, least = min(leg.worst, leg.interval[0]), leg.interval[1]
    if least < 0:
        return f"{what} fell by {_points(least)} to {_points(most)} points ({limit})"
    return f"{what} may have fallen by up to {_points(most)} points ({limit})"


def luck_phrase(group: Group) -> str:
    """Return a phrase on the lucky guesses among the clearly known and lost questions.

    Empty if there are none or unknown.
    """
    known = group[KNOWN]
    net = net_of_luck(known)
    if known is None or net is None or known.known_lost_by_luck is None or not known.known_lost or net.by_luck == "0":
        return ""
    if known.known_lost_by_luck >= known.known_lost:
        return ", no more than lucky guesses make"
    return f", about {net.by_luck} of them lucky guesses"


def form_alone(group: Group) -> str:
    """Return the phrase that at least half of the losses are losses of form; empty if they are not."""
    lost = group.forgotten
    if not lost:
        return ""
    if (form := group[FORM]) is not None and form.format_lost:
        only_form = lost - form.knowledge_lost
        if 2 * only_form >= lost:
            return f"; {count(only_form)} of the {count(lost)} lost answers lost only their form"
    kept = group[CONSTANT_MASS]
    if kept is not None and 2 * kept <= lost:
        return f"; {count(lost - kept)} of the {count(lost)} lost answers by the length of the options alone"
    return ""


def part_of_wording(comparison: Comparison) -> str:
    """Return the phrase that a part of the change is the wording; empty unless wordings changed unlike each other."""
    found = comparison.wordings
    return f"; part of it is the wording ({found})" if found is not None and found.differ else ""


def alarm_state(raised: RaisedAlarm, found: Conclusion) -> str:
    """Return what became of an alarm until the last look, in a few words.

    Empty for a loss that lasts beyond its limit.
    """
    if raised.state == "recovered":
        return "recovered"
    group = raised.now.group
    leg = found.verdict.leg("accuracy" if group.level == "all" else "category")
    if leg is not None and leg.limit is not None and group_verdict(group, -leg.limit).answer == "PASS":
        return "within the limit now"
    return "not clear now" if raised.state == "unclear" or found.verdict.answer == "PASS" else ""


def best_look(trajectory: Trajectory) -> tuple[int | None, float]:
    """Return the step of the look of the highest accuracy, and its estimated net change.

    None for the start, which is 0. In a later stage the change is that since the start of the stage.

    Of equal looks it is the first. The best of many looks is partly so by chance.
    """
    own = trajectory.own
    changes = [estimated(one.all)[0] for one in own.comparisons]
    steps = list(zip(own.steps[1:], changes[1:], strict=True))
    step, change = max(steps, key=lambda one: one[1], default=(0, 0.0))
    return (step, change) if change > 0 else (None, 0.0)


def model_names(comparison: Comparison) -> tuple[str, str]:
    """Names of the two models for people: folder or id, and step; never a class of a library."""
    sides = (comparison.before, comparison.after)
    before, after = (_name(meta, label) for meta, label in zip(sides, comparison.labels, strict=True))
    return before, after


def run_title(trajectory: Trajectory, run: Path | str = "", *, of: int | None = None, against: str = "") -> str:
    """Return the title of a run: its name, its last step, and what this is compared with.

    Args:
        trajectory: The run.
        run: Its folder, which names it; without one the model does.
        of: Number of steps of the training, if known.
        against: What it is compared with; by default its start, in a later stage the base of the first.
    """
    meta = trajectory.comparisons[-1].after
    named = run_name(Path(run)) if run else ""
    if not named:
        named = _name({**meta, "step": None}, str(meta.get("model", "")).rstrip("/").rsplit("/", maxsplit=1)[-1])
    named = shortened(named)
    first, last = trajectory.steps[0], trajectory.steps[-1]
    start = against or (f"step {first:,}" if first > 0 else "the start")
    if trajectory.stage is not None:
        start = f"the first base, stage {trajectory.number}"
    last_step = f"step {last:,}" + ("" if of is None else f" of {of:,}")
    return f"{named}, {last_step} against {start}" if named and named != _UNNAMED else f"{last_step} against {start}"


def shortened(name: str) -> str:
    """Return a name without its middle if it takes more than `_LONGEST` columns, so that a title keeps its step."""
    return fit_ends(name, _LONGEST).rstrip()


_UNNAMED: Final = "the model"
_LONGEST: Final = 24


def _name(meta: Mapping[str, Any], label: str) -> str:
    if _CLASS.fullmatch(str(meta.get("model", ""))) is None:
        return label
    source = meta.get("source")
    name = run_name(Path(str(source)).parent) if source else _UNNAMED
    return name if meta.get("step") is None else f"{name} at step {meta['step']}"


def _range(leg: Leg) -> str:
    """Return the interval of a loss, smaller loss first, without signs where both ends are losses."""
    if leg.interval is None:
        return ""
    low, high = leg.interval
    if high < 0:
        return f"{_points(high)} to {_points(low)}"
    return f"{100 * low:+.1f} to {100 * high:+.1f}"


def _limit(leg: Leg) -> str:
    """Return the limit of a leg with its unit, without its sign."""
    if leg.limit is None:
        return ""
    return f"{_percent(leg.limit)} %" if leg.name == "knowledge" else _points(leg.limit)


def _points(change: float) -> str:
    size = abs(100 * change)
    return f"{size:.0f}" if abs(size - round(size)) < 1e-9 else f"{size:.1f}"


def _percent(share: float) -> str:
    """Return the share in percent, whole from 10 on."""
    size = 100 * share
    return f"{size:.0f}" if abs(size) >= 10 or abs(size - round(size)) < 1e-9 else f"{size:.1f}"
