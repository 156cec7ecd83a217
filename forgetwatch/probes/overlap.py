"""How much of a probe stands in a training set: whole questions, and runs of 13 or 8 words.

A question that is trained on measures memory. Texts are compared as lower-case words, whatever stands between them:

    exact       the whole question stands in a row; one of up to four words, with its answer behind it
    13, 8       so many words in a row of the question do; 13 is the usual sign of contamination, 8 is a weaker one

Every run of words of every row is hashed (word_runs.py); exact hits are then compared as text, runs are not. What all
prompts of a task begin and end with (``Question:``, ``Answer:``) is no part of a question, and a run of words that
stands in many items of the probe is a template and counts for none. Rows are read once, in batches, whatever their
number.

Runs of words in long texts, hashed at once: every run of n words of a megabyte in a few numpy calls.

    b" the capital of chile "     words in lower case, one space between and around them
    hash of words i to j          (S[end of j] - S[start of i]) / B^(start of i)   modulo 2^64

with S the prefix sums of byte * B^place. A division is a product with the inverse power of the odd base B, so that
equal runs have equal hashes wherever they stand. Unlike runs hardly ever meet; what matters is compared as text
afterwards.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.item import Item
from forgetwatch.probe import Probe

GRAMS: Final = (13, 8)
_BATCH: Final = 1_000_000
"""Characters that are hashed at once."""

_ANCHOR: Final = 8
"""Words by which a whole question is first looked up."""

_SHORT: Final = 4
"""Words of a question that says nothing alone (7 + 15) and is looked for with its answer."""

_TRIES: Final = 1_000
"""Rows with a whole question in which its answer is looked for."""

_TEMPLATE: Final = 5
"""A run of words in more items than this is a template."""

_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """What of a probe was found in a training set.

    Attributes:
        items: Items of the probe.
        rows: Rows that were looked at.
        of_rows: Rows that there are; None where that is not known.
        exact: Items whose whole question stands in a row, as (task, id).
        answered: Those of them whose right answer, of two characters or more, stands in the same row.
        grams: Items of which so many words in a row were found, by that number.
        examples: (task, id, row) of the first exact hits, or else of the first runs.
        seconds: How long it took.
    """

    items: int
    rows: int
    of_rows: int | None
    exact: tuple[tuple[str, str], ...]
    answered: tuple[tuple[str, str], ...]
    grams: Mapping[int, tuple[tuple[str, str], ...]]
    examples: tuple[tuple[str, str, int], ...]
    seconds: float

    @property
    def share(self) -> float | None:
        """The share of the rows that was looked at; None where their number is not known."""
        return None if self.of_rows is None else self.rows / self.of_rows if self.of_rows else 1.0

    @property
    def sentence(self) -> str:
        """One line for people."""
        looked = f"{self.rows:,} training rows"
        if self.of_rows is not None and self.rows < self.of_rows:
            looked = f"{self.rows:,} of {self.of_rows:,} training rows ({100 * self.rows / self.of_rows:.1f} %)"
        parts = [f"{len(self.exact):,} of {self.items:,} questions stand in them word for word"]
        parts += [f"{len(self.answered):,} with their answer"] if self.exact else []
        parts += [f"{len(found):,} share {n} words in a row" for n, found in self.grams.items()]
        return f"{looked}: {', '.join(parts)}"


def exact_overlap(
    probe: Probe, texts: Iterable[str], *, seconds: float | None = None, of_rows: int | None = None
) -> Overlap:
    """The questions of a probe that stand in some texts, word for word.

    Args:
        probe: The questions.
        texts: The training set, one text a row; see `training_text`.
        seconds: Time after which it stops; `Overlap.share` says how far it came.
        of_rows: Rows that there are, where that is known.
    """
    return overlap(probe, texts, grams=(), seconds=seconds, of_rows=of_rows)


def overlap(
    probe: Probe,
    texts: Iterable[str],
    *,
    grams: Sequence[int] = GRAMS,
    seconds: float | None = None,
    of_rows: int | None = None,
) -> Overlap:
    """The same, and the questions of which so many words in a row stand in the texts."""
    began = time.monotonic()
    wanted = _Wanted(probe, grams)
    rows = 0
    for batch in _batches(texts):
        wanted.look(batch, first=rows)
        rows += len(batch)
        if seconds is not None and time.monotonic() - began > seconds:
            break
    return Overlap(
        items=len(probe),
        rows=rows,
        of_rows=of_rows,
        exact=wanted.names(wanted.exact),
        answered=wanted.names(wanted.answered),
        grams={n: wanted.names(found) for n, found in wanted.shared.items()},
        examples=tuple(wanted.examples[:_EXAMPLES]),
        seconds=time.monotonic() - began,
    )


_FRAME: Final = re.compile(r"\A\s*(?:question|q)\s*:\s*|\s+(?:answer|a)\s*:\s*\Z", re.IGNORECASE)


def questions(items: Sequence[Item]) -> list[str]:
    """The words of each item's question, without "Question:" and "Answer:", and what all prompts of its task share."""
    found = [plain(_FRAME.sub("", _last(item))) for item in items]
    of_task: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        of_task.setdefault(item.task, []).append(place)
    for places in of_task.values():
        if len(places) > 2:
            words = [found[place].split(" ") for place in places]
            start, end = _common(words), _common([one[::-1] for one in words])
            for place, one in zip(places, words, strict=True):
                found[place] = " ".join(one[start : len(one) - end]) or found[place]
    return found


def _last(item: Item) -> str:
    if isinstance(item.prompt, str):
        return item.prompt
    said = [message for message in item.prompt if message.get("role") == "user"]
    return training_text((said or list(item.prompt))[-1].get("content"))


def _common(words: Sequence[Sequence[str]]) -> int:
    """How many words all of them begin with; a question keeps at least one word of its own."""
    count = 0
    for column in zip(*words, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return min(count, min(map(len, words)) - 1) if count else 0


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Wanted:
    """The questions of a probe, and what of them has been found."""

    def __init__(self, probe: Probe, grams: Sequence[int]) -> None:
        self._names = [(item.task, item.id) for item in probe]
        self._answers = [_answers(item) for item in probe]
        asked = [words_of(text) for text in questions(probe.items)]
        self._texts = [_searched(text, answers) for text, answers in zip(asked, self._answers, strict=True)]
        anchors: dict[int, list[tuple[int, int]]] = {}
        for place, texts in enumerate(self._texts):
            for one in map(Hashed, texts):
                if words := min(len(one.start), _ANCHOR):
                    anchors.setdefault(words, []).append((int(one.runs(words)[0]), place))
        self._anchors = {words: Runs(pairs) for words, pairs in anchors.items()}
        self._grams = {n: Runs(_own_runs([Hashed(text) for text in asked], n)) for n in grams}
        self._tries: Counter[int] = Counter()
        self._open = np.ones(len(asked), bool)
        self._not_shared = {n: np.ones(len(asked), bool) for n in grams}
        self.exact: set[int] = set()
        self.answered: set[int] = set()
        self.examples: list[tuple[str, str, int]] = []

    @property
    def shared(self) -> dict[int, list[int]]:
        """The items that share so many words in a row."""
        return {n: np.flatnonzero(~rest).tolist() for n, rest in self._not_shared.items()}

    def names(self, places: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """(task, id) of some items, in the order of the probe."""
        return tuple(self._names[place] for place in sorted(places))

    def look(self, batch: Sequence[str], *, first: int) -> None:
        """Look for everything in some rows, the first of which is the `first`-th of the set."""
        rows = [words_of(text) for text in batch]
        text = b"".join(row[:-1] for row in rows) + b" "
        ends = np.cumsum([len(row) - 1 for row in rows])
        hashed = Hashed(text)
        row_of = np.searchsorted(ends, hashed.start, side="right")
        for words, runs in self._anchors.items():
            for at, item in runs.found(hashed.runs(words), self._open):
                row = int(row_of[at])
                if self._open[item] and self._stands(text, int(hashed.start[at]), int(ends[row]), item):
                    self._hit(item, row, rows[row], first=first)
        for n, runs in self._grams.items():
            hashes = hashed.runs(n)
            within = row_of[: len(hashes)] == row_of[n - 1 : n - 1 + len(hashes)]
            rest = self._not_shared[n]
            for at, item in runs.found(hashes, rest):
                rest[item] &= not within[at]

    def _stands(self, text: bytes, start: int, end: int, item: int) -> bool:
        """Whether an item's whole question stands at a place, in the row that ends there."""
        return any(
            start + len(wanted) - 2 <= end and text.startswith(wanted, start - 1) for wanted in self._texts[item]
        )

    def _hit(self, item: int, row: int, text: bytes, *, first: int) -> None:
        if item not in self.exact:
            self.examples.append((*self._names[item], first + row))
        self.exact.add(item)
        self._tries[item] += 1
        if any(answer in text for answer in self._answers[item] if len(answer.strip()) > 1):
            self.answered.add(item)
        self._open[item] = item not in self.answered and self._tries[item] < _TRIES


def _searched(question: bytes, answers: Sequence[bytes]) -> list[bytes]:
    """What stands for a question in a row: its words; of a few words only with the answer behind them."""
    if not question.strip() or question.count(b" ") > _SHORT:
        return [question]
    return [question + answer[1:] for answer in answers]


def _answers(item: Item) -> list[bytes]:
    texts = [item.choices[int(answer)] if item.choices else str(answer) for answer in item.answers]
    return [found for text in texts if (found := words_of(text)).strip()]


def _own_runs(hashed: Sequence[Hashed], n: int) -> list[tuple[int, int]]:
    """The runs of n words of each item, but for those of templates."""
    runs = [{int(one) for one in item.runs(n)} for item in hashed]
    known = Counter(run for of_item in runs for run in of_item)
    return [(run, place) for place, of_item in enumerate(runs) for run in of_item if known[run] <= _TEMPLATE]


U64 = NDArray[np.uint64]
Ints = NDArray[np.int64]

_LEAST: Final = 1_000_000
"""Bytes for which powers are made at least."""

_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_SPACE: Final = 32

_TABLE: Final = bytes(byte if byte >= 128 or chr(byte).isalnum() else _SPACE for byte in range(256))
"""ASCII letters and digits, and every byte of other characters, as they are; all else becomes a space."""


def training_text(row: Any) -> str:
    """All that a training row says, as one text: its own text, its messages, or every text in it."""
    if isinstance(row, str):
        return row
    if isinstance(row, Mapping):
        return " ".join(training_text(value) for key, value in row.items() if key not in ("role", "from"))
    if isinstance(row, (list, tuple)):
        return " ".join(map(training_text, row))
    return ""


def plain(text: str) -> str:
    """A text as lower-case words with one space between them."""
    return words_of(text).strip(b" ").decode("utf-8", errors="replace")


def words_of(text: str) -> bytes:
    """The text in lower case with single spaces, one at each end."""
    folded = text.casefold().encode("utf-8", errors="replace").translate(_TABLE)
    words = b" ".join(folded.split())
    return b" " + words + b" " if words else b" "


class Hashed:
    """Words of a text and the hashes of all their runs."""

    def __init__(self, text: bytes) -> None:
        letters = np.frombuffer(text, np.uint8)
        spaces = np.flatnonzero(letters == _SPACE)
        self.start: Ints = spaces[:-1] + 1
        self.end: Ints = spaces[1:]
        up, self._down = _powers(len(letters) + 1)
        with np.errstate(over="ignore"):
            self._sums: U64 = np.zeros(len(letters) + 1, np.uint64)
            np.cumsum(letters.astype(np.uint64) * up[: len(letters)], out=self._sums[1:])

    def runs(self, words: int) -> U64:
        """Hash of so many words from each word on that has enough behind it."""
        start, end = self.start[: max(len(self.start) - words + 1, 0)], self.end[words - 1 :]
        with np.errstate(over="ignore"):
            found: U64 = (self._sums[end] - self._sums[start]) * self._down[start]
        return found


@cache
def _powers_to(size: int) -> tuple[U64, U64]:
    inverse = np.uint64(pow(int(_BASE), -1, 2**64))
    with np.errstate(over="ignore"):
        up = np.cumprod(np.r_[np.uint64(1), np.full(size, _BASE)], dtype=np.uint64)
        down = np.cumprod(np.r_[np.uint64(1), np.full(size, inverse)], dtype=np.uint64)
    return up, down


def _powers(count: int) -> tuple[U64, U64]:
    """At least so many powers of the base, and of its inverse, modulo 2^64."""
    return _powers_to(1 << max(count - 1, _LEAST).bit_length())


class Runs:
    """Runs of words that are looked for: their hashes, and the items that they are of."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(pairs)
        self.hashes: U64 = np.array([one for one, _ in ordered], np.uint64)
        self.items = np.array([item for _, item in ordered], np.int64)
        # One bit in a table of 2^22 rules out nearly every run of a training row before it is searched for.
        self._table = np.zeros(1 << 22, bool)
        self._table[self.hashes >> np.uint64(42)] = True

    def found(self, hashes: U64, wanted: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """(place, item) for each of some hashes that is looked for, of the items that still are."""
        near = np.flatnonzero(self._table[hashes >> np.uint64(42)])
        left = np.searchsorted(self.hashes, hashes[near], side="left")
        counts = np.searchsorted(self.hashes, hashes[near], side="right") - left
        nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places, items = np.repeat(near, counts), self.items[np.repeat(left, counts) + nth]
        still = wanted[items]
        yield from zip(places[still].tolist(), items[still].tolist(), strict=True)
