"""The probe `ladder`: 800 questions of `standard`, and 1,200 of a pool at the levels that suit a model.

    ladder               the pool: questions of ten kinds at eight levels; `at_levels` fits it to a model
    ladder-3345212455    800 + 1,200 questions, a digit for the level of each kind, in the order of `KINDS`

A model near its ceiling has nothing to lose that a question would show. 300 questions of the pool, spread over kinds
and levels, are asked at the start. At level l a model is right with probability 1/4 + 3/4 sigma(s (e - l)): an e for
each kind, one slope s, four options. The level of a kind is the one nearest to `WANTED`. The 300 are compared nowhere:
those that chose a level were luckily right.

The levels are in the name of the probe, so that a resumed run, a file of outcomes, and another machine know them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import compress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped_probes import LADDER, STRATA, interleave, shipped_probe
from forgetwatch.snapshot import Snapshot

KINDS: Final = (
    "chain",
    "compared",
    "date",
    "events",
    "facts",
    "order",
    "program",
    "reading",
    "state",
    "units",
)
"""Kinds of the pool, in the order of the digits; the task of an item is its kind and level, as in ``chain:3``."""

WANTED: Final = 0.7
"""Share of right answers at the chosen levels."""

TRIED: Final = 300
_OF_STANDARD: Final = 800
_OF_KIND: Final = 120
_LEVELS: Final = range(1, 9)
_FLOOR: Final = 1 / 4
_SLOPE: Final = (np.log(0.7), 0.5)
_EASY: Final = (4.5, 4.0)
"""Means and standard deviations before an answer is known: of the logarithm of the slope, and of e of a kind."""


def at_levels(probe: Probe, answers: Callable[[Probe], Snapshot]) -> Probe:
    """Return the probe at the levels that suit a model, if it is the pool; any other as it is.

    Args:
        probe: Any probe.
        answers: Measures the model that comparisons begin with on a few questions, whose outcomes nothing else uses; it
            may leave some out.
    """
    if not is_pool(probe):
        return probe
    found = answers(_tried())
    right = found.floats("correct")
    known = np.isfinite(right)
    of = [task.split(":") for task in compress(found.texts("task"), known)]
    kinds, levels = (
        np.array([KINDS.index(kind) for kind, _ in of], int),
        np.array([int(level) for _, level in of], int),
    )
    fitted = fitted_levels(kinds, levels, right[known] == 1)
    # No level whose questions are too long for the model: a curve would go on beyond them.
    most = [max(levels[kinds == kind], default=_LEVELS[0]) for kind in range(len(KINDS))]
    return at_named(tuple(int(min(level, at)) for level, at in zip(fitted, most, strict=True)))


def is_pool(probe: Probe) -> bool:
    """Return True for the pool, which is fitted to a model; False for a ladder with levels, and for any other probe."""
    return probe.name == LADDER and probe.fingerprint == shipped_probe(LADDER).fingerprint


def with_levels(probe: Probe) -> Probe:
    """Return a probe; a ProbeError for the pool, which has to be fitted to a model first."""
    if is_pool(probe):
        raise ProbeError(
            "ladder: needed its levels here, such as ladder-3345212455; score a model with it to get them"
        )
    return probe


def fitted_levels(
    kinds: NDArray[np.int_], levels: NDArray[np.int_], right: NDArray[np.bool_]
) -> tuple[int, ...]:
    """Return the level of each kind at which a model is right in about `WANTED`.

    Args:
        kinds: Place of each question's kind in `KINDS`, [questions].
        levels: Their levels, 1 to 8, [questions].
        right: True for each right answer, [questions].
    """
    from scipy.optimize import minimize  # a fifth of a second that no other comparison needs

    def cost(values: NDArray[np.float64]) -> Any:
        above = np.exp(values[0]) * (values[1:][kinds] - levels)
        likely = np.where(
            right,
            np.log(_FLOOR + (1 - _FLOOR) * expit(above)),
            np.log(1 - _FLOOR) + log_expit(-above),
        )
        before = ((values[0] - _SLOPE[0]) / _SLOPE[1]) ** 2 + np.sum(
            ((values[1:] - _EASY[0]) / _EASY[1]) ** 2
        )
        return before / 2 - likely.sum()

    found = minimize(cost, [_SLOPE[0], *[_EASY[0]] * len(KINDS)], method="BFGS").x
    wanted = found[1:] - logit((WANTED - _FLOOR) / (1 - _FLOOR)) / np.exp(found[0])
    return tuple(int(level) for level in np.clip(np.rint(wanted), _LEVELS[0], _LEVELS[-1]))


@cache
def at_named(levels: tuple[int, ...]) -> Probe:
    """Return the ladder at the levels of the kinds: of each the nearest questions that no trial asks."""
    tried = {item.id for item in _tried()}
    own: dict[str, list[tuple[int, str, Item]]] = {kind: [] for kind in KINDS}
    for item in shipped_probe(LADDER):
        kind, level = item.task.split(":")
        if item.id not in tried:
            own[kind].append((abs(int(level) - levels[KINDS.index(kind)]), item.content_hash, item))
    pool = [
        item
        for some in own.values()
        for *_, item in sorted(some, key=lambda one: one[:2])[:_OF_KIND]
    ]
    standard = shipped_probe("standard")
    items = interleave([*standard.items[:_OF_STANDARD], *pool])
    return replace(standard.with_items(items), name=f"{LADDER}-{''.join(map(str, levels))}")


def named_ladder(name: str) -> Probe | None:
    """Return the ladder of a name with levels; None for another name.

    Raises:
        ProbeError: If the name has not a level from 1 to 8 for each kind.
    """
    if not name.startswith(f"{LADDER}-"):
        return None
    digits = name.removeprefix(f"{LADDER}-")
    if len(digits) != len(KINDS) or not set(digits) <= set(map(str, _LEVELS)):
        raise ProbeError(
            f"{name}: needed a digit from 1 to 8 for each of {', '.join(KINDS)}, such as ladder-3345212455"
        )
    return at_named(tuple(map(int, digits)))


def described_levels(name: str) -> str:
    """Return the levels that a ladder's name has, as in ``chain 3, compared 3, ...``; empty for another name."""
    found = re.fullmatch(rf"{LADDER}-([1-8]{{{len(KINDS)}}})(\+{STRATA})?", name)
    return (
        ", ".join(f"{kind} {level}" for kind, level in zip(KINDS, found[1], strict=True))
        if found
        else ""
    )


@cache
def _tried() -> Probe:
    pool = shipped_probe(LADDER)
    return replace(pool.with_items(interleave(pool.items)[:TRIED]), name=f"{LADDER} trial")
