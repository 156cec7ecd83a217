"""How a value of a table becomes an outcome: its word, its scale and sign, the threshold of right, runs that broke.

    0.7                        a score from 0 to 1: right from 0.5 on, or as `threshold` says
    7, of a scale from 0 to 10 only where `scale` names the scale
    pass, C, resolved          1;   fail, I, N, unresolved   0;   P, partial   0.5
    skipped, error             unscored

A value outside 0 to 1 is refused, and never guessed: -1 may be a wrong answer of a scale from -1 to
1, or no answer at all.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from forgetwatch.errors import SnapshotError
from forgetwatch.metrics.transitions import Floats

WORDS: Final = {
    **dict.fromkeys(
        ["true", "yes", "y", "pass", "passed", "correct", "c", "success", "succeeded", "resolved"],
        1.0,
    ),
    **dict.fromkeys(
        ["false", "no", "fail", "failed", "incorrect", "i", "n", "failure", "wrong", "unresolved"],
        0.0,
    ),
    **dict.fromkeys(("p", "partial", "partially correct", "partially_correct"), 0.5),
    **dict.fromkeys(("", "nan", "none", "null", "n/a", "skip", "skipped", "error"), math.nan),
}
"""Score of each word, in lower case; nan is unscored."""

_CONDITION: Final = re.compile(r"(?:score)?([<>])(=?)(-?\d+(?:\.\d+)?)")
_BROKEN: Final = {
    name: {"error", "infrastructure_error"} for name in ("status", "termination_reason")
}
"""Values of usual fields that say that a run broke: it is unscored."""

_CUT: Final = {name: {"length", "max_tokens"} for name in ("stop_reason", "finish_reason")}
"""Values of usual fields that say that an answer was cut: it counts as it was graded."""


def number_of(value: Any, *, sums: bool = False) -> float:
    """Number that a value of a table stands for; nan where there is none.

    >>> number_of("P"), number_of(True), number_of("0.25"), number_of([0, 0, 1], sums=True)
    (0.5, 1.0, 0.25, 1.0)

    Args:
        value: A number, a truth value, a word of `WORDS`, a number as text, or None.
        sums: True to take the sum of a list, as of rewards by token.

    Raises:
        ValueError: For text that is none of these.
        TypeError: For a value of another type.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        # Python would read 4_0 as 40.
        return WORDS[word] if word in WORDS else float(word.replace("_", "?"))
    if sums and isinstance(value, list) and value:
        return sum(map(number_of, value))
    return math.nan if value is None else float(value)


@dataclass(frozen=True, kw_only=True)
class OutcomeRule:
    """How the outcomes of a file are read.

    Attributes:
        threshold: Score from which on an answer is right, on the scale of the file; None for the
            middle of the scale.
        strict: True where the threshold itself is wrong.
        scale: Lowest and highest score.
        lower_is_better: True where a high value is bad, as with attacks that succeeded.
        unscored_if: (field, value) of the rows that have no outcome, such as ``("status",
            "error")``.

    Raises:
        SnapshotError: If the scale does not rise.
    """

    threshold: float | None = None
    strict: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    lower_is_better: bool = False
    unscored_if: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.scale[0] < self.scale[1]:
            raise SnapshotError(f"scale: needed the lower end first, got {self.scale}")

    @property
    def right_if(self) -> str:
        """Scores that count as right, as ``score>=0.5``."""
        sign = ("<" if self.lower_is_better else ">") + "=" * (not self.strict)
        return f"score{sign}{sum(self.scale) / 2 if self.threshold is None else self.threshold:g}"

    @property
    def meta(self) -> dict[str, Any]:
        """What a snapshot with scores stores of the rule."""
        return {
            "right_if": self.right_if,
            "scale": list(self.scale),
            "lower_is_better": self.lower_is_better,
        }

    def scores(self, values: Floats, name: str) -> Floats:
        """Scores of some values, 0 to 1 and higher for better, float64 [rows].

        Raises:
            SnapshotError: If a value is outside the scale.
        """
        (low, high), scored = self.scale, values[~np.isnan(values)]
        if scored.size and not low <= scored.min() <= scored.max() <= high:
            remedy = "give the lowest and the highest possible one, as --scale 0,10"
            if {-1.0} < set(scored) <= {-1.0, 0.0, 1.0}:
                remedy = "--scale -1,1 reads -1 as wrong and 0 as half right"
            raise SnapshotError(
                f"{name} has values from {scored.min():g} to {scored.max():g}; needed {low:g} to "
                f"{high:g}: {remedy} (compare, flips and convert)"
            )
        scores = (values - low) / (high - low)
        return 1 - scores if self.lower_is_better else scores

    def is_right(self, scores: Floats) -> Floats:
        """Outcome of some scores from 0 to 1: 1, 0, or nan without one, float64 [rows]."""
        end, at = np.array([sum(self.scale) / 2]), self.threshold
        limit = self.scores(end if at is None else np.array([at]), "the threshold")
        # Rounded, so that .7 of 10 is not below 7.
        above = np.round(scores - limit, 9)
        return np.where(np.isnan(scores), np.nan, above > 0 if self.strict else above >= 0)

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of a row that may say that it has no outcome, or was cut."""
        return tuple(dict.fromkeys((*dict(self.unscored_if), *_BROKEN, *_CUT)))

    def unscored_reason(self, row: Mapping[str, Any]) -> str:
        """Reason why a row has no outcome, as ``status=error``; empty if it has one."""
        given = ((name, {value.lower()}) for name, value in self.unscored_if)
        return _field_of(row, (*given, *_BROKEN.items()))


UPPER_HALF: Final = OutcomeRule()
"""Scores from 0 to 1, right from 0.5 on."""


def threshold_of(condition: str, *, lower_is_better: bool) -> dict[str, Any]:
    """Threshold of a condition, as arguments of `OutcomeRule`.

    >>> threshold_of("score > 0.7", lower_is_better=False)
    {'threshold': 0.7, 'strict': True}

    Raises:
        ValueError: If it is not ``score>=NUMBER``, or ``score<=NUMBER`` where lower is better.
    """
    match = _CONDITION.fullmatch(condition.replace(" ", ""))
    if match is None or (match[1] == "<") != lower_is_better:
        needed = "score<=NUMBER (--lower-is-better)" if lower_is_better else "score>=NUMBER"
        raise ValueError(f"needed {needed}, got {condition!r}")
    return {"threshold": float(match[3]), "strict": not match[2]}


def cut_reason(row: Mapping[str, Any]) -> str:
    """Field and value that say that an answer was cut, as ``stop_reason=length``; empty for none."""
    return _field_of(row, _CUT.items())


def _field_of(row: Mapping[str, Any], conditions: Any) -> str:
    for name, values in conditions:
        if (value := str(row.get(name)).strip().lower()) in values:
            return f"{name}={value}"
    return ""
