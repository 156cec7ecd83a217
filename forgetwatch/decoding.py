"""How answers are written: how long, how drawn, how often, and what counts where no answer is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from forgetwatch.errors import ProbeError

NoAnswer = Literal["wrong", "unscored"]
Ask = Literal["reasoning", "letter"]
Check = Literal["written", "forced"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The settings of written answers; all of them are part of a probe's fingerprint.

    Attributes:
        tokens: Most tokens of an answer; one that needs more is truncated.
        temperature: 0 takes the most likely token each time; above it tokens are drawn.
        top_p: Tokens are drawn from the fewest that together have this probability.
        samples: Answers to each item; sample j is drawn with seed + j.
        seed: Of the drawing.
        stop: Texts that end an answer; they are no part of it.
        thinking: Whether a chat template may open a thinking block.
        no_answer: What an output is in which no answer is found: ``wrong``, or ``unscored``.
        ask: How items with choices are asked: ``reasoning`` step by step with the letter at the end, or for the
            ``letter`` alone.
        check: How open answers are judged: what is ``written``, by the item's match; or ``forced``: whether greedy
            decoding would begin with an answer, word for word, leading space included. That needs no writing, and costs
            as much as scoring one choice.

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
        """Check the values."""
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))
        ranges = {
            "tokens": (self.tokens >= 1, "at least 1"),
            "temperature": (self.temperature >= 0, "at least 0"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "samples": (self.samples >= 1, "at least 1"),
            "stop": (all(isinstance(text, str) and text for text in self.stop), "texts that are not empty"),
            "no_answer": (self.no_answer in get_args(NoAnswer), f"one of {', '.join(get_args(NoAnswer))}"),
            "ask": (self.ask in get_args(Ask), f"one of {', '.join(get_args(Ask))}"),
            "check": (self.check in get_args(Check), f"one of {', '.join(get_args(Check))}"),
        }
        for name, (fits, needed) in ranges.items():
            if not fits:
                raise ProbeError(f"decoding: {name} must be {needed}, got {getattr(self, name)!r}")
        if self.samples > 1 and not self.temperature:
            raise ProbeError(f"decoding: {self.samples} samples at temperature 0 are the same; give a temperature")

    @classmethod
    def of(cls, given: Decoding | Mapping[str, Any] | None) -> Self | Decoding:
        """The settings in a header's object, or as they are; the defaults for None.

        Raises:
            ProbeError: If a setting is unknown.
        """
        if isinstance(given, Decoding):
            return given
        names = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(given or {}) - names):
            raise ProbeError(f"decoding: unknown setting {unknown[0]!r}; there are {', '.join(sorted(names))}")
        try:
            return cls(**(given or {}))
        except TypeError as error:
            raise ProbeError(f"decoding: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {**asdict(self), "stop": list(self.stop)}
