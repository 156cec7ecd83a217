"""The category Language: words, their forms, their meaning and their order, in English and between languages.

Three tables make it. ``facts/language.csv`` is written whole: meanings, idioms, spelling, prepositions, what a pronoun
stands for, punctuation, the order of words. ``language_forms`` puts words into wordings, ``language_translations`` asks
for words of other languages.
"""

from __future__ import annotations

import random

from standard_probe.language_forms import forms
from standard_probe.language_translations import translations
from standard_probe.question import Question
from standard_probe.written import written


def questions(rng: random.Random) -> list[Question]:
    """The pool of the category.

    Args:
        rng: Draws wordings, languages, and wrong answers where there are many.
    """
    return [*written("language", category="Language"), *forms(rng), *translations(rng)]
