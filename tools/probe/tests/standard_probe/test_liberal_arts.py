from __future__ import annotations

import csv
import itertools
import random
import re
from fractions import Fraction
from importlib.resources import files

from pool_rules import SEEDS, by_source
from standard_probe.liberal_arts import questions
from standard_probe.liberal_arts.sums import DRAWS, sums
from standard_probe.question import Question

SUMS = by_source(questions, "computed")


def test_ordered_events_agree_with_their_years_and_are_far_apart() -> None:
    text = files("standard_probe").joinpath("facts/events.csv").read_text(encoding="utf-8")
    year = {row["subject"]: int(row["answer"]) for row in csv.DictReader(text.splitlines())}
    orders = [
        question for seed in SEEDS for question in questions(random.Random(seed)) if question.topic == "order of events"
    ]
    assert len(orders) >= len(SEEDS) * 20
    for question in orders:
        asked, _, listed = question.prompt.removesuffix("?").partition(": ")
        named = re.split(r", | or (?=the |Mussolini|Lindbergh)", listed)
        assert sorted(named) == sorted((question.right, *question.wrong))
        in_time = sorted(named, key=year.__getitem__)
        assert question.right == (in_time[0] if re.search("first|earliest", asked) else in_time[-1])
        assert all(year[later] - year[earlier] >= 8 for earlier, later in itertools.pairwise(in_time))


def market_price(a: int, b: int, c: int, d: int) -> Fraction:
    """The whole price at which nobody wants to buy or sell more, found by trying."""
    (price,) = (price for price in range(1, 200) if a - b * price == c + d * price)
    return Fraction(price)


def break_even(fixed: int, price: int, cost: int) -> Fraction:
    """The first output that covers all costs, found by trying."""
    output = next(output for output in itertools.count() if output * price >= fixed + output * cost)
    assert output * price == fixed + output * cost
    return Fraction(output)


def depreciation(cost: int, years: int, rest: int) -> Fraction:
    """The step that leads from the cost to the rest in so many years, found by trying."""
    (yearly,) = (yearly for yearly in range(1, cost) if cost - yearly * years == rest)
    return Fraction(yearly)


def worked_out(prompt: str, numbers: list[int]) -> Fraction:
    """The answer to a sum, from the words that tell its kind and the numbers in it."""
    n = [Fraction(number) for number in numbers]
    if "elasticity" in prompt:
        return (n[1] / 100) / (n[0] / 100)
    if re.search("market|supply|equilibrium", prompt):
        return market_price(*numbers)
    if re.search("jars|potatoes|stools", prompt):
        return 1 / (n[0] / n[1])
    if re.search("real interest|real rate|buying power", prompt):
        return n[0] - n[1]
    if "unemploy" in prompt:
        return n[1] * 100 / n[0]
    if re.search("GDP|gross domestic", prompt):
        return n[0] + n[1] + n[2] - (n[4] - n[3])
    if re.search("last unit|marginal|extra cake", prompt):
        total = {numbers[0]: n[1], numbers[2]: n[3]} if "costs a firm" not in prompt else {numbers[1]: n[0]}
        if "costs a firm" in prompt:
            total[numbers[3]] = n[2]
        fewer, more = sorted(total)
        assert more == fewer + 1
        return total[more] - total[fewer]
    if "break" in prompt or "cover all its costs" in prompt:
        return break_even(*numbers)
    if re.search(r"(?<!gross )profit\?|profit is left", prompt):
        return n[0] * n[1] - (n[0] * n[2] + n[3])
    if "straight-line" in prompt:
        return depreciation(*numbers)
    if "equity" in prompt:
        return n[0] - n[1]
    if re.search("gross margin|gross profit", prompt):
        return 100 - 100 * n[1] / n[0]
    if re.search("return|gained", prompt):
        return 100 * n[1] / n[0] - 100
    assert "average" in prompt
    return (n[1] + n[0] * n[2]) / n[0]


def value(option: str) -> Fraction:
    """The number in an option."""
    return Fraction(re.sub(r"[^\d.]", "", option))


def test_every_sum_agrees_with_a_second_computation() -> None:
    assert len(SUMS) == len(SEEDS) * 3 * len(DRAWS)
    for question in SUMS:
        numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", question.prompt)]
        answer = worked_out(question.prompt, numbers)
        assert value(question.right) == answer, question.prompt
        assert answer not in map(value, question.wrong)
        assert all(value(option) > 0 for option in question.wrong)


def test_the_right_number_takes_every_position_of_the_row() -> None:
    places: dict[int, set[int]] = {3: set(), 4: set(), 5: set()}
    made: list[Question] = [question for seed in range(20) for question in sums(random.Random(seed))]
    for question in made:
        row = sorted(map(value, (question.right, *question.wrong)))
        places[len(row)].add(row.index(value(question.right)))
        steps = {later - earlier for earlier, later in itertools.pairwise(row)}
        assert len(steps) == 1
    assert all(found == set(range(k)) for k, found in places.items())
