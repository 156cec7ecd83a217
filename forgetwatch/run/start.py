"""The start of a watched training: its run begins, resumes from a checkpoint, or restarts.

    begin      a new run: its questions, the earlier trainings, items and looks, the baseline
    resume     from a checkpoint: the baseline and the looks of the run, from its folder or copies
    restart    again in one process: from a checkpoint, or with a smaller batch

The baseline of a run that resumes is that of the run folder, if it is of the run that the trainer's
state names, else the copy in the checkpoint, else the one that the user names. The trainer's state
follows every checkpoint to any machine, and names the run and its decision.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerState

from forgetwatch.errors import LostBaselineError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes.overlap import Overlap
from forgetwatch.progress import log, shown
from forgetwatch.run import run_output
from forgetwatch.run.look import LookScorer
from forgetwatch.run.model_lineage import found_lineage, join_lineage, leave_unlike_lineage
from forgetwatch.run.questions import choose, held_out
from forgetwatch.run.run import Run
from forgetwatch.run.run_drift import RunDrift
from forgetwatch.run.schedule import (
    Budget,
    Schedule,
    event_steps,
    look_seconds,
    start_seconds,
)
from forgetwatch.run.state import LookPlan
from forgetwatch.run.trainer import (
    chosen_by,
    epoch_steps,
    step_tokens,
    token_budget,
    tokenizer_of,
    training_settings,
)
from forgetwatch.run.training import Training, memory_of
from forgetwatch.run.watch_settings import WatchSettings
from forgetwatch.run_folder.description import CARRIED, GuardFinding
from forgetwatch.scoring.adapters import adapter_start, adapters_off
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model import random_states
from forgetwatch.scoring.processes import on_main_process, world_size
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainerStart:
    """What a trainer starts with.

    Attributes:
        settings: What the user has set.
        trainer: The trainer.
        state: The trainer's state.
        event: Arguments of the event, with the model and the tokenizer.
        first: Run of an earlier train() of this trainer, whose baseline stays; None for none.
    """

    settings: WatchSettings
    trainer: Trainer
    state: TrainerState
    event: Mapping[str, Any]
    first: Run | None

    @property
    def model(self) -> Any:
        """The model at the start."""
        return self.event["model"]

    @property
    def tokenizer(self) -> Any:
        """The trainer's tokenizer."""
        return tokenizer_of(self.event)

    @property
    def reference(self) -> Snapshot | str | None:
        """Baseline from elsewhere: of an earlier train(), else the one that the user named."""
        return self.settings.baseline if self.first is None else self.first.baseline

    def named_baseline(self, probe: Probe) -> Snapshot | None:
        """Read or score the baseline from elsewhere. A model is scored now.

        Raises:
            WatchError: If several processes would load a second model.
        """
        reference = self.reference
        if reference is None or isinstance(reference, Snapshot):
            return reference
        if world_size() > 1:  # a second model beside one that the processes share
            raise WatchError(
                f"baseline={reference!r}: in a training of several processes needed a snapshot, "
                "got a model; make one with "
                f"`forgetwatch score {reference} --probe ... -o base.parquet`"
            )
        opening = f"baseline: {reference}, to be scored on {probe.name}, {len(probe):,} items"
        # Loading a model may draw random numbers.
        with random_states(), shown("baseline", opening=opening) as progress:
            return score_checkpoint(reference, probe, progress=progress)

    def new_training(self) -> Training:
        """Choose the questions, and make the run, without its folder."""
        settings, args, state = self.settings, self.trainer.args, self.state
        memory = (memory_of(state) if state.global_step else None) or {}
        examples = self.trainer.train_dataset
        with random_states():  # reading examples may draw random numbers
            # One value for all processes, since all plan the same batches from it.
            budget = on_main_process(lambda: token_budget(args, examples))

        def earlier() -> str:
            # List of the run that resumes, of the baseline that is named, or of the first base.
            made = memory.get("made")
            if not memory and self.reference is None:
                lineage = found_lineage(self.model, settings.lineage)
                made = None if lineage is None or lineage.first is None else lineage.first.meta
            elif made is None and isinstance(self.reference, Snapshot):
                made = self.reference.meta
            return str(((made or {}).get("probe") or {}).get("name"))

        probe, lines = choose(
            settings.probe,
            model=self.model,
            tokenizer=self.tokenizer,
            is_fast=args.device.type == "cuda",
            fingerprint=memory.get("fingerprint"),
            earlier=earlier,
            token_budget=budget,
            is_cut=bool(settings.max_overhead),
        )
        drift = RunDrift(wanted=settings.drift, examples=examples, strict=settings.strict)
        run = Run(probe, str(args.output_dir), drift=drift, by_trainer=True)
        run.update(training=training_settings(self.trainer))
        looks = LookScorer(
            run,
            target_probe=settings.target_probe,
            token_budget=budget,
            strict=settings.strict,
        )
        training = Training(settings, self.trainer, looks)
        for line in lines:
            training.log(line)
        return training

    def new_budget(self) -> Budget:
        """Plan the looks by the steps that the arguments of the training name."""
        args, state = self.trainer.args, self.state
        epoch = epoch_steps(args, self.event.get("train_dataloader"))
        strategy = args.eval_strategy if chosen_by(args) else "no"
        steps_of = partial(event_steps, epoch=epoch, max_steps=state.max_steps)
        schedule = Schedule.make(
            self.settings.every,
            max_steps=state.max_steps,
            saves=steps_of(args.save_strategy, every=state.save_steps),
            epochs=steps_of("epoch", every=None),
            evaluations=steps_of(strategy, every=state.eval_steps),
        )
        items = None if self.first is None else self.first.items
        return Budget(schedule, overhead=self.settings.max_overhead or None, items=items)


def begin(start: TrainerStart) -> Training:
    """Begin a run: find the earlier trainings, decide items and looks, take the baseline."""
    training = start.new_training()
    with training.one_line_if_stopped():
        run, model, tokenizer = training.run, start.model, start.tokenizer
        budget, overlap = start.new_budget(), _overlap(start, training)
        _join(start, training)
        is_off = adapter_start(model, continued=run.continued).is_off
        with random_states():  # reading examples may draw random numbers
            tokens = on_main_process(
                lambda: step_tokens(start.trainer.args, start.trainer.train_dataset)
            )
        with adapters_off(model) if is_off else nullcontext():
            repeats = 2 if is_off else 1
            _decide(start, training, budget, tokens, repeats=repeats, overlap=overlap)
        look = training.looks.take(model, tokenizer, step=0)
        if look.unstored is not None:  # known before the first step
            raise look.unstored
        if leave_unlike_lineage(run):
            training.log(
                "its answers are not those of that training's end: it is not counted as a stage "
                "of that model; lineage=... names it if it is one, such as after quantising"
            )
    budget.set_out(0)
    _follow(run, budget)
    return training


def resume(start: TrainerStart, checkpoint: Path | None) -> Training:
    """Restore the run of a checkpoint, from its folder or from copies.

    Raises:
        WatchError: If no source has the baseline.
    """
    training = start.new_training()
    run, step, memory = training.run, start.state.global_step, memory_of(start.state)
    known = memory or {}
    # The folder of the trainer may be on another path than that of the checkpoint.
    copies = [] if checkpoint is None else [checkpoint / CARRIED]
    # Before any file is touched: restoring may move the folder of another run aside.
    run.check_probe(known.get("made", {"probe": {"fingerprint": None}}))
    findings = map(GuardFinding.of, known.get("tripped", ()))
    sources: dict[str, Any] = {
        "run": known.get("run"),
        "step": step,
        "carried": list(dict.fromkeys([run.folder.carried(step), *copies])),
        "plan": LookPlan.of(known),
        "completions": known.get("completions"),
        "findings": [finding for finding in findings if finding is not None],
    }
    try:
        if memory is None:
            raise LostBaselineError("the checkpoint names no baseline")
        training.looks.resume(**sources)
    except LostBaselineError:
        named = start.named_baseline(run.probe)
        if named is None and memory is None:
            raise WatchError(
                f"the run resumes at step {step}, and its checkpoint names no baseline: it "
                "was begun without forgetwatch; name the model that it began with "
                "(baseline=...), start it anew, or resume without the callback"
            ) from None
        if named is None:
            raise
        run.check_probe(named.meta)
        named = run.in_order(named)
        training.log("the run's own baseline is gone; it is replaced by the one that was named")
        # A step that no look of this run has.
        named = replace(named, meta={**named.meta, "step": -1})
        training.looks.resume(baseline=named, **sources)
    for note in run.notes:
        training.log(note)
    training.resume_guard(known.get("stopped"), step)
    budget, is_decided = start.new_budget(), run.state.plan is not None
    if not is_decided:  # a run that was begun otherwise has no decision
        _decide(start, training, budget, None)
    budget.set_out(step, is_final=is_decided)
    _follow(run, budget)
    return training


def restart(start: TrainerStart, training: Training) -> Training:
    """Train the same run again: the baseline and the decision stay."""
    run, step, stopped = training.run, start.state.global_step, training.run.state.stopped
    training.reopen()
    run.update(training=training_settings(start.trainer))
    on_main_process(lambda: run.folder.claim(on_wait=log))
    run.forget_after(step)
    training.resume_guard(stopped, step)
    before, budget = run.budget, start.new_budget()
    is_final = before is not None and before.is_final
    budget.set_out(step, is_final=is_final, before=before)
    _follow(run, budget)
    return training


def _follow(run: Run, budget: Budget) -> None:
    budget.follow(run.state.plan or LookPlan())
    run.follow(budget)


def _overlap(start: TrainerStart, training: Training) -> Overlap | None:
    probe, examples, overlap = training.run.probe, start.trainer.train_dataset, None
    with training.failures.tolerate("the search for the probe in the training examples", step=0):
        overlap = on_main_process(lambda: held_out(probe, examples, start.tokenizer))
    if overlap is not None and overlap.exact:
        training.log(
            f"not held out: {overlap.sentence}; a question that is trained on shows nothing about "
            "forgetting: remove it from one of the two"
        )
    return overlap


def _join(start: TrainerStart, training: Training) -> None:
    # The run counts against the base of earlier trainings, or against a baseline from elsewhere.
    run, first = training.run, start.first
    named = start.named_baseline(run.probe)
    setting = start.settings.lineage if first is None else False
    line = join_lineage(run, start.model, start.tokenizer, setting=setting, counts=named is None)
    if first is not None:
        line = (
            "another training of this trainer: a run of its own, with the baseline of the first "
            "one's start"
        )
        if first.state.lineage is not None:
            run.descend(first.state.lineage)
    if line:
        training.log(line)
    if named is not None:
        run.adopt(named, None if first is None else first.null)


def _decide(
    start: TrainerStart,
    training: Training,
    budget: Budget,
    tokens: float | None,
    *,
    repeats: int = 1,
    overlap: Overlap | None = None,
) -> None:
    # Before anything is measured. `tokens` are those of a training step in one process; the first
    # items are measured `repeats` times after the baseline.
    run, looks, after = training.run, training.looks, start.state.global_step
    weights = run.state.started_with if repeats == 1 else None
    items = None if start.first is None else start.first.items
    trial = looks.time_start(start.model, start.tokenizer, items=items, weights=weights)
    run.decide(budget.decide(run.probe, trial, tokens, after=after))
    decision = run.state.plan or LookPlan()
    of_start = of_look = None
    if trial is not None:
        of_start = start_seconds(trial, run.probe, decision, again=repeats)
        of_look = look_seconds(trial, run.probe, decision)
    # Without a bound the baseline is measured to its end, however late.
    looks.announce(None if items is not None or budget.overhead is None else of_start)
    if after == 0:  # a training that resumes has a line of its own
        of_start = of_start if run.baseline is None else None
        training.log(
            run_output.start_line(run, budget, start=of_start, each=of_look, overlap=overlap)
        )
    if not run.generates:
        training.log(run_output.not_generated_line(run.probe))
    if budget.schedule.is_default and budget.schedule.unwatched:
        training.log(run_output.unwatched_line(budget.schedule))
