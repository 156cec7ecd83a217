"""Translations hold in both directions, and names of days agree with Unicode's data."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import pytest
from standard_probe.language.translations import LANGUAGES, plain, translations
from standard_probe.question import Question
from standard_probe.written import read_rows

LOCALES = {"French": "fr", "Spanish": "es", "German": "de", "Italian": "it", "Portuguese": "pt", "Dutch": "nl"}
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def meanings() -> dict[tuple[str, str], set[str]]:
    """The English words for each (language, word)."""
    found = defaultdict(set)
    for row in read_rows("facts/language_translations"):
        for language in LANGUAGES:
            found[language, plain(row[language])].add(row["English"])
    return found


def all_made() -> list[Question]:
    return [question for seed in range(30) for question in translations(random.Random(seed))]


def test_exactly_the_right_option_holds() -> None:
    table = meanings()
    known = {row["English"] for row in read_rows("facts/language_translations")}
    ways = set()
    for question in all_made():
        words = re.findall(r'"([^"]+)"', question.prompt)
        languages = [name for name in LANGUAGES if name in question.prompt]
        english = [word for word in words if word in known]
        foreign = [word for word in words if word not in known]
        options = (question.right, *question.wrong)
        if english and foreign:
            ways.add("where")
            holds = [option for option in options if english[0] in table.get((option, plain(foreign[0])), set())]
        elif english:
            ways.add("into")
            holds = [option for option in options if english[0] in table[languages[0], plain(option)]]
        else:
            ways.add("out of")
            holds = [option for option in options if option in table[languages[0], plain(foreign[0])]]
        assert holds == [question.right], question
    assert ways == {"into", "out of", "where"}


def test_no_language_has_one_word_for_two_meanings() -> None:
    assert all(len(english) == 1 for english in meanings().values())


def test_names_of_days_are_those_of_unicode() -> None:
    dates = pytest.importorskip("babel.dates")
    rows = [row for row in read_rows("facts/language_translations") if row["group"] == "days"]
    assert len(rows) >= 5
    for row in rows:
        for language in LANGUAGES:
            names = dates.get_day_names("wide", context="stand-alone", locale=LOCALES[language])
            assert names[WEEK.index(row["English"])] == row[language]
