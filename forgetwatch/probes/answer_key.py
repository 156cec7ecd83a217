"""How a column of answers names the right option, decided over all rows at once.

A key is a text of an option, a label that the table gives the option, a letter, an index from 0 or
from 1, or a mark for each option. Each way is tried on the whole column. Where two ways fit every
row and name unlike options, nothing is guessed: the error names both, and the setting that decides.

    answers of all rows      ways that fit          read as
    0 2 1 3                  from-0                 index from 0
    4 1 2                    from-1                 index from 1, of four options
    1 2 1                    from-0, from-1         an error: --key from-0 or --key from-1 decides
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from forgetwatch.errors import ProbeError
from forgetwatch.grading.expressions import check_installed
from forgetwatch.grading.mathematics import find_numbers, normalise_numbers
from forgetwatch.probe import LETTERS

_SPELLED: Final[dict[Key, str]] = {
    "text": "texts of the options",
    "label": "labels of the options",
    "letter": "letters",
    "from-0": "indices from 0",
    "from-1": "indices from 1",
    "one-hot": "a mark for each option",
}


Key = Literal["text", "label", "letter", "from-0", "from-1", "one-hot"]


def is_filled(cell: Any) -> bool:
    """Does a cell hold a value?

    None, NaN, blank text and empty lists hold none.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return False
    return bool(str(cell).strip()) and cell not in ([], (), {})


KEYS: Final[tuple[Key, ...]] = get_args(Key)
"""Ways in which a column can name the right option."""


_LONG: Final = 30
"""Median number of words beyond which an open answer is a rationale, which no output repeats."""


_MOST_WORDS: Final = 12
"""Words of one of several answers in a cell, at most."""


_FORMULAS: Final = 0.05
"""Share of formulas among the open answers of a column from which on it is read as mathematics."""


_FORMULA: Final = re.compile(r"\\[a-zA-Z]{2,}|\^|\A\$[^$]+\$\Z")


_SYMBOLS: Final = re.compile(r"[\[({].*[,;].*[\])}]|[=<>+*/|≤≥π√∞]|\$.*\$|\d[a-z]\b")


_COMMAND: Final = re.compile(r"\\[a-zA-Z]+")


_WORD: Final = re.compile(r"[^\W\d_]{3,}")


_LATEX_UNIT: Final = re.compile(r"[\s~]*\\(?:text|mbox|mathrm)\s*\{[^{}]*\}\s*\Z")


_MARK: Final = re.compile(r"\s*(?:\(([A-Za-z])\)|([A-Z])[.)])\s*")
"""A letter as a list of options marks it: (a), A. or B)."""


_LETTER_LINE: Final = re.compile(r"\s*\(?([A-Z])[).:]?[ \t]*\n\s*\S.*", re.DOTALL)
"""A letter on a line of its own, and below it what explains it."""


_FINAL: Final = re.compile(r"(?:####|\Ai?contains:)\s*(.+?)\s*\Z", re.DOTALL)
"""What follows the mark of a final answer, or of promptfoo's assertions."""


_REMARK: Final = re.compile(r"(?<=\S)\s+\([^()]*\)\s*\Z")


_ARTICLE: Final = re.compile(r"\A(?:the|an?)\s+(?!who\Z)(?=\S)", re.IGNORECASE)


_AROUND: Final = " \t\n\"'“”„‘’«»`"


_CLOSING: Final = ".,;:!?。！？…"


_BETWEEN: Final = ("|", ";", " / ", " or ")
"""Marks between several answers of one cell."""


_WITH_UNIT: Final = re.compile(r"\s*([-+]?\d[\d.,/:]*)\s*\([^()]*\)\s*")


_BOXED: Final = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")


class Options(NamedTuple):
    """Options of a row.

    Attributes:
        texts: Their texts in order, None for a blank one.
        labels: The labels that the table gives them; empty for none.
        are_numbers: True if the table has them as numbers, not as texts.
    """

    texts: tuple[str | None, ...]
    labels: tuple[str, ...] = ()
    are_numbers: bool = False


@dataclass(frozen=True, kw_only=True)
class KeyReading:
    """The way in which the right options of all rows are read.

    Attributes:
        key: The way.
        indices: Right options of each row, None where this way names none.
    """

    key: Key
    indices: tuple[tuple[int, ...] | None, ...]

    @property
    def fits(self) -> bool:
        """Does every row have a right option?"""
        return None not in self.indices


def read_key(
    answers: Sequence[Any], options: Sequence[Options], *, column: str, key: Key | None
) -> KeyReading:
    """Decide how a column names the right options of all rows.

    Args:
        answers: Cell of each row.
        options: Options of each row.
        column: Name of the column, for messages.
        key: The way, if it is given.

    Raises:
        ProbeError: If two ways fit every row and name unlike options.
    """
    ways = KEYS if key is None else (key,)
    readings = [
        KeyReading(key=way, indices=tuple(map(_named(way), answers, options))) for way in ways
    ]
    fitting = [reading for reading in readings if reading.fits]
    if not fitting:
        return max(readings, key=lambda reading: sum(row is not None for row in reading.indices))
    # The table's own labels are meant where it has them: ARC has labels 1 to 4, and keys 1 to 4.
    if fitting[0].key != "text" or len({reading.indices for reading in fitting}) == 1:
        fitting = [reading for reading in fitting if reading.key == "label"] or fitting
    unlike = {by_indices.indices: by_indices for by_indices in reversed(fitting)}
    if len(unlike) > 1:
        first_reading, second_reading = sorted(
            unlike.values(), key=lambda reading: KEYS.index(reading.key)
        )[:2]
        rows = range(len(answers))
        row = next(at for at in rows if first_reading.indices[at] != second_reading.indices[at])
        raise ProbeError(
            f"column {column!r} can hold {_SPELLED[first_reading.key]} or "
            f"{_SPELLED[second_reading.key]}: both fit every row, and "
            f"{str(answers[row])!r:.40} would be {_shown(first_reading, row, options)} or "
            f"{_shown(second_reading, row, options)}; "
            f"key={first_reading.key!r} or key={second_reading.key!r} says which, or "
            f"`forgetwatch probe build` --key {first_reading.key} or --key {second_reading.key}"
        )
    return next(iter(unlike.values()))


def readings_of(answer: Any, options: Options) -> set[tuple[int, ...]]:
    """Options that a cell can name, by every way."""
    return {named for way in KEYS if (named := _named(way)(answer, options)) is not None}


def _shown(reading: KeyReading, row: int, options: Sequence[Options]) -> str:
    indices = reading.indices[row] or (0,)
    return f"{str(options[row].texts[indices[0]]).strip()!r:.40}"


def _named(way: Key) -> Callable[[Any, Options], tuple[int, ...] | None]:
    # The function takes a cell and the options of its row; None if no option is named in this way.

    def found(answer: Any, options: Options) -> tuple[int, ...] | None:
        texts = options.texts
        if way == "one-hot":
            return _marked(answer, texts)
        index_of = _ONE[way]
        parts = list(answer) if isinstance(answer, (list, tuple)) else [answer]
        if way == "letter" and isinstance(answer, str) and len(parts[0].strip()) > 1:
            # Several right options are written as "A,C" and "AC".
            bare = re.sub(r"[\s,;.()]|and", "", answer)
            if (
                len(bare) > 1
                and bare.isupper()
                and list(bare) == sorted(set(bare))
                and bare[0] >= "A"
            ):
                parts = list(bare)
        indices = [index_of(cell, options) for cell in parts]
        indices_named = tuple(
            index for index in indices if index is not None and texts[index] is not None
        )
        return indices_named if indices_named and len(set(indices_named)) == len(indices) else None

    return found


def _number(answer: Any) -> int | None:
    # A column of whole numbers with an empty cell may be read as floats.
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    digits = answer.strip().removesuffix(".0") if isinstance(answer, str) else ""
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _by_text(answer: Any, options: Options) -> int | None:
    # A number is the text of an option only where the options are numbers: among texts it is an
    # index.
    if isinstance(answer, bool) or not (isinstance(answer, str) or options.are_numbers):
        return None
    number = _number(answer)
    wanted = (
        answer.strip() if isinstance(answer, str) else str(answer if number is None else number)
    )
    bare = [None if option is None else option.strip() for option in options.texts]
    return bare.index(wanted) if bare.count(wanted) == 1 else None


def _by_label(answer: Any, options: Options) -> int | None:
    label = str(answer).strip()
    return options.labels.index(label) if label in options.labels else None


def _by_letter(answer: Any, options: Options) -> int | None:
    bare = (
        answer.strip().strip("().").upper() if isinstance(answer, str) else ""
    )  # "(b)" and "B." are letters too
    return LETTERS.index(bare) if len(bare) == 1 and bare in LETTERS[: len(options.texts)] else None


def _from_0(answer: Any, options: Options) -> int | None:
    number = _number(answer)
    return number if number is not None and 0 <= number < len(options.texts) else None


def _from_1(answer: Any, options: Options) -> int | None:
    number = _number(answer)
    return number - 1 if number is not None and 1 <= number <= len(options.texts) else None


_ONE: Final[Mapping[str, Callable[[Any, Options], int | None]]] = {
    "text": _by_text,
    "label": _by_label,
    "letter": _by_letter,
    "from-0": _from_0,
    "from-1": _from_1,
}


def _marked(answer: Any, texts: Sequence[str | None]) -> tuple[int, ...] | None:
    if not isinstance(answer, (list, tuple)) or len(answer) != len(texts) or len(texts) < 2:
        return None
    if any(mark not in (0, 1) for mark in answer) or not any(answer):
        return None
    return tuple(index for index, mark in enumerate(answer) if mark)


_AnswerPart = Literal["####", "\\boxed{}", "(unit)", "(letter)", "|", ";", " / ", " or ", ""]


@dataclass(frozen=True)
class OpenAnswers:
    r"""What of a column of open answers an output can match.

    Attributes:
        kind: ``####`` or ``\boxed{}`` for the part that these mark; ``(unit)`` for the number
            before a unit in brackets; ``(letter)`` for the letter in the first line; a mark between
            several answers, each of which is right; empty for the whole text.
        mathematical: True if the column holds formulas: those are compared by their value.
    """

    kind: _AnswerPart = ""
    mathematical: bool = False

    def texts(self, answer: str) -> tuple[str, ...]:
        """Answers that an output can match, one of which is enough.

        >>> OpenAnswers(" or ").texts("the Seine (a river) or 'Paris.'")
        ('Seine', 'Paris')
        """
        parts = answer.split(self.kind) if self.kind in _BETWEEN else [answer]
        texts = [self.text(part) for part in parts if part.strip()]
        return tuple(
            bare_answer(text) if self.match(text) == "contains" else text for text in texts
        )

    def text(self, answer: str) -> str:
        """Part of an answer that an output can match."""
        matchable = self._part(answer)
        if mark := _MARK.fullmatch(matchable):
            return (mark[1] or mark[2]).upper()
        bare = _LATEX_UNIT.sub("", matchable) if self.mathematical else ""
        return bare if any(map(str.isdigit, bare)) else matchable

    def match(self, text: str) -> str:
        """Rule by which an output is compared, by the answer's form."""
        bare = normalise_numbers(text.strip())
        if _is_number(bare):
            return "number"
        if len(bare) == 1 and bare in LETTERS:
            return "letter"  # "A" as a word is in most English sentences
        is_short = len(_WORD.findall(_COMMAND.sub(" ", bare))) < 2
        if self.mathematical and (_FORMULA.search(bare) or (is_short and _SYMBOLS.search(bare))):
            return "math"
        return "contains"

    def _part(self, answer: str) -> str:
        if self.kind == "####" and (final := _FINAL.search(answer)):
            return final[1]
        if self.kind == "\\boxed{}" and (boxes := _BOXED.findall(answer)):
            return str(boxes[-1]).strip()
        if self.kind == "(unit)" and (number := _WITH_UNIT.fullmatch(answer)):
            return number[1]
        if self.kind == "(letter)" and (letter := _LETTER_LINE.fullmatch(answer)):
            return letter[1]
        return answer


def bare_answer(text: str) -> str:
    """Answer without what an output may leave out: quotes, an article, a full stop, a remark in brackets."""
    bare = _REMARK.sub("", text.strip().rstrip(_CLOSING)).strip(_AROUND).rstrip(_CLOSING)
    bare = bare.strip(_AROUND)
    return _ARTICLE.sub("", bare) or text


def words_of_truth(answers: Iterable[Any]) -> tuple[str, str] | None:
    """The two words that a column of answers consists of: yes and no, or true and false.

    Returns:
        The words, the affirmative one first; None for other columns.
    """
    words = {bare_answer(str(answer)).lower() for answer in answers}
    return next(
        (pair for pair in (("yes", "no"), ("true", "false")) if words and words <= {*pair}), None
    )


def _is_number(text: str) -> bool:
    # One sign next to the number is allowed: ``$5``, ``5 %``, not ``Apollo 11``.
    numbers = find_numbers(text)
    return (
        len(numbers) == 1
        and len(text) <= numbers[0].end + 2
        and not any(map(str.isalpha, text[: numbers[0].start]))
    )


def read_open_answers(answers: Iterable[str], *, column: str) -> OpenAnswers:
    """Decide what an output can match in a column's open answers.

    Raises:
        ProbeError: If they are rationales, which no output repeats, or formulas, and the package
            that compares these is not installed.
    """
    texts = [text for text in answers if text.strip()]
    open_answers = OpenAnswers(_kind(texts, column))
    parts = [open_answers.text(text) for text in texts]
    formulas = sum(
        open_answers.match(part) != "number" and _FORMULA.search(part) is not None for part in parts
    )
    if formulas < _FORMULAS * len(parts) or not formulas:
        return open_answers
    try:
        check_installed()
    except ProbeError as error:
        raise ProbeError(
            f"column {column!r} holds formulas such as {_first_formula(parts)!r:.60}: {error}"
        ) from error
    return replace(open_answers, mathematical=True)


def _first_formula(parts: Iterable[str]) -> str:
    return next(part for part in parts if _FORMULA.search(part))


def _kind(texts: Sequence[str], column: str) -> _AnswerPart:
    # The part that an output can match, in all answers of a column.
    if texts and all(map(_FINAL.search, texts)):
        return "####"
    if texts and all(map(_BOXED.search, texts)):
        return "\\boxed{}"
    if texts and 2 * sum(_WITH_UNIT.fullmatch(text) is not None for text in texts) >= len(texts):
        return "(unit)"
    if texts and all(map(_LETTER_LINE.fullmatch, texts)):
        return "(letter)"
    for mark in _BETWEEN:
        parts = [text.split(mark) for text in texts]
        # Prose has these marks too, between more words.
        if 2 * sum(
            len(part) > 1 and all(0 < len(text.split()) <= _MOST_WORDS for text in part)
            for part in parts
        ) > len(texts):
            return mark
    # A text without spaces has about eight characters a word.
    words = sorted(max(len(text.split()), len(text) // 8) for text in texts)
    if words and words[len(words) // 2] > _LONG:
        raise ProbeError(
            f"column {column!r} holds texts of {words[len(words) // 2]} words at the median, "
            "which no output repeats; "
            "name a column with the short answer, or a column `match` that says how to grade"
        )
    return ""
