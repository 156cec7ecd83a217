"""What to do about a loss: at most four proposals, each with its command and with what was measured.

Nothing is proposed for a run that kept what it knew, and none for a loss that the questions do not show. The figures
beside a proposal for another training are those of one small model (docs/how-to/replay.md), and say so: they show an
order of size, and no promise for another model.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forgetwatch.comparing import TOLERANCE, Tolerance, Trajectory, conclude, estimated
from forgetwatch.errors import SnapshotError
from forgetwatch.pairing import count, points
from forgetwatch.report.decision import best_look, better_checkpoint, decision, little_to_lose, merge_command
from forgetwatch.run_folder import FOLLOW_FOLDER, RUN_FOLDER, checkpoint_folder

_MEASURED: Final = {
    "merge": "on the demo's model half and half lost 2.7 % of the clearly known, where training alone lost 30.0 %; "
    "92.9 % of the new task was right, and not 100 %",
    "replay": "on the demo's model one row in twenty, about the same kinds of facts, lost 1.6 %, where training alone "
    "lost 30.0 %; a real model was not helped by forty short texts",
    "rate": "on the demo's model a quarter of the rate lost 9.7 % and the loss term 13.0 %, where training alone "
    "lost 30.0 %; the new task was learned as well",
}
"""Means of six seeds of one base of two layers: `benchmarks/remedies.py`."""

_FLIPS: Final = 0.02
"""Least share of answers that change for which questions are planned."""

_HUB: Final = re.compile(r"[\w.-]+/[\w.-]+")
"""Id of a model of the hub; a folder that is not there looks the same, and its command says that it is missing."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One proposal.

    Attributes:
        text: What to do, and what was measured.
        command: The command that does it; empty if there is none.
    """

    text: str
    command: str = ""


def advise(trajectory: Trajectory, run: Path, *, tolerance: Tolerance = TOLERANCE) -> list[Advice]:
    """Return what to do about the losses of a run, the least work first.

    Args:
        trajectory: The run.
        run: Its folder.
        tolerance: Losses that the verdict tolerates.

    Raises:
        SnapshotError: If it has no look after the start.
    """
    if len(trajectory.own) < 2:
        raise SnapshotError(f"{run}: needed a look after the start, found none; there is nothing to advise on yet")
    output_dir = run.parent if run.name in (RUN_FOLDER, FOLLOW_FOLDER) else run
    last = trajectory.comparisons[-1]
    found = conclude(last, trajectory=trajectory, tolerance=tolerance)
    if not found.has_answers or found.whole is None:
        return [Advice(text="no advice: no question was answered on both sides")]
    if found.verdict.open_by_vanished:
        text = "answers have vanished: find out first why they have no outcome, such as an output that does not end"
        return [Advice(text=text, command=f"forgetwatch report {shlex.quote(str(run))} --detail")]
    if found.verdict.little_to_lose:
        return [Advice(text=f"nothing to do: {little_to_lose(last.all)}")]
    if found.verdict.answer == "PASS":
        return [Advice(text=f"nothing to do: KEPT, {decision(last, found)}")]
    shows_loss = found.verdict.answer == "FAIL" or any(leg.shows_loss for leg in found.verdict.legs)
    if not shows_loss:
        share = (last.all.forgotten + last.all.gained) / last.all.n if last.all.n else 0.0
        flips = f"{100 * max(share, _FLIPS):.3g}%"
        text = "nothing to mend: no loss is shown, and these questions are too few to rule one out; measure more"
        return [Advice(text=text, command=f"forgetwatch plan --flips {flips}")]
    made = []
    if better := better_checkpoint(trajectory, output_dir):
        step, change = best_look(trajectory)
        at = trajectory.own.comparisons[trajectory.own.steps.index(step)].all if step is not None else last.all
        now = estimated(trajectory.own.comparisons[-1].all)[0]
        made.append(
            Advice(
                text=f"{better}: {points(change)} points and {count(at.forgotten)} forgotten at step {step or 0:,}, "
                f"{points(now)} and {count(trajectory.own.comparisons[-1].all.forgotten)} at the end; check the new "
                "task there, which is learned less"
            )
        )
    # In a later stage the losses are against the first base.
    first = str(trajectory.baseline.meta.get("model", ""))
    end = checkpoint_folder(output_dir, trajectory.steps[-1])
    if command := merge_command(first, end):
        made.append(Advice(text=f"average the weights with the base; {_MEASURED['merge']}", command=command))
    is_model = Path(first).is_dir() or _HUB.fullmatch(first) is not None
    of = shlex.quote(first) if is_model else "BASE"
    named = "" if is_model else " (BASE is the model before the training)"
    made.append(
        Advice(
            text=f"train again with texts of the base mixed in (for SFT){named}; {_MEASURED['replay']}",
            command=f"forgetwatch replay {of} --for {shlex.quote(str(output_dir))} -o replay.jsonl",
        )
    )
    other = "or train again with a lower rate, or, for SFT and DPO, with RetentionLoss (docs/how-to/replay.md)"
    made.append(Advice(text=f"{other}; {_MEASURED['rate']}"))
    return made
