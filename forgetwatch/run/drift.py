"""The base model's own completions: sampled once, and read again under the model at every look.

    at the baseline   prompts ─▶ sampling ─▶ tokens ─▶ read in other batches: the likeliest tokens, the floor
                                             tokens ─▶ read: log-probabilities ─▶ file
    at a look                                tokens ─▶ read: log-probabilities ─▶ drift

The last two are the same teacher-forced pass over the same batches, so that equal weights give a
drift of exactly 0. Each reads the sampled token and the base's likeliest ones from one forward
pass, and keeps no other logits. The log-probabilities that `generate` itself computes are only
compared with them: a cache, padding, or adapters that generate in fp32 and are read in bf16 round
otherwise. The samples are then off by rounding; the readings are not.

A model with adapters, and nothing else trained, is its base once these are switched off: the base
is then read in the same look. Where also biases, embeddings or copies of modules are trained, it
would be neither the base nor the model. Only what shows on the model itself is tested. Adapters
that were trained before the run are a part of its base: there the model without them is compared
with what the base gave.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.run.completions import Completions, Reading
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.generation import Sample, end_tokens, sample, seeds_of
from forgetwatch.scoring.model import ModelInfo, base_model
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.readout import Beside, Scores, check_finite_scores
from forgetwatch.scoring.scorer import execution

TOKENS: Final = 32
"""Maximum number of tokens of a completion: a few show the drift, and the cost of a look grows with their number."""

TOP: Final = 20
"""Number of the base's likeliest tokens that are read at each position."""

FOLLOWS: Final = 0.25
"""Nats per token by which generation and reading may differ: more than rounding in bf16, less than another text."""


def sample_completions(
    model: nn.Module,
    tokenizer: Any,
    prompts_by_set: Mapping[str, Sequence[Ids]],
    *,
    tokens: int = TOKENS,
    seed: int = 0,
    token_budget: int | None = None,
    progress: Progress | None = None,
) -> Completions:
    """Sample a completion of the base for each prompt.

    With log-probabilities, from the model's own distribution.

    Completions are sorted by the name of their set, then in the order of its prompts. The same seed
    gives the same completions, in any order of the prompts. The model, the tokenizer and all random
    states come back as they were, also after an exception. Of several processes the main one
    samples for all.

    Args:
        model: The base, a causal language model of transformers, also with adapters.
        tokenizer: Its length limit is read, and its end token if the model has none.
        prompts_by_set: Token ids of the prompts, by set; those that are too long are left out and
            counted.
        tokens: Maximum number of tokens of a completion, its end token included.
        seed: Seed of the sampling.
        token_budget: Tokens of a batch, the completions included; by default one that suits the
            device.
        progress: Called after each batch with what is done: completions are sampled, then read
            twice.

    Raises:
        ScoringError: If the model cannot generate here, or does not generate by the
            log-probabilities that it reads, or a prompt has no tokens or one outside the
            vocabulary.
    """
    info = ModelInfo.of(model)
    longest = info.context_length(tokenizer)
    kept: list[tuple[str, Ids]] = []
    left_out = dict.fromkeys(prompts_by_set, 0)
    for name, of_set in sorted(
        prompts_by_set.items()
    ):  # the order decides which of two equal prompts gets which seed
        for number, ids in enumerate(of_set):
            if not ids:
                raise ScoringError(
                    f"prompt {number} of the set {name!r} has no tokens; begin it with a start "
                    "token"
                )
            if len(ids) + tokens - 1 > longest:  # the last token is never read
                left_out[name] += 1
            else:
                kept.append((name, tuple(ids)))
    prompts = tuple(ids for _, ids in kept)
    _check_vocabulary(prompts, info.vocabulary)
    ends, budget = end_tokens(model, tokenizer), token_budget or info.token_budget
    seeds = seeds_of(prompts, seed)

    def sampled(count: int) -> None:
        if progress:
            share = count / len(prompts)
            progress(
                Done(
                    count=count,
                    total=len(prompts),
                    share=share,
                    unit="completions",
                    next="two readings",
                )
            )

    by_prompt = on_main_process(
        lambda: sample(
            model,
            prompts,
            tokens=tokens,
            ends=ends,
            seeds=seeds,
            token_budget=budget,
            progress=sampled,
        )
    )
    samples = list(by_prompt.values())
    completions = tuple(sampled_text.tokens for sampled_text in samples)
    encoded = _encoded(prompts, completions)
    top_ids, reread = _likeliest(
        model,
        encoded,
        token_budget=budget,
        progress=_part(progress, "completions read", "second reading"),
    )
    reading_again = _part(progress, "completions read again")
    reading = _read(
        _scores(model, encoded, top_ids, token_budget=token_budget, progress=reading_again)
    )
    _check_follows(samples, reading.logprobs, model)
    completions_made = Completions(
        sets=tuple(name for name, _ in kept),
        prompts=prompts,
        tokens=completions,
        logprobs=tuple(reading.logprobs),
        top_ids=tuple(ids.astype(np.int32) for ids in top_ids),
        top_logprobs=tuple(reading.top_logprobs),
        left_out=left_out,
        meta={
            "seed": seed,
            "tokens": tokens,
            "vocabulary": info.vocabulary,
            "tokenizer": _spelling_hash(prompts + completions, tokenizer),
            **execution(model),
        },
    )
    return completions_made.with_floor(reread)


def _likeliest(
    model: nn.Module, encoded: Sequence[Encoded], *, token_budget: int, progress: Progress | None
) -> tuple[list[NDArray[np.int64]], Reading]:
    # int64 [tokens, `TOP`] by completion, and the reading that found them.
    # In other batches than those of the looks, so that the reading shows what rounding gives.
    tokens = sum(
        len(encoded_item.context) + len(encoded_item.choices[0]) - 1 for encoded_item in encoded
    )
    budget = max(1, min(token_budget, tokens) // 2)
    scores = _scores(model, encoded, TOP, token_budget=budget, progress=progress)
    return [item_scores.beside.ids for item_scores in scores if item_scores.beside], _read(scores)


def _check_follows(
    samples: Sequence[Sample], logprobs: Sequence[NDArray[np.float64]], model: nn.Module
) -> None:
    # The distribution differs if a layer's state is lost between tokens.
    # `generate` gives no log-probability of the last token; see `Sample.logprobs`.
    pairs = zip(samples, logprobs, strict=True)
    differences = np.concatenate(
        [np.abs(sample_row.logprobs - read[:-1]) for sample_row, read in pairs] or [np.empty(0)]
    )
    if differences.size and differences.mean() > FOLLOWS:
        raise ScoringError(
            f"{type(base_model(model)).__name__} generates by other log-probabilities than "
            "those of the same text when "
            f"read: they differ by {differences.mean():.2g} nats per token, needed at most "
            f"{FOLLOWS}; drift cannot be measured for this model with this version of transformers"
        )


def check_completions(completions: Completions, model: nn.Module, tokenizer: Any) -> None:
    """Check that a model can be compared on these completions.

    Tokens that were added to the vocabulary are no obstacle: the ids of the completions must have
    their meaning.

    Raises:
        ScoringError: If the tokenizer or the vocabulary is another one.
    """
    stored, size = completions.meta, ModelInfo.of(model).vocabulary
    if (expected := stored.get("vocabulary")) is not None and size < expected:
        raise ScoringError(
            f"the completions were generated with a vocabulary of {expected} tokens, and the model "
            f"has {size}; compare models of one family, or sample new completions from the base"
        )
    spelled = stored.get("tokenizer")
    if spelled is not None and spelled != _spelling_hash(
        completions.prompts + completions.tokens, tokenizer
    ):
        raise ScoringError(
            "the completions were generated with another tokenizer, in which their token ids mean "
            "other text; load the tokenizer of the base, or sample new completions from the base"
        )


def _spelling_hash(texts: Sequence[Ids], tokenizer: Any) -> str:
    # First 16 hex digits of SHA-256.
    used = sorted(
        {token for ids in texts for token in ids if token < len(tokenizer)}
    )  # others have no spelling
    spelled = [[token, tokenizer.convert_ids_to_tokens(token)] for token in used]
    return hashlib.sha256(json.dumps(spelled).encode()).hexdigest()[:16]


def read_under(
    model: nn.Module,
    completions: Completions,
    *,
    token_budget: int | None = None,
    progress: Progress | None = None,
) -> Reading:
    """Read the completions by a model.

    Each token, and the base's likeliest tokens at the position.

    Batches depend on the token ids alone. The model and all random states come back as they were.

    Args:
        model: A causal language model of transformers.
        completions: Texts that the base generated.
        token_budget: Tokens of a batch; the same at every look. By default one that suits the
            device.
        progress: Called after each batch with what is done.

    Raises:
        ScoringError: If a token is outside the vocabulary, or its logits are not finite.
    """
    encoded, top_ids = _encoded(completions.prompts, completions.tokens), completions.top_ids
    _check_vocabulary(
        [tuple(ids.ravel().tolist()) for ids in top_ids], ModelInfo.of(model).vocabulary
    )
    beside: Beside = [ids.astype(np.int64) for ids in top_ids]
    part_progress = _part(progress, "completions")
    return _read(_scores(model, encoded, beside, token_budget=token_budget, progress=part_progress))


def _read(scores: Sequence[Scores]) -> Reading:
    likeliest = [score.beside.logprobs.astype(np.float32) for score in scores if score.beside]
    return Reading(logprobs=[score.tokens[0] for score in scores], top_logprobs=likeliest)


def _encoded(prompts: Sequence[Ids], tokens: Sequence[Ids]) -> list[Encoded]:
    return [
        Encoded(context=tuple(prompt), texts=("",), choices=(tuple(ids),), spellings=((),))
        for prompt, ids in zip(prompts, tokens, strict=True)
    ]


def _scores(
    model: nn.Module,
    encoded: Sequence[Encoded],
    beside: Beside,
    *,
    token_budget: int | None,
    progress: Progress | None,
) -> list[Scores]:
    # None if there is nothing to read.
    if not encoded:
        return []
    info = ModelInfo.of(model)
    _check_vocabulary(
        [encoded_item.context + encoded_item.choices[0] for encoded_item in encoded],
        info.vocabulary,
    )
    keys = [encoded_item.prompt_hash for encoded_item in encoded]
    # With the noise given the engine measures none: there are no margins here.
    engine = Engine(
        info, encoded, keys, layout="rows", noise=0.0, token_budget=token_budget, beside=beside
    )
    scores = engine.score(model, progress)
    check_finite_scores(scores.values())
    return [scores[index] for index in range(len(encoded))]


def _part(progress: Progress | None, unit: str, next_part: str = "") -> Progress | None:
    # The progress names what this part counts, and the next part.
    return (
        None
        if progress is None
        else lambda done: progress(replace(done, unit=unit, next=next_part))
    )


def _check_vocabulary(rows: Sequence[Ids], size: int) -> None:
    highest = max((max(ids) for ids in rows), default=0)
    if highest >= size:
        raise ScoringError(
            f"a prompt or completion holds token id {highest}, and the model's vocabulary has "
            f"{size} tokens; load the tokenizer and the model that the completions were made with"
        )
