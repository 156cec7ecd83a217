"""Log-likelihoods of options, as a harness logs them, to the columns of a snapshot.

A harness that logs the log-likelihood of each option, and whether the answer was right, need not
log the option chosen, nor always the right one. Both follow from the scores that decide
(`metrics.choices`) and the logged correctness:

    scores     correct   gold in the log   chosen   gold
    -2 -1 -3   yes       not known         1        1      the option chosen was right
    -2 -1      no        not known         1        0      the other of two
    -2 -1 -3   no        0                 1        0
    -2 -1 -3   no        1                 0        1      a contradiction: the best option that is not right

The logged correctness is never changed. A few rows whose scores contradict it are counted, and have
no margin. Many of them in a task show that its answers were compared by another score: then no
choice of the task is known.

A log names the right option by an index, several indices, a letter, or the option's text:
`target_options`.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.metrics.choices import decide, normalise, option_mask
from forgetwatch.snapshot import NONE

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Correct = NDArray[np.int8]
"""Logged correctness: 1 for right, 0 for wrong, -1 for not known."""

UNKNOWN: Final = math.inf
"""In place of a log-likelihood that a log does not have; none is infinite."""

_MAX_CONTRADICTIONS: Final = 0.01
"""Share of a task's scored rows above which the scores are not those that decided in it."""


class LogLikelihoods:
    """Options and log-likelihoods of a log's rows, collected one by one, in the order of the rows."""

    def __init__(self) -> None:
        self._row, self._k = array("q"), array("q")
        # Flat, option by option, row by row, as `metrics.choices` takes them.
        self._logprobs, self._priors = array("d"), array("d")
        self._chars, self._bytes = array("i"), array("i")
        self._has_lengths, self._has_priors = array("b"), array("b")
        self._by_index, self._by_text = array("q"), array("q")
        self._several_golds: dict[int, list[int]] = {}

    def add(
        self,
        row: int,
        *,
        logprobs: Sequence[float],
        priors: Sequence[float],
        texts: Sequence[str] | None,
        target: object,
    ) -> None:
        """Add the options of a row of the log.

        Args:
            row: Its index.
            logprobs: Log-likelihood of each option, nats; nan if the model gave that, `UNKNOWN` if
                the log has none.
            priors: The same without the prompt; empty if the log has none.
            texts: The options without leading space or delimiter; None if they are not known.
            target: The right option as the log names it.
        """
        k = len(logprobs)
        golds, by_text = target_options(target, k, texts)
        if len(golds) > 1:
            self._several_golds[len(self._row)] = golds
        self._row.append(row)
        self._k.append(k)
        self._logprobs.extend(logprobs)
        self._priors.extend(priors or [math.nan] * k)
        option_texts = [""] * k if texts is None else texts
        self._chars.extend([len(text) for text in option_texts])
        self._bytes.extend([byte_length(text) for text in option_texts])
        self._has_lengths.append(texts is not None)
        self._has_priors.append(bool(priors))
        self._by_index.append(golds[0] if golds else NONE)
        self._by_text.append(by_text)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def rows(self) -> Ints:
        """Rows of the log with options, int64 [rows with options]."""
        return np.array(self._row, np.int64)

    @property
    def k(self) -> Ints:
        """Number of options, int64 [rows with options]."""
        return np.array(self._k, np.int64)

    def unexplained(self, *, right: Correct, tasks: Ints, norm: str) -> Ints:
        """Count scored rows that the scores do not explain.

        By task, int64 [tasks]: the correctness does not follow from the scores.

        `right` and `tasks` have the correctness and the code of the task of each row of the log.
        """
        count = int(tasks.max(initial=-1)) + 1
        if not len(self):
            return np.zeros(count, np.int64)
        choices = self._choices([norm] * count, right, tasks)
        lost = (choices.against | (choices.best == NONE)) & (right[self.rows] >= 0)
        return np.bincount(tasks[self.rows][lost], minlength=count)

    def columns(
        self, *, right: Correct, tasks: Ints, norms: Sequence[str]
    ) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
        """Columns of a snapshot that follow from the scores.

        `right` and `tasks` are as in `unexplained`; `norms` names the norm of each task, by the
        task's code.

        Returns:
            The columns, and notes for the reader.
        """
        if not len(self):
            return {}, ()
        choices, task, correct = (
            self._choices(norms, right, tasks),
            tasks[self.rows],
            right[self.rows],
        )
        undecided = np.zeros(len(self), bool)
        for code in np.unique(task).tolist():
            scored = (task == code) & (choices.best != NONE) & (correct >= 0)
            if int(choices.against[task == code].sum()) > _MAX_CONTRADICTIONS * int(scored.sum()):
                undecided |= task == code
        choices = replace(
            choices,
            chosen=np.where(undecided, NONE, choices.chosen),
            share=np.where(undecided, np.nan, choices.share),
            margin=np.where(undecided, np.nan, choices.margin),
            tied=choices.tied & ~undecided,
            against=choices.against & ~undecided,
        )
        return self._columns(choices, len(right)), _notes(choices, int(undecided.sum()))

    def _choices(self, norms: Sequence[str], right: Correct, tasks: Ints) -> Choices:
        # Each by the norm of its task.
        correct, task, k = right[self.rows], tasks[self.rows], self.k
        norm = np.array(norms, object)[task]
        lengths = {
            "chars": np.array(self._chars, np.float64),
            "bytes": np.array(self._bytes, np.float64),
        }
        # Rows without texts were stored with length 0, which would count as an empty option.
        for values in lengths.values():
            values[np.repeat(np.asarray(self._has_lengths) == 0, k)] = np.nan
        logprobs, priors = np.array(self._logprobs, np.float64), np.array(self._priors, np.float64)
        for numbers in (logprobs, priors):
            numbers[numbers == UNKNOWN] = np.nan
        # Tasks of one log may differ in their norm, so the flat array is filled norm by norm.
        scores = np.empty(len(logprobs), np.float64)
        for name in dict.fromkeys(norm.tolist()):
            cells = np.repeat(norm == name, k)
            scores[cells] = normalise(logprobs, k, norm=name, lengths=lengths, priors=priors)[cells]
        return reconcile(scores, k, self._golds(scores, correct, task), correct)

    def _golds(self, scores: Floats, correct: Correct, task: Ints) -> Bools:
        # Targets may name only some of the options, bool [options].
        k, nothing = self.k, np.zeros(len(scores), bool)
        best = decide(scores, k, nothing).chosen
        by_index, by_text = np.array(self._by_index), np.array(self._by_text)
        gold = np.full(len(k), NONE)
        for code in np.unique(task).tolist():
            rows = (
                task == code
            )  # digits mean one thing within a task, and may mean another in the next
            gold[rows] = choose_target(by_index[rows], by_text[rows], best[rows], correct[rows])
        targets = [
            (row, option) for row, options in self._several_golds.items() for option in options
        ]
        several = np.array(targets, np.int64).reshape(-1, 2)
        return option_mask(k, np.arange(len(k)), gold) | option_mask(
            k, several[:, 0], several[:, 1]
        )

    def _columns(self, choices: Choices, rows: int) -> dict[str, pa.Array]:
        # Columns cover all rows of the log, null where a row has no options.
        index, k = self.rows, self.k
        has_lengths, has_priors = (
            np.asarray(self._has_lengths, bool),
            np.asarray(self._has_priors, bool),
        )

        def scalars(values: Any, valid: Bools) -> pa.Array:
            column, null = np.zeros(rows, np.asarray(values).dtype), np.ones(rows, bool)
            column[index], null[index] = values, ~valid
            return pa.array(column, mask=null)

        def lists(values: array[Any], valid: Bools) -> pa.Array:
            length, null = np.zeros(rows, np.int64), np.ones(rows, bool)
            length[index[valid]], null[index[valid]] = k[valid], False
            # A null list has length 0, so the flat values hold those of the valid rows only.
            offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
            kept = np.asarray(values)[np.repeat(valid, k)]
            flat = pa.array(kept, mask=kept == UNKNOWN)
            return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=pa.array(null))

        columns = {
            "k": scalars(k, np.ones(len(k), bool)),
            "gold": scalars(choices.first_gold, choices.first_gold != NONE),
            "chosen": scalars(choices.chosen, choices.chosen != NONE),
            # With nan and null: `clean_scores` counts the rows that have one.
            "choice_logprobs": lists(self._logprobs, np.ones(len(k), bool)),
            "choice_chars": lists(self._chars, has_lengths),
            "choice_bytes": lists(self._bytes, has_lengths),
            "gold_share": scalars(choices.share, ~np.isnan(choices.share)),
            "margin": scalars(choices.margin, ~np.isnan(choices.margin)),
            "unstable": scalars(
                choices.tied, choices.tied
            ),  # null, not false: no noise was measured
        }
        if has_priors.any():
            columns["choice_priors"] = lists(self._priors, has_priors)
        if self._several_golds:
            golds: list[list[int] | None] = [None] * rows
            for position, options in self._several_golds.items():
                golds[index[position]] = options
            columns["golds"] = pa.array(golds, pa.list_(pa.int32()))
        return columns


def _notes(choices: Choices, undecided: int) -> tuple[str, ...]:
    notes = []
    if ties := int(choices.tied.sum()):
        notes.append(
            f"the two best options have equal scores in {ties:,} of {len(choices.tied):,} items, "
            "as sums in bf16 have; the first of equals was taken, and a flip there may be rounding"
        )
    if against := int(choices.against.sum()):
        notes.append(
            f"the logged log-likelihoods contradict right or wrong in {against:,} items; right "
            "or wrong is kept as logged, and the option chosen is the best that agrees with it"
        )
    if undecided:
        notes.append(
            f"which option was chosen does not follow from the log-likelihoods: {undecided:,} items"
        )
    return tuple(notes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Choices that follow from scores and logged correctness; arrays [rows], but for `golds`."""

    chosen: Ints  # index of the option, -1 where it is not known
    best: Ints  # index of the option with the highest score, -1 where it is not known
    golds: Bools  # the right options [options]
    first_gold: Ints  # index of the first right option, -1 where it is not known
    share: Floats  # share of the right options, 0 to 1; nan where it is not known
    margin: Floats  # best minus second score, nats; nan where it is not known
    tied: Bools  # the two best scores are equal
    against: Bools  # the scores contradict the logged correctness


def choose_target(index: Ints, text: Ints, best: Ints, right: Correct) -> Ints:
    """Index of the right option, -1 for none, int64 [rows].

    A target such as "2" may be an index or an option's text. All targets of a task are read in the
    way that agrees with more of the logged outcomes; by index if both agree equally. `index` and
    `text` have the option that each target names by the one and the other, `best` that with the
    highest score, each -1 for none [rows].
    """
    differs = (index != NONE) & (text != NONE) & (index != text) & (best != NONE) & (right >= 0)
    fits_index, fits_text = (
        ((best == gold) == (right == 1))[differs].sum() for gold in (index, text)
    )
    preferred, second = (text, index) if fits_text > fits_index else (index, text)
    return np.where(preferred != NONE, preferred, second)


def reconcile(scores: Floats, k: Ints, golds: Bools, right: Correct) -> Choices:
    """Reconcile scores with the logged correctness.

    See the module's table.

    Args:
        scores: The score that decides, nats, nan where it is not known [options].
        k: Number of options [rows].
        golds: The right options as far as the log names them [options].
        right: Logged correctness [rows].

    Returns:
        The choices and right options that follow.
    """
    # `golds` may be incomplete here, which changes the share and not the choice.
    best, row, start = (
        decide(scores, k, golds).chosen,
        np.repeat(np.arange(len(k)), k),
        np.cumsum(k) - k,
    )
    usable = best != NONE
    # The correctness gives a right option that the log does not name: the best if right, the other
    # of two if wrong.
    unnamed = usable & ~np.logical_or.reduceat(golds, start)
    follows = unnamed & ((right == 1) | ((right == 0) & (k == 2)))
    golds = golds | option_mask(
        k, np.flatnonzero(follows), np.where(right == 1, best, 1 - best)[follows]
    )
    decisions = decide(scores, k, golds)
    is_known = np.logical_or.reduceat(golds, start)
    # A best of -1 would reach into the row before; `usable` excludes those rows below.
    is_right = golds[start + np.maximum(best, 0)]
    against = usable & is_known & (right >= 0) & (is_right != (right == 1))
    # In a contradiction the best option that agrees with the correctness counts as chosen.
    fitting = np.where((golds == (right == 1)[row]) & usable[row], scores, -np.inf)
    second = np.where(
        np.maximum.reduceat(fitting, start) == -np.inf, NONE, decide(fitting, k, golds).chosen
    )
    # Golds as scores of 1 and 0: the first of equals is the first right option.
    first_gold = decide(golds.astype(float), k, golds).chosen
    return Choices(
        chosen=np.where(against, second, best),
        best=best,
        golds=golds,
        first_gold=np.where(is_known, first_gold, NONE),
        share=np.where(against, np.nan, decisions.share),
        margin=np.where(against, np.nan, decisions.margin),
        tied=decisions.tied,
        against=against,
    )


def norms_in_metadata(norms: Mapping[str, str]) -> dict[str, Any]:
    """Metadata that name the norm of each task.

    As `Snapshot.norms` reads them.

    >>> norms_in_metadata({"arc": "sum", "boolq": "sum"}), norms_in_metadata({"arc": "chars", "boolq": "sum"})
    ({'probe': {'norm': 'sum'}}, {'norms': {'arc': 'chars', 'boolq': 'sum'}})
    """
    if len(different := set(norms.values())) == 1:
        return {"probe": {"norm": different.pop()}}
    return {"norms": dict(norms)} if norms else {}


def byte_length(text: str) -> int:
    """Length of a text in UTF-8, bytes.

    A lone surrogate, which JSON can hold, counts 3.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_LIST_OF_INDICES: Final = re.compile(r"\[\s*[0-9]{1,6}(\s*,\s*[0-9]{1,6})*\s*\]")
_INDEX: Final = re.compile(r"[0-9]{1,6}")


def target_options(target: object, k: int, texts: Sequence[str] | None) -> tuple[list[int], int]:
    """Options that a target names by index, and by letter or text.

    Digits may be an index or the text of an option, and both are returned then. Options are given
    by their indices. A target is a whole number, a list of them, or text; anything else names none
    of the k options.

    >>> target_options("1", 3, ["3", "1", "2"]), target_options("Chile", 2, ["Peru", "Chile"])
    (([1], 1), ([], 1))
    >>> target_options("B", 3, None), target_options("[0, 2]", 3, None), target_options(7, 3, None)
    (([], 1), ([0, 2], -1), ([], -1))

    Returns:
        Indices, and an index or -1 for none.
    """
    if isinstance(target, str) and not _LIST_OF_INDICES.fullmatch(target):
        index = [int(target)] if _INDEX.fullmatch(target) and int(target) < k else []
        target_text = target.strip()
        if (
            len(
                same := [
                    option
                    for option, option_text in enumerate(texts or ())
                    if option_text.strip() == target_text
                ]
            )
            == 1
        ):
            return index, same[0]
        letter = ascii_uppercase.find(target_text) if len(target_text) == 1 else NONE
        return index, letter if letter < k else NONE
    by_letter = (
        [int(digits) for digits in _INDEX.findall(target)] if isinstance(target, str) else target
    )
    listed: list[object] = by_letter if isinstance(by_letter, list) else [by_letter]
    indices = [value for value in listed if isinstance(value, int) and not isinstance(value, bool)]
    if len(indices) < len(listed):
        return [], NONE
    return sorted({index for index in indices if 0 <= index < k}), NONE
