"""What a trainer must be, so that its run can be watched; asked before the first step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

from forgetwatch.errors import WatchError


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
