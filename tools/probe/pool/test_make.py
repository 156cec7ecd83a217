"""Keys of the pool are computed a second time, from the text of each question alone."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import math
import re
import runpy
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import load_probe
from forgetwatch.probes.ladder import LISTS

make = runpy.run_path(str(Path(__file__).parent / "make.py"))


@cache
def whole() -> tuple[dict[str, Any], ...]:
    return tuple(make["items"](24, 1))


def pool(kind: str = "") -> list[dict[str, Any]]:
    return [item for item in whole() if item["task"].startswith(kind)]


@cache
def shipped() -> tuple[dict[str, Any], ...]:
    probes = [load_probe(name) for name in ("ladder", *LISTS)]
    return tuple(item.to_json() for probe in probes for item in probe)


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Questions of a kind that are shipped, and those of another seed."""
    return [*pool(kind), *(item for item in shipped() if item["id"].startswith(f"{kind}-"))]


def question(item: dict[str, Any]) -> str:
    return str(item["prompt"]).removeprefix("Question: ").removesuffix("\nAnswer:")


def right(item: dict[str, Any]) -> str:
    return str(item["choices"][item["answer"]]).strip()


@cache
def table(file: str, relation: str) -> dict[str, str]:
    with (make["FACTS"] / file).open(newline="", encoding="utf-8") as opened:
        return {
            row["subject"]: row["answer"]
            for row in csv.DictReader(opened)
            if row["relation"] == relation
        }


def test_the_same_seed_makes_the_same_items_and_another_seed_others() -> None:
    first, other = (list(make["items"](2, seed)) for seed in (1, 2))
    assert first == list(make["items"](2, 1))
    assert len({item["id"] for item in first} & {item["id"] for item in other}) < 10


def test_questions_and_options_are_unique_and_the_places_of_keys_balanced() -> None:
    assert len({item["prompt"] for item in pool()}) == len(pool())
    assert all(len(set(item["choices"])) == 4 for item in pool())
    for task in {item["task"] for item in pool()}:
        places = Counter(item["answer"] for item in pool(task))
        uneven = 1 if places.total() == 24 else 3  # of chains of facts there are fewer
        assert max(places.values()) - min(places.values()) <= uneven


def test_no_example_is_a_question_of_the_pool() -> None:
    assert not any(item["prompt"] in item["shots"] for item in pool())


def test_the_place_of_no_option_breaks_the_order_of_the_others() -> None:
    """The right option is the only one out of order no more often than any other."""
    for kind in ("units", "program", "chain"):
        alone = 0.0
        for item in pool(kind):
            numbers = list(map(int, item["choices"]))
            out = [n for n in range(4) if (rest := numbers[:n] + numbers[n + 1 :]) == sorted(rest)]
            alone += (item["answer"] in out) / len(out) if out else 1 / 4
        share = alone / len(pool(kind))
        assert abs(share - 1 / 4) < 3.5 * math.sqrt(3 / 16 / len(pool(kind)))


def rank_of(item: dict[str, Any]) -> int:
    """Rank of the right option among the four, by number, alphabet, date or year."""
    options, kind = [choice.strip() for choice in item["choices"]], item["task"].split(":")[0]
    if kind == "events":
        order = [years()[option] for option in options]
        return sorted(order).index(years()[right(item)])
    if kind == "date":
        days = [datetime.datetime.strptime(option, "%B %d, %Y") for option in options]
        return sorted(days).index(days[item["answer"]])
    if options[0].lstrip("-").isdigit():
        return sorted(map(int, options)).index(int(right(item)))
    return sorted(options).index(right(item))


@pytest.mark.parametrize(
    "kind", ["chain", "program", "units", "order", "date", "events", "facts", "state", "compared"]
)
def test_the_right_option_has_each_rank_among_its_options(kind: str) -> None:
    some = [item for item in pool(kind) if kind != "date" or "20" in item["choices"][0]]
    ranks = Counter(map(rank_of, some))
    assert all(
        abs(ranks[rank] - len(some) / 4) < 3.5 * math.sqrt(len(some) * 3 / 16) for rank in range(4)
    )


@pytest.mark.parametrize("kind", list(make["KINDS"]))
def test_each_kind_has_eight_levels_and_its_frames(kind: str) -> None:
    levels = {item["task"] for item in pool(kind)}
    assert levels == {f"{kind}:{level}" for level in range(1, 6 if kind == "facts" else 9)}
    assert len({item["tags"][0] for item in pool(kind)}) >= (14 if kind == "facts" else 20)


def test_programs_print_the_key() -> None:
    for item in of_kind("program"):
        code = question(item).split("\n", 1)[1]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {"__builtins__": {"print": print, "range": range}})
        assert printed.getvalue().strip() == right(item)


def test_chains_have_the_key() -> None:
    signs = {
        "Add": "+",
        "Increase": "+",
        "add": "+",
        "Plus": "+",
        "Multiply": "*",
        "Make": "*",
        "multiply": "*",
        "Times": "*",
    }
    for item in of_kind("chain"):
        first, *steps = re.findall(r"[^.?]+[.?]", question(item))[:-1]
        value = int(re.findall(r"\d+", first)[0])
        for step in steps:
            by = int(re.findall(r"\d+", step)[0])
            sign = next((sign for word, sign in signs.items() if word in step), "-")
            value = {"+": value + by, "-": value - by, "*": value * by}[sign]
        assert str(value) == right(item)


def test_exchanges_end_as_the_key_says() -> None:
    names = "|".join(make["PEOPLE"])
    for item in of_kind("state"):
        first, rest = question(item).split(".", 1)
        holds = {}
        for part in first.split(";"):
            (who,) = re.findall(names, part)
            (what,) = re.findall(rf"\b(?:{'|'.join(make['THINGS'])})\b", part)
            holds[who] = what
        *swaps, asked = re.findall(r"[^.?]+[.?]", rest)
        for swap in swaps:
            one, other = dict.fromkeys(re.findall(names, swap))
            holds[one], holds[other] = holds[other], holds[one]
        if who := re.findall(names, asked):
            assert right(item) == f"the {holds[who[0]]}"
        else:
            assert holds[right(item)] in asked


def test_lists_are_sorted_as_the_key_says() -> None:
    for item in of_kind("order"):
        text = question(item)
        down = "largest" in text or "reverse" in text
        listed: list[Any] = [int(number) for number in re.findall(r"\d+", text)]
        if "alphabetical" in text:
            listed = [
                word
                for word in re.findall(r"[a-z]+", text.rsplit("Which", 1)[0])
                if word in make["WARES"]
            ]
        place = next((index for index, name in enumerate(make["NTH"]) if f" {name} " in text), 0)
        assert str(sorted(listed, reverse=down)[place]) == right(item)


@cache
def years() -> dict[str, int]:
    known = {**table("events.csv", "event"), **table("liberal_arts.csv", "event_year")}
    return {event: int(year) for event, year in known.items()}


def test_events_have_the_place_that_is_asked_for() -> None:
    for item in of_kind("events"):
        ranked = sorted((choice.strip() for choice in item["choices"]), key=years().__getitem__)
        assert len({years()[event] for event in ranked}) == 4
        text = question(item)
        for event in ranked:
            assert event in text
            text = text.replace(event, "")
        (place,) = (
            n
            for n, word in enumerate(("first", "second", "third", "last"))
            if re.search(rf"\b{word}\b", text)
        )
        assert ranked[place] == right(item)


def followed(phrase: str) -> str:
    """Answer to a description, by the tables."""
    for way, file, relation in (
        ("the country where the (.+) is at home", "culture.csv", "instrument_home"),
        ("the country where (.+) comes from", "culture.csv", "dish"),
        ("the country where (.+) comes from", "culture.csv", "dance"),
        ("the country where (.+) stands", "knowledge.csv", "mountain"),
        ("the country whose flag shows (.+)", "knowledge.csv", "flag"),
    ):
        if found := re.fullmatch(way, phrase):
            known = table(file, relation)
            if answer := known.get(found[1]) or known.get(f"the {found[1]}"):
                return answer
    capitals, rivers = table("knowledge.csv", "capital"), table("knowledge.csv", "river_capital")
    if found := re.fullmatch("the country whose capital lies on the (.+)", phrase):
        return next(country for country, city in capitals.items() if city == rivers[found[1]])
    if found := re.fullmatch("the country whose capital is (.+)", phrase):
        return next(country for country, city in capitals.items() if city == found[1])
    if found := re.fullmatch("the river that flows through (.+)", phrase):
        return next(river for river, city in rivers.items() if city == followed(found[1]))
    for way, relation in (
        ("the capital of (.+)", "capital"),
        ("the currency of (.+)", "currency"),
        ("the official language of (.+)", "official_language"),
        ("the language family of (.+)", "language_family"),
        ("the part of the world in which (.+) lies", "continent"),
    ):
        if found := re.fullmatch(way, phrase):
            return table("knowledge.csv", relation)[followed(found[1])]
    return phrase


def test_chains_of_facts_end_as_the_tables_say() -> None:
    for item in of_kind("facts"):
        asked = question(item).replace("the name of the country", "the country", 1).rstrip(".?")
        begin = r"(?:What is|Name|Which answer is|Give|Tell me|Find) (.+)|Say what (.+) is"
        found = re.fullmatch(begin, asked)
        assert found is not None, asked
        assert followed(found[1] or found[2]) == right(item)


def test_comparisons_have_the_key() -> None:
    for item in of_kind("compared"):
        text = str(item["prompt"])
        names = [name for tongue in make["TONGUES"].values() for name in tongue.names]
        *pairs, _, _ = re.split(r"[.。?？]", text)
        below: dict[str, set[str]] = {}
        for pair in pairs:
            one, other = sorted((name for name in set(names) if name in pair), key=pair.index)
            below.setdefault(one, set()).add(other)
            below.setdefault(other, set())

        def all_below(name: str, below: dict[str, set[str]] = below) -> set[str]:
            return below[name].union(*(all_below(other) for other in below[name]))

        assert Counter(len(all_below(name)) for name in below) == Counter(range(len(below)))
        assert {sum(name in pair for pair in pairs) for name in below} == {2}
        ranked = sorted(below, key=lambda name: -len(all_below(name)))
        asked = re.split(r"[.。]", text)[-1]
        least = r"langsam|leise|kürz|wenig|moins|lento|lentamente|menos|meno\b|медленн|тише|меньше|慢|最轻|最短|最少"
        second = r"zweit|deuxième|segundo|secondo|втором|第二"
        place = 1 if re.search(second, asked) else -1 if re.search(least, asked) else 0
        assert ranked[place] == right(item)


def test_days_are_counted_as_the_key_says() -> None:
    for item in of_kind("date"):
        text = question(item)
        (by, way) = re.search(r"(\d+) days? (after|before)", text).groups()  # type: ignore[union-attr]
        shift = datetime.timedelta(days=int(by) * (1 if way == "after" else -1))
        if named := re.search(r"[A-Z][a-z]+ \d+, \d{4}", text):
            end = datetime.datetime.strptime(named[0], "%B %d, %Y") + shift
            assert f"{end:%B} {end.day}, {end.year}" == right(item)
        else:
            days = [f"{datetime.date(2024, 1, 1 + day):%A}" for day in range(7)]
            (start,) = (day for day in days if day in text)
            assert days[(days.index(start) + shift.days) % 7] == right(item)


def test_parts_are_multiplied_as_the_key_says() -> None:
    for item in of_kind("units"):
        assert str(math.prod(map(int, re.findall(r"\d+", question(item))))) == right(item)


def test_the_text_has_one_answer_to_its_question() -> None:
    surnames = "|".join(make["SURNAMES"])
    for item in of_kind("reading"):
        text, asked = str(item["prompt"]).removesuffix("\nAnswer:").rsplit("\n\nQuestion: ", 1)
        facts: dict[str, str] = {}
        for line in text.split(". "):
            (name,) = re.findall(rf"[A-Z]\w+ (?:{surnames})", line)
            facts[name] = f"{facts.get(name, '')} {line}"
        if pair := re.fullmatch(r"Who lives in (\w+ Street) and has a (\w+)\?", asked):
            fitting = [
                who
                for who, told in facts.items()
                if pair[1] in told and re.search(rf"\ba {pair[2]}\b", told, re.I)
            ]
            assert fitting == [right(item)]
        else:
            (name,) = re.findall(r"does (.+) live", asked)
            assert right(item) in facts[name]


def test_the_lists_have_all_kinds_and_no_question_twice() -> None:
    ids = [item["id"] for item in shipped() if item["id"].split("-")[0] in make["KINDS"]]
    assert len(ids) == len(set(ids)) == 3 * 800 + 90
    for name in LISTS:
        kinds = Counter(item.id.split("-")[0] for item in load_probe(name))
        sizes = [kinds[kind] for kind in make["KINDS"]]
        assert (sum(sizes), max(sizes) <= 93) == (800, True)
    assert Counter(item.task for item in load_probe("ladder")) == dict.fromkeys(LISTS, 30)
