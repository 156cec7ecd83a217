"""A batch of rows as tensors: ids, positions, what each token sees, and which logits are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from forgetwatch.scoring.plan import Batch

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
    width = len(batch[0].ids)
    shape = (len(batch), width)
    ids, mask, depths = (np.zeros(shape, np.int64) for _ in range(3))
    ends = np.tile(np.arange(1, width + 1), (len(batch), 1))  # what is no token sees itself only
    needed = np.zeros(shape, bool)
    index: dict[tuple[int, int], int] = {}
    for number, row in enumerate(batch):
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


def tree_options(config: PreTrainedConfig, tensors: BatchTensors, *, additive: torch.dtype | None) -> dict[str, Any]:
    """Positions and the mask of a batch of trees: a token sees itself and its ancestors, within the model's window.

    Args:
        config: The language model's, for its layers' kinds and windows.
        tensors: The batch.
        additive: The dtype of a mask that is added to the scores, 0 or very negative; None for one of True and False.
    """
    place = torch.arange(tensors.ids.shape[1])
    # In depth-first order the subtree of a token is a stretch: i sees j exactly if j <= i < ends[j].
    ancestor = (place[None, None, :] <= place[None, :, None]) & (place[None, :, None] < tensors.ends[:, None, :])

    def mask(kind: str) -> Tensor:
        seen = ancestor
        if kind == "sliding_attention" and (window := _window(config)):
            seen = ancestor & (tensors.depths[:, :, None] - tensors.depths[:, None, :] < window)
        elif kind == "chunked_attention":
            chunk = tensors.depths // config.attention_chunk_size
            seen = ancestor & (chunk[:, :, None] == chunk[:, None, :])
        seen = seen[:, None]
        return seen if additive is None else torch.where(seen, 0.0, torch.finfo(additive).min).to(additive)

    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    if len(kinds) > 1:
        return {"attention_mask": {kind: mask(kind) for kind in kinds}, "position_ids": tensors.depths}
    kind = kinds[0] if kinds else "sliding_attention" if _window(config) else "full_attention"
    return {"attention_mask": mask(kind), "position_ids": tensors.depths}


def _window(config: PreTrainedConfig) -> int:
    """Tokens that a layer with a sliding window sees; 0 where there is none."""
    window = getattr(config, "sliding_window", None)
    return int(window) if window and getattr(config, "use_sliding_window", True) else 0
