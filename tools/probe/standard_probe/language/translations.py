"""Basic words in six languages: a row for each English word, a column for each language, asked one way each.

    facts/language_translations.csv    animals, dog, chien, perro, Hund, cane, cão, hond
      into      What is the French word for "dog"?                       chien
      out of    What does the Spanish word "perro" mean in English?      dog
      where     In what language does "cane" mean "dog"?                 Italian

Wrong answers are of the same kind and alike in length. A word that reads the same in English, or for "where" in another
of the six, is not asked for.
"""

from __future__ import annotations

import random
import unicodedata
from typing import Final

from standard_probe.question import Question, alike_in_length
from standard_probe.written import difficulty, read_rows

LANGUAGES: Final = ("French", "Spanish", "German", "Italian", "Portuguese", "Dutch")
THINGS: Final = frozenset({"animals", "food", "house", "nature"})
"""Groups of nouns for things: where a group has too few words of like length, the others of these help out."""

SOURCE: Final = "Cambridge bilingual dictionaries"

_WORDINGS: Final = {
    "into": (
        'What is the {language} word for "{english}"?',
        'How do you say "{english}" in {language}?',
        'What is "{english}" called in {language}?',
    ),
    "out of": (
        'What does the {language} word "{word}" mean in English?',
        'What is the English word for the {language} word "{word}"?',
        'How is the {language} word "{word}" translated into English?',
    ),
    "where": (
        'In what language does "{word}" mean "{english}"?',
        'To what language does the word "{word}" for "{english}" belong?',
        'In what language is "{english}" called "{word}"?',
    ),
}

_LEAST: Final = 2
"""Least number of wrong answers."""


def translations(rng: random.Random) -> list[Question]:
    """One question for each English word.

    Args:
        rng: Draws the direction, the language, the wording, and which wrong answers of the group.
    """
    rows = read_rows("facts/language_translations")
    made: list[Question] = []
    for row in rows:
        ways = [(way, name) for way in _WORDINGS for name in LANGUAGES if _usable(row, name, alone=way == "where")]
        rng.shuffle(ways)
        wanted = rng.choice((2, 3, 3, 4))
        drawn = ((way, name, *_options(rng, row, rows, way=way, language=name)) for way, name in ways)
        way, language, right, wrong = next(one for one in drawn if len(one[3]) >= _LEAST)
        made.append(
            Question(
                prompt=rng.choice(_WORDINGS[way]).format(language=language, english=row["English"], word=row[language]),
                right=right,
                wrong=wrong[:wanted],
                category="Language",
                topic="translation",
                difficulty=difficulty(row),
                uses=frozenset({f"language:translation:{row['English']}"}),
                source=SOURCE,
            )
        )
    return made


def _options(
    rng: random.Random, row: dict[str, str], rows: list[dict[str, str]], *, way: str, language: str
) -> tuple[str, tuple[str, ...]]:
    """The right answer, and wrong ones alike in length in any order; those of the same group come first."""
    if way == "where":
        here = plain(row[language])
        right, groups = language, [[name for name in LANGUAGES if name != language and plain(row[name]) != here]]
    else:
        column = language if way == "into" else "English"
        near = [other for other in rows if other["group"] == row["group"] and other is not row]
        far = [other for other in rows if {row["group"], other["group"]} <= THINGS and other["group"] != row["group"]]
        right, groups = row[column], [[other[column] for other in group] for group in (near, far)]
    wrong: list[str] = []
    for group in groups:
        for option in rng.sample(group, len(group)):
            if alike_in_length((right, *wrong, option)):
                wrong.append(option)
    return right, tuple(wrong)


def _usable(row: dict[str, str], language: str, *, alone: bool) -> bool:
    """True if the language's word differs from the English one and, if ``alone``, from all the others."""
    others = [name for name in LANGUAGES if name != language] if alone else []
    return plain(row[language]) not in {plain(row[name]) for name in ("English", *others)}


def plain(word: str) -> str:
    """The word without accents and capitals: what a reader would take for the same word."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
