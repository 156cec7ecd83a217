r"""Answers that are compared with the text of an output: exact, contains, and regular expressions.

    exact                                     the whole output is the answer; white space counts as one space
    exact:fold                                the same without case
    contains                                  the answer is in the output as whole words, without case: "Paris", and
                                              not "Parisian"; unscored where that cannot be decided (`words`)
    regex, answer r"santiago( de chile)?"     right if the pattern is found
    regex:total: (\d+), answer "12"           right if the last match's first group is the answer; without a group the
                                              whole match is compared

An output that contains the right answer among other text is no other answer: for ``exact`` it is wrong, and its form is
what is wrong.

Patterns are those of the package regex in its compatible mode, without case, and with ``^`` and ``$`` at every line.
They match nearly what `re` matches; unlike are the cases of letters such as ı, what counts as a letter (marks do, ²
does not), ``[[:digit:]]``, and fuzzy matches such as ``(ab){e<=1}``. A search that computes for longer than `SECONDS`
stops, and the output is unscored, with the reason. The time is that of the whole process, and is looked at now and
then: some searches take a few times as long. Memory is not bounded; patterns with large counts within counts, which
would take most of it when they are compiled, and patterns that call themselves are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import regex

from forgetwatch.errors import ProbeError
from forgetwatch.grading.text import NOTHING, Extracted, collapse_spaces, fold_case, tail
from forgetwatch.grading.words import Occurrence, comparable, find_words, turkish


def match_exact(body: str, answers: Sequence[str], *, case: bool) -> tuple[Extracted, bool]:
    """Return (The whole output, is it one of the answers); at most the last `TAIL` characters are compared."""
    output = collapse_spaces(tail(body))
    if not output:
        return NOTHING, False
    text, wanted = output, [collapse_spaces(answer) for answer in answers]
    if not case:
        text, wanted = fold_case(output), [fold_case(answer) for answer in wanted]
    right = text in wanted
    form = right or not any(_found(output, answer)[0] for answer in answers)
    # White space after a right answer shows that the next token did not continue it.
    return Extracted(text=output, form=form, settled=right and body[-1:].isspace()), right


def match_contained(body: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (First of the answers that is in the output's last `TAIL` characters, is there one).

    Unscored where it cannot be decided whether an answer is a word of its own.
    """
    if not body.strip():
        return NOTHING, False
    undecided = ""
    for answer in answers:
        found, size = _found(body, answer)
        if certain := [one.end for one in found if one.certain]:
            return Extracted(text=answer, form=True, settled=max(certain) < size or body[-1:].isspace()), True
        undecided = undecided or (answer if found else "")
    if undecided:
        return Extracted(unscored=f"it cannot be decided whether {undecided!r} is a word of its own there"), False
    return Extracted(text=None, form=True), False


def match_any(body: str, patterns: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (Last match of the first pattern that is found, is one found); ProbeError by `check_pattern`."""
    for pattern in patterns:
        if found := _last(body, pattern):
            return found, not found.unscored
    return (Extracted(form=True) if body.strip() else NOTHING), False


def match_last(body: str, pattern: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (Last match of a pattern, is it one of the answers, without case and with single spaces).

    See `match_any`.
    """
    found = _last(body, pattern)
    if found is None or found.text is None:
        return found or NOTHING, False
    return found, fold_case(collapse_spaces(found.text)) in {fold_case(collapse_spaces(answer)) for answer in answers}


SECONDS: Final = 2.0
"""Time limit of one search."""

FLAGS: Final = regex.IGNORECASE | regex.MULTILINE | regex.VERSION0

LONGEST: Final = 10_000
"""Limit of the characters of a pattern."""

_SHOWN: Final = 200
"""Characters of a pattern that an error shows."""

_EXPANDED: Final = 100_000
"""Limit of the parts of a pattern with its counts written out: ``((ab){100}){100}`` has 20,000."""

_TOKEN: Final = regex.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\s*\{(?:\d*,)?(?P<count>\d+),?\}|(?P<parenthesis>[()])|.", regex.DOTALL
)

_RECURSION: Final = regex.compile(r"\(\?(?:R|\d|[+-]\d|&|P>)")

_TIMEOUTS: Final = 30
"""Searches of one pattern that may reach the time limit, a minute of them, before it is not searched again."""

_timed_out: Final = Counter[str]()


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a regular expression; raise ProbeError for a text that is none, or that costs too much."""
    shown = repr(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}...")
    if len(pattern) > LONGEST:
        raise ProbeError(
            f"needed a regular expression of at most {LONGEST:,} characters, got {len(pattern):,}: {shown}"
        )
    if (parts := _expanded(pattern)) > _EXPANDED:
        raise ProbeError(
            f"regular expression {shown}: it has {parts:.0e} parts with its counts written out, needed at most "
            f"{_EXPANDED:,}; write smaller counts, or '*' in place of a count"
        )
    if _RECURSION.search(pattern):
        raise ProbeError(f"regular expression {shown}: it calls itself, which can take all memory; write it out")
    try:
        return regex.compile(pattern, FLAGS)
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError) as error:
        raise ProbeError(f"needed a regular expression that can be compiled, got {shown}: {error}") from error


def _expanded(pattern: str) -> int:
    """Return the number of parts of a pattern with its counts written out, about."""
    sums, latest = [0], 0  # of each open group; of the part that a count would repeat
    for token in _TOKEN.finditer(pattern):
        if (count := token["count"]) is not None:
            sums[-1] += latest * (max(int(count[:9]), 1) - 1)
            latest *= max(int(count[:9]), 1)
        elif token["parenthesis"] == "(":
            sums.append(0)
        elif token["parenthesis"] == ")" and len(sums) > 1:
            latest = sums.pop()
            sums[-1] += latest
        elif not token[0].isspace():
            latest = 1
            sums[-1] += 1
    return sum(sums)


def _last(body: str, pattern: str) -> Extracted | None:
    """Return the last match of a pattern, or its first group where that took part in the match."""
    compiled, text, last = check_pattern(pattern), tail(body), None
    if _timed_out[pattern] >= _TIMEOUTS:
        return Extracted(unscored=f"its pattern took longer than {SECONDS:g} s on {_TIMEOUTS} outputs before")
    try:
        for match in compiled.finditer(text, timeout=SECONDS):
            last = match
    except TimeoutError:
        _timed_out[pattern] += 1
        return Extracted(unscored=f"its pattern took longer than {SECONDS:g} s")
    except MemoryError:
        return Extracted(unscored="its pattern needs more memory than there is")
    if last is None:
        return None
    found = last[1] if compiled.groups and last[1] is not None else last[0]
    return Extracted(text=found, form=True, settled=last.end() < len(text) or body[-1:].isspace())


def _found(body: str, answer: str) -> tuple[list[Occurrence], int]:
    """Return (Where an answer is in the end of an output, that end's length as it is compared)."""
    for fold in (comparable, turkish):
        output = fold(tail(body))
        if found := list(find_words([fold(answer)], output)):
            return found, len(output)
    return [], 0
