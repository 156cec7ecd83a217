"""The language head: logits at the positions that are needed and no others, in fp32.

    hidden states [rows, columns, size] ─▶ those needed [1, needed, size] ─▶ the model's own head ─▶
    logits

A hook before the output embedding hands on the needed positions alone. The model does the rest:
whatever its head is (adapters, packed weights, a part in each process) and whatever follows it (a
scale, a soft cap), its logits are few. Plain matrices are multiplied in fp32; on CUDA, factors in
half precision with sums in fp32.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from forgetwatch.scoring.model import is_matrix, output_embedding

LOGIT_BUDGET: Final = 2**28 if torch.cuda.is_available() else 2**26
"""Maximum number of logits that a call may return: 1 GB of them in fp32 on CUDA, 256 MB elsewhere."""

_WEIGHTS: Final = 2**25
"""Weights of the head that are converted to fp32 at a time."""

_CPU_LOGITS: Final = 2**19
_CUDA_LOGITS: Final = 2**26
"""Logits of which the log-softmax is taken at a time."""


@contextmanager
def only_at(model: nn.Module, width: int, positions: Tensor) -> Iterator[None]:
    """Compute logits at some positions alone.

    Positions are row * width + column of the last `width` columns; [1, positions, vocabulary].

    A model that does not call its output embedding as a module returns all of them.
    """
    if (head := output_embedding(model)) is None:
        yield
        return

    def pick(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        hidden, *rest = inputs
        if hidden.ndim != 3 or hidden.shape[1] < width:
            return None  # another call of the model's own
        flat = hidden[:, -width:].reshape(-1, hidden.shape[-1])
        return (flat.index_select(0, positions.to(hidden.device))[None], *rest)

    # First: hooks of tensor parallelism make another kind of tensor of it.
    handle = head.register_forward_pre_hook(pick, prepend=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def head_in_fp32(model: nn.Module) -> Iterator[None]:
    """Compute the output embedding in fp32 within the block.

    Logits in bf16 tie where the model does not.

    Each plain `nn.Linear` of the head is replaced, also of one with adapters or with a trained
    copy. A head whose weight is split, quantised or of another kind stays as it is.
    """
    replaced = []
    for linear in _linear_parts(output_embedding(model)):
        # accelerate's wrapper, which moves weights and inputs, calls the own forward under the
        # second name.
        name = (
            "_old_forward"
            if "_hf_hook" in vars(linear) and "_old_forward" in vars(linear)
            else "forward"
        )
        before, own_forward = vars(linear).get(name), getattr(linear, name)
        if before is None or getattr(before, "__func__", None) is nn.Linear.forward:
            setattr(linear, name, partial(_logits_in_fp32, linear, own_forward))
            replaced.append((linear, name, before))
    try:
        yield
    finally:
        for linear, name, before in replaced:
            delattr(linear, name)
            if before is not None:
                setattr(linear, name, before)


def _linear_parts(head: nn.Module | None) -> list[nn.Linear]:
    # A subclass does more than its parts do.
    # FSDP 2 gives the module a class of its own, with the same forward; an adapter's parts are
    # added up in fp32.
    plain = [
        module
        for module in (() if head is None else head.modules())
        if isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward
    ]
    return (
        plain
        if head in plain or not isinstance(head, nn.Linear) or hasattr(head, "base_layer")
        else []
    )


def _logits_in_fp32(
    head: nn.Linear, own_forward: Callable[[Tensor], Tensor], hidden: Tensor
) -> Tensor:
    # Logits [..., vocabulary], fp32, of hidden states [..., hidden size].
    weight, bias = head.weight, head.bias
    if not is_matrix(weight) or hasattr(weight, "device_mesh"):
        return own_forward(hidden)
    with torch.autocast(hidden.device.type, enabled=False):
        if _is_summed_in_fp32(hidden, weight):
            # torch.mm takes matrices alone.
            logits = torch.mm(
                hidden.reshape(-1, hidden.shape[-1]), weight.t(), out_dtype=torch.float32
            )
            return (logits if bias is None else logits.add_(bias)).reshape(*hidden.shape[:-1], -1)
        exact = weight.dtype if weight.dtype in (torch.float32, torch.float64) else torch.float32
        # In pieces, so that no fp32 copy of the whole matrix is made.
        step = len(weight) if weight.dtype == exact else max(1, _WEIGHTS // weight.shape[1])
        parts = []
        for column in range(0, len(weight), step):
            columns = slice(column, column + step)
            shift = None if bias is None else bias[columns].to(exact)
            parts.append(functional.linear(hidden.to(exact), weight[columns].to(exact), shift))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _is_summed_in_fp32(hidden: Tensor, weight: Tensor) -> bool:
    is_half = hidden.dtype == weight.dtype and weight.element_size() == 2
    return hidden.is_cuda and is_half and _sums_in_fp32()


@cache
def _sums_in_fp32() -> bool:
    # This version of torch multiplies half-precision matrices to a product in fp32, on CUDA.
    try:
        probe_matrix = torch.ones(16, 16, dtype=torch.bfloat16, device="cuda")
        return torch.mm(probe_matrix, probe_matrix, out_dtype=torch.float32).dtype == torch.float32
    except (TypeError, RuntimeError):
        return False


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Numbers that are read from the logits of one batch; tensors are int64 and on the device."""

    rows: (
        Tensor  # row in the logits of each token whose log-probability is wanted, ascending [cells]
    )
    tokens: Tensor  # the tokens [cells]
    likeliest: Tensor  # rows whose most likely token is wanted, ascending [likeliest]
    # `rows` and `likeliest` in host memory: pieces are cut without waiting for the device.
    rows_here: NDArray[np.int64]
    likeliest_here: NDArray[np.int64]
    most: int = 0  # number of the likeliest tokens that are wanted at every position, with their log-probabilities


def read_logits(logits: Tensor, wanted: Wanted) -> Tensor:
    """Read wanted log-probabilities and the likeliest tokens.

    From [needed, vocabulary] to float [cells + likeliest].

    After these come the `most` likeliest tokens of each position, and their log-probabilities, each
    float [needed * most].
    """
    rows, tokens, likeliest = (
        indices.to(logits.device) for indices in (wanted.rows, wanted.tokens, wanted.likeliest)
    )
    cells, tops, ids, values = [], [], [], []
    for row, piece in _pieces(logits):
        bounds = (row, row + len(piece))
        of_cells, of_likeliest = (
            slice(*np.searchsorted(rows_here, bounds).tolist())
            for rows_here in (wanted.rows_here, wanted.likeliest_here)
        )
        # The fused log-softmax of a piece that fits into the cache: there is no second copy of all
        # logits.
        logprobs = torch.log_softmax(piece, dim=-1)
        cells.append(logprobs[rows[of_cells] - row, tokens[of_cells]])
        tops.append(
            piece.index_select(0, likeliest[of_likeliest] - row).argmax(-1).to(logprobs.dtype)
        )
        if wanted.most:
            highest, found = logprobs.topk(wanted.most)
            ids.append(found.to(logprobs.dtype).flatten())
            values.append(highest.flatten())
    return torch.cat([*cells, *tops, *ids, *values])


def _pieces(logits: Tensor) -> Iterator[tuple[int, Tensor]]:
    # (first row, float logits) of each piece of rows.
    size = max(1, (_CUDA_LOGITS if logits.is_cuda else _CPU_LOGITS) // logits.shape[-1])
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return ((row, logits[row : row + size].to(dtype)) for row in range(0, len(logits), size))
