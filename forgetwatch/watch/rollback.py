"""Going back: the weights of the last saved checkpoint whose look did not fail, loaded at the end of a training.

The training has ended by then and does not go on: what is saved after it are these weights. Optimizer and schedule stay
as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from forgetwatch.comparing import compare
from forgetwatch.comparing.subset import cut_to_common
from forgetwatch.comparing.verdict import verdict
from forgetwatch.gates import Sides
from forgetwatch.run_folder import checkpoint_folder, look_name
from forgetwatch.scoring import on_main_process
from forgetwatch.snapshot import read_snapshot
from forgetwatch.watch.guard import Guard
from forgetwatch.watch.watch import Watch

if TYPE_CHECKING:
    from transformers import Trainer


def roll_back(trainer: Trainer, guard: Guard, watch: Watch, *, log: Callable[[str], None]) -> None:
    """Load the weights of the last saved checkpoint whose look did not fail, in every process; log what was done.

    Args:
        trainer: The trainer, after its training.
        guard: The guard, whose policy decides; without one the verdict does.
        watch: The looks of the run.
        log: Writes a line to the log.
    """
    found = on_main_process(lambda: good_checkpoint(guard, watch))
    if found is None:
        log("no checkpoint is saved whose look did not fail: the weights stay as they are")
        return
    if getattr(trainer, "is_deepspeed_enabled", False):
        log(f"{found}: the last good checkpoint; DeepSpeed's weights are not replaced here, so load it from there")
        return
    trainer._load_from_checkpoint(str(found))
    log(f"the weights are those of {found}, the last checkpoint whose look did not fail")


def good_checkpoint(guard: Guard, watch: Watch) -> Path | None:
    """Return the folder of the last saved checkpoint whose look did not fail; None if there is none."""
    steps = sorted(watch.comparisons)
    if watch.folder.path is None or watch.baseline is None:
        return None
    for number, step in reversed(list(enumerate(steps))[1:]):  # the first look is the baseline
        folder = checkpoint_folder(watch.folder.output_dir, step)
        stored = watch.folder.path / look_name("step", step)
        if not (folder.is_dir() and stored.is_file()):
            continue
        before, after, _ = cut_to_common(watch.baseline, read_snapshot(stored))
        comparison = compare(before=before, after=after)
        sides = Sides(before=before, after=after, probe=guard.probe)
        judged = guard.judged(sides, comparison, look=number, planned=watch.planned)
        if (verdict(comparison).answer if judged is None else judged.answer) != "FAIL":
            return folder
    return None
