"""A model and a probe to a Snapshot. The tokens and the batches are made once and reused at every look."""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import Encoded, encode
from forgetwatch.scoring.forward import Progress, Scores, base_model, forward, text_config
from forgetwatch.scoring.isolation import isolated
from forgetwatch.scoring.outcomes import decide, is_free_correct, lengths, option_mass
from forgetwatch.scoring.plan import TOKEN_BUDGET, plan
from forgetwatch.snapshot import Snapshot

SCORER: Final = "rows/1"
"""Name and version of the way log-likelihoods are computed; part of what a cached snapshot stands for."""

_NOISE_ITEMS: Final = 16
_UNLIMITED: Final = 10**9


class Scorer:
    """Scores models that share a tokenizer on one probe, always in the same batches.

    Attributes:
        probe: The items.
        noise: The largest change of a margin, nats, among `_NOISE_ITEMS` items scored again in other batches by the
            first model; None before the first score. Items whose margin is no larger are `unstable`.

    Args:
        probe: The items.
        tokenizer: The models' tokenizer; it is only called, and left as it is.
        model: Any of the models; its vocabulary and context length are read.

    Raises:
        ScoringError: If the model is no language model, or the probe cannot be rendered for the tokenizer.
    """

    def __init__(self, probe: Probe, tokenizer: Any, model: nn.Module) -> None:
        self.probe = probe
        self.noise: float | None = None
        self._encoded = encode(probe, tokenizer, max_length=_context_length(model, tokenizer))
        self._vocabulary: int = text_config(model).vocab_size
        self._check_vocabulary()
        self._batches = plan(probe.items, self._encoded, vocabulary=self._vocabulary)

    def score(
        self, model: nn.Module, *, step: int | None = None, name: str | None = None, progress: Progress | None = None
    ) -> Snapshot:
        """The model's outcomes on the probe. The model, its mode and all random states come back as they were.

        Args:
            model: A causal language model of transformers, also inside PEFT or a data-parallel wrapper.
            step: Optimizer step, for the metadata.
            name: The model's name, for the metadata; by default the one it was loaded by.
            progress: Called after each batch with the rows done and the rows in all.

        Raises:
            ScoringError: If the model does not give finite logits over its vocabulary.
        """
        started = time.perf_counter()
        with isolated(model):
            scores = forward(model, self._batches, self._encoded, progress)
            seconds = time.perf_counter() - started
            if self.noise is None:
                self.noise = self._measure_noise(model, scores)
        meta = {
            "model": name
            or str(getattr(base_model(model).config, "_name_or_path", ""))
            or type(base_model(model)).__name__,
            "step": step,
            "probe": {
                "name": self.probe.name,
                "fingerprint": self.probe.fingerprint,
                "items": len(self.probe),
                **self.probe.settings,
            },
            "scorer": SCORER,
            "engine": "transformers",
            "batch": {"tokens": TOKEN_BUDGET},
            **execution(model),
            "noise": self.noise,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
        }
        rows = [self._row(index, scores.get(index)) for index in range(len(self.probe))]
        columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
        return Snapshot.from_columns(columns, meta)

    def _check_vocabulary(self) -> None:
        highest = max((max(ids) for one in self._encoded for ids in (one.context, *one.choices) if ids), default=0)
        if highest >= self._vocabulary:
            raise ScoringError(
                f"the tokenizer gives token id {highest}, and the model's vocabulary has {self._vocabulary} tokens; "
                "load the model's own tokenizer, or resize the model's embeddings"
            )

    def _row(self, index: int, scores: Scores | None) -> dict[str, Any]:
        item, encoded = self.probe.items[index], self._encoded[index]
        row: dict[str, Any] = {
            "item_id": item.id,
            "content_hash": item.content_hash,
            "task": item.task,
            "category": item.category,
            "cluster": item.cluster,
            "k": item.k,
            "outcome": "ok",
        }
        if item.choices:
            row |= {"gold": item.answers[0], "golds": list(item.answers) if len(item.answers) > 1 else None}
        if scores is None:
            return row | {"outcome": f"unscored: {encoded.unscored}"}
        unit = lengths(encoded)
        decision = decide(scores.logprobs, lengths=unit, norm=self.probe.norm or "sum", answers=item.answers)
        return row | {
            "prompt_hash": encoded.prompt_hash,
            "chosen": decision.chosen,
            "correct": decision.correct,
            "choice_logprobs": scores.logprobs.tolist(),
            **{f"choice_{name}": values.tolist() for name, values in unit.items()},
            "gold_share": decision.gold_share,
            "option_mass": option_mass(scores.logprobs, encoded, scores.spelled),
            "free_correct": is_free_correct(item, encoded, scores.top),
            "margin": None if math.isnan(decision.margin) else decision.margin,
            "unstable": bool(decision.margin <= (self.noise or 0.0)),
        }

    def _measure_noise(self, model: nn.Module, scores: dict[int, Scores]) -> float:
        """How far margins move when a few items are scored again, each row in a batch of its own."""
        sample = sorted(scores)[:: max(1, len(scores) // _NOISE_ITEMS)][:_NOISE_ITEMS]
        items: list[Item] = [self.probe.items[index] for index in sample]
        encoded: list[Encoded] = [self._encoded[index] for index in sample]
        again = forward(model, plan(items, encoded, vocabulary=self._vocabulary, token_budget=1), encoded)
        return max((self._margin_change(index, scores[index], again[n]) for n, index in enumerate(sample)), default=0.0)

    def _margin_change(self, index: int, one: Scores, other: Scores) -> float:
        unit, norm, answers = lengths(self._encoded[index]), self.probe.norm or "sum", self.probe.items[index].answers
        margins = [decide(s.logprobs, lengths=unit, norm=norm, answers=answers).margin for s in (one, other)]
        return 0.0 if math.isnan(margins[0]) else abs(margins[0] - margins[1])


def score(model: nn.Module, tokenizer: Any, probe: Probe, *, progress: Progress | None = None) -> Snapshot:
    """One model's outcomes on one probe: a Snapshot, one row per item.

    Deterministic: the same weights give the same rows, in any order of the items. An item that cannot be scored (too
    long, a choice without tokens) is unscored, with the reason in `outcome`.

    Args:
        model: A causal language model of transformers; it comes back as it was.
        tokenizer: Its tokenizer.
        probe: The items.
        progress: Called after each batch with the rows done and the rows in all.

    Raises:
        ScoringError: If the model is no language model, or its logits are not finite.
    """
    return Scorer(probe, tokenizer, model).score(model, progress=progress)


def execution(model: nn.Module) -> dict[str, Any]:
    """What, beside the weights, can change a log-likelihood: dtype, device and versions."""
    parameter = next(model.parameters())
    return {
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "device": parameter.device.type,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that compute, by name; those that are not installed are left out."""
    found = {"python": sys.version.split(maxsplit=1)[0]}
    for name in ("forgetwatch", "torch", "transformers", "peft"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _context_length(model: nn.Module, tokenizer: Any) -> int:
    """Tokens that model and tokenizer can read; a very large number where neither says."""
    config = text_config(model)
    named = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len", "seq_length")]
    limits = (*named, tokenizer.model_max_length)
    return min(int(limit) if limit and limit > 0 else _UNLIMITED for limit in limits)
