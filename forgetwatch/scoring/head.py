"""The language head: log-probabilities from hidden states, without logits that stay in memory.

    hidden states [tokens, hidden size] ─▶ those needed ─▶ logits of a piece ─▶ log-softmax ─▶ numbers that are wanted

The model is called whole, with its wrappers and hooks. Meanwhile the `forward` of its output embedding is replaced: it
takes the hidden states, reads from them what is wanted while the weights are at hand, and returns a few fixed numbers
in place of the logits. What the model makes of these numbers shows its rule after the head, a scale or a
soft cap, which then applies to our logits as well.

    plain matrix     multiplied in pieces in fp32; on CUDA, factors in half precision with sums in fp32
    split matrix     the same on each process's rows of it (tensor parallelism), then combined
    other modules    called as they are, a few positions at a time: adapters on the head, packed weights

`ForwardPass.find_rule` compares the result with the logits of the model itself. A model that does not call its output
embedding once, or changes the logits in another way, keeps its own logits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.nn import functional

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.model import is_matrix, output_embedding

LOGIT_BUDGET: Final = 2**26
"""Maximum number of logits that a call may return, where the model's own are read."""

_WEIGHTS: Final = 2**25
"""Weights of the head that are converted to fp32 at a time."""

_CPU_LOGITS: Final = 2**22
_CUDA_LOGITS: Final = 2**26
"""Logits that are computed at a time; fewer once memory did not suffice."""

_FEWEST: Final = 64
"""Positions that are multiplied at a time at least: with fewer, reading the matrix takes longer than multiplying."""

_PROBES: Final = (0.01, -0.01, 0.5, -1.0, 4.0, -16.0, 64.0, -256.0, 1e3, 1e6, -1e6)
"""Numbers that the replaced head returns for each position; the rule after the head shows in what becomes of them."""


@dataclass(frozen=True)
class Rule:
    """Change that a model makes to each logit after its head: logit * scale, then cap * tanh(logit / cap)."""

    scale: float = 1.0
    cap: float | None = None

    @classmethod
    def of(cls, made: Tensor) -> Self | None:
        """Return the rule that turns `_PROBES` into these numbers, [probes]; None if it is another kind of rule."""
        given, found = np.array(_PROBES), made.double().cpu().numpy()
        if found.shape != given.shape or not np.isfinite(found).all():
            return None
        # Some models return logits in half precision: a number of theirs shows the rule up to this share of it.
        exactness = max(1e-5, float(torch.finfo(made.dtype).eps))
        if np.allclose(found, given, rtol=exactness, atol=0):
            return cls()
        (x_small, x_half, x_huge), (small, half, huge) = (values[[0, 2, -2]] for values in (given, found))
        if abs(huge - x_huge * small / x_small) <= 1e-3 * abs(huge):
            rule = cls(scale=float(half / x_half))
        elif abs(small) < abs(huge):
            # A huge logit becomes the cap; the inverse of tanh takes the cap's bend out of the small one.
            scale = float(huge * np.arctanh(small / huge) / x_small)
            rule = cls(scale=1.0 if abs(scale - 1) < 1e-6 else scale, cap=float(huge))
        else:
            return None
        expected = rule.applied(torch.from_numpy(given)).numpy()
        # A scale or a cap that was read off rounded numbers would be wrong for all logits.
        return rule if exactness == 1e-5 and np.allclose(found, expected, rtol=1e-5, atol=0) else None

    def applied(self, logits: Tensor) -> Tensor:
        """Return the logits after the rule, in place."""
        if self.scale != 1.0:
            logits.mul_(self.scale)
        return logits if self.cap is None else logits.div_(self.cap).tanh_().mul_(self.cap)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Numbers that are read from the logits of one batch; tensors are int64 and on the device."""

    width: int  # columns of the batch; those that prompt learning puts before them are not read
    needed: Tensor  # positions whose logits are needed, as row * width + column, ascending [needed]
    rows: Tensor  # row in `needed` of each token whose log-probability is wanted, ascending [cells]
    tokens: Tensor  # the tokens [cells]
    likeliest: Tensor  # rows in `needed` whose most likely token is wanted, ascending [likeliest]
    # `rows` and `likeliest` in host memory: pieces are cut without waiting for the device.
    rows_here: NDArray[np.int64]
    likeliest_here: NDArray[np.int64]
    most: int = 0  # number of the likeliest tokens that are wanted at every position, with their log-probabilities

    def on(self, device: torch.device) -> Wanted:
        """Return the same on a device: the head of a model that is spread over several is not where its input is."""
        needed, rows, tokens, likeliest = (
            part.to(device) for part in (self.needed, self.rows, self.tokens, self.likeliest)
        )
        return replace(self, needed=needed, rows=rows, tokens=tokens, likeliest=likeliest)


class HeadReader:
    """Stands in for `forward` of a model's output embedding, inside `replaced`.

    Attributes:
        task: Function that reads what is wanted from the hidden states of a call, such as `numbers` or `logits`; None
            to read nothing.
        read: What the task returned in the latest call.
        calls: Calls so far.
    """

    def __init__(
        self, head: nn.Module, own: Callable[..., Any], rule: Rule, *, is_plain: bool, matrix_only: bool
    ) -> None:
        # `own` is the head's forward, that of its class if `is_plain`; `rule` is what follows it in the model.
        self.task: Callable[[Tensor], Tensor] | None = None
        self.read: Tensor | None = None
        self.calls = 0
        self._head, self._own, self._rule = head, own, rule
        self._is_plain, self._matrix_only = is_plain, matrix_only
        self._probes: Tensor | None = None
        self._most = sys.maxsize  # positions at a time for which memory suffices

    def __call__(self, hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the numbers [..., probes] in place of logits [..., vocabulary].

        What the task reads is put into `read`.
        """
        self.calls += 1
        # Sums of half-precision products are what autocast would round.
        with torch.autocast(hidden.device.type, enabled=False):
            if self.task is not None:
                self.read = self.task(hidden)
        if self._probes is None or self._probes.device != hidden.device:
            self._probes = torch.tensor(_PROBES, device=hidden.device)
        return self._probes.repeat(*hidden.shape[:-1], 1)

    def numbers(self, hidden: Tensor, wanted: Wanted) -> Tensor:
        """Log-probabilities and most likely tokens that are wanted, float [cells + likeliest].

        After these come the `most` likeliest tokens of each position, and their log-probabilities, each float
        [needed * most].
        """
        wanted = wanted.on(hidden.device)
        states = states_at(hidden, wanted.width, wanted.needed)

        def read() -> Tensor:
            matrix = self._matrix()
            pieces = self._pieces(states, matrix)
            if matrix is None or (matrix.group is None and _is_multiplied_at_once(states, matrix.weight)):
                return _numbers_of_whole_rows(pieces, wanted)
            return _numbers_of_parts(pieces, wanted, states, matrix)

        return self._in_memory(read, len(states))

    def logits(self, hidden: Tensor, width: int, positions: Tensor) -> Tensor:
        """Return the logits at a few positions, as in `states_at`, float [positions, vocabulary]."""
        return self._logits(states_at(hidden, width, positions))

    def divergence(self, base: Tensor, now: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        """Return the KL of base to now over the vocabulary, and the base's log-probability, float [2, cells].

        Both are in nats, from hidden states [positions, hidden size] of the base and of the model now, for `tokens` at
        `rows` of these, int64 [cells]. Only logits of a few positions are in memory at a time.
        """
        matrix = self._matrix()
        if matrix is None or matrix.group is not None:
            raise ScoringError(f"needed an output embedding that is one matrix, got {type(self._head).__name__}")

        def read() -> Tensor:
            most = _CUDA_LOGITS if base.is_cuda else _CPU_LOGITS
            size = min(max(_FEWEST, most // len(matrix.weight)), self._most)
            found = torch.full((2, len(rows)), torch.nan, dtype=torch.float64, device=base.device)
            for start in range(0, len(base), size):
                piece = slice(start, start + size)
                one, other = (torch.log_softmax(self._logits(states[piece]), dim=-1) for states in (base, now))
                inside = (rows >= start) & (rows < start + size)
                own = rows[inside] - start
                found[0, inside] = _kl(one, other)[own]
                found[1, inside] = one[own, tokens[inside]].double()
            return found

        with torch.autocast(base.device.type, enabled=False):
            return self._in_memory(read, len(base))

    def _in_memory(self, function: Callable[[], Tensor], positions: int) -> Tensor:
        """Call a function that reads pieces of these positions; pieces are halved as long as memory ends."""
        while True:
            try:
                return function()
            except torch.OutOfMemoryError:
                # Here and not for the whole batch: its layers are read already, in each process that has a part of
                # them. In this process alone, pieces may be smaller than in others.
                if (largest := min(self._most, positions)) == 1:
                    raise
                self._most = largest // 2

    def _logits(self, hidden: Tensor) -> Tensor:
        matrix = self._matrix()
        columns: dict[int, list[Tensor]] = {}
        for _, column, logits in self._pieces(hidden, matrix):
            columns.setdefault(column, []).append(logits)
        logits = torch.cat([torch.cat(rows) for rows in columns.values()], dim=-1)
        return logits if matrix is None or matrix.group is None else _gather_columns(logits, matrix)

    def _matrix(self) -> _Matrix | None:
        """Return the head's matrix at the time of a call.

        None for another kind of module, an error if that is not allowed.
        """
        matrix = _matrix_of(self._head, is_plain=self._is_plain)
        if matrix is None and self._matrix_only:
            raise ScoringError(f"needed an output embedding that is one matrix, got {type(self._head).__name__}")
        return matrix

    def _pieces(self, hidden: Tensor, matrix: _Matrix | None) -> Iterator[tuple[int, int, Tensor]]:
        """Yield first row, first column and logits, float [rows, columns], of one piece after the other."""
        if matrix is None:
            size = min(_FEWEST, self._most)
            for row in range(0, len(hidden), size):
                # Some modules expect a batch of rows.
                yield row, 0, self._rule.applied(self._own(hidden[None, row : row + size])[0].float())
            return
        for column, multiply, width in _column_pieces(hidden, matrix):
            most = _CUDA_LOGITS if hidden.is_cuda else _CPU_LOGITS
            size = min(max(_FEWEST, most // width), self._most)
            for row in range(0, len(hidden), size):
                yield row, column + matrix.first, self._rule.applied(multiply(hidden[row : row + size]))


@contextmanager
def replaced(model: nn.Module, rule: Rule, *, matrix_only: bool) -> Iterator[HeadReader]:
    """Replace the `forward` of the model's output embedding by a `HeadReader`; an error if the model has none."""
    head = output_embedding(model)
    if head is None:
        raise ScoringError("the model names no output embedding")
    # accelerate's wrapper, which moves weights and inputs, calls the own forward under this name.
    name = "_old_forward" if "_hf_hook" in vars(head) and "_old_forward" in vars(head) else "forward"
    before = vars(head).get(name)
    own = getattr(head, name)
    is_plain = before is None or getattr(before, "__func__", None) is nn.Linear.forward
    reader = HeadReader(head, own, rule, is_plain=is_plain, matrix_only=matrix_only)
    setattr(head, name, reader)
    try:
        with _linear_in_fp32([part for part in _linear_parts(head) if part is not head]):
            yield reader
    finally:
        delattr(head, name)
        if before is not None:
            setattr(head, name, before)


@contextmanager
def head_in_fp32(model: nn.Module) -> Iterator[None]:
    """Compute the output embedding in fp32 inside this context: logits in bf16 tie where the model does not.

    Each plain `nn.Linear` of the head is replaced, also of one with adapters or with a trained copy. A head whose
    weight is sharded, quantised or of another kind stays as it is.
    """
    head = output_embedding(model)
    with _linear_in_fp32([] if head is None else _linear_parts(head)):
        yield


def _linear_parts(head: nn.Module) -> list[nn.Linear]:
    """Return the plain `nn.Linear` of a head, itself included.

    None of a subclass, which does more than its parts do.
    """
    linear = [part for part in head.modules() if type(part) is nn.Linear and "forward" not in vars(part)]
    plain = [part for part in linear if is_matrix(part.weight)]
    # FSDP 2 gives the module a class of its own, with the same forward; an adapter's parts are added up in fp32.
    is_subclass = isinstance(head, nn.Linear) and head not in plain and type(head).forward is not nn.Linear.forward
    return [] if is_subclass and not hasattr(head, "base_layer") else plain


@contextmanager
def _linear_in_fp32(plain: Sequence[nn.Linear]) -> Iterator[None]:
    for part in plain:
        part.forward = partial(_logits_in_fp32, part)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in plain:
            del part.forward


def read_logits(logits: Tensor, wanted: Wanted) -> Tensor:
    """Return the numbers of `wanted`, as `HeadReader.numbers`, from the model's own logits [needed, vocabulary]."""
    size = max(1, (_CUDA_LOGITS if logits.is_cuda else 2**19) // logits.shape[-1])
    pieces = ((row, 0, logits[row : row + size].float()) for row in range(0, len(logits), size))
    return _numbers_of_whole_rows(pieces, wanted.on(logits.device))


def states_at(hidden: Tensor, width: int, positions: Tensor) -> Tensor:
    """Return hidden states at positions (row * width + column) of the last `width` of [rows, columns, size]."""
    if hidden.ndim != 3 or hidden.shape[1] < width:
        raise ScoringError(f"the head got hidden states of shape {tuple(hidden.shape)}; needed [rows, {width}, size]")
    return hidden[:, -width:].reshape(-1, hidden.shape[-1]).index_select(0, positions.to(hidden.device))


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    """The rows of a plain head that this process holds: those from the token `first` on."""

    weight: Tensor  # floats [columns, hidden size]
    bias: Tensor | None  # floats [columns]
    first: int = 0
    group: Any = None  # processes that hold the other columns; None if there are none


def _matrix_of(head: nn.Module, *, is_plain: bool) -> _Matrix | None:
    # FSDP 2 gives the module a class of its own, with the same forward.
    if type(head).forward is not nn.Linear.forward or not is_matrix(getattr(head, "weight", None)):
        return None
    weight: Any = head.weight
    bias: Any = head.bias
    if not hasattr(weight, "device_mesh"):
        return _Matrix(weight=weight, bias=bias) if is_plain else None
    # Tensor parallelism replaces the forward, to combine what the processes compute; that is done here instead.
    mesh, placements = weight.device_mesh, weight.placements
    if mesh.ndim != 1 or not placements[0].is_shard(0):
        return None
    # A sharded dimension is cut as by torch.chunk.
    first = mesh.get_local_rank() * -(-len(weight) // mesh.size())
    return _Matrix(
        weight=weight.to_local(),
        bias=bias.to_local() if hasattr(bias, "device_mesh") else bias,
        first=min(first, len(weight)),
        group=mesh.get_group(),
    )


def _is_multiplied_at_once(hidden: Tensor, weight: Tensor) -> bool:
    """Return True if no fp32 copy of the weights is needed, so that all columns are multiplied at once."""
    if weight.dtype in (torch.float32, torch.float64) or weight.numel() <= _WEIGHTS:
        return True
    return _is_summed_in_fp32(hidden, weight)


def _is_summed_in_fp32(hidden: Tensor, weight: Tensor) -> bool:
    return hidden.is_cuda and hidden.dtype == weight.dtype and weight.element_size() == 2 and _sums_in_fp32()


@cache
def _sums_in_fp32() -> bool:
    """Return True if this version of torch multiplies half-precision matrices to a product in fp32, on CUDA."""
    try:
        one = torch.ones(16, 16, dtype=torch.bfloat16, device="cuda")
        return torch.mm(one, one, out_dtype=torch.float32).dtype == torch.float32
    except (TypeError, RuntimeError):
        return False


def _column_pieces(hidden: Tensor, matrix: _Matrix) -> Iterator[tuple[int, Callable[[Tensor], Tensor], int]]:
    """Yield first column, multiplication and number of columns of each piece of the weights."""
    weight, bias = matrix.weight, matrix.bias
    if _is_summed_in_fp32(hidden, weight):
        yield 0, partial(_product_summed_in_fp32, weight=weight, bias=bias), len(weight)
        return
    exact = weight.dtype if weight.dtype in (torch.float32, torch.float64) else torch.float32
    # In pieces, so that no fp32 copy of the whole matrix is made.
    step = len(weight) if weight.dtype == exact else max(1, _WEIGHTS // weight.shape[1])
    for column in range(0, len(weight), step):
        part = weight[column : column + step].to(exact)
        shift = None if bias is None else bias[column : column + step].to(exact)
        yield column, partial(_product, weight=part, bias=shift), len(part)


def _product(rows: Tensor, *, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(rows.to(weight.dtype), weight, bias)


def _product_summed_in_fp32(rows: Tensor, *, weight: Tensor, bias: Tensor | None) -> Tensor:
    # torch.mm takes matrices alone.
    logits = torch.mm(rows.reshape(-1, rows.shape[-1]), weight.t(), out_dtype=torch.float32)
    logits = logits if bias is None else logits.add_(bias)
    return logits.reshape(*rows.shape[:-1], -1)


def _logits_in_fp32(head: nn.Linear, hidden: Tensor) -> Tensor:
    """Return the logits [..., vocabulary], fp32, of hidden states [..., hidden size]."""
    with torch.autocast(hidden.device.type, enabled=False):
        pieces = _column_pieces(hidden, _Matrix(weight=head.weight, bias=head.bias))
        parts = [multiply(hidden) for _, multiply, _ in pieces]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _numbers_of_whole_rows(pieces: Iterable[tuple[int, int, Tensor]], wanted: Wanted) -> Tensor:
    """Return the numbers of `wanted` from pieces that hold all columns of their rows."""
    cells, tops, ids, values = [], [], [], []
    for row, _, logits in pieces:
        of_cells, of_likeliest = _stretches(wanted, row, row + len(logits))
        # The fused log-softmax of a piece that fits into the cache: there is no float copy of all logits.
        logprobs = torch.log_softmax(logits, dim=-1)
        cells.append(logprobs[wanted.rows[of_cells] - row, wanted.tokens[of_cells]])
        tops.append(_rows(logits, wanted.likeliest[of_likeliest] - row).argmax(-1).to(logprobs.dtype))
        if wanted.most:
            highest, tokens = logprobs.topk(wanted.most)
            ids.append(tokens.to(logprobs.dtype).flatten())
            values.append(highest.flatten())
    return torch.cat([*cells, *tops, *ids, *values])


def _numbers_of_parts(
    pieces: Iterable[tuple[int, int, Tensor]], wanted: Wanted, hidden: Tensor, matrix: _Matrix
) -> Tensor:
    """Return the numbers of `wanted` from pieces of some columns each, here and in the matrix's group."""
    float_type = torch.promote_types(torch.float32, matrix.weight.dtype)
    new = partial(torch.full, dtype=float_type, device=hidden.device)
    lowest = -torch.inf
    # Of each position the logsumexp so far; of each token its log-probability within its piece, and the piece's
    # logsumexp; of each position in `likeliest` the highest logit so far, and its token.
    total, cells, within = (new((size,), lowest) for size in (len(hidden), len(wanted.rows), len(wanted.rows)))
    best, top = (new((len(wanted.likeliest),), value) for value in (lowest, 0.0))
    # Of each position the highest logits so far, and their tokens.
    values, ids = (new((len(hidden), wanted.most), value) for value in (lowest, 0.0))
    for row, column, logits in pieces:
        of_cells, of_likeliest = _stretches(wanted, row, row + len(logits))
        logprobs = torch.log_softmax(logits, dim=-1)
        sums = logits.amax(-1) - logprobs.amax(-1)
        total[row : row + len(logits)] = torch.logaddexp(total[row : row + len(logits)], sums)
        rows, tokens = wanted.rows[of_cells] - row, wanted.tokens[of_cells] - column
        inside = (tokens >= 0) & (tokens < logits.shape[-1])
        found = logprobs[rows, tokens.clamp(0, logits.shape[-1] - 1)]
        cells[of_cells] = torch.where(inside, found, cells[of_cells])
        within[of_cells] = torch.where(inside, sums[rows], within[of_cells])
        highest, index = _rows(logits, wanted.likeliest[of_likeliest] - row).max(-1)
        better = highest > best[of_likeliest]
        best[of_likeliest] = torch.where(better, highest, best[of_likeliest])
        top[of_likeliest] = torch.where(better, (index + column).to(float_type), top[of_likeliest])
        if wanted.most:
            own, tokens = logits.to(float_type).topk(min(wanted.most, logits.shape[-1]))
            piece = slice(row, row + len(logits))
            pair = (values[piece], own), (ids[piece], (tokens + column).to(float_type))
            values[piece], ids[piece] = _highest(*(torch.cat(parts, dim=-1) for parts in pair), count=wanted.most)
    if matrix.group is not None:
        own_parts = total, cells, within, best, top, values.flatten(), ids.flatten()
        sizes = [len(part) for part in own_parts]
        parts = _gather(torch.cat(own_parts), matrix.group)
        totals, all_cells, all_within, all_best, all_top, all_values, all_ids = parts.split(sizes, dim=1)
        total = totals.logsumexp(0)
        # A token is in one process: elsewhere both are minus infinity.
        cells, within = all_cells.amax(0), all_within.amax(0)
        top = all_top.gather(0, all_best.argmax(0, keepdim=True))[0]
        # [processes, positions * most] to [positions, processes * most]
        side_by_side = (
            part.reshape(len(part), len(hidden), wanted.most).transpose(0, 1).flatten(1)
            for part in (all_values, all_ids)
        )
        values, ids = _highest(*side_by_side, count=wanted.most)
    tops = ids.flatten(), (values - total[:, None]).flatten()
    return torch.cat([cells + (within - total[wanted.rows]), top, *tops])


def _highest(values: Tensor, ids: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """Return the highest values of each row and their ids, each [rows, count]."""
    highest, index = values.topk(count)
    return highest, ids.gather(-1, index)


def _kl(one: Tensor, other: Tensor) -> Tensor:
    """Return the KL between the distributions of each row, from log-probabilities [rows, vocabulary].

    Float64 [rows], at least 0.

    The sum of p log(p/q) - p + q, which loses nothing where p and q are nearly equal.
    """
    p, q, rise = one.exp(), other.exp(), one - other
    near = p * (rise + torch.expm1(-rise))
    terms = torch.where(rise.abs() < 1, near, p * rise - p + q)
    # A token that the base rules out has p log(p/q) = 0.
    return torch.where(p > 0, terms, q).clamp_min(0).sum(-1, dtype=torch.float64)


def _stretches(wanted: Wanted, first: int, last: int) -> tuple[slice, slice]:
    """Return the stretches of `wanted.rows` and of `wanted.likeliest` that are in the rows `first` to `last`."""
    cells, likeliest = (np.searchsorted(rows, (first, last)) for rows in (wanted.rows_here, wanted.likeliest_here))
    return slice(*cells.tolist()), slice(*likeliest.tolist())


def _rows(logits: Tensor, rows: Tensor) -> Tensor:
    return logits if len(rows) == len(logits) else logits.index_select(0, rows)


def _gather(own: Tensor, group: Any) -> Tensor:
    """Return the tensors of equal shape from all processes of a group, [processes, ...]."""
    parts = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, own.contiguous(), group=group)
    return torch.stack(parts)


def _gather_columns(logits: Tensor, matrix: _Matrix) -> Tensor:
    """Return the logits [rows, vocabulary] from the columns of all processes, of which the last may have fewer."""
    size = torch.tensor([logits.shape[1]], device=logits.device)
    sizes = _gather(size, matrix.group)[:, 0].tolist()
    padded = functional.pad(logits, (0, max(sizes) - logits.shape[1]))
    return torch.cat([part[:, :n] for part, n in zip(_gather(padded, matrix.group), sizes, strict=True)], dim=1)
