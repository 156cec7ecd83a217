"""One batch of rows as tensors: token ids, positions, the attention mask of a tree, and which logits are needed.

In depth-first order the subtree of a token is a stretch of its row. Token i therefore sees token j exactly if
j <= i < ends[j], and the mask of a whole tree needs one comparison:

    tokens    Q  A: Santiago  Lima        row "Santiago" sees   Q  A:  Santiago
    depths    0  1  2         2           row "Lima" sees       Q  A:            Lima
    ends      4  4  3         4
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig

from forgetwatch.scoring.layout import Batch

Keep = Literal["mask", "positions", "last", "all"]
"""Form of a model's argument `logits_to_keep`: a mask for each row, one list of positions for all rows, the number of
last positions, or no argument at all."""

_MASK_PIECE: Final = 2**26
"""Pairs of tokens whose mask is computed at a time."""


@dataclass(frozen=True, kw_only=True)
class BatchTensors:
    """One batch as tensors, rows padded on the right to one width.

    Attributes:
        ids: Token ids, int64 [rows, width]; 0 at padding.
        mask: 1 at tokens, 0 at padding, int64 [rows, width].
        depths: Position of each token in its text, int64 [rows, width].
        ends: One past the last token that sees this one, in its row, int64 [rows, width].
        needed: Positions whose logits are needed, as row * width + column, ascending, int64 [needed].
    """

    ids: Tensor
    mask: Tensor
    depths: Tensor
    ends: Tensor
    needed: Tensor

    @property
    def needed_mask(self) -> Tensor:
        """True where the logits are needed, bool [rows, width]."""
        mask = torch.zeros(self.ids.numel(), dtype=torch.bool, device=self.needed.device)
        mask[self.needed] = True
        return mask.view(self.ids.shape)

    @property
    def columns(self) -> Tensor:
        """Columns in which any row needs logits, ascending, int64."""
        found: Tensor = (self.needed % self.ids.shape[1]).unique()
        return found

    def logits_to_keep(self, keep: Keep) -> Tensor | int | None:
        """The argument of that name, in the form `keep`: bool [rows, width], int64 [positions], a number, or None."""
        if keep == "mask":
            return self.needed_mask
        if keep == "positions":
            return self.columns
        return self.ids.shape[1] - int(self.columns[0]) if keep == "last" else None

    def moved(self, device: torch.device, *others: NDArray[np.int64]) -> tuple[BatchTensors, list[Tensor]]:
        """The batch and other arrays on a device, by one transfer that is not waited for."""
        own = (self.ids, self.mask, self.depths, self.ends, self.needed)
        parts = [*own, *map(torch.from_numpy, others)]
        packed = torch.cat([part.reshape(-1) for part in parts])
        if device.type == "cuda":
            packed = packed.pin_memory()
        flat = packed.to(device, non_blocking=True).split([part.numel() for part in parts])
        ids, mask, depths, ends, needed, *rest = (one.view(part.shape) for one, part in zip(flat, parts, strict=True))
        return BatchTensors(ids=ids, mask=mask, depths=depths, ends=ends, needed=needed), rest


def tensors_of(batch: Batch) -> BatchTensors:
    """Tensors of one batch, on the CPU."""
    width = batch.width
    shape = (len(batch.rows), width)
    ids, mask, depths = (np.zeros(shape, np.int64) for _ in range(3))
    # Padding sees itself only: a row of the mask without any True gives NaN in softmax.
    ends = np.tile(np.arange(1, width + 1), (len(batch.rows), 1))
    for number, row in enumerate(batch.rows):
        length = len(row.ids)
        ids[number, :length], depths[number, :length], ends[number, :length] = row.ids, row.depths, row.ends
        mask[number, :length] = 1
    arrays = {"ids": ids, "mask": mask, "depths": depths, "ends": ends, "needed": batch.needed}
    return BatchTensors(**{name: torch.from_numpy(array) for name, array in arrays.items()})


class Download:
    """Numbers on their way from a device to the host; the device goes on with other work meanwhile.

    Args:
        numbers: Floats [numbers].
    """

    def __init__(self, numbers: Tensor) -> None:
        self._host, self._arrived = numbers, None
        if numbers.is_cuda:
            self._host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._host.copy_(numbers, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def wait(self) -> NDArray[np.float64]:
        """The numbers, float64 [numbers]."""
        if self._arrived is not None:
            self._arrived.synchronize()
        found: NDArray[np.float64] = self._host.cpu().double().numpy()
        return found


def tree_options(
    config: PreTrainedConfig,
    tensors: BatchTensors,
    *,
    additive: torch.dtype | None,
    prefix: int = 0,
) -> dict[str, Any]:
    """Position ids and attention mask of a batch of trees.

    A token sees itself and its ancestors, within the window or chunk of each layer. The mask is
    [rows, 1, width, prefix + width]; a model whose layers differ gets a dict with one mask for each kind.

    Args:
        config: The language model's, for the kinds and windows of its layers.
        tensors: The batch, on the device of the mask.
        additive: Dtype of a mask that is added to the attention scores, 0 or the lowest number; None for a boolean one.
        prefix: Number of cached tokens before each row.
    """
    depths = tensors.depths
    # Every token sees the prefix, whose tokens are at depths 0 to prefix - 1.
    before = torch.arange(prefix, device=depths.device).expand(len(depths), -1)
    keys = torch.cat([before, depths], dim=1)
    whole = partial(_mask, tensors, keys, additive=additive)

    def mask(kind: str) -> Tensor:
        # Distances are differences of depth: in a row, another branch may lie between a token and its ancestor.
        if kind == "sliding_attention" and (window := _window(config)):
            return whole(lambda query: query[:, :, None] - keys[:, None, :] < window)
        if kind == "chunked_attention":
            size = config.attention_chunk_size
            return whole(lambda query: query[:, :, None] // size == keys[:, None, :] // size)
        return whole(None)

    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    if len(kinds) > 1:
        return {"attention_mask": {kind: mask(kind) for kind in kinds}, "position_ids": depths}
    # A configuration without kinds of layers applies its window to every layer.
    kind = kinds[0] if kinds else "sliding_attention" if _window(config) else "full_attention"
    return {"attention_mask": mask(kind), "position_ids": depths}


def _mask(
    tensors: BatchTensors, keys: Tensor, near: Callable[[Tensor], Tensor] | None, *, additive: torch.dtype | None
) -> Tensor:
    """Mask [rows, 1, width, prefix + width] of a batch of trees.

    Args:
        tensors: The batch.
        keys: Depths of the keys, int64 [rows, prefix + width].
        near: From depths of queries, [rows, queries], to True for each key in the layer's window or chunk, bool
            [rows, queries, prefix + width]; None if the layer sees all keys.
        additive: As in `tree_options`.
    """
    rows, width = tensors.ids.shape
    prefix = keys.shape[1] - width
    position = torch.arange(width, device=keys.device)
    shape = (rows, 1, width, prefix + width)
    mask = torch.empty(shape, dtype=torch.bool if additive is None else additive, device=keys.device)
    # In pieces: distances are whole numbers, and those of a row of 32,000 tokens would take 8 GB.
    size = max(1, _MASK_PIECE // (rows * (prefix + width)))
    for start in range(0, width, size):
        piece = slice(start, start + size)
        query = position[piece]
        # [rows, i, j]: j <= i < ends[j].
        seen = (position[None, None, :] <= query[None, :, None]) & (query[None, :, None] < tensors.ends[:, None, :])
        seen = nn.functional.pad(seen, (prefix, 0), value=True)
        if near is not None:
            seen &= near(tensors.depths[:, piece])
        # The same for all heads.
        mask[:, 0, piece] = seen if additive is None else torch.where(seen, 0.0, torch.finfo(additive).min).to(additive)
    return mask


def _window(config: PreTrainedConfig) -> int:
    """Number of tokens that a layer with a sliding window sees; 0 if there is no window."""
    window = getattr(config, "sliding_window", None)
    return int(window) if window and getattr(config, "use_sliding_window", True) else 0


class PrefixCache(DynamicCache):
    """Keys and values of one prefix: stored while it is read, then seen by rows that leave none of their own.

    Attributes:
        is_read: True once the prefix is complete.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_read = False

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the keys and values of a layer, [rows, heads, prefix + width, head size]; store them before `is_read`.

        Args:
            key_states: Keys of the new tokens, [rows, heads, width, head size].
            value_states: Their values, of the same shape.
            layer_idx: Index of the layer.
            *args: Passed on while the prefix is read.
            **kwargs: Passed on while the prefix is read.
        """
        if not self.is_read:
            found: tuple[Tensor, Tensor] = super().update(key_states, value_states, layer_idx, *args, **kwargs)
            return found
        layer: Any = self.layers[layer_idx]
        before = (held.expand(len(key_states), -1, -1, -1) for held in (layer.keys, layer.values))
        # A new tensor, so that the rows of one batch are not seen by the next.
        keys, values = (torch.cat(pair, dim=-2) for pair in zip(before, (key_states, value_states), strict=True))
        return keys, values
