"""Keys of the pool are computed a second time, from the text of each question alone."""

from __future__ import annotations

import contextlib
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

make = runpy.run_path(str(Path(__file__).parent / "make.py"))


@cache
def pool(kind: str = "") -> tuple[dict[str, Any], ...]:
    return tuple(item for item in make["items"](40, 1) if item["task"].startswith(kind))


def question(item: dict[str, Any]) -> str:
    return str(item["prompt"]).removeprefix("Question: ").removesuffix("\nAnswer:")


def right(item: dict[str, Any]) -> str:
    return str(item["choices"][item["answer"]]).strip()


def test_the_same_seed_makes_the_same_items_and_another_seed_others() -> None:
    first, other = (list(make["items"](3, seed)) for seed in (1, 2))
    assert first == list(make["items"](3, 1))
    assert {item["id"] for item in first}.isdisjoint(item["id"] for item in other if item["task"][:5] != "facts")


def test_questions_and_options_are_unique_and_the_places_of_keys_balanced() -> None:
    assert len({item["prompt"] for item in pool()}) == len(pool())
    assert all(len(set(item["choices"])) == 4 for item in pool())
    for task in {item["task"] for item in pool()}:
        places = Counter(item["answer"] for item in pool(task))
        assert max(places.values()) - min(places.values()) <= 5


@pytest.mark.parametrize("kind", ["chain", "program", "units"])
def test_the_right_number_has_each_rank_among_its_options(kind: str) -> None:
    ranks: Counter[int] = Counter()
    for item in pool(kind):
        ranks[sorted(map(int, item["choices"])).index(int(right(item)))] += 1
    total = sum(ranks.values())
    assert all(abs(ranks[rank] - total / 4) < 3.5 * math.sqrt(total * 3 / 16) for rank in range(4))


@pytest.mark.parametrize("kind", list(make["KINDS"]))
def test_each_kind_has_eight_levels_and_its_frames(kind: str) -> None:
    levels = {item["task"] for item in pool(kind)}
    assert levels == {f"{kind}:{level}" for level in range(1, 9)}
    assert len({item["tags"][1] for item in pool(kind)}) >= (15 if kind == "facts" else 20)


def test_programs_print_the_key() -> None:
    for item in pool("program"):
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
    for item in pool("chain"):
        first, *steps = re.findall(r"[^.?]+[.?]", question(item))[:-1]
        value = int(re.findall(r"\d+", first)[0])
        for step in steps:
            by = int(re.findall(r"\d+", step)[0])
            sign = next((sign for word, sign in signs.items() if word in step), "-")
            value = {"+": value + by, "-": value - by, "*": value * by}[sign]
        assert str(value) == right(item)


def test_exchanges_end_as_the_key_says() -> None:
    names = "|".join(make["PEOPLE"])
    for item in pool("state"):
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


def test_lists_are_sorted_and_shared_as_the_key_says() -> None:
    names = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    for item in pool("order"):
        text = question(item)
        if numbers := sorted(map(int, re.findall(r"\d+", text)), reverse="largest" in text):
            (place,) = (index for index, name in enumerate(names, 1) if f"the {name} " in text)
            assert str(numbers[place]) == right(item)
        else:
            assert [text.count(choice.strip()) for choice in item["choices"]].count(2) == 1
            assert text.count(right(item)) == 2


def test_days_are_counted_as_the_key_says() -> None:
    for item in pool("date"):
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
    for item in pool("units"):
        assert str(math.prod(map(int, re.findall(r"\d+", question(item))))) == right(item)


def test_the_text_has_one_answer_to_its_question() -> None:
    for item in pool("reading"):
        text, asked = question(item).rsplit("\n", 1)
        lines = re.findall(r"[^.]+\.", text)
        if street := re.search(r"Who lives in (\w+ Street) and has a (\w+)\?", asked):
            fitting = [
                name
                for name in {
                    name for line in lines for name in re.findall(r"[A-Z]\w+ (?:Berg|Costa|Dahl|Eker|Fonti|Grau)", line)
                }
                if any(name in line and street[1] in line for line in lines)
                and any(name in line and re.search(rf"\b{street[2]}\b", line) for line in lines)
            ]
            assert fitting == [right(item)]
        else:
            (name,) = re.findall(r"does (.+) live", asked)
            assert right(item) in next(line for line in lines if name in line and "Street" in line)
