"""Answers that are compared as they stand: the whole output, or words within it.

    exact       the output is the answer; white space counts as one space
    exact:fold  the same without case
    contains    the answer stands in the output as whole words, without case: "Paris", and not "Parisian"

An output that holds the right answer without being it is no other answer: it is wrong, and its form is what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from forgetwatch.grading.text import NOTHING, Found, fold, one_of, spaced, tail


def exact(body: str, answers: Sequence[str], *, case: bool) -> tuple[Found, bool]:
    """The whole output, and whether it is one of the answers; at most the last `TAIL` characters are compared."""
    said = spaced(tail(body))
    if not said:
        return NOTHING, False
    plain, wanted = said, [spaced(answer) for answer in answers]
    if not case:
        plain, wanted = said.casefold(), [answer.casefold() for answer in wanted]
    right = plain in wanted
    form = right or not _containing(said, answers)
    return Found(text=said, form=form, settled=right and body[-1:].isspace()), right


def contains(body: str, answers: Sequence[str]) -> tuple[Found, bool]:
    """The first of the answers that stands in the output's last `TAIL` characters, and whether there is one."""
    said = _comparable(tail(body))
    if not said:
        return NOTHING, False
    inside = _containing(body, answers)
    if not inside:
        return Found(text=None, form=True), False
    end = max(found.end() for found in one_of(_comparable(inside[0])).finditer(said))
    return Found(text=inside[0], form=True, settled=end < len(said) or body[-1:].isspace()), True


def _containing(body: str, answers: Sequence[str]) -> list[str]:
    """The answers that stand in the output as whole words."""
    said = _comparable(tail(body))
    return [answer for answer in answers if (text := _comparable(answer)) and one_of(text).search(said)]


def _comparable(text: str) -> str:
    return spaced(fold(text).casefold())
