"""What a trainer must be, so that its run can be watched; asked before the first step.

How large a look's batches may be, so that it needs no more memory than a training step.

Which checkpoint goes with the next save, where only so many are kept: is it the one that retained most?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.errors import WatchError
from forgetwatch.scoring.engine import CPU_TOKENS, CUDA_TOKENS


def check_trainer(trainer: Trainer, args: TrainingArguments, *, own: type[TrainerCallback]) -> None:
    """Refuse what cannot work, before the first step.

    Raises:
        WatchError: If it cannot.
    """
    callbacks = trainer.callback_handler.callbacks
    places = [at for at, callback in enumerate(callbacks) if isinstance(callback, own)]
    if len(places) > 1:
        raise WatchError(
            f"the trainer has {len(places)} ForgetWatchCallbacks, and a run has one; put all items into one probe"
        )
    stops = [at for at, callback in enumerate(callbacks) if isinstance(callback, EarlyStoppingCallback)]
    if chooses_by_forgetting(args) and places and stops and stops[0] < places[0]:
        raise WatchError(
            f"EarlyStoppingCallback stands before ForgetWatchCallback and does not see {args.metric_for_best_model!r}; "
            "put ForgetWatchCallback first in callbacks=[...]"
        )
    if chooses_by_forgetting(args) and str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
        raise WatchError(
            f"metric_for_best_model={args.metric_for_best_model!r} chooses among checkpoints, and save_strategy is 'no'"
        )
    parallel = getattr(getattr(trainer, "accelerator", None), "parallelism_config", None)
    split = max((int(getattr(parallel, name, None) or 1) for name in ("cp_size", "sp_size")), default=1)
    if split > 1:
        raise WatchError(
            f"each text is split over {split} processes (context or sequence parallel), and a probe's items are read "
            "whole; score the checkpoints beside the run instead"
        )


def chooses_by_forgetting(args: TrainingArguments) -> bool:
    """Whether the best checkpoint is chosen by what was forgotten."""
    return (args.metric_for_best_model or "").removeprefix("eval_").startswith("forget")


def tokenizer_of(kwargs: dict[str, Any]) -> Any:
    """The tokenizer among an event's arguments; that of a processor where it is one."""
    processing_class = kwargs.get("processing_class")
    if processing_class is None:
        raise WatchError("the trainer has no tokenizer; pass processing_class=tokenizer to it")
    return getattr(processing_class, "tokenizer", processing_class)


@contextmanager
def averaged(optimizer: Any) -> Iterator[None]:
    """The weights that a schedule-free optimizer evaluates with; afterwards those that it trains."""
    inner = getattr(optimizer, "optimizer", optimizer)
    if not all(callable(getattr(inner, name, None)) for name in ("eval", "train")):
        yield
        return
    inner.eval()
    try:
        yield
    finally:
        inner.train()


_EXAMPLES: Final = 64
_FEWEST_TOKENS: Final = 512
"""Tokens of a batch that are less than any training step needs memory for."""


def token_budget(args: TrainingArguments, examples: Any) -> int | None:
    """Tokens of a micro-batch, so that a look needs no more memory than a training step; None where nothing says.

    Args:
        args: Their `max_length` (SFT, DPO and others of TRL) or `max_completion_length` (RL) says how long texts get.
        examples: The training examples: where the arguments say nothing, the longest of the first few.
    """
    named = (getattr(args, name, None) for name in ("max_length", "max_completion_length"))
    length = next((value for value in named if isinstance(value, int) and value > 0), 0) or _longest(examples)
    if not length:
        return None
    device_tokens = CPU_TOKENS if args.device.type == "cpu" else CUDA_TOKENS
    return min(device_tokens, max(_FEWEST_TOKENS, args.per_device_train_batch_size * length))


def _longest(examples: Any) -> int:
    """Tokens of the longest of the first examples; 0 where they cannot be looked at without going through them."""
    try:
        count = min(len(examples), _EXAMPLES)
        return max((len(examples[at]["input_ids"]) for at in range(count)), default=0)
    except (LookupError, TypeError, NotImplementedError):  # no length, or examples of another kind
        return 0


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
