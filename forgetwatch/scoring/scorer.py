"""A model and a probe to a Snapshot. Tokens and batches are made once and reused at every look."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, encode, unprompted
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.forward import Scores
from forgetwatch.scoring.generation import GeneratedItems, Generator, ModelGenerator
from forgetwatch.scoring.layout import Layout
from forgetwatch.scoring.model import ModelInfo, base_model
from forgetwatch.scoring.outcomes import decide, is_free_correct, lengths, option_mass
from forgetwatch.snapshot import Snapshot

SCORER: Final = "loglikelihood/3"
"""Name and version of the computation of log-likelihoods; part of a cached snapshot's key."""


def score(
    model: nn.Module, tokenizer: Any, probe: Probe, *, progress: Callable[[int, int], None] | None = None
) -> Snapshot:
    """One model's outcomes on one probe: a Snapshot, one row per item.

    Deterministic: the same weights give the same rows, in any order of the items. An item that cannot be scored (too
    long, a choice without tokens) is unscored, with the reason in `outcome`.

    Args:
        model: A causal language model of transformers; it comes back as it was.
        tokenizer: Its tokenizer.
        probe: The items.
        progress: Called after each batch with the number of items done and the number of all items.

    Raises:
        ScoringError: If the model is not a causal language model, or its logits are not finite.
    """

    def report(done: Done) -> None:
        if progress is not None and done.share > 0:
            progress(done.count, done.total)

    return Scorer(probe, tokenizer, model).score(model, progress=report)


class Scorer:
    """Scores models that share a tokenizer on one probe, in the same batches at every call.

    Attributes:
        probe: The items.
        engine: Computes the log-likelihoods; see `engine.Engine`. Items whose margin is not larger than its noise are
            `unstable`.

    Args:
        probe: The items.
        tokenizer: The models' tokenizer; it is only called, and left as it is.
        model: Any of the models; its vocabulary and context length are read.
        layout: Layout of the rows, if it is already decided.
        noise: Noise of the margins, if it is already measured.
        token_budget: Tokens of a batch; by default one that suits the device.
        generates: Also evaluate items with generated answers; otherwise they are unscored, except `must_pass` ones.

    Raises:
        ScoringError: If the model is not a causal language model, or the probe cannot be rendered for the tokenizer.
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
        info = ModelInfo.of(model)
        longest = info.context_length(tokenizer)
        generated = [n for n, item in enumerate(probe) if probe.is_generated(item) and (generates or item.must_pass)]
        self._generated = GeneratedItems(probe, generated, tokenizer, max_length=longest) if generated else None
        self._encoded = encode(probe, tokenizer, max_length=longest)
        keys = [item.content_hash for item in probe]
        if probe.norm == "unconditional":  # the choices without their prompts: item i is followed by n + i
            self._encoded += [unprompted(item, tokenizer) for item in self._encoded]
            keys *= 2
        self._check_vocabulary(info.vocabulary)
        self.engine = Engine(
            info,
            self._encoded,
            keys,
            norm=probe.norm,
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
            name: The model's name, for the metadata; by default the one that it was loaded by.
            progress: Called before the first batch and after each batch with what is done.
            generator: Generates answers, for items that need them; by default the model itself.
            again: Sample generated answers with other seeds, to measure what sampling alone changes.

        Raises:
            ScoringError: If the model does not return finite logits over its vocabulary, or cannot generate.
        """
        started, ran = time.perf_counter(), execution(model)
        scores = self.engine.score(model, None if progress is None else self._by_items(progress))
        scored = time.perf_counter()
        generated: dict[int, list[dict[str, Any]]] = {}
        if self._generated:
            generator = generator or ModelGenerator(model, self._tokenizer, token_budget=self.engine.token_budget)
            generated = self._generated.rows(generator, progress, again=again)
        seconds = time.perf_counter() - started
        meta = {
            "model": name or _name_of(model),
            "step": step,
            "probe": {
                "name": self.probe.name,
                "fingerprint": self.probe.fingerprint,
                "items": len(self.probe),
                **self.probe.settings,
            },
            "scorer": SCORER,
            # The keys of the file format; see `Engine.layout` and `Engine.fallback_reason`.
            "way": self.engine.layout,
            "why_rows": self.engine.fallback_reason,
            "engine": generator.name if generator else "transformers",
            "batch": {"tokens": self.engine.token_budget, "halved": self.engine.halved},
            **ran,
            "noise": self.engine.noise,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
            "written_seconds": round(started + seconds - scored, 3) if generated else 0.0,
        }
        rows = [
            row
            for index in range(len(self.probe))
            for row in _with_generated(self._row(index, scores), generated.get(index))
        ]
        columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
        return Snapshot.from_columns(columns, meta)

    def _by_items(self, progress: Progress) -> Progress:
        """Progress in items of the probe: the engine reads duplicates once, and in each process a part of them."""
        total = sum(not encoded.unscored for encoded in self._encoded[: len(self.probe)])
        following = "generated answers" if self._generated else ""
        return lambda done: progress(
            replace(done, count=round(total * done.count / done.total), total=total, next=following)
        )

    def _check_vocabulary(self, size: int) -> None:
        highest = max((max(ids) for one in self._encoded for ids in (one.context, *one.choices) if ids), default=0)
        if highest >= size:
            raise ScoringError(
                f"the tokenizer gives token id {highest}, and the model's vocabulary has {size} tokens; "
                "load the model's own tokenizer, or resize the model's embeddings"
            )

    def _row(self, index: int, scores: dict[int, Scores]) -> dict[str, Any]:
        """Columns of one item, without those of generated answers."""
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
        # Of the norm `unconditional` the choices without their prompts come after all items.
        own, prior = scores.get(index), scores.get(len(self.probe) + index)
        if own is None or (self.probe.norm == "unconditional" and prior is None):
            missing = self._encoded[len(self.probe) + index] if own is not None else encoded
            if not missing.unscored:
                raise ScoringError(
                    f"item {item.id!r} was to be scored and was not; do all processes evaluate the same items?"
                )
            return row | {"outcome": f"unscored: {missing.unscored}"}
        row |= {"prompt_hash": encoded.prompt_hash}
        if not item.choices:  # the answer was read, and nothing was chosen among options
            return row | {"choice_logprobs": own.logprobs.tolist(), "correct": bool(own.greedy.any())}
        return row | self._choice_columns(item, encoded, own, prior)

    def _choice_columns(self, item: Item, encoded: Encoded, scores: Scores, prior: Scores | None) -> dict[str, Any]:
        unit, priors = lengths(encoded), None if prior is None else prior.logprobs
        decision = decide(scores.logprobs, lengths=unit, norm=self.probe.norm, answers=item.answers, priors=priors)
        return {
            "chosen": decision.chosen,
            "correct": decision.correct,
            "choice_logprobs": scores.logprobs.tolist(),
            "choice_priors": None if priors is None else priors.tolist(),
            **{f"choice_{name}": values.tolist() for name, values in unit.items()},
            "gold_share": decision.gold_share,
            "option_mass": option_mass(scores.logprobs, encoded, scores.spelled),
            "free_correct": is_free_correct(item, encoded, scores.top),
            "margin": None if math.isnan(decision.margin) else decision.margin,
            # False for a margin of nan: a single choice has no other to change to.
            "unstable": bool(decision.margin <= (self.engine.noise or 0.0)),
        }


def _with_generated(row: dict[str, Any], generated: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Rows of an item: a generated answer decides, and the scored choices are kept as `forced_correct`."""
    if generated is None:
        return [row]
    forced = {"forced_correct": row.get("correct")} if row.get("choice_logprobs") is not None else {}
    return [{**row, **forced, "unstable": None, **one} for one in generated]


def _name_of(model: nn.Module) -> str:
    """Name that the model was loaded by, else its class."""
    inner = base_model(model)
    return str(getattr(inner.config, "_name_or_path", "")) or type(inner).__name__


def execution(model: nn.Module) -> dict[str, Any]:
    """Everything besides the weights that can change a log-likelihood: dtype, device and versions."""
    parameter = next(model.parameters())
    return {
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "device": parameter.device.type,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that compute, by name; without those that are not installed."""
    found = {"python": sys.version.split(maxsplit=1)[0]}
    for name in ("forgetwatch", "torch", "transformers", "peft"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
