"""One batch of rows as tensors: token ids, positions, the attention mask of a tree, and which logits are needed.

In depth-first order the subtree of a token is a stretch of its row. Token i therefore sees token j exactly if
j <= i < ends[j], and the mask of a whole tree needs one comparison:

    tokens    Q  A: Santiago  Lima        row "Santiago" sees   Q  A:  Santiago
    depths    0  1  2         2           row "Lima" sees       Q  A:            Lima
    ends      4  4  3         4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig

from forgetwatch.scoring.layout import Batch

Keep = Literal["mask", "positions", "last", "all"]
"""Form of a model's argument `logits_to_keep`: a mask for each row, one list of positions for all rows, the number of
last positions, or no argument at all."""


@dataclass(frozen=True, kw_only=True)
class BatchTensors:
    """One batch as tensors on the CPU, rows padded on the right to one width.

    Attributes:
        ids: Token ids, int64 [rows, width]; 0 at padding.
        mask: 1 at tokens, 0 at padding, int64 [rows, width].
        depths: Position of each token in its text, int64 [rows, width].
        ends: One past the last token that sees this one, in its row, int64 [rows, width].
        needed: True where the logits are needed, bool [rows, width].
        index: Index of a (row, position) among the logits that are needed.
    """

    ids: Tensor
    mask: Tensor
    depths: Tensor
    ends: Tensor
    needed: Tensor
    index: dict[tuple[int, int], int]

    @property
    def first(self) -> int:
        """The first position at which any row needs logits."""
        return int(self.needed.any(0).nonzero()[0])

    def logits_to_keep(self, keep: Keep) -> Tensor | int | None:
        """The argument of that name, in the form `keep`: bool [rows, width], int64 [positions], a number, or None."""
        if keep == "mask":
            return self.needed
        if keep == "positions":
            return self.needed.any(0).nonzero()[:, 0]
        return self.ids.shape[1] - self.first if keep == "last" else None


def tensors_of(batch: Batch) -> BatchTensors:
    """Tensors of one batch."""
    width = batch.width
    shape = (len(batch.rows), width)
    ids, mask, depths = (np.zeros(shape, np.int64) for _ in range(3))
    # Padding sees itself only: a row of the mask without any True gives NaN in softmax.
    ends = np.tile(np.arange(1, width + 1), (len(batch.rows), 1))
    needed = np.zeros(shape, bool)
    index: dict[tuple[int, int], int] = {}
    for number, row in enumerate(batch.rows):
        length = len(row.ids)
        ids[number, :length], depths[number, :length], ends[number, :length] = row.ids, row.depths, row.ends
        mask[number, :length] = 1
        positions = row.positions
        needed[number, list(positions)] = True
        # Ascending by row, then position: the order in which a boolean mask selects.
        index |= {(number, position): len(index) + offset for offset, position in enumerate(positions)}
    return BatchTensors(
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        depths=torch.from_numpy(depths),
        ends=torch.from_numpy(ends),
        needed=torch.from_numpy(needed),
        index=index,
    )


def tree_options(
    config: PreTrainedConfig,
    tensors: BatchTensors,
    *,
    device: torch.device,
    additive: torch.dtype | None,
    prefix: int = 0,
) -> dict[str, Any]:
    """Position ids and attention mask of a batch of trees.

    A token sees itself and its ancestors, within the window or chunk of each layer. The mask is
    [rows, 1, width, prefix + width]; a model whose layers differ gets a dict with one mask for each kind.

    Args:
        config: The language model's, for the kinds and windows of its layers.
        tensors: The batch.
        device: Device of the mask.
        additive: Dtype of a mask that is added to the attention scores, 0 or the lowest number; None for a boolean one.
        prefix: Number of cached tokens before each row.
    """
    depths, ends = tensors.depths.to(device), tensors.ends.to(device)
    position = torch.arange(depths.shape[1], device=device)
    # [rows, i, j]: j <= i < ends[j].
    ancestor = (position[None, None, :] <= position[None, :, None]) & (position[None, :, None] < ends[:, None, :])
    # Every token sees the prefix, whose tokens are at depths 0 to prefix - 1.
    before = torch.arange(prefix, device=device).expand(len(depths), -1)
    ancestor = nn.functional.pad(ancestor, (prefix, 0), value=True)
    keys = torch.cat([before, depths], dim=1)

    def mask(kind: str) -> Tensor:
        seen = ancestor
        # Distances are differences of depth: in a row, another branch may lie between a token and its ancestor.
        if kind == "sliding_attention" and (window := _window(config)):
            seen = ancestor & (depths[:, :, None] - keys[:, None, :] < window)
        elif kind == "chunked_attention":
            size = config.attention_chunk_size
            seen = ancestor & (depths[:, :, None] // size == keys[:, None, :] // size)
        seen = seen[:, None]  # the same for all heads
        return seen if additive is None else torch.where(seen, 0.0, torch.finfo(additive).min).to(additive)

    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    if len(kinds) > 1:
        return {"attention_mask": {kind: mask(kind) for kind in kinds}, "position_ids": depths}
    # A configuration without kinds of layers applies its window to every layer.
    kind = kinds[0] if kinds else "sliding_attention" if _window(config) else "full_attention"
    return {"attention_mask": mask(kind), "position_ids": depths}


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
