"""What to do about a loss: proposals, the least work first, each with its command and with what was measured.

    KEPT                        nothing to do
    NOT CLEAR, no loss shown    measure more, if it matters
    NOT CLEAR, a loss shown     measure more; keep an earlier checkpoint, or merge
    FORGOT                      keep an earlier checkpoint; or merge; or train again: with replay, a lower rate, or a
                                loss for what is known; without what the run already had
    more than half is lost,
    or outputs not finite       train again with a far lower rate
    no answer changed           ask whether anything was trained

In a later stage the advice is about the stage, if it shows a loss, and else about the earlier ones.
The figures beside a proposal for another training are those of one model (docs/how-to/replay.md),
and say so.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion, conclude, not_finite
from forgetwatch.comparing.trajectory import Trajectory, this_stage
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.errors import SnapshotError
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.report.best_look import RunLook, look_to_keep
from forgetwatch.report.places import (
    ADAPTER,
    CONFIG,
    UNKNOWN,
    Place,
    RunPlaces,
    is_model,
    places_of,
)
from forgetwatch.run_folder.contents import find_run_folder
from forgetwatch.run_folder.description import PROBE, RUN_FOLDER, Description
from forgetwatch.run_folder.lineage import stored_lineage
from forgetwatch.run_folder.task_figure import TaskFigure
from forgetwatch.text import count


def _kind(folder: Path) -> str | None:
    # None for an adapter, and where the folder names none.
    if (folder / ADAPTER).is_file():
        return None
    try:
        model_type = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None
    return None if model_type is None else str(model_type)


def merge_command(
    before: Path | str, after: Path | str, probe: str | None = None, *options: str
) -> str:
    """Command that merges two models on a probe, if both are on disk.

    Empty if not. By default the probe is that of the run whose checkpoint comes after.
    """
    base, tuned = Path(before), Path(after)
    try:
        are_models = (
            (base / CONFIG).is_file()
            and is_model(tuned)
            and len({_kind(base), _kind(tuned)} - {None}) < 2
        )
        of_run = tuned.parent / RUN_FOLDER / PROBE
        probe_named = str(of_run) if probe is None and of_run.is_file() else probe
    except (OSError, ValueError):  # a model in memory may have any name
        return ""
    all_options = [*options] if probe_named is None else ["--probe", probe_named, *options]
    return (
        shlex.join(["forgetwatch", "merge", str(before), str(after), *all_options])
        if are_models
        else ""
    )


Kind = Literal["verdict", "none", "measure", "earlier", "keep", "save", "merge", "replay", "change"]


PAGE: Final = "https://forgetwatch.github.io/forgetwatch/how-to/replay/"
"""How replay and the loss are used, and the table of what was measured."""


_MEASURED: Final = {
    "merge": "16.7",
    "replay": "14.4",
    "change": "16.9; 3.9",
}
"""Points less of the clearly known that were lost in `benchmarks/remedies.py --model`, three seeds."""


SHIPPED: Final = ("standard", "confirmation")
"""Probes that ship, each of which confirms the other."""


_STAGE: Final = "the start of this stage"


_MOST: Final = 0.5
"""Share of the clearly known whose loss is no matter of a remedy, but of a training that went wrong."""


_REPLAYED: Final = 0.05
"""Share of replayed rows that was measured."""


_ROWS: Final = (20, 2000)
"""Fewest and most rows that a command asks for."""


_ONLINE: Final = (
    "GRPO",
    "RLOO",
    "PPO",
    "Online",
    "Nash",
    "XPO",
    "SDPO",
    "GKD",
    "SDFT",
    "Distillation",
)
"""Parts of the names of trainers that train on texts that a model writes meanwhile."""


ALPHAS: Final = ".1,.3,.5,.7,.9"
"""Shares of the tuned model at which a merge is tried."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One proposal.

    Attributes:
        kind: What it proposes.
        text: What to do, and what was measured on this run.
        measured: Points less of the clearly known that one model of 135M lost with it; empty if
            that was not measured.
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
    """Advise what to do about a run's losses, least work first.

    Args:
        trajectory: The run.
        run: Its folder.
        tolerance: Losses that the verdict tolerates.

    Raises:
        SnapshotError: If it has no look after the start.
    """
    stage = this_stage(trajectory)
    if len(stage) < 2:
        raise SnapshotError(
            f"{run}: needed a look after the start, found none; there is nothing to advise on yet"
        )
    places = places_of(trajectory, run)
    described = Description.read(find_run_folder(run))
    after = "" if places.end is None else str(places.end)
    case = _Case(
        comparison=stage.final,
        found=conclude(stage.final, trajectory=stage, tolerance=tolerance),
        before=places.start,
        after=after,
        called="the base" if trajectory.stage is None else _STAGE,
        run=places.output_dir,
        training=described.training,
        task=trajectory.task,
    )
    advice_list: list[Advice] = []
    if trajectory.stage is not None and not _shows_loss(case.found):
        conclusion = conclude(trajectory.final, trajectory=trajectory, tolerance=tolerance)
        if _shows_loss(conclusion):
            names = ", ".join(ancestor.name for ancestor in stored_lineage(described))
            advice_list = [
                Advice(
                    kind="earlier",
                    text=f"against the first base {conclusion.decision.sentence}. This stage itself is "
                    f"{case.found.decision.word}: the loss came earlier, so begin there "
                    f"({names}); what follows is against the first base",
                )
            ]
            case = _Case(
                comparison=trajectory.final,
                found=conclusion,
                before=places.first,
                after=after,
                called="the first base",
                run=places.output_dir,
                training=described.training,
            )
    if settled := _settled(case, str(run)):
        return [*advice_list, settled]
    if advice_list:
        return [*advice_list, *_merge(case), *_replay(case)]
    return _proposals(case, _earlier(trajectory, places, tolerance=tolerance))


def proposed(advice_list: Sequence[Advice]) -> list[Advice]:
    """Proposals that the first table does not contain."""
    return [advice for advice in advice_list if advice.kind not in ("verdict", "none")]


def _shows_loss(conclusion: Conclusion) -> bool:
    return conclusion.decision.next in ("mend", "measure or mend", "measure twice")


def _settled(case: _Case, run: str) -> Advice | None:
    # None if there is a loss to do something about.
    decision, group = case.found.decision, case.comparison.all
    if not case.found.has_answers:
        return Advice(kind="none", text=f"no advice: {decision.sentence}")
    if decision.next == "vanished":
        sentence = "answers have vanished: find out first why they have no outcome, such as an output that does not end"
        command = f"forgetwatch report {shlex.quote(run)} --detail"
        return Advice(kind="measure", text=sentence, command=command)
    if decision.next == "nothing":
        if not group.forgotten and not group.gained and group.retained:
            sentence = f"{decision.word}: none of {count(group.n)} answers changed. Did the training change the model? "
            return Advice(kind="none", text=f"{sentence}Compare its loss")
        learned = "" if case.task is None else f". New task: {case.task}"
        return Advice(
            kind="none", text=f"nothing to do: {decision.word}, {decision.sentence}{learned}"
        )
    if decision.next == "measure the end":
        return Advice(
            kind="measure",
            text=f"the model that the training left has no look: {decision.sentence}; score it",
        )
    if decision.next == "measure":
        sentence = (
            "nothing to mend: no loss is shown, and too little was measured to rule one out: "
            f"{decision.sentence}"
        )
        return Advice(
            kind="measure",
            text=f"{sentence}; if that matters, measure more",
            command=more_command(case.before.name, case.after, case.comparison),
        )
    return None


def more_command(before: str, after: str, comparison: Comparison) -> str:
    """Command that measures more questions.

    The whole probe, or another that ships. Empty for a probe of one's own, and where a model is not
    known.
    """
    described = comparison.after.get("probe") or {}
    name = str(described.get("name", ""))
    if name not in SHIPPED or not after or before == UNKNOWN:
        return ""
    probe = name if described.get("of") else next(shipped for shipped in SHIPPED if shipped != name)
    return shlex.join(["forgetwatch", "compare", before, after, "--probe", probe])


def more_of_run(trajectory: Trajectory, run: Path) -> str:
    """Command that measures more questions than a run's looks.

    Empty if there is none.
    """
    places = places_of(trajectory, run)
    end = "" if places.end is None else str(places.end)
    return more_command(places.start.name, end, this_stage(trajectory).final)


def _proposals(case: _Case, earlier: list[Advice]) -> list[Advice]:
    since = " since the start of this stage" if case.called == _STAGE else ""
    sentence = f"{case.found.decision.word}{since}: {case.found.decision.sentence}"
    verdict = Advice(kind="verdict", text=sentence)
    if _collapsed(case):
        return [verdict, *earlier, *_change(case)]
    if case.found.decision.next == "mend":
        ways = [*_merge(case), *_replay(case), *_change(case)]
        # A checkpoint that is saved costs nothing; stopping early is a training, and kept nothing
        # in that table.
        return (
            [verdict, *earlier, *ways]
            if earlier and earlier[0].kind == "keep"
            else [verdict, *ways, *earlier]
        )
    sentence = "measure more before you train again: whether the loss is beyond its limit is open"
    return [
        verdict,
        Advice(
            kind="measure",
            text=sentence,
            command=more_command(case.before.name, case.after, case.comparison),
        ),
        *earlier,
        *_merge(case),
    ]


def _earlier(trajectory: Trajectory, places: RunPlaces, *, tolerance: Tolerance) -> list[Advice]:
    # Keep an earlier checkpoint, or save one; none if no earlier look is better.
    look, unsaved = look_to_keep(trajectory, places.output_dir, tolerance)
    if look is not None and look.step != this_stage(trajectory).final_step:
        command, sentence = "", f"keep {look.checkpoint}: {_there(trajectory, look)}"
        if places.end is not None and places.start.name != UNKNOWN:
            probe_name = str((look.comparison.after.get("probe") or {}).get("name"))
            second_probe = (
                next((shipped for shipped in SHIPPED if shipped != probe_name), "")
                if probe_name in SHIPPED
                else ""
            )
            models = [places.start.name, str(look.checkpoint), str(places.end)]
            command = (
                shlex.join(["forgetwatch", "compare", *models, "--probe", second_probe])
                if second_probe
                else ""
            )
            sentence += "; measure it on other questions" if command else ""
        return [Advice(kind="keep", text=sentence, command=command)]
    if unsaved is None or unsaved.step == this_stage(trajectory).final_step:
        return []
    sentence = f"train again and save near step {unsaved.step:,}, or stop there: {_there(trajectory, unsaved)}"
    return [Advice(kind="save", text=sentence)]


def _there(trajectory: Trajectory, look: RunLook) -> str:
    # The figure of the last look is given too.
    sentence, task = look.decision.bound, trajectory.task
    if task is None or look.figure is None:
        return f"{sentence}; what it learned is not known"
    last_figure = task.at(this_stage(trajectory).final_step)
    ends = "not finite" if last_figure is None else f"{last_figure:.3g}"
    return f"{sentence}, {task.name.replace('_', ' ')} {look.figure:.3g} ({ends} at the end)"


def _merge(case: _Case) -> list[Advice]:
    options = ("--alpha", ALPHAS)
    command = merge_command(case.before.name, case.after, None, *options) if case.after else ""
    if not command:
        return []
    scales = (Path(case.after) / ADAPTER).is_file()
    how = "scale the adapter down" if scales else f"average the weights with {case.called}"
    measured = "" if scales or _is_online(case) else _MEASURED["merge"]
    return [
        Advice(
            kind="merge",
            text=f"{how}: the command seeks the largest share that keeps 98 % of what it knew",
            measured=measured,
            command=command,
        )
    ]


def _collapsed(case: _Case) -> bool:
    known_items = case.comparison.all[KNOWN]
    has_lost_most = known_items is not None and (known_items.lost_net_share or 0.0) > _MOST
    return has_lost_most or bool(not_finite(case.comparison.all))


def _rate(rate: object, divisor: int) -> str:
    # In brackets; empty if the rate is unknown.
    if not isinstance(rate, float) or not math.isfinite(rate) or rate <= 0:
        return ""
    return f" ({rate / divisor:.2g})"


def _is_online(case: _Case) -> bool:
    return any(method in str(case.training.get("trainer", "")) for method in _ONLINE)


def _replay(case: _Case) -> list[Advice]:
    if _is_online(case):
        return []
    rows = case.training.get("rows")
    fewest, most_rows = _ROWS
    share = rows * _REPLAYED / (1 - _REPLAYED) if isinstance(rows, int) else 500
    number = min(max(round(share), fewest), most_rows)
    options = ["-n", str(number), "--for", str(case.run)]
    pairs = ", as pairs for DPO" if "DPO" in str(case.training.get("trainer", "")) else ""
    sentence = f"train again with {count(number)} texts of {case.called} mixed in{pairs}"
    command = shlex.join(
        ["forgetwatch", "replay", case.before.name, *options, "-o", "replay.jsonl"]
    )
    if case.before.note:
        command, sentence = "", f"{sentence}; {case.before.note}"
    return [Advice(kind="replay", text=sentence, measured=_MEASURED["replay"], command=command)]


def _change(case: _Case) -> list[Advice]:
    # Without the settings that the run had.
    rate, used = case.training.get("learning_rate"), case.training.get("retention")
    if _collapsed(case):
        sentence = f"do not use this model: train again with a tenth of the rate{_rate(rate, 10)} or less, a guess"
        return [Advice(kind="change", text=sentence)]
    ways = [f"a quarter of the rate{_rate(rate, 4)}"]
    if used is None and not _is_online(case):
        ways.append("RetentionLoss")
    elif used is not None:
        ways.append(f"a larger weight of RetentionLoss than {used:g}")
    if _is_online(case):
        sentence = f"train again with {ways[0]}, or a larger weight of the KL to the base (beta)"
        return [Advice(kind="change", text=sentence)]
    return [
        Advice(
            kind="change",
            text=f"train again with {' or '.join(ways)}",
            measured=_MEASURED["change"],
        )
    ]
