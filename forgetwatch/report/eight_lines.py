"""First table of every output: at most eight lines for a reader who has seen nothing of the project.

    FORGOT     run, step 180: about 27 % of what it knew is gone (19 to 35 %)
               limit 5 %; lost 48 of about 180 clearly known, guesses left out
    answers    63 of all 360 lost, 63 gained, guesses too: accuracy still 70.6 %
    where      worst: History, 18 of 60 lost, 1 gained
    when       surely kept until step 15, forgot from 90 (History from 75)
    new task   loss 2.24 at the start, 1.53 at step 30, 0.67 at the end
    keep       checkpoint-30: 2 to 10 % lost, unsure; 45 learned more, unsaved
    next       forgetwatch report forgetwatch-demo/run

The verdict is first, one currency a line, one number a claim; a row that has nothing to say is
absent. Terminal, page, Markdown, model card, comment and `print` show the same rows.
"""

import math
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from forgetwatch.comparing.checks import form_notes
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion, Decision, conclude, decide, decide_run
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Trajectory, this_stage
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.measures.graded import GRADED
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.policy.ruling import PolicyResult
from forgetwatch.report.advice import more_of_run
from forgetwatch.report.best_look import RunLook, look_to_keep
from forgetwatch.report.side_names import model_names, shortened
from forgetwatch.run_folder.description import RUN_FOLDER
from forgetwatch.snapshot import SAMPLED
from forgetwatch.text import count, listed, one_line, passages, percent, run_name, short_name

_NOTHING: Final = "no checkpoint to keep: every look forgot"
_FINDINGS: Final = 2
"""Findings of a guard, and limits of a gate, in a row."""


@dataclass(frozen=True, kw_only=True)
class FirstTable:
    """What every output says first.

    Attributes:
        name: What is judged: the model, or the run with its step.
        found: Everything that is concluded about it.
        rows: (label, text) of what has something to say, in their order.
        command: The command that comes next; empty for none.
    """

    name: str
    found: Conclusion
    rows: tuple[tuple[str, str], ...]
    command: str = ""

    @property
    def worst(self) -> str:
        """Name of the worst category shown; empty for none."""
        leg = self.decision.leg("category")
        failed = leg.group if leg is not None and leg.answer == "FAIL" else ""
        return failed or next((category.group.name for category in self.found.lost), "")

    @property
    def decision(self) -> Decision:
        """The decision."""
        return self.found.decision


def first_table(
    comparison: Comparison,
    *,
    trajectory: Trajectory | None = None,
    run: Path | str = "",
    tolerance: Tolerance = TOLERANCE,
    name: str = "",
    flips: str = "",
    more: str = "",
    gate: PolicyResult | None = None,
    has_advice: bool = True,
) -> FirstTable:
    """First table of a comparison, or of a run's last look.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        trajectory: The run, if there is one.
        run: Its folder, in which checkpoints are searched, and which commands name.
        tolerance: Losses that the verdict tolerates.
        name: What is judged; by default the names of the models, or the run and its step.
        flips: Command that lists the items whose answer changed, to which the worst category is
            added.
        more: Command that measures more.
        gate: Result of a gate, which has a row.
        has_advice: True if what can be tried is printed below.
    """
    conclusion, report = conclude(comparison, trajectory=trajectory, tolerance=tolerance), ""
    if trajectory is not None and len(trajectory) == 1:
        right = f"{percent(comparison.all.accuracy_before)} % of {count(comparison.all.n)} questions right"
        claim = "no look was taken after the start, so nothing is compared yet"
        start = Decision(word="NO VERDICT", answer="INCONCLUSIVE", claim=claim)
        name, conclusion = name or run_label(trajectory, run), replace(conclusion, decision=start)
        return FirstTable(name=name, found=conclusion, rows=(("answers", right),))
    rows = {"answers": _answers(comparison, conclusion), "passages": _passages(comparison.all)}
    rows |= {
        "where": _where(comparison, conclusion),
        "caution": "; ".join([*form_notes(comparison.notes), *conclusion.decision.reasons]),
    }
    if trajectory is not None:
        # Shorter to type, and read as the same run.
        folder = Path(run).parent if Path(run).name.startswith(RUN_FOLDER) else Path(run)
        has_weights = bool(run) and not trajectory.baseline.meta.get(SAMPLED)
        look, better = look_to_keep(trajectory, folder, tolerance) if has_weights else (None, None)
        rows |= {
            "when": _when(trajectory, conclusion, tolerance),
            "this stage": _this_stage(trajectory, tolerance),
        }
        rows["new task"] = _new_task(trajectory, look)
        rows["keep"] = _keep(trajectory, conclusion, look, better) if has_weights else ""
        rows["guard"] = _guard(trajectory)
        quoted = shlex.quote(str(folder))
        if run:
            flips, more = f"forgetwatch flips {quoted}", more_of_run(trajectory, folder)
            report = "" if has_advice else f"forgetwatch report {quoted}"
        name = name or run_label(trajectory, run)
    if gate is not None:
        rows["gate"] = f"{gate.answer}: {_deciding(gate)}"
    verdict_table = FirstTable(
        name=name or " against ".join(map(shortened, reversed(model_names(comparison)))),
        found=conclusion,
        rows=tuple((label, cell) for label, cell in rows.items() if cell),
    )
    return replace(verdict_table, command=_command(comparison, verdict_table, report, flips, more))


def run_label(trajectory: Trajectory, run: Path | str = "", *, of: int | None = None) -> str:
    """Name of a run with step and stage.

    Of all steps while the run trains; the stage after a first one.
    """
    run_title = shortened(run_name(Path(run)) if run else "") or "run"
    ending = this_stage(trajectory).ending
    is_open = ending is not None and ending.state == "running"
    steps = (ending.max_steps if ending is not None and is_open else None) or of
    of_all = f" of {steps:,}" if steps and steps != trajectory.final_step else ""
    stage = "" if trajectory.stage is None else f", stage {trajectory.number}"
    return f"{run_title}{stage}, step {trajectory.final_step:,}{of_all}"


def _answers(comparison: Comparison, conclusion: Conclusion) -> str:
    # Flips, counted, and the accuracy on both sides.
    group = comparison.all
    if not group.n or not conclusion.has_answers:
        return ""
    before, after = percent(group.accuracy_before), percent(group.accuracy_after)
    metric = comparison.after.get("metric") or "acc"
    named = "accuracy" if metric == "acc" else f"accuracy ({metric})"
    result = f"{named} still {after} %" if before == after else f"{named} {before} -> {after} %"
    graded, right_if = group[GRADED], ""
    if graded is not None and graded.words:
        limit = str(comparison.before.get("right_if", "score>=0.5")).removeprefix("score")
        result, right_if = graded.words, f" (right: {limit})"
    is_raw = conclusion.decision.deciding == "knowledge" and conclusion.decision.word == "FORGOT"
    of, guesses = ("of all", ", guesses too") if is_raw else ("of", "")
    flips = f"{count(group.forgotten)} {of} {count(group.n)} lost, {count(group.gained)} gained{guesses}{right_if}"
    sentence = f"{flips if group.forgotten or group.gained else f'none of {count(group.n)} changed'}: {result}"
    counted = comparison.items
    also = {
        "unanswered": group.outcomes.vanished,
        "unscored": counted.unscored - group.outcomes.vanished,
        "left out": counted.only_before + counted.only_after,
    }
    sentence += "".join(
        f", {count(number)} {kind_of_flip}" for kind_of_flip, number in also.items() if number > 0
    )
    if comparison.samples > 1:
        sentence += f", {comparison.samples} samples each"
    if graded is not None and not math.isnan(graded.sampling_share):
        narrower = min(100 * graded.narrower, 95)
        sentence += f" (more: up to {narrower:.0f} % narrower)"
    return sentence


def _passages(group: Group) -> str:
    # Bits per byte on both sides; empty without passages.
    if (read := group[PASSAGES]) is None:
        return ""
    before, after, change = (
        PASSAGES.cells(read)[f"bits_per_byte_{name}"] for name in ("before", "after", "change")
    )
    return f"{passages(read.passages)}: {before} -> {after} bits per byte {change[change.index('(') :]}"


def _where(comparison: Comparison, conclusion: Conclusion) -> str:
    # The worst category, or that none stands out; empty for fewer than two.
    leg, decision = conclusion.decision.leg("category"), conclusion.decision
    if not conclusion.categories or not conclusion.has_answers:
        return ""
    sank = [category.group.name for category in conclusion.lost]
    if leg is not None and leg.answer == "FAIL":
        sank.insert(0, leg.group)
    failed_group = leg.group if leg is not None and decision.deciding == "category" else ""
    if name := next((name for name in sank if name != failed_group), ""):
        worst = comparison.by("category")[name]
        sentence = (
            f"worst: {_named(comparison, name)}, {count(worst.forgotten)} of {count(worst.n)} lost"
        )
        return f"{sentence}, {count(worst.gained)} gained"
    if failed_group and decision.word != "KEPT":
        return ""
    if (
        decision.word != "KEPT"
        or leg is None
        or leg.answer == "PASS"
        or leg.worst is None
        or leg.interval is None
    ):
        is_alike = any(leg_failed.answer == "FAIL" for leg_failed in decision.legs)
        return f"all {conclusion.categories} alike" if is_alike else "none stands out"
    largest_loss = 100 * abs(min(leg.worst, leg.interval[0]))
    of = f"{_named(comparison, leg.group)} ({count(comparison.by('category')[leg.group].n)} questions)"
    return f"none stands out; {of} may have lost {largest_loss:.0f} points"


def _named(comparison: Comparison, name: str) -> str:
    # A log has the tasks of its categories.
    tasks = [task for task in comparison.tasks.get(name, ()) if task != name]
    return (
        f"{short_name(name)} ({listed([*map(short_name, tasks)])})" if tasks else short_name(name)
    )


def _when(trajectory: Trajectory, conclusion: Conclusion, tolerance: Tolerance) -> str:
    # The last look that surely kept, the first that surely forgot, and the first category that
    # fell.
    if not conclusion.has_answers:
        return ""
    looks = zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True)
    words = {
        step: decide(look, tolerance).word for step, look in looks if step <= trajectory.final_step
    }
    kept, forgot = (
        [step for step, word in words.items() if word == of] for of in ("KEPT", "FORGOT")
    )
    if len(words) < 2 or len(kept) == len(words):
        sentence = f"kept at all {len(words)} looks" if len(words) > 1 else ""
    elif kept and forgot and kept[-1] > forgot[0]:
        sentence = f"forgot at step {forgot[0]:,}, kept again at {kept[-1]:,}"
    elif forgot:
        sentence = (
            f"surely kept until step {kept[-1]:,}, forgot from" if kept else "forgot from step"
        )
        sentence += f" {forgot[0]:,}"
    else:
        sentence = (
            f"surely kept until step {kept[-1]:,}, not clear since"
            if kept
            else f"not clear at any of {len(words)} looks"
        )
    fell = [
        alarm
        for alarm in conclusion.alarms
        if alarm.alarm.group.level == "category" and alarm.told != "not in these weights"
    ]
    if sentence and fell:
        back = ", recovered" if fell[0].state == "recovered" else ""
        sentence += f" ({short_name(fell[0].alarm.group.name)} from {fell[0].alarm.step:,}{back})"
    return sentence + (", never surely kept" if sentence and forgot and not kept else "")


def _this_stage(trajectory: Trajectory, tolerance: Tolerance) -> str:
    # Empty for a first training.
    if (stage := trajectory.stage) is None:
        return ""
    final_group, word = stage.final.all, decide_run(stage, tolerance).word
    return (
        f"{count(final_group.forgotten)} of {count(final_group.n)} lost since its start, "
        f"{count(final_group.gained)} gained: {word}"
    )


def _new_task(trajectory: Trajectory, look: RunLook | None) -> str:
    # Values are at the start, at the look to keep, and at the end; empty without a figure.
    task = trajectory.task
    if task is None or len(this_stage(trajectory)) < 2:
        return ""
    (start, figure_at_start), (end, figure_at_end) = task.values[0], task.values[-1]
    name = one_line(task.name.replace("_", " "))
    if start == end:
        return f"{name} {figure_at_start:.3g} at step {start:,}"
    parts = [f"{name} {figure_at_start:.3g} at the start"]
    if (
        look is not None
        and look.figure is not None
        and look.step not in (end, this_stage(trajectory).final_step)
    ):
        parts.append(f"{look.figure:.3g} at step {look.step:,}")
    return ", ".join(
        [
            *parts,
            f"{figure_at_end:.3g} at the end"
            if task.broken is None
            else f"not finite from {task.broken:,}",
        ]
    )


def _keep(
    trajectory: Trajectory, conclusion: Conclusion, look: RunLook | None, better: RunLook | None
) -> str:
    # The row gives what the checkpoint lost at most, and a better look that was not saved.
    if not conclusion.has_answers:
        return ""
    if conclusion.decision.word == "KEPT":
        return "" if look is None else f"checkpoint-{look.step}"
    how = "better"
    if look is not None and better is not None:
        is_known = look.figure is not None and better.figure is not None
        how = "kept more" if better.kept > look.kept else "learned more" if is_known else "later"
    unsaved = "" if better is None else f"{better.step:,} {how}, unsaved"
    if look is None:
        return f"no saved checkpoint to keep; step {unsaved}" if unsaved else _NOTHING
    if (
        look.step == this_stage(trajectory).final_step and not unsaved
    ) or look.decision.word == "NO VERDICT":
        return ""
    unsure = ", unsure" if look.decision.word == "NOT CLEAR" else ""
    return "; ".join(
        filter(None, (f"checkpoint-{look.step}: {look.decision.bound}{unsure}", unsaved))
    )


def _guard(trajectory: Trajectory) -> str:
    # Alarms have a row of their own; weights other than those of the last step count here.
    ending, parts = this_stage(trajectory).ending, list[str]()
    if ending is not None and ending.state == "stopped":
        parts.append(f"stopped the run at step {ending.last_step:,}")
    if (
        ending is not None
        and ending.state != "running"
        and ending.delivered not in (None, ending.last_step)
    ):
        parts.append(f"the weights left are those of step {ending.delivered:,}")
    labels = {"vanished": "answers that vanished", "not_finite": "outputs that are not finite"}
    shown_findings = [
        finding for finding in trajectory.findings if finding.what not in ("alarm", "known")
    ]
    shown_findings = shown_findings or ([*trajectory.findings] if parts else [])
    names = [
        f"{labels.get(finding.what, short_name(finding.name.removeprefix('all ')))} (step "
        f"{finding.step:,})"
        for finding in shown_findings[:_FINDINGS]
    ]
    if names:
        more = (
            f" and {len(shown_findings) - len(names)} more"
            if len(shown_findings) > len(names)
            else ""
        )
        parts.append(f"tripped by {', '.join(names)}{more}")
    return "; ".join(parts)


def _deciding(result: PolicyResult) -> str:
    if result.answer == "PASS":
        return f"policy {result.policy.name}"
    parts = [
        f"{ruling.what.removeprefix('all ')} {ruling.measured}, {ruling.limit}"
        for ruling in result.deciding[:_FINDINGS]
    ]
    if len(result.deciding) > _FINDINGS:
        parts.append(f"{len(result.deciding) - _FINDINGS} more")
    return "; ".join([result.unmeasured, *parts] if result.unmeasured else parts)


def _command(
    comparison: Comparison, verdict_table: FirstTable, report: str, flips: str, more: str
) -> str:
    # Empty for none.
    next_step, name = verdict_table.decision.next, verdict_table.worst
    if next_step == "measure" and more:
        return more
    if not flips or not comparison.all.forgotten or next_step in ("nothing", "vanished", "measure"):
        return ""
    of = f" --category {shlex.quote(name)}" if name and one_line(name) == name else ""
    return one_line(report or flips + of)
