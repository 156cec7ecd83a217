"""Forward passes of batches: log-likelihoods of the choices, from the logits that they need and no others.

    batch ─▶ tensors ─▶ model, its head replaced ─▶ numbers of the batch ─▶ Scores of each item

A batch is launched before the numbers of the one before are waited for, so that a GPU does not idle. Log-softmax is
computed in fp32 and summed in fp64, whatever the model's dtype: sums in bf16 come in steps of half a nat and tie.

Log-probabilities are read from the hidden states (see `head`). A model for which that is not right returns its own
logits, in one of several forms (`layout.Keep`); batches with too many logits are then halved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from forgetwatch.cache import MeasuredParts
from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.compatibility import cache_argument, takes_use_cache
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.head import (
    LOGIT_BUDGET,
    HeadReader,
    Rule,
    Wanted,
    head_in_fp32,
    read_logits,
    replaced,
    states_at,
)
from forgetwatch.scoring.layout import (
    Batch,
    BatchTensors,
    Download,
    Keep,
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
    is_exact,
    text_config,
    virtual_tokens,
)
from forgetwatch.scoring.readout import Beside, Readout, Scores

_REFUSALS: Final = (AssertionError, AttributeError, LookupError, RuntimeError, ScoringError, TypeError, ValueError)
"""Errors that a model may raise for an argument that it does not support."""


class _Launched(NamedTuple):
    """A batch whose numbers are on their way."""

    batch: Batch
    readout: Readout
    numbers: Download


class ForwardPass:
    """Reads log-likelihoods with a model, batch by batch, and remembers how the model has to be called.

    Models are given in evaluation mode, inside `isolated`. Where several processes must make the same number of calls
    (`together`), no batch is halved for lack of memory, and an error of what was read is raised after the last batch.
    """

    def __init__(self, info: ModelInfo, *, together: bool = False) -> None:
        self.vocabulary = info.vocabulary  # number of logits at each position
        self.rule: Rule | None = None  # after the head; None if logits are not computed from the hidden states
        self.halved = 0  # number of batches that did not fit into memory
        self._together = together
        self._keeps = info.keep_modes  # those that the model has not refused

    def find_rule(self, model: nn.Module, ids: Ids) -> Rule | None:
        """Return the rule of the model after its head, if logits from its hidden states are those of the model.

        Else None.

        A short text is read twice for it. A model that does not return logits over its vocabulary is an error.
        """
        # Every second position: a model that returns all of them does not pass for one that returns those.
        line = Row.line(ids, tuple(range(1, len(ids), 2)) or (0,))
        tensors, _ = tensors_of(Batch((line,))).moved(device_of(model))
        options = self._options(model, tensors, layout="rows", cache=None)
        try:
            with head_in_fp32(model):
                expected = self._logits_of_model(model, tensors, options, layout="rows")
        except (torch.OutOfMemoryError, ScoringError):
            raise
        except _REFUSALS as error:
            name, reason = type(base_model(model)).__name__, " ".join(str(error).split())[:200]
            raise ScoringError(
                f"{name} cannot read a short text ({reason}); needed a causal language model that takes token ids alone"
            ) from error
        try:
            # A head of several modules is called on a few positions at a time: not equally often in each process.
            with replaced(model, Rule(), matrix_only=self._together) as reader:
                reader.task = partial(reader.logits, width=len(ids), positions=tensors.needed)
                output = model(input_ids=tensors.ids, **options)
                if reader.calls != 1 or reader.read is None:
                    return None
                rule = Rule.of(output.logits.reshape(-1, output.logits.shape[-1])[-1])
                if rule is None or reader.read.shape != expected.shape:
                    return None
                logits = rule.applied(reader.read).to(expected.device)
        except torch.OutOfMemoryError:
            raise
        except _REFUSALS:
            return None
        # The model's own logits may be rounded to half precision.
        exactness = 1e-4 if is_exact(model) and expected.dtype == torch.float32 else 2**-6
        difference = (logits - expected).abs().max()
        # False for logits that are not finite: those are refused where they are read, with a better reason.
        return rule if bool(difference <= exactness * expected.abs().max()) else None

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
        parts: MeasuredParts | None = None,
    ) -> dict[int, Scores]:
        """Scores of all items in the batches, which have this layout, by index in the probe.

        With `greedy` the choices that greedy decoding would generate are found too, and `beside` names other tokens to
        be read at each position. A batch that is in `parts` is not read again. A model that does not return finite
        logits over its vocabulary is an error.
        """
        requests = [request for batch in batches for row in batch.rows for request in row.requests]
        found = {request.item: Scores.of(len(encoded[request.item].choices)) for request in requests}
        left, done = Counter(request.item for request in requests), 0
        work, whole = 0, sum(batch.tokens for batch in batches)
        if progress:
            progress(Done(count=0, total=len(left), share=0.0))
        wrong: list[ScoringError] = []
        for batch, is_last in self._read(
            model, batches, encoded, found, wrong, layout=layout, greedy=greedy, beside=beside, parts=parts
        ):
            # The choices of one item may be in several batches: it is done with the last of them.
            for request in (request for row in batch.rows for request in row.requests):
                left[request.item] -= 1
                done += left[request.item] == 0
            work += batch.tokens
            if progress:
                # The halves of a batch may be narrower than it was, so that the sum may stay below the whole.
                progress(Done(count=done, total=len(left), share=1.0 if is_last else work / whole))
        if wrong:
            raise wrong[0]
        return found

    def _read(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        found: dict[int, Scores],
        wrong: list[ScoringError],
        *,
        layout: Layout,
        greedy: bool,
        beside: Beside,
        parts: MeasuredParts | None,
    ) -> Iterator[tuple[Batch, bool]]:
        """Yield each batch, or half of one, once its scores are in `found`, and whether it is the last."""
        waiting = list(reversed(batches))  # a stack: the halves of a batch come next, with the same prefix
        setting = layout, attention_of(model), self.rule, greedy, beside
        if parts is not None:
            parts.restart_clock()
        prefix: tuple[Ids, PrefixCache | None] = (), None
        launched: _Launched | None = None
        with self._head(model) as reader:
            while waiting or launched:
                current: _Launched | None = None
                if waiting:
                    batch = waiting.pop()
                    readout = Readout(batch, encoded, greedy=greedy, beside=beside)
                    kept = None if parts is None else parts.read(batch, *setting)
                    if kept is not None:
                        readout.add_to(found, np.frombuffer(kept))
                        yield batch, not waiting and launched is None
                        continue
                    if batch.prefix != prefix[0]:
                        prefix = (), None  # frees the cache before the next one is made
                        prefix = batch.prefix, self._cache(model, reader, batch.prefix)
                    current = self._launch(model, reader, batch, readout, layout=layout, cache=prefix[1])
                    if current is None:
                        waiting += reversed(batch.halves)
                        continue
                # The numbers of the batch before are read while the device works on this one.
                if launched is not None:
                    batch, readout, numbers = launched
                    try:
                        readout.add_to(found, values := numbers.wait())
                        if parts is not None:
                            parts.write(values.tobytes(), batch, *setting)
                    except ScoringError as error:
                        if not self._together:
                            raise
                        wrong.append(error)
                    yield batch, not waiting and current is None
                launched = current

    @contextmanager
    def _head(self, model: nn.Module) -> Iterator[HeadReader | None]:
        """Replace the model's head inside this context; where it keeps its own logits, compute these in fp32."""
        if self.rule is None:
            with head_in_fp32(model):
                yield None
        else:
            with replaced(model, self.rule, matrix_only=self._together) as reader:
                yield reader

    def _launch(
        self,
        model: nn.Module,
        reader: HeadReader | None,
        batch: Batch,
        readout: Readout,
        *,
        layout: Layout,
        cache: PrefixCache | None,
    ) -> _Launched | None:
        """Start to read a batch; None for one that has to be halved."""
        if self._is_too_wide(batch) and not self._together:
            return None
        try:
            tensors, (rows, tokens, likeliest) = tensors_of(batch).moved(
                device_of(model), readout.rows, readout.tokens, readout.likeliest
            )
            wanted = Wanted(
                width=batch.width,
                needed=tensors.needed,
                rows=rows,
                tokens=tokens,
                likeliest=likeliest,
                rows_here=readout.rows,
                likeliest_here=readout.likeliest,
                most=readout.most,
            )
            options = self._options(model, tensors, layout=layout, cache=cache)
            if reader is None:
                logits = self._logits_of_model(model, tensors, options, layout=layout, cache=cache)
                numbers = read_logits(logits, wanted)
            else:
                numbers = _read_by(reader, partial(reader.numbers, wanted=wanted), model, tensors, options)
            return _Launched(batch, readout, Download(numbers))
        except torch.OutOfMemoryError:
            if self._together or len(batch.rows) == 1:
                raise
            self.halved += 1
            return None

    def divergence(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        encoded: Sequence[Encoded],
        *,
        base: AbstractContextManager[None],
        progress: Progress | None = None,
    ) -> dict[int, NDArray[np.float64]]:
        """Return the KL of the base to the model, as `Engine.divergence`.

        `base` is the context in which the model is its base.

        The hidden states of all batches are kept until that context is left.
        """
        found: dict[int, NDArray[np.float64]] = {}

        def report(share: float) -> None:
            if progress:
                progress(Done(count=round(share * len(encoded)), total=len(encoded), share=share))

        with self._head(model) as reader:
            if reader is None:
                return found
            before: list[Tensor] = []
            with base:
                for batch in batches:
                    before.append(self._states(model, reader, batch))
                    report(len(before) / len(batches) / 2)
            for number, batch in enumerate(batches, start=1):
                now = self._states(model, reader, batch)
                readout = Readout(batch, encoded, greedy=False)
                rows, tokens = (torch.from_numpy(part).to(now.device) for part in (readout.rows, readout.tokens))
                numbers = reader.divergence(before.pop(0), now, rows, tokens).cpu().numpy()
                kl, logprobs = (readout.by_request(part) for part in numbers)
                found |= {item: np.stack([kl[item], logprobs[item]]) for item in kl}
                report((1 + number / len(batches)) / 2)
        return found

    def _states(self, model: nn.Module, reader: HeadReader, batch: Batch) -> Tensor:
        """Return the hidden states at the positions that a batch needs, float [needed, hidden size]."""
        tensors, _ = tensors_of(batch).moved(device_of(model))
        task = partial(states_at, width=batch.width, positions=tensors.needed)
        return _read_by(reader, task, model, tensors, self._options(model, tensors, layout="rows", cache=None))

    def narrowed(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the batches, halved until none returns too many logits.

        Processes that call together cannot halve later.
        """
        fitting: list[Batch] = []
        for batch in batches:
            fitting += self.narrowed(batch.halves) if self._is_too_wide(batch) else [batch]
        return fitting

    def _is_too_wide(self, batch: Batch) -> bool:
        """Return True if the model would return too many logits, with the form of `logits_to_keep` that it supports."""
        if len(batch.rows) == 1 or self.rule is not None:
            return False
        positions, width = {position for row in batch.rows for position in row.positions}, batch.width
        kept = {"positions": len(positions), "last": width - min(positions), "all": width}.get(self._keeps[0])
        count = sum(len(row.positions) for row in batch.rows) if kept is None else len(batch.rows) * kept
        return count * self.vocabulary > LOGIT_BUDGET

    def _cache(self, model: nn.Module, reader: HeadReader | None, ids: Ids) -> PrefixCache | None:
        """Return the keys and values of the tokens of a prefix; None for an empty one."""
        if not ids:
            return None
        cache = PrefixCache()
        # A call that returns logits has to keep some; those of the last token are the fewest.
        tensors, _ = tensors_of(Batch((Row.line(ids, (len(ids) - 1,)),))).moved(device_of(model))
        options = self._options(model, tensors, layout="prefix", cache=cache)
        if reader is None:
            self._logits_of_model(model, tensors, options, layout="prefix", cache=cache)
        else:
            reader.task = None
            model(input_ids=tensors.ids, **options)
        cache.is_read = True
        return cache

    def logits(self, model: nn.Module, batch: Batch, *, layout: Layout) -> Tensor:
        """Return the logits at the positions that a small batch needs, float [needed, vocabulary], on the device."""
        tensors, _ = tensors_of(batch).moved(device_of(model))
        with self._head(model) as reader:
            cache = self._cache(model, reader, batch.prefix)
            options = self._options(model, tensors, layout=layout, cache=cache)
            if reader is None:
                return self._logits_of_model(model, tensors, options, layout=layout, cache=cache)
            task = partial(reader.logits, width=tensors.ids.shape[1], positions=tensors.needed)
            return _read_by(reader, task, model, tensors, options)

    def _options(
        self, model: nn.Module, tensors: BatchTensors, *, layout: Layout, cache: PrefixCache | None
    ) -> dict[str, Any]:
        """Return the arguments of the model besides token ids and `logits_to_keep`.

        The rows fill a cache that is empty.
        """
        if layout == "rows":
            options: dict[str, Any] = {"attention_mask": tensors.mask}
        else:
            # Eager attention adds the mask to the scores; a boolean one would be added as 0 and 1, without an error.
            additive = next(model.parameters()).dtype if attention_of(model) == "eager" else None
            prefix = cache.get_seq_length() if cache is not None else 0
            options = tree_options(text_config(model), tensors, additive=additive, prefix=prefix)
        kind = type(base_model(model))
        if cache is not None:
            options |= {"use_cache": True, cache_argument(kind): cache}
        elif takes_use_cache(kind):
            options["use_cache"] = False
        return options

    def _logits_of_model(
        self,
        model: nn.Module,
        tensors: BatchTensors,
        options: dict[str, Any],
        *,
        layout: Layout,
        cache: PrefixCache | None = None,
    ) -> Tensor:
        """Return logits [needed, vocabulary] of the model, in the first form that it does not refuse."""
        # A model that cannot take the mask of a tree fails with every form: do not try the one with most logits for it.
        keeps = [keep for keep in self._keeps if layout == "rows" or keep != "all" or len(self._keeps) == 1]
        for keep in keeps:
            kept = tensors.logits_to_keep(keep)
            wanted = options if kept is None else {**options, "logits_to_keep": kept}
            if cache is not None and not cache.is_read:
                cache.layers.clear()  # keys and values of a refused call
            try:
                output = model(input_ids=tensors.ids, **wanted)
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


def _read_by(
    reader: HeadReader,
    task: Callable[[Tensor], Tensor],
    model: nn.Module,
    tensors: BatchTensors,
    options: dict[str, Any],
) -> Tensor:
    """Call the model once and return what the reader's task reads; an error if the model does not call its head."""
    reader.task, reader.read = task, None
    model(input_ids=tensors.ids, **options)
    found, reader.read = reader.read, None
    if found is None:
        raise ScoringError(f"{type(base_model(model)).__name__} called its output embedding before, and no longer does")
    return found


def _needed_logits(model: nn.Module, output: Any, tensors: BatchTensors, keep: Keep, *, vocabulary: int) -> Tensor:
    """Return the logits [needed, vocabulary] in the order of `tensors.needed`, from those that the model returned.

    These must have the shape of the form `keep`: a model that ignores a form returns many more than the budget allows.
    """
    logits = getattr(output, "logits", None)
    name = type(base_model(model)).__name__
    if not isinstance(logits, Tensor):
        raise ScoringError(f"{name} returned no logits; needed a causal language model with its language head")
    rows, width = tensors.ids.shape
    needed = len(tensors.needed)
    if keep == "mask" and tuple(logits.shape) == (needed, vocabulary):
        return logits
    before = virtual_tokens(model)
    if logits.ndim == 3 and keep == "all" and before and logits.shape[1] == before + width:
        logits = logits[:, before:]  # without the tokens that prompt learning put before the text
    # The columns that are returned, by their number in the batch.
    columns = {"positions": tensors.columns, "last": torch.arange(int(tensors.columns[0]), width)}.get(
        keep, torch.arange(width)
    )
    if keep == "mask" or tuple(logits.shape) != (rows, len(columns), vocabulary):
        raise ScoringError(
            f"{name} returned logits of shape {tuple(logits.shape)}, needed {vocabulary} numbers, one per token of the "
            f"vocabulary, at {needed} positions of {rows} rows of {width} tokens; needed a causal language model with "
            "its language head"
        )
    # A boolean mask selects by row, then by position: the order of `tensors.needed`.
    return logits[tensors.needed_mask[:, columns.to(tensors.needed.device)].to(logits.device)]
