"""Measured parity of shared rows with single rows: do both give the same log-likelihoods on this model?

Nothing is looked up by the model's name. Before shared rows are used, a tree of three short
branches is read:

    difference     of a branch from the same text in a row of its own
    mask leakage   a token of one branch that changes the logits of another, also where small weights hide it today

After they are used, a few choices are scored again, each in a row of its own:

    difference     of the log-likelihoods of shared and single rows: shared rows are kept only if it is rounding
    noise          of the margins, which rounding alone moves: items with smaller margins are too close to call

A model whose earlier positions change with later tokens is no causal language model, and is
refused.

Rounding is not assumed to be small. In a mixture of experts a token that changes goes to other
experts, these then multiply other numbers of tokens, and some kernels add in another order for each
number: all logits move. So a change is compared with the noise of the model, which is the change of
the same text in batches of other sizes. Changes are in nats, by the change of each log-probability
weighted by the probability: a maximum over a large vocabulary is dominated by noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from forgetwatch.metrics import choices
from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded, longest_row
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.item_rows import decide, lengths
from forgetwatch.scoring.layout import Batch, Layout, Request, Row, plan
from forgetwatch.scoring.model import is_exact, maskable
from forgetwatch.scoring.readout import Scores

FEWEST: Final = 3
MOST: Final = 16
"""Minimum and maximum number of items that are scored again, with two or three choices each."""

COST: Final = 0.05
"""Share of a look's tokens that scoring again may read, beyond the fewest items."""

CAUTION: Final = 2.0
"""Largest change expected among thousands of margins, in units of the largest among a few."""

TOLERANCE: Final = 1e-3
"""Nats by which a log-likelihood may differ in fp32."""

ROUNDING: Final = 0.02
"""Nats by which the log-probability of one token moves in bf16; a wrong mask moves most of them by more."""

ABOVE_NOISE: Final = 10.0
"""Multiple of the measured noise up to which a change may be noise."""

NON_CAUSAL: Final = 0.05
"""Divergence in nats that a later token makes in no causal model. Untrained models are below it with any token."""

_EXACT, _HALF = 0, 1  # index of the limits for models in fp32 and in half precision

_SMALLEST_CHANGE: Final = (1e-6, 1e-4)
"""Change in nats that may be rounding although the measured noise is smaller."""

_LEAK: Final = (1e-4, 0.02)
"""The same for mask leakage, as a share of the change that a token makes which the branch must see."""

_WRONG_TREE: Final = (1e-3, 0.1)
"""The same for a branch and the same text in a row of its own, which other kernels may compute; at most half of the
change that one token makes."""

_NEIGHBOURS: Final = ((2,), (1, 2, 7))
"""Numbers of rows next to a text with which the noise is measured, in fp32 and in half precision. Odd and even numbers
of tokens result, since the texts have an odd number."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Scores of a few items in shared rows, compared with those of the same choices in single rows, in nats."""

    difference: float  # the largest of a log-likelihood; 0 if nothing is compared
    tolerance: float  # largest difference that is rounding
    noise: float  # change that no margin exceeds, as far as a few items can show

    @property
    def holds(self) -> bool:
        """Is the difference rounding?"""
        return self.difference <= self.tolerance


class ParityCheck:
    """Tests a model, in evaluation mode and inside `isolated`, against its own single rows.

    With `token_budget` the test needs no more memory than what it tests. Unless several processes
    must make the same number of calls (`together`), a test stops as soon as its result is clear.
    """

    def __init__(
        self,
        forward: ForwardPass,
        encoded: Sequence[Encoded],
        keys: Sequence[str],
        *,
        norm: Norm,
        token_budget: int,
        together: bool,
    ) -> None:
        self._forward, self._encoded, self._keys = forward, encoded, keys
        self._token_budget, self._may_stop = token_budget, not together
        # Choices are compared without priors, which have rows of their own that are not read again.
        self._norm: Norm = "sum" if norm == "unconditional" else norm
        # Any token ids serve to try the mask; those of an item are in the vocabulary.
        ids = next((ids.context + ids.choices[0] for ids in encoded if not ids.unscored), ())
        self._ids = tuple(islice(cycle(ids), 11))
        # The root of the tree and its second branch, without the first; all positions are compared.
        self._line = Row.line(self._ids[:4] + self._ids[8:], tuple(range(7)))
        self._alone: Tensor | None = None  # log-probabilities of the line, once they are read

    def compare(
        self, model: nn.Module, scores: Mapping[int, Scores], batches: Sequence[Batch]
    ) -> Parity:
        """Score a few choices again.

        Those deepest in shared rows, the longest item, and others spread over all.
        """
        # A model that has diverged is compared where it still answers, if anywhere.
        finite = {
            index: item_scores
            for index, item_scores in scores.items()
            if np.isfinite(item_scores.logprobs).all()
        }
        chosen = [index for index in self._sample(finite, batches) if index in finite]
        deep = _deepest(batches)
        pairs = [
            _likeliest(self._encoded[index], scores[index], self._norm, deep.get(index))
            for index in chosen
        ]
        alone = [
            _with_choices(self._encoded[index], pair)
            for index, pair in zip(chosen, pairs, strict=True)
        ]
        keys = [self._keys[index] for index in chosen]
        shared = [
            scores[index].logprobs[list(pair)] for index, pair in zip(chosen, pairs, strict=True)
        ]
        single = self._single_rows(model, keys, alone, self._token_budget)
        noise = max(
            (_margin_change(alone[n], a, single[n], self._norm) for n, a in enumerate(shared)),
            default=0.0,
        )
        tolerance = TOLERANCE
        if not is_exact(model):
            # Rounding depends on the shape of a batch: the same rows one by one show how much.
            apart = self._single_rows(model, keys, alone, 1)
            longest = max(
                (len(ids) for encoded_item in alone for ids in encoded_item.choices), default=1
            )
            # Each token's log-probability is rounded independently: the sum grows with the root of
            # their number.
            tolerance = max(3 * _largest_difference(single, apart), ROUNDING * math.sqrt(longest))
        return Parity(
            difference=_largest_difference(shared, single),
            tolerance=tolerance,
            noise=CAUTION * noise,
        )

    def cost(self, batches: Sequence[Batch]) -> float:
        """Tokens that `compare` reads, as a share of the batches.

        Approximately.
        """
        longest = longest_row(self._encoded)
        return max(COST, 2 * FEWEST * longest / max(1, sum(batch.tokens for batch in batches)))

    def tree_error(self, model: nn.Module, *, layout: Layout, attention: str) -> str:
        """Reason why shared rows are wrong on this model.

        As far as one short tree shows; empty if none does.

        Empty if none shows.

        The tree has a root of four tokens and branches of four and three. It is compared with the
        root and the second branch in a row of their own, and with itself after the first token of
        the first branch has changed. With the layout `prefix` the root is the prefix.
        """
        # Positions 0-3 root, 4-7 first branch, 8-10 second branch; depths 0-3, 4-7, 4-6.
        root, fork, size = 4, 8, 11
        # The whole row sees the root; the first branch ends where the second begins.
        tree = Row(
            ids=self._ids,
            depths=(*range(fork), *range(root, root + size - fork)),
            ends=(*(size,) * root, *(fork,) * (fork - root), *(size,) * (size - fork)),
            requests=(Request(item=0, choice=0, positions=tuple(range(fork, size)), targets=()),),
        )
        single = Row.line(self._line.ids, tuple(range(root, root + size - fork)))
        prefix = root if layout == "prefix" else 0
        limit = _EXACT if is_exact(model) else _HALF
        with maskable(model, attention):
            own, hidden = self._read(
                model, [tree, self._with_other_token(tree, root)], layout, prefix
            )
        alone = (
            self._read(model, [self._line], "rows")[0] if self._alone is None else self._alone
        )[root:]
        difference, leak = _change(alone, own), _change(own, hidden)
        if self._may_stop and max(difference, leak) <= _SMALLEST_CHANGE[limit]:
            return ""
        with maskable(model, attention):
            (seen,) = self._read(model, [self._with_other_token(tree, root - 1)], layout, prefix)
            noise = self._noise(model, own, tree, layout, prefix)
        noise = ABOVE_NOISE * max(noise, self._noise(model, alone, single, "rows"))
        # The weights may be so small that a branch which does not see the root hardly differs.
        effect = _change(
            alone, self._read(model, [self._with_other_token(single, root - 1)], "rows")[0]
        )
        if difference > max(noise, min(_WRONG_TREE[limit], effect / 2)):
            return f"shared rows differ from single ones by {difference:.2g} nats a token"
        return (
            "tokens of one branch change another"
            if leak > max(noise, _LEAK[limit] * _change(own, seen))
            else ""
        )

    def is_non_causal(self, model: nn.Module) -> bool:
        """Does a later token change the logits of earlier positions?

        By far more than the model's own noise.

        The change counts if it is large at any position, or more than a quarter of the change that
        a token makes right after it: the logits of an untrained model hardly depend on its input.
        """
        if not self._ids:
            return False
        last_position = len(self._line.ids) - 1
        texts = Row.line(self._line.ids, tuple(range(last_position)))
        self._alone, after_later = self._read(
            model, [self._line, self._with_other_token(self._line, last_position)], "rows"
        )
        alone_before, after_later = self._alone[:last_position], after_later[:last_position]
        # Some models depend on the number of later tokens, and not on which they are.
        (shorter,) = self._read(
            model, [Row.line(texts.ids[:last_position], texts.positions)], "rows"
        )
        # In half precision, rounding may depend on the length, and only a large change shows more
        # than that.
        is_full = is_exact(model)
        if _largest_divergence(alone_before, shorter) > (
            _largest_divergence(alone_before, after_later) if is_full else NON_CAUSAL
        ):
            after_later = shorter
        change = float(_changes(alone_before, after_later).max())
        smallest = _SMALLEST_CHANGE[_EXACT if is_full else _HALF]
        if self._may_stop and change <= smallest:
            return False
        noise = self._noise(model, alone_before, texts, "rows")
        earlier = _change(
            alone_before[-1:],
            self._read(model, [self._with_other_token(texts, last_position - 2)], "rows")[0, -1:],
        )
        # Changes of logits that are not finite are nan, and no comparison holds: the outcome of the
        # items says so.
        if not change > max(ABOVE_NOISE * noise, smallest):
            return False
        return _largest_divergence(alone_before, after_later) > NON_CAUSAL or 4 * change > earlier

    def _noise(
        self, model: nn.Module, alone: Tensor, text_row: Row, layout: Layout, prefix: int = 0
    ) -> float:
        # The rows next to the text have its tokens in other orders: no other tokens are known to be
        # allowed. The prefix is the same for all rows. In nats.
        after = text_row.ids[prefix:]
        counts = _NEIGHBOURS[_EXACT if is_exact(model) else _HALF]
        other_tokens = [
            replace(
                text_row,
                ids=text_row.ids[:prefix] + after[by % len(after) :] + after[: by % len(after)],
            )
            for by in range(1, max(counts) + 1)
        ]
        batches = ([text_row, *other_tokens[:count]] for count in counts)
        return float(
            torch.stack(
                [_changes(alone, self._read(model, batch, layout, prefix)[0]) for batch in batches]
            ).max()
        )

    def _read(
        self, model: nn.Module, texts: Sequence[Row], layout: Layout, prefix: int = 0
    ) -> Tensor:
        # In one batch, fp32 [texts, read positions, vocabulary]. The texts have one shape; their
        # first tokens, as many as `prefix`, are the same and are read as a prefix.
        batch = Batch(
            tuple(_without_prefix(row, prefix) for row in texts), prefix=texts[0].ids[:prefix]
        )
        logits = self._forward.logits(model, batch, layout=layout)
        return torch.log_softmax(logits.float(), dim=-1).view(len(texts), -1, logits.shape[-1])

    def _with_other_token(self, text_row: Row, position: int) -> Row:
        other_token = (text_row.ids[position] + 1) % self._forward.vocabulary
        return replace(
            text_row, ids=(*text_row.ids[:position], other_token, *text_row.ids[position + 1 :])
        )

    def _single_rows(
        self, model: nn.Module, keys: Sequence[str], encoded: Sequence[Encoded], token_budget: int
    ) -> list[NDArray[np.float64]]:
        # In single rows, nats, float64 [choices] by item.
        batches = plan(keys, encoded, token_budget=token_budget, layout="rows")
        read = self._forward.score(model, batches, encoded, layout="rows")
        return [read[index].logprobs for index in range(len(encoded))]

    def _sample(self, scores: Mapping[int, Scores], batches: Sequence[Batch]) -> list[int]:
        # The same ones in any order of the items.
        ordered = sorted(scores, key=lambda index: self._keys[index])
        encoded = self._encoded
        size = {
            index: len(encoded[index].context) + max(map(len, encoded[index].choices))
            for index in ordered
        }
        tokens = sum(len(row.ids) for batch in batches for row in batch.rows)
        longest = max(ordered, key=lambda index: size[index], default=None)
        if longest is None:
            return []
        # Two choices of each item are read again, in rows of their own.
        affordable = int(COST * tokens / (2 * size[longest]))
        count = min(max(FEWEST, affordable), MOST, len(ordered))
        spread = [ordered[number * len(ordered) // count] for number in range(count)]
        # Without repetition, the items where shared rows go wrong first come first: the last are
        # dropped.
        return list(dict.fromkeys([*_deepest(batches), longest, *spread]))[: max(count, FEWEST)]


def _without_prefix(row: Row, prefix: int) -> Row:
    (request,) = row.requests
    after = replace(request, positions=tuple(position - prefix for position in request.positions))
    ends = tuple(end - prefix for end in row.ends[prefix:])
    return Row(ids=row.ids[prefix:], depths=row.depths[prefix:], ends=ends, requests=(after,))


def _changes(left: Tensor, right: Tensor) -> Tensor:
    # Weighted by probability, in nats [positions].
    weights = left.exp()
    # Tokens without probability in both have a change of inf - inf.
    return torch.where(weights > 0, weights * (left - right).abs(), 0.0).sum(-1)


def _change(left: Tensor, right: Tensor) -> float:
    return float(_changes(left, right).mean())


def _largest_divergence(left: Tensor, right: Tensor) -> float:
    # Kullback-Leibler, at any position, nats.
    weights = left.exp()
    return float(torch.where(weights > 0, weights * (left - right), 0.0).sum(-1).max())


def _deepest(batches: Sequence[Batch]) -> dict[int, int]:
    # Where shared rows go wrong first: at the highest position of the row, where the position
    # differs most from the depth, and at the highest position with and without a prefix.
    requests = [
        (
            len(batch.prefix) + request.positions[-1],
            row.depths[request.positions[-1]],
            bool(batch.prefix),
            request,
        )
        for batch in batches
        for row in batch.rows
        for request in row.requests
    ]
    if not requests:
        return {}
    last_request = max(requests, key=lambda request: request[0])
    shifted = max(requests, key=lambda request: request[0] - request[1])
    parts = [
        [request for request in requests if request[2] is is_kind] for is_kind in (True, False)
    ]
    furthest = [
        max(requests_of_kind, key=lambda request: request[0])
        for requests_of_kind in parts
        if requests_of_kind
    ]
    return {request.item: request.choice for _, _, _, request in (last_request, shifted, *furthest)}


def _with_choices(encoded: Encoded, choices: Sequence[int]) -> Encoded:
    return replace(
        encoded,
        choices=tuple(encoded.choices[choice] for choice in choices),
        texts=tuple(encoded.texts[choice] for choice in choices),
        spellings=((),) * len(choices),
    )


def _largest_difference(
    left: Sequence[NDArray[np.float64]], right: Sequence[NDArray[np.float64]]
) -> float:
    return max((float(np.abs(a - b).max()) for a, b in zip(left, right, strict=True)), default=0.0)


def _likeliest(encoded: Encoded, scores: Scores, norm: Norm, tested: int | None) -> tuple[int, ...]:
    # The highest and the second highest score, and one more that is to be tested.
    k = np.array([len(scores.logprobs)])
    values = choices.normalise(
        scores.logprobs, k, norm=norm, lengths=lengths(encoded.texts, [*map(len, encoded.choices)])
    )
    best_two = choices.ranking(values)[:2].tolist()
    return tuple(dict.fromkeys([*best_two, *([] if tested is None else [tested])]))


def _margin_change(
    encoded: Encoded, left: NDArray[np.float64], right: NDArray[np.float64], norm: Norm
) -> float:
    # Nats; 0 if there is one choice.
    if len(left) < 2:
        return 0.0
    unit = {
        name: values[:2]
        for name, values in lengths(encoded.texts, [*map(len, encoded.choices)]).items()
    }
    margin_left, second = (
        decide(x[:2], lengths=unit, norm=norm, answers=[0]) for x in (left, right)
    )
    # Another choice won: the margin went through zero.
    sign = 1.0 if margin_left.chosen == second.chosen else -1.0
    return abs(margin_left.margin - sign * second.margin)
