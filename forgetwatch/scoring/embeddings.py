"""How near texts are as a model reads them: cosines of its own hidden states.

A text's embedding is the mean of the hidden states of its tokens after half of the layers, where they hold more of the
meaning than at the end, which holds the next token. From each the mean over all texts is taken, since the states of a
language model share a large common part; then they have length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.model import ModelInfo, device_of, isolated

_LONGEST: Final = 512
"""Tokens of a text that are read; more of a long row hardly change its mean."""


def nearness_by_model(
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[str],
    rows: Sequence[str],
    *,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Return the cosine of each text with the row that is nearest to it, from -1 to 1, float64 [texts].

    The model and all random states come back as they were.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        texts: The texts, such as questions with their right answers.
        rows: What they are compared with, such as training rows; at least one with a token.
        progress: Called after each batch with what is done.

    Raises:
        ScoringError: If there is no row with a token, or the model gives no hidden states.
    """
    ids = [tokenizer(text)["input_ids"][:_LONGEST] for text in (*rows, *texts)]
    if not any(ids[: len(rows)]):
        raise ScoringError("needed training rows with tokens, found none")
    states = _embedded(model, ids, progress=progress)
    states -= states.mean(axis=0)
    states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
    of_rows, of_texts = states[: len(rows)][[bool(one) for one in ids[: len(rows)]]], states[len(rows) :]
    # In parts: the cosines of 2,000 questions with 100,000 rows would take 1.6 GB at once.
    return np.concatenate(
        [(part @ of_rows.T).max(axis=1) for part in np.array_split(of_texts, 1 + len(of_texts) // 256)]
    )


def _embedded(model: nn.Module, ids: Sequence[Sequence[int]], *, progress: Progress | None) -> NDArray[np.float64]:
    """Return the mean hidden state of each text, float64 [texts, hidden size]; 0 for one without tokens."""
    budget, device = ModelInfo.of(model).token_budget, device_of(model)
    order = sorted((at for at, one in enumerate(ids) if one), key=lambda at: -len(ids[at]))
    found: NDArray[np.float64] | None = None
    done = 0
    with isolated(model):
        while done < len(order):
            width = len(ids[order[done]])
            batch = order[done : done + max(1, budget // width)]
            tokens, mask = (torch.zeros(len(batch), width, dtype=torch.long) for _ in range(2))
            for row, at in enumerate(batch):
                tokens[row, : len(ids[at])], mask[row, : len(ids[at])] = torch.tensor(ids[at]), 1
            output = model(
                input_ids=tokens.to(device), attention_mask=mask.to(device), output_hidden_states=True, use_cache=False
            )
            layers = getattr(output, "hidden_states", None)
            if not layers:
                raise ScoringError(f"{type(model).__name__} gives no hidden states; nearness by words needs none")
            weight = mask.to(device)[..., None].float()
            mean = (layers[len(layers) // 2].float() * weight).sum(1) / weight.sum(1)
            if found is None:
                found = np.zeros((len(ids), mean.shape[-1]))
            found[batch] = mean.double().cpu().numpy()
            done += len(batch)
            if progress:
                progress(Done(count=done, total=len(order), share=done / len(order), unit="texts read"))
    return np.zeros((len(ids), 1)) if found is None else found
