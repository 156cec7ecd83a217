"""Answers in the model's own words: what writes them, behind one small protocol.

A writer takes token ids and gives token ids back. The one here is the model itself, in this process; see `vllm` for the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from forgetwatch.decoding import Decoding
from forgetwatch.extraction.thinking import is_mark
from forgetwatch.scoring.drawing import seeds_of
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.engine import CPU_TOKENS, CUDA_TOKENS
from forgetwatch.scoring.model import device_of
from forgetwatch.scoring.processes import gathered, rank, world
from forgetwatch.scoring.sampling import end_tokens, sample


@dataclass(frozen=True)
class Written:
    """What was written behind one prompt.

    Attributes:
        text: The answer, without the text that ended it; see `text_of`.
        truncated: Whether it was cut at its length.
        tokens: Its token ids, the end token included.
    """

    text: str
    truncated: bool
    tokens: Ids


class Writer(Protocol):
    """Something that writes answers."""

    name: str
    """For the snapshot's metadata."""

    def write(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Written]:
        """One answer behind each prompt, in their order; the same seed gives the same answers."""


class ModelWriter:
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
        on_cpu = device_of(model).type == "cpu"
        # A step writes one token a row: rows are what keeps a device busy, not the tokens before them.
        self._budget = 8 * (token_budget or (CPU_TOKENS if on_cpu else CUDA_TOKENS))

    def write(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Written]:
        """One answer behind each prompt, in their order.

        Raises:
            ScoringError: If the model cannot generate here.
        """
        ordered = sorted(range(len(prompts)), key=lambda at: (len(prompts[at]), prompts[at]))
        own, seeds = ordered[rank() :: world()], seeds_of(prompts, seed)

        def mine() -> list[tuple[int, Written]]:
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
                (at, Written(self.text(one.tokens, decoding.stop), not one.ended, one.tokens))
                for at, one in zip(own, samples, strict=True)
            ]

        found = dict(pair for part in gathered(mine) for pair in part)
        return [found[at] for at in range(len(prompts))]

    def text(self, tokens: Ids, stop: Sequence[str]) -> str:
        """The text of an answer, up to the first text that ends it."""
        return until(text_of(self._tokenizer, tokens), stop)

    def _stops(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        # A text of n characters is written by at most its bytes in tokens; a few more for what merges with it.
        window = max(len(text.encode()) for text in stop) + 8

        def stopped(tokens: Ids) -> bool:
            tail = self._tokenizer.decode(list(tokens[-window:]), skip_special_tokens=True)
            return any(text in tail for text in stop)

        return stopped


def text_of(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text of some tokens without the special ones, but with those that part thinking from the answer."""
    special = {
        number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and not is_mark(token.content)
    }
    return str(tokenizer.decode([token for token in tokens if token not in special], skip_special_tokens=False))


def until(text: str, stop: Sequence[str]) -> str:
    """A text up to the first of those that end it."""
    return text[: min((at for one in stop if (at := text.find(one)) >= 0), default=len(text))]
