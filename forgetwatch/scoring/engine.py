"""Log-likelihoods of encoded items by one model: the layout is chosen once, by a test on the model, and then kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import torch
from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.probe import Norm
from forgetwatch.progress import Progress
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.layout import Batch, Layout, plan
from forgetwatch.scoring.model import (
    ModelInfo,
    attention_of,
    base_model,
    isolated,
    mask_attentions,
    maskable,
    tree_obstacle,
    unwrapped,
)
from forgetwatch.scoring.parity import Parity, ParityCheck
from forgetwatch.scoring.processes import all_gather, first_reason, shard, world_size
from forgetwatch.scoring.readout import Beside, Scores

_HEAD_TOKENS: Final = 12
"""Tokens of the text on which a model is tried out."""

_EAGER_TOKENS: Final = 4096
"""Maximum number of tokens of a batch of shared rows with eager attention, which stores a score for each pair of tokens
of a row and each head: 6 GB a layer in half precision, with fp32 for the softmax, at 64 heads."""


class Engine:
    """Scores the same items at every call, in the same batches.

    The layout that reads least is used if the model gives the same log-likelihoods with it as with
    single rows, which `parity` measures at the first score; otherwise single rows are used. Later
    scores keep the layout and the batches, so that rounding that depends on them cancels in
    comparisons.

    Attributes:
        layout: Layout of the rows, ``prefix``, ``trie`` or ``rows``; None before the first score.
        fallback_reason: Reasons why layouts that read less were refused; empty if none was.
        attention: Attention implementation with which the rows are read: the model's own for
            ``rows``, else one that takes the mask of a tree; None before the first score.
        noise: Change that no margin exceeds when items are scored again in single rows, nats, as
            far as a few items show; None before the first score.
        token_budget: Tokens of a batch, padding included; a single row may exceed it. Shared rows
            with eager attention have a smaller one.

    Args:
        info: Facts of the models that will be scored.
        encoded: Token ids of the items.
        keys: Their content hashes, which order items of equal length.
        norm: Unit of the score that decides.
        layout: As the attribute, if it is already decided; so are `attention`, for shared rows, and
            `noise`.
        token_budget: By default one that suits the device.
        greedy: Also find the choices that greedy decoding would generate.
        beside: Also read other tokens at each position of the items' only choices; see `readout`.
    """

    def __init__(
        self,
        info: ModelInfo,
        encoded: Sequence[Encoded],
        keys: Sequence[str],
        *,
        norm: Norm = "sum",
        layout: Layout | None = None,
        attention: str | None = None,
        noise: float | None = None,
        token_budget: int | None = None,
        greedy: bool = False,
        beside: Beside = 0,
    ) -> None:
        self._together = world_size() > 1 and info.in_parts
        # Reading a prefix is a call of its own, and processes that hold parts of a model must make
        # equally many. The layout may be that of a baseline which one process scored.
        self.layout: Layout | None = "trie" if layout == "prefix" and self._together else layout
        self.fallback_reason = ""
        self.attention = attention
        self.noise = noise
        self.token_budget = token_budget or info.token_budget
        self._greedy = greedy
        # Duplicates are read once. The least of their keys orders them, whichever comes first in
        # the file.
        duplicates: dict[Encoded, list[int]] = {}
        for index, item in enumerate(encoded):
            duplicates.setdefault(item, []).append(index)
        self._duplicates = list(duplicates.values())
        self._encoded = [encoded[group[0]] for group in self._duplicates]
        self._keys = [min(keys[index] for index in group) for group in self._duplicates]
        # The tokens beside duplicates are the same, as these are the same text.
        if isinstance(beside, int):
            self._beside: Beside = min(beside, info.vocabulary)
        else:
            self._beside = [beside[group[0]] for group in self._duplicates]
        # Per token, the layers cost about 24 h^2 and attention 4 h for each token that is seen:
        # equal at 6 h tokens.
        self._attention = 6 * info.hidden_size
        self._batches: tuple[Batch, ...] = ()
        self._tested = False
        self._forward = ForwardPass(info, together=self._together)
        budget = self.token_budget
        self._parity = ParityCheck(
            self._forward,
            self._encoded,
            self._keys,
            norm=norm,
            token_budget=budget,
            together=self._together,
        )

    def follow(self, engine: Engine) -> None:
        """Take the layout that an engine chose for the same model."""
        if engine.layout is not None:
            self.layout, self.attention, self.noise, self._tested = (
                engine.layout,
                engine.attention,
                engine.noise,
                True,
            )

    @property
    def halved(self) -> int:
        """Number of batches halved because memory was short."""
        return self._forward.halved

    @property
    def tokens(self) -> int:
        """Tokens that a look reads, without padding; 0 before the first."""
        return _tokens(self._batches)

    def planned_tokens(self, layout: Layout, attention: str | None) -> int:
        """Tokens that a look would read in a layout, without padding."""
        return _tokens(self._plan(layout, attention))

    def score(self, model: nn.Module, progress: Progress | None = None) -> dict[int, Scores]:
        """Score all items that can be scored.

        Returns:
            Scores by index. Model and random states come back as they were.

        Raises:
            ScoringError: If the model does not return logits over its vocabulary, or is not causal.
        """
        # Such a probe has generated answers only.
        if all(item.unscored for item in self._encoded):
            return {}
        model = unwrapped(model)
        with isolated(model):
            if self._tested and self.layout is not None:
                scores = self._read(model, self.layout, progress)
            else:
                ids = next(
                    encoded_item.context + encoded_item.choices[0]
                    for encoded_item in self._encoded
                    if not encoded_item.unscored
                )[:_HEAD_TOKENS]
                all_gather(lambda: self._forward.check(model, ids))
                # That of the main process: another one's kernels may round otherwise.
                if all_gather(lambda: self._parity.is_non_causal(model))[0]:
                    raise ScoringError(
                        f"{type(base_model(model)).__name__} returns other logits for a text "
                        "when more text follows; needed a causal language model"
                    )
                progress = None if progress is None else self._with_test(progress)
                score_items = self._choose_layout if self.layout is None else self._confirm_layout
                scores = score_items(model, progress)
                self._tested = True
        return {
            index: item_scores
            for group, item_scores in scores.items()
            for index in self._duplicates[group]
        }

    def _choose_layout(self, model: nn.Module, progress: Progress | None) -> dict[int, Scores]:
        # Shared rows if they are right on this model, else single rows.
        self.fallback_reason = tree_obstacle(model)
        refused: dict[str, list[str]] = {}  # layouts by the reason why they were refused
        shared: tuple[Layout, ...] = ("trie",) if self._together else ("prefix", "trie")
        attempts = (
            []
            if self.fallback_reason
            else [(a, layout) for a in mask_attentions(model) for layout in shared]
        )
        for attention, layout in attempts:
            self._batches = self._plan(layout, attention)
            if layout == "prefix" and not any(batch.prefix for batch in self._batches):
                continue  # no prefix is worth a call: the same batches as `trie`
            try:
                scores, noise, wrong = self._read_shared(model, layout, attention, progress)
            except (
                Exception
            ) as error:  # whatever the model raises for a tree: single rows are always right
                # Each call of the model is inside `all_gather`, which raises in all processes at
                # the same point: what fails in all of them, or after a call, lets all fall back
                # together. (Where one process alone fails within a call of a model in parts, the
                # others wait in the
                # model's own exchange
                # until it times out.)
                reason = (
                    f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                )
                if isinstance(error, torch.OutOfMemoryError):
                    reason = "shared rows do not fit into memory"
                wrong = first_reason(error, reason)
            if wrong:
                refused.setdefault(wrong, []).append(f"{layout} with {attention}")
                self.fallback_reason = "; ".join(
                    f"{', '.join(tried)}: {why}" for why, tried in refused.items()
                )
            else:
                self.layout, self.attention, self.noise = layout, attention, noise
                return scores
        self.layout, self._batches = "rows", ()  # the batches of shared rows are of no use now
        self.attention = attention_of(model)
        scores = self._read(model, "rows", progress)
        self.noise = self._compare(model, scores).noise
        return scores

    def _confirm_layout(self, model: nn.Module, progress: Progress | None) -> dict[int, Scores]:
        # The layout was decided before this engine was made.
        layout = self.layout or "rows"
        if layout == "rows":
            self.attention = attention_of(model)
            scores = self._read(model, layout, progress)
            noise = self._compare(model, scores).noise if self.noise is None else self.noise
        else:
            self.attention = self.attention or mask_attentions(model)[0]
            scores, noise, wrong = self._read_shared(model, layout, self.attention, progress)
            if wrong:
                raise ScoringError(
                    f"shared rows were right when the baseline was made, and are not here: {wrong}"
                )
        # A given noise stays: unstable items must be the same as in the baseline.
        self.noise = noise if self.noise is None else self.noise
        return scores

    def _read_shared(
        self, model: nn.Module, layout: Layout, attention: str, progress: Progress | None
    ) -> tuple[dict[int, Scores], float, str]:
        # Scores, noise of the margins in nats, and the reason why the rows are wrong; the reason is
        # empty if none shows. All processes test, and the main one's result counts: each decides
        # only by that result what it calls next.
        self.attention = attention
        # A short tree first: most models that cannot share rows show it there, before all items are
        # read in vain.
        if wrong := all_gather(
            lambda: self._parity.tree_error(model, layout=layout, attention=attention)
        )[0]:
            return {}, 0.0, wrong
        scores = self._read(model, layout, progress)
        parity = self._compare(model, scores)
        wrong = (
            ""
            if parity.holds
            else f"shared rows differ from single ones by {parity.difference:.2g} nats"
        )
        return scores, parity.noise, wrong

    def _compare(self, model: nn.Module, scores: dict[int, Scores]) -> Parity:
        # Single rows are the reference. All processes get the result of the main process.
        return all_gather(lambda: self._parity.compare(model, scores, self._batches))[0]

    def _with_test(self, progress: Progress) -> Progress:
        # The test that follows the batches is a part of the work.
        return lambda done: progress(
            replace(done, share=done.share / (1 + self._parity.cost(self._batches)))
        )

    def _plan(self, layout: Layout, attention: str | None) -> tuple[Batch, ...]:
        is_costly = layout != "rows" and attention == "eager"
        return plan(
            self._keys,
            self._encoded,
            token_budget=min(self.token_budget, _EAGER_TOKENS) if is_costly else self.token_budget,
            layout=layout,
            attention=self._attention,
        )

    def _read(
        self, model: nn.Module, layout: Layout, progress: Progress | None
    ) -> dict[int, Scores]:
        # Each process reads its shard of the batches, and all get all scores.
        self._batches = self._batches or self._plan(layout, self.attention)
        batches = self._forward.narrowed(self._batches) if self._together else self._batches

        def read() -> dict[int, Scores]:
            with (
                nullcontext()
                if layout == "rows" or self.attention is None
                else maskable(model, self.attention)
            ):
                # Sharding is read from the model again: a trainer may wrap it after this engine was
                # made.
                return self._forward.score(
                    model,
                    shard(batches, model),
                    self._encoded,
                    layout=layout,
                    greedy=self._greedy,
                    beside=self._beside,
                    progress=progress,
                )

        # The choices of one item may be in batches of several processes.
        merged: dict[int, Scores] = {}
        for shard_scores in all_gather(read):
            for item, scores in shard_scores.items():
                merged[item] = merged[item].merged(scores) if item in merged else scores
        return merged


def _tokens(batches: Sequence[Batch]) -> int:
    prefixes = {batch.prefix for batch in batches}
    return sum(len(row.ids) for batch in batches for row in batch.rows) + sum(map(len, prefixes))
