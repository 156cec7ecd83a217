"""What forgetting goes with over the pairs of a study, and the findings of arXiv 2510.17776.

    pairs ─▶ covariates ─▶ slopes within stages, then with the others held ─▶ a sentence, or "cannot
    tell"

A covariate is a number or a word that the file gives each pair: its stage, its size, its data, and
whatever stands under `covariates`. Numbers that span a factor of ten or more, and size and data,
count by their logarithm. A word is compared with the most frequent one, as is a stage. The model
family is the unit (`metrics.trend`); without one the base is.

Every slope but that of a stage holds the stage: the small models of a study may be those that were
trained another way, which would look like an effect of size. A slope is told if its p-value times
the number of slopes, of all covariates and both rates, is below .05; the intervals are those of
this rule.

The abstract of the paper says small, low, moderate and large, and gives no numbers. Here small and
low are below 5 %, moderate is 5 to 15 %, large is above, and a merge takes off less than 1 point
unless it mitigates forgetting. These bounds are of this module, not of the paper. A finding is
supported if the 95 % intervals over families lie where it says, contradicted if one lies elsewhere,
and else cannot be told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.trend import Slope, family_mean, family_slopes
from forgetwatch.study.pairs import RATES, Compared, Rate, Study
from forgetwatch.study.plan import Kind, Pair
from forgetwatch.text import between, count, percent, points

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Answer = Literal["supported", "contradicted", "cannot tell here"]

SMALL: Final = 0.05
LARGE: Final = 0.15
LESS: Final = 0.01
"""Share of the questions by which a merge must forget less than the training to count as less."""
LITTLE_DATA: Final = 1e4
"""Rows of training data up to which a scale counts as small; the paper's small sets have about a thousand."""

STAGE: Final = "stage"
"""Name of the covariate that all others hold."""

TENFOLD: Final = "tenfold"
"""Unit of what counts by its logarithm."""
_RANGE: Final = 10.0
_SKILLS: Final = ("math", "logic")


@dataclass(frozen=True, kw_only=True)
class Trend:
    """How a rate goes with one covariate.

    Attributes:
        rate: Forgetting or backward transfer, the chance-adjusted totals of the tables.
        covariate: Its name; of a word with the words compared, such as ``method: DPO against SFT``.
        unit: What one step of it is: ``tenfold``, ``unit``, or empty for a word.
        alone: The slope within stages, without other covariates, as a fraction.
        held: The slope with all other covariates held; None if there is no other.
        pairs: Number of pairs that have it.
        families: Number of their families.
        held_pairs: Number of pairs that have all covariates.
        questions: Number of slopes of the study, which share one error.
    """

    rate: Rate
    covariate: str
    unit: str
    alone: Slope
    held: Slope | None
    pairs: int
    families: int
    held_pairs: int
    questions: int

    @property
    def interval(self) -> Interval:
        """Interval of the slope within stages.

        At the level that the questions share.
        """
        return self.alone.interval_of(self.questions)

    @property
    def seen(self) -> float:
        """Change that 80 of 100 such studies would show.

        nan without an error.
        """
        return self.alone.seen(self.questions)

    def __str__(self) -> str:
        of = _of(self.pairs, self.families)
        low, high = self.interval
        per = f" per {self.unit}" if self.unit else ""
        if math.isnan(low):
            return f"{self.rate} and {self.covariate}: cannot tell; {of} give no interval, or one family alone differs"
        if low <= 0 <= high and self.seen > 1:
            return f"{self.rate} and {self.covariate}: cannot tell; {of} are too few to show any change"
        value = f"{points(self.alone.slope)} points{per} ({between((low, high), points)})"
        if low <= 0 <= high:
            seen = f"{of} would show {points(self.seen).lstrip('+')} points or more in 80 of 100 such studies"
            return f"{self.rate} and {self.covariate}: cannot tell, {value}; {seen}"
        sentence = f"{self.rate} {'rises' if self.alone.slope > 0 else 'falls'} with {self.covariate}: {value}; {of}"
        start, end = (1.0, 1.0) if self.held is None else self.held.interval_of(self.questions)
        if start > 0 or end < 0:
            return sentence
        none = "no interval" if math.isnan(start) else "cannot tell"
        return f"{sentence}; with the others held, over {count(self.held_pairs)} pairs: {none}"


def _of(pairs: int, families: int) -> str:
    of_families = "one family" if families == 1 else f"{count(families)} families"
    return f"{'one pair' if pairs == 1 else f'{count(pairs)} pairs'} of {of_families}"


def trends(study: Study) -> list[Trend]:
    """Trends of both rates over each covariate.

    At least two pairs differ in the covariate.
    """
    found_trends = [trend for rate in RATES for trend in _trends_of(study, rate)]
    return [replace(trend, questions=len(found_trends)) for trend in found_trends]


def _trends_of(study: Study, rate: Rate) -> list[Trend]:
    pairs = [pair for pair in study.compared if math.isfinite(pair.unclipped(rate))]
    outcome = np.array([pair.unclipped(rate) for pair in pairs])
    families = (
        np.unique([pair.pair.family for pair in pairs], return_inverse=True)[1]
        if pairs
        else np.empty(0, int)
    )
    covariates = _covariates([pair.pair for pair in pairs])
    columns = {
        name: values for covariate in covariates for name, values in covariate.columns.items()
    }
    stages = [covariate for covariate in covariates if covariate.name == STAGE]
    every_stage = (
        np.flatnonzero(np.isfinite([*columns.values()]).all(axis=0))
        if columns
        else np.empty(0, int)
    )
    together = _slopes(outcome, covariates, families, every_stage)
    found_trends = []
    for covariate in covariates:
        # The words of one covariate are fitted together, each against the most frequent.
        finite = np.flatnonzero(np.isfinite(next(iter(covariate.columns.values()))))
        alone = _slopes(
            outcome,
            [covariate] if covariate.name == STAGE else [*stages, covariate],
            families,
            finite,
        )
        has_others = any(other.name not in (STAGE, covariate.name) for other in covariates)
        found_trends += [
            Trend(
                rate=rate,
                covariate=name,
                unit=covariate.unit,
                alone=alone.get(name, _UNKNOWN),
                held=together.get(name, _UNKNOWN) if has_others else None,
                pairs=len(finite),
                families=len(np.unique(families[finite])),
                held_pairs=len(every_stage),
                questions=1,
            )
            for name in covariate.columns
        ]
    return found_trends


_UNKNOWN: Final = Slope(slope=math.nan, error=math.nan, degrees=0.0)


def _slopes(
    outcome: Floats, covariates: Sequence[_Covariate], families: Ints, rows: Ints
) -> dict[str, Slope]:
    # Where none has the word that the others are compared with, these are held by another one, and
    # have no slope.
    columns: dict[str, Floats] = {}
    held: set[str] = set()
    for covariate in covariates:
        own_columns = {
            name: values[rows]
            for name, values in covariate.columns.items()
            if covariate.unit or values[rows].any()
        }
        if own_columns and not covariate.unit and np.any([*own_columns.values()], axis=0).all():
            own_columns.pop(next(iter(own_columns)))
            held |= own_columns.keys()
        columns |= own_columns
    slopes = family_slopes(outcome[rows], columns, families[rows])
    return {name: slope for name, slope in slopes.items() if name not in held}


def not_asked(study: Study) -> list[str]:
    """Sentences on covariates without a test, and unnamed families."""
    pairs = [result.pair for result in study.compared]
    tested = {covariate.name for covariate in _covariates(pairs)}
    sentences = []
    for name in dict.fromkeys(name for pair in pairs for name in pair.covariates):
        values = [pair.covariates[name] for pair in pairs if name in pair.covariates]
        finite = [value for value in values if value == value]  # nan is unknown
        if name not in tested:
            why = {0: "no pair has it", 1: "only one pair has it"}.get(
                len(finite), "the same in all pairs"
            )
            sentences.append(f"{name}: {why}; not asked")
    if tested and not any(pair.names_family for pair in pairs):
        sentences.append(
            "no pair names its family: pairs of one base count as one, and each other base as "
            "its own"
        )
    return sentences


class _Covariate(NamedTuple):
    """The columns of a covariate by name, nan where a pair lacks it: one of a number, one of each word but one."""

    name: str
    columns: Mapping[str, Floats]
    unit: str


def scales(study: Study) -> dict[str, bool]:
    """Covariates that are numbers; True on a logarithmic scale."""
    return {
        covariate.name: covariate.unit == TENFOLD
        for covariate in _covariates([result.pair for result in study.compared])
        if covariate.unit
    }


def _covariates(pairs: Sequence[Pair]) -> list[_Covariate]:
    # A covariate counts if at least two pairs differ in it.
    dictionaries = [
        {STAGE: pair.stage, "size": pair.size, "data": pair.data, **pair.covariates}
        for pair in pairs
    ]
    covariates = []
    for name in dict.fromkeys(name for dictionary in dictionaries for name in dictionary):
        values = [
            None if dictionary.get(name) != dictionary.get(name) else dictionary.get(name)
            for dictionary in dictionaries
        ]  # nan is unknown
        values_known = [value for value in values if value is not None]
        if len(set(values_known)) < 2:
            continue
        if all(isinstance(value, float) for value in values_known):
            numbers = np.array([math.nan if value is None else float(value) for value in values])
            covariates.append(_Covariate(name, *_number_column(name, numbers)))
            continue
        words = Counter(map(str, values_known))
        usual, *less_usual = sorted(words, key=lambda word: (-words[word], word))
        columns = {
            f"{name}: {word} against {usual}": np.array(
                [math.nan if value is None else float(str(value) == word) for value in values]
            )
            for word in less_usual
        }
        covariates.append(_Covariate(name, columns, ""))
    return covariates


def _number_column(name: str, numbers: Floats) -> tuple[dict[str, Floats], str]:
    # In steps that a reader can use, and the unit of one step.
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if low > 0 and (name in ("size", "data") or high / low >= _RANGE):
        return {name: np.log10(numbers)}, TENFOLD
    # The largest power of ten within the range: a slope per unit of a number in the thousands would
    # be 0.0.
    step = 10.0 ** math.floor(math.log10(high - low) + 1e-9)
    return {name: numbers / step}, "unit" if step == 1 else f"{step:,g}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of the paper, asked of this study.

    Attributes:
        number: Its number in the paper's abstract.
        claim: What it says, in our words and bounds.
        answer: Whether this study supports it.
        numbers: The numbers that say so.
    """

    number: int
    claim: str
    answer: Answer
    numbers: str


def findings(study: Study) -> list[Finding]:
    """Findings of the paper, with their answers here."""
    kinds: dict[Kind, list[Compared]] = {}
    for result in study.compared:
        if result.pair.kind is not None:
            kinds.setdefault(result.pair.kind, []).append(result)
    domain, base, instruct = (
        kinds.get(stage_kind, [])
        for stage_kind in ("continual-pretraining", "from-base", "from-instruct")
    )
    little = [
        little_trained
        for little_trained in instruct
        if little_trained.pair.data is not None and little_trained.pair.data <= LITTLE_DATA
    ]
    low, high, less = (f"{100 * bound:g}" for bound in (SMALL, LARGE, LESS))
    return [
        _asked(
            1,
            f"continual pretraining on a domain forgets {low} to {high} % and gains at most "
            f"{high} %",
            [
                ("forgetting", _mean_rate(domain, "forgetting"), (SMALL, LARGE)),
                ("backward transfer", _mean_rate(domain, "backward transfer"), (-math.inf, LARGE)),
            ],
            "stages of kind continual-pretraining",
        ),
        _asked(
            2,
            f"post-training of base models gains more than {low} % in math and logic and "
            f"forgets at most {high} %",
            [
                (
                    "backward transfer in math and logic",
                    _mean([(_skills(pair), pair.pair.family) for pair in base]),
                    (SMALL, math.inf),
                ),
                ("forgetting", _mean_rate(base, "forgetting"), (-math.inf, LARGE)),
            ],
            "stages of kind from-base, with categories that name math or logic",
        ),
        _asked(
            3,
            f"post-training of instruct models on up to {count(LITTLE_DATA)} rows forgets and "
            f"gains up to {low} %",
            [
                ("forgetting", _mean_rate(little, "forgetting"), (-math.inf, SMALL)),
                ("backward transfer", _mean_rate(little, "backward transfer"), (-math.inf, SMALL)),
            ],
            "stages of kind from-instruct, whose pairs give their data",
        ),
        _asked(
            4,
            f"a merge of both ends of a training does not reliably take more than {less} point "
            "off its forgetting",
            [
                (
                    "forgetting of the merge less that of the training",
                    _mean(_merges(study)),
                    (-LESS, math.inf),
                )
            ],
            "a merge of A and B after A, and the pair of A and B",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class _Mean:
    value: float
    interval: Interval
    pairs: int
    families: int


def _mean_rate(pairs: Sequence[Compared], rate: Rate) -> _Mean | None:
    return _mean([(pair.total(rate).rate.mean, pair.pair.family) for pair in pairs])


def _mean(values: Sequence[tuple[float, str]]) -> _Mean | None:
    # The interval is over families; None for no value.
    finite = [(value, family) for value, family in values if math.isfinite(value)]
    if not finite:
        return None
    families = [family for _, family in finite]
    codes = np.unique(families, return_inverse=True)[1]
    level = family_mean(np.array([value for value, _ in finite]), codes)
    return _Mean(
        value=level.slope, interval=level.interval, pairs=len(finite), families=len(set(families))
    )


def _skills(pair: Compared) -> float:
    # In the categories that name math or logic; nan without one.
    of_categories = pair.values("backward transfer").items()
    rates = [
        value.rate.mean
        for name, value in of_categories
        if any(word in name.lower() for word in _SKILLS)
    ]
    return float(np.mean(rates)) if rates else math.nan


def _merges(study: Study) -> list[tuple[float, str]]:
    # What each merge forgets less what the training between the merged models forgets.
    single = [
        single_samples
        for single_samples in study.compared
        if len(single_samples.pair.before) == len(single_samples.pair.after) == 1
    ]
    differences = []
    for merged_pair in single:
        (before,), (merged,) = merged_pair.pair.before, merged_pair.pair.after
        for trained in single if merged.merge is not None else ():
            tuned = trained.pair.after[0]
            ends = {before.location, tuned.location}
            scored = [(side.probe, side.decoding, side.rendering) for side in (merged, tuned)]
            if (
                trained.pair.before == (before,)
                and ends == set(merged.merge or ())
                and scored[0] == scored[1]
            ):
                change = (
                    merged_pair.total("forgetting").rate.mean
                    - trained.total("forgetting").rate.mean
                )
                differences.append((change, merged_pair.pair.family))
                break
    return differences


def _asked(
    number: int, claim: str, legs: Sequence[tuple[str, _Mean | None, Interval]], needs: str
) -> Finding:
    # Whether each mean lies between its bounds.
    numbers: list[str] = []
    answers: list[Answer] = []
    for name, mean, (low, high) in legs:
        if mean is None:
            numbers.append(f"{name}: not in this study")
            answers.append("cannot tell here")
            continue
        start, end = mean.interval
        of = _of(mean.pairs, mean.families)
        interval = "" if math.isnan(start) else f" ({between((start, end), percent)})"
        numbers.append(f"{name} {percent(mean.value)} %{interval}, {of}")
        inside, outside = low <= start and end <= high, end < low or start > high
        answers.append("supported" if inside else "contradicted" if outside else "cannot tell here")
    if all(mean is None for _, mean, _ in legs):
        numbers = [f"needs {needs}"]
    answer: Answer = "supported" if set(answers) == {"supported"} else "cannot tell here"
    return Finding(
        number=number,
        claim=claim,
        answer="contradicted" if "contradicted" in answers else answer,
        numbers="; ".join(numbers),
    )
