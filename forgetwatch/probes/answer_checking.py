"""Faults of a probe that only a model's answers show, with counts and examples.

    no question         the options are answered without their questions, over all or in a category
    below chance        tasks and categories that the model answers worse than a guess would
    option mass         share of the probability that the options hold at the place of the answer
    sure and wrong      confident answers, with a share of at least `metrics.known.TAU` on one option, that are wrong

The model answers the items twice: as they are, and with everything left out before the last line of the prompt
("Answer:"). A model that is better than chance then has learned nothing from the question: the options give the answer
away by their form, or one of them is a commoner text. One that is worse than chance prefers the wrong options by form.
A task below chance has wrong keys, or options that mislead by their form; a model that merely does not know is at
chance.

The first is a fault beyond `CLEAR` standard errors of independent guesses, in either direction. With ten categories and
a sound probe, one check in twenty finds a category by accident. The second is a fault at a q-value of at most
`FALSE_SHARE`: the exact probability of so few right guesses, adjusted for the number of tasks and categories
(Benjamini and Hochberg 1995). Twenty items of four options are too few among a hundred such groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.metrics import TAU, UNITS, false_discovery, normalise
from forgetwatch.probe import Probe
from forgetwatch.probes.checking import Finding, chance_of, standard_errors
from forgetwatch.snapshot import Snapshot

Key = tuple[str, str]
"""(Task, id) of an item."""

Row = Mapping[str, Any]

CLEAR: Final = 2.8
"""Standard errors from chance that are a fault: about 1 in 200 by accident."""

FALSE_SHARE: Final = 0.05
"""Largest q-value at which a task or category counts as below chance."""

_FEWEST: Final = 10
"""Items of a category below which its accuracy is not compared with chance."""

_MASS: Final = 0.001
"""Median option mass below which what decides is far from what the model would write."""

_SURE: Final = 0.5
"""Share of wrong answers among confident ones from which confidence means nothing."""


def without_questions(probe: Probe) -> Probe:
    """Items with options, each without its question, to be scored; the others are left out.

    Of a prompt the last line is left if it is a request for the answer ("Answer:"), else nothing. Options that are
    listed for their letters stay listed.

    Raises:
        ProbeError: If no item has options.
    """
    items = [replace(item, prompt=_ending(item), shots="", system=None) for item in probe if len(item.choices) > 1]
    if not items:
        raise ProbeError(f"probe {probe.name!r} has no item with options, and a check by a model needs some")
    scoring = "loglikelihood" if probe.scoring == "generate" else probe.scoring
    return replace(probe, items=tuple(items), scoring=scoring, decoding=None)


def check_answers(probe: Probe, answered: Snapshot, no_question: Snapshot) -> list[Finding]:
    """Result of every check of a model's answers, including those that found nothing.

    Args:
        probe: The probe.
        answered: Outcomes of a model on the probe.
        no_question: Its outcomes on `without_questions` of the probe.
    """
    items = {(item.task, item.id): item for item in probe if len(item.choices) > 1}
    with_question, without = _rows(answered, items), _rows(no_question, items)
    return [
        _no_question(items, without),
        _below(items, with_question),
        _mass(with_question),
        _sure(with_question, answered.norms),
    ]


def _ending(item: Item) -> Any:
    """Last line of a prompt if it is short and ends with a colon, with its line break; else nothing."""
    text = item.prompt if isinstance(item.prompt, str) else ""
    line = text.rpartition("\n")[2]
    ending = line if line.rstrip().endswith(":") and len(line) <= 40 and line != text else ""
    return ending if isinstance(item.prompt, str) else ({"role": "user", "content": ending},)


def _rows(snapshot: Snapshot, items: Mapping[Key, Item]) -> dict[Key, Row]:
    """Scored rows by (task, id), of the first sample."""
    rows = snapshot.table.to_pylist()
    return {
        name: row
        for row in rows
        if (name := (row["task"], row["item_id"])) in items
        and row.get("choice_logprobs") is not None
        and not row.get("sample")
    }


def _distance(keys: Sequence[Key], rows: Mapping[Key, Row], items: Mapping[Key, Item]) -> float:
    """(right answers - expected by chance) of some items in standard errors of independent guesses."""
    return standard_errors(sum(_right(rows[key]) for key in keys), [items[key] for key in keys])


def _unchecked(name: str) -> Finding:
    return Finding(name=name, items=(), of=0, wrong=False, about="no items to check")


def _right(row: Mapping[str, Any]) -> bool:
    # Of a generated answer with options, the scored options decide here.
    scored = row.get("forced_correct")
    return bool(row["correct"] if scored is None else scored)


def _no_question(items: Mapping[Key, Item], rows: Mapping[Key, Row]) -> Finding:
    name = "no question"
    if not rows:
        return _unchecked(name)
    groups: dict[str, list[Key]] = {"over all": list(rows)}
    for key in rows:
        groups.setdefault(items[key].category or "no category", []).append(key)
    groups = {group: keys for group, keys in groups.items() if group == "over all" or len(keys) >= _FEWEST}
    far = {group: distance for group, keys in groups.items() if abs(distance := _distance(keys, rows, items)) > CLEAR}
    right = tuple(key for key in rows if _right(rows[key]))
    chance = sum(chance_of(items[key]) for key in rows) / len(rows)
    about = f"right in {100 * len(right) / len(rows):.1f} % without the question (chance {100 * chance:.1f} %)"
    if far:
        about += "; " + ", ".join(f"{group} {distance:+.1f} standard errors" for group, distance in far.items())
    return Finding(name=name, items=right, of=len(rows), wrong=bool(far), about=about)


def _below(items: Mapping[Key, Item], rows: Mapping[Key, Row]) -> Finding:
    name = "below chance"
    if not rows:
        return _unchecked(name)
    groups = _tasks_and_categories(items, rows)
    chances = [np.array([chance_of(items[key]) for key in keys]) for keys in groups.values()]
    right = [sum(_right(rows[key]) for key in keys) for keys in groups.values()]
    q_values = false_discovery(np.array([_at_most(*pair) for pair in zip(right, chances, strict=True)]))
    below = {group: float(q) for group, q in zip(groups, q_values, strict=True) if q <= FALSE_SHARE}
    # Alone: its p-value with every answer wrong would still count after the adjustment.
    able = sum(bool(np.prod(1 - each) * len(groups) <= FALSE_SHARE) for each in chances)
    size = f"{able} of {len(groups)} tasks and categories have enough items to show it alone"
    far = {group: _distance(groups[group], rows, items) for group in sorted(below, key=lambda one: below[one])}
    listed = ", ".join(f"{group} {far[group]:.1f} standard errors (q {below[group]:.1g})" for group in far)
    about = f"answered worse than a guess: {listed}" if below else "no task or category is answered worse than a guess"
    found = {key for group in below for key in groups[group]}
    return Finding(
        name=name,
        items=tuple(key for key in rows if key in found),
        of=len(rows),
        wrong=bool(below),
        about=f"{about}; {size}",
    )


def _tasks_and_categories(items: Mapping[Key, Item], keys: Iterable[Key]) -> dict[str, list[Key]]:
    """Items of each task, and of each category that is not a task with the same items."""
    tasks: dict[str, list[Key]] = {}
    categories: dict[str, list[Key]] = {}
    for key in keys:
        tasks.setdefault(key[0], []).append(key)
        if category := items[key].category:
            categories.setdefault(f"category {category}", []).append(key)
    known = list(tasks.values())
    return tasks | {group: keys for group, keys in categories.items() if keys not in known}


def _at_most(right: int, chances: NDArray[np.float64]) -> float:
    """Probability of at most so many right guesses, where each has its own chance."""
    probabilities = np.ones(1)
    for chance in chances:
        probabilities = np.convolve(probabilities, (1 - chance, chance))
    return min(1.0, float(probabilities[: right + 1].sum()))


def _mass(rows: Mapping[Key, Row]) -> Finding:
    masses = {key: float(mass) for key, row in rows.items() if (mass := row.get("option_mass")) is not None}
    if not masses:
        return _unchecked("option mass")
    median = float(np.median(list(masses.values())))
    return Finding(
        name="option mass",
        items=tuple(key for key, mass in masses.items() if mass < _MASS),
        of=len(masses),
        wrong=median < _MASS,
        about=f"the options hold {median:.2g} of the probability in the median; below {_MASS:g} the form decides",
    )


def _sure(rows: Mapping[Key, Row], norms: Mapping[str, str]) -> Finding:
    sure = [key for key, row in rows.items() if _largest_share(row, norms.get(key[0], "sum")) >= TAU]
    wrong = tuple(key for key in sure if not _right(rows[key]))
    share = f"{100 * len(wrong) / len(sure):.0f} %" if sure else "none"
    return Finding(
        name="sure and wrong",
        items=wrong,
        of=len(sure),
        # Fewer than a handful of confident answers show nothing.
        wrong=len(sure) >= _FEWEST and len(wrong) > _SURE * len(sure),
        about=f"of the answers with at least {TAU:g} of the options' probability {share} are wrong",
    )


def _largest_share(row: Mapping[str, Any], norm: str) -> float:
    """Largest share of one option in the softmax of the scores that decide; 0 where they are not known."""
    logprobs, priors = np.array(row["choice_logprobs"], float), row.get("choice_priors")
    units = {
        unit: np.array(row[f"choice_{unit}"]) for unit, _ in UNITS.values() if row.get(f"choice_{unit}") is not None
    }
    scores = normalise(
        logprobs,
        np.array([len(logprobs)]),
        norm=norm,
        lengths=units,
        priors=None if priors is None else np.array(priors, float),
    )
    if not np.isfinite(scores).any() or np.isnan(scores).any():
        return 0.0
    return float(softmax(scores).max())
