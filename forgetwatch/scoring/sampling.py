"""What a model writes by itself, with no trace left: greedy, or drawn from its own distribution.

`generate` follows more settings than it is handed: what a config leaves open (a repetition penalty, suppressed tokens)
is filled in from the model's own, so that one is set aside meanwhile. Prompts are padded on the left here, from token
ids; the tokenizer has no part in it.

Tokens drawn for each text by a seed of its own.

The text is then the same whatever is written beside it, however many processes share the work, and where only the first
of the prompts are asked. And where the model changes little, few draws change.
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
from forgetwatch.scoring.isolation import isolated
from forgetwatch.scoring.layout import LOGIT_BUDGET
from forgetwatch.scoring.model import (
    base_model,
    device_of,
    head_in_fp32,
    is_sharded,
    text_config,
    tree_obstacle,
    virtual_tokens,
    vocabulary_size,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """What was written behind one prompt.

    Attributes:
        tokens: Token ids, the end token included.
        logprobs: What `generate` said of them, nats, float64 [tokens - 1]: the last one's is not recorded.
        ended: Whether it ended by itself, with an end token or a stop text; else it was cut at its length.
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
    """One text behind each prompt.

    Args:
        model: A causal language model of transformers, also with adapters; it comes back as it was, as do all random
            states.
        prompts: Token ids, at least one each.
        tokens: Most tokens that are written.
        ends: The tokens that end a text.
        seeds: Of each text's drawing; see `drawing`.
        token_budget: Tokens of a batch, those that are written included; a single row may exceed it.
        temperature: 0 takes the most likely token each time.
        top_p: Tokens are drawn from the fewest that together have this probability.
        stopped: Whether a text is to end with the tokens written so far.
        progress: Called after each batch with the texts written.

    Raises:
        ScoringError: If the model cannot generate here.
    """
    inner = base_model(model)
    why = ""
    if not isinstance(getattr(inner, "generation_config", None), GenerationConfig):
        why = "has no generate"
    elif is_sharded(model):
        why = "is spread over several processes"
    elif virtual_tokens(model):
        why = "reads the tokens of prompt learning, which its own generate does not know"
    if why:
        raise ScoringError(f"needed a model that writes completions, and {type(inner).__name__} {why}")
    batches = _batches(
        prompts,
        tokens=tokens,
        token_budget=token_budget,
        most=max(1, LOGIT_BUDGET // vocabulary_size(model)),
        padded=not tree_obstacle(model),  # a state along the row does not skip padding
    )
    written: dict[int, Sample] = {}
    device = device_of(model)
    with isolated(model), head_in_fp32(model), _plain(inner, tokens=tokens, ends=ends):
        for batch in batches:
            drawn = Drawn([seeds[index] for index in batch], temperature, top_p, device) if temperature else None
            found = _generate(inner, [prompts[index] for index in batch], ends, device, stopped, drawn)
            written |= zip(batch, found, strict=True)
            if progress:
                progress(len(written))
    return [written[index] for index in range(len(prompts))]


def end_tokens(model: nn.Module, tokenizer: Any) -> list[int]:
    """The tokens that end a text, rising: the model's own and the tokenizer's; none where neither names one.

    A model that was taught a chat template ends with the template's token, which may be the tokenizer's alone.
    """
    inner = base_model(model)
    own: Any = next(
        (
            found
            for one in (inner.generation_config, text_config(model))
            if (found := getattr(one, "eos_token_id", None)) is not None
        ),
        [],
    )
    known = vocabulary_size(model)
    ends = {*([own] if isinstance(own, int) else own), tokenizer.eos_token_id} - {None}
    return sorted(end for end in ends if end < known)


@contextmanager
def _plain(inner: Any, *, tokens: int, ends: Sequence[int]) -> Iterator[None]:
    """The model writes by these settings alone; afterwards its generation config is its own again."""
    own = inner.generation_config
    inner.generation_config = GenerationConfig(
        do_sample=False,  # what is drawn, `Drawn` draws
        max_new_tokens=tokens,
        eos_token_id=list(ends) or None,
        pad_token_id=ends[0] if ends else 0,
        use_cache=True,
    )
    try:
        yield
    finally:
        inner.generation_config = own


class _Recorder(LogitsProcessor):
    """Leaves the logits as they are, and keeps the log-probability of each token that was drawn from them."""

    def __init__(self) -> None:
        self.logprobs: list[Tensor] = []
        self._before: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._before is not None:
            self.logprobs.append(self._before.gather(-1, input_ids[:, -1:]))
        self._before = torch.log_softmax(scores.float(), -1)
        return scores


class _Stop(StoppingCriteria):
    """Ends the rows whose text is to end, each for itself."""

    def __init__(self, stopped: Callable[[Ids], bool], width: int) -> None:
        self._stopped, self._width = stopped, width
        self.done: list[int | None] = []

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        rows = input_ids[:, self._width :].tolist()
        self.done = self.done or [None] * len(rows)
        for row, written in enumerate(rows):
            if self.done[row] is None and self._stopped(tuple(written)):
                self.done[row] = len(written)
        return torch.tensor([end is not None for end in self.done], device=input_ids.device)


def _generate(
    inner: Any,
    prompts: Sequence[Ids],
    ends: Sequence[int],
    device: torch.device,
    stopped: Callable[[Ids], bool] | None,
    drawn: Drawn | None,
) -> list[Sample]:
    """What follows each prompt, in one left-padded batch."""
    width, count = max(map(len, prompts)), len(prompts)
    ids, mask = (np.zeros((count, width), np.int64) for _ in range(2))
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :], mask[row, width - len(prompt) :] = prompt, 1
    recorder, stop = _Recorder(), _Stop(stopped or (lambda _: False), width)
    output = inner.generate(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=torch.from_numpy(mask).to(device),
        generation_config=inner.generation_config,
        logits_processor=LogitsProcessorList([recorder, drawn] if drawn else [recorder]),
        stopping_criteria=StoppingCriteriaList([stop] if stopped else []),
    )
    said = torch.cat([torch.empty(count, 0), *(one.cpu() for one in recorder.logprobs)], dim=1).double().numpy()
    found = []
    for row, written in enumerate(output[:, width:].tolist()):
        # Behind an end token stands padding.
        end = next((place + 1 for place, token in enumerate(written) if token in ends), None)
        halt = stop.done[row] if stop.done else None
        length = min(end or len(written), halt or len(written))
        ended = end is not None or halt is not None
        found.append(Sample(tokens=tuple(written[:length]), logprobs=said[row, : length - 1], ended=ended))
    return found


def _batches(prompts: Sequence[Ids], *, tokens: int, token_budget: int, most: int, padded: bool) -> list[list[int]]:
    """Indices of the prompts that go together: sorted by length and content, longest first.

    Args:
        prompts: The prompts.
        tokens: Tokens that each row grows by.
        token_budget: Tokens of a batch; a single row may exceed it.
        most: Most rows of a batch.
        padded: Whether a batch may hold prompts of different lengths.
    """
    batches: list[list[int]] = []
    width = 0
    for index in sorted(range(len(prompts)), key=lambda at: (-len(prompts[at]), prompts[at])):
        count = len(batches[-1]) + 1 if batches else 0
        fits = 0 < count <= most and count * (width + tokens) <= token_budget
        if fits and (padded or len(prompts[index]) == width):
            batches[-1].append(index)
        else:
            batches.append([index])
            width = len(prompts[index])
    return batches


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
