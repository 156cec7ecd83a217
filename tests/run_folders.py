"""Run folders with given looks, written as a run writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from forgetwatch import Probe, Snapshot
from forgetwatch.run_folder.description import FIRST, GuardFinding
from forgetwatch.run_folder.folder import RunFolder
from forgetwatch.snapshot import read_snapshot, save_snapshot


def write_run(
    output_dir: Path,
    probe: Probe,
    baseline: Snapshot,
    looks: Mapping[int, Snapshot],
    *,
    null: Snapshot | None = None,
    planned: int | None = None,
    findings: Sequence[GuardFinding] = (),
    first: Snapshot | None = None,
    **described_too: object,
) -> RunFolder:
    """Write a run with looks by step, a later stage if there is a `first` base, and return its folder."""
    folder = RunFolder(output_dir)
    folder.new_run()
    baseline = folder.stamped(baseline, "baseline")
    null = None if null is None else folder.stamped(null, "null")
    folder.start(probe, baseline, null)
    for step, look in looks.items():
        folder.add(folder.stamped(look, "step"), step=step)
    lineage: dict[str, object] = {}
    if first is not None:
        stamped = replace(first, meta={**first.meta, "run": "1" * 16, "look": "baseline"})
        save_snapshot(stamped, folder.path / FIRST)
        runs = [{"run": "1" * 16, "name": "one"}]
        lineage = {
            "lineage": {
                "runs": runs,
                "first": read_snapshot(folder.path / FIRST).full_checksum,
                "how": "test",
            }
        }
    folder.describe(
        {
            "null": null is not None,
            "looks": [{"step": step} for step in looks],
            "planned_looks": planned,
            "guard": [vars(one) for one in findings],
            **lineage,
            **described_too,
        }
    )
    return folder
