"""A model and a probe to a Snapshot. The tokens and the batches are made once and reused at every look."""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import torch
from torch import distributed, nn

from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import encode, unprompted
from forgetwatch.scoring.forward import Progress, Reader, Scores
from forgetwatch.scoring.isolation import isolated
from forgetwatch.scoring.model import base_model, text_config, vocabulary_size, why_not_trees
from forgetwatch.scoring.outcomes import decide, is_free_correct, lengths, option_mass
from forgetwatch.scoring.plan import Batch, Way, plan
from forgetwatch.scoring.self_test import Agreement, agreement
from forgetwatch.snapshot import Snapshot

SCORER: Final = "trie/1"
"""Name and version of how log-likelihoods are computed; part of what a cached snapshot stands for."""

CPU_TOKENS: Final = 1024
CUDA_TOKENS: Final = 16384
"""Tokens of a batch: what keeps the device busy; longer batches only cost memory."""

_UNLIMITED: Final = 10**9


class Scorer:
    """Scores models that share a tokenizer on one probe, always in the same batches.

    What the texts of items begin with is read once, if the model gives the same log-likelihoods then as it gives for
    single rows: `self_test` measures that at the first score, and falls back to single rows. Later scores keep the way
    and the batches, so that what depends on them cancels in comparisons.

    Attributes:
        probe: The items.
        way: How rows are made, ``trie`` or ``rows``; None before the first score.
        why_rows: Why it is ``rows``; empty where it is not.
        noise: The largest change of a margin, nats, when a few items are scored again in rows of their own; None
            before the first score. Items whose margin is no larger are `unstable`.

    Args:
        probe: The items.
        tokenizer: The models' tokenizer; it is only called, and left as it is.
        model: Any of the models; its vocabulary and context length are read.
        way: How rows are made, if that is decided already.
        noise: The noise of the margins, if that was measured already.
        token_budget: Tokens of a batch; by default what suits the device.

    Raises:
        ScoringError: If the model is no language model, or the probe cannot be rendered for the tokenizer.
    """

    def __init__(
        self,
        probe: Probe,
        tokenizer: Any,
        model: nn.Module,
        *,
        way: Way | None = None,
        noise: float | None = None,
        token_budget: int | None = None,
    ) -> None:
        self.probe = probe
        self.way = way
        self.why_rows = ""
        self.noise = noise
        self._encoded = encode(probe, tokenizer, max_length=_context_length(model, tokenizer))
        self._keys = [item.content_hash for item in probe]
        if probe.norm == "unconditional":  # the choices without their prompts, behind the items
            self._encoded += [unprompted(one, tokenizer) for one in self._encoded]
            self._keys *= 2
        self._vocabulary = vocabulary_size(model)
        self._check_vocabulary()
        on_cpu = next(model.parameters()).device.type == "cpu"
        self.token_budget = token_budget or (CPU_TOKENS if on_cpu else CUDA_TOKENS)
        # Per token, the layers cost about 24 h^2 and attention 4 h for each token that is looked at.
        self._attention = 6 * int(getattr(text_config(model), "hidden_size", 0) or 0)
        self._batches: tuple[Batch, ...] = ()
        self._reader = Reader(model, back_off=_is_alone())

    def score(
        self, model: nn.Module, *, step: int | None = None, name: str | None = None, progress: Progress | None = None
    ) -> Snapshot:
        """The model's outcomes on the probe. The model, its mode and all random states come back as they were.

        Args:
            model: A causal language model of transformers, also inside PEFT or a data-parallel wrapper.
            step: Optimizer step, for the metadata.
            name: The model's name, for the metadata; by default the one it was loaded by.
            progress: Called after each batch with the items done and the items in all.

        Raises:
            ScoringError: If the model does not give finite logits over its vocabulary.
        """
        started = time.perf_counter()
        with isolated(model):
            if self.way is None:
                scores = self._find_way(model, progress)
            else:
                scores = self._read(model, self.way, progress)
                if self.noise is None:
                    self.noise = self._agreement(model, scores).noise
        seconds = time.perf_counter() - started
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
            "way": self.way,
            "why_rows": self.why_rows,
            "engine": "transformers",
            "batch": {"tokens": self.token_budget, "halved": self._reader.halved},
            **execution(model),
            "noise": self.noise,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
        }
        rows = [self._row(index, scores) for index in range(len(self.probe))]
        columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
        return Snapshot.from_columns(columns, meta)

    def _check_vocabulary(self) -> None:
        highest = max((max(ids) for one in self._encoded for ids in (one.context, *one.choices) if ids), default=0)
        if highest >= self._vocabulary:
            raise ScoringError(
                f"the tokenizer gives token id {highest}, and the model's vocabulary has {self._vocabulary} tokens; "
                "load the model's own tokenizer, or resize the model's embeddings"
            )

    def _row(self, index: int, scores: dict[int, Scores]) -> dict[str, Any]:
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
        own, prior = scores.get(index), scores.get(len(self.probe) + index)
        if own is None or (self.probe.norm == "unconditional" and prior is None):
            other = self._encoded[len(self.probe) + index] if own is not None else encoded
            return row | {"outcome": f"unscored: {other.unscored}"}
        unit, priors = lengths(encoded), None if prior is None else prior.logprobs
        decision = decide(
            own.logprobs, lengths=unit, norm=self.probe.norm or "sum", answers=item.answers, priors=priors
        )
        return row | {
            "prompt_hash": encoded.prompt_hash,
            "chosen": decision.chosen,
            "correct": decision.correct,
            "choice_logprobs": own.logprobs.tolist(),
            "choice_priors": None if priors is None else priors.tolist(),
            **{f"choice_{name}": values.tolist() for name, values in unit.items()},
            "gold_share": decision.gold_share,
            "option_mass": option_mass(own.logprobs, encoded, own.spelled),
            "free_correct": is_free_correct(item, encoded, own.top),
            "margin": None if math.isnan(decision.margin) else decision.margin,
            "unstable": bool(decision.margin <= (self.noise or 0.0)),
        }

    def _find_way(self, model: nn.Module, progress: Progress | None) -> dict[int, Scores]:
        """Scores by shared rows, if they are right on this model; else by single rows, and why."""
        self.why_rows = why_not_trees(model)
        if not self.why_rows:
            try:
                scores = self._read(model, "trie", progress)
                test = self._agreement(model, scores)
                if test.holds:
                    self.way, self.noise = "trie", test.noise
                    return scores
                self.why_rows = f"shared rows differ from single ones by {test.difference:.2g} nats"
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # whatever the model does not like about a tree: single rows are always right
                self.why_rows = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        self.way, self._batches = "rows", ()
        scores = self._read(model, "rows", progress)
        self.noise = self._agreement(model, scores).noise
        return scores

    def _read(self, model: nn.Module, way: Way, progress: Progress | None) -> dict[int, Scores]:
        if not self._batches:
            self._batches = plan(
                self._keys,
                self._encoded,
                vocabulary=self._vocabulary,
                way=way,
                attention=self._attention,
                token_budget=self.token_budget,
            )
        return self._reader.read(model, self._batches, self._encoded, way=way, progress=progress)

    def _agreement(self, model: nn.Module, scores: dict[int, Scores]) -> Agreement:
        return agreement(
            self._reader,
            model,
            self._keys,
            self._encoded,
            scores,
            self._batches,
            norm=self.probe.norm or "sum",
            vocabulary=self._vocabulary,
        )


def score(model: nn.Module, tokenizer: Any, probe: Probe, *, progress: Progress | None = None) -> Snapshot:
    """One model's outcomes on one probe: a Snapshot, one row per item.

    Deterministic: the same weights give the same rows, in any order of the items. An item that cannot be scored (too
    long, a choice without tokens) is unscored, with the reason in `outcome`.

    Args:
        model: A causal language model of transformers; it comes back as it was.
        tokenizer: Its tokenizer.
        probe: The items.
        progress: Called after each batch with the items done and the items in all.

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


def _is_alone() -> bool:
    """Whether no other process makes the same calls at the same time."""
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)


def _context_length(model: nn.Module, tokenizer: Any) -> int:
    """Tokens that model and tokenizer can read; a very large number where neither says."""
    config = text_config(model)
    named = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len", "seq_length")]
    limits = (*named, tokenizer.model_max_length)
    return min(int(limit) if limit and limit > 0 else _UNLIMITED for limit in limits)
