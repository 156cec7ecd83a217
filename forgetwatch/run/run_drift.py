"""Drift of a run from its base on texts that the base generated at the start.

    at the baseline   prompts ─▶ completions of the base, and what it gives them
    at a look         completions ─▶ read under the model ─▶ KL, overlap
    compare --drift   completions of the first model ──▶ read under each other ─▶ KL(base||after), overlap
                      completions of each other ───────▶ read under the first ──▶ KL(after||base)

Two sets of prompts, each a fixed sample: of the probe, and of the training examples.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import nn

from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.measures.base_drift import DRIFT_KEY, REVERSE, LookDrift, stored_drift
from forgetwatch.probe import Probe
from forgetwatch.progress import Failures, log, shown
from forgetwatch.run.completions import Completions, read_completions, save_completions
from forgetwatch.run.drift import (
    check_completions,
    read_under,
    sample_completions,
)
from forgetwatch.run.drift_prompts import (
    drift_prompts,
)
from forgetwatch.run_folder.description import COMPLETIONS
from forgetwatch.scoring.generation import generation_obstacle
from forgetwatch.scoring.model import ModelInfo, random_states
from forgetwatch.scoring.model_loading import load_model
from forgetwatch.scoring.processes import on_main_process, rank
from forgetwatch.snapshot import Snapshot

_DELAY: Final = 5.0
"""Seconds of a look at the completions before its progress is shown."""


def _log(line: str) -> None:
    if rank() == 0:
        log(line)


def _measured(
    model: nn.Module, completions: Completions, *, token_budget: int | None
) -> dict[str, LookDrift]:
    with shown("drift", delay=_DELAY, is_main_process=rank() == 0) as progress:
        reading = read_under(model, completions, token_budget=token_budget, progress=progress)
    drift = completions.drift(reading)
    floors = completions.floor
    return {name: LookDrift.of(set_drift, floors.get(name)) for name, set_drift in drift.items()}


def model_drifts(
    base: str, after: Sequence[str], probe: Probe, *, loading: Loading = Loading()
) -> list[dict[str, LookDrift]]:
    """Drift of each model from the base.

    KL(base||after) as ``probe``, KL(after||base) as ``reverse``.

    The latter is left out, with a line, where the base cannot read what a model generates, or it
    generates nothing.

    Args:
        base: The base: a checkpoint folder, adapter folder or model id.
        after: The models, of the same tokenizer.
        probe: The probe whose prompts the base continues.
        loading: How they are loaded.

    Raises:
        ScoringError: If a model cannot be loaded, the base cannot generate, or a model has another
            tokenizer.
    """
    completions = _sampled(base, probe, loading=loading)
    drifts: list[dict[str, LookDrift]] = []
    for name in after:
        model, tokenizer = load_model(name, loading=loading)
        try:
            check_completions(completions, model, tokenizer)
        except ScoringError as error:
            raise ScoringError(
                f"{name}: its drift from {base} cannot be measured: {error}"
            ) from error
        drifts.append(_measured(model, completions, token_budget=None))
        del model  # before the next one is loaded
    for name, measured in zip(after, drifts, strict=True):
        try:
            measured[REVERSE] = _reverse(base, name, probe, loading=loading)
        except ScoringError as error:
            _log(f"{name}: KL(after||base) is left out: {error}")
    return drifts


def _reverse(base: str, after: str, probe: Probe, *, loading: Loading) -> LookDrift:
    # The base reads texts that the model after generates; one model is loaded at a time.
    completions = _sampled(after, probe, loading=loading)
    model, tokenizer = load_model(base, loading=loading)
    if (size := ModelInfo.of(model).vocabulary) < (own_size := int(completions.meta["vocabulary"])):
        raise ScoringError(
            f"it has {own_size} tokens, and the base {size}, which cannot read them all"
        )
    check_completions(completions, model, tokenizer)
    return _measured(model, completions, token_budget=None)["probe"]


def _sampled(name: str, probe: Probe, *, loading: Loading) -> Completions:
    # The weights are freed on return.
    model, tokenizer = load_model(name, loading=loading)
    if reason := generation_obstacle(model):
        raise ScoringError(f"{name}: --drift needs a model that can generate: {reason}")
    return sample_base(model, tokenizer, probe, None, token_budget=None)


class RunDrift:
    """Drift of the looks of a run: begun at its first look or resumed, and off where it cannot be measured.

    Whatever fails is logged once, and leaves the looks without drift.

    Attributes:
        completions: Texts that the base generated; None before the first look, and while drift is
            off.
        seconds: Seconds of the latest look at them; 0 if there was none.

    Args:
        wanted: True to measure it.
        examples: The training examples; None for none.
        strict: True to raise failures.
    """

    def __init__(self, *, wanted: bool, examples: Any = None, strict: bool = False) -> None:
        self.completions: Completions | None = None
        self.seconds = 0.0
        self._token_budget: int | None = None
        self._begins = wanted
        self._examples = examples
        self._failures = Failures(strict=strict, is_main_process=rank() == 0)
        self._wanted = wanted
        self._unsaved = False
        # Of completions that are in the run folder and not read: a later resume may want them.
        self._unread: str | None = None

    @property
    def checksum(self) -> str | None:
        """Checksum of the base's completions.

        Returns:
            The checksum, or None if there are none.
        """
        return self._unread if self.completions is None else self.completions.checksum

    def added_to(
        self,
        snapshot: Snapshot,
        model: nn.Module,
        tokenizer: Any,
        probe: Probe,
        *,
        step: int,
        token_budget: int | None,
    ) -> Snapshot:
        """Add the drift of a model to the metadata of a look.

        Nothing is added if no drift is measured. The first look of a run samples the completions:
        its model is the base.
        """
        if self._begins:
            self._begins = False
            with self._failures.tolerate("sampling completions of the base", step=step):
                self._begin(model, tokenizer, probe, token_budget=token_budget)
        if self.completions is None:
            return snapshot
        with self._failures.tolerate("measuring the drift", step=step):
            started = time.perf_counter()
            drift = _measured(model, self.completions, token_budget=self._token_budget)
            self.seconds = time.perf_counter() - started
            return replace(snapshot, meta={**snapshot.meta, DRIFT_KEY: stored_drift(drift)})
        return snapshot

    def _begin(
        self, model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None
    ) -> None:
        examples, self._examples = self._examples, None  # a dataset is not kept in memory
        if reason := generation_obstacle(model):
            _log(
                f"the drift from the base is not measured: the model cannot generate here: {reason}"
            )
            return
        _log(
            "drift: sampling short completions of the base, whose probability each look "
            "computes again"
        )
        self.completions = sample_base(model, tokenizer, probe, examples, token_budget=token_budget)
        self._token_budget, self._unsaved = token_budget, True
        if "training" not in self.completions.sets:
            why = (
                "no training examples are given"
                if examples is None
                else "the training examples give no prompts"
            )
            _log(f"drift: {why}; it is measured after the prompts of the probe alone")

    def resume(
        self, folders: Sequence[Path], *, checksum: str | None, token_budget: int | None
    ) -> None:
        """Restore completions from the first folder with a whole copy.

        Without one there is no drift.
        """
        self._begins, self._examples = False, None  # a model that was trained is not the base

        def found() -> Completions | None:
            for folder in folders:
                # A missing or damaged copy is skipped; the next folder may have a whole one.
                with suppress(SnapshotError):
                    if (stored := read_completions(folder / COMPLETIONS)).checksum == checksum:
                        return stored
            return None

        if not self._wanted:
            self._unread = checksum
        elif self.completions is None and checksum is not None:
            with self._failures.tolerate("reading the base's completions", step=0):
                self.completions = on_main_process(found)
                self._token_budget, self._unsaved = token_budget, self.completions is not None

    def log_if_lost(self, checksum: str | None) -> None:
        """Log why a resumed run has no drift, if drift is expected."""
        if not self._wanted or self.completions is not None:
            return
        gone = f"the completions of the base ({COMPLETIONS}) are gone"
        never = f"the run has no completions of its base ({COMPLETIONS})"
        _log(f"{never if checksum is None else gone}: later looks have no drift")
        self._wanted = False

    def save(self, folder: Path) -> None:
        """Write the completions, or delete what is no longer needed.

        Written into a run folder that lacks them.
        """
        path = folder / COMPLETIONS
        if self.completions is None:
            if self._unread is None:
                path.unlink(missing_ok=True)
        elif self._unsaved or not path.is_file():
            save_completions(self.completions, path)
            self._unsaved = False


def sample_base(
    model: nn.Module, tokenizer: Any, probe: Probe, examples: Any, *, token_budget: int | None
) -> Completions:
    """Sample completions for prompts of probe and training.

    The model is taken as it is, and the progress is shown.

    Its progress is shown.

    Raises:
        ScoringError: If the model cannot generate here.
    """
    with random_states():  # a dataset may draw random numbers
        prompts = on_main_process(lambda: drift_prompts(probe, examples, model, tokenizer))
    with shown("drift", is_main_process=rank() == 0) as progress:
        return sample_completions(
            model, tokenizer, prompts, token_budget=token_budget, progress=progress
        )
