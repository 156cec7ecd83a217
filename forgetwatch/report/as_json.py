"""A Comparison as a JSON document, schema ``forgetwatch/comparison@1``.

Rates are fractions, counts whole numbers (means where items have several samples), p-values two-sided. A quantity that
is undefined is null, never 0 and never nan. Later versions add keys; none is redefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from forgetwatch.compare import Comparison
from forgetwatch.groups import Chance, Group
from forgetwatch.macro import Spread

SCHEMA: Final = "forgetwatch/comparison@1"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@1"

_GROUP: Final = (
    *("level", "name", "n", "retained", "forgotten", "gained", "missed", "known", "known_lost", "newly_known"),
    *("accuracy_before", "accuracy_after", "forgetting", "backward_transfer", "net_change", "forgetting_relative"),
    *("retention", "forgetting_interval", "backward_transfer_interval", "net_change_interval", "p_value", "q_value"),
    "detectable_change",
)
_PAPER: Final = (
    *("expected", "forgetting", "backward_transfer", "forgetting_unclipped", "backward_transfer_unclipped"),
    *("forgetting_max", "backward_transfer_max"),
)
_CORRECTED: Final = ("n", "forgetting", "backward_transfer", "forgetting_se", "backward_transfer_se")
_RATES: Final = ("forgetting", "backward_transfer")
_PERSISTENCE: Final = ("same_wrong", "same_wrong_if_fresh", "tipping_ratio")

QUANTITIES: Final = (
    *(name for name in _GROUP if name not in ("level", "name") and not name.endswith("interval")),
    *(f"soft.{name}" for name in _RATES),
    "chance.n",
    *(f"chance.paper.{name}" for name in _PAPER),
    *(f"chance.guess_corrected.{name}" for name in _CORRECTED),
    *(f"chance.{name}" for name in _PERSISTENCE),
)
"""Every quantity of a group that is one number, by its path in the document."""


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """One comparison as JSON values."""
    return {
        "schema": SCHEMA,
        "before": _value(comparison.before),
        "after": _value(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_json(group) for group in comparison.groups],
        "macro": {
            "forgetting": _spread(comparison.macro.forgetting),
            "backward_transfer": _spread(comparison.macro.backward_transfer),
            "by_category": {
                name: {"forgetting": _spread(lost), "backward_transfer": _spread(won)}
                for name, (lost, won) in comparison.macro.by_category.items()
            },
        },
        "notes": list(comparison.notes),
    }


def comparisons_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """One comparison as its document, several as a list of documents."""
    documents = [comparison_json(comparison) for comparison in comparisons]
    return documents[0] if len(documents) == 1 else {"schema": SCHEMA_SEVERAL, "comparisons": documents}


def group_json(group: Group) -> dict[str, Any]:
    """One group as JSON values."""
    # Measured only where the same weights were measured twice, and where option scores were stored.
    not_measured = {"null_lost": None}
    numbers = {name: _value(getattr(group, name)) for name in _GROUP}
    return {**numbers, **not_measured, "chance": _chance(group.chance), "soft": _pick(group.soft, _RATES)}


def _chance(chance: Chance) -> dict[str, Any]:
    return {
        "n": chance.n,
        "paper": _pick(chance.paper, _PAPER),
        "guess_corrected": _pick(chance.guess_corrected, _CORRECTED),
        "guess_corrected_calibrated": None,
        "bound": _pick(chance.bound, _RATES),
        **{name: _value(getattr(chance.persistence, name, None)) for name in _PERSISTENCE},
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {"mean": _value(spread.mean), "sd": _value(spread.sd)}


def _pick(source: object, names: Sequence[str]) -> dict[str, Any] | None:
    return None if source is None else {name: _value(getattr(source, name)) for name in names}


def _value(value: Any) -> Any:
    """The value in JSON's own types; a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): _value(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
