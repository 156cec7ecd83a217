r"""Answers that a regular expression finds: the last match in the output, without case.

    match "regex", answer r"santiago( de chile)?"      right if the pattern is found
    match r"regex:total: (\d+)", answer "12"           right if the last match's first group is the answer

Without a group the whole match is compared. `pattern_guard` says which patterns are refused, and how much of a long
output a pattern sees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.extraction.found import NOTHING, Found
from forgetwatch.extraction.pattern_guard import reach, why_unsafe
from forgetwatch.extraction.text import spaced, tail

_FLAGS: Final = re.IGNORECASE | re.MULTILINE


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> tuple[re.Pattern[str], int]:
    """The pattern, and how many characters at the end of an output it is shown.

    Raises:
        ProbeError: If it is no regular expression, or one that could take exponential time.
    """
    try:
        made = re.compile(pattern, _FLAGS)
    except (re.error, RecursionError, OverflowError) as error:
        raise ProbeError(f"needed a regular expression, got {pattern!r}: {error}") from error
    if problem := why_unsafe(pattern):
        raise ProbeError(f"regular expression {pattern!r}: {problem}")
    return made, reach(pattern)


def is_found(body: str, patterns: Sequence[str]) -> tuple[Found, bool]:
    """The last match of the first pattern that is found, and whether one is.

    Raises:
        ProbeError: See `compiled`.
    """
    for pattern in patterns:
        if found := _last(body, pattern):
            return found, True
    return (Found(form=True) if body.strip() else NOTHING), False


def last_match(body: str, pattern: str, answers: Sequence[str]) -> tuple[Found, bool]:
    """The last match of a pattern, and whether it is one of the answers, without case and with single spaces.

    Raises:
        ProbeError: See `compiled`.
    """
    found = _last(body, pattern)
    if found is None or found.text is None:
        return NOTHING, False
    return found, spaced(found.text).casefold() in {spaced(answer).casefold() for answer in answers}


def _last(body: str, pattern: str) -> Found | None:
    made, limit = compiled(pattern)
    text = tail(body, limit)
    last = None
    for match in made.finditer(text):
        last = match
    if last is None:
        return None
    whole = last[1] if made.groups and last[1] is not None else last[0]
    return Found(text=whole, form=True, settled=last.end() < len(text) or body[-1:].isspace())
