"""Batches through a model: log-likelihoods of the choices, read off the logits that they need and no others.

Log-softmax in fp32 and sums in fp64, whatever the model's dtype: sums in bf16 come in steps of half a nat and tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import torch
from torch import Tensor, nn

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.layout import LOGIT_BUDGET, Batch, Layout, Request, Row
from forgetwatch.scoring.model import (
    attention_of,
    base_model,
    device_of,
    head_in_fp32,
    keep_modes,
    text_config,
    vocabulary_size,
)
from forgetwatch.scoring.tensors import BatchTensors, Keep, PrefixCache, tensors_of, tree_options

Progress = Callable[[int, int], None]
"""Called with the items done and the items in all."""

_REFUSALS: Final = (AssertionError, AttributeError, LookupError, RuntimeError, ScoringError, TypeError, ValueError)
"""What a model may raise about a wish that it does not understand."""

_CHUNK: Final = 2**19
"""Logits that are normalised at a time."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What the model says of one item.

    Attributes:
        logprobs: Log-likelihood of each choice, nats, float64 [choices].
        tokens: Log-probability of each token of each choice, nats, float64 [tokens] by choice.
        greedy: Whether each choice is what greedy decoding would write, bool [choices]; only where it was asked for.
        spelled: Probability of the other spellings of the choices, together.
        top: The most likely next token after the context; -1 where it was not read.
        order: The choice before which `top` and `spelled` were read, the first that there is.
    """

    logprobs: np.ndarray[Any, np.dtype[np.float64]]
    tokens: list[np.ndarray[Any, np.dtype[np.float64]]]
    greedy: np.ndarray[Any, np.dtype[np.bool_]]
    spelled: float = 0.0
    top: int = -1
    order: int = -1

    @classmethod
    def of(cls, choices: int) -> Self:
        """The scores of an item of which nothing was read yet."""
        return cls(logprobs=np.full(choices, np.nan), tokens=[np.empty(0)] * choices, greedy=np.zeros(choices, bool))

    def with_read(self, other: Scores) -> Scores:
        """These scores, and those of the same item that another process read."""
        first = min((one for one in (self, other) if one.top >= 0), key=lambda one: one.order, default=self)
        return replace(
            first,
            logprobs=np.where(np.isnan(self.logprobs), other.logprobs, self.logprobs),
            tokens=[own if own.size else read for own, read in zip(self.tokens, other.tokens, strict=True)],
            greedy=self.greedy | other.greedy,
        )


class Reader:
    """Reads scores off a model, batch by batch, and remembers how the model has to be called.

    Attributes:
        halved: Batches that did not fit into memory and were halved.

    Args:
        model: A causal language model.
        together: Whether several processes must make the same number of calls. Then no batch that does not fit into
            memory is halved, and what is wrong is told after the last batch.
    """

    def __init__(self, model: nn.Module, *, together: bool = False) -> None:
        self.halved = 0
        self._together = together
        self._keeps = keep_modes(model)
        self._vocabulary = vocabulary_size(model)

    def read(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        *,
        layout: Layout,
        greedy: bool = False,
        progress: Progress | None = None,
    ) -> dict[int, Scores]:
        """Scores of all items in the batches, by position in the probe.

        Args:
            model: The model, in evaluation mode; call inside `isolated`.
            batches: Made by `plan`.
            encoded: The items' token ids.
            layout: How the batches were made.
            greedy: Whether to say which choices greedy decoding would write.
            progress: Called after each batch.

        Raises:
            ScoringError: If what the model returns are no logits over its vocabulary, or not finite.
        """
        requested = [request for batch in batches for row in batch.rows for request in row.requests]
        found = {request.item: Scores.of(len(encoded[request.item].choices)) for request in requested}
        left, waiting, done = Counter(request.item for request in requested), list(reversed(batches)), 0
        prefix: tuple[Ids, PrefixCache | None] = (), None
        wrong: list[ScoringError] = []
        with head_in_fp32(model):
            while waiting:
                batch = waiting.pop()
                if self._is_too_wide(batch) and not self._together:
                    waiting += reversed(batch.halves)
                    continue
                if batch.prefix != prefix[0]:
                    prefix = (), None  # the one before is let go first
                    prefix = batch.prefix, self.read_prefix(model, batch.prefix)
                try:
                    tensors = tensors_of(batch)
                    flat = self.logits(model, tensors, layout=layout, cache=prefix[1])
                except torch.OutOfMemoryError:
                    if self._together or len(batch.rows) == 1:
                        raise
                    self.halved += 1
                    waiting += reversed(batch.halves)
                    continue
                try:
                    _read_off(flat, tensors, batch, encoded, found, greedy=greedy)
                except ScoringError as error:
                    if not self._together:
                        raise
                    wrong.append(error)
                del flat  # before the next batch makes its own
                for row in batch.rows:
                    for request in row.requests:
                        left[request.item] -= 1
                        done += left[request.item] == 0
                if progress:
                    progress(done, len(left))
        if wrong:
            raise wrong[0]
        return found

    def narrowed(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches, halved until none gives back too many logits: so many calls each process makes."""
        fitting: list[Batch] = []
        for batch in batches:
            fitting += self.narrowed(batch.halves) if self._is_too_wide(batch) else [batch]
        return fitting

    def _is_too_wide(self, batch: Batch) -> bool:
        """Whether the model would give back too many logits, told in the way that it understands."""
        if len(batch.rows) == 1 or self._keeps[0] == "mask":
            return False
        places, width = {place for row in batch.rows for place in row.places}, batch.width
        kept = {"positions": len(places), "last": width - min(places), "all": width}[self._keeps[0]]
        return len(batch.rows) * kept * self._vocabulary > LOGIT_BUDGET

    def read_prefix(self, model: nn.Module, ids: Ids) -> PrefixCache | None:
        """Keys and values of the tokens that rows go on from; None where there are none."""
        if not ids:
            return None
        cache, length = PrefixCache(), len(ids)
        last = Request(item=0, choice=0, places=(length - 1,), targets=ids[:1])
        row = Row(ids=ids, depths=tuple(range(length)), ends=(length,) * length, requests=(last,))
        self.logits(model, tensors_of(Batch((row,))), layout="prefix", cache=cache)
        cache.is_read = True
        return cache

    def logits(
        self, model: nn.Module, tensors: BatchTensors, *, layout: Layout, cache: PrefixCache | None = None
    ) -> Tensor:
        """The logits that are needed, [needed, vocabulary] in the order of `tensors.index`.

        Args:
            model: The model.
            tensors: The rows.
            layout: How they were made.
            cache: Of the prefix before each row, or to be filled by them.
        """
        dtype, device = next(model.parameters()).dtype, device_of(model)
        if layout == "rows":
            options: dict[str, Any] = {"attention_mask": tensors.mask}
        else:
            additive = dtype if attention_of(model) == "eager" else None
            prefix = cache.get_seq_length() if cache is not None else 0
            options = tree_options(text_config(model), tensors, device=device, additive=additive, prefix=prefix)
        options["use_cache"] = cache is not None
        if cache is not None:
            options["past_key_values"] = cache
        # A tree whose mask the model cannot take fails whatever is kept: the widest way is not tried for it.
        keeps = [keep for keep in self._keeps if layout == "rows" or keep != "all" or len(self._keeps) == 1]
        for keep in keeps:
            kept = tensors.keep_as(keep)
            asked = options if kept is None else {**options, "logits_to_keep": kept}
            moved = {name: _to(value, device) for name, value in asked.items()}
            if cache is not None and not cache.is_read:
                cache.layers.clear()  # what a refused call left
            try:
                output = model(input_ids=tensors.ids.to(device), **moved)
                flat = _kept(model, output, tensors, keep, vocabulary=self._vocabulary)
            except torch.OutOfMemoryError:
                raise
            except _REFUSALS:
                # Some models take a whole number only, or give back all positions whatever they are asked.
                if keep == keeps[-1]:
                    raise
            else:
                self._keeps = self._keeps[self._keeps.index(keep) :]
                return flat
        raise ScoringError("no way to read logits off the model was left")


def _read_off(
    flat: Tensor,
    tensors: BatchTensors,
    batch: Batch,
    encoded: Sequence[Encoded],
    found: dict[int, Scores],
    *,
    greedy: bool,
) -> None:
    """The scores of a batch's requests, read off its logits."""
    requests = [(number, request) for number, row in enumerate(batch.rows) for request in row.requests]
    places = [tensors.index[number, place] for number, request in requests for place in request.places]
    targets = [target for _, request in requests for target in request.targets]
    logprobs = _token_logprobs(flat, places, targets)
    likeliest = flat.argmax(-1).cpu().numpy() if greedy else None
    offset = 0
    for number, request in requests:
        part = slice(offset, offset + len(request.targets))
        offset = part.stop
        scores = found[request.item]
        scores.tokens[request.choice] = logprobs[part]
        scores.logprobs[request.choice] = logprobs[part].sum()
        if likeliest is not None:
            scores.greedy[request.choice] = (likeliest[places[part]] == targets[part]).all()
        if not 0 <= scores.order <= request.choice:
            first = flat[tensors.index[number, request.places[0]]].float()
            others = sorted({token for tokens in encoded[request.item].spellings for token in tokens})
            spelled = float(torch.softmax(first, -1)[others].double().sum()) if others else 0.0
            found[request.item] = replace(scores, top=int(first.argmax()), spelled=spelled, order=request.choice)


def _to(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {name: _to(part, device) for name, part in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value


def _kept(model: nn.Module, output: Any, tensors: BatchTensors, keep: Keep, *, vocabulary: int) -> Tensor:
    """The logits that are read, [needed, vocabulary] in the order of `index`, if that is what the model returned."""
    logits = getattr(output, "logits", None)
    name = type(base_model(model)).__name__
    if not isinstance(logits, Tensor):
        raise ScoringError(f"{name} returned no logits; needed a causal language model with its language head")
    rows, width = tensors.ids.shape
    needed = int(tensors.needed.sum())
    if keep == "mask" and tuple(logits.shape) == (needed, vocabulary):
        return logits
    columns = tensors.needed.any(0).nonzero()[:, 0] if keep == "positions" else None
    if logits.ndim == 3 and keep == "all" and logits.shape[1] > width:
        logits = logits[:, -width:]  # tokens that prompt learning put before the text
    starts = {width: torch.arange(width), width - tensors.first: torch.arange(tensors.first, width)}
    if columns is not None:
        starts = {width: starts[width], len(columns): columns}
    if logits.ndim != 3 or logits.shape[0] != rows or logits.shape[1] not in starts or logits.shape[2] != vocabulary:
        raise ScoringError(
            f"{name} returned logits of shape {tuple(logits.shape)}, needed {vocabulary} numbers, one per token of the "
            f"vocabulary, at {needed} positions of {rows} rows of {width} tokens; needed a causal language model with "
            "its language head"
        )
    held = tensors.needed[:, starts[logits.shape[1]]].to(logits.device)
    return logits[held]


def _token_logprobs(flat: Tensor, places: Sequence[int], targets: Sequence[int]) -> np.ndarray[Any, Any]:
    """Log-probability of each target at its place, nats, float64; `flat` is [places, vocabulary]."""
    place, token = np.array(places), np.array(targets)
    order = np.argsort(place, kind="stable")
    step = max(1, _CHUNK // flat.shape[-1])
    bounds = np.searchsorted(place[order], np.arange(0, len(flat) + step, step))
    parts = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        if first < last:
            cells = order[first:last]
            # The fused log-softmax in fp32 on a piece that fits into the cache: no float copy of all logits.
            logprobs = torch.log_softmax(flat[number * step : (number + 1) * step].float(), dim=-1)
            parts.append(logprobs[torch.from_numpy(place[cells] - number * step), torch.from_numpy(token[cells])])
    values = np.empty(len(place))
    values[order] = torch.cat(parts).double().cpu().numpy()
    if not np.isfinite(values).all():
        raise ScoringError("the model's logits are not finite; has the run diverged?")
    return values
