"""Questions of unlike categories that give each other away, although their authors named the facts differently.

    "Who tested the first smallpox vaccine in 1796?"  "Who is known as the inventor of the smallpox vaccine?"

Two are tied where they have the same right answer and share a rare word, where each names the other's right answer, or
where they are the same question. The rule ties some that are innocent, which costs nothing: the pools are large.
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
"""A word that no more questions hold than this is rare."""

_SHORTEST: Final = 4
_ARTICLES: Final = re.compile(r"^(?:a|an|the) ")


def tied(pools: Mapping[str, Sequence[Question]]) -> dict[str, list[Question]]:
    """The pools, where questions that give each other away have a fact in common."""
    questions = [question for _, pool in sorted(pools.items()) for question in pool]
    words = [_words(question.prompt) for question in questions]
    often = Counter(word for own in words for word in set(own))
    texts = [f" {' '.join(own)} " for own in words]
    rights = [_ARTICLES.sub("", " ".join(_words(question.right))) for question in questions]
    rare = [{word for word in own if often[word] <= _RARE and len(word) >= _SHORTEST} for own in words]
    more: dict[int, set[str]] = {}
    for one, other in combinations(range(len(questions)), 2):
        if questions[one].category == questions[other].category:
            continue
        if rights[one] == rights[other]:
            gives_away = rights[one] not in ("yes", "no") and bool(
                rare[one] & rare[other] or texts[one] == texts[other]
            )
        else:
            named = _names(texts[other], rights[one]) and _names(texts[one], rights[other])
            gives_away = named or texts[one] == texts[other]
        if gives_away:
            name = f"tied:{questions[one].prompt}"
            more.setdefault(one, set()).add(name)
            more.setdefault(other, set()).add(name)
    made: dict[str, list[Question]] = {name: [] for name in sorted(pools)}
    for place, question in enumerate(questions):
        own = replace(question, uses=question.uses | more[place]) if place in more else question
        made[question.category].append(own)
    return made


def _names(text: str, answer: str) -> bool:
    return len(answer) >= _SHORTEST and not answer.isdigit() and f" {answer} " in text


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold())
