"""Irregular forms, correct sentences, word classes, sounds, nationalities: a kind and a stem in one of three wordings.

facts/language_forms.csv    plural, mouse, mice, moose|mace   ──▶   What is the plural of "mouse"?    mice
                            silent, lamb, b, l|m              ──▶   What consonant is not heard in "lamb"?   b

All options are real words, so that an invented form ("mouses") does not reveal the answer without the question.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from standard_probe.question import Question
from standard_probe.written import difficulty, entries, read_rows


class Kind(NamedTuple):
    """Topic and wordings of one kind of question; the stem replaces the braces."""

    topic: str
    wordings: tuple[str, str, str]


KINDS: Final = {
    "past": Kind(
        "irregular forms",
        (
            'What is the simple past of the verb "{}"?',
            'What does the verb "{}" become in the simple past?',
            'What is the past tense of "{}", as in a story about yesterday?',
        ),
    ),
    "participle": Kind(
        "irregular forms",
        (
            'What is the past participle of "{}"?',
            'What form of the verb "{}" follows "have", as in "they have ..."?',
            'What is the third form of the verb "{}", its past participle?',
        ),
    ),
    "plural": Kind(
        "irregular forms",
        (
            'What is the plural of "{}"?',
            'What form does the noun "{}" take in the plural?',
            'What word completes "one {}, two ..."?',
        ),
    ),
    "correct": Kind(
        "agreement",
        (
            'Is the sentence "{}" correct in standard English?',
            'Is "{}" a correct sentence of standard English?',
            'Does the verb agree with its subject in "{}"?',
        ),
    ),
    "class": Kind(
        "word classes",
        ("What word is the {}?", "What is the only {}?", "What word is the only {}?"),
    ),
    "syllables": Kind(
        "sounds",
        (
            'How many syllables does the word "{}" have?',
            'How many syllables are in the word "{}"?',
            'What is the number of syllables in "{}"?',
        ),
    ),
    "silent": Kind(
        "sounds",
        (
            'What consonant is not heard in the word "{}"?',
            'What silent consonant does the word "{}" have?',
            'What consonant is written but not spoken in "{}"?',
        ),
    ),
    "rhyme": Kind(
        "sounds",
        (
            'What rhymes with "{}?',
            'What is a rhyme for "{}?',
            'What makes a good rhyme with "{}?',
        ),
    ),
    "rhymes": Kind(
        "sounds",
        ('Do "{}" rhyme?', 'Are "{}" a pair of rhymes?', 'Is it true that "{}" rhyme?'),
    ),
    "nation": Kind(
        "word formation",
        (
            "What adjective is made from the name of the country {}?",
            "What adjective describes things that come from {}?",
            "What is the adjective of nationality for {}?",
        ),
    ),
}


def forms(rng: random.Random) -> list[Question]:
    """One question for each row of the table, in its order.

    Args:
        rng: Draws the wording.
    """
    return [
        Question(
            prompt=rng.choice(KINDS[row["kind"]].wordings).format(row["stem"]),
            right=row["right"],
            wrong=entries(row["wrong"]),
            category="Language",
            topic=KINDS[row["kind"]].topic,
            difficulty=difficulty(row),
            uses=frozenset({f"language:{row['kind']}:{row['stem']}"}),
            source=row["source"],
        )
        for row in read_rows("facts/language_forms")
    ]
