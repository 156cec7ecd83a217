"""Answers in the model's own words: what writes them, behind one small protocol.

A writer takes token ids and gives token ids back. The one here is the model itself, in this process; see `vllm` for the
other.

The items of a probe whose answers the model writes: prompts in, rows of a snapshot out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from torch import nn

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.grading import check_item, grade
from forgetwatch.grading.thinking import is_thinking_tag, opening_tag
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import Encoded, Ids, encode_prompts
from forgetwatch.scoring.model import default_token_budget
from forgetwatch.scoring.processes import all_gather, rank, world_size
from forgetwatch.scoring.sampling import end_tokens, sample, seeds_of


@dataclass(frozen=True)
class Generated:
    """What was written behind one prompt.

    Attributes:
        text: The answer, without the text that ended it; see `answer_text`.
        truncated: Whether it was cut at its length.
        tokens: Its token ids, the end token included.
    """

    text: str
    truncated: bool
    tokens: Ids


class Generator(Protocol):
    """Something that writes answers."""

    name: str
    """For the snapshot's metadata."""

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer behind each prompt, in their order; the same seed gives the same answers."""


class ModelGenerator:
    """The model itself, by its own `generate`; it comes back as it was, as do all random states.

    Several processes share the prompts, and all have all answers.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer; it is only called.
        token_budget: Tokens of a batch, those that are written included.
    """

    name = "transformers"

    def __init__(self, model: nn.Module, tokenizer: Any, *, token_budget: int | None = None) -> None:
        self._model, self._tokenizer = model, tokenizer
        # A step generates one token a row: rows keep a device busy, not the tokens before them.
        self._budget = 8 * (token_budget or default_token_budget(model))

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer behind each prompt, in their order.

        Raises:
            ScoringError: If the model cannot generate here.
        """
        ordered = sorted(range(len(prompts)), key=lambda at: (len(prompts[at]), prompts[at]))
        own, seeds = ordered[rank() :: world_size()], seeds_of(prompts, seed)

        def mine() -> list[tuple[int, Generated]]:
            samples = sample(
                self._model,
                [prompts[at] for at in own],
                tokens=decoding.tokens,
                ends=end_tokens(self._model, self._tokenizer),
                seeds=[seeds[at] for at in own],
                token_budget=self._budget,
                temperature=decoding.temperature,
                top_p=decoding.top_p,
                stopped=self._stops(decoding.stop) if decoding.stop else None,
                progress=progress,
            )
            return [
                (at, Generated(self.text(one.tokens, decoding.stop), not one.ended, one.tokens))
                for at, one in zip(own, samples, strict=True)
            ]

        found = dict(pair for part in all_gather(mine) for pair in part)
        return [found[at] for at in range(len(prompts))]

    def text(self, tokens: Ids, stop: Sequence[str]) -> str:
        """The text of an answer, up to the first text that ends it."""
        return cut_at_stop(answer_text(self._tokenizer, tokens), stop)

    def _stops(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        # A text of n characters is written by at most its bytes in tokens; a few more for what merges with it.
        window = max(len(text.encode()) for text in stop) + 8

        def stopped(tokens: Ids) -> bool:
            tail = self._tokenizer.decode(list(tokens[-window:]), skip_special_tokens=True)
            return any(text in tail for text in stop)

        return stopped


def answer_text(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text of some tokens without the special ones, but with those that part thinking from the answer."""
    special = {
        number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and not is_thinking_tag(token.content)
    }
    return str(tokenizer.decode([token for token in tokens if token not in special], skip_special_tokens=False))


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """A text up to the first of those that end it."""
    return text[: min((at for one in stop if (at := text.find(one)) >= 0), default=len(text))]


AGAIN: Final = 10_000
"""Between the seeds of a first measurement and those of a second."""
_TAIL: Final = 12
"""Tokens at the end of a prompt within which it may open a thinking block."""


class GeneratedItems:
    """Asks the same items again and again, always with the same prompts and seeds.

    Args:
        probe: How they are asked.
        places: Which items of the probe they are.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Tokens that the model can read, those that it writes included.

    Raises:
        ProbeError: If an item has no answer that could be found in a text.
    """

    def __init__(self, probe: Probe, places: Sequence[int], tokenizer: Any, *, max_length: int) -> None:
        self.decoding = Decoding.of(probe.decoding)
        self._items = [probe.items[place] for place in places]
        check_generated(probe)
        self._places = places
        self._tokenizer = tokenizer
        self._encoded = encode_prompts(probe, self._items, tokenizer, max_length=max_length)

    def rows(
        self, generator: Generator, progress: Callable[[int, int], None] | None = None, *, again: bool = False
    ) -> dict[int, list[dict[str, Any]]]:
        """Rows of each item, one a sample, by its place in the probe; without the columns that every row has.

        Args:
            generator: What writes the answers.
            progress: Called with the answers written and the answers in all.
            again: Draw with other seeds than the first time, to see what drawing alone changes.
        """
        first_seed = self.decoding.seed + (AGAIN if again else 0)
        asked = [number for number, one in enumerate(self._encoded) if not one.unscored]
        prompts = [self._encoded[number].context for number in asked]
        rows: dict[int, list[dict[str, Any]]] = {place: [] for place in self._places}
        for index in range(self.decoding.samples):
            done = index * len(prompts)

            def told(count: int, done: int = done) -> None:
                if progress:
                    progress(done + count, self.decoding.samples * len(prompts))

            texts = (
                generator.generate(prompts, self.decoding, seed=first_seed + index, progress=told) if prompts else []
            )
            found = dict(zip(asked, texts, strict=True))
            for number, (place, item, one) in enumerate(zip(self._places, self._items, self._encoded, strict=True)):
                row: dict[str, Any] = {"outcome": f"unscored: {one.unscored}"}
                if number in found:
                    row = self._row(item, one, found[number])
                rows[place].append({"sample": index, **row})
        return rows

    def _opened(self, encoded: Encoded) -> str:
        """The thinking block that the prompt itself opened; the output cannot show that it began."""
        return opening_tag(str(self._tokenizer.decode(list(encoded.context[-_TAIL:]))))

    def _row(self, item: Item, encoded: Encoded, written: Generated) -> dict[str, Any]:
        own = item.judge
        graded = grade(
            item,
            self._opened(encoded) + written.text,
            truncated=written.truncated,
            no_answer=self.decoding.no_answer,
            judge=None if own is None else lambda item, output: own(output, item),
        )
        return {
            "prompt_hash": encoded.prompt_hash,
            "output": written.text,
            "outcome": graded.outcome,
            "correct": graded.correct,
            "chosen": graded.chosen,
            "in_form": graded.form,
        }


def check_generated(probe: Probe) -> None:
    """Refuse items whose answer could not be found in any text.

    Raises:
        ProbeError: If there is one; the item is named.
    """
    for item in probe:
        if probe.is_generated(item) and item.judge is None:
            try:
                check_item(item)
            except ProbeError as error:
                raise ProbeError(f"item {item.id!r}: {str(error).removeprefix(f'item {item.id!r}: ')}") from error
