r"""Places where an output states its final answer: "Answer: ...", "the answer is ...", \boxed{...}, "#### ...".

The last statement counts, because a model that corrects itself does so afterwards; "Wait, no, B" corrects it too. A
heading over the options ("Let's look at each option: A. ...") states nothing.

A statement has an *asked form* if it is one that prompts request: ``Answer: X`` on a line of its own, as in zero-shot
chain of thought (arXiv 2510.17776), a box, a tag or ``####``. "The answer is X" is prose, without an
asked form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from forgetwatch.grading.text import fold, tail

# Not within a word; scripts without spaces between words may go on directly.
_BEFORE: Final = r"(?<![^\W_\u2e80-\u9fff\uac00-\ud7af])"
# "Answer", and its names in other languages.
_NAMES: Final = (
    r"ans(?:wer)?|solution|choice|option|antwort|lösung|réponse|reponse|respuesta|risposta|resposta|ответ|"
    r"答案|答え|回答|正解|정답|الجواب|الإجابة|उत्तर"
)
# A tag, four hashes, a box, or a name with a colon or with a verb within 60 characters.
_STATES: Final = re.compile(
    rf"(?P<tag><answer>)|(?P<hashes>\#{{4}})|\\(?:boxed|fbox)\s*\{{?(?P<box>)"
    rf"|{_BEFORE}(?P<name>(?:{_NAMES})(?:\s+(?:key|choice|option|letter))?(?:s\b)?)[\"'’)\]\s]{{0,4}}"
    r"(?:(?P<colon>[:=]|->|=>|→)"
    r"|(?P<prose>(?:[^.:!?\n]{0,60}?\b(?:is|are|was|be|ist|lautet|est|es|è|é|هو)\b|是|为|為|は|은|는)\s*(?P<late>:)?))",
    re.IGNORECASE,
)
# Right before a name: "the wrong answer is", "not the answer:".
_DENIED: Final = re.compile(
    r"(?:wrong|incorrect|false|(?:\bnot|n['’]t) (?:the|an?)(?: correct| right| best)?)[^\S\n]*\Z",
    re.IGNORECASE,
)
# Names in the plural may head a list of options; "the correct options" states an answer.
_HEADS: Final = re.compile(r"(?:options?|choices?|answers)\Z", re.IGNORECASE)
_ONE: Final = re.compile(r"\b(?:correct|right|best|final|chosen|selected|my)\s+\Z", re.IGNORECASE)
# The start of a list of options: A, then somewhere B.
_FIRST: Final = re.compile(r"\W{0,8}A[.):]\s")
_SECOND: Final = re.compile(r"(?<![^\W_])B[.):]\s")
_NOT: Final = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
# "Wait, no, it should be": a word of correction, then words that lead to the new answer. The repeat is possessive
# (``}+``), so that a long run of such words is read once.
_TAKES_BACK: Final = re.compile(
    r"\b(?:wait|actually|no(?=\s?[,.:;!—–])|sorry|oops|correction|(?:my|a|an)\s+(?:mistake|error)(?=\s?[,.:;!—–])|"
    r"second\s+thought|(?:but|however)(?=,|\s+(?:it|actually)\b))\b"
    r"(?:[\s,.:;!…'’—–]|\b(?:no|wait|actually|sorry|so|that|it|s|is|should|must|would|have|been|be|i|meant?|rather|"
    r"the|correct|right|final|answer|option|choice)\b){1,30}+",
    re.IGNORECASE,
)
# Emphasis, LaTeX text commands, spacing and HTML tags around an answer.
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
    """One statement of an answer; positions are in characters of the plain text.

    Attributes:
        start: Position of the statement.
        slot: Position of the answer itself.
        line: Text from the answer to the end of its line, at most 400 characters.
        form: True for a form that prompts ask for; False for prose.
    """

    start: int
    slot: int
    line: str
    form: bool


def plain(body: str) -> str:
    """End of an output, folded, without emphasis, LaTeX text commands and tags.

    >>> plain("**Answer:** `B`")
    'Answer: B'
    """
    text = _DRESS.sub("", fold(tail(body)))
    return re.sub("</answer>", "\n", text, flags=re.IGNORECASE)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a plain text in their order."""
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


def retractions(text: str, position: int) -> Iterator[int]:
    """Yield the positions after words such as "Wait, no,", where a new answer may replace the one stated before."""
    return (found.end() for found in _TAKES_BACK.finditer(text, position))


def first_sentence(line: str) -> str:
    """Line up to the end of its first sentence."""
    found = _ENDS.search(line)
    return line[: found.start()] if found else line


def same_sentence(text: str, start: int, end: int) -> bool:
    """True if between two positions no sentence ends and no word takes the first statement back."""
    between = text[start:end]
    return not _ENDS.search(between) and not re.search(r"\b(?:no|wait|actually|rather|instead|but)\b", between, re.I)


def _is_list(text: str, position: int) -> bool:
    """True if a list of options begins at a position: A, and B somewhere after it."""
    first = _FIRST.match(text, position)
    return first is not None and _SECOND.search(text, first.end()) is not None
