"""Log-likelihoods of options, as a harness logs them, to the columns of a snapshot.

A harness that logs the log-likelihood of each option, and whether the answer was right, need not log which option it
chose, nor always which one is right; both follow (`choices.py`). The score that decides goes by the metric:

    sum             log-likelihood
    chars, bytes    log-likelihood over the option's length
    unconditional   log-likelihood minus that without the prompt

A few items whose scores contradict what was logged are counted. Many of them in a task show that it was judged in
another way: then no choice is known.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from forgetwatch.readers.choices import Bools, Choices, Floats, Ints, Judged, best_option, first_gold, settle
from forgetwatch.readers.targets import read_target
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
