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

Patterns are Python's, without case, and with ``^`` and ``$`` at every line. They come from files and from the command
line, so they are compiled and searched by `BoundedSearch`, in a process of their own that is ended when it has computed
for 2 seconds. An output whose search reaches a limit is unscored, with the reason.

Two rules give an earlier answer. They know common forms only, and a pattern that passes them may still reach the limit:

* A repeat within a repeat, ``(a+)+``, repeated alternatives that begin alike, ``(a|ab)*``, and the same choice many
  times in a row, ``a?a?a?...``, take exponential time. Such patterns are refused with the remedy (`unsafe_reason`).
* q repeats in a row, ``a*a*a*``, take about m^q / q! steps from a position with m characters left. The more repeats a
  pattern has, the fewer characters at the end of an output it searches (`reach`), so that a search takes about 10^8
  steps of the matcher at most, which is a second.

Possessive repeats (``a++``) and atomic groups never backtrack and cost nothing. Both rules err on the side of refusing:
some patterns that they refuse or bound would be fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.bounded_search import BoundedSearch
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
    """(Last match of the first pattern that is found, is one found); ProbeError by `check_pattern`."""
    for pattern in patterns:
        if found := _last(body, pattern):
            return found, not found.unscored
    return (Extracted(form=True) if body.strip() else NOTHING), False


def match_last(body: str, pattern: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """(Last match of a pattern, is it one of the answers, without case and with single spaces); see `match_any`."""
    found = _last(body, pattern)
    if found is None or found.text is None:
        return found or NOTHING, False
    return found, collapse_spaces(found.text).casefold() in {collapse_spaces(answer).casefold() for answer in answers}


LONGEST: Final = 10_000
"""Limit of the characters of a pattern."""
_SHOWN: Final = 200
"""Characters of a pattern that an error shows."""
_SEARCH: Final = BoundedSearch()


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> None:
    """Raise ProbeError for a text that is no regular expression, is too long, or takes exponential time."""
    shown = repr(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}...")
    if len(pattern) > LONGEST:
        raise ProbeError(
            f"needed a regular expression of at most {LONGEST:,} characters, got {len(pattern):,}: {shown}"
        )
    if problem := _SEARCH.compile_problem(pattern):
        raise ProbeError(f"needed a regular expression that can be compiled, got {shown}: {problem}")
    if reason := unsafe_reason(pattern):
        raise ProbeError(f"regular expression {shown}: {reason}")


def _last(body: str, pattern: str) -> Extracted | None:
    """The last match of a pattern, or its first group where that took part in the match."""
    check_pattern(pattern)
    found = _SEARCH.last_match(pattern, tail(body, reach(pattern)))
    if found.problem:
        return Extracted(unscored=found.problem)
    if found.text is None:
        return None
    return Extracted(text=found.text, form=True, settled=not found.at_end or body[-1:].isspace())


def _contained(body: str, answers: Sequence[str]) -> list[str]:
    """The answers that are in the output as whole words."""
    output = _comparable(tail(body))
    return [answer for answer in answers if (text := _comparable(answer)) and whole_words(text).search(output)]


def _comparable(text: str) -> str:
    return collapse_spaces(fold(text).casefold())


_STEPS: Final = 1e8
"""Steps of the matcher that one search of a pattern with repeats in a row takes at most."""
_IN_A_ROW: Final = 15
"""Limit of equal choices in a row: each doubles the ways to match."""

# One token of a pattern: an escape, a character class, a comment, an opening parenthesis with its flags, a repeat.
_SPECIAL: Final = (
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?\#[^)]*\)|\((?:\?(?:P<\w+>|P=\w+|<?[=!]|[aiLmsux-]*:|>|[aiLmsux-]+(?=\))|\(\w+\)))?"
    r"|[)|]|(?P<repeat>[*+]|\{\d*,\d*\}|\{\d+\}|\?)(?P<kind>[+?]?)|"
)
_TOKEN: Final = re.compile(_SPECIAL + "(?P<ignored>(?!))|.", re.DOTALL)
_VERBOSE_TOKEN: Final = re.compile(_SPECIAL + r"(?P<ignored>\s+|\#[^\n]*)|.", re.DOTALL)
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x[a-zA-Z]*\)")


class _Group:
    """Part of a pattern between two parentheses."""

    def __init__(self, *, atomic: bool, start: int) -> None:
        self.atomic = atomic  # True for (?>...), which never backtracks
        self.start = start  # index of its first character in the pattern
        self.varies = False  # True if it holds a repeat that can match in more than one length
        self.heads: list[str] = [""]  # first token of each alternative; empty where there is none yet

    def add(self, token: str) -> None:
        """Record a token; only the first of an alternative matters."""
        self.heads[-1] = self.heads[-1] or token

    @property
    def alike(self) -> bool:
        """True if two alternatives may begin with the same character."""
        # A class, an escape or an anchor may begin like anything: only plain characters are told apart.
        plain = all(len(head) == 1 and head not in ".^$" for head in self.heads)
        # `re` decides, since it takes some letters for equal that have different lower cases, such as i and ı.
        return len(self.heads) > 1 and (
            not plain
            or any(re.fullmatch(re.escape(one), other, re.IGNORECASE) for one, other in combinations(self.heads, 2))
        )


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
    groups = [_Group(atomic=False, start=0)]
    closed: _Group | None = None  # the group that the next token may repeat
    unit = 0  # where the part begins that the next token may repeat
    row = _Row(pattern)
    for token in (_VERBOSE_TOKEN if _VERBOSE.match(pattern) else _TOKEN).finditer(pattern):
        text = token[0]
        if token["ignored"]:
            continue  # neither a space nor a comment comes between a part and its repeat
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
                else:
                    yield from row.extend(unit, token.end())
            closed = None
            continue
        closed = None
        unit = token.start()
        if text.startswith("(") and not text.startswith("(?#"):
            groups[-1].add(text)
            groups.append(_Group(atomic=text == "(?>", start=token.start()))
        elif text == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].varies |= closed.varies and not closed.atomic
            unit = closed.start
            if closed.alike and not closed.atomic:
                yield from row.extend(unit, token.end())
        elif text == "|":
            groups[-1].heads.append("")
        else:
            groups[-1].add(text)


class _Row:
    """Equal choices in a row within a pattern, such as ``a?a?a?`` or ``(a|ab)(a|ab)``."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._choice, self._end, self._count = "", 0, 0

    def extend(self, start: int, end: int) -> Iterator[str]:
        """Add the choice between two indices of the pattern; yield a sentence if its row is too long."""
        choice = self._pattern[start:end]
        self._count = self._count + 1 if choice == self._choice and start == self._end else 1
        self._choice, self._end = choice, end
        if self._count > _IN_A_ROW:
            yield (
                f"{choice[:_SHOWN]!r} is there more than {_IN_A_ROW} times in a row, which can take for ever on some "
                "text; write it once with a count, such as 'a{0,30}'"
            )


def _bounds(repeat: str) -> tuple[float, float]:
    """(Fewest, most) times that a repeat matches."""
    if repeat in ("*", "+", "?"):
        return {"*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}[repeat]
    low, comma, high = repeat.strip("{}").partition(",")
    return int(low or 0), int(high) if high else (math.inf if comma else int(low))
