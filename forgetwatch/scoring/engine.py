"""Log-likelihoods of encoded items by one model: the way is found once, by a test on the model, and then kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

import torch
from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.forward import Progress, Reader, Scores
from forgetwatch.scoring.isolation import isolated, maskable
from forgetwatch.scoring.layout import Batch, Layout, plan
from forgetwatch.scoring.model import (
    base_model,
    device_of,
    has_weights,
    is_sharded,
    text_config,
    tree_obstacle,
    unwrapped,
    vocabulary_size,
)
from forgetwatch.scoring.parity import Parity, check_parity, has_mask_leakage, is_non_causal
from forgetwatch.scoring.processes import all_gather, is_tensor_parallel, shard, world_size

CPU_TOKENS: Final = 1024
CUDA_TOKENS: Final = 16384
"""Tokens of a batch: what keeps the device busy; longer batches only cost memory."""


class Engine:
    """Scores the same items again and again, always in the same batches.

    What the texts of items begin with is read once, if the model gives the same log-likelihoods then as it gives for
    single rows: `self_test` measures that at the first score, and falls back to single rows. Later scores keep the way
    and the batches, so that what depends on them cancels in comparisons.

    Attributes:
        layout: How rows are made, ``prefix``, ``trie`` or ``rows``; None before the first score.
        fallback_reason: Why it is ``rows``; empty where it is not.
        noise: What no margin moves by, nats, when items are scored again in rows of their own, as far as a few items
            tell; None before the first score.
        token_budget: Tokens of a batch, padding included; a single row may exceed it.

    Args:
        model: Any of the models that will be scored.
        encoded: The items as token ids.
        keys: Their content hashes, which order items of equal length.
        norm: The unit of the score that decides.
        layout: How rows are made, if that is decided already.
        noise: The noise of the margins, if that was measured already.
        token_budget: By default what suits the device.
        greedy: Whether to say which choices greedy decoding would write.
    """

    def __init__(
        self,
        model: nn.Module,
        encoded: Sequence[Encoded],
        keys: Sequence[str],
        *,
        norm: Norm = "sum",
        layout: Layout | None = None,
        noise: float | None = None,
        token_budget: int | None = None,
        greedy: bool = False,
    ) -> None:
        on_cpu = has_weights(model) and device_of(model).type == "cpu"
        self.layout = layout
        self.fallback_reason = ""
        self.noise = noise
        self.token_budget = token_budget or (CPU_TOKENS if on_cpu else CUDA_TOKENS)
        self._norm, self._greedy = norm, greedy
        # What is asked twice is read once, and whichever stands first in the file: the lesser key orders it.
        duplicates: dict[Encoded, list[int]] = {}
        for index, one in enumerate(encoded):
            duplicates.setdefault(one, []).append(index)
        self._duplicates = list(duplicates.values())
        self._encoded = [encoded[group[0]] for group in self._duplicates]
        self._keys = [min(keys[index] for index in group) for group in self._duplicates]
        self._vocabulary = vocabulary_size(model)
        # Per token, the layers cost about 24 h^2 and attention 4 h for each token that is looked at.
        self._attention = 6 * int(getattr(text_config(model), "hidden_size", 0) or 0)
        self._batches: tuple[Batch, ...] = ()
        self._tested = False
        self._together = world_size() > 1 and (is_sharded(model) or is_tensor_parallel(model))
        self._reader = Reader(model, together=self._together)

    @property
    def halved(self) -> int:
        """Batches that did not fit into memory and were halved."""
        return self._reader.halved

    @property
    def tokens(self) -> int:
        """Tokens that a look reads, padding not counted; 0 before the first."""
        prefixes = {batch.prefix for batch in self._batches}
        return sum(len(row.ids) for batch in self._batches for row in batch.rows) + sum(map(len, prefixes))

    def score(self, model: nn.Module, progress: Progress | None = None) -> dict[int, Scores]:
        """Scores of all items that can be scored, by position. The model and all random states come back as they were.

        Raises:
            ScoringError: If the model does not give finite logits over its vocabulary.
        """
        if all(one.unscored for one in self._encoded):
            return {}
        model = unwrapped(model)
        with isolated(model):
            if self._tested and self.layout is not None:
                scores = self._read(model, self.layout, progress)
            else:
                all_gather(lambda: self._check_causal(model))
                find = self._find_layout if self.layout is None else self._keep_layout
                scores = find(model, progress)
                self._tested = True
        return {index: one for at, one in scores.items() for index in self._duplicates[at]}

    def _check_causal(self, model: nn.Module) -> None:
        if (ids := self._some_tokens()) and is_non_causal(self._reader, model, ids, vocabulary=self._vocabulary):
            raise ScoringError(
                f"{type(base_model(model)).__name__} says something else of a text when more text follows; needed a "
                "causal language model"
            )

    def _some_tokens(self) -> Ids:
        """Token ids to try things out with; none where nothing can be scored."""
        return next((one.context + one.choices[0] for one in self._encoded if not one.unscored), ())[:12]

    def _keep_layout(self, model: nn.Module, progress: Progress | None) -> dict[int, Scores]:
        """Scores in the way that was decided elsewhere, if it is right here too.

        Raises:
            ScoringError: If shared rows are wrong on this model, with these versions, on this device.
        """
        layout = self.layout or "rows"
        scores = self._read(model, layout, progress)
        if layout != "rows" or self.noise is None:
            noise, why = self._test(model, layout, scores)
            if why:
                raise ScoringError(f"shared rows were right when the baseline was made, and are not here: {why}")
            self.noise = noise if self.noise is None else self.noise
        return scores

    def _test(self, model: nn.Module, layout: Layout, scores: dict[int, Scores]) -> tuple[float, str]:
        """The noise of the margins, and why shared rows are wrong (empty if nothing shows that), in all processes."""

        def own() -> tuple[float, str]:
            test = self._parity(model, scores)
            if layout == "rows":
                return test.noise, ""
            if not test.holds:
                return test.noise, f"shared rows differ from single ones by {test.difference:.2g} nats"
            with maskable(model):
                leaks = has_mask_leakage(
                    self._reader, model, self._some_tokens(), layout=layout, vocabulary=self._vocabulary
                )
            return test.noise, "tokens of one branch change another" if leaks else ""

        return all_gather(own)[0]

    def _find_layout(self, model: nn.Module, progress: Progress | None) -> dict[int, Scores]:
        """Scores by shared rows, if they are right on this model; else by single rows, and why."""
        self.fallback_reason = tree_obstacle(model)
        # A prefix is a call of its own, and processes with parts of the model make as many calls each.
        layouts: tuple[Layout, ...] = (
            () if self.fallback_reason else ("trie",) if self._together else ("prefix", "trie")
        )
        for layout in layouts:
            self._batches = self._plan(layout)
            if layout == "prefix" and not any(batch.prefix for batch in self._batches):
                continue
            try:
                scores = self._read(model, layout, progress)
                noise, self.fallback_reason = self._test(model, layout, scores)
            except torch.OutOfMemoryError:
                if self._together:
                    raise
                self.fallback_reason = "shared rows do not fit into memory"
            except Exception as error:  # whatever the model does not like about a tree: single rows are always right
                if self._together:  # the others may be in the middle of a call
                    raise
                self.fallback_reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            else:
                if not self.fallback_reason:
                    self.layout, self.noise = layout, noise
                    return scores
        self.layout, self._batches = "rows", ()
        scores = self._read(model, "rows", progress)
        self.noise, _ = self._test(model, "rows", scores)
        return scores

    def _plan(self, layout: Layout) -> tuple[Batch, ...]:
        return plan(
            self._keys,
            self._encoded,
            vocabulary=self._vocabulary,
            layout=layout,
            attention=self._attention,
            token_budget=self.token_budget,
        )

    def _read(self, model: nn.Module, layout: Layout, progress: Progress | None) -> dict[int, Scores]:
        """Scores of all items: each process reads its share of the batches, and all have all scores."""
        self._batches = self._batches or self._plan(layout)
        batches = self._reader.narrowed(self._batches) if self._together else self._batches

        def own() -> dict[int, Scores]:
            with nullcontext() if layout == "rows" else maskable(model):
                return self._reader.read(
                    model, shard(batches, model), self._encoded, layout=layout, greedy=self._greedy, progress=progress
                )

        merged: dict[int, Scores] = {}
        for part in all_gather(own):
            for item, scores in part.items():
                merged[item] = merged[item].with_read(scores) if item in merged else scores
        return merged

    def _parity(self, model: nn.Module, scores: dict[int, Scores]) -> Parity:
        return check_parity(
            self._reader,
            model,
            self._keys,
            self._encoded,
            scores,
            self._batches,
            norm=self._norm,
            vocabulary=self._vocabulary,
            token_budget=self.token_budget,
        )
