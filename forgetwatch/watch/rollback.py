"""Going back: the weights of the last checkpoint of this run whose look did not fail, loaded at the end of a training.

The training has ended by then and does not go on: what is saved after it are these weights. Optimizer and schedule stay
as they were. Only a folder counts that this run saved, with the files that it had then, and what was loaded is compared
with what was saved: an output_dir may hold the checkpoints of an earlier training under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torch import nn

from forgetwatch.comparing import compare, decide
from forgetwatch.comparing.subset import cut_to_common
from forgetwatch.gates import Sides
from forgetwatch.run_folder import look_name, own_checkpoint
from forgetwatch.scoring import model_fingerprint, on_all_processes, on_main_process
from forgetwatch.snapshot import read_snapshot
from forgetwatch.watch.guard import Guard
from forgetwatch.watch.run import Run

if TYPE_CHECKING:
    from transformers import Trainer


def roll_back(
    trainer: Trainer, guard: Guard, run: Run, saved: Mapping[int, str], *, log: Callable[[str], object]
) -> None:
    """Load the weights of the last own checkpoint whose look did not fail, in every process; log what was done.

    One that cannot be loaded, or gives other weights than were saved, is named, and the one before it is tried.

    Args:
        trainer: The trainer, after its training.
        guard: The guard, whose policy decides; without one the verdict does.
        run: The run, with its looks.
        saved: Fingerprint of the weights that were saved, by step.
        log: Called with a line in every process.
    """
    tried = False
    for step, folder in on_main_process(lambda: list(good_checkpoints(guard, run))):
        if getattr(trainer, "is_deepspeed_enabled", False):
            log(f"{folder}: the last good checkpoint; DeepSpeed's weights are not replaced here, so load it")
            return
        tried = True
        try:
            on_all_processes(partial(trainer._load_from_checkpoint, str(folder)))
        except Exception as error:  # whatever reading the files of a checkpoint raises
            log(f"{folder} cannot be loaded ({' '.join(str(error).split()):.200}); the one before it is tried")
            continue
        if saved.get(step) not in (None, model_fingerprint(cast(nn.Module, trainer.model))):
            log(f"{folder} does not hold the weights that this run saved; the one before it is tried")
            continue
        log(f"the weights are those of {folder}, the last checkpoint whose look did not fail")
        return
    end = "are not those of a good checkpoint: do not use them" if tried else "stay as they are"
    log(f"this run has no checkpoint that can be loaded and whose look did not fail: the weights {end}")


def good_checkpoints(guard: Guard, run: Run) -> Iterator[tuple[int, Path]]:
    """Yield step and folder of the checkpoints that this run saved and whose look did not fail, the last first."""
    steps = sorted(run.comparisons)
    for number, step in reversed(list(enumerate(steps))[1:]):  # the first look is the baseline
        stored = run.folder.path / look_name(step)
        folder = own_checkpoint(run.folder.output_dir, step)
        if folder is None or not stored.is_file() or run.baseline is None:
            continue
        before, after, _ = cut_to_common(run.baseline, read_snapshot(stored))
        comparison = compare(before=before, after=after)
        sides = Sides(before=before, after=after, probe=guard.probe)
        judged = guard.judged(sides, comparison, look=number, planned=run.planned)
        if (decide(comparison) if judged is None else judged).answer != "FAIL":
            yield step, folder
