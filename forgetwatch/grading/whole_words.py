"""Whether a text is in another as words of its own, in scripts with and without spaces.

    "5" in "15", "Paris" in "Parisian"        no: a letter, digit or mark follows or precedes
    "東京" in "答えは東京です。"                    yes: は precedes and です follows
    "京都" in "東京都"                           cannot be decided without a dictionary
    "서울" in "서울은", "ירושלים" in "בירושלים"   yes: a particle, a prefix

Chinese, Japanese, Thai, Lao, Khmer and Burmese write no spaces, and Korean, Hebrew and Arabic write
particles and prefixes together with the word. There a text is a word of its own next to another
script's punctuation, to the end, or to a particle of the lists below; next to anything else it is
undecided, and so is a single sign next to its own script. The lists are short on purpose: an
undecided answer is unscored, a wrong one is a wrong number. A letter with a combining mark is
another letter. Case is ignored as Unicode and as Turkish have it (``IRAK`` is ``irak`` and
``ırak``); vowel marks of Hebrew and Arabic and the forms of alef are ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from forgetwatch.grading.output_text import collapse_spaces, fold, fold_case

_SIGN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}ー々\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]", regex.V1
)


_NUMERAL: Final = regex.compile(r"[〇零一二三四五六七八九十百千万亿億兆萬만천백억조십]")


_FOLLOWS: Final = regex.compile(
    r"で(?:す|し|は|も|あ|しょ)|(?:だ|である)(?!\p{Hiragana})|という|から|まで|より|など|"
    r"[はがをにのとでもへ]|[是在的了和与與或吗嗎呢吧]|ครับ|ค่ะ|คะ|นะ|และ|หรือ|เป็น|คือ|ที่|ใน"
)


_PRECEDES: Final = regex.compile(
    r"(?:[はがをにのとでもへや]|[是在为為叫于於和与與或到及即]|คือ|เป็น|ว่า|และ|หรือ|ใน)\Z"
)


_COPULA: Final = regex.compile(r"です|でした|である|という|だ(?!\p{Hiragana})")


_JOSA: Final = regex.compile(
    r"(?:은|는|을|를|에서|에는|에|입니다|이다|예요|이에요|이었습니다|였습니다|이며|이고|라고|이라고|으로|까지|부터|처럼|보다|에게|께서)"
    r"(?!\p{Hangul})"
)


_JOSA_OF_OTHERS: Final = regex.compile(r"[이가의도로만과와](?!\p{Hangul})")


_ARABIC_ARTICLE: Final = regex.compile(r"[وفبك]?ال|و?لل")


_PREFIXES: Final = regex.compile(r"[وفبكلس]{1,2}|[והבכלמש]{1,3}")


_SEMITIC: Final = regex.compile(r"[\p{Hebrew}\p{Arabic}]+\Z")


_POINTS: Final = dict.fromkeys((*range(1425, 1480), *range(1611, 1619), 1648, 1600)) | {
    ord(alef): "ا" for alef in "أإآٱ"
}


_ENOUGH: Final = 5
"""Letters from which on a prefix of one letter is taken for one; a shorter word may begin with that letter."""


@dataclass(frozen=True)
class Occurrence:
    """A text within another; `certain` is False where it cannot be decided whether it is a word of its own."""

    text: str
    start: int
    end: int
    certain: bool


def comparable(text: str) -> str:
    """Text in the form that is compared.

    Folded, without case, points and tatweel, with single spaces.

    >>> comparable("İSTANBUL  Ⅳ")
    'istanbul iv'
    """
    return collapse_spaces(fold_case(fold(text))).translate(_POINTS)


def turkish(text: str) -> str:
    """Remove case as Turkish does: ``I`` is the capital of ``ı``."""
    return comparable(text.replace("İ", "i").replace("I", "ı"))


def find_words(texts: Sequence[str], body: str) -> Iterator[Occurrence]:
    """Find where texts are whole words of a body.

    Both are compared as given. Where several texts begin at one place only the longest counts;
    one that overlaps another counts, too.
    """
    if not (words := sorted(filter(None, texts), key=len, reverse=True)):
        return
    for match in regex.compile("|".join(map(regex.escape, words))).finditer(body, overlapped=True):
        apart = _ends(match[0], body[match.end() :]), _begins(match[0], body[: match.start()])
        if False not in apart:
            yield Occurrence(match[0], match.start(), match.end(), certain=None not in apart)


def _ends(word: str, rest: str) -> bool | None:
    # None if undecided.
    if regex.match(r"\p{M}|[.,]\d", rest):
        return False
    if (apart := _is_apart(word[-1], rest[:1])) is not None or not _SIGN.match(word[-1]):
        return apart
    if regex.match(r"\p{Hangul}", rest):
        is_own = bool(regex.match(r"\p{Hangul}", word[-1]))
        return (
            True
            if (_JOSA.match(rest) and len(word) > is_own)
            or (_JOSA_OF_OTHERS.match(rest) and not is_own)
            else None
        )
    particles = _FOLLOWS if not regex.match(r"\p{Hiragana}", word[-1]) else _COPULA
    return True if particles.match(rest) and not _is_single(word, rest[0]) else None


def _begins(word: str, before: str) -> bool | None:
    # None if undecided.
    if regex.search(r"\d[.,]\Z", before):
        return False
    if (apart := _is_apart(word[0], before[-1:])) is False and (
        run := _SEMITIC.search(before)
    ) is not None:
        if _ARABIC_ARTICLE.fullmatch(run[0]) and len(word) > 2:
            return True
        return _PREFIXES.fullmatch(run[0]) and ((len(run[0]) == 1 and len(word) >= _ENOUGH) or None)
    if apart is not None or not _SIGN.match(word[0]):
        return apart
    if regex.match(r"\p{Hiragana}", word[0]) and regex.match(r"\p{Hiragana}", before[-1]):
        return None  # は may be a particle or the first sign of the word
    return True if _PRECEDES.search(before) and not _is_single(word, before[-1]) else None


def _is_apart(inner: str, outer: str) -> bool | None:
    # None if the scripts of the characters do not decide.
    if not regex.match(r"\w", outer):
        return True
    if _SIGN.match(inner):
        return None
    if not _SIGN.match(outer):
        return False
    return None if inner.isdigit() and _NUMERAL.match(outer) else True


def _is_single(word: str, neighbour: str) -> bool:
    # A word of one sign next to its own script.
    return len(word) == 1 and all(
        regex.match(r"\p{Han}|\p{Thai}", sign) for sign in (word, neighbour)
    )
