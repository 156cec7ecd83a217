"""A measure: one thing that a group of items shows, with all that any output needs to show it.

    computation    `of`, from the rows of a group to a small frozen result
    quantities     its numbers and intervals, each with its name, unit, range, column and place in trackers
    words          its sentence, and the table of its panel

JSON, CSV, gates, trackers and every table loop over `measures.quantities.MEASURES`. So a new
measure is one module and one entry there. A result holds numbers only; a measure never sees a
Comparison or a renderer.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

from forgetwatch.measures.aligned import AlignedPairs, AlignedPassages
from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.log_score import Change
from forgetwatch.metrics.margin_change import MarginRule
from forgetwatch.text import bits, count, nats

R = TypeVar("R")
Unit = Literal["count", "share", "nats", "bits", "ratio"]
Tracked = Literal["", "all", "category", "where any", "card"]
"""Rows of trackers that have a quantity without ``log="full"``: none, that of all items, also those of categories, that
of all items where it is not 0."""

MISSING_CELL: Final = "–"
"""Cell of a quantity that is undefined."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one group: pairs of answers that were scored on both sides, those that were not, and its passages.

    Attributes:
        margin_rule: Widths and weight for margins, of all items of the comparison; None where
            options have no scores.
        passages_not_finite: Passages whose outputs after are not finite; counted over all items
            alone.
    """

    pairs: AlignedPairs
    unscored: AlignedPairs
    passages: AlignedPassages | None = None
    margin_rule: MarginRule | None = None
    passages_not_finite: int = 0


@dataclass(frozen=True)
class Number(Generic[R]):
    """Common part of a number and an interval.

    Attributes:
        name: Name in JSON, CSV, gates and trackers; a dot leads into an object of the JSON
            document.
        unit: Its unit; probabilities are shares.
        low: Smallest value that it can have.
        high: Largest value; None for 1 in shares, and no limit in all other units.
    """

    name: str
    read: Callable[[R], float | Interval | None]
    unit: Unit
    _: KW_ONLY
    low: float = 0.0
    high: float | None = None

    @property
    def range(self) -> Interval:
        """Smallest and largest value."""
        return (
            self.low,
            self.high if self.high is not None else 1.0 if self.unit == "share" else math.inf,
        )


@dataclass(frozen=True)
class Quantity(Number[R]):
    """One number of a measure.

    Attributes:
        read: The number; None or nan where it is undefined.
        heading: Heading of its column in the panel of the page; empty for none.
        text: Text of its cell; None for that of a count.
        tracked: Rows of trackers that have it by default; of ``card`` a model card alone.
        tracker: Its name in trackers, if another.
    """

    read: Callable[[R], float | None]
    heading: str = field(default="", kw_only=True)
    text: Callable[[R], str] | None = field(default=None, kw_only=True)
    tracked: Tracked = field(default="", kw_only=True)
    tracker: str = field(default="", kw_only=True)

    def cell(self, result: R) -> str:
        """Text of the cell; a dash where undefined."""
        if self.text is not None:
            return self.text(result)
        return MISSING_CELL if (value := self.read(result)) is None else count(value)


@dataclass(frozen=True)
class Bounds(Number[R]):
    """An interval of a measure, read as a pair or None; each end is a quantity: ``NAME_low`` and ``NAME_high``."""

    read: Callable[[R], Interval | None]


@dataclass(frozen=True, kw_only=True)
class Measure(Generic[R]):
    """One thing that is shown. A hook that only one measure would need stays in its renderer.

    Attributes:
        key: Its name.
        quantities: Its numbers and intervals.
        title: Heading of its panel; empty for a measure without one.
        about: First paragraph of the panel.
        sentence: Sentence of the panel on the whole; empty for none.
    """

    key: str
    quantities: tuple[Quantity[R] | Bounds[R], ...]
    title: str = ""
    about: str = ""
    sentence: Callable[[R], str] | None = None

    @property
    def headings(self) -> dict[str, str]:
        """Heading of each column, by quantity."""
        return {
            quantity.name: quantity.heading
            for quantity in self.quantities
            if isinstance(quantity, Quantity) and quantity.heading
        }

    def cells(self, result: R | None) -> dict[str, str]:
        """Text of each column, by quantity.

        Returns:
            The texts; empty where the measure is undefined.
        """
        columns = [
            quantity
            for quantity in self.quantities
            if isinstance(quantity, Quantity) and quantity.heading
        ]
        return (
            {} if result is None else {quantity.name: quantity.cell(result) for quantity in columns}
        )

    def values(self, result: R | None) -> dict[str, Any]:
        """Numbers and intervals by name, in JSON types.

        Returns:
            The values, None where undefined or not finite.
        """
        values: dict[str, Any] = {}
        for quantity in self.quantities:
            value = None if result is None else quantity.read(result)
            values[quantity.name] = (
                [_finite(end) for end in value] if isinstance(value, tuple) else _finite(value)
            )
        return values


def sentence_of(measure: Measure[R], result: R | None) -> str:
    """Sentence of a measure on a result.

    Returns:
        The sentence, or an empty text.
    """
    return "" if result is None or measure.sentence is None else measure.sentence(result)


@dataclass(frozen=True, kw_only=True)
class GroupMeasure(Measure[R]):
    """A measure of a group of items.

    Attributes:
        of: Result for the rows of a group; None where it is undefined.
        parts: Object of the JSON document that is null as a whole where a part of the result is
            None.
    """

    of: Callable[[Rows], R | None]
    parts: Mapping[str, Callable[[R], object]] = field(default_factory=dict)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _attribute(result: object, path: str) -> Any:
    # None where a part on the path is None.
    for name in path.split("."):
        result = None if result is None else getattr(result, name)
    return result


def numbers(
    unit: Unit, *names: str, prefix: str = "", part: str = "", low: float = 0.0
) -> Iterator[Quantity[Any]]:
    """Yield quantities that are attributes of a result or a part.

    `prefix` and `part` end with a dot.
    """
    for name in names:
        yield Quantity(prefix + name, partial(_attribute, path=part + name), unit, low=low)


def intervals(
    unit: Unit, *names: str, prefix: str = "", part: str = "", low: float = 0.0
) -> Iterator[Bounds[Any]]:
    """Yield intervals that are attributes of a result or a part."""
    for name in names:
        yield Bounds(prefix + name, partial(_attribute, path=part + name), unit, low=low)


def with_interval(change: Change | None, unit: Unit) -> str:
    """Format a change in nats or bits with a 95 % interval.

    As ``+0.14 (+0.09 to +0.19)``; a dash for None.
    """
    if change is None:
        return MISSING_CELL
    show = bits if unit == "bits" else nats
    if math.isnan(change.interval[0]):  # one observation shows no spread
        return show(change.mean)[0]
    formatted, low, high = show(change.mean, *change.interval)
    return f"{formatted} ({low} to {high})"


def mean_change(
    name: str, change: str, *, unit: Unit = "nats", heading: str = ""
) -> tuple[Quantity[Any], Bounds[Any]]:
    """Make the quantity and interval of a mean change.

    The change can have either sign; the column shows the interval, too.

    Its column shows the interval, too.
    """
    mean, interval = (
        partial(_attribute, path=f"{change}.{attribute}") for attribute in ("mean", "interval")
    )

    def text(result: object) -> str:
        return with_interval(_attribute(result, change), unit)

    return (
        Quantity(name, mean, unit, low=-math.inf, heading=heading, text=text),
        Bounds(f"{name}_interval", interval, unit, low=-math.inf),
    )


def json_value(value: Any) -> Any:
    """Copy a value into JSON's own types.

    A number that is not finite becomes None.
    """
    if isinstance(value, Mapping):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [json_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
