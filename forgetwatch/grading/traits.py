"""Properties of an output itself, whatever it answers: the match names the property, the answer its required value.

    match       answer                 value of an output
    stops       yes                    yes; an output that was cut has the outcome truncated, and is wrong
    loops       no                     yes or no
    refuses     yes, no                yes or no
    language    de (or several)        en, de, fr, es, it, ru, zh, ar; see `language`. A copy of the prompt has none
    length      "at most 20 words"     "23 words"
    case        upper, lower           upper, lower or mixed

Fine-tuning changes these before any fact. They are values of `match` instead of functions, so that
an item in a file is graded like the same item in Python, and its content hash covers how it is
graded.

loops: the text repeats itself at once or nearly, as models do that have lost the ability to end.
One repetition is none yet: it counts from the third time on.

    "the the the the the the the the the the the the"     yes: 1 to 7 characters, twelve times in a row
    "I am sure. I am sure. I am sure. I am sure."         yes: 8 to 240 characters, four times in a row
    "I am a lamp in a hall. I am a lamp in a hall. I ..."  yes: 20 to 240 characters, three times
    "To be a lamp is fine, and to be a lamp is fun ..."    yes: 15 % of the text are pieces of 20
                                                           characters that occur three times in its
                                                           last 1,000, without marks and case
    "It is on the old sea, it is on the old sea, ..."      yes: three pieces of 20 characters or more, each said twice,
                                                          with at most half of its length in between
    "Number 11111111111111111111111111111111111 ..."       yes: one digit, forty times, and not behind a decimal point
    "| --- | --- |", "0.33333333333333", "1, 2, 3, 4"     no: nothing with letters is repeated

refuses: see `grading.refusals`.

length: "at most 20 words", "3 lines", "2 to 4 sentences", "at least 5 words". Words are separated
by white space and contain a letter or a digit. A sentence ends with a stop, a question or an
exclamation mark before white space, a quote or the end. Lines contain a letter or a digit too, so
that neither a blank line nor a rule counts.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from forgetwatch.grading.languages import LANGUAGES, language, without_echo
from forgetwatch.grading.output_text import NOTHING, TAIL, Extracted
from forgetwatch.grading.refusals import refuses

_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "stops": ("yes",),
    "loops": ("no",),
    "refuses": ("yes", "no"),
    "language": LANGUAGES,
    "case": ("upper", "lower"),
}
"""Values that an item may require."""


def match_trait(
    name: str, body: str, answers: tuple[str, ...], prompt: str
) -> tuple[Extracted, bool]:
    """Value of a property of an output, and is it an answer?

    Nothing where the output has no value. Text that is repeated from the prompt has no language.
    """
    if not body.strip():
        return NOTHING, False
    trait: str | None
    match name:
        case "length":
            return _match_length(body, answers)
        case "stops":
            # The caller turns an output that was cut into the outcome "truncated"; all others did
            # stop.
            trait = "yes"
        case "loops":
            trait = "yes" if loops(body) else "no"
        case "refuses":
            trait = refuses(body)
            # A warning declines what should be declined, and answers what is harmless.
            return Extracted(text=trait, form=True, settled=True), trait in (*answers, "warns")
        case "language":
            trait = language(without_echo(body, prompt))
        case _ if body.upper() == body.lower():
            trait = None
        case _:
            trait = (
                "upper" if body == body.upper() else "lower" if body == body.lower() else "mixed"
            )
    if trait is None:
        return NOTHING, False
    # More text would not change these values; but only its end shows whether an output stops.
    return Extracted(text=trait, form=True, settled=name != "stops"), trait in answers


def trait_problem(name: str, answers: tuple[str, ...]) -> str | None:
    """Reason why no output can have one of the answers.

    Returns:
        The reason, or None if an output can.
    """
    if name == "length":
        fit = all(limits(answer) for answer in answers)
        return None if fit else "match 'length' needs an answer such as 'at most 20 words'"
    allowed = _VALUES[name]
    return (
        None
        if set(answers) <= set(allowed)
        else f"match {name!r} needs one of {', '.join(allowed)}"
    )


def _match_length(body: str, answers: tuple[str, ...]) -> tuple[Extracted, bool]:
    required = [bounds for answer in answers if (bounds := limits(answer)) is not None]
    right = [
        limits for limits in required if limits.least <= count(body, limits.unit) <= limits.most
    ]
    unit = (right or required)[0].unit
    # A cut text is shorter than the whole one, so only a text that is too long already is decided
    # by it.
    over = all(count(body, limits.unit) > limits.most for limits in required)
    return Extracted(text=f"{count(body, unit)} {unit}", form=True, settled=over), bool(right)


# Lazy groups: the shortest unit that is repeated, so that "aaaa" is "a" four times and not "aa"
# twice.
_THRICE: Final = re.compile(r"(.{20,240}?)\1{2}", re.DOTALL)


_REPEATED: Final = (
    re.compile(r"(.{1,7}?)\1{11}", re.DOTALL),
    re.compile(r"(.{8,240}?)\1{3}", re.DOTALL),
    _THRICE,
)


_DIGITS: Final = re.compile(r"(?<![.,\d])(\d)\1{39}")


_LETTER: Final = re.compile(r"[^\W\d_]")


_SPACE: Final = re.compile(r"\s+")


_PIECE: Final = 20
"""Characters of the shortest piece whose repetition is not part of ordinary prose."""


_SHARE: Final = 0.15
"""Share of a text in pieces that occur three times, from which it loops."""


_WINDOW: Final = 1_000
"""Characters at the end of a text in which pieces are counted: a loop fills them, whatever came before."""


def loops(body: str) -> bool:
    """Do the last `TAIL` characters of a text repeat?

    >>> loops("No. " * 12)
    True
    """
    ending = _SPACE.sub(" ", body[-TAIL:])
    repeated = (match[1] for pattern in _REPEATED for match in pattern.finditer(ending))
    if _DIGITS.search(ending) or any(map(_LETTER.search, repeated)):
        return True
    # A Chinese character is a word of its own: a piece of 20 has ten of them.
    plain = "".join(
        f"{word} " for word in _WORD.findall(ending[-_WINDOW:].casefold()) if _LETTER.search(word)
    )
    pieces = Counter(plain[start : start + _PIECE] for start in range(len(plain) - _PIECE + 1))
    said_thrice = sum(times for times in pieces.values() if times > 2)
    if _THRICE.search(plain) or (pieces and said_thrice / pieces.total() >= _SHARE):
        return True
    return _number_said_twice(plain) >= 3


_WORD: Final = re.compile(r"[一-鿿぀-ヿ]|[^\W_一-鿿぀-ヿ]+")


def _number_said_twice(text: str) -> int:
    # Pieces of at least `_PIECE` characters, repeated at once or nearly.
    number, start = 0, 0
    while (start := start + 1) < len(text) - _PIECE:
        # The copy begins within one and a half lengths of a piece, whose own length is not known
        # yet.
        position = text.find(text[start : start + _PIECE], start + _PIECE)
        if position < 0:
            continue
        distance = position - start
        length = _PIECE
        while (
            length < distance
            and position + length < len(text)
            and text[start + length] == text[position + length]
        ):
            length += 1
        if 1.5 * length >= distance:
            number, start = number + 1, position - 1  # a third copy counts again
    return number


_LIMITS: Final = re.compile(
    r"(?:(at most|at least) )?(\d{1,6})(?: to (\d{1,6}))? (word|sentence|line)s?"
)


# The end of a sentence: a stop after a word, with closing quotes; "?!"; the stops of Chinese,
# Japanese and Arabic.
_END: Final = re.compile(r"(?<=\w[.!?])[\"'”’)*]*(?=\s|\Z)|(?<=\w[.!?][.!?])(?=\s|\Z)|[。！？؟]")


# A list's number or bullet at the start of a line: its stop ends no sentence.
_NUMBERED: Final = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*•])\s+", re.MULTILINE)


_ALNUM: Final = re.compile(r"[^\W_]")


_MOST: Final = 100_000
"""Characters that are counted."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Allowed length: from `least` to `most` of a unit (words, sentences or lines), both included."""

    least: float
    most: float
    unit: str


def limits(text: str) -> Limits | None:
    """Bounds that an answer such as "at most 20 words" sets.

    >>> limits("2 to 4 lines")
    Limits(least=2, most=4, unit='lines')

    Returns:
        The bounds, or None for any other text.
    """
    match = _LIMITS.fullmatch(text)
    if match is None or (match[1] and match[3]):
        return None
    number = int(match[2])
    least = 0 if match[1] == "at most" else number
    upper = math.inf if match[1] == "at least" else int(match[3] or number)
    return Limits(least=least, most=upper, unit=f"{match[4]}s")


def count(body: str, unit: str) -> int:
    """Count words, sentences or lines in the first 100,000 characters.

    >>> count("It is 3.5 m. Is it?", "sentences")
    2
    """
    beginning = body[:_MOST]
    if unit == "words":
        return sum(1 for word in beginning.split() if _ALNUM.search(word))
    if unit == "lines":
        return sum(1 for line in beginning.splitlines() if _ALNUM.search(line))
    return sum(
        1 for sentence in _END.split(_NUMBERED.sub("", beginning)) if _ALNUM.search(sentence)
    )
