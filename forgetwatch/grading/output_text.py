r"""Text of an output: without its thinking block, bounded and normalised, and where it states its final answer.

    "<think>A? No, B.</think> Answer: B"                     after_thinking            " Answer: B"
    "<think>A? No, B. But then"                              after_thinking            None: it ends inside the block
    " B\n\nQuestion: Capital of Chile? ... Answer: A"        before_next_question      "B"
    "Ａnswer： **Ⓑ**"                                         fold                      "Answer: **B**"
    "**Answer:** `B`"                                        plain                     "Answer: B"

**Thinking.** Reasoning models weigh every option in their thinking, so only the text after it is searched. A closing
tag without an opening one ends a block that the prompt opened, as many chat templates do. Where the prompt opened a
block and the output ends before it is closed, the text alone does not show it: the caller puts `opening_tag` of the
prompt before the output. Base models go on with a question of their own after an answer; the text before it is what
counts.

**Bounds.** An answer stands at the end, so patterns search the last `TAIL` characters only, and the time for an output
does not depend on its length.

**Statements** are "Answer: ...", "the answer is ...", \boxed{...}, "#### ...". The last statement counts, because a
model that corrects itself does so afterwards; "Wait, no, B" corrects it too. A heading over the options ("Let's look at
each option: A. ...") states nothing. A statement has an *asked form* if it is one that prompts request: ``Answer: X``
on a line of its own, as in zero-shot chain of thought (arXiv 2510.17776), a box, a tag or ``####``. "The answer is X"
is prose, without an asked form.

**Words.** Whether a text is in another as words of its own, in scripts with and without spaces between words.

    "5" in "15", "Paris" in "Parisian"        no: a letter, digit or mark follows or precedes
    "東京" in "答えは東京です。"                    yes: は precedes and です follows
    "京都" in "東京都"                           cannot be decided without a dictionary
    "서울" in "서울은", "ירושלים" in "בירושלים"   yes: a particle, a prefix

Chinese, Japanese, Thai, Lao, Khmer and Burmese write no spaces, and Korean, Hebrew and Arabic write particles and
prefixes together with the word. There a text is a word of its own next to another script's punctuation, to the end, or
to a particle of the lists below; next to anything else it is undecided, and so is a single sign next to its own
script. The lists are short on purpose: an undecided answer is unscored, a wrong one is a wrong number. A letter with a
combining mark is another letter. Case is ignored as Unicode and as Turkish have it (``IRAK`` is ``irak`` and ``ırak``);
vowel marks of Hebrew and Arabic and the forms of alef are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

TAIL: Final = 4_000
"""Number of characters at the end of an output that patterns search."""


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """Answer of an output, before it is compared with the right one.

    Attributes:
        text: The answer as written; None where there is none.
        option: Index of the option that it names; None for open answers.
        as_text: True where it is the option's text instead of its letter.
        form: True for a form that prompts ask for (``Answer: B``, a boxed answer, nothing but the answer); False within
            prose.
        settled: True where text after it, lost to a length limit, could not have changed it.
        ambiguous: True where two different answers are given as final.
        unscored: Reason why the answer could not be extracted; empty if it could.
    """

    text: str | None = None
    option: int | None = None
    as_text: bool = False
    form: bool = False
    settled: bool = False
    ambiguous: bool = False
    unscored: str = ""


NOTHING: Final = Extracted()
AMBIGUOUS: Final = Extracted(ambiguous=True)
_INVISIBLE: Final = dict.fromkeys(
    # Soft hyphen, zero-width characters, marks of direction, variation selectors, byte order mark.
    (
        *(0x00AD, 0x061C, 0x180E, 0xFEFF),
        *(
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            *range(0xFE00, 0xFE10),
        ),
    )
)
_MARKS: Final = (
    {ord(c): ":" for c in "∶꞉ː˸"}
    | {ord(c): "-" for c in "−﹣－‐‑⁃"}
    | {0x066A: "%", 0x066B: ".", 0x066C: ","}  # as Arabic writes numbers
)
# The rest of a word or number that a cut at the limit halved.
_CUT_WORD: Final = re.compile(r"^[\w.,]+")
# A run of superscripts, so that it becomes one power and not one for each digit.
_TWO_POWERS: Final = re.compile(r"([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
# Fractions of one character, such as ½.
_VULGAR: Final = re.compile("[¼-¾⅐-⅞↉]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


def tail(text: str, limit: int = TAIL) -> str:
    """Return the last `limit` characters of a text, without trailing white space.

    A word that the limit halves is left out.

    >>> tail("an answer", limit=5)
    ''
    >>> tail("the answer B", limit=5)
    ' B'
    """
    text = text.rstrip()
    return text if len(text) <= limit else _CUT_WORD.sub("", text[-limit:])


def fold(text: str) -> str:
    """Return the text in compatibility form (NFKC).

    Full-width and mathematical letters and the digits of any script as ASCII.

    Invisible characters are removed. Powers become ``^2`` and fractions of one character `` 1/2``: NFKC alone would
    join them with the digits before them.

    >>> fold("１０² ½ ١٢٣")
    '10^2  1/2 123'
    """
    if text.isascii():
        return text
    text = text.translate(_INVISIBLE).translate(_MARKS)
    text = _VULGAR.sub(r" \g<0>", text)
    text = _TWO_POWERS.sub(r"^\g<0>", text)
    # NFKC itself yields some of the marks, and a fraction slash between the digits of a fraction.
    text = unicodedata.normalize("NFKC", text).translate(_MARKS).replace("\u2044", "/")
    return _NOT_ASCII.sub(lambda found: str(unicodedata.decimal(found[0], found[0])), text)


def normalise(text: str) -> str:
    """Return the text in the form that is compared: folded, lower case, single spaces, no quotes or stops around it.

    >>> normalise(' “Santiago  de Chile.” ')
    'santiago de chile'
    """
    return collapse_spaces(fold_case(fold(text))).strip(" .,;:!?\"'“”‘’«»„*`_$")


def collapse_spaces(text: str) -> str:
    """Return the text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def fold_case(text: str) -> str:
    """Return the text without case; the dot that ``İ`` leaves over its ``i`` is dropped."""
    return text.casefold().replace("i\u0307", "i")


# <think>, [THINK], <seed:think>, <|begin_of_thought|>, and the channels of harmony-like templates.
_TAG: Final = re.compile(
    r"[<\[◁](/?)(?:seed:)?(think(?:ing)?|thought|reasoning)[>\]▷]"
    r"|<\|(begin|end)_of_(thought)\|>"
    r"|<\|?channel(?:\|?>)(analysis|commentary|thought|final)\b"
    r"|(<channel\|>)",
    re.IGNORECASE,
)
# Control tokens that are no part of the answer, after the block and at the end.
_HEADER: Final = re.compile(r"\A\s*<\|message\|>")
_CONTROL: Final = re.compile(r"<\|\w{1,30}\|>\s*\Z")
_CHANNEL: Final = frozenset({"<|channel|>", "<|message|>", "<|channel>", "<channel|>"})
_DEEPEST: Final = 1_000
"""Limit of blocks within blocks; beyond it the search for an opening tag would take more than one pass."""

# "Question:", "### Instruction", "User:", "**Problem 2:**" at the start of a line.
_NEXT: Final = re.compile(
    r"\n[^\S\n]{0,20}(?:#{1,6} {0,2}|\*\*)?"
    r"(?:(?:(?:next |new )?(?:question|problem|exercise|q)\b {0,2}\d{0,4}|(?:human|user)\b) {0,2}(?:\*\*)?[:.)]"
    r"|(?:(?<=### )|(?<=###))instruction\b)",
    re.IGNORECASE,
)


def after_thinking(output: str) -> str | None:
    """Return the text of an output after its last thinking block.

    All of it if there is none, None if it ends inside a block.

    >>> after_thinking("<think>A or B?</think>B")
    'B'
    """
    opened: list[str] = []
    after = 0
    for tag in _TAG.finditer(output):
        closes, name, edge, thought, channel, channel_end = tag.groups()
        kind = (name or thought or "channel").lower()
        if channel and channel.lower() != "final":
            # A channel replaces the one before it; "final" closes it.
            opened = ["channel"]
            continue
        if closes or channel or channel_end or (edge and edge.lower() == "end"):
            # A block ends those within it; a tag that was never opened here closes the prompt's block, and all.
            opened = opened[: opened.index(kind)] if kind in opened else []
            after = tag.end()
        else:
            opened.append(kind)
        if len(opened) > _DEEPEST:
            return None
    if opened:
        return None
    text = _HEADER.sub("", output[after:]) if after else output
    return _CONTROL.sub("", text) if text.rstrip().endswith("|>") else text


def opening_tag(prompt: str) -> str:
    r"""Return the tag of the thinking block that a prompt opens at its end; empty if it opens none.

    >>> opening_tag("Capital of Peru?<|assistant|><think>\n")
    '<think>'
    """
    last = max(_TAG.finditer(prompt), key=re.Match.start, default=None)
    return (
        last[0]
        if last and not prompt[last.end() :].strip() and after_thinking(last[0]) is None
        else ""
    )


def is_thinking_tag(token: str) -> bool:
    """Return True for a token that delimits thinking: removed as a special token, it would join thinking and answer."""
    return token in _CHANNEL or _TAG.fullmatch(token) is not None


def before_next_question(body: str) -> str | None:
    """Return the text before the first question that the model writes itself.

    None if there is none, or no text before it.

    It is the answer only if it states one: a model may also copy the question before it answers.
    """
    text = body.lstrip()
    found = _NEXT.search(text)
    return text[: found.start() + 1] if found else None


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
# The start of a list of options.
_FIRST: Final = re.compile(r"\W{0,8}A[.):]\s")
_SECOND: Final = re.compile(r"(?<![^\W_])B[.):]\s")
_NOT: Final = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
# "Wait, no, it should be": a word of correction, then words that lead to the new answer. The repeat is atomic
# (``(?>...)``), so that a long run of such words is read once.
_TAKES_BACK: Final = re.compile(
    r"\b(?:wait|actually|no(?=\s?[,.:;!—–])|sorry|oops|correction|(?:my|a|an)\s+(?:mistake|error)(?=\s?[,.:;!—–])|"
    r"second\s+thought|(?:but|however)(?=,|\s+(?:it|actually)\b))\b"
    r"(?>(?:[\s,.:;!…'’—–]|\b(?:no|wait|actually|sorry|so|that|it|s|is|should|must|would|have|been|be|i|meant?|rather|"
    r"the|correct|right|final|answer|option|choice)\b){1,30})",
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
    """One statement of an answer; positions are in characters of the plain text."""

    start: int
    slot: int  # position of the answer itself
    line: str  # from the answer to the end of its line, at most 400 characters
    form: bool  # True for a form that prompts ask for, False for prose


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
        slot = found.end()
        if _HEADS.search(found["name"] or "") and not _ONE.search(before):
            # A heading over a list of options: A, and B somewhere after it.
            first = _FIRST.match(text, slot)
            if first and _SECOND.search(text, first.end()):
                continue
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
    """Return the line up to the end of its first sentence."""
    found = _ENDS.search(line)
    return line[: found.start()] if found else line


def same_sentence(text: str, start: int, end: int) -> bool:
    """Return True if between two positions no sentence ends and no word takes the first statement back."""
    between = text[start:end]
    return not _ENDS.search(between) and not re.search(
        r"\b(?:no|wait|actually|rather|instead|but)\b", between, re.I
    )


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
    """Return a text as it is compared: folded, without case, points and tatweel, with single spaces.

    >>> comparable("İSTANBUL  Ⅳ")
    'istanbul iv'
    """
    return collapse_spaces(fold_case(fold(text))).translate(_POINTS)


def turkish(text: str) -> str:
    """Return a text without case as Turkish has it, where ``I`` is the capital of ``ı``."""
    return comparable(text.replace("İ", "i").replace("I", "ı"))


def find_words(texts: Sequence[str], body: str) -> Iterator[Occurrence]:
    """Yield where texts are in a body, unless as a part of an alphabetic word; both are compared as they are given.

    Where several texts begin at one place only the longest counts; one that overlaps another counts, too.
    """
    if not (known := sorted(filter(None, texts), key=len, reverse=True)):
        return
    for found in regex.compile("|".join(map(regex.escape, known))).finditer(body, overlapped=True):
        apart = _ends(found[0], body[found.end() :]), _begins(found[0], body[: found.start()])
        if False not in apart:
            yield Occurrence(found[0], found.start(), found.end(), certain=None not in apart)


def _ends(word: str, rest: str) -> bool | None:
    """Return True if a word ends before the rest of its text, False if it goes on, None if that is undecided."""
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
    """Return True if a word begins after the text before it, False if it goes on, None if that is undecided."""
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
    """Return whether two neighbouring characters belong to two words; None if their scripts do not decide it."""
    if not regex.match(r"\w", outer):
        return True
    if _SIGN.match(inner):
        return None
    if not _SIGN.match(outer):
        return False
    return None if inner.isdigit() and _NUMERAL.match(outer) else True


def _is_single(word: str, neighbour: str) -> bool:
    """Return True for a word of one sign next to its own script."""
    return len(word) == 1 and all(
        regex.match(r"\p{Han}|\p{Thai}", sign) for sign in (word, neighbour)
    )
