"""Questions of some rows of a log as text, kept while the log is read.

    store = QuestionStore(hashes)
    load_snapshot(path, kept=store)
    store.texts["9f2c41d07a6be310"].prompt

A snapshot has no questions, and a log of a million rows has too many to keep. The questions that a report shows are
therefore read in a second pass, by their content hash. A tool logs a question as a document with field names of its
own. The names that are common in data sets are known here; of any other document the longest text is shown, or all of
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class QuestionText:
    """One question as text."""

    prompt: str
    choices: tuple[str, ...] = ()  # empty for an open answer
    answers: tuple[str, ...] = ()  # right answers of an open answer, as far as they are known


class QuestionStore:
    """The questions of the rows with these content hashes, filled while the log is read."""

    def __init__(self, hashes: Iterable[str]) -> None:
        self.texts: dict[str, QuestionText] = {}  # those found so far, by content hash
        self._hashes = frozenset(hashes)

    def add(self, content_hash: str, question: Any) -> None:
        """Keep a logged question if its hash is one of those wanted; the first one of a hash counts."""
        if content_hash in self._hashes and content_hash not in self.texts:
            self.texts[content_hash] = question_text(question)


# Shown in this order: a document may have both a question and a longer field that is no question.
_PROMPTS: Final = (
    *("passage", "context", "question", "query", "prompt", "input", "ctx", "problem", "sentence", "goal", "text"),
    "instruction",
)
_CHOICE_FIELDS: Final = ("choices", "options", "endings", "answers", "mc1_targets")


def question_text(question: Any) -> QuestionText:
    """The text of a logged question: a text or document; or a list of it, the right answers, and any options.

    >>> question_text([{"id": 7, "question": "Capital of Chile?", "choices": {"text": ["Lima", "Santiago"]}}, "1"])
    QuestionText(prompt='Capital of Chile?', choices=('Lima', 'Santiago'), answers=('1',))
    """
    parts = list(question) if isinstance(question, (list, tuple)) else [question]
    document, rest = (parts[0], parts[1:]) if parts else ("", [])
    answers = tuple(map(str, _as_list(rest[0]))) if rest else ()
    choices = tuple(map(str, _as_list(rest[1]))) if len(rest) > 1 and rest[1] else _choices(document)
    return QuestionText(prompt=_prompt(document), choices=choices, answers=answers)


def _prompt(document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, Mapping):
        texts = {name: text for name, text in document.items() if isinstance(text, str) and text.strip()}
        found = [texts[name] for name in _PROMPTS if name in texts]
        if not found and texts:
            found = [max(texts.values(), key=len)]  # no known field: the longest text is the likeliest question
        return "\n\n".join(found) or json.dumps(document, ensure_ascii=False, indent=1, default=str)
    if (
        isinstance(document, list)
        and document
        and all(isinstance(message, Mapping) and "content" in message for message in document)
    ):
        return "\n\n".join(f"{message.get('role', '')}: {_prompt(message['content'])}" for message in document)
    return json.dumps(document, ensure_ascii=False, default=str)


def _choices(document: Any) -> tuple[str, ...]:
    if not isinstance(document, Mapping):
        return ()
    for name in _CHOICE_FIELDS:
        value = document.get(name)
        if isinstance(value, Mapping):  # ARC and TruthfulQA keep texts and labels side by side
            value = value.get("text") or value.get("choices")
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return tuple(value)
    return ()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
