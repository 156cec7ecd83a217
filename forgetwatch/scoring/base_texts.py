"""The base's own completions, sampled once, and read again under the model at every look.

    at the baseline   prompts ─▶ sampling ─▶ tokens ─▶ read: log-probabilities ─▶ file
    at a look                                tokens ─▶ read: log-probabilities ─▶ drift

Both readings are the same teacher-forced pass over the same batches, so that equal weights give a drift of exactly 0;
what `generate` itself says of its tokens is only compared. It computes a little differently: with a cache and padding,
and adapters under autocast generate in fp32 and are read in bf16. The samples are off by rounding then, the readings
not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from forgetwatch.completions import Completions
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.engine import CPU_TOKENS, CUDA_TOKENS, Engine
from forgetwatch.scoring.model import base_model, context_length, device_of, vocabulary_size
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.sampling import Sample, end_tokens, sample, seeds_of
from forgetwatch.scoring.scorer import execution

TOKENS: Final = 32
"""Tokens of a completion, at most: the drift shows in few, and a look costs prompts times these."""

FOLLOWS: Final = 0.25
"""Nats per token by which generating and reading may differ: more than rounding in bf16, less than another text."""


def sample_completions(
    model: nn.Module,
    tokenizer: Any,
    prompts_by_set: Mapping[str, Sequence[Ids]],
    *,
    tokens: int = TOKENS,
    seed: int = 0,
    token_budget: int | None = None,
) -> Completions:
    """One completion for each prompt, sampled from the model's own distribution, with its log-probabilities.

    They stand in the order of the sets' names, and of the prompts in each. The same seed gives the same completions, in
    whatever order the prompts come. The model, its configurations, the tokenizer and all random states come back as
    they were, also when an exception passes. Of several processes the first samples, for all.

    Args:
        model: The base, a causal language model of transformers, also with adapters.
        tokenizer: Asked for its length limit, and for an end token where the model names none.
        prompts_by_set: Token ids of the prompts, by set; too long ones are left out and counted.
        tokens: Most tokens of a completion; it ends before with the end token, which it includes.
        seed: Of the sampling.
        token_budget: Tokens of a batch, the completions included; by default what suits the device.

    Raises:
        ScoringError: If the model cannot generate here, or generates something else than it reads, or a prompt has no
            tokens or some that the model lacks.
    """
    longest = context_length(model, tokenizer)
    kept: list[tuple[str, Ids]] = []
    left_out = dict.fromkeys(prompts_by_set, 0)
    for name, of_set in sorted(prompts_by_set.items()):  # which of two equal prompts gets which sample
        for number, ids in enumerate(of_set):
            if not ids:
                raise ScoringError(f"prompt {number} of the set {name!r} has no tokens; put a start token there")
            if len(ids) + tokens - 1 > longest:  # the last token is never read
                left_out[name] += 1
            else:
                kept.append((name, tuple(ids)))
    prompts = tuple(ids for _, ids in kept)
    _check_vocabulary(prompts, vocabulary_size(model))
    ends, budget = end_tokens(model, tokenizer), token_budget or _default_budget(model)
    seeds = seeds_of(prompts, seed)
    samples = on_main_process(
        lambda: sample(model, prompts, tokens=tokens, ends=ends, seeds=seeds, token_budget=budget)
    )
    written = tuple(one.tokens for one in samples)
    logprobs = tuple(completion_logprobs(model, prompts, written, token_budget=token_budget))
    _check_follows(samples, logprobs, model)
    return Completions(
        sets=tuple(name for name, _ in kept),
        prompts=prompts,
        tokens=written,
        logprobs=logprobs,
        left_out=left_out,
        meta={"seed": seed, "tokens": tokens, **execution(model)},
    )


def completion_logprobs(
    model: nn.Module, prompts: Sequence[Ids], tokens: Sequence[Ids], *, token_budget: int | None = None
) -> list[NDArray[np.float64]]:
    """Log-probability of each token of each completion, nats, float64 [tokens] by completion, at temperature 1.

    Single rows in batches that depend on the token ids alone. The model and all random states come back as they were.

    Args:
        model: A causal language model of transformers.
        prompts: Token ids of each prompt.
        tokens: Token ids of each completion.
        token_budget: Tokens of a batch; the same at every look. By default what suits the device.

    Raises:
        ScoringError: If the model lacks a token, or its logits are not finite.
    """
    encoded = [
        Encoded(context=tuple(prompt), texts=("",), choices=(tuple(ids),), spellings=((),))
        for prompt, ids in zip(prompts, tokens, strict=True)
    ]
    if not encoded:
        return []
    _check_vocabulary([one.context + one.choices[0] for one in encoded], vocabulary_size(model))
    keys = [one.prompt_hash for one in encoded]
    engine = Engine(model, encoded, keys, layout="rows", noise=0.0, token_budget=token_budget)  # no margins here
    scores = engine.score(model)
    return [scores[index].tokens[0] for index in range(len(encoded))]


def _default_budget(model: nn.Module) -> int:
    return CPU_TOKENS if device_of(model).type == "cpu" else CUDA_TOKENS


def _check_follows(samples: Sequence[Sample], logprobs: Sequence[NDArray[np.float64]], model: nn.Module) -> None:
    """Refuse samples of a model whose `generate` does not draw from what it says when it reads.

    There are such: layers whose state gets lost between tokens, say. A drift on their samples would mean nothing.
    """
    pairs = zip(samples, logprobs, strict=True)
    differences = np.concatenate([np.abs(one.logprobs - read[:-1]) for one, read in pairs] or [np.empty(0)])
    if differences.size and differences.mean() > FOLLOWS:
        raise ScoringError(
            f"what {type(base_model(model)).__name__} generates does not follow what it says when it reads the same "
            f"text: its log-probabilities differ by {differences.mean():.2g} nats per token, needed at most {FOLLOWS}; "
            "there is no drift to be had for this model with this version of transformers"
        )


def _check_vocabulary(rows: Sequence[Ids], size: int) -> None:
    highest = max((max(ids) for ids in rows), default=0)
    if highest >= size:
        raise ScoringError(
            f"a prompt or completion holds token id {highest}, and the model's vocabulary has {size} tokens; "
            "needed the tokenizer and the model that the completions were made with"
        )
