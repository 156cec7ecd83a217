"""Resuming a run from a checkpoint: the search for its baseline, and what the trainer's state keeps for it.

The baseline is looked for in this order:

1  the run folder, if it is the one that the trainer's state names
2  the checkpoint, which carries a copy
3  a snapshot or model that the user names (`baseline`); of an adapter, its base

The trainer's state follows every checkpoint to any machine, and names the run, its looks and its decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from transformers import TrainerState

from forgetwatch.errors import LostBaselineError, WatchError
from forgetwatch.run_folder import CARRIED
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.schedule import Decision, stored_decision
from forgetwatch.watch.watch import Watch

STATE: Final = "forgetwatch"
"""Key of the run's memory in the trainer's state."""


def memory_of(watch: Watch, *, tripped: Any, stopped: int | None) -> dict[str, Any]:
    """Memory of a run that every checkpoint keeps in the trainer's state, as JSON values."""
    if watch.baseline is None:
        raise WatchError("a run's memory needs its baseline, and there is none yet; call look() first")
    return {
        "run": watch.folder.run,
        "baseline": watch.baseline.checksum,
        "looks": watch.taken,
        "fingerprint": watch.probe.fingerprint,
        **stored_decision(watch.decision),
        "tripped": tripped,
        "stopped": stopped,
        "completions": watch.drift.checksum,
        "made": {name: watch.baseline.meta.get(name) for name in ("probe", "batch")},
    }


def resume(
    watch: Watch,
    memory: Mapping[str, Any] | None,
    *,
    step: int,
    carried: Sequence[Path],
    named: Callable[[], Snapshot | None],
) -> list[str]:
    """Restore the baseline of a run that resumes at `step`, and its looks until then, and return the lines to log.

    `memory` is that of the trainer's state, `carried` are the folders in which checkpoints carry copies, and `named`
    returns the baseline that the user names. A WatchError if none of them has the baseline.
    """
    known = memory or {}
    # Before any file is touched: restoring may move the folder of another run aside.
    watch.keep_norm(known.get("made", {"probe": {"fingerprint": None}}))
    # Steps are texts in the JSON of the trainer's state.
    looks = known.get("looks")
    taken = {int(at): str(checksum) for at, checksum in looks.items()} if isinstance(looks, dict) else None
    run: dict[str, Any] = {
        "run": known.get("run"),
        "taken": taken,
        "step": step,
        "carried": carried,
        "decision": Decision.of(known),
        "completions": known.get("completions"),
    }
    lines = []
    try:
        if memory is None:
            raise LostBaselineError("the checkpoint names no baseline")
        watch.resume(checksum=memory["baseline"], **run)
    except LostBaselineError as error:
        found = _named(watch, memory, named, error, step=step)
        lines.append("the run's own baseline is gone; it is replaced by the one that was named")
        watch.resume(baseline=found, **run)
    return lines + list(watch.notes)


def carried_folders(watch: Watch, step: int, checkpoint: Path | None) -> list[Path]:
    """Folders in which checkpoints carry the run's history; that of the trainer may be on another path."""
    folders = [watch.folder.carried(step)]
    if checkpoint is not None and checkpoint / CARRIED not in folders:
        folders.append(checkpoint / CARRIED)
    return folders


def stateful(state: TrainerState) -> dict[str, Any]:
    """The part of the trainer's state that belongs to callbacks."""
    return cast(dict[str, Any], state.stateful_callbacks)  # annotated as a list, a dict from construction on


def _named(
    watch: Watch,
    memory: Mapping[str, Any] | None,
    named: Callable[[], Snapshot | None],
    error: LostBaselineError,
    *,
    step: int,
) -> Snapshot:
    """The baseline that the user names, in place of one that is lost."""
    if (found := named()) is not None:
        found = watch.in_order(watch.in_norm(found))
        return replace(found, meta={**found.meta, "step": -1})  # no look of this run
    if memory is None:
        raise WatchError(
            f"the run resumes at step {step}, and its checkpoint names no baseline: it was begun without forgetwatch; "
            "name the model that it began with (baseline=...), start it anew, or resume without the callback"
        )
    raise error
