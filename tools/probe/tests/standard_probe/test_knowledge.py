from __future__ import annotations

import random
import re

import pytest
from pool_rules import SEEDS
from standard_probe.fact_tables import Fact, read_facts
from standard_probe.knowledge import questions

SPELT = {"Bangla": "Bengali", "Divehi": "Dhivehi", "Turkey": "Türkiye", "Georgia (the country)": "Georgia"}


def rows_of(relation: str) -> list[Fact]:
    return [row for row in read_facts("knowledge") if row.relation == relation]


def code(country: str) -> str:
    """The country's code in the Unicode locale data."""
    babel = pytest.importorskip("babel")
    codes = {name: key for key, name in babel.Locale("en").territories.items()}
    found = codes.get(country) or codes.get(SPELT.get(country, "")) or ""
    assert found, country
    return str(found)


def test_currencies_are_those_of_the_unicode_locale_data() -> None:
    numbers = pytest.importorskip("babel.numbers")
    rows = rows_of("currency")
    answers = {row.answer for row in rows}
    for row in rows:
        used = numbers.get_territory_currencies(code(row.subject))
        words = {word for key in used for word in numbers.get_currency_name(key, locale="en").lower().split()}
        assert row.answer in words
        assert not words & (answers - {row.answer, *row.also})


def test_official_languages_are_those_of_the_unicode_locale_data() -> None:
    babel, languages = pytest.importorskip("babel"), pytest.importorskip("babel.languages")
    names = babel.Locale("en").languages
    rows = rows_of("official_language")
    answers = {row.answer for row in rows}
    for row in rows:
        keys = languages.get_official_languages(code(row.subject), regional=True, de_facto=True)
        official = {names.get(key, names.get(key.split("_")[0], key)) for key in keys}
        official = {SPELT.get(name, name) for name in official}
        assert row.answer in official
        assert not official & (answers - {row.answer, *row.also})


def test_all_options_for_a_letter_of_an_abbreviation_begin_with_it() -> None:
    pools = [questions(random.Random(seed)) for seed in SEEDS]
    asked = [one for pool in pools for one in pool if one.topic == "abbreviations" and len(one.wrong) > 1]
    assert len(asked) > 40 * len(SEEDS)
    for question in asked:
        found = re.search(r" ([A-Z]) in ", question.prompt)
        assert found
        assert {option[0] for option in (question.right, *question.wrong)} == {found[1].lower()}
