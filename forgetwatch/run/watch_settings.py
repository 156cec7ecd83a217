"""What a user sets for a watched training, checked before the training waits in a queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes.named import load_probe, load_tasks
from forgetwatch.run.guard import Guard
from forgetwatch.run.model_lineage import LineageSetting
from forgetwatch.run.run_output import Command
from forgetwatch.run.schedule import Every, Schedule
from forgetwatch.scoring.generation import check_generated
from forgetwatch.snapshot import Snapshot, read_snapshot

Named = Probe | str | Path
"""A probe, its name, or the path of one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchSettings:
    """Arguments of `ForgetWatchCallback`, with what they name loaded; see there.

    Attributes:
        probe: The probe that is named; None for the default, which the model decides.
        every: Schedule of the looks.
        max_overhead: Share of the training's time; None for no bound.
        baseline: A snapshot, or the name of a model that is scored when it is needed.
        lineage: The earlier training, False for none, None to search for it.
        guard: Reaction to losses; None for none.
        on_look: Command that is started after each look.
        target_probe: Questions of the new task.
        composite: Metric that is combined with what is kept.
        full: True for every number of every group in trackers.
        share_text: True to send texts to trackers.
        strict: True to stop the run when a look fails.
        drift: True to measure the drift.
    """

    probe: Probe | None
    every: Every
    max_overhead: float | None
    baseline: Snapshot | str | None
    lineage: LineageSetting
    guard: Guard | None
    on_look: Command | None
    target_probe: Probe | None
    composite: str | None
    full: bool
    share_text: bool
    strict: bool
    drift: bool

    def __post_init__(self) -> None:
        overhead, lineage = self.max_overhead, self.lineage
        if overhead is not None and not (isinstance(overhead, (int, float)) and 0 <= overhead < 1):
            raise WatchError(
                f"max_overhead={overhead!r}: needed a share of the time, from 0 to 1, or None"
            )
        if not isinstance(self.composite, str | None):
            raise WatchError(
                f"composite={self.composite!r}: needed the name of a metric of the trainer's "
                "evaluation"
            )
        if lineage and isinstance(lineage, bool):
            raise WatchError(f"lineage={lineage!r}: needed a folder, None or False")
        if lineage and self.baseline is not None:
            raise WatchError(f"lineage={lineage!r}: needed baseline=... or lineage=..., not both")
        Schedule.make(self.every, max_steps=1)
        if self.probe is not None:
            check_generated(self.probe)


def load_named(probe: Named | Mapping[str, Named] | None) -> Probe | None:
    """Load a probe, or one for each task of a sequence of trainings.

    The folder of a benchmark has a task a folder; see `probes.task_sequence`.
    """
    if probe is None or isinstance(probe, Probe):
        return probe
    if isinstance(probe, Mapping):
        return load_tasks(probe)
    # `load_probe` names the remedy for a folder that datasets wrote.
    is_benchmark = Path(probe).is_dir() and not (Path(probe) / "dataset_info.json").is_file()
    return load_tasks(probe) if is_benchmark else load_probe(probe)


def read_reference(baseline: Snapshot | str | Path | None) -> Snapshot | str | None:
    """Read the file of a baseline; the name of a model is scored only when it is needed."""
    if baseline is None or isinstance(baseline, Snapshot):
        return baseline
    return read_snapshot(baseline) if Path(baseline).is_file() else str(baseline)
