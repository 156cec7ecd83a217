"""A look: one evaluation of the probe during a run, measured in the batches of the baseline.

    baseline              the items that were decided on, or those in the cache
    second measurement    the first of them again in smaller batches: what flips is noise
    look                  the items that the run evaluates

Outcomes near a tie depend on the composition of a batch, so the batches of the baseline are those
of the run, also after a resume. The model, its mode and all random states come back as they were.
If several processes train one model, each makes the same calls: they share the work, all get the
look, and the main process writes.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, Final, SupportsIndex

import numpy as np
from torch import nn

from forgetwatch.comparing.checks import repeated_prompts
from forgetwatch.comparing.subset import Subset
from forgetwatch.errors import ScoringError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes.open_rendering import rendered
from forgetwatch.progress import Failures, Progress, announced, log, seconds, shown
from forgetwatch.run.known_baseline import KnownBaseline, differing, without_trial
from forgetwatch.run.questions import answers_at_start
from forgetwatch.run.run import Look, Run, checked_step
from forgetwatch.run.run_again import with_again
from forgetwatch.run.schedule import (
    CHECKED_ITEMS,
    HALVES,
    LATE,
    TWICE_ITEMS,
    Trial,
    look_seconds,
    slice_size,
    start_sizes,
)
from forgetwatch.run.state import LookPlan
from forgetwatch.run.trial_run import time_items
from forgetwatch.run_folder.task_figure import TaskFigure
from forgetwatch.scoring.adapters import adapter_start, adapters_off
from forgetwatch.scoring.encoding import tokenizer_settings
from forgetwatch.scoring.model import check_arguments
from forgetwatch.scoring.processes import all_gather, on_all_processes, rank
from forgetwatch.scoring.scorer import CANNOT_GENERATE, Scorer, model_name
from forgetwatch.scoring.slices import SlicedScorer
from forgetwatch.snapshot import NOT_FINITE, Snapshot

_DELAY: Final = 5.0
"""Seconds of a look during the training before its progress is shown."""

_FEWEST_TOKENS: Final = 64
"""Tokens of the smallest batch with which the baseline is measured again."""

_NAMES: Final = ("_name_or_path", "transformers_version")
"""Settings of a model's configuration by which no outcome changes."""


class LookScorer:
    """Measures a model for one run: the baseline, the second measurement, and the looks.

    Attributes:
        run: The run, which compares and stores what is measured.
        look_seconds: Seconds of the latest evaluation; after a resume those of the baseline, for as
            many items.

    Args:
        run: The run.
        twice: True to measure the baseline twice, for the flips of noise.
        target_probe: Questions of the new task; None: the figure that a trainer logs.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the
            device.
        strict: True to raise what fails beside the evaluation, which is logged otherwise.
    """

    def __init__(
        self,
        run: Run,
        *,
        twice: bool = True,
        target_probe: Probe | None = None,
        token_budget: int | None = None,
        strict: bool = False,
    ) -> None:
        self.run = run
        self.look_seconds = 0.0
        self._target_probe = target_probe
        self._target_scorer: Scorer | None = None
        self._failures = Failures(strict=strict, is_main_process=rank() == 0)
        self._twice = twice
        self._token_budget = token_budget
        self._scorer: SlicedScorer | None = None
        self._kind: tuple[Any, ...] = ()  # of model and tokenizer, see `restart_for`
        self._encoded_at = 0  # step of the look whose tokenizer encoded the items
        self._obstacle_logged = False
        self._is_announced = False  # a line says already what the baseline measures
        self._told: float | None = None  # seconds of the baseline, by that line
        self._trial: Trial | None = None
        self._known: KnownBaseline | None = None  # reading all weights for it takes a while
        self._repeated: set[int] = set()  # steps of which a repeated call was logged

    def resume(self, **known: Any) -> None:
        """Resume the run in the run folder.

        `known` is what a checkpoint knows of the run, as `Run.resume` takes it.
        """
        self.run.resume(**known, token_budget=self._token_budget)
        start = self.run.baseline
        if start is not None:
            share = (self.run.items or len(start)) / len(start)
            self.look_seconds = share * float(start.meta.get("seconds") or 0.0)

    def take(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        step: SupportsIndex,
        origin: Mapping[str, Any] | None = None,
        is_last: bool = False,
    ) -> Look:
        """Evaluate the model, add the snapshot to the run, and store both.

        The first look is the baseline. At the last look of a run the lost are asked again in other
        words.

        Args:
            model: A causal language model of transformers, as it is being trained.
            tokenizer: Its tokenizer; each look needs one that encodes the questions as that of the
                first look.
            step: Optimizer steps taken so far, a whole number from 0 to `LAST_STEP`.
            origin: Metadata of the snapshot on the origin of weights that were saved; None for
                those of the training at this moment.
            is_last: True at the last look of the run.

        Raises:
            ScoringError: If the model cannot be scored.
            WatchError: If `step` is no whole number in its range, or below that of the latest look,
                or another process trains in the output_dir.
        """
        run, step = self.run, checked_step(step)
        on_all_processes(
            lambda: check_arguments(model, tokenizer)
        )  # or the others would wait for this one
        latest = max(run.comparisons, default=step)
        if step < latest and origin is None:
            raise WatchError(self._falling(step, latest=latest))
        if step in run.comparisons:
            if step not in self._repeated and rank() == 0:
                log(f"step {step} has its look already; nothing was measured")
            self._repeated.add(step)
            if step in run.pending:
                run.store()
            return Look(run=run, step=step, comparison=run.comparisons[step], seconds=0.0)
        run.open()
        started, null = time.perf_counter(), None
        if run.baseline is None:
            self._choose_rendering(model, tokenizer)
            try:
                snapshot, null = self._measure_start(model, tokenizer, step=step)
            except BaseException:
                run.abandon()
                raise
        else:
            # Nothing is awaited during the training: only a look that takes long is shown.
            with shown(
                f"look at step {step}", delay=_DELAY if step else 0.0, is_main_process=rank() == 0
            ) as progress:
                snapshot = self._evaluate(model, tokenizer, step=step, progress=progress)
        snapshot = replace(snapshot, meta={**snapshot.meta, **(origin or {})})
        budget = self._token_budget
        snapshot = run.drift.added_to(
            snapshot, model, tokenizer, run.probe, step=step, token_budget=budget
        )
        if run.baseline is not None and is_last:
            with self._failures.tolerate("asking the lost in other words", step=step):
                snapshot = with_again(
                    snapshot, run.baseline, model, tokenizer, run.probe, token_budget=budget
                )
        if self._target_probe is not None:
            with self._failures.tolerate("asking the new task", step=step):
                figure = self._task_figure(model, tokenizer, self._target_probe, step=step)
                run.update(task=figure)
        return run.add(snapshot, step=step, null=null, seconds=time.perf_counter() - started)

    def _choose_rendering(self, model: nn.Module, tokenizer: Any) -> None:
        self.run.probe, line = rendered(
            self.run.probe,
            lambda tried: answers_at_start(
                tried, model, tokenizer, token_budget=self._token_budget
            ),
        )
        if line and rank() == 0:
            log(line)

    def _task_figure(
        self, model: nn.Module, tokenizer: Any, task: Probe, *, step: int
    ) -> TaskFigure | None:
        # Among answers with an outcome.
        if self._target_scorer is None:
            self._target_scorer = Scorer(task, tokenizer, model, token_budget=self._token_budget)
        right = self._target_scorer.score(model, step=step).floats("correct")
        figure = self.run.state.task
        if not np.isfinite(right).any():
            return figure
        values = () if figure is None else figure.values
        return TaskFigure(f"{task.name}_accuracy", (*values, (step, float(np.nanmean(right)))))

    def announce(self, seconds_announced: float | None) -> None:
        """Note that a line has announced the baseline.

        Args:
            seconds_announced: Seconds that it named, a multiple of which is late; None if the
                baseline is never late.
        """
        self._is_announced, self._told = True, seconds_announced

    def time_start(
        self, model: nn.Module, tokenizer: Any, *, items: int | None, weights: str | None
    ) -> Trial | None:
        """Time a few items before the baseline.

        With a cached baseline, what was measured then is taken. `items` is the number of items that is set
        by hand, `weights` the fingerprint of the model; None for none.
        """
        sizes = (
            start_sizes(len(self.run.probe)) if items is None else [min(items, len(self.run.probe))]
        )
        known_baseline = self._known_baseline(model, tokenizer, weights)
        self._trial = None if known_baseline is None else known_baseline.trial(sizes)
        if self._trial is None:
            with announced(
                f"timing a few of the {len(self.run.probe):,} items of {self.run.probe.name}"
            ):
                self._trial = time_items(
                    model, tokenizer, self.run.probe, token_budget=self._token_budget
                )
        return self._trial

    def _known_baseline(
        self, model: nn.Module, tokenizer: Any, weights: str | None
    ) -> KnownBaseline | None:
        if self._known is None:
            budget = self._token_budget
            self._known = KnownBaseline.of(
                model, tokenizer, self.run.probe, token_budget=budget, weights=weights
            )
        return self._known

    def _look_seconds(self, measured: float) -> float:
        # A look has none of the baseline's tests.
        if self._trial is None:
            return measured
        return max(
            measured - self._trial.begin,
            look_seconds(self._trial, self.run.probe, self.run.state.plan or LookPlan()),
        )

    def use_batches(self, token_budget: int | None) -> None:
        """Set the tokens of a batch before the baseline."""
        self._token_budget = token_budget

    def restart_for(self, model: nn.Module, tokenizer: Any) -> None:
        """Encode and lay out anew for another kind of model or tokenizer."""
        words = tokenizer_settings(tokenizer) or object()  # another one each time: encoded again
        config: Any = getattr(model, "config", None)
        values = {} if config is None else config.to_dict()
        settings = str({name: value for name, value in values.items() if name not in _NAMES})
        kind = type(model), settings, str(getattr(model, "peft_config", None)), words
        if kind != self._kind:
            self._scorer = None
        self._kind = kind

    def _measure_start(
        self, model: nn.Module, tokenizer: Any, *, step: int
    ) -> tuple[Snapshot, Snapshot | None]:
        # What the run begins with is in `scoring.adapters`.
        start = adapter_start(model, continued=self.run.continued)
        with adapters_off(model) if start.is_off else nullcontext():
            weights = (
                None if start.is_off else self.run.state.started_with
            )  # that of the model as it is
            measured = self._measure_baseline(model, tokenizer, step=step, weights=weights)
        changed = ""
        if start.is_off:
            number, items = self._changed(measured[0], model, tokenizer, step=step)
            changed = f"; the adapter changes {number} of the first {items} answers before step 1"
        if start.line and rank() == 0:
            log(start.line + changed)
        return measured

    def _measure_baseline(
        self, model: nn.Module, tokenizer: Any, *, step: int, weights: str | None
    ) -> tuple[Snapshot, Snapshot | None]:
        run, is_main = self.run, rank() == 0
        probe, items, is_whole = run.probe, run.items or len(run.probe), not run.subset.left_out
        repeated = min(CHECKED_ITEMS, items) if self._twice else 0
        known_baseline = self._known_baseline(model, tokenizer, weights)
        if (
            known_baseline is not None
            and (found := known_baseline.read(items, whole=is_whole)) is not None
        ):
            found = without_trial(found, model=model_name(model), step=step)
            checked: Snapshot | None = None
            with suppress(
                ScoringError
            ):  # what was right when it was measured may be impossible here
                checked = self._again(
                    found, model, tokenizer, step=step, items=CHECKED_ITEMS, progress=None
                )
            number = None if checked is None else differing(found, checked)
            if is_main:
                date_made = str(found.meta.get("time"))[:10]
                line = f"baseline: measured on {date_made} already; {min(CHECKED_ITEMS, items)} items measured again"
                line += (
                    ", which differ: it is measured anew"
                    if number is None
                    else f", {number} with another outcome"
                )
                log(line)
            if number is not None and checked is not None:
                stored = float(
                    found.meta.get("seconds") or 0.0
                )  # of a machine that may have had other work
                self.look_seconds = self._look_seconds(stored if self._trial is None else 0.0)
                _check_baseline(found, probe, step=step)
                self._obstacle_logged = True
                return found, checked if self._twice else None
        opening = ""
        if not self._is_announced:
            which = "all" if repeated == items else f"the first {repeated:,}"
            opening = f"baseline: {probe.name}, {items:,} items"
            opening += f", then {which} of them again for the noise" if self._twice else ""
        with shown(
            "baseline",
            opening=opening,
            repeat_share=HALVES * repeated / items,
            is_main_process=is_main,
        ) as progress:
            snapshot = self._evaluate(model, tokenizer, step=step, progress=progress)
        items = run.items or len(run.probe)  # a late baseline has fewer
        self.look_seconds = self._look_seconds(self.look_seconds)
        _check_baseline(snapshot, probe, step=step)
        self._obstacle_logged = True  # with the other unscored items
        if known_baseline is not None:
            known_baseline.write(snapshot, items, self._trial, whole=is_whole)
        null = None
        if self._twice:
            with shown("second measurement", is_main_process=is_main) as progress:
                null = self._again(
                    snapshot, model, tokenizer, step=step, items=CHECKED_ITEMS, progress=progress
                )
                if differing(snapshot, null) != 0 and len(null) < items:
                    null = self._again(
                        snapshot, model, tokenizer, step=step, items=TWICE_ITEMS, progress=progress
                    )
        return snapshot, null

    def _changed(
        self, baseline: Snapshot, model: nn.Module, tokenizer: Any, *, step: int
    ) -> tuple[int, int]:
        # The number that differ, and the number of items measured.
        now = self._again(baseline, model, tokenizer, step=step, items=CHECKED_ITEMS, progress=None)
        (was_right, right), (was, chosen) = (
            (baseline.head(len(now)).floats("correct"), now.floats("correct")),
            (baseline.head(len(now)).ints("chosen"), now.ints("chosen")),
        )
        return int(((was != chosen) | ((was_right != right) & (right == right))).sum()), len(now)

    def _evaluate(
        self, model: nn.Module, tokenizer: Any, *, step: int, progress: Progress | None
    ) -> Snapshot:
        # In the batches of the baseline.
        run = self.run
        if self._scorer is None:
            self._encoded_at = step
            metadata = run.baseline.meta if run.baseline else {}
            # The same batches also after a resume: outcomes near a tie depend on the composition of
            # a batch.
            items = run.items or len(run.probe)
            seconds_announced = (
                0.0 if run.baseline is not None or self._told is None else self._told
            )
            self._scorer = SlicedScorer(
                run.probe.head(items),
                tokenizer,
                model,
                size=(metadata.get("batch") or {}).get("slice")
                or slice_size(items, seconds_announced),
                layout=metadata.get("way"),
                attention=metadata.get("attention"),
                noise=metadata.get("noise"),
                token_budget=(metadata.get("batch") or {}).get("tokens") or self._token_budget,
                left_out=run.subset.left_out,
                progress=progress,
            )
        scorer = self._scorer
        if not all(all_gather(lambda: scorer.encodes_alike(tokenizer))):
            raise ScoringError(
                f"the tokenizer at step {step} encodes the questions differently from the one "
                f"at step {self._encoded_at}; needed one tokenizer for all looks of a run"
            )
        started, late = time.perf_counter(), math.inf
        if run.baseline is None and self._told is not None:
            late = LATE * self._told
        snapshot = scorer.score(
            model, step=step, progress=progress, ends=lambda: time.perf_counter() - started > late
        )
        if (items := int(snapshot.meta["probe"]["items"])) < (
            planned := run.items or len(run.probe)
        ):
            run.decide(replace(run.state.plan or LookPlan(), items=items))
            if rank() == 0:
                log(
                    f"baseline: took {seconds(time.perf_counter() - started)} for {items:,} of "
                    f"{planned:,} items, told "
                    f"{seconds(self._told or 0)} for all; the run evaluates these {items:,}"
                )
        # Once: answers of a baseline from elsewhere may be impossible to generate here.
        reasons = Counter(
            outcome for outcome in snapshot.texts("outcome") if outcome.startswith(CANNOT_GENERATE)
        )
        if run.baseline is not None and reasons and not self._obstacle_logged:
            self._obstacle_logged = True
            if rank() == 0:
                log(
                    f"{reasons.total():,} of {len(snapshot):,} items are unscored at every "
                    f"look: {_reasons(reasons)}"
                )
        self.look_seconds = float(snapshot.meta.get("seconds") or 0.0)
        return run.subset.describe(snapshot, fingerprint=run.probe.fingerprint)

    def _again(
        self,
        baseline: Snapshot,
        model: nn.Module,
        tokenizer: Any,
        *,
        step: int,
        items: int,
        progress: Progress | None,
    ) -> Snapshot:
        # The first items are read in batches of half the tokens.
        run, metadata = self.run, baseline.meta
        probe = run.probe.head(min(items, run.items or len(run.probe)))
        twice = Scorer(
            probe,
            tokenizer,
            model,
            layout=metadata["way"],
            attention=metadata["attention"],
            noise=metadata["noise"],
            token_budget=max(_FEWEST_TOKENS, metadata["batch"]["tokens"] // 2),
            left_out=run.subset.left_out,
            progress=progress,
        )
        null = twice.score(model, step=step, progress=progress, again=True)
        subset = Subset.from_probe(run.probe, items=len(probe), generates=run.generates)
        return subset.describe(null, fingerprint=run.probe.fingerprint)

    def _falling(self, step: int, *, latest: int) -> str:
        remedy = "count the steps over the whole run, not anew in each epoch"
        if step >= min(self.run.comparisons):
            remedy = f"call resume({step}) if the training went back to this step, or {remedy}"
        return f"look: needed a step that rises, got step {step} after step {latest}; {remedy}"


def _check_baseline(snapshot: Snapshot, probe: Probe, *, step: int) -> None:
    # The number of items that are unscored or wrong by rule is logged.
    outcomes = list(zip(snapshot.texts("outcome"), snapshot.is_unscored, strict=True))
    unscored = Counter(outcome for outcome, without in outcomes if without)
    wrong = Counter(outcome for outcome, without in outcomes if outcome != "ok" and not without)
    if unscored.total() == len(snapshot):
        raise ScoringError(
            f"no item of probe {probe.name!r} ({len(snapshot):,} items) can be scored: "
            f"{_reasons(unscored)}"
        )
    if line := snapshot.not_finite_line:
        raise ScoringError(f"{line} before the first step: nothing can be compared with them")
    # Every process has checked the baseline, so that all stop; only the main process logs.
    if rank() != 0:
        return
    if unscored:
        log(f"{unscored.total():,} of {len(snapshot):,} items are unscored: {_reasons(unscored)}")
    if repeated := repeated_prompts(snapshot):
        log(repeated)
    if left_out := wrong.pop(NOT_FINITE, 0):
        log(
            f"left out of every look, since their outputs are not finite: {left_out:,} of "
            f"{len(snapshot):,} items"
        )
    if wrong:
        log(f"{wrong.total():,} of {len(snapshot):,} answers count as wrong: {_reasons(wrong)}")
    if step > 0:
        log(f"the baseline is taken at step {step}: losses before it cannot be seen")


def _reasons(outcomes: Counter[str]) -> str:
    return "; ".join(
        f"{count:,} {why.removeprefix('unscored: ')}" for why, count in outcomes.most_common(3)
    )
