"""Numbers as people read them: shares in percent, differences in points, what is undefined as n/a."""

from __future__ import annotations

import math
from collections.abc import Callable

from forgetwatch.metrics.intervals import Interval


def count(value: float, *, commas: bool = True) -> str:
    """A count; with one decimal where it is a mean over samples."""
    if math.isnan(value):
        return "n/a"
    whole = round(value)
    if abs(value - whole) > 1e-9:
        return f"{value:,.1f}" if commas else f"{value:.1f}"
    return f"{whole:,}" if commas else str(whole)


def items(value: float) -> str:
    """A count of items, with the noun.

    >>> items(1), items(1200)
    ('1 item', '1,200 items')
    """
    return f"{count(value)} item{'' if value == 1 else 's'}"


def percent(rate: float) -> str:
    """A share in percent, without the sign."""
    return "n/a" if math.isnan(rate) else f"{round(100 * rate, 1) + 0.0:.1f}"  # never -0.0


def points(rate: float) -> str:
    """A difference of shares in points, with its sign."""
    return "n/a" if math.isnan(rate) else f"{100 * rate:+.1f}"


def between(interval: Interval, show: Callable[[float], str]) -> str:
    """An interval; n/a where it is undefined."""
    return "n/a" if math.isnan(interval[0]) else f"{show(interval[0])} to {show(interval[1])}"


def probability(p: float) -> str:
    """A p-value, to three decimals."""
    if math.isnan(p):
        return "n/a"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def fit(name: str, width: int) -> str:
    """A name in exactly so many columns."""
    return f"{name:<{width}}" if len(name) <= width else name[: width - 1] + "…"
