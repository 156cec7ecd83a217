"""Runs of words in long texts, hashed at once: every run of n words of a megabyte in a few numpy calls.

    b" the capital of chile "     words in lower case, one space between and around them
    hash of words i to j          (S[end of j] - S[start of i]) / B^(start of i)   modulo 2^64

with S the prefix sums of byte * B^place. A division is a product with the inverse power of the odd base B, so that
equal runs have equal hashes wherever they stand. Unlike runs hardly ever meet; what matters is compared as text
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
