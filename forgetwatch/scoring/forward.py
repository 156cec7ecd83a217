"""Forward passes of batches: log-likelihoods of the choices, from the logits that they need and no others.

    batch ─▶ tensors ─▶ model, its head replaced ─▶ numbers of the batch ─▶ Scores of each item

A batch is launched before the numbers of the one before are waited for, so that a GPU does not
idle. Log-softmax is computed in fp32 and summed in fp64, whatever the model's dtype: sums in bf16
come in steps of half a nat and tie.

The model's head sees only the positions whose logits are needed (see `head`). Batches with too many
are halved.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.head import LOGIT_BUDGET, Wanted, head_in_fp32, only_at, read_logits
from forgetwatch.scoring.layout import (
    Batch,
    BatchTensors,
    Download,
    Layout,
    PrefixCache,
    Row,
    tensors_of,
    tree_options,
)
from forgetwatch.scoring.model import (
    ModelInfo,
    attention_of,
    base_model,
    device_of,
    text_config,
    vocabulary_size,
)
from forgetwatch.scoring.readout import Beside, Readout, Scores
from forgetwatch.scoring.transformers_versions import cache_argument, takes_use_cache

_REFUSALS: Final = (
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    ScoringError,
    TypeError,
    ValueError,
)
"""Errors that a model may raise for an argument that it does not support."""


class _Launched(NamedTuple):
    """A batch whose numbers are on their way."""

    batch: Batch
    readout: Readout
    numbers: Download


class ForwardPass:
    """Reads log-likelihoods with a model, batch by batch, and remembers how the model has to be called.

    Models are given in evaluation mode, inside `isolated`. Where several processes must make the
    same number of calls (`together`), no batch is halved for lack of memory, and an error of what
    was read is raised after the last batch.
    """

    def __init__(self, info: ModelInfo, *, together: bool = False) -> None:
        self.vocabulary = info.vocabulary  # number of logits at each position
        self.halved = 0  # number of batches that did not fit into memory
        self._together = together
        self._returns_all = (
            False  # the model does not call its output embedding, and returns all logits
        )

    def check(self, model: nn.Module, ids: Ids) -> None:
        """Refuse a model that does not return logits for its vocabulary."""
        # Every second position: a model that returns all of them does not pass for one that returns
        # those.
        line = Row.line(ids, tuple(range(1, len(ids), 2)) or (0,))
        try:
            self.logits(model, Batch((line,)), layout="rows")
        except (torch.OutOfMemoryError, ScoringError):
            raise
        except _REFUSALS as error:
            name, reason = type(base_model(model)).__name__, " ".join(str(error).split())[:200]
            raise ScoringError(
                f"{name} cannot read a short text ({reason}); needed a causal language model "
                "that takes token ids alone"
            ) from error

    def score(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        *,
        layout: Layout,
        greedy: bool = False,
        beside: Beside = 0,
        progress: Progress | None = None,
    ) -> dict[int, Scores]:
        """Score all items in the batches, by index in the probe.

        The batches have this layout. With `greedy` the choices that greedy decoding would generate
        are found too, and `beside` names other tokens to be read at each position.

        Raises:
            ScoringError: If the model does not return finite logits over its vocabulary.
        """
        self.vocabulary = vocabulary_size(model)  # embeddings may have been resized
        requests = [request for batch in batches for row in batch.rows for request in row.requests]
        scores = {
            request.item: Scores.of(len(encoded[request.item].choices)) for request in requests
        }
        left, done = Counter(request.item for request in requests), 0
        work, total = 0, sum(batch.tokens for batch in batches)
        if progress:
            progress(Done(count=0, total=len(left), share=0.0))
        wrong: list[ScoringError] = []
        for batch, is_last in self._read(
            model, batches, encoded, scores, wrong, layout=layout, greedy=greedy, beside=beside
        ):
            # The choices of one item may be in several batches: it is done with the last of them.
            for request in (request for row in batch.rows for request in row.requests):
                left[request.item] -= 1
                done += left[request.item] == 0
            work += batch.tokens
            if progress:
                # The halves of a batch may be narrower than it was, so that the sum may stay below
                # the whole.
                progress(Done(count=done, total=len(left), share=1.0 if is_last else work / total))
        if wrong:
            raise wrong[0]
        return scores

    def _read(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        scores: dict[int, Scores],
        wrong: list[ScoringError],
        *,
        layout: Layout,
        greedy: bool,
        beside: Beside,
    ) -> Iterator[tuple[Batch, bool]]:
        # Scores are added to `scores` before a batch is yielded; the flag is True for the last
        # batch. A batch may be a half.
        waiting = list(
            reversed(batches)
        )  # a stack: the halves of a batch come next, with the same prefix
        prefix: tuple[Ids, PrefixCache | None] = (), None
        launched: _Launched | None = None
        with head_in_fp32(model):
            while waiting or launched:
                current: _Launched | None = None
                if waiting:
                    batch = waiting.pop()
                    readout = Readout(batch, encoded, greedy=greedy, beside=beside)
                    if batch.prefix != prefix[0]:
                        prefix = (), None  # frees the cache before the next one is made
                        prefix = batch.prefix, self._cache(model, batch.prefix)
                    current = self._launch(model, batch, readout, layout=layout, cache=prefix[1])
                    if current is None:
                        waiting += reversed(batch.halves)
                        continue
                # The numbers of the batch before are read while the device works on this one.
                if launched is not None:
                    batch, readout, numbers = launched
                    try:
                        readout.add_to(scores, numbers.wait())
                    except ScoringError as error:
                        if not self._together:
                            raise
                        wrong.append(error)
                    yield batch, not waiting and current is None
                launched = current

    def _launch(
        self,
        model: nn.Module,
        batch: Batch,
        readout: Readout,
        *,
        layout: Layout,
        cache: PrefixCache | None,
    ) -> _Launched | None:
        # None for a batch that has to be halved.
        if self._is_too_wide(batch) and not self._together:
            return None
        try:
            tensors, (rows, tokens, likeliest) = tensors_of(batch).moved(
                device_of(model), readout.rows, readout.tokens, readout.likeliest
            )
            logits = self._logits(
                model, tensors, self._options(model, tensors, layout=layout, cache=cache)
            )
            wanted = Wanted(
                rows=rows,
                tokens=tokens,
                likeliest=likeliest,
                rows_here=readout.rows,
                likeliest_here=readout.likeliest,
                most=readout.most,
            )
            numbers = read_logits(logits, wanted)
            return _Launched(batch, readout, Download(numbers))
        except torch.OutOfMemoryError:
            if self._together or len(batch.rows) == 1:
                raise
            self.halved += 1
            return None

    def narrowed(self, batches: Sequence[Batch]) -> list[Batch]:
        """Halve batches until none returns too many logits.

        Processes that call together cannot halve later.
        """
        parts = (
            self.narrowed(batch.halves) if self._is_too_wide(batch) else [batch]
            for batch in batches
        )
        return list(chain.from_iterable(parts))

    def _is_too_wide(self, batch: Batch) -> bool:
        positions = batch.tokens if self._returns_all else len(batch.needed)
        return len(batch.rows) > 1 and positions * self.vocabulary > LOGIT_BUDGET

    def _cache(self, model: nn.Module, ids: Ids) -> PrefixCache | None:
        # None for an empty prefix.
        if not ids:
            return None
        cache = PrefixCache()
        # A call that returns logits has to keep some; those of the last token are the fewest.
        tensors, _ = tensors_of(Batch((Row.line(ids, (len(ids) - 1,)),))).moved(device_of(model))
        self._logits(model, tensors, self._options(model, tensors, layout="prefix", cache=cache))
        cache.is_read = True
        return cache

    def logits(self, model: nn.Module, batch: Batch, *, layout: Layout) -> Tensor:
        """Logits at the positions that a small batch needs.

        Float [needed, vocabulary], on the device.
        """
        tensors, _ = tensors_of(batch).moved(device_of(model))
        with head_in_fp32(model):
            cache = self._cache(model, batch.prefix)
            return self._logits(
                model, tensors, self._options(model, tensors, layout=layout, cache=cache)
            )

    def _options(
        self, model: nn.Module, tensors: BatchTensors, *, layout: Layout, cache: PrefixCache | None
    ) -> dict[str, Any]:
        # The rows fill a cache that is empty.
        if layout == "rows":
            options: dict[str, Any] = {"attention_mask": tensors.mask}
        else:
            # Eager attention adds the mask to the scores; a boolean one would be added as 0 and 1,
            # without an error.
            additive = next(model.parameters()).dtype if attention_of(model) == "eager" else None
            prefix = cache.get_seq_length() if cache is not None else 0
            options = tree_options(text_config(model), tensors, additive=additive, prefix=prefix)
        model_class = type(base_model(model))
        if cache is not None:
            options |= {"use_cache": True, cache_argument(model_class): cache}
        elif takes_use_cache(model_class):
            options["use_cache"] = False
        return options

    def _logits(self, model: nn.Module, tensors: BatchTensors, options: dict[str, Any]) -> Tensor:
        # [needed, vocabulary], in the order of `tensors.needed`.
        (rows, width), needed, name = (
            tensors.ids.shape,
            len(tensors.needed),
            type(base_model(model)).__name__,
        )
        with only_at(model, width, tensors.needed):
            logits = getattr(model(input_ids=tensors.ids, **options), "logits", None)
        if not isinstance(logits, Tensor):
            raise ScoringError(
                f"{name} returned no logits; needed a causal language model with its language head"
            )
        if tuple(logits.shape) == (1, needed, self.vocabulary):
            return logits[0]
        # Prompt learning puts tokens before the text.
        if (
            logits.ndim != 3
            or len(logits) != rows
            or logits.shape[1] < width
            or logits.shape[2] != self.vocabulary
        ):
            raise ScoringError(
                f"{name} returned logits of shape {tuple(logits.shape)}, needed {self.vocabulary} "
                f"numbers, one per token of the vocabulary, at {needed} positions of {rows} rows "
                f"of {width}; needed a causal language model with its language head"
            )
        self._returns_all = True
        return (
            logits[:, -width:]
            .reshape(-1, self.vocabulary)
            .index_select(0, tensors.needed.to(logits.device))
        )
