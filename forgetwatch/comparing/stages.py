"""Stages: trainings of one model, one after another, as one trajectory and as a matrix (`comparing.stage_matrix`).

SFT    0 ── 200 ── 400
DPO                 0 ── 100 ── 200            counted on: steps 500, 600
GRPO                             0 ── 50       step 650
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.stage_matrix import StageMatrix, StageRow, shared_rows
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures import DRIFT_KEY
from forgetwatch.pairing import one_line, run_name
from forgetwatch.run_folder import GuardFinding, StoredRun, check_one_model, stored_lineage
from forgetwatch.snapshot import Snapshot


def read_stages(folders: Sequence[str | Path]) -> Trajectory:
    """Read the looks of several runs as stages of one trajectory, against the baseline of the first.

    The baseline of a later stage has to be the end of the one before. A note gives the number of answers in which the
    two differ: the stage began with another model, or was measured on another machine.

    Args:
        folders: Run folders in the order of the training; at least one.

    Raises:
        SnapshotError: If there is none, or a folder contains no baseline of its run.
        MismatchError: If a folder is given twice, the order is wrong, the models differ, or no question is shared.
    """
    if not folders:
        raise SnapshotError("needed at least one run folder, got none")
    runs = [StoredRun.read(folder) for folder in folders]
    if len(runs) == 1:
        return Trajectory.from_run(runs[0].folder)
    missing = _check_order(runs)
    looks, offset = [runs[0].baseline], 0
    begins, findings, damages, planned = [], list[GuardFinding](), list[str](), list[int | None]()
    for number, run in enumerate(runs):
        begins.append(offset)
        findings += [replace(finding, step=finding.step + offset) for finding in run.findings]
        damages += [f"{run.folder}: {note}" for note in run.notes]
        later = run.looks
        if number and _starts_with_look(run):  # it is the end of the stage before
            later = run.looks[1:]
        planned.append(run.planned if later is run.looks or run.planned is None else run.planned - 1)
        looks += [_later(look, by=offset) for look in later]
        # Later stages count on from the end of this one, and not from their own step 0.
        offset = int(looks[-1].meta["step"])
    if _have_own_probes(runs):
        looks = shared_rows(looks)
    made = Trajectory.of(
        looks,
        # If one stage has no plan, the number of looks of the whole is unknown.
        planned=None if None in planned else sum(number or 0 for number in planned),
        null=runs[0].null,
    )
    *first, last = made.comparisons
    comparisons = (*first, replace(last, notes=(*last.notes, *missing, *_stage_notes(runs))))
    return replace(
        made,
        comparisons=comparisons,
        stages=tuple(begins[1:]),
        findings=tuple(findings),
        notes=tuple(damages),
        task=runs[-1].task,
        matrix=_matrix(runs),
    )


def _matrix(runs: Sequence[StoredRun]) -> StageMatrix:
    # A stage without a look ended where it began.
    ends = (runs[0].baseline, *((run.looks or (run.baseline,))[-1] for run in runs))
    rows = tuple(
        StageRow(
            name=name,
            since_first=_compared(ends[0], after),
            since_previous=_compared(before, after),
        )
        for name, (before, after) in zip(_stage_names(runs), pairwise(ends), strict=True)
    )
    base = str(ends[0].meta.get("model", "base")).rstrip("/").rsplit("/", maxsplit=1)[-1]
    return StageMatrix(base=base, rows=rows, ends=tuple(ends))


def _stage_names(runs: Sequence[StoredRun]) -> list[str]:
    """Return the names of the stages; of equal ones the later have a number."""
    names = list[str]()
    for run in runs:
        name = one_line(run_name(run.folder))
        number = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({number + 1})" if number else name)
    return names


def _compared(before: Snapshot, after: Snapshot) -> Comparison:
    before, after = shared_rows([before, after])
    return compare(before=before, after=after)


def _check_order(runs: Sequence[StoredRun]) -> list[str]:
    """Raise a MismatchError if runs are not stages of one model in this order, and note stages that are not given."""
    ids = [run.described.run or run.baseline.meta.get("run") or str(run.folder.resolve()) for run in runs]
    before = [[one.run for one in stored_lineage(run.described)] for run in runs]
    names = [str(run.folder) for run in runs]
    notes = []
    for later in range(1, len(runs)):
        for earlier in range(later):
            if ids[earlier] == ids[later]:
                raise MismatchError(f"{names[earlier]} and {names[later]} are the same run; give each stage once")
            if ids[later] in before[earlier]:
                raise MismatchError(
                    f"{names[earlier]} continues the model of {names[later]}; give the stages in the order of the "
                    "training"
                )
        earlier = later - 1
        known = stored_lineage(runs[later].described)
        if known and ids[earlier] not in before[later]:
            raise MismatchError(
                f"{names[later]} continues the model of {known[-1].name}, and not that of {names[earlier]}; give the "
                "stages of one model"
            )
        if known and known[-1].run != ids[earlier]:
            left_out = [one.name for one in known[before[later].index(ids[earlier]) + 1 :]]
            notes.append(f"{' and '.join(left_out)} came between {names[earlier]} and {names[later]}, and is not given")
        ways = [way for run in (runs[earlier], runs[later]) if (way := _decoding(run)) is not None]
        if len(ways) == 2 and ways[0] != ways[1]:
            raise MismatchError(
                f"{names[earlier]} and {names[later]} generated their answers in unlike ways (the probe's decoding: "
                f"{ways[0]}, then {ways[1]}); give stages of one probe"
            )
        if problem := check_one_model(runs[earlier].described.model, runs[later].described.model):
            raise MismatchError(f"{names[earlier]} and {names[later]}: {problem}; give the stages of one model")
    return notes


def _decoding(run: StoredRun) -> Any:
    return (run.baseline.meta.get("probe") or {}).get("decoding")


def _have_own_probes(runs: Sequence[StoredRun]) -> bool:
    """Return True if each run has one probe, and not all have the same."""
    own = [
        {(look.meta.get("probe") or {}).get("fingerprint") for look in (run.baseline, *run.looks)} - {None}
        for run in runs
    ]
    return all(len(one) <= 1 for one in own) and len(set[Any]().union(*own)) > 1


def _starts_with_look(run: StoredRun) -> bool:
    """Return True if the first look is of the start of the training, since the baseline is from elsewhere."""
    return bool(run.looks) and int(run.baseline.meta["step"]) < 0 and int(run.looks[0].meta["step"]) == 0


def _start(run: StoredRun) -> Snapshot:
    return run.looks[0] if _starts_with_look(run) else run.baseline


def _later(look: Snapshot, *, by: int) -> Snapshot:
    return replace(look, meta={**look.meta, "step": int(look.meta["step"]) + by})


def _stage_notes(runs: Sequence[StoredRun]) -> list[str]:
    """Note stages that did not begin where the one before ended, and drift from another base."""
    notes = []
    for before, after in pairwise(runs):
        end = (before.looks or (before.baseline,))[-1]
        found = compare(before=end, after=_start(after), on_mismatch="intersect").all
        if found.forgotten or found.gained:
            notes.append(
                f"{after.folder} began with a model that answers {found.forgotten + found.gained:g} of {found.n:g} "
                f"questions otherwise than the end of {before.folder}"
            )
    if with_drift := [str(run.folder) for run in runs[1:] if any(look.meta.get(DRIFT_KEY) for look in run.looks)]:
        notes.append(
            "the drift of later stages is from the start of each, and is not shown here; `forgetwatch report` of "
            f"{' or '.join(with_drift)} alone shows it"
        )
    return notes
