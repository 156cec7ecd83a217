"""How near the questions of a probe are to the rows of a training set: the best BM25 score of each.

BM25 counts the words of a question that a row has, the rare ones more, with long rows discounted
(Robertson and Zaragoza 2009; the package bm25s). A question with its right answer is compared with
all rows, and the score is that of the nearest one. It knows no synonyms, and scores of questions of
unlike lengths are not on one scale: divided by the score of a row that has all of the question's
words, they are from 0 to about 1.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetwatch.item import PRIVATE, Item
from forgetwatch.probes.overlap import plain, training_text

Floats = NDArray[np.float64]


_K1: Final = 1.5
"""Saturation of repeated words, the usual one."""


def right_text(item: Item) -> str:
    """Right answers of a question as one text."""
    return " ".join(item.right_texts)


def question_text(item: Item) -> str:
    """A question with right answers, without worked examples."""
    return f"{training_text(item.prompt)} {right_text(item)}"


class RightAnswer(NamedTuple):
    """The right answer of a question as text, and whether it must not be shown."""

    text: str
    is_private: bool = False


def answers_of(items: Iterable[Item]) -> dict[tuple[str, str], RightAnswer]:
    """Right answer of each question, by (task, id).

    Questions with the same answer are lost together.
    """
    return {
        (item.task, item.id): RightAnswer(right_text(item).lower(), PRIVATE in item.tags)
        for item in items
    }


def words_of(item: Item) -> list[str]:
    """Words of a question and the right answers."""
    return plain(question_text(item)).split()


def nearness_to(items: Sequence[Item], texts: Iterable[str]) -> Floats:
    """Nearness of each item to the nearest of some texts.

    Float64 [items]; 0 for no word in common.

    Raises:
        ValueError: If there is no text with a word.
    """
    import bm25s

    rows = [words for words in (plain(text).split() for text in texts) if words]
    if not rows:
        raise ValueError("needed training rows with words, found none")
    index = bm25s.BM25(k1=_K1, method="lucene")
    index.index(rows, show_progress=False)
    documents = Counter(word for words in rows for word in set(words))
    found = np.zeros(len(items))
    for at, item in enumerate(items):
        words = words_of(item)
        # A row of mean length that has each word once.
        own = sum(
            math.log1p((len(rows) - documents[word] + 0.5) / (documents[word] + 0.5))
            for word in words
        )
        found[at] = float(index.get_scores(words).max()) * (1 + _K1) / own if words else 0.0
    return found


def category_words(
    items: Sequence[Item], texts: Iterable[str], *, fewest: int = 2
) -> Mapping[str, float]:
    """Frequency of each category's words in some texts.

    Per 1,000 words; nan without such words.

    The words of a category are those that occur in it at least `fewest` times, and mostly in it.
    """
    of_category: dict[str, Counter[str]] = {}
    for item in items:
        of_category.setdefault(item.category, Counter()).update(set(words_of(item)))
    everywhere = sum(of_category.values(), Counter[str]())
    in_texts: Counter[str] = Counter()
    for text in texts:
        in_texts.update(plain(text).split())
    total = sum(in_texts.values())
    frequencies = {}
    for category, counts in of_category.items():
        uses = [
            word
            for word, count in counts.items()
            if count >= fewest and 2 * count > everywhere[word]
        ]
        frequencies[category] = (
            1000 * sum(in_texts[word] for word in uses) / total if uses and total else float("nan")
        )
    return frequencies
