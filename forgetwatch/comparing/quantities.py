"""Quantities of a group: their names, and their values as JSON types.

    forgotten  net_change  soft.forgetting  chance.paper.forgetting  chance.guess_corrected.n  ...

One list for all that names a quantity: the groups of a JSON document, the columns of a CSV file, the keys of a tracker
and the conditions of a gate. Rates are fractions, counts whole numbers (means if items have several samples). A
quantity that is undefined is None, never 0 and never nan. Later versions add names; none changes its meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from forgetwatch.comparing.groups import Chance, Group
from forgetwatch.metrics import Interval

_GROUP: Final = (
    *("level", "name", "n", "retained", "forgotten", "gained", "missed", "known", "known_lost", "newly_known"),
    *("accuracy_before", "accuracy_after", "forgetting", "backward_transfer", "net_change", "forgetting_relative"),
    *("known_by_luck", "known_lost_by_luck", "known_net", "known_lost_net", "known_lost_net_share"),
    *("known_lost_net_interval", "known_lost_interval"),
    *("log_score_before", "log_score_after", "log_score_change", "log_score_change_interval"),
    *("log_score_change_clipped", "log_score_change_clipped_interval"),
    *("log_score_change_calibrated", "log_score_change_calibrated_interval", "log_score_p_value", "log_score_q_value"),
    *("temperature_before", "temperature_after", "forgotten_log_score_change"),
    *("log_mass_change", "log_mass_change_interval", "log_conditional_change", "log_conditional_change_interval"),
    *("forgotten_log_mass_change", "forgotten_log_mass_change_interval"),
    *("forgotten_log_conditional_change", "forgotten_log_conditional_change_interval"),
    *("mass_kl", "conditional_kl", "weighted_conditional_kl"),
    "forgotten_at_constant_mass",
    *("retention", "format_lost", "knowledge_lost", "null_n", "null_lost", "null_gained"),
    "forgetting_interval",
    *("backward_transfer_interval", "net_change_interval", "p_value", "loss_p_value", "q_value", "effective_n"),
    "detectable_change",
    *("net_change_interval_worst", "known_vanished", "vanished"),
    *("unscored_before", "unscored_after", "newly_unscored"),
    *("passages", "bits_per_byte_before", "bits_per_byte_after", "bits_per_byte_change"),
    *("bits_per_byte_change_interval", "bits_per_byte_p_value", "bits_per_byte_q_value"),
)
_RATES: Final = ("forgetting", "backward_transfer")
_ERRORS: Final = ("forgetting_se", "backward_transfer_se")
_PAPER: Final = (
    *("expected", *_RATES, "forgetting_unclipped", "backward_transfer_unclipped"),
    *("forgetting_max", "backward_transfer_max", *_ERRORS, "forgetting_interval", "backward_transfer_interval"),
)
_CORRECTED: Final = ("n", *_RATES, *_ERRORS, "forgetting_band", "backward_transfer_band")
_CALIBRATED: Final = (*_CORRECTED, "second_choice")
_BOUND: Final = (*_RATES, "forgetting_interval", "backward_transfer_interval")
_SOFT: Final = (*_RATES, *_ERRORS)
_NOISE_FLOOR: Final = (
    *("floor", *_RATES, "forgetting_above", "backward_transfer_above"),
    *("forgetting_above_se", "backward_transfer_above_se"),
)
_PERSISTENCE: Final = ("same_wrong", "same_wrong_se", "same_wrong_if_fresh", "tipping_ratio")

_INTERVALS: Final = (
    *("known_lost_net_interval", "known_lost_interval", "log_score_change_interval"),
    *("log_score_change_clipped_interval", "log_score_change_calibrated_interval"),
    *("log_mass_change_interval", "log_conditional_change_interval"),
    *("forgotten_log_mass_change_interval", "forgotten_log_conditional_change_interval"),
    *("forgetting_interval", "backward_transfer_interval", "net_change_interval", "bits_per_byte_change_interval"),
    "net_change_interval_worst",
)
"""Intervals of a group; the ends of each are quantities of their own, in this order."""

_ENDS: Final = {f"{name}_{end}": (name, index) for name in _INTERVALS for index, end in enumerate(("low", "high"))}
"""Name and index of the interval of which each end is one."""

QUANTITIES: Final = tuple(
    name
    for name in (
        *(name for name in _GROUP if name not in ("level", "name", *_INTERVALS)),
        *(f"soft.{name}" for name in _SOFT),
        *(f"noise_floor.{name}" for name in _NOISE_FLOOR),
        "chance.n",
        *(f"chance.paper.{name}" for name in _PAPER),
        *(f"chance.guess_corrected.{name}" for name in _CORRECTED),
        *(f"chance.guess_corrected_calibrated.{name}" for name in _CALIBRATED),
        *(f"chance.{name}" for name in _PERSISTENCE),
    )
    if not name.endswith(("interval", "band"))
) + tuple(_ENDS)
"""Names of the quantities of a group that are one number, as `value_at` finds them in `group_values`."""

_OF_NOTHING: Final = ("retained", "forgotten", "gained", "missed", "effective_n")
"""Counts that are 0 where a group has no answers, and mean nothing there."""
_OF_UNSCORED: Final = ("vanished", "unscored_before", "unscored_after", "newly_unscored")
"""Counts that are 0 where a group has no answers at all, scored or not, and mean nothing there."""

Unit = Literal["count", "share", "nats", "bits", "ratio"]

_COUNTS: Final = frozenset(
    (
        *("n", "retained", "forgotten", "gained", "missed", "known", "known_lost", "newly_known", "known_by_luck"),
        *("known_lost_by_luck", "known_net", "known_lost_net", "forgotten_at_constant_mass", "format_lost"),
        *("knowledge_lost", "null_n", "null_lost", "null_gained", "effective_n", "passages"),
        *("known_vanished", "vanished", "unscored_before", "unscored_after", "newly_unscored"),
        *("chance.n", "chance.guess_corrected.n", "chance.guess_corrected_calibrated.n"),
    )
)
_RATIOS: Final = frozenset(("temperature_before", "temperature_after", "chance.tipping_ratio"))
_SIGNED: Final = frozenset(
    (
        *("known_net", "known_lost_net", "known_lost_net_share", "net_change"),
        *(f"noise_floor.{name}_above" for name in _RATES),
        *(f"chance.paper.{name}_unclipped" for name in _RATES),
        *(f"chance.{which}.{name}" for which in ("guess_corrected", "guess_corrected_calibrated") for name in _RATES),
    )
)
"""Counts and shares that can be below 0."""


def unit_of(name: str) -> Unit:
    """Unit of a quantity of `QUANTITIES`; probabilities are shares.

    >>> unit_of("forgotten"), unit_of("forgetting"), unit_of("log_score_change")
    ('count', 'share', 'nats')
    """
    name = _measured_by(name)
    if name in _COUNTS:
        return "count"
    if name in _RATIOS:
        return "ratio"
    if name.endswith(("p_value", "q_value")):
        return "share"
    if name.startswith("bits_per_byte"):
        return "bits"
    return "nats" if "log_" in name or name.endswith("_kl") else "share"


def range_of(name: str) -> Interval:
    """Smallest and largest value that a quantity of `QUANTITIES` can have; infinite where it has no limit.

    >>> range_of("forgetting"), range_of("net_change"), range_of("known_lost_net")
    ((0.0, 1.0), (-1.0, 1.0), (-inf, inf))
    """
    name, unit = _measured_by(name), unit_of(name)
    if name == "known_lost_net_share":  # a ratio of two differences
        return -math.inf, math.inf
    if unit == "bits":
        return -math.inf if name.endswith("_change") else 0.0, math.inf
    if name.endswith("_kl"):
        return 0.0, math.inf
    if unit == "nats":
        return -math.inf, 0.0 if name in ("log_score_before", "log_score_after") else math.inf
    high = 1.0 if unit == "share" else math.inf
    return -high if name in _SIGNED else 0.0, high


def _measured_by(name: str) -> str:
    """Quantity whose unit and range are those of an end of an interval; of any other quantity its own name."""
    if name not in _ENDS:
        return name
    interval, _ = _ENDS[name]
    # The only interval of a share that is named after a count.
    return "forgetting_relative" if interval == "known_lost_interval" else interval.partition("_interval")[0]


def group_values(group: Group) -> dict[str, Any]:
    """Nested mapping of the quantities of one group, in JSON types, with its level and name.

    For a group without scored answers all are None, and the ends of all intervals, but `n`, those of passages and those
    of unscored answers.
    """
    has_unscored = group.unscored_before or group.unscored_after
    return {
        **{name: json_value(getattr(group, name)) for name in _GROUP},
        **({} if group.n else dict.fromkeys(_OF_NOTHING)),
        **({} if group.n or has_unscored else dict.fromkeys(_OF_UNSCORED)),
        "chance": _chance(group.chance) | ({} if group.n else {"n": None}),
        "soft": _pick(group.soft, _SOFT),
        "noise_floor": _pick(group.noise_floor, _NOISE_FLOOR),
    }


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Value of a quantity in the nested mapping of a group; None if its path ends early.

    >>> value_at({"chance": {"paper": None}}, "chance.paper.forgetting") is None
    True
    >>> value_at({"net_change_interval": [-0.1, 0.2]}, "net_change_interval_low")
    -0.1
    """
    value: Any = values
    if name in _ENDS:
        interval, index = _ENDS[name]
        ends = values.get(interval)
        return ends[index] if ends else None
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def json_value(value: Any) -> Any:
    """Copy of a value in JSON's own types; a number that is not finite is None."""
    if isinstance(value, Mapping):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [json_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _chance(chance: Chance) -> dict[str, Any]:
    return {
        "n": chance.n,
        "paper": _pick(chance.paper, _PAPER),
        "guess_corrected": _pick(chance.guess_corrected, _CORRECTED),
        "guess_corrected_calibrated": _pick(chance.guess_corrected_calibrated, _CALIBRATED),
        "bound": _pick(chance.bound, _BOUND),
        **{name: json_value(getattr(chance.persistence, name, None)) for name in _PERSISTENCE},
        "tipping_ratio_interval": json_value(chance.tipping_interval),
    }


def _pick(source: object, names: Sequence[str]) -> dict[str, Any] | None:
    return None if source is None else {name: json_value(getattr(source, name)) for name in names}
