"""The option letter in the place where an answer is stated, such as what follows "Answer:".

    "(B) because ..."    B          "A or B"           two: ambiguous
    "not B but C"        C          "a dog"            none: an article
    "B. Paris"           B          "A dog"            the option that reads "A dog", or else A

A letter counts only where it stands alone: neither in a word nor in "C++", "A-level", "U.S.A".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from forgetwatch.extraction.found import AMBIGUOUS, NOTHING, Found
from forgetwatch.extraction.text import words
from forgetwatch.probe import LETTERS

PART: Final = r"[^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
"""A part of a word, in scripts that put spaces between words."""

ALONE: Final = rf"(?<!{PART})(?<!\w['’.-])([A-Za-z])(?!{PART})(?!['’]\w)(?![-–]\w|\+\+|\#)(?!\.\w(?!\w))(?!\s*=)"
"""A letter that stands alone."""

_NO_PROSE: Final = r"(?!\s+(?!(?:or|and|because|since|as|is|was)\b)[^\W\d_])"
_OPENING: Final = re.compile(
    r"(?:[\s()\[\]{}<>\"'“”‘’«»|:>*–-]|\\boxed|(?:definitely|probably|likely|most|clearly|simply|just|therefore|thus|"
    r"either|both|option|choice|letter|answer|the|correct|is|be|it|it's|that|la|le|el|I\s+(?:think|believe|guess|would\s+say))"
    r"\b){0,12}",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(rf"(?:(?![aI]\b){ALONE}|([aI])(?![\w'’]){_NO_PROSE})")
_LOWER_GIVEN: Final = re.compile(_NO_PROSE)
_JOINED: Final = re.compile(
    r"[)\]}>\"'’”.\s]*(?:(?P<weak>[,;])\s*|(?:,\s*)?(?:\b(?:or|and|oder|und|ou)\b|[/|&+]|或|和)\s*)"
    rf"(?:(?:option|choice|either|maybe)\s+)?[\s(\[{{<\"']*{ALONE}(?P<word>\s+[^\W\d_]{{2}})?",
)
_OR_LATER: Final = re.compile(r"\bor\s+(?:option\s+|choice\s+)?(?:\(([A-Z])\)|([A-Z])[.):])")
_NEGATED: Final = re.compile(
    r"\b(?:(?:is|are|was)n['’]t|not|neither|nor|never|(?:rather|other)\s+than|instead\s+of|excluding)\s+"
    rf"(?:(?:option|choice|the|answer)\s+)*[(\[]?{ALONE}[)\]]?(?:\s*,?\s*(?:but|rather|instead)\b)?",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    rf"[(\[]?{ALONE}[)\]]?\s+(?:(?:is|was)\s+(?:clearly\s+|definitely\s+)?(?:not|wrong|incorrect|false)\b|(?:is|was)n['’]t\b)",
)
_SENTENCE: Final = re.compile(r"[.!?。！？;](?=\s|\Z)")


def in_slot(line: str, *, count: int, options: Sequence[str] | None = None) -> tuple[Found, int] | None:
    """The letter that a line begins with as an answer.

    Args:
        line: Plain text from where the answer is stated to the end of the line.
        count: How many letters are options.
        options: The options' texts, where the line may also be one of them that begins with an article.

    Returns:
        What was found (nothing, if the letter is no option's), and where it ends in the line; None if the line does
        not begin with a letter.
    """
    kept = _REFUSED.sub(_blank, _NEGATED.sub(_blank, line))
    opening = _OPENING.match(kept)
    given = _GIVEN.match(kept, opening.end() if opening else 0)
    if given is None:
        return None
    first, place = given[1] or given[2], given.end()
    if first.islower() and not _LOWER_GIVEN.match(kept, place):
        return None
    if first in "AI" and options is not None and re.match(r"\s\w", kept[place:]):
        said = words(kept[given.start() :])
        same = [index for index, option in enumerate(options) if words(option) == said]
        if len(same) == 1:
            return Found(text=said, option=same[0], as_text=True), len(line)
    if len({first.upper(), *_others(kept, place, lower=first.islower())}) > 1:
        return AMBIGUOUS, place
    return option(first, count=count), place


def _blank(denied: re.Match[str]) -> str:
    return " " * len(denied[0])


def option(name: str, *, count: int) -> Found:
    """The option that a letter names; nothing, if there is no such option."""
    index = LETTERS.index(name.upper())
    return Found(text=name.upper(), option=index) if index < count else NOTHING


def _others(line: str, place: int, *, lower: bool) -> set[str]:
    """The letters that are given beside the first."""
    named: set[str] = set()
    while joined := _JOINED.match(line, place):
        if (joined["weak"] and joined["word"]) or (joined[2].islower() and not lower):
            break
        named.add(joined[2].upper())
        place = joined.end(2)
    stop = _SENTENCE.search(line, place + 1)
    if later := _OR_LATER.search(line, place, stop.end() if stop else len(line)):
        named.add(later[1] or later[2])
    return named
