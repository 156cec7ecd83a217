"""Faults of a probe that a model's answers show, for those who write one.

    python tools/probe/answers.py PROBE MODEL [--limit N]

    no question       the options are answered without their questions, over all or in a category
    below chance      tasks and categories that the model answers worse than a guess would
    option mass       share of the probability that the options hold at the place of the answer
    sure and wrong    confident answers, with a share of at least `metrics.known.TAU` on one option, that are wrong

For these a model answers the items twice: as they are, and with everything left out before the last line of the prompt
("Answer:"). A model that is better than chance then has learned nothing from the question: the options give the answer
away by their form, or one of them is a commoner text. One that is worse than chance prefers the wrong options by form.
A task below chance has wrong keys, or options that mislead by their form; a model that merely does not know is at
chance.

`no question` is a fault beyond `CLEAR` standard errors of independent guesses, in either direction. With ten categories
and a sound probe, one check in twenty finds a category by accident. `below chance` is a fault at a q-value of at most
`FALSE_SHARE`: the exact probability of so few right guesses, adjusted for the number of tasks and categories
(Benjamini and Hochberg 1995). Twenty items of four options are too few among a hundred such groups.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import false_discovery_control

from forgetwatch import Item, Probe, Snapshot, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.metrics.choices import UNITS, normalise
from forgetwatch.metrics.known import TAU
from forgetwatch.probes.checking import (
    CLEAR,
    Finding,
    _chance,
    _finding,
    _standard_errors,
    _unchecked,
)

Answered = tuple[Item, Mapping[str, Any]]
"""An item with options, and its scored row of a snapshot."""

FALSE_SHARE: Final = 0.05
"""Largest q-value at which a task or category counts as below chance."""

_FEWEST: Final = 10
"""Items of a category below which its accuracy is not compared with chance."""

_MASS: Final = 0.001
"""Median option mass below which what decides is far from what the model would write."""

_SURE: Final = 0.5
"""Share of wrong answers among confident ones from which confidence means nothing."""


def without_questions(probe: Probe) -> Probe:
    """Return the items with options, each without its question, to be scored; the others are left out.

    Of a prompt the last line is left if it is a request for the answer ("Answer:"), else nothing. Options that are
    listed for their letters stay listed.

    Raises:
        ProbeError: If no item has options.
    """
    items = [
        replace(item, prompt=_ending(item), shots="", system=None)
        for item in probe
        if len(item.choices) > 1
    ]
    if not items:
        raise ProbeError(
            f"probe {probe.name!r} has no item with options, and a check by a model needs some"
        )
    scoring = "loglikelihood" if probe.scoring == "generate" else probe.scoring
    return replace(probe, items=tuple(items), scoring=scoring, decoding=None)


def _ending(item: Item) -> Any:
    """Return the last line of a prompt if it is short and ends with a colon, with its line break; else nothing."""
    text = item.prompt if isinstance(item.prompt, str) else ""
    line = text.rpartition("\n")[2]
    ending = line if line.rstrip().endswith(":") and len(line) <= 40 and line != text else ""
    return ending if isinstance(item.prompt, str) else ({"role": "user", "content": ending},)


def check_answers(probe: Probe, answered: Snapshot, no_question: Snapshot) -> list[Finding]:
    """Return the result of every check of a model's answers, including those that found nothing.

    Args:
        probe: The probe.
        answered: Outcomes of a model on the probe.
        no_question: Its outcomes on `without_questions` of the probe.
    """
    items = {(item.task, item.id): item for item in probe if len(item.choices) > 1}
    scored, without = (
        [
            (items[key], row)
            for row in snapshot.table.to_pylist()
            if (key := (row["task"], row["item_id"])) in items
            and row.get("choice_logprobs") is not None
            and not row.get("sample")  # of several samples the first
        ]
        for snapshot in (answered, no_question)
    )
    return [
        _no_question(without),
        _below_chance(scored),
        _mass(scored),
        _sure(scored, answered.norms),
    ]


def _is_right(answered: Answered) -> bool:
    # Of a generated answer with options, the scored options decide here.
    scored = answered[1].get("forced_correct")
    return bool(answered[1]["correct"] if scored is None else scored)


def _distance(group: Sequence[Answered]) -> float:
    """Return (right answers - expected by chance) in standard errors of independent guesses."""
    return _standard_errors(sum(map(_is_right, group)), [item for item, _ in group])


def _no_question(answered: Sequence[Answered]) -> Finding:
    if not answered:
        return _unchecked("no question")
    groups: dict[str, list[Answered]] = {"over all": list(answered)}
    for one in answered:
        groups.setdefault(one[0].category or "no category", []).append(one)
    large = {
        name: group for name, group in groups.items() if name == "over all" or len(group) >= _FEWEST
    }
    far = {
        name: distance for name, group in large.items() if abs(distance := _distance(group)) > CLEAR
    }
    right = [one[0] for one in answered if _is_right(one)]
    chance = sum(_chance(item) for item, _ in answered) / len(answered)
    about = f"right in {100 * len(right) / len(answered):.1f} % without the question (chance {100 * chance:.1f} %)"
    if far:
        about += "; " + ", ".join(
            f"{group} {distance:+.1f} standard errors" for group, distance in far.items()
        )
    return _finding("no question", right, len(answered), about, wrong=bool(far))


def _below_chance(answered: Sequence[Answered]) -> Finding:
    if not answered:
        return _unchecked("below chance")
    groups = _tasks_and_categories(answered)
    chances = [np.array([_chance(item) for item, _ in group]) for group in groups.values()]
    right = [sum(map(_is_right, group)) for group in groups.values()]
    q_values = false_discovery_control(
        [_at_most(*pair) for pair in zip(right, chances, strict=True)]
    )
    below = {group: float(q) for group, q in zip(groups, q_values, strict=True) if q <= FALSE_SHARE}
    # Alone: its p-value with every answer wrong would still count after the adjustment.
    able = sum(bool(np.prod(1 - each) * len(groups) <= FALSE_SHARE) for each in chances)
    size = f"{able} of {len(groups)} tasks and categories have enough items to show it alone"
    lowest_first = sorted(below, key=lambda group: below[group])
    listed = [
        f"{group} {_distance(groups[group]):.1f} standard errors (q {below[group]:.1g})"
        for group in lowest_first
    ]
    about = f"answered worse than a guess: {', '.join(listed)}"
    about = about if below else "no task or category is answered worse than a guess"
    found = {(item.task, item.id) for group in below for item, _ in groups[group]}
    items = [item for item, _ in answered if (item.task, item.id) in found]
    return _finding("below chance", items, len(answered), f"{about}; {size}")


def _tasks_and_categories(answered: Iterable[Answered]) -> dict[str, list[Answered]]:
    tasks: dict[str, list[Answered]] = {}
    categories: dict[str, list[Answered]] = {}
    for one in answered:
        tasks.setdefault(one[0].task, []).append(one)
        if category := one[0].category:
            categories.setdefault(f"category {category}", []).append(one)
    known = list(tasks.values())
    return tasks | {name: group for name, group in categories.items() if group not in known}


def _at_most(right: int, chances: NDArray[np.float64]) -> float:
    """Return the probability of at most so many right guesses, where each has its own chance."""
    probabilities = np.ones(1)
    for chance in chances:
        probabilities = np.convolve(probabilities, (1 - chance, chance))
    return min(1.0, float(probabilities[: right + 1].sum()))


def _mass(answered: Sequence[Answered]) -> Finding:
    masses = [
        (item, float(mass))
        for item, row in answered
        if (mass := row.get("option_mass")) is not None
    ]
    if not masses:
        return _unchecked("option mass")
    median = float(np.median([mass for _, mass in masses]))
    found = [item for item, mass in masses if mass < _MASS]
    about = f"the options hold {median:.2g} of the probability in the median; below {_MASS:g} the form decides"
    return _finding("option mass", found, len(masses), about, wrong=median < _MASS)


def _sure(answered: Sequence[Answered], norms: Mapping[str, str]) -> Finding:
    sure = [one for one in answered if _largest_share(one[1], norms.get(one[0].task, "sum")) >= TAU]
    wrong = [one[0] for one in sure if not _is_right(one)]
    share = f"{100 * len(wrong) / len(sure):.0f} %" if sure else "none"
    about = f"of the answers with at least {TAU:g} of the options' probability {share} are wrong"
    # Fewer than a handful of confident answers show nothing.
    is_fault = len(sure) >= _FEWEST and len(wrong) > _SURE * len(sure)
    return _finding("sure and wrong", wrong, len(sure), about, wrong=is_fault)


def _largest_share(row: Mapping[str, Any], norm: str) -> float:
    """Return the largest share of one option in the softmax of the scores that decide; 0 where they are not known."""
    logprobs, priors = np.array(row["choice_logprobs"], float), row.get("choice_priors")
    units = {
        unit: np.array(row[f"choice_{unit}"])
        for unit, _ in UNITS.values()
        if row.get(f"choice_{unit}") is not None
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


def answered(model: str, probe: Probe) -> list[Finding]:
    """Let a model answer a probe with and without its questions, and return the result of every check."""
    from forgetwatch.scoring.model_loading import load_model
    from forgetwatch.scoring.scorer import Scorer

    loaded, tokenizer = load_model(model)
    generated = {(item.task, item.id) for item in probe if probe.is_generated(item)}
    made = [
        Scorer(items, tokenizer, loaded, left_out=generated).score(loaded, name=model)
        for items in (probe, without_questions(probe))
    ]
    return check_answers(probe, *made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("model")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    for finding in answered(given.model, load_probe(given.probe, limit=given.limit)):
        mark, found = "!" if finding.wrong else " ", f"{len(finding.items):,} of {finding.of:,}"
        print(f"{mark} {finding.name:<15} {found}: {finding.about}")


if __name__ == "__main__":
    main()
