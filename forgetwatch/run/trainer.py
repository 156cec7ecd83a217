"""Everything that is read from a trainer: itself, its fitness for a watched run, its checkpoints and its examples.

    find it      calling_trainer, resume_checkpoint
    check it     check_trainer, check_choice, chosen_by
    use it       tokenizer_of, evaluation_weights, token_budget, epoch_steps

Nothing here writes to the trainer. What is read beside its public interface, and the versions that
need it:

    frames of the call stack    no event hands over the trainer, nor the checkpoint that it resumes
                                from: transformers 4.56 to 5.24
    optimizers in optimizers    accelerate wraps the optimizer, DeepSpeed once more: accelerate 1.15
    tokenizers in processors    `processing_class` may be a processor of images and texts:
                                transformers 4.56 to 5.24
    `stateful_callbacks`        annotated as a list, a dict from construction on: transformers 5.24
    `best_global_step`          the best evaluation may be of a later step than the folder of the
                                best checkpoint: transformers 4.56 to 5.24
    ids of pairs                a prompt and two answers in columns of their own: TRL 1.16
"""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

from forgetwatch.errors import WatchError
from forgetwatch.report.tracker_rows import PREFIX
from forgetwatch.scoring.model import CPU_TOKENS, CUDA_TOKENS

_EXAMPLES: Final = 64
"""Number of training examples whose lengths are read."""


_WHOLE: Final = ("input_ids", "chosen_input_ids", "rejected_input_ids")


_ANSWERS: Final = ("chosen_ids", "rejected_ids", "completion_ids")
"""Columns of token ids in the examples of transformers and TRL: of whole texts, and of answers to ``prompt_ids``."""


_FEWEST_TOKENS: Final = 512
"""Tokens of a batch that need less memory than any training step."""


def calling_trainer() -> Trainer | None:
    """Find the trainer whose event is being handled.

    Returns:
        The nearest `self` up the call stack that is a trainer, or None.
    """
    return next(
        (owner for local in _frames() if isinstance(owner := local.get("self"), Trainer)), None
    )


def resume_checkpoint() -> Path | None:
    """Find the checkpoint that `train` resumes from.

    Returns:
        The folder, or None for a fresh start.
    """
    argument = (
        local.get("resume_from_checkpoint")
        for local in _frames()
        if isinstance(local.get("self"), Trainer)
    )
    return next((Path(path) for path in argument if isinstance(path, (str, os.PathLike))), None)


def _frames() -> Iterator[Mapping[str, Any]]:
    # There is no public way: a callback is handed the model, the arguments and the state, but
    # neither the trainer nor the checkpoint that it resumes from. Both are locals of the methods
    # that fire the event.
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]


def training_settings(trainer: Trainer) -> dict[str, Any]:
    """Settings on which advice on another training depends.

    Trainer, rate, rows, adapter, and weight of `RetentionLoss`; None where unknown.

    None where there is none, or it is unknown.
    """
    adapters = getattr(trainer.model, "peft_config", None) or {}
    kinds = [
        getattr(getattr(adapter, "peft_type", None), "value", None) for adapter in adapters.values()
    ]
    weight, rows = (
        getattr(getattr(trainer, "retention", None), "weight", None),
        trainer.train_dataset,
    )
    return {
        "trainer": next(
            base_class.__name__
            for base_class in type(trainer).__mro__
            if base_class.__module__.split(".")[0] in ("trl", "transformers")
        ),
        "learning_rate": trainer.args.learning_rate,
        "rows": len(rows) if isinstance(rows, Sized) else None,
        "adapter": next((str(adapter_kind) for adapter_kind in kinds if adapter_kind), None),
        "retention": float(weight) if isinstance(weight, int | float) and weight > 0 else None,
    }


def check_trainer(
    trainer: Trainer, args: TrainingArguments, *, own: type[TrainerCallback], composite: str | None
) -> None:
    """Refuse a trainer whose run cannot be watched.

    Before the first step; `own` is the class of the callback.
    """
    best = args.metric_for_best_model or ""
    if composite is None and best.endswith("/composite"):
        raise WatchError(
            f"metric_for_best_model={best!r} needs composite='...': the metric of the trainer's "
            "own evaluation that is combined with what is kept"
        )
    if chosen_by(args) and best.endswith("/retention"):
        raise WatchError(
            f"metric_for_best_model={best!r} counts lucky answers that flip as lost; choose by "
            "'forget/all/kept'"
        )
    callbacks = trainer.callback_handler.callbacks
    own_positions = [
        position for position, callback in enumerate(callbacks) if isinstance(callback, own)
    ]
    if len(own_positions) > 1:
        raise WatchError(
            f"the trainer has {len(own_positions)} ForgetWatchCallbacks, and a run has one; put "
            "all items into one probe"
        )
    # Callbacks run in the order of the list, and early stopping reads the metric that this one
    # adds.
    stops = [
        position
        for position, callback in enumerate(callbacks)
        if isinstance(callback, EarlyStoppingCallback)
    ]
    if chosen_by(args) and own_positions and stops and stops[0] < own_positions[0]:
        raise WatchError(
            f"EarlyStoppingCallback comes before ForgetWatchCallback and does not see {best!r}; "
            "put ForgetWatchCallback first in callbacks=[...]"
        )
    if chosen_by(args) and str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
        raise WatchError(
            f"metric_for_best_model={best!r} chooses among checkpoints, and save_strategy is 'no'"
        )
    parallel = getattr(getattr(trainer, "accelerator", None), "parallelism_config", None)
    split = max(
        (int(getattr(parallel, name, None) or 1) for name in ("cp_size", "sp_size")), default=1
    )
    if split > 1:
        raise WatchError(
            f"each text is split over {split} processes (context or sequence parallel), and a "
            "probe's items need whole "
            "texts; score the checkpoints in a process of their own instead"
        )


def check_choice(args: TrainingArguments, *, right: int) -> None:
    """Refuse a best checkpoint chosen by what is kept, without any."""
    if chosen_by(args) and right == 0:
        raise WatchError(
            f"metric_for_best_model={args.metric_for_best_model!r}: no answer of the baseline is "
            "right, so that none can be kept; choose by another metric, or take a probe of which "
            "the model knows something"
        )


def chosen_by(args: TrainingArguments) -> str | None:
    """Key of the number by which the best checkpoint is chosen.

    Returns:
        The key, or None if it is none of forgetwatch's.
    """
    # As the trainer completes it.
    key = "eval_" + (args.metric_for_best_model or "").removeprefix("eval_")
    return key if key.startswith(PREFIX) else None


def tokenizer_of(kwargs: Mapping[str, Any]) -> Any:
    """Tokenizer among an event's arguments, or in the processor."""
    processing_class = kwargs.get("processing_class")
    if processing_class is None:
        raise WatchError("the trainer has no tokenizer; pass processing_class=tokenizer to it")
    return getattr(processing_class, "tokenizer", processing_class)


@contextmanager
def evaluation_weights(optimizer: Any) -> Iterator[None]:
    """Put a schedule-free optimizer's evaluation weights in place.

    Afterwards the trained weights return.
    """
    inner = optimizer
    while (
        wrapped := getattr(inner, "optimizer", None)
    ) is not None:  # by accelerate, and twice by DeepSpeed
        inner = wrapped
    if not all(callable(getattr(inner, name, None)) for name in ("eval", "train")):
        yield
        return
    inner.eval()
    try:
        yield
    finally:
        inner.train()


def token_budget(args: TrainingArguments, examples: Any) -> int | None:
    """Tokens of a batch that needs no more memory than a step.

    Returns:
        The tokens, or None if nothing gives a length.
    """
    # SFT, DPO and others of TRL bound the texts by the first, RL by the second.
    bounds = (getattr(args, name, None) for name in ("max_length", "max_completion_length"))
    length = next(
        (value for value in bounds if isinstance(value, int) and value > 0), 0
    ) or _longest(examples)
    if not length:
        return None
    device_tokens = CPU_TOKENS if args.device.type == "cpu" else CUDA_TOKENS
    return min(device_tokens, max(_FEWEST_TOKENS, args.per_device_train_batch_size * length))


def step_tokens(args: TrainingArguments, examples: Any) -> float | None:
    """Tokens of an optimizer step in a process.

    The tokens are estimated from examples spread over the data set. Of online methods the examples
    are prompts alone, and a step takes what generating takes.

    Returns:
        The tokens, or None if the examples do not show them.
    """
    # CPO and ORPO have a length of completions too, which are those of the data.
    if hasattr(args, "max_completion_length") and hasattr(args, "temperature"):
        return None
    try:
        rows = range(
            0, len(examples), max(1, len(examples) // _EXAMPLES)
        )  # they may be sorted by length
        tokens = sum(_tokens(examples[row]) for row in rows)
    except Exception:  # a stream, or examples of any other kind
        return None
    if not tokens:
        return None
    return tokens / len(rows) * args.per_device_train_batch_size * args.gradient_accumulation_steps


def _tokens(example: Mapping[str, Any]) -> int:
    # 0 if the example has no token ids. Each answer of a pair is read after the prompt.
    answers_length = sum(len(example[name]) for name in _WHOLE if example.get(name) is not None)
    answers = [len(example[name]) for name in _ANSWERS if example.get(name) is not None]
    prompt = example.get("prompt_ids")
    return answers_length + sum(answers) + (0 if prompt is None else len(answers) * len(prompt))


def epoch_steps(args: TrainingArguments, batches: Any) -> int | None:
    """Optimizer steps of an epoch.

    Returns:
        The steps, or None if the training data have no length.
    """
    try:
        return max(1, math.ceil(len(batches) / args.gradient_accumulation_steps))
    except (TypeError, NotImplementedError):  # a stream
        return None


def _longest(examples: Any) -> int:
    # 0 if the examples cannot be indexed.
    try:
        count = min(len(examples), _EXAMPLES)
        return max((len(examples[row]["input_ids"]) for row in range(count)), default=0)
    except (LookupError, TypeError, NotImplementedError):  # a stream, or examples without token ids
        return 0


def stateful(state: TrainerState) -> dict[str, Any]:
    """Part of the trainer's state that belongs to callbacks."""
    return cast(
        dict[str, Any], state.stateful_callbacks
    )  # annotated as a list, a dict from construction on


def best_step(state: TrainerState) -> int | None:
    """Step of the best checkpoint, whose folder names the step.

    The best evaluation may be of a later step.
    """
    number = Path(state.best_model_checkpoint or "").name.rpartition("-")[2]
    return int(number) if number.isdecimal() else state.best_global_step
