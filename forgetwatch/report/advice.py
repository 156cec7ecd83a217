"""What to do about a loss: proposals, the least work first, each with its command and with what was measured.

    KEPT                        nothing to do
    NOT CLEAR, no loss shown    measure more, if it matters
    NOT CLEAR, a loss shown     measure more; keep an earlier checkpoint, or merge
    FORGOT                      keep an earlier checkpoint; or merge; or train again: with replay, a lower rate, or a
                                loss for what is known; without what the run already had
    more than half is lost      train again with a far lower rate
    no answer changed           ask whether anything was trained

In a later stage the advice is about the stage, if it shows a loss, and else about the earlier ones. The figures beside
a proposal for another training are those of one model (docs/how-to/replay.md), and say so.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from forgetwatch.comparing import TOLERANCE, Comparison, Conclusion, Tolerance, Trajectory, conclude, decide, estimated
from forgetwatch.errors import SnapshotError
from forgetwatch.measures import KNOWN
from forgetwatch.pairing import count, points
from forgetwatch.report.front import FrontLook, saved_look, worth_keeping
from forgetwatch.report.places import ADAPTER, UNKNOWN, Place, RunPlaces, merge_command, places_of
from forgetwatch.run_folder import Description, TaskFigure, find_run_folder, stored_lineage
from forgetwatch.visible_text import without_folders

Kind = Literal["verdict", "none", "measure", "earlier", "keep", "save", "merge", "replay", "change"]

PAGE: Final = "https://forgetwatch.github.io/forgetwatch/how-to/replay/"
"""How replay and the loss are used, and the table of what was measured."""

_MEASURED: Final = {
    "merge": "one model of 135M: 16.7 points less of the clearly known lost (14.6 to 18.7); new task 14 points lower "
    "(4 to 25)",
    "replay": "one model of 135M: 14.4 points less of the clearly known lost (10.1 to 18.8)",
    "change": "one model of 135M: of the clearly known 16.9 points less lost (14.6 to 19.3) by the rate, 3.9 (1.5 to "
    "6.3) by RetentionLoss; new task 9 points lower (0.3 to 17) by the rate",
}
"""Differences to no remedy in `benchmarks/remedies.py --model`, three seeds, 95 % (docs/how-to/replay.md)."""

SHIPPED: Final = ("standard", "confirmation")
"""Probes that ship, each of which confirms the other."""

_STAGE: Final = "the start of this stage"

_IN_SHORT: Final = 3
"""Proposals on a page."""

_MOST: Final = 0.5
"""Share of the clearly known whose loss is no matter of a remedy, but of a training that went wrong."""

_REPLAYED: Final = 0.05
"""Share of replayed rows that was measured."""

_ROWS: Final = (20, 2000)
"""Fewest and most rows that a command asks for."""

_ONLINE: Final = ("GRPO", "RLOO", "PPO", "Online", "Nash", "XPO", "SDPO", "GKD", "SDFT", "Distillation")
"""Parts of the names of trainers that train on texts that a model writes meanwhile."""

ALPHAS: Final = ".1,.3,.5,.7,.9"
"""Shares of the tuned model at which a merge is tried."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One proposal.

    Attributes:
        kind: What it proposes.
        text: What to do, and what was measured on this run.
        measured: What was measured on another model, in one sentence; empty if nothing was.
        command: The command that does it; empty if there is none.
    """

    kind: Kind
    text: str
    measured: str = ""
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A loss, and what is at hand against it.

    Attributes:
        found: What the comparison says.
        before: The model that knew more, and `called` its name in a sentence.
        after: Folder or id of the model that has lost; empty if it is not there.
        run: The output_dir.
        training: Settings of the training, as far as they are known.
        task: Figure of the new task; None if unknown.
    """

    comparison: Comparison
    found: Conclusion
    before: Place
    after: str
    run: Path
    called: str = "the base"
    training: Mapping[str, Any] = field(default_factory=dict)
    task: TaskFigure | None = None


def advise(trajectory: Trajectory, run: Path, *, tolerance: Tolerance = TOLERANCE) -> list[Advice]:
    """Return what to do about the losses of a run, the least work first.

    Args:
        trajectory: The run.
        run: Its folder.
        tolerance: Losses that the verdict tolerates.

    Raises:
        SnapshotError: If it has no look after the start.
    """
    own = trajectory.own
    if len(own) < 2:
        raise SnapshotError(f"{run}: needed a look after the start, found none; there is nothing to advise on yet")
    places = places_of(trajectory, run)
    described = Description.read(find_run_folder(run))
    after = "" if places.end is None else str(places.end)
    case = _Case(
        comparison=own.comparisons[-1],
        found=conclude(own.comparisons[-1], trajectory=own, tolerance=tolerance),
        before=places.start,
        after=after,
        called="the base" if trajectory.stage is None else _STAGE,
        run=places.output_dir,
        training=described.training,
        task=trajectory.task,
    )
    made: list[Advice] = []
    if trajectory.stage is not None and not _shows_loss(case.found):
        whole = conclude(trajectory.comparisons[-1], trajectory=trajectory, tolerance=tolerance)
        if _shows_loss(whole):
            names = ", ".join(one.name for one in stored_lineage(described))
            made = [
                Advice(
                    kind="earlier",
                    text=f"against the first base {whole.decision.sentence}. This stage itself is "
                    f"{case.found.decision.word}: the loss came earlier, so begin there ({names}); what follows is "
                    "against the first base",
                )
            ]
            case = _Case(
                comparison=trajectory.comparisons[-1],
                found=whole,
                before=places.first,
                after=after,
                called="the first base",
                run=places.output_dir,
                training=described.training,
            )
    if settled := _settled(case, str(run)):
        return [*made, settled]
    if made:
        return [*made, *_merge(case), *_replay(case)]
    return _proposals(case, _earlier(trajectory, places, tolerance=tolerance))


def advice_in_short(trajectory: Trajectory, run: Path, *, tolerance: Tolerance = TOLERANCE) -> list[tuple[str, str]]:
    """Return (sentence without folders, what was measured) of at most three proposals, for a page.

    None where there is no loss to mend.
    """
    if len(trajectory.own) < 2:
        return []
    found = advise(trajectory, run, tolerance=tolerance)
    found = [one for one in found if one.kind not in ("verdict", "none", "measure")]
    return [(f"{without_folders(one.text).rstrip('.')}.", one.measured) for one in found[:_IN_SHORT]]


def _shows_loss(found: Conclusion) -> bool:
    return found.decision.next in ("mend", "measure or mend", "measure twice")


def _settled(case: _Case, run: str) -> Advice | None:
    """Return the only advice where there is no loss to do something about; None where there is one."""
    made, whole = case.found.decision, case.comparison.all
    if not case.found.has_answers:
        return Advice(kind="none", text=f"no advice: {made.sentence}")
    if made.next == "vanished":
        text = "answers have vanished: find out first why they have no outcome, such as an output that does not end"
        command = f"forgetwatch report {shlex.quote(run)} --detail"
        return Advice(kind="measure", text=text, command=command)
    if made.next == "nothing":
        if not whole.forgotten and not whole.gained and whole.retained:
            text = f"{made.word}: none of {count(whole.n)} answers changed. Did the training change the model? "
            return Advice(kind="none", text=f"{text}Compare its loss")
        learned = "" if case.task is None else f". New task: {case.task}"
        return Advice(kind="none", text=f"nothing to do: {made.word}, {made.sentence}{learned}")
    if made.next == "measure":
        text = f"nothing to mend: no loss is shown, and too little was measured to rule one out: {made.sentence}"
        return Advice(
            kind="measure",
            text=f"{text}; if that matters, measure more",
            command=more_command(case.before.name, case.after, case.comparison),
        )
    return None


def more_command(before: str, after: str, comparison: Comparison) -> str:
    """Return the command that measures more questions than a comparison: the whole probe, or another that ships.

    Empty for a probe of one's own, and where a model is not known.
    """
    described = comparison.after.get("probe") or {}
    name = str(described.get("name", ""))
    if name not in SHIPPED or not after or before == UNKNOWN:
        return ""
    probe = name if described.get("of") else next(one for one in SHIPPED if one != name)
    return shlex.join(["forgetwatch", "compare", before, after, "--probe", probe])


def more_of_run(trajectory: Trajectory, run: Path) -> str:
    """Return the command that measures more questions than the looks of a run; empty if there is none."""
    places = places_of(trajectory, run)
    end = "" if places.end is None else str(places.end)
    return more_command(places.start.name, end, trajectory.own.comparisons[-1])


def _proposals(case: _Case, earlier: list[Advice]) -> list[Advice]:
    since = " since the start of this stage" if case.called == _STAGE else ""
    text = f"{case.found.decision.word}{since}: {case.found.decision.sentence}"
    verdict = Advice(kind="verdict", text=text)
    if _collapsed(case):
        return [verdict, *earlier, *_change(case)]
    if case.found.decision.next == "mend":
        ways = [*_merge(case), *_replay(case), *_change(case)]
        # A checkpoint that is saved costs nothing; stopping early is a training, and kept nothing in that table.
        return [verdict, *earlier, *ways] if earlier and earlier[0].kind == "keep" else [verdict, *ways, *earlier]
    text = "a loss is shown, and whether it is beyond its limit is open: measure more before you train again"
    return [
        verdict,
        Advice(kind="measure", text=text, command=more_command(case.before.name, case.after, case.comparison)),
        *earlier,
        *_merge(case),
    ]


def _earlier(trajectory: Trajectory, places: RunPlaces, *, tolerance: Tolerance) -> list[Advice]:
    """Return the proposal to keep an earlier checkpoint, or to save one; none if no look is better beyond chance."""
    if saved := saved_look(trajectory, places.output_dir):
        look, folder = saved
        words = f"keep {shlex.quote(str(folder))}: {_there(trajectory, look, tolerance=tolerance)}"
        command = ""
        if places.end is not None and places.start.name != UNKNOWN:
            words += "; it was chosen on these questions, so measure it on others"
            named = str((look.comparison.after.get("probe") or {}).get("name"))
            other = next((one for one in SHIPPED if one != named), "") if named in SHIPPED else ""
            models = [places.start.name, str(folder), str(places.end)]
            command = shlex.join(["forgetwatch", "compare", *models, "--probe", other]) if other else ""
        return [Advice(kind="keep", text=words, command=command)]
    for look in worth_keeping(trajectory)[:1]:
        words = f"train again and save a checkpoint near step {look.step:,}, or stop there; none is saved now"
        return [Advice(kind="save", text=f"{words}: {_there(trajectory, look, tolerance=tolerance)}")]
    return []


def _there(trajectory: Trajectory, look: FrontLook, *, tolerance: Tolerance) -> str:
    """Return what is kept and learned at a look, beside the last one."""
    end, task = trajectory.own.comparisons[-1], trajectory.task
    made = decide(look.comparison, tolerance, chosen_among=len(trajectory.own) - 1)
    word, chosen = made.word, f"; {made.reasons[-1]}" if made.reasons else ""
    open_still = ", so it may still have lost more than the limit" if word != "KEPT" else ""
    text = (
        f"at step {look.step:,} {word}{open_still}; accuracy {points(estimated(look.comparison.all)[0])} points and "
        f"{count(look.comparison.all.forgotten)} of {count(look.comparison.all.n)} forgotten there, "
        f"{points(estimated(end.all)[0])} and {count(end.all.forgotten)} at the end{chosen}"
    )
    if task is None or look.figure is None:
        return f"{text}. No figure of the new task is known there: check it, because less of it is learned"
    name = "the training's loss" if task.name == "loss" else task.name.replace("_", " ")
    return f"{text}; {name} {look.figure:.3g} there, {task.values[-1][1]:.3g} at the end"


def _merge(case: _Case) -> list[Advice]:
    options = ("--alpha", ALPHAS, "--keep-known", "98%")
    command = merge_command(case.before.name, case.after, None, *options) if case.after else ""
    if not command:
        return []
    scales = (Path(case.after) / ADAPTER).is_file()
    how = "scale the adapter down" if scales else f"average the weights with {case.called}"
    text = f"{how}: the command finds the largest share that keeps 98 % of what was known and is not FORGOT"
    text += "; a small share is nearly the base, so add --target with a probe of the new task"
    measured = "" if scales or _is_online(case) else _MEASURED["merge"]
    return [Advice(kind="merge", text=text, measured=measured, command=command)]


def _collapsed(case: _Case) -> bool:
    known = case.comparison.all[KNOWN]
    return known is not None and (known.lost_net_share or 0.0) > _MOST


def _rate(rate: object, divisor: int) -> str:
    """Return the smaller rate in brackets; empty if the rate is unknown."""
    if not isinstance(rate, float) or not math.isfinite(rate) or rate <= 0:
        return ""
    return f" ({rate / divisor:.2g})"


def _is_online(case: _Case) -> bool:
    return any(part in str(case.training.get("trainer", "")) for part in _ONLINE)


def _replay(case: _Case) -> list[Advice]:
    if _is_online(case):
        return []
    rows = case.training.get("rows")
    fewest, most = _ROWS
    number = max(1, round(rows * _REPLAYED / (1 - _REPLAYED))) if isinstance(rows, int) else None
    options = ["-n", str(500 if number is None else min(max(number, fewest), most))]
    options += ["--for", str(case.run)]
    mixed = "one row in twenty" if number is None else f"{count(number)} of them, one row in twenty"
    pairs = "; for DPO make pairs of them" if "DPO" in str(case.training.get("trainer", "")) else ""
    text = f"train again with texts of {case.called} mixed in: {mixed}{pairs}; read some of them first"
    command = shlex.join(["forgetwatch", "replay", case.before.name, *options, "-o", "replay.jsonl"])
    if case.before.note:
        command, text = "", f"{text} (forgetwatch replay); {case.before.note}"
    return [Advice(kind="replay", text=text, measured=_MEASURED["replay"], command=command)]


def _change(case: _Case) -> list[Advice]:
    """Return the proposal of another setting, without those that the run had."""
    rate, used = case.training.get("learning_rate"), case.training.get("retention")
    if _collapsed(case):
        text = "do not use this model: the rate was probably far too high; train again with a tenth of it"
        return [Advice(kind="change", text=f"{text}{_rate(rate, 10)} or less, which is a guess")]
    ways = [f"a quarter of the rate{_rate(rate, 4)}"]
    if used is None and not _is_online(case):
        ways.append("RetentionLoss")
    elif used is not None:
        ways.append(f"a larger weight of RetentionLoss than {used:g}")
    if _is_online(case):
        text = f"train again with {ways[0]}, or with a larger weight of the KL to the base (beta)"
        return [Advice(kind="change", text=f"{text}; neither was measured for a trainer of this kind")]
    return [Advice(kind="change", text=f"train again with {' or '.join(ways)}", measured=_MEASURED["change"])]
