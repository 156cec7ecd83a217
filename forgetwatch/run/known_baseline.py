"""Baselines in the cache: found again by the weights in memory and everything else that determines their rows.

The next run of the same model takes a baseline that took seconds from there; 50 items of it are
measured again before it is used.
"""

import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

import torch
from torch import nn

from forgetwatch.cache import KEPT_SECONDS, CacheEntry
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ForgetwatchError
from forgetwatch.grading.grader import RULES
from forgetwatch.probe import Probe
from forgetwatch.progress import shown
from forgetwatch.run.schedule import Trial
from forgetwatch.scoring.encoding import tokenizer_settings
from forgetwatch.scoring.model import is_exact
from forgetwatch.scoring.processes import on_main_process, rank
from forgetwatch.scoring.scorer import SCORER, Scorer, execution
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.snapshot import Snapshot

_DIFFERING: Final = 0.04
"""Largest share of the checked items with another outcome; noise moves fewer."""


_TRIAL: Final = "trial"
"""Key of the metadata for the seconds of a question, of a token and of an answer."""


class KnownBaseline:
    """Entries of the cache for one model, tokenizer and probe, one for each number of items."""

    def __init__(self, probe: Probe, parts: Sequence[Any]) -> None:
        self._probe, self._parts = probe, parts

    @classmethod
    def of(
        cls,
        model: nn.Module,
        tokenizer: Any,
        probe: Probe,
        *,
        token_budget: int | None,
        weights: str | None,
    ) -> Self | None:
        """Entries of the cache for a model and a probe.

        None too where a template names the date, or answers are sampled. All processes call it
        together. `weights` is the fingerprint of the model; None if it is not known.

        Returns:
            The entries, or None where weights or tokenizer cannot be known whole.
        """
        settings = tokenizer_settings(tokenizer)
        if any(map(probe.is_generated, probe)) and Decoding.of(probe.decoding).temperature > 0:
            return None
        if settings is None or "strftime_now" in settings[1]:
            return None
        ran = execution(model)
        cpu = (platform.processor(), torch.backends.cpu.get_cpu_capability())
        device = torch.cuda.get_device_name() if ran["device"] == "cuda" else cpu
        tokenizer_facts = [
            getattr(tokenizer, "model_max_length", None),
            str(tokenizer.special_tokens_map),
        ]
        try:
            weights = weights or model_fingerprint(model)
        except (
            Exception
        ):  # of any kind of tensor that cannot be read here: the baseline is measured
            return None
        precision = [_mixed_precision(), is_exact(model)]
        parts = [
            weights,
            settings,
            tokenizer_facts,
            ran,
            precision,
            device,
            token_budget,
            SCORER,
            RULES,
        ]
        return cls(probe, ["baseline", *parts, probe.name, probe.fingerprint])

    def read(self, items: int, *, whole: bool = True) -> Snapshot | None:
        """Read the baseline of the probe's first items.

        `whole` is False for one without generated answers.

        Returns:
            The baseline, or None.
        """
        snapshot = on_main_process(lambda: self._entry(items, whole=whole).read())
        return snapshot if snapshot is not None and len(snapshot) >= items else None

    def trial(self, sizes: Sequence[int]) -> Trial | None:
        """Read measured seconds of baselines of these sizes.

        Returns:
            The seconds, and which are known; None if there are none.
        """
        keys = ((size, whole) for size in sizes for whole in (True, False))
        baselines = {
            key: snapshot
            for key in keys
            if (snapshot := self.read(key[0], whole=key[1])) is not None
        }
        for baseline in reversed(baselines.values()):
            if (
                isinstance(trial_values := baseline.meta.get(_TRIAL), list)
                and len(trial_values) == 4
            ):
                question, token, answer, begin = map(float, trial_values)
                return Trial(
                    question=question,
                    token=token,
                    answer=answer,
                    begin=begin,
                    known=tuple(baselines),
                )
        return None

    def write(self, snapshot: Snapshot, items: int, trial: Trial | None, *, whole: bool) -> None:
        """Keep a baseline that took seconds; the cache is optional."""
        # By the clock of the main process: all processes take part in what follows, or none.
        if on_main_process(lambda: float(snapshot.meta.get("seconds") or 0.0)) < KEPT_SECONDS:
            return
        trial_values = (
            {}
            if trial is None
            else {_TRIAL: [trial.question, trial.token, trial.answer, trial.begin]}
        )

        def write() -> None:
            with suppress(OSError, ForgetwatchError):
                self._entry(items, whole=whole).write(
                    replace(snapshot, meta={**snapshot.meta, **trial_values})
                )

        on_main_process(write)

    def _entry(self, items: int, *, whole: bool) -> CacheEntry:
        labels = [
            [item.task, item.id, item.category, item.cluster] for item in self._probe.items[:items]
        ]
        return CacheEntry.of([*self._parts, labels, whole])


def _mixed_precision() -> str:
    # accelerate casts inside the model's `forward`, which torch does not show.
    state = sys.modules.get("accelerate.state")
    is_set = state is not None and state.AcceleratorState._shared_state
    return str(state.AcceleratorState().mixed_precision) if state is not None and is_set else "no"


def asked(model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> Snapshot:
    """Answers to a few questions before a run, perhaps cached."""
    known_baseline = KnownBaseline.of(
        model, tokenizer, probe, token_budget=token_budget, weights=None
    )
    snapshot = None if known_baseline is None else known_baseline.read(len(probe))
    if snapshot is None:
        with shown(
            f"{probe.name}, {len(probe):,} questions", is_main_process=rank() == 0
        ) as progress:
            scorer = Scorer(probe, tokenizer, model, token_budget=token_budget, progress=progress)
            snapshot = scorer.score(model, progress=progress)
        if known_baseline is not None:
            known_baseline.write(snapshot, len(probe), None, whole=True)
    return snapshot


def without_trial(snapshot: Snapshot, *, model: str, step: int) -> Snapshot:
    """Turn a baseline of the cache into a measurement at a step."""
    meta = {name: value for name, value in snapshot.meta.items() if name != _TRIAL}
    return replace(snapshot, meta={**meta, "model": model, "step": step})


def differing(baseline: Snapshot, checked: Snapshot) -> int | None:
    """Number of checked items that differ from the baseline.

    Returns:
        The number, or None if too many differ.
    """
    pairs = zip(
        baseline.floats("correct")[: len(checked)].tolist(),
        checked.floats("correct").tolist(),
        strict=True,
    )
    number = sum(
        before != after and not (before != before and after != after) for before, after in pairs
    )
    return number if number <= _DIFFERING * len(checked) else None
