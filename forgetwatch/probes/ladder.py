"""The probe `ladder`: 800 questions of `standard`, and 1,200 of a pool at the levels that suit a model.

    ladder               the pool: questions of ten kinds at eight levels; `at_levels` fits it to a model
    ladder-3345212455    800 + 1,200 questions, a digit for the level of each kind, in the order of `KINDS`

A model near its ceiling has nothing to lose that a question would show. 300 questions of the pool,
spread over kinds and levels, are asked at the start. At level l a model is right with probability
1/4 + 3/4 sigma(s (e - l)): an e for each kind, one slope s, four options. The level of a kind is
the one nearest to `WANTED`. The 300 are compared nowhere: those that chose a level were luckily
right.

The levels are in the name of the probe, so that a resumed run, a file of outcomes, and another
machine know them.
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
    """Choose the levels that suit a model, if the probe is the pool.

    Any other probe is unchanged.

    Args:
        probe: Any probe.
        answers: Measures the model that comparisons begin with on a few questions, whose outcomes
            nothing else uses; it may leave some out.
    """
    if not is_pool(probe):
        return probe
    outcomes = answers(_tried())
    right = outcomes.floats("correct")
    is_scored = np.isfinite(right)
    of = [task.split(":") for task in compress(outcomes.texts("task"), is_scored)]
    kinds, levels = (
        np.array([KINDS.index(kind) for kind, _ in of], int),
        np.array([int(level) for _, level in of], int),
    )
    fitted = fitted_levels(kinds, levels, right[is_scored] == 1)
    # No level whose questions are too long for the model: a curve would go on beyond them.
    highest = [max(levels[kinds == number], default=_LEVELS[0]) for number in range(len(KINDS))]
    return at_named(tuple(int(min(level, at)) for level, at in zip(fitted, highest, strict=True)))


def is_pool(probe: Probe) -> bool:
    """Is the probe the pool, which is fitted to a model?"""
    return probe.name == LADDER and probe.fingerprint == shipped_probe(LADDER).fingerprint


def with_levels(probe: Probe) -> Probe:
    """Refuse the pool, which has to be fitted to a model first.

    Raises:
        ProbeError: If the probe is the pool. Any other is returned.
    """
    if is_pool(probe):
        raise ProbeError(
            "ladder: needed its levels here, such as ladder-3345212455; score a model with it "
            "to get them"
        )
    return probe


def fitted_levels(
    kinds: NDArray[np.int_], levels: NDArray[np.int_], right: NDArray[np.bool_]
) -> tuple[int, ...]:
    """Level of each kind at which a model is right in `WANTED`.

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

    parameters = minimize(cost, [_SLOPE[0], *[_EASY[0]] * len(KINDS)], method="BFGS").x
    wanted = parameters[1:] - logit((WANTED - _FLOOR) / (1 - _FLOOR)) / np.exp(parameters[0])
    return tuple(int(level) for level in np.clip(np.rint(wanted), _LEVELS[0], _LEVELS[-1]))


@cache
def at_named(levels: tuple[int, ...]) -> Probe:
    """The ladder at a level of each kind.

    Of each kind the nearest questions that no trial asks.
    """
    tried = {item.id for item in _tried()}
    by_kind: dict[str, list[tuple[int, str, Item]]] = {kind: [] for kind in KINDS}
    for item in shipped_probe(LADDER):
        kind, level = item.task.split(":")
        if item.id not in tried:
            by_kind[kind].append(
                (abs(int(level) - levels[KINDS.index(kind)]), item.content_hash, item)
            )
    pool = [
        item
        for candidates in by_kind.values()
        for *_, item in sorted(candidates, key=lambda candidate: candidate[:2])[:_OF_KIND]
    ]
    standard = shipped_probe("standard")
    items = interleave([*standard.items[:_OF_STANDARD], *pool])
    return replace(standard.with_items(items), name=f"{LADDER}-{''.join(map(str, levels))}")


def named_ladder(name: str) -> Probe | None:
    """The ladder of a name with levels.

    Returns:
        The probe, or None for another name.

    Raises:
        ProbeError: If the name has not a level from 1 to 8 for each kind.
    """
    if not name.startswith(f"{LADDER}-"):
        return None
    digits = name.removeprefix(f"{LADDER}-")
    if len(digits) != len(KINDS) or not set(digits) <= set(map(str, _LEVELS)):
        raise ProbeError(
            f"{name}: needed a digit from 1 to 8 for each of {', '.join(KINDS)}, such as "
            "ladder-3345212455"
        )
    return at_named(tuple(map(int, digits)))


def described_levels(name: str) -> str:
    """Levels in a ladder's name, as ``chain 3, compared 3, ...``.

    Empty for another name.
    """
    match = re.fullmatch(rf"{LADDER}-([1-8]{{{len(KINDS)}}})(\+{STRATA})?", name)
    return (
        ", ".join(f"{kind} {level}" for kind, level in zip(KINDS, match[1], strict=True))
        if match
        else ""
    )


@cache
def _tried() -> Probe:
    pool = shipped_probe(LADDER)
    return replace(pool.with_items(interleave(pool.items)[:TRIED]), name=f"{LADDER} trial")
