"""Drift of a run from its base on texts that the base generated at the start: a warning before answers flip.

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
from forgetwatch.measures import DRIFT_KEY, LookDrift, stored_drift
from forgetwatch.metrics import Drift
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


class DriftWatch:
    """The base's completions of a run, and the drift of each look on them.

    Attributes:
        completions: Texts that the base generated.
        seconds: Seconds of the latest look at them.
    """

    def __init__(self, completions: Completions, *, token_budget: int | None) -> None:
        self.completions = completions
        self.seconds = 0.0
        self._token_budget = token_budget

    @classmethod
    def begin(
        cls, model: nn.Module, tokenizer: Any, probe: Probe, examples: Any, *, token_budget: int | None
    ) -> DriftWatch:
        """Sample completions from the model as it is, for prompts of the probe and of the training examples.

        Its progress is shown.

        Raises:
            ScoringError: If the model cannot generate here.
        """
        with random_states():  # a dataset may draw random numbers
            prompts = on_main_process(lambda: drift_prompts(probe, examples, model, tokenizer))
        with shown("drift", is_main_process=rank() == 0) as progress:
            made = sample_completions(model, tokenizer, prompts, token_budget=token_budget, progress=progress)
        return cls(made, token_budget=token_budget)

    @classmethod
    def resume(cls, folders: Sequence[Path], *, checksum: str | None, token_budget: int | None) -> DriftWatch | None:
        """Completions of a resumed run, from the first folder with an undamaged copy; None if there are none."""

        def found() -> Completions | None:
            for folder in folders:
                # A missing or damaged copy is skipped; the next folder may have a whole one.
                with suppress(SnapshotError):
                    if (stored := read_completions(folder / COMPLETIONS)).checksum == checksum:
                        return stored
            return None

        completions = on_main_process(found)
        return None if completions is None else cls(completions, token_budget=token_budget)

    def look(self, model: nn.Module) -> dict[str, Drift]:
        """Measure the drift of the model from the base, by set; the model is left as it was.

        What takes long shows its progress.

        Raises:
            ScoringError: If its logits are not finite.
        """
        started = time.perf_counter()
        with shown("drift", delay=_DELAY, is_main_process=rank() == 0) as progress:
            reading = read_under(model, self.completions, token_budget=self._token_budget, progress=progress)
        found = self.completions.drift(reading)
        self.seconds = time.perf_counter() - started
        return found


class RunDrift:
    """Drift of the looks of a run: begun at its first look or resumed, and off where it cannot be measured.

    Whatever fails is logged once, and leaves the looks without drift.

    Attributes:
        base: The base's completions; None before the first look, and while drift is off.

    Args:
        wanted: True to measure it in any case, False to measure none, None to measure it unless the budget has no time.
        examples: The training examples; None for none.
        strict: True to raise failures.
    """

    def __init__(self, *, wanted: bool | None, examples: Any = None, strict: bool = False) -> None:
        self.base: DriftWatch | None = None
        self._begins = wanted is not False
        self._examples = examples
        self._failures = Failures(strict=strict, is_main_process=rank() == 0)
        self._wanted = wanted
        self._unsaved = False
        # Of completions that are in the run folder and not read: a later resume may want them.
        self._unread: str | None = None

    @property
    def checksum(self) -> str | None:
        """Checksum of the base's completions; None if there are none."""
        return self._unread if self.base is None else self.base.completions.checksum

    @property
    def seconds(self) -> float:
        """Seconds of the latest look at the completions; 0 if there was none."""
        return 0.0 if self.base is None else self.base.seconds

    def stop(self) -> None:
        """Measure no more drift in this run."""
        self.base, self._begins, self._wanted, self._examples, self._unread = None, False, False, None, None

    def added_to(
        self, snapshot: Snapshot, model: nn.Module, tokenizer: Any, probe: Probe, *, step: int, token_budget: int | None
    ) -> Snapshot:
        """The snapshot of a look with the drift of the model in its metadata; as it is if none is measured.

        The first look of a run samples the completions: its model is the base.
        """
        if self._begins:
            self._begins = False
            with self._failures.tolerate("sampling completions of the base", step=step):
                self._begin(model, tokenizer, probe, token_budget=token_budget)
        if self.base is None:
            return snapshot
        with self._failures.tolerate("measuring the drift", step=step):
            found, floors = self.base.look(model), self.base.completions.floor
            drift = {name: LookDrift.of(of_set, floors.get(name)) for name, of_set in found.items()}
            return replace(snapshot, meta={**snapshot.meta, DRIFT_KEY: stored_drift(drift)})
        return snapshot

    def _begin(self, model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> None:
        examples, self._examples = self._examples, None  # a dataset is not kept in memory
        if reason := generation_obstacle(model):
            self._log(f"the drift from the base is not measured: the model cannot generate here: {reason}")
            return
        self._log("drift: sampling short completions of the base, which each look reads again")
        self.base = DriftWatch.begin(model, tokenizer, probe, examples, token_budget=token_budget)
        self._unsaved = True
        if "training" not in self.base.completions.sets:
            why = "no training examples are given" if examples is None else "the training examples give no prompts"
            self._log(f"drift: {why}; it is measured after the prompts of the probe alone")

    def resume(self, folders: Sequence[Path], *, checksum: str | None, token_budget: int | None) -> None:
        """Restore the completions of a run from the first folder with a whole copy; without one there is no drift."""
        self._begins, self._examples = False, None  # a model that was trained is not the base
        if self._wanted is False:
            self._unread = checksum
        elif self.base is None and checksum is not None:
            with self._failures.tolerate("reading the base's completions", step=0):
                self.base = DriftWatch.resume(folders, checksum=checksum, token_budget=token_budget)
                self._unsaved = self.base is not None

    def log_if_lost(self, checksum: str | None, *, left_out: bool) -> None:
        """Log why a resumed run that is to measure the drift goes on without it; nothing if it measures it.

        `left_out` is True if the run's budget left out the drift, which was logged then.
        """
        if self._wanted is False or (self.base is not None and not left_out):
            return
        if not left_out and checksum is not None:
            self._log(f"the completions of the base ({COMPLETIONS}) are gone: later looks have no drift")
        elif not left_out:
            self._log(f"the run has no completions of its base ({COMPLETIONS}): later looks have no drift")
        elif self._wanted:
            self._log("the run's budget left out the drift, and its base is gone: later looks have no drift")
        self._wanted = False

    def save(self, folder: Path) -> None:
        """Write the completions into a run folder that lacks them, or delete those of a run that measures no more."""
        path = folder / COMPLETIONS
        if self.base is None:
            if self._unread is None:
                path.unlink(missing_ok=True)
        elif self._unsaved or not path.is_file():
            save_completions(self.base.completions, path)
            self._unsaved = False

    def _log(self, line: str) -> None:
        if rank() == 0:
            log(line)


def model_drifts(
    base: str, after: Sequence[str], probe: Probe, *, device_map: str | None = None
) -> list[dict[str, LookDrift]]:
    """Drift of each model from the base, by set of prompts: ``probe`` alone.

    Args:
        base: The base: a checkpoint folder, adapter folder or model id.
        after: The models, of the same tokenizer.
        probe: The probe whose prompts the base continues.
        device_map: See `checkpoints.load_model`.

    Raises:
        ScoringError: If a model cannot be loaded, the base cannot generate, or a model has another tokenizer.
    """
    made = _begin(base, probe, device_map=device_map)
    floors = made.completions.floor
    found = []
    for name in after:
        model, tokenizer = load_model(name, device_map=device_map)
        try:
            check_completions(made.completions, model, tokenizer)
        except ScoringError as error:
            raise ScoringError(f"{name}: its drift from {base} cannot be measured: {error}") from error
        found.append({of: LookDrift.of(drift, floors.get(of)) for of, drift in made.look(model).items()})
        del model  # before the next one is loaded
    return found


def _begin(base: str, probe: Probe, *, device_map: str | None) -> DriftWatch:
    """The base's completions; its weights are freed on return."""
    model, tokenizer = load_model(base, device_map=device_map)
    if reason := generation_obstacle(model):
        raise ScoringError(f"{base}: --drift needs a base that can generate: {reason}")
    return DriftWatch.begin(model, tokenizer, probe, None, token_budget=None)


def drift_prompts(probe: Probe, examples: Any, model: nn.Module, tokenizer: Any) -> dict[str, list[Ids]]:
    """A fixed sample of the probe's prompts and of the training prompts, as token ids.

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
    """Prompts of items at equal distances among those with a prompt."""
    chosen = encode(replace(probe, items=tuple(_spread(probe.items))), tokenizer, max_length=longest)
    if all(item.context for item in chosen):
        return [item.context for item in chosen]
    # Some items have none: only the token ids of all tell which have one.
    return _spread([item.context for item in encode(probe, tokenizer, max_length=longest) if item.context])


def _spread(values: Sequence[Any]) -> list[Any]:
    """Up to `PROMPTS` values at equal distances, the same at every call."""
    count = min(PROMPTS, len(values))
    return [values[index * len(values) // count] for index in range(count)]


def _prompt_of(example: Mapping[str, Any] | str, tokenizer: Any) -> Ids:
    """Prompt of one training example as token ids, in any of the forms that TRL's trainers take or prepare."""
    if isinstance(example, str):
        example = {"input_ids": tokenizer(example)["input_ids"]}
    for name in ("prompt_ids", "prompt_input_ids"):
        if example.get(name):
            return tuple(example[name])
    prompt = example.get("prompt")
    if not prompt and "input_ids" not in example:
        # A conversation without a prompt of its own: what comes before the first answer.
        prompt = list(takewhile(_is_no_answer, example.get("messages") or ()))
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


def _is_no_answer(message: Mapping[str, Any]) -> bool:
    return bool(message["role"] != "assistant")
