"""Forward passes of batches: log-likelihoods of the choices, from the logits that they need and no others.

    batch ─▶ tensors ─▶ model(logits_to_keep=...) ─▶ logits [needed, vocabulary] ─▶ Scores of each item

Log-softmax is computed in fp32 and summed in fp64, whatever the model's dtype: sums in bf16 come in steps of half a nat
and tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.layout import LOGIT_BUDGET, Batch, Layout, Request, Row
from forgetwatch.scoring.model import ModelInfo, attention_of, base_model, device_of, head_in_fp32, text_config
from forgetwatch.scoring.tensors import BatchTensors, Keep, PrefixCache, tensors_of, tree_options

_REFUSALS: Final = (AssertionError, AttributeError, LookupError, RuntimeError, ScoringError, TypeError, ValueError)
"""Errors that a model may raise for an argument that it does not support."""

_CHUNK: Final = 2**19
"""Logits that are normalised at a time."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Log-likelihoods of one item's choices.

    Attributes:
        logprobs: Log-likelihood of each choice, nats, float64 [choices]; nan where it was not read.
        tokens: Log-probability of each token of each choice, nats, float64 [tokens] by choice.
        greedy: True for each choice that greedy decoding would generate, bool [choices]; False unless requested.
        spelled: Total probability of the other spellings of the choices, 0 to 1.
        top: The most likely next token after the context; -1 where it was not read.
        order: Lowest index of a choice that was read; `top` and `spelled` are from its row; -1 before any was read.
    """

    logprobs: NDArray[np.float64]
    tokens: list[NDArray[np.float64]]
    greedy: NDArray[np.bool_]
    spelled: float = 0.0
    top: int = -1
    order: int = -1

    @classmethod
    def of(cls, choices: int) -> Self:
        """Scores of an item before any of its choices is read."""
        return cls(logprobs=np.full(choices, np.nan), tokens=[np.empty(0)] * choices, greedy=np.zeros(choices, bool))

    def merged(self, other: Scores) -> Scores:
        """These scores together with those of the same item from another process."""
        # The lowest choice decides, so that the result does not depend on which process read what.
        first = min((one for one in (self, other) if one.top >= 0), key=lambda one: one.order, default=self)
        return replace(
            first,
            logprobs=np.where(np.isnan(self.logprobs), other.logprobs, self.logprobs),
            tokens=[own if own.size else read for own, read in zip(self.tokens, other.tokens, strict=True)],
            greedy=self.greedy | other.greedy,
        )


class ForwardPass:
    """Reads log-likelihoods with a model, batch by batch, and remembers how the model has to be called.

    Attributes:
        vocabulary: Number of logits at each position.
        halved: Number of batches that did not fit into memory and were halved.

    Args:
        info: Facts of the models.
        together: True if several processes must make the same number of calls. No batch is halved then for lack of
            memory, and an error of what was read is raised after the last batch.
    """

    def __init__(self, info: ModelInfo, *, together: bool = False) -> None:
        self.vocabulary = info.vocabulary
        self.halved = 0
        self._together = together
        self._keeps = info.keep_modes  # those that the model has not refused

    def score(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        *,
        layout: Layout,
        greedy: bool = False,
        progress: Progress | None = None,
    ) -> dict[int, Scores]:
        """Scores of all items in the batches, by index in the probe.

        Args:
            model: The model, in evaluation mode; call inside `isolated`.
            batches: Planned by `plan`.
            encoded: Token ids of all items.
            layout: The layout of the batches.
            greedy: Also find the choices that greedy decoding would generate.
            progress: Called before the first batch and after each batch.

        Raises:
            ScoringError: If the model does not return finite logits over its vocabulary.
        """
        requests = [request for batch in batches for row in batch.rows for request in row.requests]
        found = {request.item: Scores.of(len(encoded[request.item].choices)) for request in requests}
        left, done = Counter(request.item for request in requests), 0
        work, whole = 0, sum(batch.tokens for batch in batches)
        if progress:
            progress(Done(count=0, total=len(left), share=0.0))
        waiting = list(reversed(batches))  # a stack: the halves of a batch come next, with the same prefix
        prefix: tuple[Ids, PrefixCache | None] = (), None
        wrong: list[ScoringError] = []
        with head_in_fp32(model):
            while waiting:
                batch = waiting.pop()
                if batch.prefix != prefix[0]:
                    prefix = (), None  # frees the cache before the next one is made
                    prefix = batch.prefix, self.prefix_cache(model, batch.prefix)
                tensors = tensors_of(batch)
                flat = self._logits_if_fitting(model, batch, tensors, layout=layout, cache=prefix[1])
                if flat is None:
                    waiting += reversed(batch.halves)
                    continue
                try:
                    _read_scores(flat, tensors, batch, encoded, found, greedy=greedy)
                except ScoringError as error:
                    if not self._together:
                        raise
                    wrong.append(error)
                del flat  # before the next batch makes its own
                # The choices of one item may be in several batches: it is done with the last of them.
                for request in (request for row in batch.rows for request in row.requests):
                    left[request.item] -= 1
                    done += left[request.item] == 0
                work += batch.tokens
                if progress:
                    # The halves of a batch may be narrower than it was, so that the sum may stay below the whole.
                    progress(Done(count=done, total=len(left), share=work / whole if waiting else 1.0))
        if wrong:
            raise wrong[0]
        return found

    def _logits_if_fitting(
        self, model: nn.Module, batch: Batch, tensors: BatchTensors, *, layout: Layout, cache: PrefixCache | None
    ) -> Tensor | None:
        """Logits as from `logits`; None for a batch that has to be halved."""
        if self._is_too_wide(batch) and not self._together:
            return None
        try:
            return self.logits(model, tensors, layout=layout, cache=cache)
        except torch.OutOfMemoryError:
            if self._together or len(batch.rows) == 1:
                raise
            self.halved += 1
            return None

    def narrowed(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches, halved until none returns too many logits: processes that call together cannot halve later."""
        fitting: list[Batch] = []
        for batch in batches:
            fitting += self.narrowed(batch.halves) if self._is_too_wide(batch) else [batch]
        return fitting

    def _is_too_wide(self, batch: Batch) -> bool:
        """True if the model would return too many logits, with the form of `logits_to_keep` that it supports."""
        if len(batch.rows) == 1 or self._keeps[0] == "mask":  # the plan itself keeps the budget for masks
            return False
        positions, width = {position for row in batch.rows for position in row.positions}, batch.width
        kept = {"positions": len(positions), "last": width - min(positions), "all": width}[self._keeps[0]]
        return len(batch.rows) * kept * self.vocabulary > LOGIT_BUDGET

    def prefix_cache(self, model: nn.Module, ids: Ids) -> PrefixCache | None:
        """Keys and values of the tokens of a prefix; None for an empty one."""
        if not ids:
            return None
        cache, length = PrefixCache(), len(ids)
        # A call has to keep some logits; those of the last token are the fewest.
        last = Request(item=0, choice=0, positions=(length - 1,), targets=ids[:1])
        row = Row(ids=ids, depths=tuple(range(length)), ends=(length,) * length, requests=(last,))
        self.logits(model, tensors_of(Batch((row,))), layout="prefix", cache=cache)
        cache.is_read = True
        return cache

    def logits(
        self, model: nn.Module, tensors: BatchTensors, *, layout: Layout, cache: PrefixCache | None = None
    ) -> Tensor:
        """Logits that are needed, [needed, vocabulary] in the order of `tensors.index`, on the model's device.

        Args:
            model: The model.
            tensors: The batch.
            layout: The layout of its rows.
            cache: Cache of the prefix before each row, or an empty one, which the rows fill.

        Raises:
            ScoringError: If the model does not return logits over its vocabulary.
        """
        dtype, device = next(model.parameters()).dtype, device_of(model)
        if layout == "rows":
            options: dict[str, Any] = {"attention_mask": tensors.mask}
        else:
            # Eager attention adds the mask to the scores; a boolean one would be added as 0 and 1, without an error.
            additive = dtype if attention_of(model) == "eager" else None
            prefix = cache.get_seq_length() if cache is not None else 0
            options = tree_options(text_config(model), tensors, device=device, additive=additive, prefix=prefix)
        options["use_cache"] = cache is not None
        if cache is not None:
            options["past_key_values"] = cache
        # A model that cannot take the mask of a tree fails with every form: do not try the one with most logits for it.
        keeps = [keep for keep in self._keeps if layout == "rows" or keep != "all" or len(self._keeps) == 1]
        for keep in keeps:
            kept = tensors.logits_to_keep(keep)
            wanted = options if kept is None else {**options, "logits_to_keep": kept}
            moved = {name: _to(value, device) for name, value in wanted.items()}
            if cache is not None and not cache.is_read:
                cache.layers.clear()  # keys and values of a refused call
            try:
                output = model(input_ids=tensors.ids.to(device), **moved)
                flat = _needed_logits(model, output, tensors, keep, vocabulary=self.vocabulary)
            except torch.OutOfMemoryError:
                raise
            except _REFUSALS:
                # Some models take a whole number only, or return all positions whatever the argument.
                if keep == keeps[-1]:
                    raise
            else:
                # A form that was refused once is not tried again.
                self._keeps = self._keeps[self._keeps.index(keep) :]
                return flat
        raise ScoringError(
            f"{type(base_model(model)).__name__} returned logits in none of the forms {', '.join(keeps)}"
        )


def _to(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {name: _to(part, device) for name, part in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value


def _needed_logits(model: nn.Module, output: Any, tensors: BatchTensors, keep: Keep, *, vocabulary: int) -> Tensor:
    """Logits [needed, vocabulary] in the order of `tensors.index`, from those that the model returned.

    Raises:
        ScoringError: If these do not have a shape that the form `keep` allows.
    """
    logits = getattr(output, "logits", None)
    name = type(base_model(model)).__name__
    if not isinstance(logits, Tensor):
        raise ScoringError(f"{name} returned no logits; needed a causal language model with its language head")
    rows, width = tensors.ids.shape
    needed = int(tensors.needed.sum())
    if keep == "mask" and tuple(logits.shape) == (needed, vocabulary):
        return logits
    if logits.ndim == 3 and keep == "all" and logits.shape[1] > width:
        logits = logits[:, -width:]  # without the tokens that prompt learning put before the text
    # Positions of the columns that were returned, by their number: all, or those that were requested.
    columns = {width: torch.arange(width)}
    if keep == "positions":
        requested = tensors.needed.any(0).nonzero()[:, 0]
        columns[len(requested)] = requested
    else:
        columns[width - tensors.first] = torch.arange(tensors.first, width)
    if logits.ndim != 3 or logits.shape[0] != rows or logits.shape[1] not in columns or logits.shape[2] != vocabulary:
        raise ScoringError(
            f"{name} returned logits of shape {tuple(logits.shape)}, needed {vocabulary} numbers, one per token of the "
            f"vocabulary, at {needed} positions of {rows} rows of {width} tokens; needed a causal language model with "
            "its language head"
        )
    # A boolean mask selects by row, then by position: the order of `tensors.index`.
    return logits[tensors.needed[:, columns[logits.shape[1]]].to(logits.device)]


def _read_scores(
    flat: Tensor,
    tensors: BatchTensors,
    batch: Batch,
    encoded: Sequence[Encoded],
    found: dict[int, Scores],
    *,
    greedy: bool,
) -> None:
    """Read the scores of a batch's requests from its logits [needed, vocabulary] into `found`."""
    requests = [(number, request) for number, row in enumerate(batch.rows) for request in row.requests]
    # All tokens of all requests one after the other, so that they are normalised together.
    indices = [tensors.index[number, position] for number, request in requests for position in request.positions]
    targets = [target for _, request in requests for target in request.targets]
    logprobs = _token_logprobs(flat, indices, targets)
    likeliest = flat.argmax(-1).cpu().numpy() if greedy else None
    offset = 0
    for number, request in requests:
        part = slice(offset, offset + len(request.targets))
        offset = part.stop
        scores = found[request.item]
        scores.tokens[request.choice] = logprobs[part]
        scores.logprobs[request.choice] = logprobs[part].sum()
        if likeliest is not None:
            scores.greedy[request.choice] = (likeliest[indices[part]] == targets[part]).all()
        # All choices share the position after the context; it is read with the lowest one, in any order of the rows.
        if not 0 <= scores.order <= request.choice:
            first = flat[tensors.index[number, request.positions[0]]].float()
            others = sorted({token for tokens in encoded[request.item].spellings for token in tokens})
            spelled = float(torch.softmax(first, -1)[others].double().sum()) if others else 0.0
            found[request.item] = replace(scores, top=int(first.argmax()), spelled=spelled, order=request.choice)


def _token_logprobs(flat: Tensor, indices: Sequence[int], targets: Sequence[int]) -> NDArray[np.float64]:
    """Log-probability of each target, nats, float64 [targets].

    Args:
        flat: Logits [needed, vocabulary].
        indices: Row of `flat` that predicts each target.
        targets: Token ids.

    Raises:
        ScoringError: If one is not finite.
    """
    row, token = np.array(indices), np.array(targets)
    # Sorted by row, the targets of each piece of the logits are a stretch between two bounds.
    order = np.argsort(row, kind="stable")
    step = max(1, _CHUNK // flat.shape[-1])
    bounds = np.searchsorted(row[order], np.arange(0, len(flat) + step, step))
    parts = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        if first < last:
            cells = order[first:last]
            # The fused fp32 log-softmax on a piece that fits into the cache: no float copy of all logits.
            logprobs = torch.log_softmax(flat[number * step : (number + 1) * step].float(), dim=-1)
            parts.append(logprobs[torch.from_numpy(row[cells] - number * step), torch.from_numpy(token[cells])])
    values = np.empty(len(row))
    values[order] = torch.cat(parts).double().cpu().numpy()
    if not np.isfinite(values).all():
        raise ScoringError("the model's logits are not finite; has the run diverged?")
    return values
