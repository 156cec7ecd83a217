"""JSON files piece by piece, so that a log of a gigabyte needs no gigabytes of memory.

    {"results": {...}, "samples": {"arc": [ROW, ROW, ...]}}      `Document`: one document, its rows one by one
    ROW, end of line, ROW, end of line, ...                      `json_lines`: one document a line

Every error names the file and the place; a file that ends too early is one of them.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

from forgetwatch.errors import SnapshotError

Progress = Callable[[int, int], None]
"""Called with what is read, in bytes, samples or files, and how much there is in all."""

_CHUNK: Final = 2**20
_NEAR_END: Final = 64
"""Where a value is cut, the decoder stops at most so many characters before the end, or within a string."""
_BLANK: Final = re.compile(r"[ \t\n\r]*")


def json_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line that is not empty.

    Raises:
        SnapshotError: If a line is no JSON.
    """
    total, done, told, decode = path.stat().st_size, 0, 0, json.JSONDecoder().raw_decode
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and done - told >= _CHUNK:
                told = done
                progress(done, total)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
                if not text:
                    continue
                value, end = decode(text)
                if end < len(text):
                    raise json.JSONDecodeError("Extra data", text, end)
            except (ValueError, RecursionError) as error:
                raise SnapshotError(f"{path}, line {number}: not a JSON object ({error}); is the file cut?") from error
            yield number, value
    if progress is not None:
        progress(total, total)


class Document:
    """One JSON document of any size, of which only the piece at hand is in memory.

    `members` and `elements` go through an object and an array; between two steps the caller reads the value, with
    `value` or by going through it in turn.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._file = path.open("rb")
        self._total = path.stat().st_size
        self._progress = progress
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = self._at if blank is None else blank.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """The names in the object that begins here."""
        for _ in self._parts("{", "}"):
            name = self.value() if self.peek() == '"' else None
            if not isinstance(name, str):
                raise self._broken("a name in quotes")
            self._take(":")
            yield name

    def elements(self) -> Iterator[None]:
        """One step for each value of the array that begins here."""
        yield from self._parts("[", "]")

    def value(self) -> Any:
        """The value that begins here, whole."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _NEAR_END
                if cut and self._more():
                    continue
                raise self._broken(f"JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise self._broken(f"JSON: {error}") from error
            rest = self._text[end : end + _NEAR_END]
            is_number = self._text[end - 1] not in '"]}'
            if is_number and len(rest) < _NEAR_END and not rest.strip("0123456789+-.eE") and self._more():
                continue  # it may go on
            self._at = end
            return value

    def end(self) -> None:
        """Nothing but blanks may follow."""
        if self.peek():
            raise self._broken("the end of the document")

    def _parts(self, opening: str, closing: str) -> Iterator[None]:
        self._take(opening)
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self.peek() == closing:
                self._at += 1
                return
            self._take(",")

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self._broken(repr(character))
        self._at += 1

    def _more(self) -> bool:
        """Read on; what was used is dropped. False at the end of the file."""
        rest = self._text[self._at :]
        chunk = self._file.read(max(_CHUNK, len(rest)))  # twice as much each time: a long value is not read too often
        try:
            self._text, self._at = rest + self._utf8.decode(chunk, final=not chunk), 0
        except UnicodeDecodeError as error:
            raise SnapshotError(
                f"{self.path}: not UTF-8 text ({error.reason}, near byte {self._file.tell():,})"
            ) from error
        if self._progress is not None:
            self._progress(self._file.tell(), self._total)
        return bool(chunk)

    def _broken(self, needed: str) -> SnapshotError:
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "the end of the file"
        byte = self._file.tell() - len(self._text[self._at :].encode("utf-8", "surrogatepass"))
        return SnapshotError(f"{self.path}: needed {needed}, got {found} (near byte {byte:,}); is the file cut?")


def opening(path: Path) -> tuple[bool, dict[str, str]]:
    """Whether a file begins with an array; and the names in its first object, up to ``samples``.

    The object may stand alone, begin a line, or be the first of the array. Each name comes with the first character of
    its value. None where there is no object; where the text breaks, those that stand before.
    """
    is_array, names = False, dict[str, str]()
    with Document(path) as document:
        try:
            if is_array := document.peek() == "[":
                next(document.elements(), None)
            for name in document.members():
                names[name] = document.peek()
                if name == "samples":
                    break
                document.value()
        except SnapshotError:
            pass  # the reader of the format says what is wrong, and where
    return is_array, names
