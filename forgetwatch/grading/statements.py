r"""Where an output states its final answer: "Answer: ...", "the answer is ...", \boxed{...}, <answer>, "#### ...".

The last statement counts, because a model that corrects itself does so afterwards; "Wait, no, B" corrects it, too. A
heading over the options ("Let's look at each option: A. ...") states nothing. The asked form is that of zero-shot chain
of thought, ``Answer: X`` on a line of its own (arXiv 2510.17776 asks for it); boxes, tags and ``####`` are forms that
other prompts ask for. "The answer is X" is prose: understood, but not the form.

The option letter in the place where an answer is stated, such as what follows "Answer:".

    "(B) because ..."    B          "A or B"           two: ambiguous
    "not B but C"        C          "a dog"            none: an article
    "B. Paris"           B          "A dog"            the option that reads "A dog", or else A

A letter counts only where it stands alone: neither in a word nor in "C++", "A-level", "U.S.A".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from forgetwatch.grading.text import AMBIGUOUS, NOTHING, Extracted, fold, normalise, tail
from forgetwatch.probe import LETTERS

_BEFORE: Final = r"(?<![^\W_\u2e80-\u9fff\uac00-\ud7af])"
_NAMES: Final = (
    r"ans(?:wer)?|solution|choice|option|antwort|lösung|réponse|reponse|respuesta|risposta|resposta|ответ|"
    r"答案|答え|回答|正解|정답|الجواب|الإجابة|उत्तर"
)
_STATES: Final = re.compile(
    rf"(?P<tag><answer>)|(?P<hashes>\#{{4}})|\\(?:boxed|fbox)\s*\{{?(?P<box>)"
    rf"|{_BEFORE}(?P<name>(?:{_NAMES})(?:\s+(?:key|choice|option|letter))?(?:s\b)?)[\"'’)\]\s]{{0,4}}"
    r"(?:(?P<colon>[:=]|->|=>|→)"
    r"|(?P<prose>(?:[^.:!?\n]{0,60}?\b(?:is|are|was|be|ist|lautet|est|es|è|é|هو)\b|是|为|為|は|은|는)\s*(?P<late>:)?))",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"(?:wrong|incorrect|false|(?:\bnot|n['’]t) (?:the|an?)(?: correct| right| best)?)[^\S\n]*\Z",
    re.IGNORECASE,
)
_HEADS: Final = re.compile(r"(?:options?|choices?|answers)\Z", re.IGNORECASE)
_ONE: Final = re.compile(r"\b(?:correct|right|best|final|chosen|selected|my)\s+\Z", re.IGNORECASE)
_FIRST: Final = re.compile(r"\W{0,8}A[.):]\s")
_SECOND: Final = re.compile(r"(?<![^\W_])B[.):]\s")
_NOT: Final = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_TAKES_BACK: Final = re.compile(
    r"\b(?:wait|actually|no(?=\s?[,.:;!—–])|sorry|oops|correction|(?:my|a|an)\s+(?:mistake|error)(?=\s?[,.:;!—–])|"
    r"second\s+thought|(?:but|however)(?=,|\s+(?:it|actually)\b))\b"
    r"(?:[\s,.:;!…'’—–]|\b(?:no|wait|actually|sorry|so|that|it|s|is|should|must|would|have|been|be|i|meant?|rather|"
    r"the|correct|right|final|answer|option|choice)\b){1,30}+",
    re.IGNORECASE,
)
_DRESS: Final = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathsf|mathit|rm|bf|bm|operatorname)\b\s*(?=\{)"
    r"|\\[()\[\],;!]|\\(?:left|right|quad|displaystyle|rm|bf)\b"
    r"|(?-i:</?(?:b|i|u|p|em|strong|code|span|div)>)|[`$]|__|(?<!\w)_|_(?!\w)"
    r"|\*(?!\s)(?!(?<=\d\*)\d|(?<=\d\*\*)\d)|(?<!\s)\*(?!\d)",  # emphasis, and not "6 * 7"
    re.IGNORECASE,
)
_ENDS: Final = re.compile(r"[.!?。！？;](?=\s|\Z)|\n")


@dataclass(frozen=True)
class Statement:
    """One place where an answer is stated.

    Attributes:
        start: Where the statement begins, in characters of the plain text.
        slot: Where the answer itself begins.
        line: The text from there to the end of its line, at most 400 characters.
        form: It is a form that prompts ask for, not prose.
    """

    start: int
    slot: int
    line: str
    form: bool


def plain(body: str) -> str:
    """The end of an output without emphasis, LaTeX text commands and tags, folded.

    >>> plain("**Answer:** `B`")
    'Answer: B'
    """
    text = _DRESS.sub("", fold(tail(body)))
    return re.sub("</answer>", "\n", text, flags=re.IGNORECASE)


def statements(text: str) -> Iterator[Statement]:
    """All statements in a plain text, in their order."""
    for found in _STATES.finditer(text):
        before = text[max(0, found.start() - 30) : found.start()]
        if _DENIED.search(before) or _NOT.search(found["prose"] or ""):
            continue
        if _HEADS.search(found["name"] or "") and not _ONE.search(before) and _is_list(text, found.end()):
            continue
        slot = found.end()
        while slot < len(text) and text[slot].isspace():
            slot += 1
        end = text.find("\n", slot, slot + 400)
        line = text[slot : end if end >= 0 else slot + 400]
        form = found["prose"] is None or found["late"] is not None
        yield Statement(found.start(), slot, line, form)


def _is_list(text: str, place: int) -> bool:
    """Whether options begin at a place: A, and somewhere behind it B."""
    first = _FIRST.match(text, place)
    return first is not None and _SECOND.search(text, first.end()) is not None


def retractions(text: str, place: int) -> Iterator[int]:
    """Where, behind a place, something may stand instead of what was stated there: "Wait, no, ..."."""
    return (found.end() for found in _TAKES_BACK.finditer(text, place))


def sentence(line: str) -> str:
    """The line up to the end of its first sentence."""
    found = _ENDS.search(line)
    return line[: found.start()] if found else line


def same_sentence(text: str, start: int, end: int) -> bool:
    """Whether no sentence ends between two places of a text, and nothing there takes the first back."""
    between = text[start:end]
    return not _ENDS.search(between) and not re.search(r"\b(?:no|wait|actually|rather|instead|but)\b", between, re.I)


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


def leading_letter(line: str, *, count: int, options: Sequence[str] | None = None) -> tuple[Extracted, int] | None:
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
        said = normalise(kept[given.start() :])
        same = [index for index, option in enumerate(options) if normalise(option) == said]
        if len(same) == 1:
            return Extracted(text=said, option=same[0], as_text=True), len(line)
    if len({first.upper(), *_others(kept, place, lower=first.islower())}) > 1:
        return AMBIGUOUS, place
    return option(first, count=count), place


def _blank(denied: re.Match[str]) -> str:
    return " " * len(denied[0])


def option(name: str, *, count: int) -> Extracted:
    """The option that a letter names; nothing, if there is no such option."""
    index = LETTERS.index(name.upper())
    return Extracted(text=name.upper(), option=index) if index < count else NOTHING


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
