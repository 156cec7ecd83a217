"""Several runs as stages of one trajectory: SFT, then DPO, then GRPO, all against the start of the first.

    SFT    0 ── 200 ── 400
    DPO                 0 ── 100 ── 200            counted on: steps 500, 600
    GRPO                             0 ── 50       step 650

The baseline of a later stage has to be the end of the one before. A note gives the number of answers in which the two
differ: the stage began with another model, or was measured on another machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from forgetwatch.comparing.comparison import compare
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.measures import DRIFT_KEY
from forgetwatch.run_folder import GuardFinding, StoredRun
from forgetwatch.snapshot import Snapshot


def read_stages(folders: Sequence[str | Path]) -> Trajectory:
    """Read the looks of several runs as one trajectory, against the baseline of the first.

    Args:
        folders: Run folders in the order of the training; at least one.

    Raises:
        SnapshotError: If there is none, or a folder contains no baseline of its run.
        MismatchError: If the runs do not evaluate the same questions.
    """
    if not folders:
        raise SnapshotError("needed at least one run folder, got none")
    runs = [StoredRun.read(folder) for folder in folders]
    if len(runs) == 1:
        return Trajectory.from_run(runs[0].folder)
    looks, again, offset = [runs[0].baseline], list[Snapshot](), 0
    begins, findings, damages = [], list[GuardFinding](), list[str]()
    for run in runs:
        begins.append(offset)
        findings += [replace(finding, step=finding.step + offset) for finding in run.findings]
        damages += [f"{run.folder}: {note}" for note in run.notes]
        looks += [_later(look, offset) for look in run.looks]
        again += [_later(look, offset) for look in run.again]
        # Later stages count on from the end of this one, and not from their own step 0.
        offset = int(looks[-1].meta["step"])
    planned = [run.planned for run in runs]
    made = Trajectory.of(
        looks,
        # If one stage has no plan, the number of looks of the whole is unknown.
        planned=None if None in planned else sum(number or 0 for number in planned),
        null=runs[0].null,
        again=again,
    )
    notes = [note for before, after in pairwise(runs) if (note := _break_note(before, after))]
    notes += _drift_notes(runs[1:])
    last = made.comparisons[-1]
    comparisons = (*made.comparisons[:-1], replace(last, notes=(*last.notes, *notes)))
    return replace(
        made,
        comparisons=comparisons,
        stages=tuple(begins[1:]),
        findings=tuple(findings),
        notes=tuple(damages),
    )


def _drift_notes(later: Sequence[StoredRun]) -> list[str]:
    """A note on the drift of later stages, which is from another base than the first one; none without drift."""
    folders = [str(run.folder) for run in later if any(look.meta.get(DRIFT_KEY) for look in run.looks)]
    if not folders:
        return []
    return [
        f"the drift of later stages is from the start of each, and is not shown here; `forgetwatch report` of "
        f"{' or '.join(folders)} alone shows it"
    ]


def _later(look: Snapshot, offset: int) -> Snapshot:
    return replace(look, meta={**look.meta, "step": int(look.meta["step"]) + offset})


def _break_note(before: StoredRun, after: StoredRun) -> str | None:
    """Note on the answers that differ between the end of one stage and the start of the next; None if none does."""
    end = (before.looks or (before.baseline,))[-1]
    found = compare(before=end, after=after.baseline).all  # cuts the two to the items that both evaluated
    if not found.forgotten and not found.gained:
        return None
    return (
        f"{after.folder} began with a model that answers {found.forgotten + found.gained:g} of {found.n:g} questions "
        f"otherwise than the end of {before.folder}"
    )
