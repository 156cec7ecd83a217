"""Every item of `standard-written` has answers that must be graded right and wrong, and a key from its own text."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest
from pool_rules import Solver
from standard_parts.written import ASK

from forgetwatch import load_probe
from forgetwatch.grading import check_item, grade
from forgetwatch.item import Item
from forgetwatch.probes.shipped import FILES

PROBE = load_probe("standard-written")
MATH = [item for item in PROBE if item.task == "written:math"]
REQUESTS = [item for item in PROBE if item.task == "written:instructions"]
ANSWERS = {
    row["id"]: row
    for row in map(json.loads, (Path(__file__).parent / "written_answers.jsonl").read_text("utf-8").splitlines())
}
N = r"(\d+)"


def first(candidates: range, fits: object) -> int:
    """The only number of a range that fits; found by trying all."""
    (found,) = [number for number in candidates if fits(number)]  # type: ignore[operator]
    return found


def filling(start: int, flow: int, leak: int, goal: int) -> int:
    minutes, held = 0, start
    while held < goal:
        minutes, held = minutes + 1, held + flow - leak
    assert held == goal
    return minutes


def pumping(a: int, b: int, alone: int, goal: int) -> int:
    hours, held = 0, 0
    while held < goal:
        held += a if hours < alone else a + b
        hours += 1
    assert held == goal
    return hours


def clock(start: int, film: int, pause: int) -> int:
    minutes = 18 * 60 + start + film + pause
    return minutes - 20 * 60


def wages(low: int, hours: int, high: int, worked: int) -> int:
    return sum(low if hour < hours else high for hour in range(worked))


def fence_with_gate(a: int, b: int, gate: int, price: int, cost: int) -> int:
    sides = [a, b, a, b - gate]
    return sum(price for side in sides for _ in range(side)) + cost


def lamps(bought: int, cost: int, sold: int, price: int) -> Fraction:
    return sum((Fraction(price, 1 if n < sold else 2) - cost for n in range(bought)), Fraction(0))


def baking(trays: int, rolls: int, afternoon: int, bag: int) -> int:
    left = sum(rolls for _ in range(trays))
    left -= left // 2
    left -= afternoon
    return len([*range(0, left, bag)]) if left % bag == 0 else -1


SOLVER: Solver = [
    (rf"has {N} marbles and finds {N} more", lambda a, b: len([*range(a), *range(b)])),
    (rf"There are {N} people on a bus.* {N} of them get off", lambda a, b: first(range(99), lambda x: x + b == a)),
    (rf"box holds {N} eggs.* {N} full boxes", lambda a, b: sum(a for _ in range(b))),
    (rf"shares {N} cookies equally among {N} children", lambda a, b: first(range(99), lambda x: x * b == a)),
    (rf"book has {N} pages.* read {N} of them", lambda a, b: len(range(b, a))),
    (rf"travels at {N} kilometers per hour for {N} hours", lambda v, t: sum(v for _ in range(t))),
    (rf"is {N} years old.* is {N} years older", lambda a, b: first(range(99), lambda x: x - b == a)),
    (rf"rope is {N} meters long.* pieces of {N} meters", lambda a, b: len(range(0, a, b))),
    (rf"museum costs {N} dollars.* do {N} tickets", lambda a, b: sum(a for _ in range(b))),
    (rf"There are {N} students in a class\. {N} of them", lambda a, b: first(range(99), lambda x: x + b == a)),
    (rf"buys {N} notebooks at {N} dollars .* {N}-dollar", lambda a, p, bill: bill - sum(p for _ in range(a))),
    (rf"{N} rows of {N} apple trees and plants {N}", lambda a, b, c: len([1 for _ in range(a) for _ in range(b)]) + c),
    (
        rf"saves {N} dollars every week for {N} weeks and then spends {N}",
        lambda a, w, c: first(range(999), lambda x: x + c == sum(a for _ in range(w))),
    ),
    (rf"{N} red and {N} blue balloons.* bunches of {N}", lambda a, b, c: first(range(99), lambda x: x * c == a + b)),
    (rf"costs {N} dollars.* reduced by {N} percent", lambda a, p: Fraction(a) * (1 - Fraction(p, 100))),
    (rf"garden is {N} meters long and {N} meters wide", lambda a, b: sum([a, b, a, b])),
    (rf"runs {N} kilometers .* and {N} kilometers on Saturday", lambda a, b: sum([a, a, a, a, a, b])),
    (rf"for {N} people needs {N} grams.* for {N} people", lambda a, b, c: Fraction(b, a) * c),
    (rf"{N} floors with {N} spaces.* {N} spaces are taken", lambda a, b, c: sum(b for _ in range(a)) - c),
    (rf"is {N} years old, and .* twice as old .* in {N} years", lambda a, k: a + a + k),
    (
        rf"pen costs {N} .* notebook costs {N} .* has {N} dollars and buys {N} pens and {N} notebooks",
        lambda p, b, has, x, y: has - sum([p] * x + [b] * y),
    ),
    (rf"holds {N} liters of water.* {N} liters flow in and {N} .* hold {N} liters", filling),
    (
        rf"reads {N} pages on Monday, {N} pages more",
        lambda a, b: sum(a if day == 0 else (a + b) * day for day in range(3)),
    ),
    (rf"earns {N} dollars .* first {N} hours .* and {N} dollars .* worked {N} hours", wages),
    (
        rf"{N} boxes with {N} oranges each\. {N} oranges .* bags of {N}",
        lambda a, b, c, d: first(range(999), lambda x: x * d + c == a * b),
    ),
    (r"starts at 18:0?(\d+) and lasts (\d+) minutes.* break of (\d+) minutes", clock),
    (
        rf"scored {N}, {N} and {N} points .* exactly {N} points",
        lambda a, b, c, mean: first(range(101), lambda x: Fraction(a + b + c + x, 4) == mean),
    ),
    (rf"school has {N} students, and {N} percent", lambda a, p: Fraction(a * p, 100) * Fraction(3, 4)),
    (
        rf"drives {N} kilometers at {N} .* rests for {N} minutes, and then drives {N} kilometers at {N}",
        lambda d, v, rest, e, w: Fraction(d, v) * 60 + rest + Fraction(e, w) * 60,
    ),
    (rf"bakes {N} trays of {N} rolls.* {N} rolls in the afternoon, .* bags of {N}", baking),
    (
        rf"is {N} times as old .* In {N} years .* add up to {N}",
        lambda k, y, total: first(range(99), lambda x: (x + y) + (k * x + y) == total),
    ),
    (
        rf"field is {N} meters long and {N} meters wide.* gate that is {N} .* costs {N} dollars per .* gate costs {N}",
        fence_with_gate,
    ),
    (rf"{N} heads and {N} legs", lambda h, legs: first(range(h + 1), lambda x: 4 * x + 2 * (h - x) == legs)),
    (
        rf"costs {N} dollars a month and includes {N} minutes.* costs {N} cents.* for {N} minutes",
        lambda base, free, cents, called: base * 100 + sum(cents for _ in range(free, called)),
    ),
    (rf"Pump A fills {N} .* pump B fills {N} .* alone for {N} hours.* are {N} liters", pumping),
    (rf"buys {N} lamps for {N} dollars each\. It sells {N} of them for {N} dollars", lamps),
]


def solved(item: Item) -> Fraction:
    found = [(match, work) for pattern, work in SOLVER if (match := re.search(pattern, str(item.prompt)))]
    assert len(found) == 1, (item.prompt, [match.re.pattern for match, _ in found])
    match, work = found[0]
    return Fraction(work(*map(int, match.groups())))


@pytest.mark.parametrize("item", MATH, ids=lambda item: item.id)
def test_the_key_of_a_word_problem_is_worked_out_again_from_its_text(item: Item) -> None:
    assert Fraction(str(item.answer)) == solved(item)
    assert str(item.prompt).endswith(f" {ASK}")


@pytest.mark.parametrize("item", PROBE, ids=lambda item: item.id)
def test_a_good_answer_is_right_and_a_bad_one_wrong(item: Item) -> None:
    row = ANSWERS[item.id]
    assert row["good"]
    assert row["bad"]
    for answer in row["good"]:
        assert grade(item, answer).correct is True, answer
    for answer in row["bad"]:
        assert grade(item, answer).correct is False, answer


@pytest.mark.parametrize("item", REQUESTS, ids=lambda item: item.id)
def test_each_instruction_alone_can_make_an_answer_wrong(item: Item) -> None:
    instructions = json.loads(str(item.answer))
    assert 1 <= len(instructions) <= 3
    assert len(ANSWERS[item.id]["bad"]) == len(instructions)
    for instruction, bad in zip(instructions, ANSWERS[item.id]["bad"], strict=True):
        alone = Item(id="1", task="t", prompt="p", answer=json.dumps([instruction]), match="instructions")
        assert grade(alone, bad).correct is False


NUMBER_WORDS = {1: "not", 2: "two|twice", 3: "three", 4: "four", 5: "five"}


@pytest.mark.parametrize("item", REQUESTS, ids=lambda item: item.id)
def test_the_request_names_every_value_that_is_checked(item: Item) -> None:
    text = str(item.prompt).lower()
    for _, values in json.loads(str(item.answer)):
        for name, value in values.items():
            if name in ("relation", "let_relation"):
                assert ("fewer than" if value == "less than" else "at least") in text or "not appear" in text
                continue
            for one in value if isinstance(value, list) else [value]:
                words = NUMBER_WORDS.get(one, "?") if isinstance(one, int) else "?"
                assert str(one).lower() in text or re.search(rf"\b({words})\b", text), (one, text)


def test_there_are_100_word_problems_and_80_requests() -> None:
    assert Counter(item.task for item in PROBE) == {"written:math": 100, "written:instructions": 80}
    assert Counter(item.category for item in PROBE) == {"Math": 100, "Instruction Following": 80}
    steps = Counter(item.tags[1] for item in MATH)
    assert steps == {"steps:1": 30, "steps:2": 30, "steps:3": 12, "steps:4": 20, "steps:5": 8}
    assert set(ANSWERS) == {item.id for item in PROBE}
    assert len({item.content_hash for item in PROBE}) == len(PROBE)
    for item in PROBE:
        check_item(item)


def test_it_is_generated_in_a_chat_greedily_with_256_tokens_at_most() -> None:
    assert (PROBE.scoring, PROBE.rendering) == ("generate", "chat")
    assert PROBE.decoding is not None
    assert (PROBE.decoding.tokens, PROBE.decoding.temperature) == (256, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [45, 90])
def test_the_beginning_is_like_the_whole(count: int) -> None:
    for kind in (lambda item: item.task, lambda item: item.tags[0], lambda item: item.tags[1]):
        whole, there = Counter(map(kind, PROBE)), Counter(map(kind, PROBE.head(count)))
        assert all(abs(there[name] - number * count / len(PROBE)) <= 2.5 for name, number in whole.items()), there


def test_items_of_one_story_are_one_cluster_with_different_answers() -> None:
    stories: dict[str | None, list[str]] = {}
    for item in MATH:
        stories.setdefault(item.cluster, []).append(str(item.answer))
    assert len(stories) == 36
    assert all(2 <= len(own) == len(set(own)) <= 3 for own in stories.values())
    assert all(item.cluster is None for item in REQUESTS)


def test_the_file_is_small() -> None:
    path = files("forgetwatch.probes.shipped").joinpath(FILES["standard-written"])
    assert path.stat().st_size < 40_000  # type: ignore[attr-defined]
