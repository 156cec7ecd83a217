"""Settings of generated answers: length, sampling, number of samples, and the outcome where no answer is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.files.reading import is_text

NoAnswer = Literal["wrong", "unscored"]
Ask = Literal["reasoning", "letter"]
Check = Literal["written", "forced"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Settings of generated answers; all of them are part of a probe's fingerprint.

    Attributes:
        tokens: Most tokens of an answer; a longer one is truncated.
        temperature: 0 takes the most likely token at each step; above 0 tokens are sampled.
        top_p: Tokens are sampled from the smallest set that has at least this probability.
        samples: Number of answers to each item; sample j uses seed + j.
        seed: Seed of the sampling.
        stop: Texts that end an answer and are not part of it.
        thinking: True if a chat template may open a thinking block.
        no_answer: Outcome where no answer is found in an output: ``wrong`` or ``unscored``.
        ask: Instruction of items with choices: ``reasoning`` step by step with the letter at the
            end, or the ``letter`` alone.
        check: How open answers are graded: ``written`` grades the generated text by the item's
            match; ``forced`` tests if greedy decoding would begin with an answer, word for word,
            leading space included. That needs no generation and costs as much as scoring one
            choice.

    Raises:
        ProbeError: If a value is out of range.
    """

    tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    samples: int = 1
    seed: int = 0
    stop: tuple[str, ...] = ()
    thinking: bool = False
    no_answer: NoAnswer = "wrong"
    ask: Ask = "reasoning"
    check: Check = "written"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        )
        # Not isinstance: True is an instance of int, and no number of tokens.
        ranges = {
            "tokens": (type(self.tokens) is int and self.tokens >= 1, "a whole number, at least 1"),
            "temperature": (
                _is_number(self.temperature) and self.temperature >= 0,
                "a number, at least 0",
            ),
            "top_p": (
                _is_number(self.top_p) and 0 < self.top_p <= 1,
                "a number above 0 and at most 1",
            ),
            "samples": (
                type(self.samples) is int and self.samples >= 1,
                "a whole number, at least 1",
            ),
            "seed": (type(self.seed) is int and self.seed >= 0, "a whole number, at least 0"),
            "stop": (all(is_text(stop) and stop for stop in self.stop), "texts that are not empty"),
            "thinking": (isinstance(self.thinking, bool), "true or false"),
            "no_answer": (
                self.no_answer in get_args(NoAnswer),
                f"one of {', '.join(get_args(NoAnswer))}",
            ),
            "ask": (self.ask in get_args(Ask), f"one of {', '.join(get_args(Ask))}"),
            "check": (self.check in get_args(Check), f"one of {', '.join(get_args(Check))}"),
        }
        for name, (fits, needed) in ranges.items():
            if not fits:
                raise ProbeError(f"decoding: {name} must be {needed}, got {getattr(self, name)!r}")
        if self.samples > 1 and not self.temperature:
            raise ProbeError(
                f"decoding: {self.samples} samples at temperature 0 are the same; give a "
                "temperature"
            )

    @classmethod
    def of(cls, header: Decoding | Mapping[str, Any] | None) -> Self | Decoding:
        """Make settings from the object of a header.

        A `Decoding` is returned unchanged; None gives the defaults.

        A `Decoding` unchanged; the defaults for None.
        """
        if isinstance(header, Decoding):
            return header
        if not isinstance(header, Mapping | None):
            raise ProbeError(f"decoding: needed an object of settings, got {header!r:.80}")
        names = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(header or {}) - names):
            near = did_you_mean(unknown[0], names)
            raise ProbeError(
                f"decoding: unknown setting {unknown[0]!r}{near}; there are "
                f"{', '.join(sorted(names))}"
            )
        try:
            return cls(**(header or {}))
        except TypeError as error:
            raise ProbeError(f"decoding: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {**asdict(self), "stop": list(self.stop)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
