"""The questions of some rows of a log, as people read them: kept in passing, while a log is read.

    kept = Kept(hashes)
    load_snapshot(path, kept=kept)
    kept.asked["9f2c41d07a6be310"].prompt

A snapshot holds no questions, and a log of a million rows has too many to keep. So those that a report shows are read
in a second pass, by their content hash. What a tool logs as a question is a document of its own making; the names that
data sets commonly have are known here, and of any other document all of it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question in words.

    Attributes:
        prompt: What was asked.
        choices: The options; empty for an open answer.
        answers: The right answers of an open answer, as far as they are known.
    """

    prompt: str
    choices: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class Kept:
    """Keeps some questions of a log while it is read.

    Attributes:
        asked: What was kept, by content hash.

    Args:
        hashes: Content hashes of the rows whose questions are kept.
    """

    def __init__(self, hashes: Iterable[str]) -> None:
        self.asked: dict[str, Asked] = {}
        self._hashes = frozenset(hashes)

    def see(self, hashed: str, question: Any) -> None:
        """Keep a question, if it is one of those."""
        if hashed in self._hashes and hashed not in self.asked:
            self.asked[hashed] = in_words(question)


_PROMPTS: Final = ("question", "query", "prompt", "input", "ctx", "problem", "sentence", "goal", "text", "instruction")
_CHOICES: Final = ("choices", "options", "endings", "answers", "mc1_targets")


def in_words(question: Any) -> Asked:
    """A logged question in words: a list of a document or text, the right answer, and the options where there are any.

    >>> in_words([{"id": 7, "question": "Capital of Chile?", "choices": {"text": ["Lima", "Santiago"]}}, "1"])
    Asked(prompt='Capital of Chile?', choices=('Lima', 'Santiago'), answers=('1',))
    """
    parts = list(question) if isinstance(question, (list, tuple)) else [question]
    document, rest = (parts[0], parts[1:]) if parts else ("", [])
    answers = tuple(str(one) for one in _list(rest[0])) if rest else ()
    choices = tuple(map(str, _list(rest[1]))) if len(rest) > 1 and rest[1] else _choices(document)
    return Asked(prompt=_prompt(document), choices=choices, answers=answers)


def _prompt(document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, Mapping):
        found = [str(document[name]) for name in ("passage", "context", *_PROMPTS) if _is_words(document.get(name))]
        if not found and (words := [text for text in document.values() if _is_words(text)]):
            found = [max(words, key=len)]  # of a document with names of its own: its longest text
        return "\n\n".join(found) or json.dumps(document, ensure_ascii=False, indent=1, default=str)
    if (
        isinstance(document, list)
        and document
        and all(isinstance(one, Mapping) and "content" in one for one in document)
    ):
        return "\n\n".join(f"{one.get('role', '')}: {_prompt(one['content'])}" for one in document)
    return json.dumps(document, ensure_ascii=False, default=str)


def _is_words(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _choices(document: Any) -> tuple[str, ...]:
    if not isinstance(document, Mapping):
        return ()
    for name in _CHOICES:
        there = document.get(name)
        if isinstance(there, Mapping):
            there = there.get("text") or there.get("choices")
        if isinstance(there, list) and there and all(isinstance(one, str) for one in there):
            return tuple(there)
    return ()


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
