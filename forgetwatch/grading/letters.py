"""Which option's letter an output gives as its answer.

    "... Answer: B"                  asked form; the last one counts
    "(B)", "B. Paris", "**B**"       nothing but the answer, on the first or the last line
    "so I would pick B."             understood, but not the form
    "Answer: A or B"                 ambiguous
    "A dog is an animal."            no answer: an article

Only letters that the item has are answers. Cyrillic and Greek capitals that look like Latin ones are read as these.

The option that an output names by its text where the letter was asked for: knowledge without the form.

    options Santiago, Lima, Quito

    "Answer: Santiago"                           Santiago
    "The capital of Chile is Santiago."          Santiago: the only option in the last line
    "It is Santiago, not Lima"                   Santiago
    "Santiago or Lima"                           ambiguous

Texts are compared without case and with single spaces. Where one option's text holds another's (``Paris, Texas`` and
``Paris``), the longer counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from forgetwatch.grading.statements import (
    ALONE,
    leading_letter,
    option,
    plain,
    retractions,
    same_sentence,
    sentence,
    statements,
)
from forgetwatch.grading.text import AMBIGUOUS, NOTHING, Extracted, normalise, whole_words
from forgetwatch.probe import LETTERS

_LOOK_ALIKE: Final = (
    str.maketrans("АВСЕНІЈКМОРЅТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABCEHIJKMOPSTXABEZHIKMNOPTYX")
    | str.maketrans("асеоԁ", "aceod")
    | {0x1F150 + i: letter for i, letter in enumerate(LETTERS)}  # white on black circles
    | {0x1F170 + i: letter for i, letter in enumerate(LETTERS)}  # white on black squares
    | {0x1F1E6 + i: letter for i, letter in enumerate(LETTERS)}  # the letters that flags are made of
)
_SINGLE: Final = re.compile(rf"(?<!\w)[{''.join(map(chr, _LOOK_ALIKE))}](?!\w)")
_CHOOSES: Final = re.compile(
    r"\b(?:choose|chose|pick|picked|select|selected|opt\s+for|go(?:ing)?\s+(?:with|for)|settle\s+on|my\s+guess:?|"
    r"(?:it|that)(?:['’]s|\s+is|\s+must\s+be|\s+would\s+be)|(?:so|thus|therefore|hence|conclusion)[,:]?)\s+"
    r"|(?:⇒|→|=>|->)\s*|[选選](?:[择擇])?\s*:?\s*",
    re.IGNORECASE,
)
_IS_RIGHT: Final = re.compile(
    rf"[(\[]?{ALONE}[)\]]?\s+(?:is|must\s+be|would\s+be|seems)\s+(?:(?:therefore|thus|clearly|definitely)\s+)?(?:the\s+)?"
    r"(?:(?:most\s+)?(?:correct|right|best|true|accurate|appropriate)|answer)\b"
)
_INSTEAD: Final = re.compile(
    rf"[(\[\"'“]{{0,3}}{ALONE}[)\]\"'”]{{0,3}}(?:\s+is\s+(?:the\s+)?(?:correct|right|best)\b[^\n]*|[.!])?[^\S\n]*(?:\n|\Z)"
)
_LINE: Final = re.compile(
    rf"[\s(\[{{<\"'“>#*-]*(?:option\s+|choice\s+)?[(\[]?{ALONE}(?P<mark>[\s)\]}}>\"'”.:,!-]*)(?P<rest>.*)",
    re.IGNORECASE,
)


def extract_letter(body: str, options: Sequence[str] | None) -> Extracted:
    """The option letter that the output gives.

    Args:
        body: The output behind its thinking block.
        options: The options' texts, of which the first 26 have letters; None for an open answer, any letter.
    """
    text = _SINGLE.sub(lambda single: single[0].translate(_LOOK_ALIKE), plain(body))
    count = len(LETTERS) if options is None else min(len(options), len(LETTERS))
    return _stated(text, count, options, ends=body[-1:].isspace()) or _line(text, count, options) or _prose(text, count)


def _stated(text: str, count: int, options: Sequence[str] | None, *, ends: bool) -> Extracted | None:
    """The letter of the last statement, unless it is taken back; two in the same sentence contradict each other."""
    slots = ((s, leading_letter(s.line, count=count, options=options)) for s in reversed(list(statements(text))))
    given = list(islice(((s, found) for s, found in slots if found), 2))
    if not given:
        return None
    last, (answer, end) = given[0]
    if len(given) > 1:
        before, (earlier, _) = given[1]
        unlike = earlier.option is not None and earlier.option != answer.option
        if unlike and same_sentence(text, before.slot, last.start):
            return AMBIGUOUS
    instead = [found for at in retractions(text, last.slot + end) if (found := _INSTEAD.match(text, at))]
    if instead and (other := option(instead[-1][1], count=count)) != NOTHING:
        return replace(other, settled=ends or bool(text[instead[-1].end(1) :].strip()))
    if answer == NOTHING:
        return NOTHING
    # Where a text was cut right behind a letter, that letter may be the first of a word.
    settled = ends or bool(text[last.slot + end :].strip())
    return replace(answer, form=last.form and not answer.as_text, settled=settled)


def _line(text: str, count: int, options: Sequence[str] | None) -> Extracted | None:
    """The letter that the first or the last line is, as after a prompt that ends in ``Answer:``."""
    lines = [line for line in text.split("\n") if line.strip()]
    begins = [found for line in lines if (found := _LINE.match(line))]
    listed = {found[1].upper() for found in begins if found[1].isupper() and found["mark"].strip()}
    given: dict[str, bool] = {}
    for place in sorted({0, len(lines) - 1} if lines else ()):
        found = _LINE.match(lines[place])
        if found is None:
            continue
        rest, chosen = normalise(found["rest"]), option(found[1], count=count)
        same = options is not None and chosen.option is not None and rest == normalise(options[chosen.option])
        marked = place == 0 and len(listed) == 1 and bool(found["mark"].strip()) and found[1].isupper()
        if not rest or (same and len(listed) < 2) or marked:
            several = leading_letter(lines[place], count=count)
            if several and several[0].ambiguous:
                return AMBIGUOUS
            given[found[1].upper()] = not rest or same
    if len(given) > 1 or (not given and 1 < len(listed) < count and len(listed) == len(lines)):
        return AMBIGUOUS
    for name, form in given.items():
        chosen = option(name, count=count)
        return NOTHING if chosen == NOTHING else replace(chosen, form=form)
    return None


def _prose(text: str, count: int) -> Extracted:
    """The letter that the last sentence with a choice in it names."""
    last, place = NOTHING, -1
    for chooses in _CHOOSES.finditer(text):
        slot = leading_letter(text[chooses.end() : chooses.end() + 400].split("\n", 1)[0], count=count)
        if slot and slot[0] != NOTHING:
            last, place = slot[0], chooses.start()
    for right in _IS_RIGHT.finditer(text):
        if right[1].isupper() and right.start() > place:
            last, place = option(right[1], count=count), right.start()
    if last == NOTHING and len(text) < 60 and not re.search(r"[^\W\d_]{7}", text):
        slot = leading_letter(text, count=count)
        return AMBIGUOUS if slot and slot[0].ambiguous else NOTHING
    return last


_NEGATED: Final = re.compile(r"(?:\bnot|n['’]t|\bneither|\bnor|\brather than|\binstead of)\s+(?:(?:the|an?)\s+)?\Z")
_LISTED: Final = re.compile(r"\W*[A-Z][.):]\s")


def extract_option_text(body: str, options: Sequence[str]) -> Extracted:
    """The option whose text the output gives as its answer, flagged `as_text`."""
    text = plain(body)
    # A text of one letter was looked for as a letter; as a word it may be an article.
    texts = ["" if re.fullmatch("[a-z]", said := normalise(option)) else said for option in options]
    lines = [line for line in text.split("\n") if line.strip()]
    stated = [statement.line for statement in statements(text)]
    for line in (*reversed(stated), text, *lines[-1:], *lines[:1]):
        same = [index for index, option in enumerate(texts) if option and option == normalise(line)]
        if len(same) == 1:
            return _as_text(same[0], line, text, body)
    for line in (*stated[-1:], *(line for line in lines[-1:] if not _LISTED.match(line))):
        for part in (sentence(line), line):
            inside = _inside(normalise(part), texts)
            if len(inside) == 1:
                return _as_text(inside.pop(), part, text, body)
            if inside:
                return AMBIGUOUS if len(inside) < len(texts) else NOTHING
    return NOTHING


def _as_text(index: int, line: str, text: str, body: str) -> Extracted:
    cut = text.endswith(line.rstrip()) and not body[-1:].isspace() and not re.search(r"[.!?;\])}\"]\Z", line.rstrip())
    return Extracted(text=line.strip(), option=index, as_text=True, settled=not cut)


def _inside(line: str, texts: Sequence[str]) -> set[int]:
    """The options whose text stands in a line, neither denied nor as the beginning of a longer option's."""
    if not (known := sorted({text for text in texts if re.search(r"\w", text)}, key=len, reverse=True)):
        return set()
    said = {
        found[0]
        for found in re.finditer("|".join(whole_words(text).pattern for text in known), line)
        if not _NEGATED.search(line[max(0, found.start() - 40) : found.start()])
    }
    return {index for index, text in enumerate(texts) if text in said}
