r"""Answers that a regular expression finds: the last match in the output, without case.

    match "regex", answer r"santiago( de chile)?"      right if the pattern is found
    match r"regex:total: (\d+)", answer "12"           right if the last match's first group is the answer

Without a group the whole match is compared. `pattern_guard` says which patterns are refused, and how much of a long
output a pattern sees.

What keeps a regular expression from running for hours: Python's `re` has no time limit.

A backtracking matcher tries every way to share a text between the repeats of a pattern. A repeat within a repeat,
``(a+)+``, or a repeated choice between alternatives that begin alike, ``(a|ab)*``, has exponentially many ways: such
patterns are refused. q repeats in a row, ``a*a*a*``, have about n^q / q! ways from each of n places: the longer a
pattern's row of repeats, the shorter the end of the output that it is shown, so that a search is at most some 10^8
steps of the matcher, about a second. Possessive repeats (``a++``) and atomic groups give back nothing and are free.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.text import NOTHING, TAIL, Found, spaced, tail

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


_STEPS: Final = 1e8
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?\#[^)]*\)|\((?:\?(?:P<\w+>|P=\w+|<?[=!]|[aiLmsux-]*:|>|[aiLmsux-]+(?=\))|\(\w+\)))?"
    r"|[)|]|(?P<repeat>[*+]|\{\d*,\d*\}|\{\d+\}|\?)(?P<kind>[+?]?)|.",
    re.DOTALL,
)


class _Group:
    """What stands between two parentheses."""

    def __init__(self, *, atomic: bool) -> None:
        self.atomic = atomic
        self.varies = False  # holds something that can match in more than one length
        self.heads: list[str] = [""]  # what each alternative begins with

    def begins(self, token: str) -> None:
        self.heads[-1] = self.heads[-1] or token

    @property
    def alike(self) -> bool:
        """Whether two alternatives may begin with the same character."""
        heads = [head.casefold() for head in self.heads]
        plain = all(len(head) == 1 and head not in ".^$" for head in heads)
        return len(heads) > 1 and (not plain or len(set(heads)) < len(heads))


def why_unsafe(pattern: str) -> str | None:
    """What in a valid pattern could take exponential time; None if nothing does."""
    return next((problem for problem in _walk(pattern) if isinstance(problem, str)), None)


def reach(pattern: str) -> int:
    """How many characters at the end of an output a safe pattern is shown, at most `TAIL`."""
    repeats = sum(1 for repeat in _walk(pattern) if repeat is None)
    return min(TAIL, int((_STEPS * math.factorial(repeats + 1)) ** (1 / (repeats + 1))))


def _walk(pattern: str) -> Iterator[str | None]:
    """None for each repeat that can give back, and a sentence for each that must not be."""
    groups = [_Group(atomic=False)]
    closed: _Group | None = None  # the group that ended right before
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["repeat"]:
            low, high = _bounds(token["repeat"])
            if high > 1 and closed and not closed.atomic and (closed.varies or closed.alike):
                inside = "a repeat" if closed.varies else "alternatives that may begin alike"
                yield (
                    f"{text!r} at character {token.start() + 1} repeats a group that holds {inside}, which can take for"
                    " ever on some text; make the inner repeat possessive ('a++') or the group atomic ('(?>...)')"
                )
            if token["kind"] != "+" and low != high:
                groups[-1].varies = True
                if high > 1:
                    yield None
            closed = None
            continue
        closed = None
        if text.startswith("(") and not text.startswith("(?#"):
            groups[-1].begins(text)
            groups.append(_Group(atomic=text == "(?>"))
        elif text == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].varies |= closed.varies and not closed.atomic
        elif text == "|":
            groups[-1].heads.append("")
        else:
            groups[-1].begins(text)


def _bounds(repeat: str) -> tuple[float, float]:
    """The fewest and the most times that a repeat matches."""
    if repeat in ("*", "+", "?"):
        return {"*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}[repeat]
    low, comma, high = repeat.strip("{}").partition(",")
    return int(low or 0), int(high) if high else (math.inf if comma else int(low))
