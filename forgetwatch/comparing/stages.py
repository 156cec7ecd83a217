"""Trainings of one model, one after another: one trajectory, and a matrix of their ends.

    SFT    0 ── 200 ── 400
    DPO                 0 ── 100 ── 200            counted on: steps 500, 600
    GRPO                             0 ── 50       step 650

The matrix has the base and the ends of the stages, by groups, and the path of each question:

    base ── SFT ── DPO ── GRPO        row k: stage k's end against the base and against stage k - 1's

Stages may have other probes: a comparison is over what both sides have, a path over what all have.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.stage_matrix import StageMatrix, StageRow, shared_rows
from forgetwatch.comparing.trajectory import Trajectory, trajectory_of, with_end
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures.base_drift import DRIFT_KEY
from forgetwatch.run_folder.contents import StoredRun
from forgetwatch.run_folder.description import GuardFinding
from forgetwatch.run_folder.lineage import check_one_model, stored_lineage
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import one_line, run_name


def read_stages(folders: Sequence[str | Path]) -> Trajectory:
    """Read the looks of several runs as stages of one training.

    The baseline of a later stage has to be the end of the one before. A note gives the number of
    answers in which the two differ: the stage began with another model, or was measured on another
    machine.

    Args:
        folders: Run folders in the order of the training; at least one.

    Raises:
        SnapshotError: If there is none, or a folder contains no baseline of its run.
        MismatchError: If a folder is given twice, the order is wrong, the models differ, or no
            question is shared.
    """
    if not folders:
        raise SnapshotError("needed at least one run folder, got none")
    runs = [StoredRun.read(folder) for folder in folders]
    if len(runs) == 1:
        return Trajectory.from_run(runs[0].folder)
    missing = _check_order(runs)
    looks, offset = [runs[0].baseline], 0
    begins, findings, damages, planned = [], list[GuardFinding](), list[str](), list[int | None]()
    start = 0
    for number, run in enumerate(runs):
        begins.append(offset)
        findings += [replace(finding, step=finding.step + offset) for finding in run.findings]
        damages += [f"{run.folder}: {note}" for note in run.notes]
        later = run.looks
        if number and _starts_with_look(run):  # it is the end of the stage before
            later = run.looks[1:]
        planned.append(
            run.planned if later is run.looks or run.planned is None else run.planned - 1
        )
        looks += [_later(look, by=offset) for look in later]
        # Later stages count on from the end of this one, and not from their own step 0.
        start, offset = offset, int(looks[-1].meta["step"])
    if _have_own_probes(runs):
        looks = shared_rows(looks)
    trajectory = trajectory_of(
        looks,
        # If one stage has no plan, the number of looks of the whole is unknown.
        planned=None if None in planned else sum(number or 0 for number in planned),
        repeat=runs[0].null,
    )
    *earlier, last_comparison = trajectory.comparisons
    comparisons = (
        *earlier,
        replace(last_comparison, notes=(*last_comparison.notes, *missing, *_stage_notes(runs))),
    )
    ending = runs[-1].described.ending
    whole = replace(
        trajectory,
        comparisons=comparisons,
        stages=tuple(begins[1:]),
        findings=tuple(findings),
        notes=tuple(damages),
        task=runs[-1].task,
        ending=None if ending is None else ending.later(start),
        matrix=_matrix(runs),
    )
    return with_end(whole, runs[-1].end)


def _matrix(runs: Sequence[StoredRun]) -> StageMatrix:
    # A stage without a look ended where it began.
    ends = (runs[0].baseline, *(run.end for run in runs))
    rows = tuple(
        StageRow(
            name=name,
            since_first=_compared(ends[0], after),
            since_previous=None if before.not_finite_line else _compared(before, after),
        )
        for name, (before, after) in zip(_stage_names(runs), pairwise(ends), strict=True)
    )
    base = str(ends[0].meta.get("model", "base")).rstrip("/").rsplit("/", maxsplit=1)[-1]
    return StageMatrix(base=base, rows=rows, ends=tuple(ends))


def _stage_names(runs: Sequence[StoredRun]) -> list[str]:
    # Stages with equal names are numbered from the second on.
    names = list[str]()
    for run in runs:
        name = one_line(run_name(run.folder))
        number = sum(name_before.partition(" (")[0] == name for name_before in names)
        names.append(f"{name} ({number + 1})" if number else name)
    return names


def _compared(before: Snapshot, after: Snapshot) -> Comparison:
    before, after = shared_rows([before, after])
    return compare(before=before, after=after)


def _check_order(runs: Sequence[StoredRun]) -> list[str]:
    # Runs must be stages of one model in this order; stages that are not given are noted.
    ids = [
        run.described.run or run.baseline.meta.get("run") or str(run.folder.resolve())
        for run in runs
    ]
    before = [[stage.run for stage in stored_lineage(run.described)] for run in runs]
    names = [str(run.folder) for run in runs]
    notes = []
    for later in range(1, len(runs)):
        for earlier in range(later):
            if ids[earlier] == ids[later]:
                raise MismatchError(
                    f"{names[earlier]} and {names[later]} are the same run; give each stage once"
                )
            if ids[later] in before[earlier]:
                raise MismatchError(
                    f"{names[earlier]} continues the model of {names[later]}; give the stages "
                    "in the order of the training"
                )
        earlier = later - 1
        lineage = stored_lineage(runs[later].described)
        if lineage and ids[earlier] not in before[later]:
            raise MismatchError(
                f"{names[later]} continues the model of {lineage[-1].name}, and not that of "
                f"{names[earlier]}; give the stages of one model"
            )
        if lineage and lineage[-1].run != ids[earlier]:
            left_out = [stage.name for stage in lineage[before[later].index(ids[earlier]) + 1 :]]
            notes.append(
                f"{' and '.join(left_out)} came between {names[earlier]} and {names[later]}, "
                "and is not given"
            )
        ways = [way for run in (runs[earlier], runs[later]) if (way := _decoding(run)) is not None]
        if len(ways) == 2 and ways[0] != ways[1]:
            raise MismatchError(
                f"{names[earlier]} and {names[later]} generated their answers in unlike ways "
                f"(the probe's decoding: {ways[0]}, then {ways[1]}); give stages of one probe"
            )
        if problem := check_one_model(runs[earlier].described.model, runs[later].described.model):
            raise MismatchError(
                f"{names[earlier]} and {names[later]}: {problem}; give the stages of one model"
            )
    return notes


def _decoding(run: StoredRun) -> Any:
    return (run.baseline.meta.get("probe") or {}).get("decoding")


def _have_own_probes(runs: Sequence[StoredRun]) -> bool:
    probes = [
        {(look.meta.get("probe") or {}).get("fingerprint") for look in (run.baseline, *run.looks)}
        - {None}
        for run in runs
    ]
    return all(len(names) <= 1 for names in probes) and len(set[Any]().union(*probes)) > 1


def _starts_with_look(run: StoredRun) -> bool:
    # The baseline is from elsewhere.
    return (
        bool(run.looks)
        and int(run.baseline.meta["step"]) < 0
        and int(run.looks[0].meta["step"]) == 0
    )


def _start(run: StoredRun) -> Snapshot:
    return run.looks[0] if _starts_with_look(run) else run.baseline


def _later(look: Snapshot, *, by: int) -> Snapshot:
    return replace(look, meta={**look.meta, "step": int(look.meta["step"]) + by})


def _stage_notes(runs: Sequence[StoredRun]) -> list[str]:
    notes = []
    for before, after in pairwise(runs):
        if line := before.end.not_finite_line:
            notes.append(f"{before.folder}: {line} at its end, and no stage is compared with that")
            continue
        group = compare(before=before.end, after=_start(after), on_mismatch="intersect").all
        if group.forgotten or group.gained:
            notes.append(
                f"{after.folder} began with a model that answers "
                f"{group.forgotten + group.gained:g} of {group.n:g} "
                f"questions otherwise than the end of {before.folder}"
            )
    if with_drift := [
        str(run.folder) for run in runs[1:] if any(look.meta.get(DRIFT_KEY) for look in run.looks)
    ]:
        notes.append(
            "the drift of later stages is from the start of each, and is not shown here; "
            f"`forgetwatch report` of {' or '.join(with_drift)} alone shows it"
        )
    return notes
