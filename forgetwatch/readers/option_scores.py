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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.metrics.choices import decide, marked, normalise
from forgetwatch.snapshot import NONE

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

    def __len__(self) -> int:
        return len(self._row)

    @property
    def k(self) -> Ints:
        """Number of options of each row that has any, int64 [rows with options]."""
        return np.array(self._k, np.int64)

    def unexplained(self, *, right: Judged, tasks: Ints, norm: str) -> Ints:
        """Number of judged rows of each task whose judgement the scores by one norm do not give back, int64 [tasks].

        Args:
            right: Logged judgement of each row of the log.
            tasks: Code of each row's task.
            norm: The norm that is tried in every task.
        """
        count = int(tasks.max(initial=-1)) + 1
        if not len(self):
            return np.zeros(count, np.int64)
        found = self._agreed([norm] * count, right, tasks)
        lost = (found.against | (found.best == NONE)) & (right[self.rows] >= 0)
        return np.bincount(tasks[self.rows][lost], minlength=count)

    def columns(
        self, *, right: Judged, tasks: Ints, norms: Sequence[str]
    ) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
        """The columns of a snapshot that follow, and notes for its reader.

        Args:
            right: Logged judgement of each row of the log.
            tasks: Code of each row's task.
            norms: The norm of the score that decides in each task, by the task's code.
        """
        if not len(self):
            return {}, ()
        found, task = _Found(self._agreed(norms, right, tasks)), tasks[self.rows]
        for code in np.unique(task).tolist():
            found.withdraw_undecided(task == code, right[self.rows])
        return self._columns(found, len(right)), found.notes()

    def _agreed(self, norms: Sequence[str], right: Judged, tasks: Ints) -> Choices:
        judged, task, k = right[self.rows], tasks[self.rows], self.k
        norm = np.array(norms, object)[task]
        scores = np.empty(len(self._logprobs), np.float64)
        for name in dict.fromkeys(norm.tolist()):
            cells = np.repeat(norm == name, k)
            scores[cells] = self._scores(name)[cells]
        return agreed(scores, k, self._golds(scores, judged, task), judged)

    def _scores(self, norm: str) -> Floats:
        """The scores by one norm, nats, nan where a row has not what the norm needs, float64 [options]."""
        lengths = {"chars": np.array(self._chars, np.float64), "bytes": np.array(self._bytes, np.float64)}
        for values in lengths.values():
            values[np.repeat(np.asarray(self._has_lengths) == 0, self.k)] = np.nan
        logprobs, priors = np.array(self._logprobs, np.float64), np.array(self._priors, np.float64)
        return normalise(logprobs, self.k, norm=norm, lengths=lengths, priors=priors)

    def _golds(self, scores: Floats, judged: Judged, task: Ints) -> Bools:
        """The right options as far as the targets name them, bool [options]."""
        k, nothing = self.k, np.zeros(len(scores), bool)
        best = decide(scores, k, nothing).chosen
        by_index, by_text = np.array(self._by_index), np.array(self._by_text)
        gold = np.full(len(k), NONE)
        for code in np.unique(task).tolist():
            rows = task == code
            gold[rows] = first_gold(by_index[rows], by_text[rows], best[rows], judged[rows])
        named = [(row, option) for row, options in self._several.items() for option in options]
        several = np.array(named, np.int64).reshape(-1, 2)
        return marked(k, np.arange(len(k)), gold) | marked(k, several[:, 0], several[:, 1])

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
    """The choices of all rows with options, without those of tasks whose scores did not decide."""

    def __init__(self, choices: Choices) -> None:
        self.gold = choices.first_gold
        self.chosen, self.share, self.margin = choices.chosen, choices.share, choices.margin
        self.tied, self._against, self._best = choices.tied, choices.against, choices.best
        self._undecided = 0

    def withdraw_undecided(self, rows: Bools, judged: Judged) -> None:
        """Set the choices of a task's rows to unknown where too many of them contradict what was logged."""
        against = int(self._against[rows].sum())
        if against <= _MOST_AGAINST * int((rows & (self._best != NONE) & (judged >= 0)).sum()):
            return
        self.chosen[rows], self.share[rows], self.margin[rows] = NONE, np.nan, np.nan
        self.tied[rows] = self._against[rows] = False
        self._undecided += int(rows.sum())

    def notes(self) -> tuple[str, ...]:
        """Notes for the reader of the snapshot."""
        notes = []
        if ties := int(self.tied.sum()):
            notes.append(
                f"the two best options have equal scores in {ties:,} of {len(self.tied):,} items, as sums in bf16 "
                "have; the first of equals was taken, and a flip there may be rounding"
            )
        if against := int(self._against.sum()):
            notes.append(
                f"the logged log-likelihoods contradict right or wrong in {against:,} items; right or wrong "
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Choices on which scores and logged judgements agree. Arrays [rows] unless said otherwise.

    Attributes:
        chosen: Index of the option, -1 where it is not known; int64.
        best: Index of the option with the highest score, -1 where it is not known; int64.
        golds: The right options, bool [options].
        first_gold: Index of the first right option, -1 where it is not known; int64.
        share: Share of the right options, 0 to 1; nan where it is not known.
        margin: Best minus second score, nats; nan where it is not known.
        tied: The two best scores are equal; bool.
        against: The scores contradict what was logged; bool.
    """

    chosen: Ints
    best: Ints
    golds: Bools
    first_gold: Ints
    share: Floats
    margin: Floats
    tied: Bools
    against: Bools


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


def agreed(scores: Floats, k: Ints, golds: Bools, right: Judged) -> Choices:
    """The choices that the scores and the logged judgements agree on.

    Args:
        scores: The score that decides, nats, nan where it is not known [options].
        k: Number of options of each row [rows].
        golds: The right options as far as the log names them, bool [options].
        right: Logged judgement [rows].
    """
    best, row, start = decide(scores, k, golds).chosen, np.repeat(np.arange(len(k)), k), np.cumsum(k) - k
    usable = best != NONE
    # A judgement names the right option of a row whose log does not: the best if right, the other of two if wrong.
    silent = usable & ~np.logical_or.reduceat(golds, start)
    follows = silent & ((right == 1) | ((right == 0) & (k == 2)))
    golds = golds | marked(k, np.flatnonzero(follows), np.where(right == 1, best, 1 - best)[follows])
    found = decide(scores, k, golds)
    known = np.logical_or.reduceat(golds, start)
    is_right = golds[start + np.maximum(best, 0)]
    against = usable & known & (right >= 0) & (is_right != (right == 1))
    fitting = np.where((golds == (right == 1)[row]) & usable[row], scores, -np.inf)
    second = np.where(np.maximum.reduceat(fitting, start) == -np.inf, NONE, decide(fitting, k, golds).chosen)
    return Choices(
        chosen=np.where(against, second, best),
        best=best,
        golds=golds,
        first_gold=np.where(known, decide(golds.astype(float), k, golds).chosen, NONE),
        share=np.where(against, np.nan, found.share),
        margin=np.where(against, np.nan, found.margin),
        tied=found.tied,
        against=against,
    )


def norms_in_metadata(norms: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a snapshot that name the norm of each task, as `Snapshot.norms` reads them.

    >>> norms_in_metadata({"arc": "sum", "boolq": "sum"}), norms_in_metadata({"arc": "chars", "boolq": "sum"})
    ({'probe': {'norm': 'sum'}}, {'norms': {'arc': 'chars', 'boolq': 'sum'}})
    """
    if len(different := set(norms.values())) == 1:
        return {"probe": {"norm": different.pop()}}
    return {"norms": dict(norms)} if norms else {}


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
