"""Texts that a model generates, greedy or sampled from its own distribution; the model comes back as it was.

Every text is sampled with a seed of its own. It is then the same whatever is generated next to it, however many
processes share the work, and if only the first of the prompts are generated from. Where the model changes little, few
samples change.

transformers' `generate` fills in what its arguments leave open, such as a repetition penalty, from the model's own
generation config; that one is replaced meanwhile. Prompts are token ids and are padded here, on the left; the tokenizer
has no part in it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    TopPLogitsWarper,
)

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.head import LOGIT_BUDGET, head_in_fp32
from forgetwatch.scoring.model import (
    base_model,
    device_of,
    is_sharded,
    isolated,
    text_config,
    tree_obstacle,
    virtual_tokens,
    vocabulary_size,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One generated text.

    Attributes:
        tokens: Token ids, the end token included.
        logprobs: Log-probabilities that `generate` computed, nats, float64 [tokens - 1]: without that of the last one,
            which it does not pass on.
        ended: True if an end token or a stop text ended it; False if it was cut at its length.
    """

    tokens: Ids
    logprobs: NDArray[np.float64]
    ended: bool


def sample(
    model: nn.Module,
    prompts: Sequence[Ids],
    *,
    tokens: int,
    ends: Sequence[int],
    seeds: Sequence[int],
    token_budget: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    stopped: Callable[[Ids], bool] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Sample]:
    """One generated text for each prompt, in their order.

    Args:
        model: A causal language model of transformers, also with adapters; it comes back as it was, as do all random
            states.
        prompts: Token ids, at least one each.
        tokens: Maximum number of tokens of a text.
        ends: Tokens that end a text.
        seeds: Seed of each text; see `seeds_of`.
        token_budget: Tokens of a batch, the generated ones included; a single row may exceed it.
        temperature: 0 takes the most likely token each time.
        top_p: Sample from the smallest set of tokens that together have this probability.
        stopped: Returns True for the generated tokens with which a text is to end.
        progress: Called after each batch with the number of texts generated.

    Raises:
        ScoringError: If the model cannot generate here.
    """
    inner = base_model(model)
    if obstacle := generation_obstacle(model):
        raise ScoringError(f"needed a model that can generate, and {type(inner).__name__} cannot here: {obstacle}")
    batches = _batches(
        prompts,
        tokens=tokens,
        token_budget=token_budget,
        most=max(1, LOGIT_BUDGET // vocabulary_size(model)),
        padded=not tree_obstacle(model),  # a state along the row also takes in padding
    )
    generated: dict[int, Sample] = {}
    device = device_of(model)
    # The head in fp32 as in scoring, so that greedy answers do not depend on ties of bf16.
    with isolated(model), head_in_fp32(model), _own_settings_only(inner, tokens=tokens, ends=ends):
        for batch in batches:
            sampler = SeededSampler([seeds[n] for n in batch], temperature, top_p, device) if temperature else None
            found = _generate(inner, [prompts[n] for n in batch], ends, device, stopped, sampler)
            generated |= zip(batch, found, strict=True)
            if progress:
                progress(len(generated))
    return [generated[index] for index in range(len(prompts))]


def generation_obstacle(model: nn.Module) -> str:
    """Reason why a model cannot generate in this process; empty if it can. The same in all processes."""
    if not isinstance(getattr(base_model(model), "generation_config", None), GenerationConfig):
        return "its class has no generate"
    if is_sharded(model):
        # Each process would stop at its own end token, and the others would wait for its part of the weights.
        return "its weights are spread over several processes"
    if virtual_tokens(model):
        return "its generate does not know the tokens of prompt learning"
    return ""


def end_tokens(model: nn.Module, tokenizer: Any) -> list[int]:
    """Tokens that end a text, ascending: the model's own and the tokenizer's; empty if neither has one.

    A model that was trained with a chat template ends with the template's token, which may be the tokenizer's alone.
    """
    inner = base_model(model)
    own: Any = next(
        (
            found
            for config in (inner.generation_config, text_config(model))
            if (found := getattr(config, "eos_token_id", None)) is not None
        ),
        [],
    )
    # A tokenizer may have more tokens than the model, whose logits then never take them.
    known = vocabulary_size(model)
    ends = {*([own] if isinstance(own, int) else own), tokenizer.eos_token_id} - {None}
    return sorted(end for end in ends if end < known)


def seeds_of(prompts: Sequence[Ids], seed: int) -> list[int]:
    """A seed for each prompt, from its own tokens and the number of equal prompts before it."""
    seen: Counter[Ids] = Counter()
    seeds = []
    for prompt in prompts:
        text = json.dumps([seed, seen[prompt], prompt])
        # 7 bytes: a seed has to fit into a signed 64-bit integer.
        seeds.append(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]))
        seen[prompt] += 1
    return seeds


class SeededSampler(LogitsProcessor):
    """Samples one token for each row, with a random state of the row's own; the temperature is above 0."""

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float, device: torch.device) -> None:
        self._states = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._top_p = TopPLogitsWarper(top_p) if top_p < 1 else None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits [rows, vocabulary], 0 at each row's token and minus infinity elsewhere: greedy decoding takes it."""
        logits = scores.float() / self._temperature
        if self._top_p is not None:
            logits = self._top_p(input_ids, logits)
        waits = torch.stack([torch.empty_like(logits[0]).exponential_(generator=state) for state in self._states])
        # Exponential clocks with rates p: clock i is the first to ring with probability p_i. Unlike with an inverted
        # cumulative sum, a small change of one probability leaves most samples as they were.
        first = (logits.softmax(-1) / waits).argmax(-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter(-1, first, 0.0)


def _batches(prompts: Sequence[Ids], *, tokens: int, token_budget: int, most: int, padded: bool) -> list[list[int]]:
    """Indices of the prompts of each batch, sorted by length and content, longest first.

    A batch has at most `most` rows, which grow by `tokens` each, and if it may be `padded`, prompts of several lengths.
    """
    batches: list[list[int]] = []
    width = 0
    # By content, so that the batch of a prompt does not depend on the order of the prompts.
    for index in sorted(range(len(prompts)), key=lambda n: (-len(prompts[n]), prompts[n])):
        count = len(batches[-1]) + 1 if batches else 0
        fits = 0 < count <= most and count * (width + tokens) <= token_budget
        if fits and (padded or len(prompts[index]) == width):
            batches[-1].append(index)
        else:
            batches.append([index])
            width = len(prompts[index])
    return batches


@contextmanager
def _own_settings_only(inner: Any, *, tokens: int, ends: Sequence[int]) -> Iterator[None]:
    """Let the model generate by these settings alone; afterwards it has its own generation config again."""
    own = inner.generation_config
    inner.generation_config = GenerationConfig(
        do_sample=False,  # `SeededSampler` samples
        max_new_tokens=tokens,
        eos_token_id=list(ends) or None,
        pad_token_id=ends[0] if ends else 0,  # any token: the mask hides it, and it is cut off after an end token
        use_cache=True,
    )
    try:
        yield
    finally:
        inner.generation_config = own


def _generate(
    inner: Any,
    prompts: Sequence[Ids],
    ends: Sequence[int],
    device: torch.device,
    stopped: Callable[[Ids], bool] | None,
    sampler: SeededSampler | None,
) -> list[Sample]:
    """One generated text for each prompt, in one left-padded batch."""
    width, count = max(map(len, prompts)), len(prompts)
    ids, mask = (np.zeros((count, width), np.int64) for _ in range(2))
    for row, prompt in enumerate(prompts):
        # On the left, so that every row continues at the same position.
        ids[row, width - len(prompt) :], mask[row, width - len(prompt) :] = prompt, 1
    recorder, stop = _Recorder(), _Stop(stopped or (lambda _: False), width)
    output = inner.generate(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=torch.from_numpy(mask).to(device),
        generation_config=inner.generation_config,
        logits_processor=LogitsProcessorList([recorder, sampler] if sampler else [recorder]),
        stopping_criteria=StoppingCriteriaList([stop] if stopped else []),
    )
    # [rows, steps - 1], float64.
    logprobs = torch.cat([torch.empty(count, 0), *(one.cpu() for one in recorder.logprobs)], dim=1).double().numpy()
    samples = []
    for row, generated in enumerate(output[:, width:].tolist()):
        # Padding follows an end token, and other rows' steps follow a stop text: each row has its own length.
        end = next((position + 1 for position, token in enumerate(generated) if token in ends), None)
        halt = stop.done[row] if stop.done else None
        length = min(end or len(generated), halt or len(generated))
        ended = end is not None or halt is not None
        samples.append(Sample(tokens=tuple(generated[:length]), logprobs=logprobs[row, : length - 1], ended=ended))
    return samples


class _Recorder(LogitsProcessor):
    """Leaves the logits as they are and keeps the log-probability of each token that was taken from them.

    A token is known one step after its logits, so that the last one is never recorded.
    """

    def __init__(self) -> None:
        self.logprobs: list[Tensor] = []
        self._before: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._before is not None:
            self.logprobs.append(self._before.gather(-1, input_ids[:, -1:]))
        self._before = torch.log_softmax(scores.float(), -1)
        return scores


class _Stop(StoppingCriteria):
    """Ends each row by its own text, and records its length then."""

    def __init__(self, stopped: Callable[[Ids], bool], width: int) -> None:
        self._stopped, self._width = stopped, width
        self.done: list[int | None] = []

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        rows = input_ids[:, self._width :].tolist()
        self.done = self.done or [None] * len(rows)
        for row, generated in enumerate(rows):
            if self.done[row] is None and self._stopped(tuple(generated)):
                self.done[row] = len(generated)
        return torch.tensor([end is not None for end in self.done], device=input_ids.device)
