"""Batches through a model: log-likelihoods of the choices, read off the logits that they need and no others.

Log-softmax in fp32 and sums in fp64, whatever the model's dtype: sums in bf16 come in steps of half a nat and tie.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.plan import Batch

Progress = Callable[[int, int], None]
"""Called with the rows done and the rows in all."""

_CHUNK: Final = 2**25
"""Logits that are turned into fp32 at a time."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What the model says of one item.

    Attributes:
        logprobs: Log-likelihood of each choice, nats, float64 [choices].
        spelled: Probability of the other spellings of the choices, together.
        top: The most likely next token after the context.
    """

    logprobs: np.ndarray[Any, np.dtype[np.float64]]
    spelled: float
    top: int


def base_model(model: nn.Module) -> nn.Module:
    """The language model inside what training wrapped around it (torch.compile, data parallel, PEFT)."""
    model = getattr(model, "_orig_mod", model)  # torch.compile's own name for what it wraps
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    inner = getattr(model, "get_base_model", None)  # PEFT's own accessor; peft need not be installed
    return inner() if callable(inner) else model


def text_config(model: nn.Module) -> PreTrainedConfig:
    """The configuration of the language model: its vocabulary, and the positions it can read.

    Raises:
        ScoringError: If the model is none of transformers' language models.
    """
    config = getattr(base_model(model), "config", None)
    if not isinstance(config, PreTrainedConfig):
        raise ScoringError(f"needed a causal language model of transformers, got {type(model).__name__}")
    return config.get_text_config()


def forward(
    model: nn.Module, batches: Sequence[Batch], encoded: Sequence[Encoded], progress: Progress | None = None
) -> dict[int, Scores]:
    """Scores of all items in the batches, by position in the probe.

    Args:
        model: A causal language model in evaluation mode; call inside `isolated`.
        batches: Made by `plan`.
        encoded: The items' token ids.
        progress: Called after each batch.

    Raises:
        ScoringError: If what the model returns are no logits over its vocabulary, or not finite.
    """
    device = next(model.parameters()).device
    size = text_config(model).vocab_size
    keeps = "logits_to_keep" in inspect.signature(type(base_model(model)).forward).parameters
    logprobs = {
        row.requests[0].item: np.full(len(encoded[row.requests[0].item].choices), np.nan) for b in batches for row in b
    }
    spelled, top = dict.fromkeys(logprobs, 0.0), dict.fromkeys(logprobs, -1)
    done, total = 0, sum(map(len, batches))
    for batch in batches:
        width = len(batch[0].ids)
        kept = width - min(row.first for row in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(batch):
            ids[number, : len(row.ids)] = torch.tensor(row.ids)
            mask[number, : len(row.ids)] = 1
        options = {"logits_to_keep": kept} if keeps else {}
        output = model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False, **options)
        logits = _checked(model, output, rows=len(batch), widths=(kept, width), vocabulary=size)
        requests = [(number, request) for number, row in enumerate(batch) for request in row.requests]
        cells = [(number, r.start + j, target) for number, r in requests for j, target in enumerate(r.targets)]
        shift = width - logits.shape[1]
        token_logprobs = _token_logprobs(logits, cells, shift)
        offset = 0
        for number, request in requests:
            part = token_logprobs[offset : offset + len(request.targets)]
            logprobs[request.item][request.choice] = part.sum()
            offset += len(request.targets)
            if top[request.item] < 0:
                first = logits[number, request.start - shift].float()
                top[request.item] = int(first.argmax())
                others = sorted({token for tokens in encoded[request.item].spellings for token in tokens})
                spelled[request.item] = float(torch.softmax(first, -1)[others].double().sum()) if others else 0.0
        done += len(batch)
        if progress:
            progress(done, total)
    return {item: Scores(logprobs=logprobs[item], spelled=spelled[item], top=top[item]) for item in logprobs}


def _checked(model: nn.Module, output: Any, *, rows: int, widths: tuple[int, int], vocabulary: int) -> Tensor:
    """The logits [rows, kept, vocabulary] of a model's output, if that is what they are."""
    logits = getattr(output, "logits", None)
    name = type(base_model(model)).__name__
    if not isinstance(logits, Tensor):
        raise ScoringError(f"{name} returned no logits; needed a causal language model with its language head")
    if logits.ndim != 3 or logits.shape[0] != rows or logits.shape[1] not in widths or logits.shape[2] != vocabulary:
        raise ScoringError(
            f"{name} returned logits of shape {tuple(logits.shape)}, needed [{rows}, {widths[0]} or {widths[1]}, "
            f"{vocabulary}]: one number per token of the vocabulary at each position"
        )
    return logits


def _token_logprobs(logits: Tensor, cells: Sequence[tuple[int, int, int]], shift: int) -> np.ndarray[Any, Any]:
    """Log-probability of each (row, position, token), nats, float64 [cells]."""
    row, position, token = torch.tensor(cells, device=logits.device).T
    # Several choices read the same position: normalise each position once.
    places, place_of_cell = torch.unique(row * logits.shape[1] + position - shift, return_inverse=True)
    flat = logits.reshape(-1, logits.shape[-1])
    step = max(1, _CHUNK // logits.shape[-1])
    normalisers = torch.cat([torch.logsumexp(flat[part].float(), dim=-1) for part in places.split(step)])
    picked = flat[places[place_of_cell], token].float()
    values: np.ndarray[Any, Any] = (picked - normalisers[place_of_cell]).double().cpu().numpy()
    if not np.isfinite(values).all():
        raise ScoringError("the model's logits are not finite; has the run diverged?")
    return values
