"""Overlap of a probe with a training set: whole questions, and runs of 13 or 8 words.

A question that was trained on measures memory instead of knowledge. Texts are compared as lower-case words, whatever
stands between them, and each item can be found in two ways:

    exact       a row contains the whole question; one of up to three words counts only with its answer after it
    13, 8       a row contains that many consecutive words of the question; 13 is the usual sign of contamination, 8 a
                weaker one

The words that all prompts of a task begin and end with (``Question:``, ``Answer:``) are not part of a question, and a
run of words that occurs in many items of the probe is a template and does not count. Rows are read once, in batches,
whatever their number.

**Method.** Every run of n words of a batch is hashed in a few numpy calls, in the manner of Karp and Rabin (1987):

    b" the capital of chile "     words in lower case, one space between and around them
    hash of words i to j          (S[end of j] - S[start of i]) / B^(start of i)   modulo 2^64

with S the prefix sums of byte * B^position. B is odd and so has an inverse modulo 2^64: the division is a product with
a power of that inverse, and equal runs have equal hashes at every position. Exact hits are then compared as text. Runs
are not: a collision of two 64-bit hashes would count an item that shares no words, so the error is upwards; for natural
text it is about (runs in the probe) * (runs in the rows) / 2^64.
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

U64 = NDArray[np.uint64]
Ints = NDArray[np.int64]

GRAMS: Final = (13, 8)
"""Lengths of runs, in words."""

_BATCH: Final = 1_000_000
"""Characters that are hashed at once."""

_ANCHOR: Final = 8
"""Words at the beginning of a question by which it is first looked up."""

_SHORT: Final = 4
"""Maximum number of spaces, both ends included, of a question that is searched together with its answer.

A question of up to three words, such as "7 + 15", says too little alone."""

_TRIES: Final = 1_000
"""Maximum number of rows with a whole question in which its answer is searched."""

_TEMPLATE: Final = 5
"""A run of words in more items than this is a template."""

_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Items of a probe that were found in a training set.

    Attributes:
        items: Number of items of the probe.
        rows: Number of rows that were searched.
        of_rows: Number of rows of the set; None if it is not known.
        exact: Items whose whole question is in a row, as (task, id).
        answered: Those of them whose right answer, of two characters or more, is in the same row.
        grams: Items that share a run of words with a row, by the length of the run.
        examples: (task, id, row) of the first exact hits.
    """

    items: int
    rows: int
    of_rows: int | None
    exact: tuple[tuple[str, str], ...]
    answered: tuple[tuple[str, str], ...]
    grams: Mapping[int, tuple[tuple[str, str], ...]]
    examples: tuple[tuple[str, str, int], ...]

    @property
    def sentence(self) -> str:
        """One line for people."""
        searched = f"{self.rows:,} training rows"
        if self.of_rows is not None and self.rows < self.of_rows:
            searched = f"{self.rows:,} of {self.of_rows:,} training rows ({100 * self.rows / self.of_rows:.1f} %)"
        parts = [f"{len(self.exact):,} of {self.items:,} questions are in them word for word"]
        parts += [f"{len(self.answered):,} with their answer"] if self.exact else []
        parts += [f"{len(found):,} share {n} words in a row" for n, found in self.grams.items()]
        return f"{searched}: {', '.join(parts)}"


def exact_overlap(
    probe: Probe, texts: Iterable[str], *, seconds: float | None = None, of_rows: int | None = None
) -> Overlap:
    """Find the questions of a probe that some texts hold word for word; arguments as in `overlap`."""
    return overlap(probe, texts, grams=(), seconds=seconds, of_rows=of_rows)


def overlap(
    probe: Probe,
    texts: Iterable[str],
    *,
    grams: Sequence[int] = GRAMS,
    seconds: float | None = None,
    of_rows: int | None = None,
) -> Overlap:
    """Find the questions of a probe in some texts, whole and by runs of words.

    Args:
        probe: The questions.
        texts: The training set, one text a row; see `training_text`.
        grams: Lengths of the runs, in words.
        seconds: Time after which the search stops; `Overlap.rows` gives how far it came.
        of_rows: Number of rows of the set, if it is known.
    """
    began = time.monotonic()
    search = _Search(probe, grams)
    rows = 0
    for batch in _batches(texts):
        search.add(batch, first_row=rows)
        rows += len(batch)
        if seconds is not None and time.monotonic() - began > seconds:
            break
    return Overlap(
        items=len(probe),
        rows=rows,
        of_rows=of_rows,
        exact=search.names(search.exact),
        answered=search.names(search.answered),
        grams={n: search.names(found) for n, found in search.shared.items()},
        examples=tuple(search.examples[:_EXAMPLES]),
    )


def training_text(row: Any) -> str:
    """All text of a training row as one: the row itself, its messages, or every text in it but the roles."""
    if isinstance(row, str):
        return row
    if isinstance(row, Mapping):
        return " ".join(training_text(value) for key, value in row.items() if key not in ("role", "from"))
    if isinstance(row, (list, tuple)):
        return " ".join(map(training_text, row))
    return ""


def plain(text: str) -> str:
    """A text as lower-case words with one space between them."""
    return _words(text).strip(b" ").decode("utf-8", errors="replace")


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


class _Search:
    """The questions of a probe, and which of them have been found so far."""

    def __init__(self, probe: Probe, grams: Sequence[int]) -> None:
        self._names = [(item.task, item.id) for item in probe]
        self._answers = [_answers(item) for item in probe]
        questions = [_words(text) for text in _questions(probe.items)]
        # A short question is found only together with an answer after it.
        self._targets = [
            [text + answer[1:] for answer in answers] if text.strip() and text.count(b" ") <= _SHORT else [text]
            for text, answers in zip(questions, self._answers, strict=True)
        ]
        # A whole question is looked up by the hash of its first words; one index for each number of these words.
        anchors: dict[int, list[tuple[int, int]]] = {}
        for item, targets in enumerate(self._targets):
            for hashed in map(_HashedWords, targets):
                if n := min(len(hashed.start), _ANCHOR):
                    anchors.setdefault(n, []).append((int(hashed.runs(n)[0]), item))
        self._anchors = {n: _RunIndex(pairs) for n, pairs in anchors.items()}
        self._grams = {n: _RunIndex(_distinct_runs([_HashedWords(text) for text in questions], n)) for n in grams}
        self._tries: Counter[int] = Counter()
        # Items that are found for good are no longer searched: masks over the items.
        self._open = np.ones(len(questions), bool)
        self._not_shared = {n: np.ones(len(questions), bool) for n in grams}
        self.exact: set[int] = set()
        self.answered: set[int] = set()
        self.examples: list[tuple[str, str, int]] = []

    @property
    def shared(self) -> dict[int, list[int]]:
        """Indices of the items that share a run of words, by the length of the run."""
        return {n: np.flatnonzero(~rest).tolist() for n, rest in self._not_shared.items()}

    def names(self, items: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """(task, id) of some items, in the order of the probe."""
        return tuple(self._names[item] for item in sorted(items))

    def add(self, batch: Sequence[str], *, first_row: int) -> None:
        """Search some rows, of which the first is row `first_row` of the set."""
        rows = [_words(text) for text in batch]
        # One text of all rows: each ends in a space, so the space between two rows is written once.
        text = b"".join(row[:-1] for row in rows) + b" "
        ends = np.cumsum([len(row) - 1 for row in rows])
        hashed = _HashedWords(text)
        row_of = np.searchsorted(ends, hashed.start, side="right")
        for n, index in self._anchors.items():
            for word, item in index.matches(hashed.runs(n), self._open):
                row = int(row_of[word])
                # `_open` is read again: an earlier match of this batch may have closed the item.
                if self._open[item] and self._holds(text, int(hashed.start[word]), int(ends[row]), item):
                    self._hit(item, first_row + row, rows[row])
        for n, index in self._grams.items():
            hashes = hashed.runs(n)
            # A run whose first and last word are in different rows is no run of words of the set.
            within = row_of[: len(hashes)] == row_of[n - 1 : n - 1 + len(hashes)]
            rest = self._not_shared[n]
            for word, item in index.matches(hashes, rest):
                rest[item] &= not within[word]

    def _holds(self, text: bytes, start: int, end: int, item: int) -> bool:
        """True if an item's whole question begins at a byte of the text and ends within the row that ends at `end`."""
        # A target has a space at each end: it begins one byte before the word, and its last space may be the row's end.
        return any(
            start + len(target) - 2 <= end and text.startswith(target, start - 1) for target in self._targets[item]
        )

    def _hit(self, item: int, row: int, text: bytes) -> None:
        if item not in self.exact:
            self.examples.append((*self._names[item], row))
        self.exact.add(item)
        self._tries[item] += 1
        if any(answer in text for answer in self._answers[item] if len(answer.strip()) > 1):
            self.answered.add(item)
        self._open[item] = item not in self.answered and self._tries[item] < _TRIES


_FRAME: Final = re.compile(r"\A\s*(?:question|q)\s*:\s*|\s+(?:answer|a)\s*:\s*\Z", re.IGNORECASE)


def _questions(items: Sequence[Item]) -> list[str]:
    """Words of each item's question, without "Question:" and "Answer:" and without the frame of its task's prompts."""
    found = [plain(_FRAME.sub("", _last_message(item))) for item in items]
    by_task: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_task.setdefault(item.task, []).append(index)
    for indices in by_task.values():
        # Two questions may begin alike by chance; three or more share a frame.
        if len(indices) > 2:
            words = [found[index].split(" ") for index in indices]
            start, end = _common_prefix(words), _common_prefix([own[::-1] for own in words])
            for index, own in zip(indices, words, strict=True):
                found[index] = " ".join(own[start : len(own) - end]) or found[index]
    return found


def _last_message(item: Item) -> str:
    """The prompt, or of a chat the last message of the user; of a passage its text."""
    if isinstance(item.prompt, str):
        return item.choices[0] if item.is_passage else item.prompt
    of_user = [message for message in item.prompt if message.get("role") == "user"]
    return training_text((of_user or list(item.prompt))[-1].get("content"))


def _common_prefix(words: Sequence[Sequence[str]]) -> int:
    """Number of words that all lists begin with; at least one word of the shortest is left."""
    count = 0
    for column in zip(*words, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return min(count, min(map(len, words)) - 1) if count else 0


def _answers(item: Item) -> list[bytes]:
    texts = [item.choices[int(answer)] if item.choices else str(answer) for answer in item.answers]
    return [found for text in texts if (found := _words(text)).strip()]


def _distinct_runs(questions: Sequence[_HashedWords], n: int) -> list[tuple[int, int]]:
    """(hash, item) of each run of n words, without those of templates."""
    runs = [{int(run) for run in question.runs(n)} for question in questions]
    items_with = Counter(run for own in runs for run in own)
    return [(run, item) for item, own in enumerate(runs) for run in own if items_with[run] <= _TEMPLATE]


_SPACE: Final = 32
_TABLE: Final = bytes(byte if byte >= 128 or chr(byte).isalnum() else _SPACE for byte in range(256))
"""Byte to byte: ASCII letters and digits, and all bytes of other characters, unchanged; everything else to a space."""


def _words(text: str) -> bytes:
    """The text in lower case with single spaces, one at each end."""
    folded = text.casefold().encode("utf-8", errors="replace").translate(_TABLE)
    words = b" ".join(folded.split())
    return b" " + words + b" " if words else b" "


class _HashedWords:
    """Bytes (words,) at which each word of a text starts and after which it ends, and hashes of runs of words."""

    def __init__(self, text: bytes) -> None:
        characters = np.frombuffer(text, np.uint8)
        spaces = np.flatnonzero(characters == _SPACE)
        self.start: Ints = spaces[:-1] + 1
        self.end: Ints = spaces[1:]
        # A power of two at least as large as a batch, so that texts up to a batch share one table.
        powers, self._inverses = _powers(1 << max(len(characters), _BATCH).bit_length())
        # uint64 wraps around: the sums are taken modulo 2^64, as the hash is defined.
        with np.errstate(over="ignore"):
            self._sums: U64 = np.zeros(len(characters) + 1, np.uint64)
            np.cumsum(characters.astype(np.uint64) * powers[: len(characters)], out=self._sums[1:])

    def runs(self, n: int) -> U64:
        """(words - n + 1,) hash of the n words that begin at each word."""
        start, end = self.start[: max(len(self.start) - n + 1, 0)], self.end[n - 1 :]
        with np.errstate(over="ignore"):
            found: U64 = (self._sums[end] - self._sums[start]) * self._inverses[start]
        return found


_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
"""B: odd, so that it has an inverse modulo 2^64, and with bits spread over all of the word."""


@cache
def _powers(size: int) -> tuple[U64, U64]:
    """(size + 1,) powers of the base and of its inverse, modulo 2^64."""
    inverse = np.uint64(pow(int(_BASE), -1, 2**64))
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.r_[np.uint64(1), np.full(size, _BASE)], dtype=np.uint64)
        inverses = np.cumprod(np.r_[np.uint64(1), np.full(size, inverse)], dtype=np.uint64)
    return powers, inverses


class _RunIndex:
    """Hashes of the runs that are searched, sorted, each with its item; one hash may belong to several items."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(pairs)
        self.hashes: U64 = np.array([run for run, _ in ordered], np.uint64)
        self.items = np.array([item for _, item in ordered], np.int64)
        # A table of 2^22 flags, by the top bits, rules out nearly every run of a row before it is searched for.
        self._table = np.zeros(1 << 22, bool)
        self._table[self.hashes >> np.uint64(42)] = True

    def matches(self, hashes: U64, wanted: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """(position, item) for each of the hashes (positions,) in the index; `wanted` is a mask (items,)."""
        near = np.flatnonzero(self._table[hashes >> np.uint64(42)])
        left = np.searchsorted(self.hashes, hashes[near], side="left")
        counts = np.searchsorted(self.hashes, hashes[near], side="right") - left
        # Equal hashes are neighbours: a position is repeated once for each, and `nth` runs 0, 1, ... within a position.
        nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        positions, items = np.repeat(near, counts), self.items[np.repeat(left, counts) + nth]
        still = wanted[items]
        yield from zip(positions[still].tolist(), items[still].tolist(), strict=True)
