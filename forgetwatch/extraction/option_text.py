"""The option that an output names by its text where the letter was asked for: knowledge without the form.

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
from typing import Final

from forgetwatch.extraction.found import AMBIGUOUS, NOTHING, Found
from forgetwatch.extraction.statement import plain, sentence, statements
from forgetwatch.extraction.text import one_of, words

_NEGATED: Final = re.compile(r"(?:\bnot|n['’]t|\bneither|\bnor|\brather than|\binstead of)\s+(?:(?:the|an?)\s+)?\Z")
_LISTED: Final = re.compile(r"\W*[A-Z][.):]\s")


def option_text(body: str, options: Sequence[str]) -> Found:
    """The option whose text the output gives as its answer, flagged `as_text`."""
    text = plain(body)
    # A text of one letter was looked for as a letter; as a word it may be an article.
    texts = ["" if re.fullmatch("[a-z]", said := words(option)) else said for option in options]
    lines = [line for line in text.split("\n") if line.strip()]
    stated = [statement.line for statement in statements(text)]
    for line in (*reversed(stated), text, *lines[-1:], *lines[:1]):
        same = [index for index, option in enumerate(texts) if option and option == words(line)]
        if len(same) == 1:
            return _as_text(same[0], line, text, body)
    for line in (*stated[-1:], *(line for line in lines[-1:] if not _LISTED.match(line))):
        for part in (sentence(line), line):
            inside = _inside(words(part), texts)
            if len(inside) == 1:
                return _as_text(inside.pop(), part, text, body)
            if inside:
                return AMBIGUOUS if len(inside) < len(texts) else NOTHING
    return NOTHING


def _as_text(index: int, line: str, text: str, body: str) -> Found:
    cut = text.endswith(line.rstrip()) and not body[-1:].isspace() and not re.search(r"[.!?;\])}\"]\Z", line.rstrip())
    return Found(text=line.strip(), option=index, as_text=True, settled=not cut)


def _inside(line: str, texts: Sequence[str]) -> set[int]:
    """The options whose text stands in a line, neither denied nor as the beginning of a longer option's."""
    if not (known := sorted({text for text in texts if re.search(r"\w", text)}, key=len, reverse=True)):
        return set()
    said = {
        found[0]
        for found in re.finditer("|".join(one_of(text).pattern for text in known), line)
        if not _NEGATED.search(line[max(0, found.start() - 40) : found.start()])
    }
    return {index for index, text in enumerate(texts) if text in said}
