"""Clearly known items, how many are wrong now, and how many of both are luck. See `metrics.known`."""

import math
from dataclasses import dataclass
from typing import Final

from forgetwatch.measures.base import MISSING_CELL, Bounds, GroupMeasure, Quantity, Rows, numbers
from forgetwatch.metrics.intervals import Interval, effective_items, flip_interval
from forgetwatch.metrics.known import Known, count_known
from forgetwatch.text import count


@dataclass(frozen=True, kw_only=True)
class KnownItems(Known):
    """Counts of known items, with the 95 % interval of the share that is lost, lucky guesses included."""

    known_lost_interval: Interval


def _of(rows: Rows) -> KnownItems | None:
    items = rows.pairs.confidence()
    if (known := count_known(items, samples=rows.pairs.samples)) is None:
        return None
    lost = ~items.after[items.known]
    worth = (
        len(lost)
        if items.cluster is None
        else effective_items(lost.astype(float), items.cluster[items.known])
    )
    interval = (
        flip_interval(float(lost.mean()) * worth, worth) if len(lost) else flip_interval(0, 0)
    )
    return KnownItems(**vars(known), known_lost_interval=interval)


@dataclass(frozen=True)
class NetOfLuck:
    """Texts of the known and lost items less luck, and of the ends of their interval."""

    net: str
    low: str
    high: str

    def __str__(self) -> str:
        return self.net if self.low == "n/a" else f"{self.net} ({self.low} to {self.high})"


def net_of_luck(known: Known | None) -> NetOfLuck | None:
    """Texts of the known and lost items, net of luck.

    Returns:
        The texts, whole from 10 items on; None if luck is not measured.
    """
    if known is None or known.known_lost_by_luck is None or known.lost_net_interval is None:
        return None
    lost, by_luck = known.known_lost, known.known_lost_by_luck
    digits = 0 if max(lost, by_luck) >= 10 and float(lost).is_integer() else 1
    # Luck is rounded before it is taken off, so that the three counts add up.
    rounded = [
        round(value, digits) + 0.0
        for value in (lost - round(by_luck, digits), *known.lost_net_interval)
    ]
    return NetOfLuck(*(count(value) for value in rounded))


KNOWN: Final = GroupMeasure[KnownItems](
    key="known",
    of=_of,
    quantities=(
        Quantity("known", lambda r: r.known, "count"),
        Quantity("known_lost", lambda r: r.known_lost, "count"),
        *numbers("count", "newly_known", "known_by_luck", "known_lost_by_luck"),
        Quantity(
            "known_net",
            lambda r: r.known_net,
            "count",
            low=-math.inf,
            heading="clearly known",
            text=lambda r: MISSING_CELL if r.known_net is None else count(round(r.known_net)),
        ),
        Quantity(
            "known_lost_net",
            lambda r: r.lost_net,
            "count",
            low=-math.inf,
            heading="now lost",
            text=lambda r: str(net_of_luck(r) or MISSING_CELL),
            tracked="all",
        ),
        # A ratio of two differences.
        Quantity(
            "known_lost_net_share",
            lambda r: r.lost_net_share,
            "share",
            high=math.inf,
            low=-math.inf,
        ),
        Bounds("known_lost_net_interval", lambda r: r.lost_net_interval, "count", low=-math.inf),
        Bounds(
            "known_lost_net_share_interval",
            lambda r: r.lost_net_share_interval,
            "share",
            high=math.inf,
            low=-math.inf,
        ),
        Quantity("newly_known_net", lambda r: r.newly_known_net, "count", low=-math.inf),
        Bounds(
            "newly_known_net_interval", lambda r: r.newly_known_net_interval, "count", low=-math.inf
        ),
        Bounds("known_lost_interval", lambda r: r.known_lost_interval, "share"),
    ),
)
