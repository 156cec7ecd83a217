"""Drift of one look from the base: KL(base||now) on texts that the base generated. See `metrics.divergence`.

Between saved models also KL(now||base), on texts that the model after generated. It is large where
the model now says what the base would not, and the former where it no longer says what the base
would.

The look's snapshot stores it in its metadata, with the floor of its run:

    "drift": {"probe": {"completions": 64, "tokens": 2011, "kl_sampled": 0.0059, "kl_sampled_se":
    0.0018, ...,
                        "floor": {"kl_sampled": 1e-7, "kl_summed": 2e-8}},
              "training": {...}}

There it is under the snapshot's checksum, is written together with the look, and goes with it into
checkpoints. The base is the model at the first look of the run. Snapshots without drift, as of
earlier versions, have no such key.

A KL is at least 0, and so is the interval of the summed one; only the sampled estimate may fall
below by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from operator import attrgetter
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.measures.base import MISSING_CELL, Measure, Quantity, json_value, numbers
from forgetwatch.metrics.divergence import Drift
from forgetwatch.metrics.intervals import Interval, mean_interval

DRIFT_KEY: Final = "drift"
"""Key of the drift in the metadata of a snapshot."""

REVERSE: Final = "reverse"
"""Set of the texts that the model after generated after the probe's prompts."""

SET_NAMES: Final = {
    "probe": "probe prompts",
    "training": "training prompts",
    REVERSE: "probe prompts, KL(after||base)",
}
"""Name of each set for people; another set has its own name."""

ESTIMATORS: Final = {"kl_summed": "summed", "kl_sampled": "sampled"}
"""Estimators of KL(base||now) by the attribute of `Drift`, the least noisy first."""


_OTHER_FORM: Final = 0.25
"""Share of the KL at the first token from which on another form explains it: measured were 48 to 68 % where a format
took over, and 5 to 6 % under noise in the weights (benchmarks/real_model/why_results.md)."""


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
        """Drift of a look, with the base against itself as floor."""
        values = {spec.name: getattr(drift, spec.name) for spec in fields(Drift)}
        low = (
            None if floor is None else Floor(kl_sampled=floor.kl_sampled, kl_summed=floor.kl_summed)
        )
        return cls(**values, floor=low)


def stored_drift(drift: Mapping[str, LookDrift]) -> dict[str, dict[str, Any]]:
    """Drift of each set as metadata of a snapshot.

    JSON has no number for nan and infinities: they are the texts ``nan`` and ``inf``.
    """

    def stored(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: stored(part) for name, part in value.items()}
        return value if value is None or math.isfinite(value) else str(value)

    return {name: stored(asdict(set_drift)) for name, set_drift in drift.items()}


def drift_json(drift: Mapping[str, LookDrift] | None) -> dict[str, Any] | None:
    """JSON values of the drift of each set.

    A number that is not finite is null, and so is a drift not measured.
    """
    return (
        None
        if drift is None
        else {name: json_value(asdict(set_drift)) for name, set_drift in drift.items()}
    )


def drift_row(drifts: Mapping[str, LookDrift]) -> dict[str, float]:
    """Numbers of a look by their names in trackers.

    As ``kl_probe_se``; what was not measured is left out.
    """
    row: dict[str, float | None] = {}
    for name, set_drift in drifts.items():
        columns = [
            quantity
            for quantity in DRIFT.quantities
            if isinstance(quantity, Quantity) and quantity.tracker
        ]
        row |= {quantity.tracker.format(name): quantity.read(set_drift) for quantity in columns}
    return {key: value for key, value in row.items() if value is not None}


def read_drift(meta: Mapping[str, Any], *, label: str) -> dict[str, LookDrift] | None:
    """Read the drift in the metadata of a snapshot.

    Returns:
        The drift by set, or None without drift.

    Raises:
        SnapshotError: If it is no drift; names the snapshot by its label.
    """
    stored = meta.get(DRIFT_KEY)
    if stored is None:
        return None
    try:
        return {str(name): _read(of_set) for name, of_set in stored.items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        needed = f"needed numbers of each set under {DRIFT_KEY!r} in its metadata"
        raise SnapshotError(f"{label}: {needed} ({error})") from error


def _read(stored: Mapping[str, Any]) -> LookDrift:
    values: dict[str, Any] = {
        name: float(value) if isinstance(value, str) else value for name, value in stored.items()
    }
    floor = values.pop("floor", None)
    return LookDrift(**values, floor=None if floor is None else Floor(**floor))


def drift_interval(drift: Drift, name: str) -> Interval:
    """95 % interval of the KL by an estimator.

    (nan, nan) without a standard error.
    """
    value, error = getattr(drift, name), getattr(drift, f"{name}_se")
    if value is None or error is None:
        return math.nan, math.nan
    return mean_interval(
        value, error, low=-math.inf if name == "kl_sampled" else 0.0, high=math.inf
    )


def best_estimator(drifts: Iterable[Drift]) -> str:
    """Attribute of the least noisy estimator that all drifts have."""
    all_drifts = list(drifts)
    return next(
        estimator
        for estimator in ESTIMATORS
        if all(getattr(drift, estimator) is not None for drift in all_drifts)
    )


def kl_text(drift: Drift, name: str) -> str:
    """Format the KL by an estimator with a 95 % interval.

    As ``0.0028 (0.0022 to 0.0034)``, or a dash.
    """
    value, (low, high) = getattr(drift, name), drift_interval(drift, name)
    if value is None or math.isnan(value):
        return MISSING_CELL
    return _nats(value) if math.isnan(low) else f"{_nats(value)} ({_nats(low)} to {_nats(high)})"


def _nats(value: float) -> str:
    if 0 < abs(value) < 1e-9:
        return "<1e-9"
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-")
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def _floors(drift: LookDrift) -> str:
    floors = [] if drift.floor is None else [drift.floor.kl_sampled, drift.floor.kl_summed]
    return ", ".join(_nats(floor) for floor in floors if floor is not None) or MISSING_CELL


def reverse_sentence(drift: LookDrift) -> str:
    """Sentence on how likely the base finds generated texts."""
    kl = kl_text(drift, best_estimator([drift]))
    return f"The base finds texts that the model after generated less likely by {kl} nats a token: KL(after||base)."


def _sentence(drift: LookDrift) -> str:
    name = best_estimator([drift])
    value, (low, high) = getattr(drift, name), drift_interval(drift, name)
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "it rules out texts that it wrote at the start."
    if low <= 0:
        return f"texts that it generated at the start are about as likely as before (KL {kl_text(drift, name)})."
    sentence = (
        f"texts that it generated at the start are less likely now, by {_nats(value)} nats a token"
    )
    between = "" if math.isnan(low) else f" (95 %: {_nats(low)} to {_nats(high)})"
    return f"{sentence}{between}.{_beginning(drift)}"


def _share(value: float | None) -> str:
    return MISSING_CELL if value is None or math.isnan(value) else f"{100 * min(value, 1.0):.0f} %"


def _beginning(drift: LookDrift) -> str:
    # How answers begin now, and whether most of the drift is there.
    kept, share = drift.first_token_kept, drift.kl_first_share
    if (
        kept is None
        or math.isnan(kept)
        or share is None
        or math.isnan(share)
        or not drift.completions
    ):
        return ""
    even = drift.completions / drift.tokens
    where = "spread over the texts: the answers change rather than their form"
    if share > _OTHER_FORM:
        where = "in how they begin: another form is taking over"
    return (
        f" By the likeliest first tokens {_share(kept)} of its answers still begin as at the "
        f"start; {100 * share:.0f} % of the change is at that token (an even one would put "
        f"{100 * even:.0f} % there), so it is {where}."
    )


def _kl(name: str, tracker: str) -> tuple[Quantity[LookDrift], Quantity[LookDrift]]:
    low, heading = -math.inf if name == "kl_sampled" else 0.0, f"KL {ESTIMATORS[name]}"
    format_kl = partial(kl_text, name=name)
    return (
        Quantity(
            name,
            attrgetter(name),
            "nats",
            low=low,
            heading=heading,
            text=format_kl,
            tracker=tracker,
        ),
        Quantity(f"{name}_se", attrgetter(f"{name}_se"), "nats", tracker=f"{tracker}_se"),
    )


DRIFT: Final = Measure[LookDrift](
    key="drift",
    title="How far it moved from the base",
    sentence=_sentence,
    quantities=(
        Quantity("completions", lambda r: r.completions, "count"),
        Quantity("tokens", lambda r: r.tokens, "count"),
        *_kl("kl_sampled", "kl_{}"),
        *_kl("kl_summed", "kl_summed_{}"),
        Quantity(
            "overlap",
            lambda r: r.overlap,
            "ratio",
            heading="overlap",
            text=lambda r: MISSING_CELL if math.isnan(r.overlap) else f"{r.overlap:.2f}",
            tracker="overlap_{}",
        ),
        Quantity("overlap_se", lambda r: r.overlap_se, "ratio"),
        Quantity(
            "first_token_kept",
            lambda r: r.first_token_kept,
            "ratio",
            heading="still begins so",
            text=lambda r: _share(r.first_token_kept),
            tracker="first_kept_{}",
        ),
        Quantity("first_token_kept_se", lambda r: r.first_token_kept_se, "ratio"),
        Quantity("kl_first_share", lambda r: r.kl_first_share, "ratio"),
        Quantity(
            "floor.kl_sampled",
            lambda r: None if r.floor is None else r.floor.kl_sampled,
            "nats",
            heading="floor",
            text=_floors,
        ),
        *numbers("nats", "kl_summed", prefix="floor.", part="floor."),
    ),
)
