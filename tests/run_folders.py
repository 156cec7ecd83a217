"""Run folders with given looks, written as a run writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from forgetwatch import Probe, Snapshot
from forgetwatch.run_folder import GuardFinding, RunFolder


def write_run(
    output_dir: Path,
    probe: Probe,
    baseline: Snapshot,
    looks: Mapping[int, Snapshot],
    *,
    null: Snapshot | None = None,
    again: Mapping[int, Snapshot] | None = None,
    planned: int | None = None,
    findings: Sequence[GuardFinding] = (),
) -> RunFolder:
    """Write a run with looks by step, and return its folder."""
    folder = RunFolder(output_dir)
    folder.new_run()
    baseline = folder.stamped(baseline, "baseline")
    null = None if null is None else folder.stamped(null, "null")
    folder.start(probe, baseline, null)
    described = [{"step": baseline.meta["step"], "checksum": baseline.full_checksum}]
    resumed = []
    for step, look in looks.items():
        folder.add(stamped := folder.stamped(look, "step"), step=step)
        described.append({"step": step, "checksum": stamped.full_checksum})
    for step, look in (again or {}).items():
        folder.add(stamped := folder.stamped(look, "again"), step=step, kind="again")
        resumed.append({"step": step, "checksum": stamped.full_checksum})
    folder.describe(
        {
            "baseline": described[0],
            "null": None if null is None else {"checksum": null.full_checksum},
            "looks": described,
            "resumed": resumed,
            "planned_looks": planned,
            "guard": [vars(one) for one in findings],
        }
    )
    return folder
