"""The option that an output names, by its letter or by its text.

By letter (`extract_letter`), in this order: the last statement of an answer (found by
`statements`), the first or the last line, prose. An output has the asked form if it answers in the
way that the prompt requests.

    "... Answer: B"                  asked form; the last one counts
    "(B)", "B. Paris", "**B**"       nothing but the answer, on the first or the last line
    "so I would pick B."             prose: an answer, without the asked form
    "not B but C"                    C
    "Answer: A or B"                 ambiguous
    "A dog is an animal."            no answer: an article
    "A dog"                          the option that reads "A dog"; A if there is none

Only letters of the item's options are answers, and only where they stand alone: neither in a word
nor in "C++", "A-level" or "U.S.A". Letters of other scripts and enclosed letters that look like
Latin ones are read as these.

By text (`extract_option_text`), if the prompt requests a letter and the output names the option
instead: the knowledge is there, the form is not. With the options Santiago, Lima and Quito:

    "Answer: Santiago"                           Santiago
    "The capital of Chile is Santiago."          Santiago: the only option in the last line
    "It is Santiago, not Lima"                   Santiago
    "Santiago or Lima"                           ambiguous

Texts are compared without case and with single spaces. Where one option's text contains another's
(``Paris, Texas`` and ``Paris``), the longer counts.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from forgetwatch.grading.output_text import (
    AMBIGUOUS,
    NOTHING,
    Extracted,
    first_sentence,
    normalise,
    plain,
    retractions,
    same_sentence,
    statements,
)
from forgetwatch.grading.whole_words import find_words
from forgetwatch.probe import LETTERS

# Letters of other scripts and signs, and the Latin letters that they look like.
_LOOK_ALIKE: Final = (
    str.maketrans("АВСЕНІЈКМОРЅТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABCEHIJKMOPSTXABEZHIKMNOPTYX")
    | str.maketrans("асеоԁ", "aceod")
    | {0x1F150 + i: letter for i, letter in enumerate(LETTERS)}  # white on black circles
    | {0x1F170 + i: letter for i, letter in enumerate(LETTERS)}  # white on black squares
    | {
        0x1F1E6 + i: letter for i, letter in enumerate(LETTERS)
    }  # the letters that flags are made of
)
_SINGLE: Final = re.compile(rf"(?<!\w)[{''.join(map(chr, _LOOK_ALIKE))}](?!\w)")
_PART: Final = r"[^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
"""Character of a word, in scripts that separate words by spaces."""

_ALONE: Final = rf"(?<!{_PART})(?<!\w['’.-])([A-Za-z])(?!{_PART})(?!['’]\w)(?![-–]\w|\+\+|\#)(?!\.\w(?!\w))(?!\s*=)"
"""Group 1: one letter that is no part of a word, a name (C++, A-level, U.S.A) or an equation."""

# After a bare lower-case letter, A or I: no word may follow, or the letter may be an article or a
# pronoun.
_NO_PROSE: Final = r"(?!\s+(?!(?:or|and|because|since|as|is|was)\b)[^\W\d_])"
# Marks and words between the start of a statement and its letter: "**(", "most likely option". At
# most twelve.
_LEAD_IN: Final = re.compile(
    r"(?:[\s()\[\]{}<>\"'“”‘’«»|:>*–-]|\\boxed|(?:definitely|probably|likely|most|clearly|simply|just|therefore|thus|"
    r"either|both|option|choice|letter|answer|the|correct|is|be|it|it's|that|la|le|el|I\s+(?:think|believe|guess|would\s+say))"
    r"\b){0,12}",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(rf"(?:(?![aI]\b){_ALONE}|([aI])(?![\w'’]){_NO_PROSE})")
_LOWER_GIVEN: Final = re.compile(_NO_PROSE)
# A further letter, joined by "or", "and", "/" or a comma: the answer is ambiguous.
_JOINED: Final = re.compile(
    r"[)\]}>\"'’”.\s]*(?:(?P<weak>[,;])\s*|(?:,\s*)?(?:\b(?:or|and|oder|und|ou)\b|[/|&+]|或|和)\s*)"
    rf"(?:(?:option|choice|either|maybe)\s+)?[\s(\[{{<\"']*{_ALONE}(?P<word>\s+[^\W\d_]{{2}})?"
)
_OR_LATER: Final = re.compile(r"\bor\s+(?:option\s+|choice\s+)?(?:\(([A-Z])\)|([A-Z])[.):])")
# "not B", "rather than B"; "B is wrong".
_LETTER_NEGATED: Final = re.compile(
    r"\b(?:(?:is|are|was)n['’]t|not|neither|nor|never|(?:rather|other)\s+than|instead\s+of|excluding)\s+"
    rf"(?:(?:option|choice|the|answer)\s+)*[(\[]?{_ALONE}[)\]]?(?:\s*,?\s*(?:but|rather|instead)\b)?",
    re.IGNORECASE,
)
_LETTER_REJECTED: Final = re.compile(
    rf"[(\[]?{_ALONE}[)\]]?\s+(?:(?:is|was)\s+(?:clearly\s+|definitely\s+)?(?:not|wrong|incorrect|false)\b|(?:is|was)n['’]t\b)"
)
_SENTENCE: Final = re.compile(r"[.!?。！？;](?=\s|\Z)")
# Words of choice in prose, right before the letter.
_CHOOSES: Final = re.compile(
    r"\b(?:choose|chose|pick|picked|select|selected|opt\s+for|go(?:ing)?\s+(?:with|for)|settle\s+on|my\s+guess:?|"
    r"(?:it|that)(?:['’]s|\s+is|\s+must\s+be|\s+would\s+be)|(?:so|thus|therefore|hence|conclusion)[,:]?)\s+"
    r"|(?:⇒|→|=>|->)\s*|[选選](?:[择擇])?\s*:?\s*",
    re.IGNORECASE,
)
# "B is therefore the correct one".
_IS_RIGHT: Final = re.compile(
    rf"[(\[]?{_ALONE}[)\]]?\s+(?:is|must\s+be|would\s+be|seems)\s+(?:(?:therefore|thus|clearly|definitely)\s+)?(?:the\s+)?"
    r"(?:(?:most\s+)?(?:correct|right|best|true|accurate|appropriate)|answer)\b"
)
# After a retraction: the new letter, and nothing else on its line.
_INSTEAD: Final = re.compile(
    rf"[(\[\"'“]{{0,3}}{_ALONE}[)\]\"'”]{{0,3}}(?:\s+is\s+(?:the\s+)?(?:correct|right|best)\b[^\n]*|[.!])?[^\S\n]*(?:\n|\Z)"
)
# A line that begins with a letter; `mark` is what follows the letter at once, `rest` the text after
# that.
_LINE: Final = re.compile(
    rf"[\s(\[{{<\"'“>#*-]*(?:option\s+|choice\s+)?[(\[]?{_ALONE}(?P<mark>[\s)\]}}>\"'”.:,!-]*)(?P<rest>.*)",
    re.IGNORECASE,
)
_TEXT_NEGATED: Final = re.compile(
    r"(?:\bnot|n['’]t|\bneither|\bnor|\brather than|\binstead of)\s+(?:(?:the|an?)\s+)?\Z"
)
# A line of a list of options: it repeats the question and is no answer.
_LISTED: Final = re.compile(r"\W*[A-Z][.):]\s")


def extract_letter(body: str, options: Sequence[str] | None) -> Extracted:
    """Find the option letter that an output gives as its answer.

    Without `options`, any letter of an open answer.
    """
    folded = _SINGLE.sub(lambda single: single[0].translate(_LOOK_ALIKE), plain(body))
    count = len(LETTERS) if options is None else min(len(options), len(LETTERS))
    return (
        _stated(folded, count, options, ends=body[-1:].isspace())
        or _line(folded, count, options)
        or _prose(folded, count)
    )


def extract_option_text(body: str, options: Sequence[str]) -> Extracted:
    """Find the option whose text an output gives.

    The result has `as_text` set.
    """
    folded = plain(body)
    # An option text of one letter was searched as a letter; as a word it may be an article.
    texts = ["" if re.fullmatch("[a-z]", option) else option for option in map(normalise, options)]
    lines = [line for line in folded.split("\n") if line.strip()]
    stated = [statement.line for statement in statements(folded)]
    for line in (*reversed(stated), folded, *lines[-1:], *lines[:1]):
        same = [index for index, option in enumerate(texts) if option and option == normalise(line)]
        if len(same) == 1:
            return _as_text(same[0], line, folded, body)
    for line in (*stated[-1:], *(line for line in lines[-1:] if not _LISTED.match(line))):
        for clause in (first_sentence(line), line):
            inside, undecided = _inside(normalise(clause), texts)
            if not inside and undecided:
                return Extracted(
                    unscored=f"it cannot be decided whether {undecided!r} is a word of its own there"
                )
            if len(inside) == 1:
                return _as_text(inside.pop(), clause, folded, body)
            if inside:
                return AMBIGUOUS if len(inside) < len(texts) else NOTHING
    return NOTHING


def _stated(
    text: str, count: int, options: Sequence[str] | None, *, ends: bool
) -> Extracted | None:
    # A letter that is taken back does not count. Two different letters in one sentence are
    # ambiguous.
    slots = (
        (s, _leading_letter(s.line, count=count, options=options))
        for s in reversed(list(statements(text)))
    )
    answered = list(islice(((s, option_found) for s, option_found in slots if option_found), 2))
    if not answered:
        return None
    last_statement, (answer, end) = answered[0]
    if len(answered) > 1:
        before, (earlier, _) = answered[1]
        unlike = earlier.option is not None and earlier.option != answer.option
        if unlike and same_sentence(text, before.slot, last_statement.start):
            return AMBIGUOUS
    instead = [
        correction
        for at in retractions(text, last_statement.slot + end)
        if (correction := _INSTEAD.match(text, at))
    ]
    if instead and (corrected := _option(instead[-1][1], count=count)) != NOTHING:
        return replace(corrected, settled=ends or bool(text[instead[-1].end(1) :].strip()))
    if answer == NOTHING:
        return NOTHING
    # A letter at the very end of a cut text may be the first letter of a word.
    settled = ends or bool(text[last_statement.slot + end :].strip())
    return replace(answer, form=last_statement.form and not answer.as_text, settled=settled)


def _line(text: str, count: int, options: Sequence[str] | None) -> Extracted | None:
    # A prompt that ends in ``Answer:`` gives such an output.
    lines = [line for line in text.split("\n") if line.strip()]
    begins = [beginning for line in lines if (beginning := _LINE.match(line))]
    # Several lines with a letter and a mark are a list of options, not answers.
    listed = {
        beginning[1].upper()
        for beginning in begins
        if beginning[1].isupper() and beginning["mark"].strip()
    }
    given: dict[str, bool] = {}
    for index in sorted({0, len(lines) - 1} if lines else ()):
        beginning = _LINE.match(lines[index])
        if beginning is None:
            continue
        rest, chosen = normalise(beginning["rest"]), _option(beginning[1], count=count)
        same = (
            options is not None
            and chosen.option is not None
            and rest == normalise(options[chosen.option])
        )
        marked = (
            index == 0
            and len(listed) == 1
            and bool(beginning["mark"].strip())
            and beginning[1].isupper()
        )
        if not rest or (same and len(listed) < 2) or marked:
            several = _leading_letter(lines[index], count=count)
            if several and several[0].ambiguous:
                return AMBIGUOUS
            given[beginning[1].upper()] = not rest or same
    if len(given) > 1 or (not given and 1 < len(listed) < count and len(listed) == len(lines)):
        return AMBIGUOUS
    for name, form in given.items():
        chosen = _option(name, count=count)
        return NOTHING if chosen == NOTHING else replace(chosen, form=form)
    return None


def _prose(text: str, count: int) -> Extracted:
    # In a text of a few short words, any letter at its start.
    last_option, position = NOTHING, -1
    for chooses in _CHOOSES.finditer(text):
        slot = _leading_letter(
            text[chooses.end() : chooses.end() + 400].split("\n", 1)[0], count=count
        )
        if slot and slot[0] != NOTHING:
            last_option, position = slot[0], chooses.start()
    for right in _IS_RIGHT.finditer(text):
        if right[1].isupper() and right.start() > position:
            last_option, position = _option(right[1], count=count), right.start()
    if last_option == NOTHING and len(text) < 60 and not re.search(r"[^\W\d_]{7}", text):
        slot = _leading_letter(text, count=count)
        return AMBIGUOUS if slot and slot[0].ambiguous else NOTHING
    return last_option


def _leading_letter(
    line: str, *, count: int, options: Sequence[str] | None = None
) -> tuple[Extracted, int] | None:
    # `NOTHING` if the letter is no option's. With `options` the line may also be the text of one
    # that begins with an article.
    # Denied letters become spaces, so that positions in the line stay valid.
    kept = _LETTER_REJECTED.sub(_blank, _LETTER_NEGATED.sub(_blank, line))
    opening = _LEAD_IN.match(kept)
    letter_match = _GIVEN.match(kept, opening.end() if opening else 0)
    if letter_match is None:
        return None
    first, end = letter_match[1] or letter_match[2], letter_match.end()
    if first.islower() and not _LOWER_GIVEN.match(kept, end):
        return None
    if first in "AI" and options is not None and re.match(r"\s\w", kept[end:]):
        phrase = normalise(kept[letter_match.start() :])
        same = [index for index, option in enumerate(options) if normalise(option) == phrase]
        if len(same) == 1:
            return Extracted(text=phrase, option=same[0], as_text=True), len(line)
    if len({first.upper(), *_others(kept, end, lower=first.islower())}) > 1:
        return AMBIGUOUS, end
    return _option(first, count=count), end


def _others(line: str, position: int, *, lower: bool) -> set[str]:
    # The first letter ends at `position`.
    letters: set[str] = set()
    while joined := _JOINED.match(line, position):
        # "B, I think": a letter with a word after it begins a clause; a lower-case letter is a word
        # of one.
        if (joined["weak"] and joined["word"]) or (joined[2].islower() and not lower):
            break
        letters.add(joined[2].upper())
        position = joined.end(2)
    stop = _SENTENCE.search(line, position + 1)
    if later := _OR_LATER.search(line, position, stop.end() if stop else len(line)):
        letters.add(later[1] or later[2])
    return letters


def _option(name: str, *, count: int) -> Extracted:
    index = LETTERS.index(name.upper())
    return Extracted(text=name.upper(), option=index) if index < count else NOTHING


def _blank(denied: re.Match[str]) -> str:
    return " " * len(denied[0])


def _as_text(index: int, line: str, text: str, body: str) -> Extracted:
    cut = (
        text.endswith(line.rstrip())
        and not body[-1:].isspace()
        and not re.search(r"[.!?;\])}\"]\Z", line.rstrip())
    )
    return Extracted(text=line.strip(), option=index, as_text=True, settled=not cut)


def _inside(line: str, texts: Sequence[str]) -> tuple[set[int], str]:
    # Options that are denied, or the start of a longer option, are not named.
    named_texts, undecided, until = set[str](), "", 0
    for occurrence in find_words([text for text in texts if re.search(r"\w", text)], line):
        if occurrence.start >= until and not _TEXT_NEGATED.search(
            line[max(0, occurrence.start - 40) : occurrence.start]
        ):
            named_texts |= {occurrence.text} if occurrence.certain else set()
            undecided, until = (
                undecided or ("" if occurrence.certain else occurrence.text),
                occurrence.end,
            )
    return {index for index, text in enumerate(texts) if text in named_texts}, undecided
