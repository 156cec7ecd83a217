"""YAML from people, read as texts, lists and mappings and nothing else.

Every scalar stays the text in the file: an id 017 is not 15, a category `no` not false, and 2% needs no quotes. No tag
makes an object. A repeated key is an error, since the last one would silently win; so are anchors, with which a few
lines can expand to billions, and nesting beyond `MAX_DEPTH`, which costs the parser the square of the depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import yaml

from forgetwatch.errors import ForgetwatchError
from forgetwatch.files.reading import file_errors, is_text, read_text

Plain = str | Sequence["Plain"] | dict[str, "Plain"]

MAX_DEPTH: Final = 20
MAX_SIZE: Final = 2**19
"""Bytes of a file of YAML; the parser needs up to 4 seconds for them."""


def read_plain_yaml(path: Path, needed: str, error: type[ForgetwatchError]) -> Plain:
    """The one document in a file, by `parse_plain_yaml`; a file that cannot be read is an `error` too."""
    return parse_plain_yaml(read_text(path, needed, error, limit=MAX_SIZE), path, needed, error)


def parse_plain_yaml(text: str, source: str | Path, needed: str, error: type[ForgetwatchError]) -> Plain:
    """Parse the one document in a text; an empty one is an empty text.

    Args:
        text: YAML.
        source: Name of the file, for messages.
        needed: Its expected content, with its article, as messages name it.
        error: Class of the errors.

    Raises:
        ForgetwatchError: `error`, if it is not YAML, or has anchors, deep nesting, repeated keys, or keys that are not
            texts.
    """
    with file_errors(source, needed, error):
        try:
            return _Parser(text, str(source), error).document()
        except yaml.YAMLError as problem:
            cause = " ".join(str(problem).split())
            raise error(f"{source}: needed {needed}, and it is not YAML: {cause}") from problem


class _Parser:
    """Values from the parser's events, one by one: an alias and a deep nesting are refused before the rest is read."""

    def __init__(self, text: str, source: str, error: type[ForgetwatchError]) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.BaseLoader)
        self._source, self._error = source, error

    def document(self) -> Plain:
        """The one document; an empty text if there is none."""
        found: Plain = ""
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refused(event, "needed one document, got a second one (---)")
                found = self._value(next(self._events), depth=0)
        return found

    def _value(self, event: yaml.Event, depth: int) -> Plain:
        """The value that begins with an event."""
        if isinstance(event, yaml.ScalarEvent):
            if not is_text(event.value):
                raise self._refused(event, f"{event.value!r:.80} is half of a surrogate pair and no text")
            return str(event.value)
        if isinstance(event, yaml.AliasEvent):
            raise self._refused(event, "anchors are not read; write it out")
        if depth >= MAX_DEPTH:
            raise self._refused(event, f"nested more than {MAX_DEPTH} deep")
        # The first end that is met here is that of this collection: those of its parts are taken with the parts.
        parts = takewhile(lambda part: not isinstance(part, yaml.CollectionEndEvent), self._events)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(part, depth + 1) for part in parts]
        made: dict[str, Plain] = {}
        for part in parts:
            name = self._value(part, depth + 1)
            if not isinstance(name, str):
                raise self._refused(part, "needed a text as the key, got a list or a mapping")
            if name in made:
                raise self._refused(part, f"{name!r:.80} is there twice; only one of the two would count")
            made[name] = self._value(next(self._events), depth + 1)
        return made

    def _refused(self, event: yaml.Event, reason: str) -> ForgetwatchError:
        line = "" if event.start_mark is None else f", line {event.start_mark.line + 1}"
        return self._error(f"{self._source}{line}: {reason}")
