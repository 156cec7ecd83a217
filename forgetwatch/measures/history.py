"""History of the items through all looks of a run, beside that of a model that only guesses.

See `metrics.transitions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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


def _counted(name: str, *, guessed: bool = True) -> Iterator[Quantity[History]]:
    """A count at the last look, and that of a model that only guesses."""

    def of_guesser(found: History) -> float:
        return found.items.items * float(getattr(found.guessed, name)[-1])

    yield Quantity(f"history.{name}", lambda r: getattr(r.items, name)[-1].item(), "count", tracker=name)
    if guessed:
        yield Quantity(f"history.{name}_if_guessed", of_guesser, "count", tracker=f"{name}_if_guessed")


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


def _once(name: str, unit: Unit) -> Iterator[Quantity[History]]:
    """A number over the whole run, and that of a model that only guesses."""

    def of_guesser(found: History) -> float:
        value: float = getattr(found.guessed, name)
        return value * found.items.items if unit == "count" else value

    yield Quantity(f"history.{name}", lambda r: getattr(r.items, name), unit, tracker=name)
    yield Quantity(f"history.{name}_if_guessed", of_guesser, unit, tracker=f"{name}_if_guessed")


HISTORY: Final = Measure[History](
    key="history",
    question="Did lost answers come back?",
    sentence=_sentence,
    quantities=(
        *_counted("ever_forgotten"),
        *_counted("regained"),
        *_counted("newly_forgotten", guessed=False),
        *_counted("newly_regained", guessed=False),
        *_once("never_forgotten", "count"),
        *_once("temporal_forgetting", "share"),
    ),
)
