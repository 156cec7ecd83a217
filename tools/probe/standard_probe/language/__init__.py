"""The category Language: words, their forms, their meaning and their order, in English and between languages.

Its tables and modules:

    facts/language.csv    whole questions: meanings, idioms, spelling, pronouns, punctuation, word order, word origins;
                          beginnings of sentences that the options continue: agreement, prepositions
    forms.py              irregular forms, word classes, sounds, nationalities: words from a table in several wordings
    translations.py       basic words in six languages
"""

from __future__ import annotations

import random

from standard_probe.language.forms import forms
from standard_probe.language.translations import translations
from standard_probe.question import Question
from standard_probe.written import written


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category.

    Args:
        rng: Source of wordings, languages, and wrong answers where there are many.
    """
    return [*written("language", category="Language"), *forms(rng), *translations(rng)]
