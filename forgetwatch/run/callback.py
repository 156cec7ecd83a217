"""ForgetWatchCallback: a `Watch` inside any trainer of transformers or TRL.

    trainer = SFTTrainer(..., callbacks=[ForgetWatchCallback("probe.jsonl", every=200)])

    on_train_begin     begins the run, or resumes or restarts it; looks at the start
    on_step_end        a look, if one is due: measured, added to the run, handed to the sinks
    on_save            the look of a save that was not announced; the history goes into the checkpoint
    on_train_end       the last look, if an early stop has left it out; the page and the table

The sinks of a look are the trackers, the guard, the command and the page (`_look`). The metrics,
listed in `report.tracker_rows`, reach every tracker that the trainer reports to, in a row of their
own. The training is left as it would have been: weights, losses and random numbers are bitwise
those of a run without the callback.

The baseline of a run that resumes is that of the run folder, if it is of the run that the trainer's
state names, else the copy in the checkpoint, else the one that the user names (`baseline`). The
trainer's state follows every checkpoint to any machine, and names the run and its decision.

A failure after the baseline is logged and counted, and the training continues, unless the run is
strict. In a training of several processes all make the same calls; only the main process writes and
logs.

**The trainer.** Everything that is read from a trainer: itself, its fitness for a watched run, its
checkpoints and its examples.

    find it      calling_trainer, resume_checkpoint
    check it     check_trainer, check_choice, chosen_by
    use it       tokenizer_of, evaluation_weights, token_budget, epoch_steps
    its probe    default_probe; held_out searches for its questions in the training examples

Nothing here writes to the trainer. A question that is trained on shows nothing about forgetting.
Only exact matches are searched for here; `forgetwatch probe check --train` also finds questions
that share a run of words.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from forgetwatch.errors import LostBaselineError, WatchError
from forgetwatch.probe import Probe, combine
from forgetwatch.probes.ladder import TRIED, at_levels, described_levels, is_pool
from forgetwatch.probes.named import load_probe, load_tasks
from forgetwatch.probes.overlap import Overlap, exact_overlap, training_text
from forgetwatch.probes.shipped_probes import STRATA, stratified
from forgetwatch.progress import Done, Failures, Progress, log, shown
from forgetwatch.report.card import CARD, write_card
from forgetwatch.report.tracker_rows import PREFIX
from forgetwatch.run import run_output
from forgetwatch.run.guard import STOPS, Action, Guard, finding_lines, roll_back
from forgetwatch.run.known_baseline import asked
from forgetwatch.run.run import (
    LineageSetting,
    Look,
    Run,
    found_lineage,
    join_lineage,
    known_fingerprint,
    remember_trained,
)
from forgetwatch.run.schedule import (
    FEWEST_ITEMS,
    Budget,
    Decision,
    Every,
    Schedule,
    event_steps,
    look_seconds,
    start_seconds,
    stored_decision,
)
from forgetwatch.run.trackers import TrainerLogger, composite_row, look_row
from forgetwatch.run.watch import Watch
from forgetwatch.run_folder.description import CARRIED, GuardFinding
from forgetwatch.run_folder.task_figure import TaskFigure, logged_figure
from forgetwatch.scoring.adapters import adapter_start, adapters_off
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.generation import check_generated, generation_obstacle
from forgetwatch.scoring.model import CPU_TOKENS, CUDA_TOKENS, random_states
from forgetwatch.scoring.processes import on_main_process, rank, world_size
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.snapshot import Snapshot, read_snapshot

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
            "own evaluation that "
            "is combined with what is kept"
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
            "all items into one "
            "probe"
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
            f"metric_for_best_model={args.metric_for_best_model!r}: no answer of the baseline "
            "is right, so that none "
            "can be kept; choose by another metric, or take a probe of which the model knows "
            "something"
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
    """Tokenizer among an event's arguments.

    That of the processor if there is one.
    """
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
    """Tokens of an optimizer step in one process.

    From examples of all places. Of online methods the examples are prompts alone, and a step takes
    what generating takes.

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


def held_out(
    probe: Probe, examples: Any, tokenizer: Any, *, seconds: float = SEARCH_SECONDS
) -> Overlap | None:
    """Find questions of the probe in the training examples.

    Returns:
        The questions, or None if the examples cannot be indexed. Tokenized examples are decoded
        again.
    """
    try:
        rows = len(examples)
        # Some data sets have a length and still cannot be indexed.
        examples[0]
    except (LookupError, TypeError, NotImplementedError):
        return None
    if not next(_texts(examples, 1, tokenizer, None)).strip():
        return None  # examples without text, such as pixel values
    label = f"searching the training examples for {probe.name}"
    # A dataset may draw random numbers.
    with random_states(), shown(label, delay=_DELAY) as progress:
        return exact_overlap(
            probe, _texts(examples, rows, tokenizer, progress), seconds=seconds, of_rows=rows
        )


def _texts(examples: Any, rows: int, tokenizer: Any, progress: Progress | None) -> Iterator[str]:
    for row in range(rows):
        if progress and row % _REPORTED == 0:
            progress(Done(count=row, total=rows, share=row / rows, unit="examples"))
        example = examples[row]
        text = training_text(example)
        if not text.strip() and isinstance(example, dict) and example.get("input_ids") is not None:
            text = tokenizer.decode(example["input_ids"], skip_special_tokens=True)
        yield text


def default_probe(
    tokenizer: Any, *, fast: bool, obstacle: str = "", fingerprint: str | None = None
) -> tuple[Probe, str]:
    """Default probe, and the reason for the choice.

    `standard`, with `strata` if generating is possible and cheap.

    Args:
        tokenizer: The tokenizer; `strata` needs its chat template.
        fast: True if generating is cheap: the model is on a GPU.
        obstacle: Reason why the model cannot generate; empty if it can.
        fingerprint: Fingerprint of the probe of a resumed run, which keeps it on any machine; None
            otherwise.
    """
    scored = load_probe("standard")
    combined = combine(scored, load_probe(STRATA))
    for probe in (scored, combined):
        if probe.fingerprint == fingerprint:
            return probe, "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without strata, which needs a chat template"
    if obstacle:
        return (
            scored,
            f"without strata, whose answers this model cannot generate in training: {obstacle}",
        )
    if not fast:
        return scored, "without strata, whose answers take too long to generate on this machine"
    return combined, "answers of strata are generated if max_overhead allows it"


def stateful(state: TrainerState) -> dict[str, Any]:
    """Part of the trainer's state that belongs to callbacks."""
    return cast(
        dict[str, Any], state.stateful_callbacks
    )  # annotated as a list, a dict from construction on


_CHARACTERS: Final = 3
_SHORT: Final = 1024
"""Characters of a token at the least, and tokens of a text that any training has memory for."""

_STOPPED: Final = 130
"""Exit status after Ctrl-C."""


def best_step(state: TrainerState) -> int | None:
    """Step of the best checkpoint, whose folder names the step.

    The best evaluation may be of a later step.
    """
    number = Path(state.best_model_checkpoint or "").name.rpartition("-")[2]
    return int(number) if number.isdecimal() else state.best_global_step


class ForgetWatchCallback(TrainerCallback):
    """Evaluates a probe before and during training, and logs what was forgotten and gained.

    Args:
        probe: A probe, its name, or the path of one. By default `standard`, and `strata` if the
            tokenizer has a chat template and generating is cheap (a GPU) and possible (not for a
            sharded model or prompt learning).
        probes: In place of `probe` a probe for each task of a sequence of trainings, by the name of
            the task, or the folder of a benchmark: ``{"base": "standard", "task1": "a.csv"}``. The
            name becomes the category of its questions, but for `base`. See `probes.categories`.
        every: Schedule of the looks; see `run.schedule`.
        max_overhead: Share of the training's time that the looks after the baseline may take, 0 to
            1, or a minute if that is more. Before the baseline it is decided which items are
            evaluated, a prefix of the probe, and which looks of the default schedule are taken;
            after ten steps looks are dropped if they take far longer. None or 0: all looks evaluate
            all items.
        items: Number of items that are evaluated, the first ones of the probe; by default
            `max_overhead` decides.
        baseline: Reference instead of the model at the start: a snapshot, the path of one, or a
            model id or checkpoint folder, which is then scored. A resumed run needs it only if its
            own baseline is lost.
        lineage: The earlier training that this one continues: its output_dir or checkpoint. Losses
            then count against the base of the first training, and against the start of this one. By
            default it is found by the model in memory or its folder; False turns it off. A model
            that was copied, cast or quantised has to have it named.
        guard: Reaction to an alarm or a loss beyond the bounds: ``warn``, ``save``, ``stop``,
            ``rollback`` (stops, and loads the last saved checkpoint whose look did not fail), or a
            `Guard` with other bounds; the name or file of a policy, which then decides and names
            its reaction; None for no guard, and no line on alarms.
        on_look: A command that is started after each look, the first included, without a shell;
            training does not wait for it. ``{step}``, ``{checkpoint}`` and ``{folder}`` are filled
            in. A command that names the checkpoint is started only at saves, once the checkpoint is
            written.
        task: Questions of the new task, a probe or the name or path of one: their share of right
            answers at each look is shown beside the loss, and they are never counted as forgotten.
            By default the trainer's own figure is.
        composite: A metric of the trainer's evaluation, from 0 to 1 and higher for better: its
            harmonic mean with what is kept is ``eval_forget/all/composite``, for choosing the best
            checkpoint.
        log: ``counts`` for five numbers of all items and two of each category, and the one of
            `metric_for_best_model`; ``full`` for every number of every group and the drift. See
            `report.tracker_rows`.
        share_text: True to send questions and answers to the trackers. By default they stay in the
            run folder.
        model_card: True to write the result into ``README.md`` of the output_dir at the end of the
            run, as a section of the model card.
        strict: True to stop the run when a look fails. By default the failure is logged once, and
            training continues; a baseline that fails always stops the run, before its first step.
        drift: True to measure at each look how far the model is from that of the start, on short
            texts that the latter generated (`run.drift`). None: with ``log="full"`` alone.

    Raises:
        ProbeError: If the probe cannot be loaded.
        SnapshotError: If a snapshot that is named cannot be read.
        WatchError: If an argument is out of range.
    """

    def __init__(
        self,
        probe: Probe | str | Path | None = None,
        *,
        probes: Mapping[str, Probe | str | Path] | str | Path | None = None,
        every: Every = None,
        max_overhead: float | None = 0.02,
        items: int | None = None,
        baseline: Snapshot | str | Path | None = None,
        lineage: LineageSetting = None,
        guard: Guard | Action | str | Path | None = "warn",
        on_look: str | None = None,
        task: Probe | str | Path | None = None,
        composite: str | None = None,
        log: Literal["counts", "full"] = "counts",
        share_text: bool = False,
        model_card: bool = False,
        strict: bool = False,
        drift: bool | None = None,
    ) -> None:
        if max_overhead is not None and not (
            isinstance(max_overhead, (int, float)) and 0 <= max_overhead < 1
        ):
            raise WatchError(
                f"max_overhead={max_overhead!r}: needed a share of the time, from 0 to 1, or None"
            )
        if items is not None and not (type(items) is int and items > 0):
            raise WatchError(f"items={items!r}: needed a number of items, 1 or more, or None")
        if composite is not None and not isinstance(composite, str):
            raise WatchError(
                f"composite={composite!r}: needed the name of a metric of the trainer's evaluation"
            )
        if log not in ("counts", "full"):
            raise WatchError(f"log={log!r}: needed 'counts' or 'full'")
        Schedule.make(every, max_steps=1)  # a wrong value fails here, not hours later in a queue
        if probe is not None and probes is not None:
            raise WatchError(
                "probe and probes: needed one of them; give the first as probes={'base': ...}"
            )
        self.probe = probe if isinstance(probe, Probe) else load_probe(probe or "standard")
        self.probe = self.probe if probes is None else load_tasks(probes)
        self._chooses_probe = probe is None and probes is None
        self._named_probe = self.probe
        check_generated(self.probe)
        self.every = every
        self.max_overhead = max_overhead or None
        self.items = items
        self.baseline = _read_baseline(baseline)
        if lineage and (isinstance(lineage, bool) or baseline is not None):
            needed = (
                "a folder, None or False"
                if isinstance(lineage, bool)
                else "baseline=... or lineage=..., not both"
            )
            raise WatchError(f"lineage={lineage!r}: needed {needed}")
        self.lineage = lineage
        self.guard = Guard.of(guard, self.probe)
        self.on_look = run_output.checked_command(on_look)
        self.task = load_probe(task) if isinstance(task, (str, Path)) else task
        self.composite = composite
        self.log = log
        self.share_text = share_text
        self.model_card = model_card
        self.strict = strict
        self.drift = log == "full" if drift is None else drift
        self._attached: Trainer | None = None
        self._trainer: Trainer | None = None
        self._first: Run | None = (
            None  # that of an earlier train() of this trainer, whose baseline stays
        )
        self._watch: Watch | None = None
        self._failures = Failures(strict=strict, is_main_process=True)
        self._page = run_output.ReportPage()
        self._saved_weights: dict[
            int, str
        ] = {}  # fingerprints by step, for a guard that rolls back
        self._tried = -1  # the step of the latest look, also of one that failed
        self._ended = self._has_begun = self._stops_again = False

    @property
    def watch(self) -> Watch | None:
        """The measurements of the run.

        Returns:
            The watch, or None before its training.
        """
        return self._watch

    def attach(self, trainer: Trainer) -> None:
        """Name the trainer whose trackers get the numbers.

        By default the trainer that has the callback.
        """
        self._attached = trainer

    def on_train_begin(  # noqa: C901
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the baseline, or restore that of a resumed run."""
        # An attached trainer comes first, unless another one is training: the event names its
        # arguments.
        is_attached = self._attached is not None and self._attached.args is args
        trainer = self._attached if is_attached else calling_trainer() or self._attached
        if trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        check_trainer(trainer, args, own=type(self), composite=self.composite)
        # A second train(), or another try with a smaller batch: the first baseline stays.
        is_again = trainer is self._trainer and not state.is_hyper_param_search and self._has_begun
        earlier = self._watch.run if self._watch is not None and is_again else None
        is_restart = earlier is not None and self._is_same_run(earlier, state, kwargs)
        self._first = earlier if state.global_step == 0 and not is_restart else None
        if self._first is not None:
            on_main_process(self._first.folder.release)
        self._trainer, self._tried, self._stops_again = trainer, -1, False
        self._failures = Failures(
            strict=self.strict, is_main_process=bool(state.is_world_process_zero)
        )
        self._page = run_output.ReportPage()
        checkpoint, before = resume_checkpoint(), None if earlier is None else earlier.budget
        watch = (self._watch if is_restart else None) or self._new_watch(
            trainer, args, state, kwargs
        )
        self._watch, run, self._has_begun = watch, watch.run, is_restart
        self._saved_weights = self._saved_weights if is_restart else {}
        run.training = training_settings(trainer)
        budget = self._new_budget(args, state, kwargs)
        is_final = False
        if is_restart:
            is_final = self._restart(run, state.global_step)
        elif state.global_step > 0:
            is_final = self._resume(watch, budget, state, kwargs, checkpoint=checkpoint)
        else:
            with _one_line_if_stopped(self):
                self._prepare(watch, budget, kwargs)
                self._begin(watch, kwargs)
        self._has_begun, self._ended = True, False  # only now: what failed is tried again in full
        remember_trained(kwargs["model"], run)
        budget.set_out(state.global_step, is_final=is_final, before=before if is_restart else None)
        budget.follow(run.decision or Decision())
        run.follow(budget)
        with self._failures.tolerate("logging the look", step=0):
            self._trackers(state, control).log_look(run, step=0)
        if state.global_step == 0 and not is_restart:
            self._start_command(run, 0, needs_checkpoint=False)
        # The run may have been killed between a save and its look.
        if run.due(state.global_step, at_save=state.global_step > 0 and checkpoint is not None):
            self._look(state, control, kwargs)
        if state.global_step > 0:  # the run may have been killed between the save and its copies
            folder = run.folder.carried(state.global_step).parent
            is_own = checkpoint is not None and checkpoint.resolve() == folder.resolve()
            if is_own and state.global_step not in (run.saved or {}):
                run.note_saved(state.global_step)
            self._carry(run, state.global_step)
        # Only now: the number of right answers is known once the baseline is.
        check_choice(args, right=run.retained_before())
        # Also without a look: the next checkpoint must name a baseline that was replaced just now.
        self._store_memory(state)
        if state.global_step > 0 or is_restart:
            self._log(run_output.start_line(run, budget, start=None, each=self._each()))
        elif line := run_output.doubt(run):
            self._log(line)
        if self.guard is not None and self.guard.action != "warn" and args.save_strategy == "best":
            self._log(
                f"guard={self.guard.action!r} requests checkpoints, and save_strategy='best' "
                "overrules it"
            )

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of a step."""
        if (budget := self._budget) is not None:
            budget.clock.begin_step()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the probe if a look is due at this step."""
        run, budget, step = self._run, self._budget, state.global_step
        if run is None or budget is None:
            return
        budget.clock.end_step()
        if budget.is_to_check(step):
            self._check_budget(run, budget, step)
            # The decision must be in the next checkpoint, or a resumed run would decide again.
            with self._failures.tolerate("storing the run's state", step=step):
                self._store_memory(state)
        if run.due(step, at_save=control.should_save):
            self._look(state, control, kwargs)
        self._stop_again(control)
        budget.clock.restart_step()  # the looks between two steps count to neither

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the probe if looks are due at each epoch."""
        if self._run is not None and self._run.due(state.global_step, at_epoch=True):
            self._look(state, control, kwargs)
        self._stop_again(control)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the numbers to the trainer's own metrics.

        The trainer chooses the best checkpoint by these.
        """
        run, step = self._run, state.global_step
        # After the training the model may have other weights, which do not belong to this step.
        if metrics is None or run is None or self._ended or run.baseline is None:
            return
        key = chosen_by(args)
        # An evaluation before the first step is not chosen from, and its look is the baseline.
        if key and step > 0:
            self._look(state, control, kwargs)
        if step not in run.comparisons and key:
            # The trainer stops if the metric that it chooses by is missing.
            step = max(run.comparisons)
            self._log(
                f"no look at step {state.global_step}; the best checkpoint is chosen by the "
                "look before"
            )
        with self._failures.tolerate("adding the look to the evaluation", step=step):
            # In place: the trainer reads the metric of the best checkpoint from this dict.
            metrics.update(look_row(run, step=step, full=self.log == "full", chosen_by=key))
        if key and key.endswith("/composite"):
            metrics.update(
                composite_row(run.kept(step), metrics, self.composite)
            )  # without it training stops
            return
        with self._failures.tolerate("the composite", step=step):
            metrics.update(composite_row(run.kept(step), metrics, self.composite))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log the trainer's new figure, if this step has a look."""
        run = self._run
        # A row of the looks' own comes here too.
        if self._ended or logs is None or any(key.startswith(PREFIX) for key in logs):
            return
        if run is None or state.global_step not in run.comparisons or self.task is not None:
            return
        run.note_task(self._figure(state))
        with self._failures.tolerate("logging the figure of the new task", step=state.global_step):
            self._trackers(state, control).log_figure(run)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate if a look is due, and copy the history."""
        run, step = self._run, state.global_step
        if run is None:
            return
        # A save at the end of an epoch is not announced in on_step_end, so that its look is still
        # missing.
        if run.due(step, at_save=True):
            self._look(state, control, kwargs)
        with self._failures.tolerate("noting what was saved", step=step):
            run.note_saved(step)
            if self.guard is not None and self.guard.action == "rollback":
                self._saved_weights[step] = model_fingerprint(kwargs["model"])
        # After the look, so that the copy contains it.
        self._carry(run, step)
        if step in run.comparisons:
            self._start_command(run, step, needs_checkpoint=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the table, after a last look if one was left out."""
        run, step = self._run, state.global_step
        if run is None or self._watch is None or self._trainer is None or self._budget is None:
            return
        self._ended = True
        max_steps = self._budget.schedule.max_steps
        # load_best_model_at_end has put other weights in place by now.
        best = (
            best_step(state)
            if args.load_best_model_at_end and state.best_model_checkpoint
            else None
        )
        delivered: int | None = best or step
        if delivered not in (*run.comparisons, self._tried) and step <= max_steps:
            self._measure(state, kwargs, best=best)  # not logged, because trackers may have closed
        if self.guard is not None and self.guard.action == "rollback" and run.stopped is not None:
            delivered = None
            with self._failures.tolerate("rolling back", step=step):
                delivered = roll_back(
                    self._trainer, self.guard, run, self._saved_weights, log=self._log
                )
        run.note_task(self._figure(state))
        with self._failures.tolerate("storing the end of the run", step=step):
            run.note_end(last_step=step, delivered=delivered, is_stopped=run.stopped is not None)
        with self._failures.tolerate("logging the verdict", step=step):
            self._trackers(state, control).log_end(run, step=step)
        if rank() == 0:
            with self._failures.tolerate("writing the report", step=step):
                self._page.write(run, at_once=True)
            if self.model_card and len(run.comparisons) > 1:
                with self._failures.tolerate("writing the model card", step=step):
                    write_card(Path(str(args.output_dir)) / CARD, run.trajectory())
            # The model is not saved yet: nothing may fail here.
            with self._failures.tolerate("showing the table", step=step):
                run_output.show(run, page=self._page, max_steps=max_steps)
            self._failures.log_counts()
            if run.pending:
                steps = ", ".join(map(str, run.pending))
                self._log(f"looks that are not stored, and lost with this process: steps {steps}")
        with self._failures.tolerate("releasing the output_dir", step=step):
            run.close()

    def _prepare(self, watch: Watch, budget: Budget, kwargs: dict[str, Any]) -> None:
        # Search the training examples, find the earlier trainings, and decide items and looks.
        run, model, tokenizer = watch.run, kwargs["model"], tokenizer_of(kwargs)
        trainer, overlap = self._trainer, None
        examples = None if trainer is None else trainer.train_dataset
        with self._failures.tolerate("the search for the probe in the training examples", step=0):
            overlap = on_main_process(lambda: held_out(run.probe, examples, tokenizer))
        if overlap is not None and overlap.exact:
            advice = "a question that is trained on shows nothing about forgetting: remove it from one of the two"
            self._log(f"not held out: {overlap.sentence}; {advice}")
        with random_states():  # reading examples may draw random numbers
            tokens = on_main_process(
                lambda: None if trainer is None else step_tokens(trainer.args, examples)
            )
        named_baseline, first_base = self._named_baseline(run.probe), self._first
        setting = self.lineage if first_base is None else False
        line = join_lineage(run, model, tokenizer, setting=setting, counts=named_baseline is None)
        if first_base is not None:
            line = "another training of this trainer: a run of its own, with the baseline of the first one's start"
            if first_base.lineage is not None:
                run.descend(first_base.lineage)
        if line:
            self._log(line)
        if named_baseline is not None:
            run.adopt(named_baseline, None if first_base is None else first_base.null)
        is_off = adapter_start(model, continued=run.continued).is_off
        with adapters_off(model) if is_off else nullcontext():
            repeats = 2 if is_off else 1
            self._decide(
                watch, budget, model, tokenizer, tokens, after=0, again=repeats, overlap=overlap
            )

    def _answers(self, probe: Probe, kwargs: dict[str, Any]) -> Snapshot:
        # The answers decide which questions the run evaluates.
        model, trainer = kwargs["model"], self._trainer
        with random_states(), adapters_off(model) if adapter_start(model).is_off else nullcontext():
            examples = None if trainer is None else trainer.train_dataset
            budget = on_main_process(
                lambda: None if trainer is None else token_budget(trainer.args, examples)
            )
            # Not more memory than a step: a row that is longer than its batch is left out.
            kept = [
                item
                for item in probe
                if len(str(item.prompt)) < _CHARACTERS * max(budget or 1e9, _SHORT)
            ]
            return asked(model, tokenizer_of(kwargs), probe.with_items(kept), token_budget=budget)

    def _fitted(
        self, probe: Probe, memory: Mapping[str, Any] | None, kwargs: dict[str, Any]
    ) -> Probe:
        # The levels of the run that resumes, of the first base, or levels that suit the model.
        if not is_pool(probe):
            return probe
        if memory or self._reference is not None:
            metadata = (memory or {}).get("made") or (
                self._reference.meta if isinstance(self._reference, Snapshot) else {}
            )
        else:
            lineage = on_main_process(lambda: found_lineage(kwargs["model"], self.lineage))
            metadata = {} if lineage is None or lineage.first is None else lineage.first.meta
        earlier = str((metadata.get("probe") or {}).get("name"))
        if described_levels(earlier):
            return load_probe(earlier)
        fitted = at_levels(probe, lambda tried: self._answers(tried, kwargs))
        name = on_main_process(
            lambda: fitted.name
        )  # one ladder in all processes, whatever their arithmetic
        self._log(
            f"ladder: {described_levels(name)}, by {TRIED} questions that are compared nowhere"
        )
        return load_probe(name)

    def _begin(self, watch: Watch, kwargs: dict[str, Any]) -> None:
        # Some measurements are made only once, here.
        run, model, tokenizer = watch.run, kwargs["model"], tokenizer_of(kwargs)
        look = watch.take(model, tokenizer, step=0)
        if look.unstored is not None:  # known before the first step
            raise look.unstored
        if run.leave_unlike_lineage():
            self._log(
                "its answers are not those of that training's end: it is not counted as a stage "
                "of that model; "
                "lineage=... names it if it is one, such as after quantising"
            )

    def _resume(
        self,
        watch: Watch,
        budget: Budget,
        state: TrainerState,
        kwargs: dict[str, Any],
        *,
        checkpoint: Path | None,
    ) -> bool:
        # True if the number of looks is decided for good. Without a source of the baseline this is
        # a WatchError.
        run, memory, step = watch.run, _memory(state), state.global_step
        memory_of_run: Mapping[str, Any] = memory or {}
        # The folder of the trainer may be on another path than that of the checkpoint.
        folders = [
            run.folder.carried(step),
            *([checkpoint / CARRIED] if checkpoint is not None else []),
        ]
        # Before any file is touched: restoring may move the folder of another run aside.
        run.check_probe(memory_of_run.get("made", {"probe": {"fingerprint": None}}))
        known_arguments: dict[str, Any] = {
            "run": memory_of_run.get("run"),
            "step": step,
            "carried": list(dict.fromkeys(folders)),
            "decision": Decision.of(memory_of_run),
            "completions": memory_of_run.get("completions"),
            "findings": [
                finding
                for stored in memory_of_run.get("tripped", ())
                if (finding := GuardFinding.of(stored)) is not None
            ],
        }
        try:
            if memory is None:
                raise LostBaselineError("the checkpoint names no baseline")
            watch.resume(**known_arguments)
        except LostBaselineError:
            named_baseline = self._named_baseline(run.probe)
            if named_baseline is None and memory is None:
                raise WatchError(
                    f"the run resumes at step {step}, and its checkpoint names no baseline: it "
                    "was begun without "
                    "forgetwatch; name the model that it began with (baseline=...), start it "
                    "anew, or resume without "
                    "the callback"
                ) from None
            if named_baseline is None:
                raise
            run.check_probe(named_baseline.meta)
            named_baseline = run.in_order(named_baseline)
            self._log("the run's own baseline is gone; it is replaced by the one that was named")
            # A step that no look of this run has.
            watch.resume(
                baseline=replace(named_baseline, meta={**named_baseline.meta, "step": -1}),
                **known_arguments,
            )
        for note in run.notes:
            self._log(note)
        self._resume_guard(run, memory_of_run.get("stopped"), step)
        if run.decision is not None:
            return True
        # Of a run that was begun otherwise there is none.
        self._decide(watch, budget, kwargs["model"], tokenizer_of(kwargs), None, after=step)
        return False

    def _is_same_run(self, earlier: Run, state: TrainerState, kwargs: dict[str, Any]) -> bool:
        # A second train() continues a run, or tries its start again with the same weights.
        if state.global_step > 0:
            return True
        return not self._ended and known_fingerprint(kwargs["model"]) == earlier.started_with

    def _restart(self, run: Run, step: int) -> bool:
        # From a checkpoint, or with a smaller batch. The baseline and the decision stay. True if
        # the number of looks is decided for good.
        on_main_process(lambda: run.folder.claim(on_wait=log))
        stopped = run.stopped
        run.forget_after(step)
        self._resume_guard(run, stopped, step)
        return run.budget is not None and run.budget.is_final

    def _resume_guard(self, run: Run, stopped: Any, step: int) -> None:
        # The guard has stopped the run before, and stops it again unless that is overridden.
        run.stopped = None
        if type(stopped) is not int or stopped > step:
            return
        self._stops_again = (
            self.guard is not None and self.guard.action in STOPS and not self.guard.override
        )
        run.stopped = stopped if self._stops_again else None
        findings = [finding for finding in run.findings if finding.step == stopped]
        self._log(
            run_output.stopped_line(stopped, findings=findings, stops_again=self._stops_again)
        )

    def _stop_again(self, control: TrainerControl) -> None:
        # Without a checkpoint.
        if self._stops_again:
            control.should_training_stop = True
            # A job that is started again and again would go on by a step each time, and replace all
            # checkpoints.
            control.should_save = False

    def _decide(
        self,
        watch: Watch,
        budget: Budget,
        model: Any,
        tokenizer: Any,
        tokens: float | None,
        *,
        after: int,
        again: int = 1,
        overlap: Overlap | None = None,
    ) -> None:
        # Before anything is measured. `tokens` are those of a training step in one process; the
        # first items are measured `again` so many times after the baseline.
        run = watch.run
        trial = watch.time_start(
            model, tokenizer, items=self.items, weights=run.started_with if again == 1 else None
        )
        run.decide(budget.decide(run.probe, trial, tokens, after=after))
        decision = run.decision or Decision()
        start = None if trial is None else start_seconds(trial, run.probe, decision, again=again)
        is_whole = (
            self.items is not None or budget.overhead is None
        )  # measured to its end, however late
        watch.announce(None if is_whole else start)
        seconds_each = None if trial is None else look_seconds(trial, run.probe, decision)
        if after == 0:  # a training that resumes has a line of its own
            start = start if run.baseline is None else None
            self._log(
                run_output.start_line(run, budget, start=start, each=seconds_each, overlap=overlap)
            )
        if not run.generates:
            self._log(run_output.not_generated_line(run.probe))
        if budget.schedule.is_default and budget.schedule.unwatched:
            self._log(run_output.unwatched_line(budget.schedule))

    def _check_budget(self, run: Run, budget: Budget, step: int) -> None:
        # After the last timed step.
        before = decision = run.decision or Decision()
        spent = sum(took for at, took in run.seconds.items() if at > 0)
        with self._failures.tolerate("the decision on the budget", step=step):
            decision = budget.check(before, step=step, each=self._each(), spent=spent)
        if decision != before:
            with self._failures.tolerate("storing the decision on the budget", step=step):
                run.decide(decision)
                run.follow(budget)
            self._log(run_output.dropped_line(budget, after=step, each=self._each()))

    def _look(self, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]) -> None:
        # A look that failed is not tried by another event.
        run, step, budget = self._run, state.global_step, self._budget
        if run is None or budget is None or step > budget.schedule.max_steps:
            return  # a trainer that resumes after the end takes one more step
        if step in (self._tried, *run.comparisons):
            return
        started = time.perf_counter()
        look = self._measure(state, kwargs)
        trackers = self._trackers(state, control)
        if look is None:
            with self._failures.tolerate("logging the verdict", step=step):
                trackers.log_verdict(run, step=step)
            return
        for task, sink in (
            ("logging the look", trackers.take),
            ("printing the look", partial(self._print, started=started)),
            ("the guard", partial(self._judge, trackers=trackers, control=control)),
            (
                "starting the command",
                lambda look: self._start_command(look.run, look.step, needs_checkpoint=False),
            ),
            ("writing the report", self._page.take),
        ):
            with self._failures.tolerate(task, step=step):
                sink(look)
        budget.clock.add_look(
            time.perf_counter() - started, evaluation=self._watch.look_seconds if self._watch else 0
        )
        with self._failures.tolerate("storing the run's state", step=step):
            self._store_memory(state)

    def _measure(
        self, state: TrainerState, kwargs: dict[str, Any], *, best: int | None = None
    ) -> Look | None:
        # A schedule-free optimizer evaluates other weights than it trains. None if the look failed.
        # `best` is the step of the best checkpoint, if its weights are the model's now.
        watch, step, look = self._watch, best or state.global_step, None
        if watch is None or self._budget is None:
            return None
        self._tried = step
        watch.run.note_task(self._figure(state))
        is_last = self._ended or step == self._budget.schedule.max_steps
        with (
            _one_line_if_stopped(self, step=step),
            self._failures.tolerate("the look", step=step),
            evaluation_weights(kwargs.get("optimizer")),
        ):
            origin = None if best is None else {"model": str(state.best_model_checkpoint)}
            look = watch.take(
                kwargs["model"], tokenizer_of(kwargs), step=step, is_last=is_last, origin=origin
            )
            if look.unstored is not None and self.strict:
                raise look.unstored
        if look is None:
            with self._failures.tolerate("noting a look that failed", step=step):
                watch.run.note_failed(step, self._failures.cause)
        return look

    def _print(self, look: Look, *, started: float) -> None:
        max_steps = None if self._budget is None else self._budget.schedule.max_steps
        took = time.perf_counter() - started
        self._log(
            run_output.look_line(
                look.comparison.all, step=look.step, max_steps=max_steps, took=took
            )
        )

    def _judge(self, look: Look, *, trackers: TrainerLogger, control: TrainerControl) -> None:
        # The trainer does what the guard demands.
        guard, run, step = self.guard, look.run, look.step
        if guard is None:
            return
        new = run.note(guard.findings(run.stage_trajectory(), run.lost_must_pass(step)))
        stops = step if new and guard.action in STOPS else None
        if stops is not None:
            run.stopped = step
            control.should_training_stop = True
        if any(finding.what == "not_finite" for finding in new):
            # Such a checkpoint could replace the last one that is finite, and a resume would take
            # it.
            control.should_save &= guard.action not in STOPS
        elif new and guard.action in ("save", "stop"):
            control.should_save = True
        lines = finding_lines(new, stops=stops)
        for line in lines:
            self._log(line)
        if new and rank() == 0:
            with self._failures.tolerate("the guard's alert", step=step):
                trackers.alert("\n".join(lines), step=step)

    def _carry(self, run: Run, step: int) -> None:
        # Checkpoints of other runs get nothing.
        if rank() == 0:
            with self._failures.tolerate("storing the history in the checkpoint", step=step):
                run.carry(step, completions=self.share_text)

    def _start_command(self, run: Run, step: int, *, needs_checkpoint: bool) -> None:
        command = self.on_look
        if command is not None and command.needs_checkpoint == needs_checkpoint and rank() == 0:
            with self._failures.tolerate("starting the command", step=step):
                command.start(step=step, output_dir=run.folder.output_dir, folder=run.folder.path)

    @property
    def _run(self) -> Run | None:
        return None if self._watch is None else self._watch.run

    @property
    def _budget(self) -> Budget | None:
        return None if self._run is None else self._run.budget

    def _each(self) -> float:
        # Before the first look, the drift counts beside evaluating.
        watch, budget = self._watch, self._budget
        if watch is None:
            return 0.0
        return watch.look_seconds + (
            (budget.clock.extra if budget else 0.0) or watch.run.drift.seconds
        )

    def _log(self, line: str) -> None:
        if rank() == 0:
            log(line)

    def _trackers(self, state: TrainerState, control: TrainerControl) -> TrainerLogger:
        if self._trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        return TrainerLogger(
            self._trainer,
            state,
            control,
            full=self.log == "full",
            chosen_by=chosen_by(self._trainer.args),
            share_text=self.share_text,
        )

    @property
    def _reference(self) -> Snapshot | str | None:
        # From an earlier train(), else the one that the user named.
        return self.baseline if self._first is None else self._first.baseline

    def _named_baseline(self, probe: Probe) -> Snapshot | None:
        # A named model is scored now.
        reference = self._reference
        if reference is None or isinstance(reference, Snapshot):
            return reference
        if world_size() > 1:  # a second model beside one that the processes share
            raise WatchError(
                f"baseline={reference!r}: in a training of several processes needed a snapshot, "
                "got "
                "a model; make one with "
                f"`forgetwatch score {reference} --probe ... -o base.parquet`"
            )
        opening = f"baseline: {reference}, to be scored on {probe.name}, {len(probe):,} items"
        # Loading a model may draw random numbers.
        with random_states(), shown("baseline", opening=opening) as progress:
            return score_checkpoint(reference, probe, progress=progress)

    def _new_budget(
        self, args: TrainingArguments, state: TrainerState, kwargs: dict[str, Any]
    ) -> Budget:
        epoch = epoch_steps(args, kwargs.get("train_dataloader"))
        strategy = args.eval_strategy if chosen_by(args) else "no"
        steps_of = partial(event_steps, epoch=epoch, max_steps=state.max_steps)
        schedule = Schedule.make(
            self.every,
            max_steps=state.max_steps,
            saves=steps_of(args.save_strategy, every=state.save_steps),
            epochs=steps_of("epoch", every=None),
            evaluations=steps_of(strategy, every=state.eval_steps),
        )
        items = self.items if self._first is None else self._first.items
        return Budget(schedule, overhead=self.max_overhead, items=items)

    def _new_watch(
        self, trainer: Trainer, args: TrainingArguments, state: TrainerState, kwargs: dict[str, Any]
    ) -> Watch:
        # A run that has no watch in this process.
        tokenizer = tokenizer_of(kwargs)
        memory = _memory(state) if state.global_step else None
        why, self.probe = "", self._named_probe
        if self._chooses_probe:
            self.probe, why = default_probe(
                tokenizer,
                fast=args.device.type == "cuda",
                obstacle=generation_obstacle(kwargs["model"]),
                fingerprint=(memory or {}).get("fingerprint"),
            )
            self._log(f"evaluating {self.probe.name}: {why}")
        self.probe = self._fitted(self.probe, memory, kwargs)
        if (
            self.max_overhead is not None or self.items is not None
        ):  # looks may evaluate its first items alone
            ordered = tuple(stratified(self.probe.items, first=self.items or FEWEST_ITEMS))
            self.probe = (
                self.probe if ordered == self.probe.items else self.probe.with_items(ordered)
            )
        with random_states():  # reading examples may draw random numbers
            # One value for all processes, since all plan the same batches from it.
            budget = on_main_process(lambda: token_budget(args, trainer.train_dataset))
        return Watch(
            self.probe,
            str(args.output_dir),
            task=self.task,
            drift=self.drift,
            examples=trainer.train_dataset,
            token_budget=budget,
            strict=self.strict,
            by_trainer=True,
        )

    def _figure(self, state: TrainerState) -> TaskFigure | None:
        # None if the looks themselves measure the figure.
        if self.task is not None:
            return None
        metric = None if self._trainer is None else self._trainer.args.metric_for_best_model
        return logged_figure(
            state.log_history, chosen=None if metric and "forget" in metric else metric
        )

    def _store_memory(self, state: TrainerState) -> None:
        run = self._run
        if run is None or run.baseline is None:
            return
        memory = {
            "run": run.folder.run,
            "fingerprint": run.probe.fingerprint,
            **stored_decision(run.decision),
            "tripped": [dict(vars(finding)) for finding in run.findings],
            "stopped": run.stopped,
            "completions": run.drift.checksum,
            "made": {name: run.baseline.meta.get(name) for name in ("probe", "batch")},
        }
        # In the form of a callback's state: the trainer may read every entry of this dict on a
        # resume.
        stateful(state)[STATE] = {"args": {}, "attributes": memory}


@contextmanager
def _one_line_if_stopped(
    callback: ForgetWatchCallback, *, step: int | None = None
) -> Iterator[None]:
    # Ctrl-C ends a script with one line in place of a traceback.
    try:
        yield
    except KeyboardInterrupt:
        if rank() == 0 and step is None:
            log("stopped before the first step")
        elif rank() == 0 and callback.watch is not None:
            log(
                f"stopped in the look at step {step}; the looks before it are in "
                f"{callback.watch.run.folder.path}"
            )
        if hasattr(sys, "ps1"):  # a notebook or a shell
            raise
        raise SystemExit(_STOPPED) from None


def _memory(state: TrainerState) -> dict[str, Any] | None:
    memory: dict[str, Any] | None = stateful(state).get(STATE, {}).get("attributes")
    return memory


def _read_baseline(baseline: Snapshot | str | Path | None) -> Snapshot | str | None:
    # A file is read at once, a model is scored only when needed.
    if baseline is None or isinstance(baseline, Snapshot):
        return baseline
    return read_snapshot(baseline) if Path(baseline).is_file() else str(baseline)
