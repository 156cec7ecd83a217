"""Keys of `standard-multilingual` agree with CLDR and with computation, and no preference among options helps."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from standard_parts import multilingual
from standard_parts.multilingual import LABELS, LANGUAGES, SETS, alike, read_rows
from support import model, tokenizer

from forgetwatch import load_probe, score
from forgetwatch.item import Item
from forgetwatch.probes.shipped import FILES

PROBE = load_probe("standard-multilingual")
CODES = {f"multilingual:{name}": code for code, name in LANGUAGES.items()}
COUNTRIES = {row["code"]: row for row in read_rows("countries")}


def gold(item: Item) -> str:
    return item.choices[item.answers[0]].strip()  # type: ignore[index]


def question(item: Item) -> str:
    before_question, before_answer = LABELS[CODES[item.task]]
    assert isinstance(item.prompt, str)
    return item.prompt.removeprefix(before_question).removesuffix(f"\n{before_answer}")


def of_kind(kind: str) -> list[Item]:
    return [item for item in PROBE if f"kind:{kind}" in item.tags]


def sets() -> dict[tuple[str, ...], list[Item]]:
    found: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in PROBE:
        found[item.task, item.tags[1], *sorted(item.choices)].append(item)
    return found


def test_there_are_100_items_of_four_options_in_each_of_six_languages() -> None:
    assert Counter(item.task for item in PROBE) == dict.fromkeys(CODES, 100)
    assert {item.k for item in PROBE} == {4}
    assert {item.category for item in PROBE} == {"Multilingual"}
    kinds = Counter(item.tags[1] for item in PROBE)
    assert kinds == {
        **{f"kind:{kind}": 4 * number * len(LANGUAGES) for kind, number in SETS.items()},
        "kind:plain": 52 * len(LANGUAGES),
    }
    assert {item.tags[0] for item in PROBE} == {"difficulty:1", "difficulty:2", "difficulty:3"}


def test_each_option_of_a_set_is_right_once_so_that_no_preference_helps() -> None:
    for items in sets().values():
        # Two sets of one language may have the same four options.
        times = len(items) // 4
        assert Counter(map(gold, items)) == {choice.strip(): times for choice in items[0].choices}


@pytest.mark.parametrize("choose", [max, min])
@pytest.mark.parametrize("key", [len, str], ids=["length", "alphabet"])
@pytest.mark.parametrize("task", CODES)
def test_a_chooser_by_length_or_alphabet_is_right_in_a_quarter(
    task: str, key: Callable[[str], object], choose: Callable[..., str]
) -> None:
    # Ties in length are broken by the alphabet, since the order of the options differs within a set.
    right = [gold(item) == choose(sorted(item.choices), key=key).strip() for item in PROBE if item.task == task]
    assert np.mean(right) == 0.25


def test_options_of_a_question_have_like_lengths_and_differ() -> None:
    for item in PROBE:
        options = [choice.strip() for choice in item.choices]
        assert alike(options, CODES[item.task]), options
        assert len({option.casefold() for option in options}) == 4


def test_right_options_are_spread_over_the_positions() -> None:
    assert Counter(item.answer for item in PROBE) == dict.fromkeys(range(4), 150)
    for task in CODES:
        there = Counter(item.answer for item in PROBE if item.task == task)
        assert max(there.values()) - min(there.values()) <= 15


@pytest.mark.parametrize("count", [100, 200])
def test_the_beginning_is_like_the_whole(count: int) -> None:
    for kind in (lambda item: item.task, lambda item: item.tags[0], lambda item: item.tags[1]):
        whole, there = Counter(map(kind, PROBE)), Counter(map(kind, PROBE.head(count)))
        assert all(abs(there[name] - number * count / len(PROBE)) <= 2.5 for name, number in whole.items()), there


def test_a_fact_is_asked_in_at_most_two_languages_and_is_one_cluster() -> None:
    languages = defaultdict(list)
    for item in PROBE:
        assert item.cluster
        languages[item.cluster].append(item.task)
    assert all(len(own) == len(set(own)) <= 2 for own in languages.values())


def test_questions_and_labels_are_in_the_language() -> None:
    for item in PROBE:
        before_question, before_answer = LABELS[CODES[item.task]]
        text = str(item.prompt)
        assert text.startswith(before_question)
        assert text.endswith(f"\n{before_answer}")
        assert text.count("\n") == 1
        script = {"ru": "[а-яё]", "zh": "[\u4e00-\u9fff]"}.get(CODES[item.task], "[a-zà-ÿ]")
        others = {"ru": "[\u4e00-\u9fffa-z]", "zh": "[а-яёa-z]"}.get(CODES[item.task], "[\u4e00-\u9fffа-яё]")
        joined = " ".join((question(item), *item.choices)).lower()
        assert re.search(script, joined)
        assert "chemische zeichen" in joined or "símbolo" in joined or not re.search(others, joined), joined
        assert all(choice.startswith(" ") == (CODES[item.task] != "zh") for choice in item.choices)


def test_worked_examples_are_in_the_language_and_hold_no_question_of_the_probe() -> None:
    for task, code in CODES.items():
        (shots,) = {item.shots for item in PROBE if item.task == task}
        before_question, before_answer = LABELS[code]
        assert shots.count(before_question) == shots.count(f"\n{before_answer}") == 5
        assert shots.endswith("\n\n")
        assert not any(question(item) in shots for item in PROBE if item.task == task)


def test_the_question_does_not_hold_its_answer() -> None:
    for item in PROBE:
        bare = re.sub(r"^(le |la |l'|il |lo |el |die |der |das |les |des |une? |un )", "", gold(item))
        assert bare.casefold() not in question(item).casefold(), (question(item), bare)


def test_a_country_has_one_answer_of_a_kind_in_all_languages() -> None:
    for kind in SETS:
        rows = {row["code"]: row for row in read_rows(kind)}
        names = {row["language"]: row for row in read_rows("language_names")}
        for item in of_kind(kind):
            language = CODES[item.task]
            (country,) = [
                code
                for code, row in COUNTRIES.items()
                if row[language] in question(item).split("?")[0] + " "
                and question(item) == multilingual.QUESTIONS[kind][language].format(row[language])
            ]
            row = rows[country]
            expected = names[row["language"]] if kind == "languages" else row
            assert gold(item) == expected[language]
            assert item.cluster == f"{kind}: {country}"


def test_no_two_facts_of_a_kind_share_an_answer_unless_their_languages_do() -> None:
    for kind in ("capitals", "currencies"):
        for language in LANGUAGES:
            names = Counter(row[language] for row in read_rows(kind) if row[language])
            shared = {name for name, number in names.items() if number > 1}
            # Pound and lira have one name in French; each is the answer in one set only.
            assert shared <= {"la livre"}, shared


NUMBERS = {
    "de": ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"],
    "fr": ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"],
    "es": ["cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"],
    "it": ["zero", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove"],
}
DAYS = {
    "es": ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"],
    "it": ["lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"],
    "ru": ["понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье"],
    "zh": ["星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"],
}
MONTHS = [
    *("январь", "февраль", "март", "апрель", "май", "июнь"),
    *("июль", "август", "сентябрь", "октябрь", "ноябрь", "декабрь"),
]


def test_sums_are_worked_out_again_from_the_words_of_the_question() -> None:
    found = [item for item in PROBE if str(item.cluster).startswith("sum:")]
    assert len(found) == 16
    for item in found:
        words = NUMBERS[CODES[item.task]]
        a, b = (words.index(word) for word in re.findall(r"\w+", question(item)) if word in words)
        assert words[a + b] == gold(item)


def test_days_and_months_are_worked_out_again_from_the_question() -> None:
    found = [item for item in PROBE if re.match("(day|month):", str(item.cluster))]
    assert len(found) == 20
    for item in found:
        names = MONTHS if str(item.cluster).startswith("month") else DAYS[CODES[item.task]]
        # Endings of the Russian instrumental change at most the last two letters.
        stems = [name if CODES[item.task] != "ru" else name[: max(3, len(name) - 2)] for name in names]
        (named,) = [place for place, stem in enumerate(stems) if stem in question(item)]
        step = -1 if re.search("prima|перед", question(item)) else 1
        assert names[(named + step) % len(names)] == gold(item)


def test_names_of_capitals_currencies_and_languages_are_those_of_cldr() -> None:
    babel = pytest.importorskip("babel")
    locales = {code: babel.Locale.parse(code) for code in LANGUAGES}

    def plain(text: str) -> str:
        return text.replace("\xad", "").replace("’", "'").split(" (")[0]

    compared = 0
    for row in read_rows("capitals"):
        for code, locale in locales.items():
            city = locale.time_zones.get(row["zone"], {}).get("city")
            if row[code] and city:
                assert row[code] == plain(city), (row["code"], code)
                compared += 1
    for row in read_rows("currencies"):
        for code, locale in locales.items():
            name = re.sub("^(le |la |il |lo |el )", "", row[code]).casefold()
            assert name in locale.currencies[row["currency"]].casefold(), (row["currency"], code)
            compared += bool(name)
    for row in read_rows("language_names"):
        for code, locale in locales.items():
            assert re.sub("^(le |il |lo |el |l')", "", row[code]) == locale.languages[row["language"]]
            compared += 1
    assert compared > 600


def test_countries_have_their_names_currencies_and_official_languages_of_cldr() -> None:
    babel = pytest.importorskip("babel")
    numbers, languages = pytest.importorskip("babel.numbers"), pytest.importorskip("babel.languages")
    for code in LANGUAGES:
        names = babel.Locale.parse(code).territories
        for country, row in COUNTRIES.items():
            if code == "ru":
                assert row[code][:3] == names[country][:3] or country in ("ZA", "BS"), row
            else:
                last = names[country].split(" ")[0 if country == "BN" else -1]
                assert last[:-1] in row[code], (row[code], names[country])
    for row in read_rows("currencies"):
        assert row["currency"] in numbers.get_territory_currencies(row["code"])
    for row in read_rows("languages"):
        official = languages.get_official_languages(row["code"], de_facto=True)
        assert row["language"] in official, (row["code"], official)


def test_a_model_that_knows_nothing_is_at_chance() -> None:
    probe, tok = PROBE.head(100), tokenizer()
    snapshot = score(model(tok, positions=1024).eval(), tok, probe)
    right = snapshot.floats("correct")
    assert abs(np.nanmean(right) - 0.25) < 3 * np.sqrt(0.25 * 0.75 / len(probe))


def test_tables_need_no_package_beside_the_standard_library_and_are_read_whole() -> None:
    folder = Path(str(files("standard_parts"))) / "facts"
    for name in ("capitals", "currencies", "languages", "language_names", "countries", "plain", "shots"):
        rows = list(csv.reader((folder / f"{name}.csv").read_text("utf-8").splitlines()))
        assert len({len(row) for row in rows}) == 1, name


def test_the_file_is_small() -> None:
    assert files("forgetwatch.probes.shipped").joinpath(FILES["standard-multilingual"]).stat().st_size < 60_000  # type: ignore[attr-defined]
