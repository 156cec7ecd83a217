"""Pairs of questions that are too alike.

**Tied** questions of different categories give each other away, although their authors named the facts differently:

    "Who tested the first smallpox vaccine in 1796?"  "Who is known as the inventor of the smallpox vaccine?"

Two are tied if they have the same right answer and share a rare word, if each names the other's right answer, or if
they are the same question. The rule ties some pairs that are harmless, which costs nothing: the pools are large.

**Near duplicates** are prompts that are nearly the same. They are listed for a reader and not refused: computed
questions share their wording and differ in a number that is the whole question, and a slip of the pen makes two of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from standard_probe.question import Question

_RARE: Final = 12
"""Maximum number of questions in which a rare word occurs."""

_SHORTEST: Final = 4
"""Minimum number of characters of a rare word, and of an answer that can give another away."""

_PIECE: Final = 4
"""Characters of the pieces by which prompts are compared."""

_ARTICLES: Final = re.compile(r"^(?:a|an|the) ")


def tie(pools: Mapping[str, Sequence[Question]]) -> dict[str, list[Question]]:
    """The pools, where questions that give each other away have a fact in common."""
    questions = [question for _, pool in sorted(pools.items()) for question in pool]
    words = [_words(question.prompt) for question in questions]
    often = Counter(word for own in words for word in set(own))
    texts = [f" {' '.join(own)} " for own in words]
    rights = [_ARTICLES.sub("", " ".join(_words(question.right))) for question in questions]
    rare = [{word for word in own if often[word] <= _RARE and len(word) >= _SHORTEST} for own in words]
    more: dict[int, set[str]] = {}
    for i, j in combinations(range(len(questions)), 2):
        # Within a category the authors name the same fact in the same words.
        if questions[i].category == questions[j].category:
            continue
        same_text = texts[i] == texts[j]
        if rights[i] == rights[j]:
            tied = rights[i] not in ("yes", "no") and (same_text or not rare[i].isdisjoint(rare[j]))
        else:
            tied = same_text or (_names(texts[j], rights[i]) and _names(texts[i], rights[j]))
        if tied:
            fact = f"tied:{questions[i].prompt}"
            more.setdefault(i, set()).add(fact)
            more.setdefault(j, set()).add(fact)
    made: dict[str, list[Question]] = {name: [] for name in sorted(pools)}
    for index, question in enumerate(questions):
        own = replace(question, uses=question.uses | more[index]) if index in more else question
        made[question.category].append(own)
    return made


def _names(text: str, answer: str) -> bool:
    """True if a text contains an answer as whole words; numbers and short answers are in many texts by chance."""
    return len(answer) >= _SHORTEST and not answer.isdigit() and f" {answer} " in text


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold())


def near_duplicates(prompts: Sequence[str], *, least: float = 0.8) -> list[tuple[float, str, str]]:
    """(overlap, prompt, prompt) of the pairs of prompts with at least this overlap, the most alike first.

    The overlap is the Jaccard index of their four-character pieces, from 0 to 1, without case and with single spaces.

    >>> near_duplicates(["Is 91 a prime number?", "Is 97 a prime number?", "Who wrote Emma?"], least=0.6)
    [(0.64, 'Is 91 a prime number?', 'Is 97 a prime number?')]
    """
    pieces = [_pieces(prompt) for prompt in prompts]
    holders: dict[str, list[int]] = {}
    found = []
    for index, own in enumerate(pieces):
        # Only earlier prompts that share a piece are compared, each pair once.
        shared = Counter(earlier for piece in own for earlier in holders.get(piece, ()))
        for earlier, count in shared.items():
            overlap = count / (len(own) + len(pieces[earlier]) - count)
            if overlap >= least:
                found.append((round(overlap, 2), prompts[earlier], prompts[index]))
        for piece in own:
            holders.setdefault(piece, []).append(index)
    return sorted(found, key=lambda pair: (-pair[0], pair[1:]))


def _pieces(prompt: str) -> set[str]:
    text = " ".join(prompt.casefold().split())
    return {text[start : start + _PIECE] for start in range(max(1, len(text) - _PIECE + 1))}
