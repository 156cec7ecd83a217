"""What the cells of a table of one's own mean: lists that are written out, answers that name an option, open answers.

"['Lima', 'Santiago']"  two options            "B", "1", "Santiago"  the second of them
"5", "$5", "5 %"        judged as a number     "Apollo 11"           words that must stand in the answer
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from forgetwatch.extraction.number import numbers, readable
from forgetwatch.probe import LETTERS


def is_there(cell: Any) -> bool:
    """Whether there is anything in a cell."""
    return cell is not None and bool(str(cell).strip())


def place_of(answer: Any, choices: Sequence[str], labels: Sequence[str]) -> int | None:
    """Which option an answer names: by its text, its label, its letter or its index."""
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, bool) or not isinstance(answer, (int, str)):
        return None
    if isinstance(answer, str):
        text = answer.strip()
        texts = [choice.strip() for choice in choices]
        if texts.count(text) == 1:
            return texts.index(text)
        if text in labels:
            return labels.index(text)
        bare = text.strip("().").upper()
        if len(bare) == 1 and bare in LETTERS[: len(choices)]:
            return LETTERS.index(bare)
        if not text.isascii() or not text.isdigit():
            return None
        answer = int(text)
    return answer if 0 <= answer < len(choices) else None


def open_answers(value: Any, *, is_json: bool) -> tuple[str, ...]:
    """The texts of an open answer: one, or each of a list; a JSON value is one, but for a list of texts."""
    given = value if is_json else parsed(value)
    if isinstance(given, (list, tuple)) and (not is_json or all(isinstance(one, str) for one in given)):
        return tuple(map(str, given))
    if isinstance(given, str) or not (is_json or isinstance(given, Mapping)):
        return (str(given),)
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),)


def parsed(value: Any) -> Any:
    """A list or object that is written out as text, as JSON or as Python; anything else as it is."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            return read(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def match_of(answers: Sequence[str]) -> str:
    """How an open answer is judged where the table does not say."""
    return "number" if all(_is_number(readable(text.strip())) for text in answers) else "contains"


def _is_number(text: str) -> bool:
    """Whether a text is one number and at most a sign beside it: ``$5``, ``5 %``, not ``Apollo 11``."""
    found = numbers(text)
    return len(found) == 1 and len(text) <= found[0].end + 2 and not any(map(str.isalpha, text[: found[0].start]))


def shown(value: Any) -> str:
    """A value for a message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
