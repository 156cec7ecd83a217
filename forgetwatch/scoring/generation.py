"""Generated answers: texts that a model generates, and the items of a probe that they answer.

    items ─▶ prompts ─▶ Generator ─▶ Generated ─▶ grading ─▶ rows of a snapshot

A generator takes token ids and returns texts with their token ids: the model itself in this
process, by `sample`.

Texts are greedy or sampled from the model's own distribution, each with a seed of its own, which
depends neither on what is generated next to it nor on the number of processes. Batches depend on
what is generated, and in low precision their rounding may give another text; they are planned
before processes share them. Where the model changes little, few samples change.

transformers' `generate` fills in what its arguments leave open, such as a repetition penalty, from
the model's own generation config; that one is replaced meanwhile. Prompts are token ids and are
padded here, on the left.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

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

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.grading.output_text import is_thinking_tag, opening_tag
from forgetwatch.kept_answers import KeptAnswers
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids, check_distinct, encode_prompts
from forgetwatch.scoring.head import LOGIT_BUDGET, head_in_fp32
from forgetwatch.scoring.item_rows import (
    check_generated,
    cut_at_stop,
    graded_columns,
    stops_of,
    unscored_columns,
)
from forgetwatch.scoring.model import (
    base_model,
    default_token_budget,
    device_of,
    is_sharded,
    isolated,
    text_config,
    tree_obstacle,
    virtual_tokens,
    vocabulary_size,
)
from forgetwatch.scoring.processes import (
    all_gather,
    on_all_processes,
    on_main_process,
    rank,
    world_size,
)
from forgetwatch.snapshot import NOT_FINITE

AGAIN: Final = 10_000
"""Offset of the seeds of a second measurement: sample n of the first has the seed plus n, far below this."""

_TAIL: Final = 12
"""Tokens at the end of a prompt within which it may open a thinking block."""

_MERGES: Final = 8
"""Tokens beyond the bytes of a stop text, for tokens that hold more than a part of it."""


@dataclass(frozen=True)
class Generated:
    """One generated answer."""

    text: str  # without the stop text that ended it; see `answer_text`
    truncated: bool  # True if it was cut at its length
    tokens: Ids  # the end token included
    finite: bool = True  # False if logits of one of its steps were NaN or infinite


class ModelGenerator:
    """The model itself, by its own `generate`; it comes back as it was, as do all random states.

    Several processes share the prompts, and all get all answers. By default the token budget of
    scoring suits the device. With kept answers, generating goes on where it was interrupted.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        token_budget: int | None = None,
        kept: KeptAnswers | None = None,
    ) -> None:
        self._model, self._tokenizer, self._kept = model, tokenizer, kept
        # A step generates one token a row: it takes many rows to keep a device busy, and their
        # prompts are read once.
        self._budget = 8 * (token_budget or default_token_budget(model))

    def generate(
        self,
        prompts: Sequence[Ids],
        decoding: Decoding,
        *,
        seed: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[Generated]:
        """Generate an answer to each prompt, in order.

        Progress is by this process's share.
        """

        def generate_own() -> list[tuple[int, Generated]]:
            samples = sample(
                self._model,
                prompts,
                tokens=decoding.tokens,
                ends=end_tokens(self._model, self._tokenizer),
                seeds=seeds_of(prompts, seed),
                token_budget=self._budget,
                temperature=decoding.temperature,
                top_p=decoding.top_p,
                stopped=self._stopped_by(decoding.stop) if decoding.stop else None,
                share=slice(rank(), None, world_size()),
                kept=None if self._kept is None else _KeptSamples(self._kept, seed),
                progress=None
                if progress is None
                else (lambda done: progress(min(done * world_size(), len(prompts)))),
            )
            return [
                (
                    n,
                    Generated(
                        cut_at_stop(text, decoding.stop),
                        not sampled.ended,
                        sampled.tokens,
                        sampled.finite,
                    ),
                )
                for n, sampled in samples.items()
                for text in [answer_text(self._tokenizer, sampled.tokens)]
            ]

        answers = dict(pair for shard_answers in all_gather(generate_own) for pair in shard_answers)
        return [answers[n] for n in range(len(prompts))]

    def _stopped_by(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        # A token has at least one byte of a stop text, so a stop text has at most as many tokens as
        # bytes.
        window = max(len(stop_text.encode()) for stop_text in stop) + _MERGES

        def stopped(tokens: Ids) -> bool:
            tail = self._tokenizer.decode(list(tokens[-window:]), skip_special_tokens=True)
            return any(stop_text in tail for stop_text in stop)

        return stopped


def answer_text(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Text of generated tokens.

    Without special tokens, except those that separate thinking from the answer.
    """
    # Tags of thinking are kept although they are special tokens: grading cuts the thinking off by
    # them.
    special = {
        number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and not is_thinking_tag(token.content)
    }
    return str(
        tokenizer.decode(
            [token for token in tokens if token not in special], skip_special_tokens=False
        )
    )


def call_text(tokenizer: Any, prompt: Ids, answer: Generated) -> str:
    """Text of an answer that may call tools: its calls as JSON where the tokenizer reads them.

    Elsewhere with its special tokens, which are the marks of a template of calls, but the last.
    """
    tokens = list(answer.tokens)
    if getattr(tokenizer, "response_template", None):
        with suppress(Exception):  # whatever a template of the tokenizer raises
            message = tokenizer.parse_response(tokens, prefix=list(prompt))
            if calls := message.get("tool_calls"):
                return json.dumps(calls)
    ended = tokens if answer.truncated else tokens[:-1]
    return str(tokenizer.decode(ended, skip_special_tokens=False)) or answer.text


class GeneratedItems:
    """Items of a probe, by their indices, whose answers are generated, always from the same prompts and seeds.

    With its answer a prompt may have `max_length` tokens. A probe with an item for which no text
    could be graded is refused.
    """

    def __init__(
        self, probe: Probe, indices: Sequence[int], tokenizer: Any, *, max_length: int
    ) -> None:
        self.decoding = Decoding.of(probe.decoding)
        self._probe, self._max_length = probe, max_length
        self._items = [probe.items[index] for index in indices]
        check_generated(probe)  # before the tokenizer and the model are used
        self._indices = indices
        self._tokenizer = tokenizer
        self._stops = [stops_of(item, probe) for item in self._items]
        self._encoded = on_all_processes(lambda: self._encode(tokenizer))

    def _encode(self, tokenizer: Any) -> list[Encoded]:
        encoded = encode_prompts(self._probe, self._items, tokenizer, max_length=self._max_length)
        check_distinct(self._probe, self._items, encoded)
        return encoded

    def encodes_alike(self, tokenizer: Any, *, or_now: bool) -> bool:
        """Does a tokenizer give the token ids of the prompts?

        With `or_now`, ids as they would be now count too.
        """
        encoded = self._encode(tokenizer)
        return encoded == self._encoded or (or_now and encoded == self._encode(self._tokenizer))

    def unscored(self, reason: str) -> dict[int, list[dict[str, Any]]]:
        """Columns of each sample of each item, all unscored.

        Keys are indices of the probe.
        """
        samples = range(self.decoding.samples)
        return {
            index: [
                {"sample": number, **unscored_columns(encoded.unscored or reason)}
                for number in samples
            ]
            for index, encoded in zip(self._indices, self._encoded, strict=True)
        }

    def rows(
        self, generator: ModelGenerator, progress: Progress | None = None, *, again: bool = False
    ) -> dict[int, list[dict[str, Any]]]:
        """Generate and grade all items.

        Columns of each sample of each item, by index in the probe; with `again`, sampled with other
        seeds.
        """
        first_seed = self.decoding.seed + (AGAIN if again else 0)
        answered = [number for number, encoded in enumerate(self._encoded) if not encoded.unscored]
        # An answer ends at a next question at once where all items have the same label for it.
        stops = {self._stops[number] for number in answered}
        stop = next(iter(stops)) if len(stops) == 1 else ()
        decoding = (
            replace(self.decoding, stop=(*self.decoding.stop, *stop)) if stop else self.decoding
        )
        prompts = [self._encoded[number].context for number in answered]
        rows: dict[int, list[dict[str, Any]]] = {index: [] for index in self._indices}
        for sample_number in range(self.decoding.samples):
            done = sample_number * len(prompts)

            def report(count: int, done: int = done) -> None:
                if progress:
                    count, total = done + count, self.decoding.samples * len(prompts)
                    progress(Done(count=count, total=total, share=count / total, unit="answers"))

            generated: list[Generated] = []
            if prompts:
                report(0)
                seed = first_seed + sample_number
                generated = generator.generate(prompts, decoding, seed=seed, progress=report)
            answers = dict(zip(answered, generated, strict=True))
            # Graded once for all processes: a judge, or a pattern at its time limit, may decide
            # otherwise in another.
            graded = on_main_process(partial(self._graded, answers))
            for index, row in zip(self._indices, graded, strict=True):
                rows[index].append({"sample": sample_number, **row})
        return rows

    def _graded(self, answers: Mapping[int, Generated]) -> list[dict[str, Any]]:
        return [self._row(number, answers.get(number)) for number in range(len(self._items))]

    def _row(self, number: int, answer: Generated | None) -> dict[str, Any]:
        item, encoded = self._items[number], self._encoded[number]
        if answer is None:
            return unscored_columns(encoded.unscored)
        if not answer.finite:
            nothing = {"correct": False, "chosen": None, "gold_share": None, "margin": None}
            return {
                "prompt_hash": encoded.prompt_hash,
                "output": answer.text,
                "outcome": NOT_FINITE,
                **nothing,
            }
        is_call = item.match == "tool_call"
        return {"prompt_hash": encoded.prompt_hash} | graded_columns(
            item,
            answer.text,
            decoding=self.decoding,
            stop=self._stops[number],
            truncated=answer.truncated,
            opening=opening_tag(str(self._tokenizer.decode(list(encoded.context[-_TAIL:])))),
            calls=call_text(self._tokenizer, encoded.context, answer) if is_call else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One generated text.

    Its log-probabilities are those that `generate` computed, nats [tokens - 1]: it does not pass
    that of the last on.
    """

    tokens: Ids  # the end token included
    logprobs: NDArray[np.float64]
    ended: bool  # True if an end token or a stop text ended it; False if it was cut at its length
    finite: bool = True  # False if logits of one of its steps were NaN or infinite


class _KeptSamples:
    """Samples of whole batches in the file of a measurement; a part of a batch would round otherwise."""

    def __init__(self, kept: KeptAnswers, seed: int) -> None:
        self._kept, self._seed = kept, seed

    def get(self, batch: Sequence[int]) -> list[Sample] | None:
        """Samples of a batch, without log-probabilities.

        Returns:
            The samples, or None if one is missing.
        """
        rows = [self._kept.get(f"{self._seed}/{n}") for n in batch]
        if None in rows:
            return None
        return [
            Sample(tokens=tuple(row.pop("tokens")), logprobs=np.empty(0), **row)
            for row in map(dict, rows)
        ]

    def add(self, batch: Sequence[int], samples: Sequence[Sample]) -> None:
        """Keep the samples of a batch."""
        self._kept.add(
            {
                f"{self._seed}/{n}": {
                    "tokens": sampled.tokens,
                    "ended": sampled.ended,
                    "finite": sampled.finite,
                }
                for n, sampled in zip(batch, samples, strict=True)
            }
        )


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
    share: slice = slice(None),
    kept: _KeptSamples | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[int, Sample]:
    """Generate a text for each prompt.

    The model may have adapters; it comes back as it was, as do all random states. A text has at
    most `tokens` tokens, and ends with one of `ends`, or where `stopped` gives True for the tokens
    so far. Its seed is from `seeds_of`. At the temperature 0 the most likely token is taken each
    time, else one of the smallest set of tokens that together have the probability `top_p`. A batch
    has at most `token_budget` tokens, the generated ones included; a single row may exceed it. Of
    all batches those of the `share` are generated: so no text depends on how many processes share
    them. `progress` is called after each batch with the number of texts generated.

    Returns:
        The samples by index of the prompt, rising.

    Raises:
        ScoringError: If the model cannot generate here.
    """
    inner = base_model(model)
    if obstacle := generation_obstacle(model):
        raise ScoringError(
            f"needed a model that can generate, and {type(inner).__name__} cannot here: {obstacle}"
        )
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
        for batch in batches[share]:
            if kept is None or (samples := kept.get(batch)) is None:
                batch_seeds = [seeds[n] for n in batch]
                sampler = (
                    SeededSampler(batch_seeds, temperature, top_p, device) if temperature else None
                )
                batch_prompts = [prompts[n] for n in batch]
                samples = _generate(inner, batch_prompts, ends, device, stopped, sampler)
                if kept is not None:
                    kept.add(batch, samples)
            generated |= zip(batch, samples, strict=True)
            if progress:
                progress(len(generated))
    return dict(sorted(generated.items()))


def generation_obstacle(model: nn.Module) -> str:
    """Reason why a model cannot generate here.

    Returns:
        The reason, or an empty text; the same in all processes.
    """
    if not isinstance(getattr(base_model(model), "generation_config", None), GenerationConfig):
        return "its class has no generate"
    if is_sharded(model):
        # Each process would stop at its own end token, and the others would wait for its part of
        # the weights.
        return "its weights are spread over several processes"
    if virtual_tokens(model):
        return "its generate does not know the tokens of prompt learning"
    return ""


def end_tokens(model: nn.Module, tokenizer: Any) -> list[int]:
    """Tokens that end a text, ascending.

    Those of the model and of the tokenizer, if any.

    A model that was trained with a chat template ends with the template's token, which may be the
    tokenizer's alone.
    """
    configs: Any = base_model(model).generation_config, text_config(model)
    model_ends: Any = next(
        (
            config.eos_token_id
            for config in configs
            if getattr(config, "eos_token_id", None) is not None
        ),
        [],
    )
    # A tokenizer may have more tokens than the model, whose logits then never take them.
    vocabulary = vocabulary_size(model)
    ends = {
        *([model_ends] if isinstance(model_ends, int) else model_ends),
        tokenizer.eos_token_id,
    } - {None}
    return sorted(end for end in ends if end < vocabulary)


def seeds_of(prompts: Sequence[Ids], seed: int) -> list[int]:
    """Seed of each prompt.

    From the prompt's tokens and the number of equal prompts before.
    """
    seen: Counter[Ids] = Counter()
    seeds = []
    for prompt in prompts:
        seed_json = json.dumps([seed, seen[prompt], prompt])
        # 7 bytes: a seed has to fit into a signed 64-bit integer.
        seeds.append(int.from_bytes(hashlib.sha256(seed_json.encode()).digest()[:7]))
        seen[prompt] += 1
    return seeds


class SeededSampler(LogitsProcessor):
    """Samples one token for each row, with a random state of the row's own; the temperature is above 0."""

    def __init__(
        self, seeds: Sequence[int], temperature: float, top_p: float, device: torch.device
    ) -> None:
        self._states = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._top_p = TopPLogitsWarper(top_p) if top_p < 1 else None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Sample a token for each row.

        Returns:
            0 at each row's token and minus infinity elsewhere, which greedy decoding takes;
            [rows, vocabulary].
        """
        logits = scores.float() / self._temperature
        if self._top_p is not None:
            logits = self._top_p(input_ids, logits)
        waits = torch.stack(
            [torch.empty_like(logits[0]).exponential_(generator=state) for state in self._states]
        )
        # Exponential clocks with rates p: clock i is the first to ring with probability p_i. Unlike
        # with an inverted cumulative sum, a small change of one probability leaves most samples as
        # they were.
        chosen = (logits.softmax(-1) / waits).argmax(-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen, 0.0)


def _batches(
    prompts: Sequence[Ids], *, tokens: int, token_budget: int, most: int, padded: bool
) -> list[list[int]]:
    # Sorted by length and content, longest first. A batch has at most `most` rows, which grow by
    # `tokens` each, and if it may be `padded`, prompts of several lengths.
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
    # Afterwards the model has its own generation config again.
    model_config = inner.generation_config
    inner.generation_config = GenerationConfig(
        do_sample=False,  # `SeededSampler` samples
        max_new_tokens=tokens,
        eos_token_id=list(ends) or None,
        pad_token_id=ends[0]
        if ends
        else 0,  # any token: the mask hides it, and it is cut off after an end token
        use_cache=True,
    )
    try:
        yield
    finally:
        inner.generation_config = model_config


def _generate(
    inner: Any,
    prompts: Sequence[Ids],
    ends: Sequence[int],
    device: torch.device,
    stopped: Callable[[Ids], bool] | None,
    sampler: SeededSampler | None,
) -> list[Sample]:
    # In one left-padded batch.
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
    logprobs = (
        torch.cat([torch.empty(count, 0), *(logprob.cpu() for logprob in recorder.logprobs)], dim=1)
        .double()
        .numpy()
    )
    finite = torch.stack(recorder.finite, dim=1).cpu().numpy()  # [rows, steps]
    samples = []
    for row, generated in enumerate(output[:, width:].tolist()):
        # Padding follows an end token, and other rows' steps follow a stop text: each row has its
        # own length.
        end = next(
            (position + 1 for position, token in enumerate(generated) if token in ends), None
        )
        halt = stop.done[row] if stop.done else None
        length = min(end or len(generated), halt or len(generated))
        samples.append(
            Sample(
                tokens=tuple(generated[:length]),
                logprobs=logprobs[row, : length - 1],
                ended=end is not None or halt is not None,
                finite=bool(finite[row, :length].all()),
            )
        )
    return samples


class _Recorder(LogitsProcessor):
    """Leaves the logits as they are and keeps the log-probability of each token that was taken from them.

    A token is known one step after its logits, so that the last one is never recorded.
    """

    def __init__(self) -> None:
        self.logprobs: list[Tensor] = []
        self.finite: list[
            Tensor
        ] = []  # by step, bool [rows]; minus infinity is a token that is ruled out
        self._before: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._before is not None:
            self.logprobs.append(self._before.gather(-1, input_ids[:, -1:]))
        self._before = torch.log_softmax(scores.float(), -1)
        highest = scores.max(-1).values  # NaN if any is
        self.finite.append(torch.isfinite(highest))
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
