"""Drift of one look from the base, as the look's snapshot stores it in its metadata, with the floor of its run.

    "drift": {"probe": {"completions": 64, "tokens": 2011, "kl_sampled": 0.0059, "kl_sampled_se": 0.0018, ...,
                        "floor": {"kl_sampled": 1e-7, "kl_summed": 2e-8}},
              "training": {...}}

There it is under the snapshot's checksum, is written together with the look, and goes with it into checkpoints. The
base is the model at the first look of the run. Snapshots without drift, as of earlier versions, have no such key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.measures import json_value
from forgetwatch.metrics import Drift

DRIFT: Final = "drift"
"""Key of the drift in the metadata of a snapshot."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """KL(base||base) in nats per token, read in other batches: what a KL shows of rounding alone.

    Attributes:
        kl_sampled: By the sampled tokens.
        kl_summed: Summed over the base's likeliest tokens; None if it was not measured.
    """

    kl_sampled: float
    kl_summed: float | None = None


@dataclass(frozen=True, kw_only=True)
class LookDrift(Drift):
    """Drift of a look after one set of prompts, and the floor of its run.

    Attributes:
        floor: KL of the base from itself; None if it was not measured.
    """

    floor: Floor | None = None

    @classmethod
    def of(cls, drift: Drift, floor: Drift | None = None) -> LookDrift:
        """Drift of a look, with that of the base from itself as its floor."""
        own = {one.name: getattr(drift, one.name) for one in fields(Drift)}
        low = None if floor is None else Floor(kl_sampled=floor.kl_sampled, kl_summed=floor.kl_summed)
        return cls(**own, floor=low)


def stored_drift(drift: Mapping[str, LookDrift]) -> dict[str, dict[str, Any]]:
    """Values of the metadata of a snapshot that hold the drift of each set.

    JSON has no number for nan and infinities: they are the texts ``nan`` and ``inf``.
    """
    return _mapped(drift, lambda value: value if math.isfinite(value) else str(value))


def drift_json(drift: Mapping[str, LookDrift] | None) -> dict[str, Any] | None:
    """JSON values of the drift of each set; a number that is not finite is null, and so is a drift not measured."""
    return None if drift is None else _mapped(drift, json_value)


def _mapped(drift: Mapping[str, LookDrift], value_of: Callable[[float], Any]) -> dict[str, dict[str, Any]]:
    """Numbers of the drift of each set and of its floor by name, each through a function; None stays None."""

    def values(found: object, names: Iterable[str]) -> dict[str, Any]:
        numbers = {name: getattr(found, name) for name in names}
        return {name: None if number is None else value_of(number) for name, number in numbers.items()}

    return {
        name: {
            **values(found, (one.name for one in fields(Drift))),
            "floor": None if found.floor is None else values(found.floor, (one.name for one in fields(Floor))),
        }
        for name, found in drift.items()
    }


def drift_row(drifts: Mapping[str, Drift]) -> dict[str, float]:
    """Numbers of one look by name: ``kl_probe``, ``kl_probe_se``, ``kl_summed_probe``, ..., ``overlap_training``.

    The sampled KL has the short name; what was not measured is left out.
    """
    row: dict[str, float | None] = {}
    for name, found in drifts.items():
        row |= {
            f"kl_{name}": found.kl_sampled,
            f"kl_{name}_se": found.kl_sampled_se,
            f"kl_summed_{name}": found.kl_summed,
            f"kl_summed_{name}_se": found.kl_summed_se,
            f"kl_exact_{name}": found.kl_exact,
            f"kl_exact_{name}_se": found.kl_exact_se,
            f"overlap_{name}": found.overlap,
        }
    return {key: value for key, value in row.items() if value is not None}


def read_drift(meta: Mapping[str, Any], *, label: str) -> dict[str, LookDrift] | None:
    """Drift in the metadata of a snapshot, by set; None without one.

    Args:
        meta: The metadata.
        label: Name of the snapshot, for messages.

    Raises:
        SnapshotError: If it is no drift.
    """
    stored = meta.get(DRIFT)
    if stored is None:
        return None
    try:
        return {str(name): _read(of_set) for name, of_set in stored.items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"{label}: needed numbers of each set under {DRIFT!r} in its metadata ({error})") from error


def _read(stored: Mapping[str, Any]) -> LookDrift:
    values: dict[str, Any] = {name: _whole(stored[name]) for name in ("completions", "tokens")}
    for name in (one.name for one in fields(Drift) if one.name not in values):
        values[name] = _number(stored[name], may_lack=name.startswith(_MAY_LACK))
    if (floor := stored.get("floor")) is not None:
        summed = _number(floor.get("kl_summed"), may_lack=True)
        values["floor"] = Floor(kl_sampled=_finite_or_nan(floor["kl_sampled"]), kl_summed=summed)
    return LookDrift(**values)


_MAY_LACK: Final = ("kl_summed", "kl_exact")
"""Beginnings of the names of quantities that not every run can measure."""


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"needed a count, got {value!r}")
    return value


def _number(value: object, *, may_lack: bool) -> float | None:
    return None if value is None and may_lack else _finite_or_nan(value)


def _finite_or_nan(value: object) -> float:
    if value in ("nan", "inf"):
        return float(str(value))
    if type(value) not in (int, float) or value == -math.inf:
        raise TypeError(f"needed a number, got {value!r}")
    return float(value)  # type: ignore[arg-type]
