"""Which checkpoint goes with the next save, where only so many are kept: is it the one that retained most?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transformers import TrainerState, TrainingArguments

from forgetwatch.compare import Comparison


def about_to_go(args: TrainingArguments, state: TrainerState, looks: Mapping[int, Comparison]) -> str | None:
    """A line on the best retained checkpoint, if the save at this step removes it; None if it does not.

    The trainer removes the oldest beyond `save_total_limit`, but not the one that it holds for the best.
    """
    limit = args.save_total_limit
    if not limit or not args.output_dir:
        return None
    there = {
        int(path.name.rpartition("-")[2]): path
        for path in Path(args.output_dir).glob("checkpoint-*")
        if path.is_dir() and path.name.rpartition("-")[2].isdigit()
    }
    best_of_trainer = Path(state.best_model_checkpoint).name if state.best_model_checkpoint else None
    steps = sorted(step for step, path in there.items() if path.name != best_of_trainer)
    going = steps[: max(0, len(there | {state.global_step: None}) - limit)]
    looked = {step: looks[step].all.retention for step in there if step in looks and step > 0}
    if not looked:
        return None
    best = max(looked, key=lambda step: (looked[step], step))
    now = looks.get(state.global_step)
    if best not in going or (now is not None and now.all.retention >= looked[best]):
        return None
    return (
        f"{there[best]} retained most of those still there ({100 * looked[best]:.1f} %), and goes with this save: "
        f"copy it, or raise save_total_limit={limit}; metric_for_best_model='forget/all/retention' would keep it"
    )
