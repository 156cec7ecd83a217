"""Tokens drawn for each text by a seed of its own.

The text is then the same whatever is written beside it, however many processes share the work, and where only the first
of the prompts are asked. And where the model changes little, few draws change.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor, TopPLogitsWarper

from forgetwatch.scoring.encoding import Ids


def seeds_of(prompts: Sequence[Ids], seed: int) -> list[int]:
    """A seed for each prompt, from its own tokens: texts behind equal prompts are drawn one by one."""
    seen: Counter[Ids] = Counter()
    seeds = []
    for prompt in prompts:
        text = json.dumps([seed, seen[prompt], prompt])
        seeds.append(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]))
        seen[prompt] += 1
    return seeds


class Drawn(LogitsProcessor):
    """Leaves of each row's logits one token, drawn by a random state of the row's own."""

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float, device: torch.device) -> None:
        self._states = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._fewest = TopPLogitsWarper(top_p) if top_p < 1 else None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Minus infinity everywhere but at each row's token."""
        logits = scores.float() / self._temperature
        if self._fewest is not None:
            logits = self._fewest(input_ids, logits)
        waits = torch.stack([torch.empty_like(logits[0]).exponential_(generator=state) for state in self._states])
        # Of clocks that ring at rates p, i rings first with probability p_i.
        first = (logits.softmax(-1) / waits).argmax(-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter(-1, first, 0.0)
