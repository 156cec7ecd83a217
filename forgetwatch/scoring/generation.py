"""Generated answers: the generator that makes them from prompts, and the items of a probe that they answer.

    items ─▶ prompts ─▶ Generator ─▶ Generated ─▶ grading ─▶ rows of a snapshot

A generator takes token ids and returns texts with their token ids. `ModelGenerator` is the model itself in this
process; `vllm` has two others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from torch import nn

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.grading import check_item, grade, is_thinking_tag, opening_tag
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids, encode_prompts
from forgetwatch.scoring.model import default_token_budget
from forgetwatch.scoring.processes import all_gather, encoded_by_main_process, on_main_process, rank, world_size
from forgetwatch.scoring.sampling import end_tokens, sample, seeds_of

AGAIN: Final = 10_000
"""Offset of the seeds of a second measurement: sample n of the first has the seed plus n, far below this."""

_TAIL: Final = 12
"""Tokens at the end of a prompt within which it may open a thinking block."""

_MERGES: Final = 8
"""Tokens beyond the bytes of a stop text, for tokens that hold more than a part of it."""


@dataclass(frozen=True)
class Generated:
    """One generated answer.

    Attributes:
        text: The answer, without the stop text that ended it; see `answer_text`.
        truncated: True if it was cut at its length.
        tokens: Its token ids, the end token included.
    """

    text: str
    truncated: bool
    tokens: Ids


class Generator(Protocol):
    """Anything that generates answers."""

    name: str
    """Name for the snapshot's metadata."""

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer to each prompt, in their order; the same seed gives the same answers."""


class ModelGenerator:
    """The model itself, by its own `generate`; it comes back as it was, as do all random states.

    Several processes share the prompts, and all get all answers.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer; it is only called.
        token_budget: Tokens of a batch in scoring; by default one that suits the device.
    """

    name = "transformers"

    def __init__(self, model: nn.Module, tokenizer: Any, *, token_budget: int | None = None) -> None:
        self._model, self._tokenizer = model, tokenizer
        # A step generates one token a row: it takes many rows to keep a device busy, and their prompts are read once.
        self._budget = 8 * (token_budget or default_token_budget(model))

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer to each prompt, in their order; progress is by this process's share of them.

        Raises:
            ScoringError: If the model cannot generate here.
        """
        # Sorted by length before they are shared, so that each process gets prompts of all lengths.
        ordered = sorted(range(len(prompts)), key=lambda n: (len(prompts[n]), prompts[n]))
        own, seeds = ordered[rank() :: world_size()], seeds_of(prompts, seed)

        def generate_own() -> list[tuple[int, Generated]]:
            samples = sample(
                self._model,
                [prompts[n] for n in own],
                tokens=decoding.tokens,
                ends=end_tokens(self._model, self._tokenizer),
                seeds=[seeds[n] for n in own],
                token_budget=self._budget,
                temperature=decoding.temperature,
                top_p=decoding.top_p,
                stopped=self._stopped_by(decoding.stop) if decoding.stop else None,
                progress=None if progress is None else (lambda done: progress(done * len(prompts) // len(own))),
            )
            return [
                (n, Generated(self.text(one.tokens, decoding.stop), not one.ended, one.tokens))
                for n, one in zip(own, samples, strict=True)
            ]

        answers = dict(pair for part in all_gather(generate_own) for pair in part)
        return [answers[n] for n in range(len(prompts))]

    def text(self, tokens: Ids, stop: Sequence[str]) -> str:
        """Text of an answer, up to the first stop text."""
        return cut_at_stop(answer_text(self._tokenizer, tokens), stop)

    def _stopped_by(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        # A token has at least one byte of a stop text, so a stop text has at most as many tokens as bytes.
        window = max(len(text.encode()) for text in stop) + _MERGES

        def stopped(tokens: Ids) -> bool:
            tail = self._tokenizer.decode(list(tokens[-window:]), skip_special_tokens=True)
            return any(text in tail for text in stop)

        return stopped


def answer_text(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Text of generated tokens, without special ones except those that separate thinking from the answer."""
    # Tags of thinking are kept although they are special tokens: grading cuts the thinking off by them.
    special = {
        number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and not is_thinking_tag(token.content)
    }
    return str(tokenizer.decode([token for token in tokens if token not in special], skip_special_tokens=False))


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """A text up to the first stop text in it; the whole text if there is none."""
    return text[: min((index for one in stop if (index := text.find(one)) >= 0), default=len(text))]


def engine_answer(tokenizer: Any, tokens: Sequence[int], decoding: Decoding, *, cut: bool) -> Generated:
    """Answer from the tokens that an engine has generated; `cut` if they were cut at their length."""
    text = answer_text(tokenizer, tokens)
    answer = cut_at_stop(text, decoding.stop)
    # An answer of full length that ends with an end token or a stop text is complete.
    complete = (bool(tokens) and tokens[-1] == tokenizer.eos_token_id) or answer != text
    return Generated(answer, cut and not complete, tuple(tokens))


class GeneratedItems:
    """Items of a probe whose answers are generated, always from the same prompts and seeds.

    Args:
        probe: The probe, with its settings of generation.
        indices: Indices of the items in the probe.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Longest text that the model can read, in tokens, its answer included.

    Raises:
        ProbeError: If no text could be graded for one of the probe's items.
    """

    def __init__(self, probe: Probe, indices: Sequence[int], tokenizer: Any, *, max_length: int) -> None:
        self.decoding = Decoding.of(probe.decoding)
        self._probe, self._max_length = probe, max_length
        self._items = [probe.items[index] for index in indices]
        check_generated(probe)  # before the tokenizer and the model are used
        self._indices = indices
        self._tokenizer = tokenizer
        self._stops = [_next_question(item, probe) for item in self._items]
        self._encoded = encoded_by_main_process(lambda: self._encode(tokenizer))

    def _encode(self, tokenizer: Any) -> list[Encoded]:
        return encode_prompts(self._probe, self._items, tokenizer, max_length=self._max_length)

    def encodes_alike(self, tokenizer: Any) -> bool:
        """True if a tokenizer gives the token ids of the prompts, as they were or as they would be now."""
        return self._encode(tokenizer) in (self._encoded, self._encode(self._tokenizer))

    def unscored(self, reason: str) -> dict[int, list[dict[str, Any]]]:
        """Columns of each sample of each item, all unscored for a reason; by the item's index in the probe."""
        return {
            index: [
                {"sample": number, **_unscored(encoded.unscored or reason)} for number in range(self.decoding.samples)
            ]
            for index, encoded in zip(self._indices, self._encoded, strict=True)
        }

    def rows(
        self, generator: Generator, progress: Progress | None = None, *, again: bool = False
    ) -> dict[int, list[dict[str, Any]]]:
        """Columns of each sample of each item, by the item's index in the probe.

        Args:
            generator: Generates the answers.
            progress: Called before the first answer and after each batch with what is done.
            again: Sample with other seeds than the first time, to measure what sampling alone changes.
        """
        first_seed = self.decoding.seed + (AGAIN if again else 0)
        answered = [number for number, encoded in enumerate(self._encoded) if not encoded.unscored]
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
                generated = generator.generate(prompts, self._decoding(answered), seed=seed, progress=report)
            answers = dict(zip(answered, generated, strict=True))
            # Graded once for all processes: a judge, or a pattern at its time limit, may decide otherwise in another.
            graded = on_main_process(partial(self._graded, answers))
            for index, row in zip(self._indices, graded, strict=True):
                rows[index].append({"sample": sample_number, **row})
        return rows

    def _decoding(self, answered: Sequence[int]) -> Decoding:
        """Decoding of the items, which ends at a next question at once where all of them have the same label."""
        stops = {self._stops[number] for number in answered}
        stop = next(iter(stops)) if len(stops) == 1 else ()
        return replace(self.decoding, stop=(*self.decoding.stop, *stop)) if stop else self.decoding

    def _graded(self, answers: Mapping[int, Generated]) -> list[dict[str, Any]]:
        """Columns of each item, from its answer if it has one."""
        return [self._row(number, answers.get(number)) for number in range(len(self._items))]

    def _row(self, number: int, answer: Generated | None) -> dict[str, Any]:
        item, encoded = self._items[number], self._encoded[number]
        if answer is None:
            return _unscored(encoded.unscored)
        own = item.judge
        text = cut_at_stop(answer.text, self._stops[number])
        graded = grade(
            item,
            # The output alone does not show that the prompt ends with the beginning of a thinking block.
            opening_tag(str(self._tokenizer.decode(list(encoded.context[-_TAIL:])))) + text,
            truncated=answer.truncated and text == answer.text,
            no_answer=self.decoding.no_answer,
            judge=None if own is None else lambda item, output: own(output, item),
        )
        return {
            "prompt_hash": encoded.prompt_hash,
            "output": text,
            "outcome": graded.outcome,
            "correct": graded.correct,
            "chosen": graded.chosen,
            "in_form": graded.form,
        }


def _next_question(item: Item, probe: Probe) -> tuple[str, ...]:
    """Stop text of an item with worked examples, after which the model writes a question of its own; else empty."""
    stop = item.next_question if item.shots and probe.rendering_of(item) == "plain" else None
    return () if stop is None else (stop,)


def _unscored(reason: str) -> dict[str, Any]:
    # Scored choices of the item must not stand for the answer that was not generated.
    return {"outcome": f"unscored: {reason}", "correct": None, "chosen": None}


def check_generated(probe: Probe) -> None:
    """Refuse a probe with a generated answer that could not be graded in any text.

    Raises:
        ProbeError: If there is one; the item is named.
    """
    for item in probe:
        if probe.is_generated(item) and item.judge is None:
            try:
                check_item(item)
            except ProbeError as error:
                # The error may name the item itself; once is enough.
                raise ProbeError(f"item {item.id!r}: {str(error).removeprefix(f'item {item.id!r}: ')}") from error
