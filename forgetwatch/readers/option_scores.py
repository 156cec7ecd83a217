"""Log-likelihoods of options, as a harness logs them, to the columns of a snapshot.

A harness that logs the log-likelihood of each option, and whether the answer was right, need not log which option it
chose, nor always which one is right; both follow (`choices.py`). The score that decides goes by the metric:

    sum             log-likelihood
    chars, bytes    log-likelihood over the option's length
    unconditional   log-likelihood minus that without the prompt

A few items whose scores contradict what was logged are counted. Many of them in a task show that it was judged in
another way: then no choice is known.

Scores of options, and what was logged as right or wrong, to the choice, its clearness, and the right option.

    scores     right   golds          chosen   gold
    -2 -1 -3   yes     not known      1        1        the choice was right
    -2 -1      no      not known      1        0        the other of two
    -2 -1 -3   no      0              1        0
    -2 -1 -3   no      1              0        1        contradicts: the best option that is not right, no margin

What was logged as right or wrong stands. numpy only; all arrays have one row per item, items of equal k together.

What a log names as right among an item's options: an index, several, a letter, or the text of an option.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax

from forgetwatch.snapshot import NONE

Norm = Literal["sum", "chars", "bytes", "unconditional"]

_MOST_AGAINST: Final = 0.01
"""Share of a task's judged items that may contradict their scores before the scores are not what decided."""


class LogLikelihoods:
    """The options of a log's rows, gathered one by one, in the order of the rows."""

    def __init__(self) -> None:
        self._row, self._k = array("q"), array("q")
        self._logprobs, self._priors = array("d"), array("d")  # option by option, as are the lengths
        self._chars, self._bytes = array("i"), array("i")
        self._has_lengths, self._has_priors = array("b"), array("b")
        self._by_index, self._by_text = array("q"), array("q")
        self._several: dict[int, list[int]] = {}

    def add(
        self,
        row: int,
        *,
        logprobs: Sequence[float],
        priors: Sequence[float],
        texts: Sequence[str] | None,
        target: object,
    ) -> None:
        """Add one row.

        Args:
            row: Its number in the log.
            logprobs: Log-likelihood of each option, nats; nan where the log holds no number.
            priors: The same without the prompt; empty where it was not asked for.
            texts: The options as they were scored, without the delimiter; None where they are not known.
            target: What the log names as right.
        """
        k = len(logprobs)
        known = [""] * k if texts is None else texts
        golds, by_text = read_target(target, k, texts)
        if len(golds) > 1:
            self._several[len(self._row)] = golds
        self._row.append(row)
        self._k.append(k)
        self._logprobs.extend(logprobs)
        self._priors.extend(priors or [math.nan] * k)
        self._chars.extend([len(text) for text in known])
        self._bytes.extend(
            [len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in known]
        )
        self._has_lengths.append(texts is not None)
        self._has_priors.append(bool(priors))
        self._by_index.append(golds[0] if golds else NONE)
        self._by_text.append(by_text)

    @property
    def rows(self) -> Ints:
        """The rows of the log that have options, int64 [rows with options]."""
        return np.array(self._row, np.int64)

    def columns(
        self, *, right: Judged, tasks: Ints, norms: Sequence[Norm]
    ) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
        """The columns of a snapshot that follow, and what the reader should be told.

        Args:
            right: What was logged of each row of the log.
            tasks: The number of each row's task.
            norms: The score that decides in each task.
        """
        found = _Found(len(self._row))
        of_row = tasks[np.asarray(self._row)] if self._row else tasks[:0]
        for code, norm in enumerate(norms):
            if (at := np.flatnonzero(of_row == code)).size:
                self._settle_task(found, at, right[np.asarray(self._row)[at]], norm)
        return (self._columns(found, len(right)) if self._row else {}), found.notes()

    def _settle_task(self, found: _Found, at: Ints, right: Judged, norm: Norm) -> None:
        """Fill in the rows `at` of one task."""
        k = np.asarray(self._k)
        starts = np.cumsum(k) - k
        best = np.full(len(at), NONE)
        blocks = []
        for options in np.unique(k[at]).tolist():
            inside = np.flatnonzero(k[at] == options)
            scores = self._scores(at[inside], starts[at[inside]][:, None] + np.arange(options), norm)
            best[inside] = best_option(scores)
            blocks.append((inside, scores))
        gold = first_gold(np.asarray(self._by_index)[at], np.asarray(self._by_text)[at], best, right)
        settled = []
        for inside, scores in blocks:
            golds = gold[inside][:, None] == np.arange(scores.shape[1])
            for row, one in enumerate(at[inside].tolist() if self._several else ()):
                golds[row, self._several.get(one, [])] = True
            settled.append((at[inside], settle(scores, golds, right[inside])))
        against = sum(int(choices.against.sum()) for _, choices in settled)
        decides = against <= _MOST_AGAINST * int(((best != NONE) & (right >= 0)).sum())
        for rows, choices in settled:
            found.fill(rows, choices, decides=decides)

    def _scores(self, at: Ints, cells: Ints, norm: Norm) -> Floats:
        """The score of each option, nats, nan where it is not known [rows, k]; `cells` are the places of its parts."""
        logprobs = np.array(self._logprobs, np.float64)[cells]
        if norm == "unconditional":
            return logprobs - np.array(self._priors, np.float64)[cells]
        if norm == "sum":
            return logprobs
        lengths = np.array(self._chars if norm == "chars" else self._bytes, np.float64)[cells]
        lengths[np.asarray(self._has_lengths)[at] == 0] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            scores: Floats = logprobs / lengths * lengths.mean(axis=1, keepdims=True)  # in nats again
        return scores

    def _columns(self, found: _Found, rows: int) -> dict[str, pa.Array]:
        place, k = np.asarray(self._row), np.asarray(self._k)
        readable = ~np.isnan(np.add.reduceat(np.asarray(self._logprobs), np.cumsum(k) - k))
        has_lengths, has_priors = np.asarray(self._has_lengths, bool), np.asarray(self._has_priors, bool)

        def spread(values: Any, there: Bools) -> pa.Array:
            whole, absent = np.zeros(rows, np.asarray(values).dtype), np.ones(rows, bool)
            whole[place], absent[place] = values, ~there
            return pa.array(whole, mask=absent)

        def lists(values: array[Any], there: Bools) -> pa.Array:
            length, absent = np.zeros(rows, np.int64), np.ones(rows, bool)
            length[place[there]], absent[place[there]] = k[there], False
            offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
            kept = pa.array(np.asarray(values)[np.repeat(there, k)])
            return pa.ListArray.from_arrays(pa.array(offsets), kept, mask=pa.array(absent))

        columns = {
            "k": spread(k, np.ones(len(k), bool)),
            "gold": spread(found.gold, found.gold != NONE),
            "chosen": spread(found.chosen, found.chosen != NONE),
            "choice_logprobs": lists(self._logprobs, readable),
            "choice_chars": lists(self._chars, has_lengths),
            "choice_bytes": lists(self._bytes, has_lengths),
            "gold_share": spread(found.share, ~np.isnan(found.share)),
            "margin": spread(found.margin, ~np.isnan(found.margin)),
            "unstable": spread(found.tied, found.tied),
        }
        if has_priors.any():
            columns["choice_priors"] = lists(self._priors, has_priors)
        if self._several:
            golds: list[list[int] | None] = [None] * rows
            for one, named in self._several.items():
                golds[place[one]] = named
            columns["golds"] = pa.array(golds, pa.list_(pa.int32()))
        return columns


class _Found:
    """What follows for each row with options."""

    def __init__(self, rows: int) -> None:
        self.gold, self.chosen = np.full(rows, NONE), np.full(rows, NONE)
        self.share, self.margin = np.full(rows, np.nan), np.full(rows, np.nan)
        self.tied = np.zeros(rows, bool)
        self._against = self._undecided = 0

    def fill(self, rows: Ints, choices: Choices, *, decides: bool) -> None:
        """Take over what the scores of some rows say; of scores that did not decide only which option is right."""
        self.gold[rows] = np.where(choices.golds.any(axis=1), np.argmax(choices.golds, axis=1), NONE)
        if not decides:
            self._undecided += len(rows)
            return
        self.chosen[rows], self.share[rows], self.margin[rows] = choices.chosen, choices.share, choices.margin
        self.tied[rows] = choices.tied
        self._against += int(choices.against.sum())

    def notes(self) -> tuple[str, ...]:
        """What the reader should be told."""
        notes = []
        if ties := int(self.tied.sum()):
            notes.append(
                f"the two best options have equal scores in {ties:,} of {len(self.tied):,} items, as sums in bf16 "
                "have; the first of equals was taken, and a flip there may be rounding"
            )
        if self._against:
            notes.append(
                f"the logged log-likelihoods contradict right or wrong in {self._against:,} items; right or wrong "
                "stands, and the option chosen is the best that agrees with it"
            )
        if self._undecided:
            notes.append(f"which option was chosen does not follow from the log-likelihoods: {self._undecided:,} items")
        return tuple(notes)


Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Judged = NDArray[np.int8]
"""1 for right, 0 for wrong, -1 for not known."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the scores of some items say.

    Attributes:
        chosen: The option, -1 where it is not known, int64 [rows].
        golds: The right options, bool [rows, k].
        share: Share of the right options, 0 to 1; nan where it is not known [rows].
        margin: Best minus second, nats; nan where it is not known [rows].
        tied: Whether the two best are equal, bool [rows].
        against: Whether the scores contradict what was logged, bool [rows].
    """

    chosen: Ints
    golds: Bools
    share: Floats
    margin: Floats
    tied: Bools
    against: Bools


def best_option(scores: Floats) -> Ints:
    """The option with the highest score, the first of equals; -1 where a score is nan; int64 [rows]."""
    return np.where(np.isnan(scores).any(axis=1), NONE, np.argmax(scores, axis=1))


def first_gold(index: Ints, text: Ints, best: Ints, right: Judged) -> Ints:
    """The right option as the target names it, -1 for none, int64 [rows].

    A target such as "2" may be an index or an option's text. All are read in the way that fits more outcomes.

    Args:
        index: The option that the target names by index, -1 for none [rows].
        text: The option that it names by text, -1 for none [rows].
        best: The option with the highest score, -1 where it is not known [rows].
        right: What was logged [rows].
    """
    unlike = (index != NONE) & (text != NONE) & (index != text) & (best != NONE) & (right >= 0)
    fits_index, fits_text = (((best == gold) == (right == 1))[unlike].sum() for gold in (index, text))
    first, second = (text, index) if fits_text > fits_index else (index, text)
    return np.where(first != NONE, first, second)


def settle(scores: Floats, golds: Bools, right: Judged) -> Choices:
    """The choices that the scores and the logged outcomes agree on.

    Args:
        scores: The score that decides, nats, nan where it is not known [rows, k].
        golds: The right options as far as the log names them, bool [rows, k].
        right: What was logged [rows].
    """
    best, rows = best_option(scores), np.arange(len(scores))
    usable = best != NONE
    golds = golds.copy()
    silent = usable & ~golds.any(axis=1)
    golds[rows[silent & (right == 1)], best[silent & (right == 1)]] = True
    if scores.shape[1] == 2:
        golds[rows[silent & (right == 0)], 1 - best[silent & (right == 0)]] = True
    known = golds.any(axis=1)
    against = usable & known & (right >= 0) & (golds[rows, best] != (right == 1))
    fitting = np.where((golds == (right == 1)[:, None]) & usable[:, None], scores, -np.inf)
    second = np.where(np.isneginf(fitting).all(axis=1), NONE, np.argmax(fitting, axis=1))
    clear = usable & ~against
    margin, tied = np.full(len(scores), np.nan), np.zeros(len(scores), bool)
    if scores.shape[1] > 1:
        ordered = np.sort(scores, axis=1)
        finite = clear & np.isfinite(ordered[:, -2])
        margin[finite] = ordered[finite, -1] - ordered[finite, -2]
        tied = usable & (ordered[:, -1] == ordered[:, -2])
    share = np.full(len(scores), np.nan)
    shared = clear & known & np.isfinite(scores).any(axis=1)
    share[shared] = np.minimum((softmax(scores[shared], axis=1) * golds[shared]).sum(axis=1), 1.0)
    return Choices(
        chosen=np.where(against, second, best), golds=golds, share=share, margin=margin, tied=tied, against=against
    )


_SEVERAL: Final = re.compile(r"\[\s*[0-9]{1,6}(\s*,\s*[0-9]{1,6})*\s*\]")
_INDEX: Final = re.compile(r"[0-9]{1,6}")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_target(target: object, k: int, texts: Sequence[str] | None) -> tuple[list[int], int]:
    """The options that a target names by index; and the one that it names by letter or text, -1 for none.

    Digits may be an index or the text of an option; then both come back.

    Args:
        target: A whole number, a list of them, or text; anything else names none.
        k: Number of options.
        texts: The options, where they are known.

    >>> read_target("1", 3, ["3", "1", "2"]), read_target("Chile", 2, ["Peru", "Chile"]), read_target("B", 3, None)
    (([1], 1), ([], 1), ([], 1))
    >>> read_target([2, 0], 3, None), read_target("[0, 2]", 3, None), read_target(7, 3, None)
    (([0, 2], -1), ([0, 2], -1), ([], -1))
    """
    if isinstance(target, str) and not _SEVERAL.fullmatch(target):
        index = [int(target)] if _INDEX.fullmatch(target) and int(target) < k else []
        return index, _by_text(target.strip(), k, texts)
    named = [int(one) for one in _INDEX.findall(target)] if isinstance(target, str) else target
    listed: list[object] = named if isinstance(named, list) else [named]
    indices = [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]
    if len(indices) < len(listed):
        return [], NONE
    return sorted({one for one in indices if 0 <= one < k}), NONE


def _by_text(target: str, k: int, texts: Sequence[str] | None) -> int:
    same = [option for option, text in enumerate(texts or ()) if text.strip() == target]
    if len(same) == 1:
        return same[0]
    letter = _LETTERS.find(target) if len(target) == 1 else NONE
    return letter if letter < k else NONE
