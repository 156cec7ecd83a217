"""A batch of rows as tensors: ids, positions, what each token sees, and which logits are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig

from forgetwatch.scoring.layout import Batch

Keep = Literal["mask", "positions", "last", "all"]
"""How a model's forward can be told which logits are needed: a mask per row, one list for all rows, the last n, not."""


@dataclass(frozen=True, kw_only=True)
class BatchTensors:
    """One batch as tensors [rows, width], and where its logits will stand.

    Attributes:
        ids: Token ids, 0 where there is none.
        mask: 1 where there is a token.
        depths: Position of each token in its text.
        ends: One past the last token that sees this one, in its row.
        needed: Whether the logits at a place are read.
        index: Number of a (row, place) among those whose logits are read.
    """

    ids: Tensor
    mask: Tensor
    depths: Tensor
    ends: Tensor
    needed: Tensor
    index: dict[tuple[int, int], int]

    @property
    def first(self) -> int:
        """The first place in any row whose logits are read."""
        return int(self.needed.any(0).nonzero()[0])

    def keep_as(self, keep: Keep) -> Tensor | int | None:
        """The argument `logits_to_keep`."""
        if keep == "mask":
            return self.needed
        if keep == "positions":
            return self.needed.any(0).nonzero()[:, 0]
        return self.ids.shape[1] - self.first if keep == "last" else None


def tensors_of(batch: Batch) -> BatchTensors:
    """One batch as tensors, on the CPU."""
    width = batch.width
    shape = (len(batch.rows), width)
    ids, mask, depths = (np.zeros(shape, np.int64) for _ in range(3))
    ends = np.tile(np.arange(1, width + 1), (len(batch.rows), 1))  # what is no token sees itself only
    needed = np.zeros(shape, bool)
    index: dict[tuple[int, int], int] = {}
    for number, row in enumerate(batch.rows):
        length = len(row.ids)
        ids[number, :length], depths[number, :length], ends[number, :length] = row.ids, row.depths, row.ends
        mask[number, :length] = 1
        places = row.places
        needed[number, list(places)] = True
        index |= {(number, place): len(index) + at for at, place in enumerate(places)}
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
    """Positions and the mask of a batch of trees: a token sees itself and its ancestors, within the model's window.

    Args:
        config: The language model's, for its layers' kinds and windows.
        tensors: The batch.
        device: Where the mask is made.
        additive: The dtype of a mask that is added to the scores, 0 or very negative; None for one of True and False.
        prefix: Tokens before each row whose keys are at hand.
    """
    depths, ends = tensors.depths.to(device), tensors.ends.to(device)
    place = torch.arange(depths.shape[1], device=device)
    # In depth-first order the subtree of a token is a stretch: i sees j exactly if j <= i < ends[j].
    ancestor = (place[None, None, :] <= place[None, :, None]) & (place[None, :, None] < ends[:, None, :])
    before = torch.arange(prefix, device=device).expand(len(depths), -1)
    ancestor = nn.functional.pad(ancestor, (prefix, 0), value=True)
    keys = torch.cat([before, depths], dim=1)

    def mask(kind: str) -> Tensor:
        seen = ancestor
        if kind == "sliding_attention" and (window := _window(config)):
            seen = ancestor & (depths[:, :, None] - keys[:, None, :] < window)
        elif kind == "chunked_attention":
            size = config.attention_chunk_size
            seen = ancestor & (depths[:, :, None] // size == keys[:, None, :] // size)
        seen = seen[:, None]
        return seen if additive is None else torch.where(seen, 0.0, torch.finfo(additive).min).to(additive)

    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    if len(kinds) > 1:
        return {"attention_mask": {kind: mask(kind) for kind in kinds}, "position_ids": depths}
    kind = kinds[0] if kinds else "sliding_attention" if _window(config) else "full_attention"
    return {"attention_mask": mask(kind), "position_ids": depths}


class PrefixCache(DynamicCache):
    """Keys and values of one prefix, read once; rows that go on from it see them and leave none behind."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = False

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The prefix's keys and values and the new ones of each row; the new ones are kept while the prefix is read."""
        if not self.is_read:
            found: tuple[Tensor, Tensor] = super().update(key_states, value_states, layer_idx, *args, **kwargs)
            return found
        layer: Any = self.layers[layer_idx]
        before = (held.expand(len(key_states), -1, -1, -1) for held in (layer.keys, layer.values))
        keys, values = (torch.cat(pair, dim=-2) for pair in zip(before, (key_states, value_states), strict=True))
        return keys, values


def _window(config: PreTrainedConfig) -> int:
    """Tokens that a layer with a sliding window sees; 0 where there is none."""
    window = getattr(config, "sliding_window", None)
    return int(window) if window and getattr(config, "use_sliding_window", True) else 0
