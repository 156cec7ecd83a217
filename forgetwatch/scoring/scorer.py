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
from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import encode, unprompted
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.forward import Progress, Scores
from forgetwatch.scoring.generation import GeneratedItems, Generator, ModelGenerator
from forgetwatch.scoring.layout import Layout
from forgetwatch.scoring.model import base_model, context_length, vocabulary_size
from forgetwatch.scoring.outcomes import decide, is_free_correct, lengths, option_mass
from forgetwatch.snapshot import Snapshot

SCORER: Final = "loglikelihood/3"
"""Name and version of how log-likelihoods are computed; part of what a cached snapshot stands for."""


class Scorer:
    """Scores models that share a tokenizer on one probe, always in the same batches.

    Attributes:
        probe: The items.
        engine: What scores them, and how; see `engine.Engine`. Items whose margin is no larger than its noise are
            `unstable`.

    Args:
        probe: The items.
        tokenizer: The models' tokenizer; it is only called, and left as it is.
        model: Any of the models; its vocabulary and context length are read.
        layout: How rows are made, if that is decided already.
        noise: The noise of the margins, if that was measured already.
        token_budget: Tokens of a batch; by default what suits the device.
        generates: Whether items whose answers are written are asked; else they are unscored, but for `must_pass` ones.

    Raises:
        ScoringError: If the model is no language model, or the probe cannot be rendered for the tokenizer.
    """

    def __init__(
        self,
        probe: Probe,
        tokenizer: Any,
        model: nn.Module,
        *,
        layout: Layout | None = None,
        noise: float | None = None,
        token_budget: int | None = None,
        generates: bool = True,
    ) -> None:
        self.probe = probe
        self._tokenizer = tokenizer
        longest = context_length(model, tokenizer)
        places = [
            place for place, item in enumerate(probe) if probe.is_generated(item) and (generates or item.must_pass)
        ]
        self._generated = GeneratedItems(probe, places, tokenizer, max_length=longest) if places else None
        self._encoded = encode(probe, tokenizer, max_length=longest)
        keys = [item.content_hash for item in probe]
        if probe.norm == "unconditional":  # the choices without their prompts, behind the items
            self._encoded += [unprompted(one, tokenizer) for one in self._encoded]
            keys *= 2
        self._check_vocabulary(vocabulary_size(model))
        self.engine = Engine(
            model,
            self._encoded,
            keys,
            norm=probe.norm or "sum",
            layout=layout,
            noise=noise,
            token_budget=token_budget,
            greedy=any(not item.choices and not probe.is_generated(item) for item in probe),
        )

    def score(
        self,
        model: nn.Module,
        *,
        step: int | None = None,
        name: str | None = None,
        progress: Progress | None = None,
        generator: Generator | None = None,
        again: bool = False,
    ) -> Snapshot:
        """The model's outcomes on the probe. The model, its mode and all random states come back as they were.

        Args:
            model: A causal language model of transformers, also inside PEFT or a data-parallel wrapper.
            step: Optimizer step, for the metadata.
            name: The model's name, for the metadata; by default the one it was loaded by.
            progress: Called after each batch with the items done and the items in all.
            generator: What writes answers, where items need that; by default the model itself.
            again: Draw written answers with other seeds, to see what drawing alone changes.

        Raises:
            ScoringError: If the model does not give finite logits over its vocabulary, or cannot write.
        """
        started, ran = time.perf_counter(), execution(model)
        scores = self.engine.score(model, progress)
        written: dict[int, list[dict[str, Any]]] = {}
        scored = time.perf_counter()
        if self._generated:
            generator = generator or ModelGenerator(model, self._tokenizer, token_budget=self.engine.token_budget)
            written = self._generated.ask(generator, progress, again=again)
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
            "way": self.engine.layout,
            "why_rows": self.engine.fallback_reason,
            "engine": generator.name if generator else "transformers",
            "batch": {"tokens": self.engine.token_budget, "halved": self.engine.halved},
            **ran,
            "noise": self.engine.noise,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
            "written_seconds": round(started + seconds - scored, 3) if written else 0.0,
        }
        rows = [
            row
            for index in range(len(self.probe))
            for row in _with_written(self._row(index, scores), written.get(index))
        ]
        columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
        return Snapshot.from_columns(columns, meta)

    def _check_vocabulary(self, size: int) -> None:
        highest = max((max(ids) for one in self._encoded for ids in (one.context, *one.choices) if ids), default=0)
        if highest >= size:
            raise ScoringError(
                f"the tokenizer gives token id {highest}, and the model's vocabulary has {size} tokens; "
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
            "sample": 0,
            "k": item.k,
            "outcome": "ok",
        }
        if item.choices:
            row |= {"gold": item.answers[0], "golds": list(item.answers) if len(item.answers) > 1 else None}
        own, prior = scores.get(index), scores.get(len(self.probe) + index)
        if own is None or (self.probe.norm == "unconditional" and prior is None):
            other = self._encoded[len(self.probe) + index] if own is not None else encoded
            if not other.unscored:
                raise ScoringError(
                    f"item {item.id!r} was to be scored and was not; do all processes ask the same items?"
                )
            return row | {"outcome": f"unscored: {other.unscored}"}
        if not item.choices:  # an answer that was read, and not chosen among others
            read = {"choice_logprobs": own.logprobs.tolist(), "correct": bool(own.greedy.any())}
            return row | {"prompt_hash": encoded.prompt_hash, **read}
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
            "unstable": bool(decision.margin <= (self.engine.noise or 0.0)),
        }


def _with_written(row: dict[str, Any], written: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The rows of an item: what was written decides, and stands beside what scoring its choices would decide."""
    if written is None:
        return [row]
    forced = {"forced_correct": row.get("correct")} if row.get("choice_logprobs") is not None else {}
    return [{**row, **forced, "unstable": None, **one} for one in written]


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
