"""Everything that is read from a trainer: itself, its fitness for a watched run, its checkpoints and its examples.

    find it      calling_trainer, resume_checkpoint
    check it     check_trainer, check_choice, chosen_by
    use it       tokenizer_of, evaluation_weights, token_budget, epoch_steps
    its probe    default_probe; held_out searches for its questions in the training examples
    its saves    rotation_warning

Nothing here writes to the trainer. A question that is trained on shows nothing about forgetting. Only exact matches are
searched for here; `forgetwatch probe check --train` also finds questions that share a run of words.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments

from forgetwatch.comparing import Comparison
from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe, combine
from forgetwatch.probes import Overlap, exact_overlap, load_probe, training_text
from forgetwatch.progress import Done, Progress, shown
from forgetwatch.report import PREFIX
from forgetwatch.scoring import CPU_TOKENS, CUDA_TOKENS, random_states

STATE: Final = "forgetwatch"
"""Key of the run's memory in the trainer's state."""

_EXAMPLES: Final = 64
"""Number of training examples whose lengths are read."""

_WHOLE: Final = ("input_ids", "chosen_input_ids", "rejected_input_ids")
_ANSWERS: Final = ("chosen_ids", "rejected_ids", "completion_ids")
"""Columns of token ids in the examples of transformers and TRL: of whole texts, and of answers to ``prompt_ids``."""

_FEWEST_TOKENS: Final = 512
"""Tokens of a batch that need less memory than any training step."""

SEARCH_SECONDS: Final = 60.0
"""Seconds after which the search stops; its result then names the share of the examples that it covered."""

_DELAY: Final = 5.0
"""Seconds of the search before its progress is shown."""

_REPORTED: Final = 1_000
"""Examples between two reports of the search."""


def calling_trainer() -> Trainer | None:
    """Return the trainer whose event is being handled.

    The nearest `self` up the call stack that is one; None outside.
    """
    return next((owner for local in _frames() if isinstance(owner := local.get("self"), Trainer)), None)


def resume_checkpoint() -> Path | None:
    """Return the checkpoint folder that the trainer's `train` resumes from; None for a fresh start."""
    given = (local.get("resume_from_checkpoint") for local in _frames() if isinstance(local.get("self"), Trainer))
    return next((Path(path) for path in given if isinstance(path, (str, os.PathLike))), None)


def _frames() -> Iterator[Mapping[str, Any]]:
    # There is no public way: a callback is handed the model, the arguments and the state, but neither the trainer nor
    # the checkpoint that it resumes from. Both are locals of the methods that fire the event.
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]


def training_settings(trainer: Trainer) -> dict[str, Any]:
    """Return what advice on another training asks for: trainer, rate, rows, adapter, and weight of `RetentionLoss`.

    None where there is none, or it is unknown.
    """
    adapters = getattr(trainer.model, "peft_config", None) or {}
    kinds = [getattr(getattr(one, "peft_type", None), "value", None) for one in adapters.values()]
    weight, rows = getattr(getattr(trainer, "retention", None), "weight", None), trainer.train_dataset
    return {
        "trainer": next(
            one.__name__ for one in type(trainer).__mro__ if one.__module__.split(".")[0] in ("trl", "transformers")
        ),
        "learning_rate": trainer.args.learning_rate,
        "rows": len(rows) if isinstance(rows, Sized) else None,
        "adapter": next((str(kind) for kind in kinds if kind), None),
        "retention": float(weight) if isinstance(weight, int | float) and weight > 0 else None,
    }


def check_trainer(
    trainer: Trainer, args: TrainingArguments, *, own: type[TrainerCallback], composite: str | None
) -> None:
    """Raise a WatchError before the first step if a callback of the class `own` cannot watch the run of a trainer."""
    best = args.metric_for_best_model or ""
    if composite is None and best.endswith("/composite"):
        raise WatchError(
            f"metric_for_best_model={best!r} needs composite='...': the metric of the trainer's own evaluation that "
            "is combined with retention"
        )
    callbacks = trainer.callback_handler.callbacks
    own_positions = [position for position, callback in enumerate(callbacks) if isinstance(callback, own)]
    if len(own_positions) > 1:
        raise WatchError(
            f"the trainer has {len(own_positions)} ForgetWatchCallbacks, and a run has one; put all items into one "
            "probe"
        )
    # Callbacks run in the order of the list, and early stopping reads the metric that this one adds.
    stops = [position for position, callback in enumerate(callbacks) if isinstance(callback, EarlyStoppingCallback)]
    if chosen_by(args) and own_positions and stops and stops[0] < own_positions[0]:
        raise WatchError(
            f"EarlyStoppingCallback comes before ForgetWatchCallback and does not see {best!r}; "
            "put ForgetWatchCallback first in callbacks=[...]"
        )
    if chosen_by(args) and str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
        raise WatchError(f"metric_for_best_model={best!r} chooses among checkpoints, and save_strategy is 'no'")
    parallel = getattr(getattr(trainer, "accelerator", None), "parallelism_config", None)
    split = max((int(getattr(parallel, name, None) or 1) for name in ("cp_size", "sp_size")), default=1)
    if split > 1:
        raise WatchError(
            f"each text is split over {split} processes (context or sequence parallel), and a probe's items need whole "
            "texts; score the checkpoints in a process of their own instead"
        )


def check_choice(args: TrainingArguments, *, right: int) -> None:
    """Raise a WatchError if the best checkpoint is chosen by retention and no answer can be retained."""
    if chosen_by(args) and right == 0:
        raise WatchError(
            f"metric_for_best_model={args.metric_for_best_model!r}: no answer of the baseline is right, so that none "
            "can be retained; choose by another metric, or take a probe of which the model knows something"
        )


def chosen_by(args: TrainingArguments) -> str | None:
    """Return the key of the number of forgetwatch by which the trainer chooses its best checkpoint.

    None if it does not.
    """
    # As the trainer completes it.
    key = "eval_" + (args.metric_for_best_model or "").removeprefix("eval_")
    return key if key.startswith(PREFIX) else None


def tokenizer_of(kwargs: Mapping[str, Any]) -> Any:
    """Return the tokenizer among an event's arguments, which must have one; that of the processor if there is one."""
    processing_class = kwargs.get("processing_class")
    if processing_class is None:
        raise WatchError("the trainer has no tokenizer; pass processing_class=tokenizer to it")
    return getattr(processing_class, "tokenizer", processing_class)


@contextmanager
def evaluation_weights(optimizer: Any) -> Iterator[None]:
    """Put the weights in place that a schedule-free optimizer evaluates with, and afterwards those that it trains."""
    # The trainer's optimizer is a wrapper of accelerate.
    inner = getattr(optimizer, "optimizer", optimizer)
    if not all(callable(getattr(inner, name, None)) for name in ("eval", "train")):
        yield
        return
    inner.eval()
    try:
        yield
    finally:
        inner.train()


def token_budget(args: TrainingArguments, examples: Any) -> int | None:
    """Return the tokens of a batch with which a look needs no more memory than a training step.

    None if nothing gives a length.
    """
    # SFT, DPO and others of TRL bound the texts by the first, RL by the second.
    bounds = (getattr(args, name, None) for name in ("max_length", "max_completion_length"))
    length = next((value for value in bounds if isinstance(value, int) and value > 0), 0) or _longest(examples)
    if not length:
        return None
    device_tokens = CPU_TOKENS if args.device.type == "cpu" else CUDA_TOKENS
    return min(device_tokens, max(_FEWEST_TOKENS, args.per_device_train_batch_size * length))


def step_tokens(args: TrainingArguments, examples: Any) -> float | None:
    """Return the tokens of an optimizer step in one process, from the first examples; None if they do not tell.

    Of online methods the examples are prompts alone, and a step takes what generating takes.
    """
    # CPO and ORPO have a length of completions too, which are those of the data.
    if hasattr(args, "max_completion_length") and hasattr(args, "temperature"):
        return None
    try:
        rows = min(len(examples), _EXAMPLES)
        tokens = sum(_tokens(examples[row]) for row in range(rows))
    except Exception:  # a stream, or examples of any other kind
        return None
    if not tokens:
        return None
    return tokens / rows * args.per_device_train_batch_size * args.gradient_accumulation_steps


def _tokens(example: Mapping[str, Any]) -> int:
    """Return the tokens that are read of one example.

    0 if it has no token ids. Each answer of a pair is read after the prompt.
    """
    whole = sum(len(example[name]) for name in _WHOLE if example.get(name) is not None)
    answers = [len(example[name]) for name in _ANSWERS if example.get(name) is not None]
    prompt = example.get("prompt_ids")
    return whole + sum(answers) + (0 if prompt is None else len(answers) * len(prompt))


def epoch_steps(args: TrainingArguments, batches: Any) -> int | None:
    """Return the optimizer steps of an epoch; None if the training data have no length."""
    try:
        return max(1, math.ceil(len(batches) / args.gradient_accumulation_steps))
    except (TypeError, NotImplementedError):  # a stream
        return None


def _longest(examples: Any) -> int:
    """Return the tokens of the longest of the first examples; 0 if they cannot be indexed."""
    try:
        count = min(len(examples), _EXAMPLES)
        return max((len(examples[row]["input_ids"]) for row in range(count)), default=0)
    except (LookupError, TypeError, NotImplementedError):  # a stream, or examples without token ids
        return 0


def rotation_warning(args: TrainingArguments, state: TrainerState, looks: Mapping[int, Comparison]) -> str | None:
    """Return a warning that the save at this step deletes the checkpoint with the highest retention.

    None if it does not.
    """
    limit = args.save_total_limit
    if not limit or not args.output_dir:
        return None
    saved = {
        int(path.name.rpartition("-")[2]): path
        for path in Path(args.output_dir).glob("checkpoint-*")
        if path.is_dir() and re.fullmatch("checkpoint-[0-9]+", path.name)
    }
    # The trainer deletes the oldest checkpoints beyond the limit, but never the one that it considers the best.
    protected = Path(state.best_model_checkpoint).name if state.best_model_checkpoint else None
    oldest_first = sorted(step for step, path in saved.items() if path.name != protected)
    # The save is still to come: its checkpoint counts, whether or not a folder of that name is there already.
    deleted = oldest_first[: max(0, len(saved | {state.global_step: None}) - limit)]
    retention = {step: looks[step].all.retention for step in saved if step in looks and step > 0}
    if not retention:
        return None
    # Of equal checkpoints the latest counts: the earlier ones may go.
    best = max(retention, key=lambda step: (retention[step], step))
    now = looks.get(state.global_step)
    if best not in deleted or (now is not None and now.all.retention >= retention[best]):
        return None
    return (
        f"this save deletes {saved[best]}, which has the highest retention of the saved checkpoints "
        f"({100 * retention[best]:.1f} %): copy it, or raise save_total_limit={limit}; "
        "metric_for_best_model='forget/all/retention' would keep it"
    )


def held_out(probe: Probe, examples: Any, tokenizer: Any, *, seconds: float = SEARCH_SECONDS) -> Overlap | None:
    """Return the questions of the probe in the training examples; None if the examples cannot be indexed.

    Examples that were tokenized are decoded again.
    """
    try:
        rows = len(examples)
        # Some data sets have a length and still cannot be indexed.
        examples[0]
    except (LookupError, TypeError, NotImplementedError):
        return None
    label = f"searching the training examples for {probe.name}"
    # A dataset may draw random numbers.
    with random_states(), shown(label, delay=_DELAY) as progress:
        return exact_overlap(probe, _texts(examples, rows, tokenizer, progress), seconds=seconds, of_rows=rows)


def _texts(examples: Any, rows: int, tokenizer: Any, progress: Progress | None) -> Iterator[str]:
    for row in range(rows):
        if progress and row % _REPORTED == 0:
            progress(Done(count=row, total=rows, share=row / rows, unit="examples"))
        example = examples[row]
        text = training_text(example)
        if not text.strip() and isinstance(example, dict) and example.get("input_ids") is not None:
            text = tokenizer.decode(example["input_ids"], skip_special_tokens=True)
        yield text


def overlap_line(found: Overlap) -> str:
    """Return the line on the result of the search, with advice if questions were found."""
    advice = "; a question that is trained on shows nothing about forgetting: remove it from one of the two"
    return f"is the probe held out? {found.sentence}" + (advice if found.exact else "")


def default_probe(
    tokenizer: Any, *, fast: bool, obstacle: str = "", fingerprint: str | None = None
) -> tuple[Probe, str]:
    """Return the default probe and the reason for it: `standard`, with `behaviour` if generating is possible and cheap.

    Args:
        tokenizer: The tokenizer; `behaviour` needs its chat template.
        fast: True if generating is cheap: the model is on a GPU.
        obstacle: Reason why the model cannot generate; empty if it can.
        fingerprint: Fingerprint of the probe of a resumed run, which keeps it on any machine; None otherwise.
    """
    scored = load_probe("standard")
    both = combine(scored, load_probe("behaviour"))
    for probe in (scored, both):
        if probe.fingerprint == fingerprint:
            return probe, "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without behaviour, which needs a chat template"
    if obstacle:
        return scored, f"without behaviour, whose answers this model cannot generate in training: {obstacle}"
    if not fast:
        return scored, "without behaviour, whose answers take too long to generate on this machine"
    return both, "answers of behaviour are generated if max_overhead allows it"


def stateful(state: TrainerState) -> dict[str, Any]:
    """Return the part of the trainer's state that belongs to callbacks."""
    return cast(dict[str, Any], state.stateful_callbacks)  # annotated as a list, a dict from construction on
