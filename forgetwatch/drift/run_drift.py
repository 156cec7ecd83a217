"""Drift of a run from its base on texts that the base generated at the start.

    at the baseline   prompts ─▶ completions of the base, and what it gives them
    at a look         completions ─▶ read under the model ─▶ KL, overlap
    compare --drift   completions of the first model ─┬─▶ read under the second ─▶ KL, overlap
                                                      └─▶ read under the third ...

Two sets of prompts, each a fixed sample: of the probe, and of the training examples. Completions are sampled once, at
the baseline; each look computes their log-probabilities again, and from these KL and overlap per token.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from jinja2 import TemplateError
from torch import nn

from forgetwatch.drift.base_texts import check_completions, read_under, sample_completions
from forgetwatch.drift.completions import Completions, read_completions, save_completions
from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.measures import DRIFT_KEY, LookDrift, stored_drift
from forgetwatch.probe import Probe
from forgetwatch.progress import Failures, log, shown
from forgetwatch.run_folder import COMPLETIONS
from forgetwatch.scoring import (
    Ids,
    ModelInfo,
    encode,
    generation_obstacle,
    load_model,
    on_main_process,
    random_states,
    rank,
)
from forgetwatch.snapshot import Snapshot

PROMPTS: Final = 64
"""Prompts of each set; each has one completion of 32 tokens."""

_DELAY: Final = 5.0
"""Seconds of a look at the completions before its progress is shown."""


class RunDrift:
    """Drift of the looks of a run: begun at its first look or resumed, and off where it cannot be measured.

    Whatever fails is logged once, and leaves the looks without drift.

    Attributes:
        completions: Texts that the base generated; None before the first look, and while drift is off.
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
        """Checksum of the base's completions; None if there are none."""
        return self._unread if self.completions is None else self.completions.checksum

    def added_to(
        self, snapshot: Snapshot, model: nn.Module, tokenizer: Any, probe: Probe, *, step: int, token_budget: int | None
    ) -> Snapshot:
        """Return the snapshot of a look with the drift of the model in its metadata; as it is if none is measured.

        The first look of a run samples the completions: its model is the base.
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

    def _begin(self, model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> None:
        examples, self._examples = self._examples, None  # a dataset is not kept in memory
        if reason := generation_obstacle(model):
            _log(f"the drift from the base is not measured: the model cannot generate here: {reason}")
            return
        _log("drift: sampling short completions of the base, whose probability each look computes again")
        self.completions = sample_base(model, tokenizer, probe, examples, token_budget=token_budget)
        self._token_budget, self._unsaved = token_budget, True
        if "training" not in self.completions.sets:
            why = "no training examples are given" if examples is None else "the training examples give no prompts"
            _log(f"drift: {why}; it is measured after the prompts of the probe alone")

    def resume(self, folders: Sequence[Path], *, checksum: str | None, token_budget: int | None) -> None:
        """Restore the completions of a run from the first folder with a whole copy; without one there is no drift."""
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
        """Log why a resumed run that is to measure the drift goes on without it; nothing if it measures it."""
        if not self._wanted or self.completions is not None:
            return
        gone = f"the completions of the base ({COMPLETIONS}) are gone"
        never = f"the run has no completions of its base ({COMPLETIONS})"
        _log(f"{never if checksum is None else gone}: later looks have no drift")
        self._wanted = False

    def save(self, folder: Path) -> None:
        """Write the completions into a run folder that lacks them, or delete those of a run that measures no more."""
        path = folder / COMPLETIONS
        if self.completions is None:
            if self._unread is None:
                path.unlink(missing_ok=True)
        elif self._unsaved or not path.is_file():
            save_completions(self.completions, path)
            self._unsaved = False


def _log(line: str) -> None:
    if rank() == 0:
        log(line)


def sample_base(
    model: nn.Module, tokenizer: Any, probe: Probe, examples: Any, *, token_budget: int | None
) -> Completions:
    """Sample completions from the model as it is, for prompts of the probe and of the training examples.

    Its progress is shown.

    Raises:
        ScoringError: If the model cannot generate here.
    """
    with random_states():  # a dataset may draw random numbers
        prompts = on_main_process(lambda: drift_prompts(probe, examples, model, tokenizer))
    with shown("drift", is_main_process=rank() == 0) as progress:
        return sample_completions(model, tokenizer, prompts, token_budget=token_budget, progress=progress)


def _measured(model: nn.Module, completions: Completions, *, token_budget: int | None) -> dict[str, LookDrift]:
    """Return the drift by set."""
    with shown("drift", delay=_DELAY, is_main_process=rank() == 0) as progress:
        reading = read_under(model, completions, token_budget=token_budget, progress=progress)
    drift = completions.drift(reading)
    floors = completions.floor
    return {name: LookDrift.of(found, floors.get(name)) for name, found in drift.items()}


def model_drifts(
    base: str, after: Sequence[str], probe: Probe, *, loading: Loading = Loading()
) -> list[dict[str, LookDrift]]:
    """Return the drift of each model from the base, by set of prompts: ``probe`` alone.

    Args:
        base: The base: a checkpoint folder, adapter folder or model id.
        after: The models, of the same tokenizer.
        probe: The probe whose prompts the base continues.
        loading: How they are loaded.

    Raises:
        ScoringError: If a model cannot be loaded, the base cannot generate, or a model has another tokenizer.
    """
    completions = _sampled(base, probe, loading=loading)
    found = []
    for name in after:
        model, tokenizer = load_model(name, loading=loading)
        try:
            check_completions(completions, model, tokenizer)
        except ScoringError as error:
            raise ScoringError(f"{name}: its drift from {base} cannot be measured: {error}") from error
        found.append(_measured(model, completions, token_budget=None))
        del model  # before the next one is loaded
    return found


def _sampled(base: str, probe: Probe, *, loading: Loading) -> Completions:
    """Return the base's completions; its weights are freed on return."""
    model, tokenizer = load_model(base, loading=loading)
    if reason := generation_obstacle(model):
        raise ScoringError(f"{base}: --drift needs a base that can generate: {reason}")
    return sample_base(model, tokenizer, probe, None, token_budget=None)


def drift_prompts(probe: Probe, examples: Any, model: nn.Module, tokenizer: Any) -> dict[str, list[Ids]]:
    """Return a fixed sample of the probe's prompts and of the training prompts, as token ids.

    A training prompt ends before the first token that is trained; that of a plain text is its first half. Examples
    that cannot be indexed give none.
    """
    longest = ModelInfo.of(model).context_length(tokenizer)
    prompts = {"probe": _probe_prompts(probe, tokenizer, longest=longest)}
    try:
        chosen = _spread(range(len(examples)))
        training = [ids for row in chosen if (ids := _prompt_of(examples[row], tokenizer))]
    except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError, TemplateError):
        training = []
    return {**prompts, "training": training} if training else prompts


def _probe_prompts(probe: Probe, tokenizer: Any, *, longest: int) -> list[Ids]:
    """Return the prompts of items at equal distances among those with a prompt."""
    chosen = encode(replace(probe, items=tuple(_spread(probe.items))), tokenizer, max_length=longest)
    if all(item.context for item in chosen):
        return [item.context for item in chosen]
    # Some items have none: only the token ids of all tell which have one.
    return _spread([item.context for item in encode(probe, tokenizer, max_length=longest) if item.context])


def _spread(values: Sequence[Any]) -> list[Any]:
    """Return up to `PROMPTS` values at equal distances, the same at every call."""
    count = min(PROMPTS, len(values))
    return [values[index * len(values) // count] for index in range(count)]


def _prompt_of(example: Mapping[str, Any] | str, tokenizer: Any) -> Ids:
    """Return the prompt of a training example as token ids, in any form that TRL's trainers take or prepare."""
    if isinstance(example, str):
        example = {"input_ids": tokenizer(example)["input_ids"]}
    for name in ("prompt_ids", "prompt_input_ids"):
        if example.get(name):
            return tuple(example[name])
    prompt = example.get("prompt")
    if not prompt and "input_ids" not in example:
        # A conversation without a prompt of its own: what comes before the first answer.
        prompt = list(takewhile(lambda message: message["role"] != "assistant", example.get("messages") or ()))
    if isinstance(prompt, str):
        return tuple(tokenizer(prompt)["input_ids"])
    if prompt:
        text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        # The template has written the special tokens already.
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    if "input_ids" not in example and isinstance(text := example.get("text"), str):
        example = {"input_ids": tokenizer(text)["input_ids"]}
    ids = tuple(map(int, example["input_ids"]))
    for name in ("completion_mask", "assistant_masks"):
        if (mask := example.get(name)) is not None and 1 in mask:
            return ids[: list(mask).index(1)]
    return ids[: max(1, len(ids) // 2)]
