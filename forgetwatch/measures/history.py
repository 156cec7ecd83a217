"""History of the items through all looks of a run, beside a model that only guesses. See `metrics.transitions`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.measures.base import Measure, Quantity, Unit
from forgetwatch.metrics.transitions import GuesserHistory, ItemHistory


@dataclass(frozen=True, kw_only=True)
class History:
    """History of a run of at least one look after the baseline.

    Attributes:
        items: Over the items that were scored at every look.
        guessed: The same of a model that only guesses.
    """

    items: ItemHistory
    guessed: GuesserHistory


def _number(
    name: str, unit: Unit = "count", *, guessed: bool = True
) -> Iterator[Quantity[History]]:
    # At the last look or over the whole run, and of a model that only guesses.

    def last(history: ItemHistory | GuesserHistory) -> float:
        value: float = np.ravel(getattr(history, name))[-1].item()
        return value

    def of_guesser(history: History) -> float:
        return (history.items.items if unit == "count" else 1.0) * last(history.guessed)

    yield Quantity(f"history.{name}", lambda r: last(r.items), unit, tracker=name)
    if guessed:
        yield Quantity(f"history.{name}_if_guessed", of_guesser, unit, tracker=f"{name}_if_guessed")


HISTORY: Final = Measure[History](
    key="history",
    quantities=(
        *_number("ever_forgotten"),
        *_number("regained"),
        *_number("newly_forgotten", guessed=False),
        *_number("newly_regained", guessed=False),
        *_number("never_forgotten"),
        *_number("temporal_forgetting", "share"),
    ),
)
