"""History of the items through all looks of a run, beside a model that only guesses. See `metrics.transitions`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.measures.base import Measure, Quantity, Unit
from forgetwatch.metrics import GuesserHistory, ItemHistory
from forgetwatch.pairing import count


@dataclass(frozen=True, kw_only=True)
class History:
    """History of a run of at least one look after the baseline.

    Attributes:
        items: Over the items that were scored at every look.
        guessed: The same of a model that only guesses.
    """

    items: ItemHistory
    guessed: GuesserHistory


def _number(name: str, unit: Unit = "count", *, guessed: bool = True) -> Iterator[Quantity[History]]:
    """Yield a number at the last look or over the whole run, and that of a model that only guesses."""

    def last(history: ItemHistory | GuesserHistory) -> float:
        value: float = np.ravel(getattr(history, name))[-1].item()
        return value

    def of_guesser(found: History) -> float:
        return (found.items.items if unit == "count" else 1.0) * last(found.guessed)

    yield Quantity(f"history.{name}", lambda r: last(r.items), unit, tracker=name)
    if guessed:
        yield Quantity(f"history.{name}_if_guessed", of_guesser, unit, tracker=f"{name}_if_guessed")


def _sentence(found: History) -> str:
    looks = len(found.items.ever_forgotten)
    if looks < 2 or not found.items.items:
        return ""
    ever, back = (values[-1] for values in (found.items.ever_forgotten, found.items.regained))
    text = (
        f"over all {looks} looks, {count(ever)} answer{'' if ever == 1 else 's'} that {'was' if ever == 1 else 'were'} "
        f"right at the start {'was' if ever == 1 else 'were'} wrong at some look, and {count(back)} of these "
        f"{'is' if back == 1 else 'are'} right again now"
    )
    shares = (float(found.guessed.ever_forgotten[-1]), float(found.guessed.regained[-1]))
    if math.isnan(shares[0]):
        return f"{text}."
    guessed = [f"{share * found.items.items:,.0f}" for share in shares]
    return f"{text}. A model that only guesses would have {guessed[0]} and {guessed[1]}."


HISTORY: Final = Measure[History](
    key="history",
    question="Did lost answers come back?",
    sentence=_sentence,
    quantities=(
        *_number("ever_forgotten"),
        *_number("regained"),
        *_number("newly_forgotten", guessed=False),
        *_number("newly_regained", guessed=False),
        *_number("never_forgotten"),
        *_number("temporal_forgetting", "share"),
    ),
)
