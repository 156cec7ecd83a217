"""Basic words in six languages: a row for each English word, a column for each language, asked one way each.

    facts/language_translations.csv    animals, dog, chien, perro, Hund, cane, cão, hond
      into      What is the French word for "dog"?                       chien
      out of    What does the Spanish word "perro" mean in English?      dog
      where     In what language does "cane" mean "dog"?                 Italian
      whether   Does the German word "Hund" mean "cat"?                  no

Wrong answers are of the same group. A word that reads the same in English, or for "where" in another of the six, is not
asked for.
"""

from __future__ import annotations

import random
import unicodedata
from typing import Final

from standard_probe.question import Question
from standard_probe.written import difficulty, read_rows

LANGUAGES: Final = ("French", "Spanish", "German", "Italian", "Portuguese", "Dutch")
SOURCE: Final = "Cambridge bilingual dictionaries"

_WORDINGS: Final = {
    "into": (
        'What is the {language} word for "{english}"?',
        'How do you say "{english}" in {language}?',
        'What is "{english}" called in {language}?',
    ),
    "out of": (
        'What does the {language} word "{word}" mean in English?',
        'What is the English word for "{word}" in {language}?',
        'How is the {language} word "{word}" translated into English?',
    ),
    "where": (
        'In what language does "{word}" mean "{english}"?',
        'To what language does the word "{word}" for "{english}" belong?',
        'In what language is "{english}" called "{word}"?',
    ),
    "whether": (
        'Does the {language} word "{word}" mean "{english}"?',
        'Is "{word}" the {language} word for "{english}"?',
        'Do speakers of {language} say "{word}" for "{english}"?',
    ),
}


def translations(rng: random.Random) -> list[Question]:
    """One question for each English word; answers yes and no take turns.

    Args:
        rng: Draws the direction, the language, the wording, and which wrong answers of the group.
    """
    rows = read_rows("facts/language_translations")
    made: list[Question] = []
    for row in rows:
        group = [other for other in rows if other["group"] == row["group"] and other is not row]
        way = rng.choice(tuple(_WORDINGS))
        truth = sum(question.right in ("yes", "no") for question in made) % 2 == 0
        languages = [name for name in LANGUAGES if _usable(row, name, alone=way == "where")]
        language = rng.choice(languages)
        asked = row["English"] if way != "whether" or truth else rng.choice(group)["English"]
        right, others = _options(row, group, way=way, language=language, truth=truth)
        made.append(
            Question(
                prompt=rng.choice(_WORDINGS[way]).format(language=language, english=asked, word=row[language]),
                right=right,
                wrong=tuple(rng.sample(others, min(len(others), rng.choice((2, 3, 3, 4))))),
                category="Language",
                topic="translation",
                difficulty=difficulty(row),
                uses=frozenset({f"language:translation:{row['English']}"}),
                source=SOURCE,
            )
        )
    return made


def _options(
    row: dict[str, str], group: list[dict[str, str]], *, way: str, language: str, truth: bool
) -> tuple[str, list[str]]:
    """The right answer, and all wrong ones that there are."""
    if way == "into":
        return row[language], [other[language] for other in group]
    if way == "out of":
        return row["English"], [other["English"] for other in group]
    if way == "where":
        here = plain(row[language])
        return language, [name for name in LANGUAGES if name != language and plain(row[name]) != here]
    return ("yes", ["no"]) if truth else ("no", ["yes"])


def _usable(row: dict[str, str], language: str, *, alone: bool) -> bool:
    """True if the language's word differs from the English one and, if ``alone``, from all the others."""
    others = [name for name in LANGUAGES if name != language] if alone else []
    return plain(row[language]) not in {plain(row[name]) for name in ("English", *others)}


def plain(word: str) -> str:
    """The word without accents and capitals: what a reader would take for the same word."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
