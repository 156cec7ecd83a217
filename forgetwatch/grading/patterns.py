r"""Answers that are compared with the text of an output: exact, contains, and regular expressions.

    exact                                     the whole output is the answer; white space counts as one space
    exact:fold                                the same without case
    contains                                  the answer is in the output as whole words, without case: "Paris", and
                                              not "Parisian"
    regex, answer r"santiago( de chile)?"     right if the pattern is found
    regex:total: (\d+), answer "12"           right if the last match's first group is the answer; without a group the
                                              whole match is compared

An output that contains the right answer among other text is no other answer: for ``exact`` it is wrong, and its form is
what is wrong.

Python's `re` has no time limit, and a backtracking matcher tries every way to divide a text among the repeats of a
pattern. Two rules bound a search to about 10^8 steps of the matcher, a second:

* A repeat within a repeat, ``(a+)+``, or repeated alternatives that begin alike, ``(a|ab)*``, take exponential time.
  Such patterns are refused (`unsafe_reason`).
* q repeats in a row, ``a*a*a*``, take about m^q / q! steps from a position with m characters left. The more repeats a
  pattern has, the fewer characters at the end of an output it searches (`reach`).

Possessive repeats (``a++``) and atomic groups never backtrack and cost nothing. Both rules err on the side of refusing:
some patterns that they refuse or bound would be fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.text import NOTHING, TAIL, Extracted, collapse_spaces, fold, tail, whole_words


def match_exact(body: str, answers: Sequence[str], *, case: bool) -> tuple[Extracted, bool]:
    """(The whole output, is it one of the answers); at most the last `TAIL` characters are compared."""
    output = collapse_spaces(tail(body))
    if not output:
        return NOTHING, False
    text, wanted = output, [collapse_spaces(answer) for answer in answers]
    if not case:
        text, wanted = output.casefold(), [answer.casefold() for answer in wanted]
    right = text in wanted
    form = right or not _contained(output, answers)
    # White space after a right answer shows that the next token did not continue it.
    return Extracted(text=output, form=form, settled=right and body[-1:].isspace()), right


def match_contained(body: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """(First of the answers that is in the output's last `TAIL` characters, is there one)."""
    text = _comparable(tail(body))
    if not text:
        return NOTHING, False
    inside = _contained(body, answers)
    if not inside:
        return Extracted(text=None, form=True), False
    end = max(found.end() for found in whole_words(_comparable(inside[0])).finditer(text))
    return Extracted(text=inside[0], form=True, settled=end < len(text) or body[-1:].isspace()), True


def match_any(body: str, patterns: Sequence[str]) -> tuple[Extracted, bool]:
    """(Last match of the first pattern that is found, is one found).

    Raises:
        ProbeError: See `compiled`.
    """
    for pattern in patterns:
        if found := _last(body, pattern):
            return found, True
    return (Extracted(form=True) if body.strip() else NOTHING), False


def match_last(body: str, pattern: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """(Last match of a pattern, is it one of the answers); compared without case and with single spaces.

    Raises:
        ProbeError: See `compiled`.
    """
    found = _last(body, pattern)
    if found is None or found.text is None:
        return NOTHING, False
    return found, collapse_spaces(found.text).casefold() in {collapse_spaces(answer).casefold() for answer in answers}


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> tuple[re.Pattern[str], int]:
    """(Compiled pattern, number of characters at the end of an output that it searches).

    Raises:
        ProbeError: If it is no regular expression, or one that could take exponential time.
    """
    try:
        made = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise ProbeError(f"needed a regular expression, got {pattern!r}: {error}") from error
    if problem := unsafe_reason(pattern):
        raise ProbeError(f"regular expression {pattern!r}: {problem}")
    return made, reach(pattern)


def _last(body: str, pattern: str) -> Extracted | None:
    """The last match of a pattern, or its first group where that took part in the match."""
    made, limit = compiled(pattern)
    text = tail(body, limit)
    last = None
    for match in made.finditer(text):
        last = match
    if last is None:
        return None
    whole = last[1] if made.groups and last[1] is not None else last[0]
    return Extracted(text=whole, form=True, settled=last.end() < len(text) or body[-1:].isspace())


def _contained(body: str, answers: Sequence[str]) -> list[str]:
    """The answers that are in the output as whole words."""
    output = _comparable(tail(body))
    return [answer for answer in answers if (text := _comparable(answer)) and whole_words(text).search(output)]


def _comparable(text: str) -> str:
    return collapse_spaces(fold(text).casefold())


_STEPS: Final = 1e8
"""Steps of the matcher that one search may take."""

# One token of a pattern: an escape, a character class, a comment, an opening parenthesis with its flags, a repeat.
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?\#[^)]*\)|\((?:\?(?:P<\w+>|P=\w+|<?[=!]|[aiLmsux-]*:|>|[aiLmsux-]+(?=\))|\(\w+\)))?"
    r"|[)|]|(?P<repeat>[*+]|\{\d*,\d*\}|\{\d+\}|\?)(?P<kind>[+?]?)|.",
    re.DOTALL,
)


class _Group:
    """Part of a pattern between two parentheses.

    Attributes:
        atomic: True for ``(?>...)``, which never backtracks.
        varies: True if it holds a repeat that can match in more than one length.
        heads: First token of each alternative; empty where there is none yet.
    """

    def __init__(self, *, atomic: bool) -> None:
        self.atomic = atomic
        self.varies = False
        self.heads: list[str] = [""]

    def add(self, token: str) -> None:
        """Record a token; only the first of an alternative matters."""
        self.heads[-1] = self.heads[-1] or token

    @property
    def alike(self) -> bool:
        """True if two alternatives may begin with the same character."""
        # A class, an escape or an anchor may begin like anything: only plain characters are told apart.
        heads = [head.casefold() for head in self.heads]
        plain = all(len(head) == 1 and head not in ".^$" for head in heads)
        return len(heads) > 1 and (not plain or len(set(heads)) < len(heads))


def unsafe_reason(pattern: str) -> str | None:
    """Reason why a valid pattern could take exponential time; None if it cannot."""
    return next((problem for problem in _walk(pattern) if isinstance(problem, str)), None)


def reach(pattern: str) -> int:
    """Number of characters at the end of an output that a safe pattern searches, at most `TAIL`."""
    # With m characters left a position costs m^q / q! steps: over all positions n^(q+1) / (q+1)!. Solved for n.
    repeats = sum(1 for repeat in _walk(pattern) if repeat is None)
    return min(TAIL, int((_STEPS * math.factorial(repeats + 1)) ** (1 / (repeats + 1))))


def _walk(pattern: str) -> Iterator[str | None]:
    """Yield None for each repeat that can backtrack, and a sentence for each that is refused."""
    groups = [_Group(atomic=False)]
    closed: _Group | None = None  # the group that the next token may repeat
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
            # A possessive repeat never backtracks; a fixed count has one way to match.
            if token["kind"] != "+" and low != high:
                groups[-1].varies = True
                if high > 1:
                    yield None
            closed = None
            continue
        closed = None
        if text.startswith("(") and not text.startswith("(?#"):
            groups[-1].add(text)
            groups.append(_Group(atomic=text == "(?>"))
        elif text == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].varies |= closed.varies and not closed.atomic
        elif text == "|":
            groups[-1].heads.append("")
        else:
            groups[-1].add(text)


def _bounds(repeat: str) -> tuple[float, float]:
    """(Fewest, most) times that a repeat matches."""
    if repeat in ("*", "+", "?"):
        return {"*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}[repeat]
    low, comma, high = repeat.strip("{}").partition(",")
    return int(low or 0), int(high) if high else (math.inf if comma else int(low))
