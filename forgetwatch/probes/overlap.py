"""Overlap of a probe with a training set: whole questions, and runs of 13 or 8 words.

A question that was trained on measures memory instead of knowledge. Texts are compared as
lower-case words, whatever stands between them, and each item can be found in two ways:

    exact       a row contains the whole question; one of up to three words counts only with its answer after it
    13, 8       a row contains that many consecutive words of the question; 13 is the usual sign of contamination, 8 a
                weaker one

The words that all prompts of a task begin and end with (``Question:``, ``Answer:``) are not part of
a question, and a run of words that occurs in many items of the probe is a template and does not
count. Rows are read once, whatever their number.

Runs are compared by their 64-bit hashes, in sets. A collision would count an item that shares no
words, so the error is upwards; for natural text it is about (runs in the probe) * (runs in the
rows) / 2^64.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from forgetwatch.item import Item
from forgetwatch.probe import Probe

Words = list[bytes]
"""Words of a text, in UTF-8."""


GRAMS: Final = (13, 8)
"""Lengths of runs, in words."""


_ANCHOR: Final = 8
"""Words at the beginning of a question by which it is first looked up."""


_SHORT: Final = 3
"""Maximum number of words of a question that is searched together with its answer: "7 + 15" says too little alone."""


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
        parts = [f"{len(self.exact):,} of {self.items:,} questions are in them word for word"]
        parts += [f"{len(self.answered):,} with their answer"] if self.exact else []
        parts += [f"{len(shared):,} share {n} words in a row" for n, shared in self.grams.items()]
        return f"{self.searched}: {', '.join(parts)}"

    @property
    def searched(self) -> str:
        """Number of the rows that were searched, as text."""
        if self.of_rows is None or self.rows >= self.of_rows:
            return f"{self.rows:,} training rows"
        return f"{self.rows:,} of {self.of_rows:,} training rows ({100 * self.rows / self.of_rows:.1f} %)"


def exact_overlap(
    probe: Probe, texts: Iterable[str], *, seconds: float | None = None, of_rows: int | None = None
) -> Overlap:
    """Find questions that some texts hold word for word.

    Arguments as in `overlap`.
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
    """Find questions in some texts, whole and by runs of words.

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
    for rows, text in enumerate(texts, start=1):
        search.add(_words(text), row=rows - 1)
        if seconds is not None and time.monotonic() - began > seconds:
            break
    return Overlap(
        items=len(probe),
        rows=rows,
        of_rows=of_rows,
        exact=search.names(search.exact),
        answered=search.names(search.answered),
        grams={n: search.names(items_shared) for n, items_shared in search.shared.items()},
        examples=tuple(search.examples[:_EXAMPLES]),
    )


@lru_cache(maxsize=4)
def _search_of(probe: Probe) -> _Search:
    return _Search(probe, (min(GRAMS),))


def shares_words(probe: Probe, text: str) -> bool:
    """Does a text hold a question, or eight words in a row?"""
    return _search_of(probe).finds(_words(text))


def training_text(row: Any) -> str:
    """Text of a training row: the row, its messages, or every text.

    Roles are left out.
    """
    if isinstance(row, str):
        return row
    if isinstance(row, Mapping):
        return " ".join(
            training_text(value) for key, value in row.items() if key not in ("role", "from")
        )
    if isinstance(row, (list, tuple)):
        return " ".join(map(training_text, row))
    return ""


def plain(text: str) -> str:
    """Lower-case words with single spaces."""
    return b" ".join(_words(text)).decode("utf-8", errors="replace")


class _Search:
    """The questions of a probe, and which of them have been found so far."""

    def __init__(self, probe: Probe, grams: Sequence[int]) -> None:
        self._names = [(item.task, item.id) for item in probe]
        self._answers = [_answers(item) for item in probe]
        questions = _questions(probe.items)
        # A short question is found only together with an answer after it.
        self._targets = [
            [words + answer for answer in answers] if 0 < len(words) <= _SHORT else [words]
            for words, answers in zip(questions, self._answers, strict=True)
        ]
        # Items by the hash of their first words: an index for each number of these words.
        self._anchors: dict[int, dict[int, list[int]]] = {}
        for item, targets in enumerate(self._targets):
            for target in filter(None, targets):
                n = min(len(target), _ANCHOR)
                self._anchors.setdefault(n, {}).setdefault(next(_runs(target, n)), []).append(item)
        self._grams = {n: _distinct_runs(questions, n) for n in grams}
        self._tries: Counter[int] = Counter()
        self.exact: set[int] = set()
        self.answered: set[int] = set()
        self.shared: dict[int, set[int]] = {n: set() for n in grams}
        self.examples: list[tuple[str, str, int]] = []

    def finds(self, words: Words) -> bool:
        """Does a row hold a question or a run of words?

        Nothing is counted.
        """
        for n, index in self._anchors.items():
            for start, run in enumerate(_runs(words, n)):
                targets = (target for item in index.get(run, ()) for target in self._targets[item])
                if any(words[start : start + len(target)] == target for target in targets):
                    return True
        return any(not runs.keys().isdisjoint(_runs(words, n)) for n, runs in self._grams.items())

    def names(self, items: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """Task and id of some items, in the order of the probe."""
        return tuple(self._names[item] for item in sorted(items))

    def add(self, words: Words, *, row: int) -> None:
        """Search a row of the set."""
        for n, index in self._anchors.items():
            if index.keys().isdisjoint(_runs(words, n)):
                continue
            for start, run in enumerate(_runs(words, n)):
                for item in index.get(run, ()):
                    is_open = item not in self.answered and self._tries[item] < _TRIES
                    if is_open and any(
                        words[start : start + len(target)] == target
                        for target in self._targets[item]
                    ):
                        self._hit(item, row, words)
        for n, runs in self._grams.items():
            if not runs.keys().isdisjoint(_runs(words, n)):
                self.shared[n].update(*(runs.get(run, ()) for run in _runs(words, n)))

    def _hit(self, item: int, row: int, words: Words) -> None:
        if item not in self.exact:
            self.examples.append((*self._names[item], row))
        self.exact.add(item)
        self._tries[item] += 1
        row_text, answers = _spaced(words), map(_spaced, self._answers[item])
        if any(answer in row_text for answer in answers if len(answer.strip()) > 1):
            self.answered.add(item)


_FRAME: Final = re.compile(r"\A\s*(?:question|q)\s*:\s*|\s+(?:answer|a)\s*:\s*\Z", re.IGNORECASE)


def _questions(items: Sequence[Item]) -> list[Words]:
    # Without labels and the frame of the task's prompts.
    words_by_item = [_words(_FRAME.sub("", _last_message(item))) for item in items]
    by_task: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_task.setdefault(item.task, []).append(index)
    for indices in by_task.values():
        # Two questions may begin alike by chance; three or more share a frame.
        if len(indices) > 2:
            words = [words_by_item[index] for index in indices]
            start, end = _common_prefix(words), _common_prefix([word[::-1] for word in words])
            for index, item_words in zip(indices, words, strict=True):
                words_by_item[index] = item_words[start : len(item_words) - end] or item_words
    return words_by_item


def _last_message(item: Item) -> str:
    # The prompt, the last user message of a chat, or the passage.
    if isinstance(item.prompt, str):
        return item.choices[0] if item.is_passage else item.prompt
    of_user = [message for message in item.prompt if message.get("role") == "user"]
    return training_text((of_user or list(item.prompt))[-1].get("content"))


def _common_prefix(words: Sequence[Words]) -> int:
    # The shortest question keeps at least one word.
    count = 0
    for column in zip(*words, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return min(count, min(map(len, words)) - 1) if count else 0


def _answers(item: Item) -> list[Words]:
    return [words for text in item.right_texts if (words := _words(text))]


def _distinct_runs(questions: Sequence[Words], n: int) -> dict[int, tuple[int, ...]]:
    # Runs of templates are left out; keys are hashes.
    items_of_run: dict[int, tuple[int, ...]] = {}
    for item, words in enumerate(questions):
        alone = (item,)
        for run in set(_runs(words, n)):
            items = items_of_run.get(run, ())
            items_of_run[run] = items if len(items) > _TEMPLATE else items + alone
    return {run: items for run, items in items_of_run.items() if len(items) <= _TEMPLATE}


def _runs(words: Words, n: int) -> Iterator[int]:
    return map(hash, zip(*(words[start:] for start in range(n)), strict=False))


_TABLE: Final = bytes(
    byte if byte >= 128 or chr(byte).isalnum() else ord(" ") for byte in range(256)
)
"""Byte to byte: ASCII letters and digits, and all bytes of other characters, unchanged; everything else to a space."""


def _words(text: str) -> Words:
    return text.casefold().encode("utf-8", errors="replace").translate(_TABLE).split()


def _spaced(words: Words) -> bytes:
    # A space at each end, so that only whole words match.
    return b" " + b" ".join(words) + b" "
