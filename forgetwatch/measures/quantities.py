"""All measures in their order, and the loops over their numbers: JSON, columns of CSV, keys of trackers, gates.

    forgotten  net_change  soft.forgetting  chance.paper.forgetting  chance.guess_corrected.n  ...

Rates are fractions, counts whole numbers (means if items have several samples). A quantity that is
undefined is None, never 0 and never nan. Later versions add names; none changes its meaning.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from forgetwatch.measures.base import Bounds, GroupMeasure, Number, Quantity, Unit
from forgetwatch.measures.base_drift import DRIFT, SET_NAMES
from forgetwatch.measures.chance import CHANCE
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.flip_counts import FLIPS, VANISHED
from forgetwatch.measures.graded import GRADED
from forgetwatch.measures.history import HISTORY
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import FORM, NULL, RIGHT_LOST
from forgetwatch.measures.option_mass import CONSTANT_MASS, MASS
from forgetwatch.measures.scores import LOG_SCORE, PASSAGES
from forgetwatch.metrics.intervals import Interval

MEASURES: Final[tuple[GroupMeasure[Any], ...]] = (
    *(
        FLIPS,
        NET_ESTIMATE,
        GRADED,
        KNOWN,
        LOG_SCORE,
        PASSAGES,
        MASS,
        CONSTANT_MASS,
        FORM,
        NULL,
        VANISHED,
    ),
    *(CHANCE, RIGHT_LOST),
)
"""The measures of a group, in the order in which every output shows them."""

_ALL: Final = tuple((measure, quantity) for measure in MEASURES for quantity in measure.quantities)
_INTERVALS: Final = tuple(
    bounds for _, bounds in _ALL if isinstance(bounds, Bounds) and "." not in bounds.name
)

INTERVALS: Final = frozenset(bounds.name for _, bounds in _ALL if isinstance(bounds, Bounds))
"""Names of all intervals; those below an object of the JSON document have no ends that a gate or a table can name."""

_ENDS: Final = {
    f"{bounds.name}_{end}": (bounds, index)
    for bounds in _INTERVALS
    for index, end in enumerate(("low", "high"))
}
"""Interval and index of which each end is one."""

_NUMBERS: Final = {
    quantity.name: quantity for _, quantity in _ALL if isinstance(quantity, Quantity)
}

QUANTITIES: Final = (*_NUMBERS, *_ENDS)
"""Names of the quantities of a group that are one number, as `value_at` finds them in a document."""

MEASURE_OF: Final = {quantity.name: (measure, quantity) for measure, quantity in _ALL}
"""Measure, and quantity or interval, of each name."""


BEYOND_GROUPS: Final[dict[str, Quantity[Any]]] = {
    f"drift.{name}.{quantity.name}": quantity
    for name in SET_NAMES
    for quantity in DRIFT.quantities
    if isinstance(quantity, Quantity)
} | {quantity.name: quantity for quantity in HISTORY.quantities if isinstance(quantity, Quantity)}
"""Numbers of a look (its drift, by set of prompts) and of a run (its history), which no group has, by name."""


def _number(name: str) -> Number[Any]:
    # An end of an interval stands for the interval.
    if name in BEYOND_GROUPS:
        return BEYOND_GROUPS[name]
    return _ENDS[name][0] if name in _ENDS else _NUMBERS[name]


def unit_of(name: str) -> Unit:
    """Unit of a quantity; probabilities are shares.

    >>> unit_of("forgotten"), unit_of("forgetting"), unit_of("log_score_change")
    ('count', 'share', 'nats')
    """
    return _number(name).unit


def range_of(name: str) -> Interval:
    """Smallest and largest value of a quantity; may be infinite.

    >>> range_of("forgetting"), range_of("net_change"), range_of("log_score_change")
    ((0.0, 1.0), (-1.0, 1.0), (-inf, inf))
    """
    return _number(name).range


def document(result_of: Callable[[GroupMeasure[Any]], object]) -> dict[str, Any]:
    """Nested mapping of all numbers of a group, in JSON types.

    Args:
        result_of: Gives the result of each measure.
    """
    values = {
        name: value
        for measure in MEASURES
        for name, value in measure.values(result_of(measure)).items()
    }
    made: dict[str, Any] = {}
    for _, quantity in _ALL:
        _put(made, quantity.name, values[quantity.name])
    for measure in MEASURES:
        result = result_of(measure)
        for name, part_of in measure.parts.items():
            if result is None or part_of(result) is None:
                _put(made, name, None)
    return made


def _put(document: dict[str, Any], name: str, value: Any) -> None:
    *path, leaf = name.split(".")
    for key in path:
        document = document.setdefault(key, {})
    document[leaf] = value


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Value of a quantity in the nested mapping of a group.

    >>> value_at({"chance": {"paper": None}}, "chance.paper.forgetting") is None
    True
    >>> value_at({"net_change_interval": [-0.1, 0.2]}, "net_change_interval_low")
    -0.1

    Returns:
        The value, or None if the path ends early.
    """
    if name in _ENDS:
        interval, index = _ENDS[name]
        ends = values.get(interval.name)
        return ends[index] if ends else None
    value: Any = values
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
