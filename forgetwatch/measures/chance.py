"""Corrections of flips for guessing, each with its assumption. See `metrics.guessing`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, Unit, intervals, numbers
from forgetwatch.metrics.guessing import Corrected, Paper, guess_corrected, paper
from forgetwatch.metrics.intervals import Interval
from forgetwatch.text import between, count, percent

ASSUMES: Final = {
    "paper": "before and after are unrelated; too high if guesses change, too low if not",
    "guess-corrected": "guesses hit like any wrong option; too high if some options are ruled out",
}
"""Assumption of each correction, and the direction of its error; in full in the module of its name in `metrics`."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Corrections of a group's flips for guessing; a quantity that is undefined for the group is None.

    Attributes:
        n: Items with k >= 2; nan for a group without answers.
        paper: The paper's adjustment, over those items.
        guess_corrected: Needs logged options and k >= 3.
    """

    n: float
    paper: Paper | None
    guess_corrected: Corrected | None


def _of(rows: Rows) -> Chance:
    pairs = rows.pairs
    adjusted = paper(
        pairs.before, pairs.after, pairs.k, cluster=pairs.cluster, samples=pairs.samples
    )
    answers = pairs.answers()
    return Chance(
        n=adjusted.n if len(pairs) else math.nan,
        paper=adjusted if adjusted.n else None,
        guess_corrected=guess_corrected(answers) if answers else None,
    )


def chance_rows(chance: Chance, n: float) -> list[tuple[str, str, str, str]]:
    """Name, forgotten %, gained %, and items of each correction.

    `items` is empty if all n items took part.
    """
    rows = []
    corrections: tuple[tuple[str, int, Paper | Corrected | None], ...] = (
        ("paper", 2, chance.paper),
        ("guess-corrected", 3, chance.guess_corrected),
    )
    # `least` is the smallest number of options with which an item takes part.
    for name, least, rates in corrections:
        if rates is not None:
            if isinstance(rates, Paper):
                intervals = rates.forgetting_interval, rates.backward_transfer_interval
            else:
                intervals = rates.forgetting_band, rates.backward_transfer_band
            lost, won = (
                _from_zero(rates.forgetting, intervals[0]),
                _from_zero(rates.backward_transfer, intervals[1]),
            )
            rows.append(
                (name, lost, won, f"{count(rates.n)} with k>={least}" if rates.n < n else "")
            )
    return rows


def _from_zero(rate: float, interval: Interval) -> str:
    # Values below 0 are noise, and only the JSON keeps them.
    if interval[1] < 0:
        return "0.0 (all below 0)"
    return f"{percent(min(max(rate, 0.0), 1.0))} ({between((max(interval[0], 0.0), interval[1]), percent)})"


def _numbers(
    part: str, *names: str, unit: Unit = "share", low: float = 0.0
) -> Iterator[Quantity[Chance]]:
    return numbers(unit, *names, prefix=f"chance.{part}.", part=f"{part}.", low=low)


def _intervals(part: str, *names: str, low: float = 0.0) -> Iterator[Bounds[Chance]]:
    return intervals("share", *names, prefix=f"chance.{part}.", part=f"{part}.", low=low)


def _corrected(part: str) -> tuple[Quantity[Chance] | Bounds[Chance], ...]:
    # Corrected rates can be below 0.
    return (
        *_numbers(part, "n", unit="count"),
        *_numbers(part, "forgetting", "backward_transfer", low=-1.0),
        *_numbers(part, "forgetting_se", "backward_transfer_se"),
        *_intervals(part, "forgetting_band", "backward_transfer_band", low=-1.0),
    )


CHANCE: Final = GroupMeasure[Chance](
    key="chance",
    of=_of,
    parts={f"chance.{part}": attrgetter(part) for part in ("paper", "guess_corrected")},
    quantities=(
        Quantity("chance.n", lambda r: r.n, "count"),
        *_numbers("paper", "expected"),
        *_numbers("paper", "forgetting", "backward_transfer"),
        *_numbers("paper", "forgetting_unclipped", "backward_transfer_unclipped", low=-1.0),
        *_numbers(
            "paper",
            "forgetting_max",
            "backward_transfer_max",
            "forgetting_se",
            "backward_transfer_se",
        ),
        *_intervals("paper", "forgetting_interval", "backward_transfer_interval"),
        *_corrected("guess_corrected"),
    ),
)
