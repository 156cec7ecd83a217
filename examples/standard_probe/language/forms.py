"""Irregular forms, agreement, word classes, sounds, nationalities: a kind and a stem in one of three wordings.

facts/language_forms.csv    plural, mouse, mice, mouses|mices   ──▶   What is the plural of "mouse"?    mice
                            silent, lamb, b, l|m                ──▶   What consonant is not heard in "lamb"?   b
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from standard_probe.question import Question
from standard_probe.written import difficulty, entries, read_rows

WORD_CLASSES: Final = ("noun", "verb", "adjective", "adverb", "pronoun", "preposition", "conjunction")


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
    "agree": Kind(
        "agreement",
        (
            'Complete the sentence with the right verb form: "{}"',
            'What verb form is missing in "{}"?',
            'Fill the gap in standard English: "{}"',
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
        ("What part of speech is {}?", "What is the word class of {}?", "To which part of speech does {} belong?"),
    ),
    "syllables": Kind(
        "sounds",
        (
            'How many syllables does the word "{}" have?',
            'Into how many syllables can one clap the word "{}"?',
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
            "What adjective belongs to the country {}?",
            "What adjective describes things that come from {}?",
            "What is the adjective of nationality for {}?",
        ),
    ),
}


def forms(rng: random.Random) -> list[Question]:
    """One question for each row of the table, in its order.

    Args:
        rng: Draws the wording, and the wrong word classes.
    """
    made = []
    for row in read_rows("facts/language_forms"):
        kind, stem, right = row["kind"], row["stem"], row["right"]
        wrong = entries(row["wrong"])
        if kind == "class":
            others = [name for name in WORD_CLASSES if name != right]
            wrong = tuple(rng.sample(others, rng.choice((2, 3, 4))))
        made.append(
            Question(
                prompt=rng.choice(KINDS[kind].wordings).format(stem),
                right=right,
                wrong=wrong,
                category="Language",
                topic=KINDS[kind].topic,
                difficulty=difficulty(row),
                uses=frozenset({f"language:{kind}:{stem}"}),
                source=row["source"],
            )
        )
    return made
