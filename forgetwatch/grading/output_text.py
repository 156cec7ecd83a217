r"""Text of an output: without its thinking block, bounded and normalised, and where it states its final answer.

    "<think>A? No, B.</think> Answer: B"                     after_thinking            " Answer: B"
    "<think>A? No, B. But then"                              after_thinking            None: it ends inside the block
    " B\n\nQuestion: Capital of Chile? ... Answer: A"        before_next_question      "B"
    "Ａnswer： **Ⓑ**"                                         fold                      "Answer: **B**"
    "**Answer:** `B`"                                        plain                     "Answer: B"

Reasoning models weigh every option in their thinking, so only the text after it is
searched. A closing tag without an opening one ends a block that the prompt opened, as many chat
templates do. Where the prompt opened a block and the output ends before it is closed, the text
alone does not show it: the caller puts `opening_tag` of the prompt before the output. Base models
go on with a question of their own after an answer; the text before it is what counts.

An answer stands at the end, so patterns search the last `TAIL` characters only, and the
time for an output does not depend on its length.

Statements are "Answer: ...", "the answer is ...", \boxed{...}, "#### ...". The last statement
counts, because a model that corrects itself does so afterwards; "Wait, no, B" corrects it too. A
heading over the options ("Let's look at each option: A. ...") states nothing. A statement has an
*asked form* if it is one that prompts request: ``Answer: X`` on a line of its own, as in zero-shot
chain of thought (arXiv 2510.17776), a box, a tag or ``####``. "The answer is X" is prose, without
an asked form.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TAIL: Final = 4_000
"""Number of characters at the end of an output that patterns search."""


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """Answer of an output, before it is compared with the right one.

    Attributes:
        text: The answer as written; None where there is none.
        option: Index of the option that it names; None for open answers.
        as_text: True where it is the option's text instead of its letter.
        form: True for a form that prompts ask for (``Answer: B``, a boxed answer, nothing but the
            answer); False within prose.
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
    | {ord(c): "-" for c in "−﹣－‐‑‒–⁃"}
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
    """Last `limit` characters of a text, without a halved word.

    A word that the limit halves is left out.

    >>> tail("an answer", limit=5)
    ''
    >>> tail("the answer B", limit=5)
    ' B'
    """
    text = text.rstrip()
    return text if len(text) <= limit else _CUT_WORD.sub("", text[-limit:])


def fold(text: str) -> str:
    """Fold a text to compatibility form (NFKC).

    Full-width and mathematical letters and the digits of any script as ASCII.

    Invisible characters are removed. Powers become ``^2`` and fractions of one character `` 1/2``:
    NFKC alone would join them with the digits before them.

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
    return _NOT_ASCII.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text)


def normalise(text: str) -> str:
    """Normalise a text for comparison.

    Folded, lower case, single spaces, no quotes or stops around.

    >>> normalise(' “Santiago  de Chile.” ')
    'santiago de chile'
    """
    return collapse_spaces(fold_case(fold(text))).strip(" .,;:!?\"'“”‘’«»„*`_$")


def collapse_spaces(text: str) -> str:
    """Replace each run of white space by a space."""
    return " ".join(text.split())


def fold_case(text: str) -> str:
    """Remove case; also the dot that ``İ`` leaves over ``i``."""
    return text.casefold().replace("i\u0307", "i")


# <think>, [THINK], <seed:think>, <|begin_of_thought|>, and the channels of harmony-like templates.
_TAG: Final = re.compile(
    r"[<\[◁](/?)(?:seed:)?(think(?:ing)?|thought|reasoning)[>\]▷]"
    r"|<\|(begin|end)_of_(thought)\|>"
    r"|<\|?channel(?:\|?>)(analysis|commentary(?: to=)?|thought|final)\b"
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
    """Text of an output after the last thinking block.

    >>> after_thinking("<think>A or B?</think>B")
    'B'

    Returns:
        All of the output without a block; None if it ends inside a block.
    """
    opened: list[str] = []
    after = 0
    for tag in _TAG.finditer(output):
        closes, name, edge, thought, channel, channel_end = tag.groups()
        kind = (name or thought or "channel").lower()
        is_call = bool(channel) and channel.endswith("=")  # of a tool: the answer itself
        if channel and channel.lower() != "final" and not is_call:
            # A channel replaces the one before it; "final" closes it.
            opened = ["channel"]
            continue
        if closes or channel or channel_end or (edge and edge.lower() == "end"):
            # A block ends those within it; a tag that was never opened here closes the prompt's
            # block, and all.
            opened = opened[: opened.index(kind)] if kind in opened else []
            after = tag.start() if is_call else tag.end()
        else:
            opened.append(kind)
        if len(opened) > _DEEPEST:
            return None
    if opened:
        return None
    answer_text = _HEADER.sub("", output[after:]) if after else output
    return _CONTROL.sub("", answer_text) if answer_text.rstrip().endswith("|>") else answer_text


def opening_tag(prompt: str) -> str:
    r"""Tag of the thinking block that a prompt opens at the end.

    >>> opening_tag("Capital of Peru?<|assistant|><think>\n")
    '<think>'

    Returns:
        The tag, or an empty text.
    """
    last_tag = max(_TAG.finditer(prompt), key=re.Match.start, default=None)
    return (
        last_tag[0]
        if last_tag and not prompt[last_tag.end() :].strip() and after_thinking(last_tag[0]) is None
        else ""
    )


def is_thinking_tag(token: str) -> bool:
    """Does a token delimit thinking?

    Removed as a special token, it would join thinking and answer.
    """
    return token in _CHANNEL or _TAG.fullmatch(token) is not None


def before_next_question(body: str) -> str | None:
    """Text before the first question that the model writes.

    None if there is none, or no text before it.

    It is the answer only if it states one: a model may also copy the question before it answers.

    Returns:
        The text, or None without such a question, or without text before.
    """
    stripped = body.lstrip()
    question = _NEXT.search(stripped)
    return stripped[: question.start() + 1] if question else None


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


# "Wait, no, it should be": a word of correction, then words that lead to the new answer. The repeat
# is atomic (``(?>...)``), so that a long run of such words is read once.
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
    """End of an output, folded, without emphasis, LaTeX and tags.

    >>> plain("**Answer:** `B`")
    'Answer: B'
    """
    stripped = _DRESS.sub("", fold(tail(body)))
    return re.sub("</answer>", "\n", stripped, flags=re.IGNORECASE)


def statements(text: str) -> Iterator[Statement]:
    """Statements of a plain text, in order."""
    for match in _STATES.finditer(text):
        before = text[max(0, match.start() - 30) : match.start()]
        if _DENIED.search(before) or _NOT.search(match["prose"] or ""):
            continue
        slot = match.end()
        if _HEADS.search(match["name"] or "") and not _ONE.search(before):
            # A heading over a list of options: A, and B somewhere after it.
            first_word = _FIRST.match(text, slot)
            if first_word and _SECOND.search(text, first_word.end()):
                continue
        while slot < len(text) and text[slot].isspace():
            slot += 1
        end = text.find("\n", slot, slot + 400)
        line = text[slot : end if end >= 0 else slot + 400]
        form = match["prose"] is None or match["late"] is not None
        yield Statement(match.start(), slot, line, form)


def retractions(text: str, position: int) -> Iterator[int]:
    """Positions after words such as "Wait, no,".

    A new answer may replace the one stated before.
    """
    return (match.end() for match in _TAKES_BACK.finditer(text, position))


def first_sentence(line: str) -> str:
    """The line up to the end of its first sentence."""
    end = _ENDS.search(line)
    return line[: end.start()] if end else line


def same_sentence(text: str, start: int, end: int) -> bool:
    """Are two positions in the same sentence, without a retraction?"""
    between = text[start:end]
    return not _ENDS.search(between) and not re.search(
        r"\b(?:no|wait|actually|rather|instead|but)\b", between, re.I
    )
