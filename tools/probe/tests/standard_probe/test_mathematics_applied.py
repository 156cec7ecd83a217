"""Every question about shapes, units, chances, lists, equations and stories agrees with a second computation."""

from __future__ import annotations

import itertools
import random
import re
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from pool_rules import SEEDS, Solver, assert_solved, solve
from standard_probe.mathematics import questions

POOLS = [question for seed in SEEDS for question in questions(random.Random(seed))]
N, LIST = r"(\d+)", r"((?:\d+, )+\d+ and \d+)"


def listed(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def heron(a: int, b: int) -> int:
    """The hypotenuse, found by trying."""
    return next(c for c in range(1, 500) if a * a + b * b == c * c)


def leg(c: int, a: int) -> int:
    return next(b for b in range(1, 500) if a * a + b * b == c * c)


def diagonals(n: int) -> int:
    return sum(1 for a, b in itertools.combinations(range(n), 2) if (b - a) % n not in (1, n - 1))


def trapezoid(a: int, b: int, height: int) -> Fraction:
    """Two triangles that share a diagonal."""
    return Fraction(a * height, 2) + Fraction(b * height, 2)


def cells(a: int, b: int, c: int) -> set[tuple[int, ...]]:
    return set(itertools.product(range(a), range(b), range(c)))


def surface(a: int, b: int, c: int) -> int:
    """Faces of unit cubes that have no neighbour."""
    inside = cells(a, b, c)
    sides = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    return sum((x + i, y + j, z + k) not in inside for x, y, z in inside for i, j, k in sides)


SIDES = {"triangle": 3, "square": 4, "rectangle": 4, "pentagon": 5, "hexagon": 6, "heptagon": 7, "octagon": 8}

GEOMETRY: Solver = [
    (r"How many sides does an? (\w+) have", SIDES.__getitem__),
    (
        rf"measures {N} cm by {N} cm by {N} cm\. How many cm long is the diagonal",
        lambda a, b, c: next(d for d in range(999) if d * d == a * a + b * b + c * c),
    ),
    (rf"sides of a trapezoid are {N} cm and {N} cm, its height is {N} cm", trapezoid),
    (rf"trapezoid of height {N} cm whose parallel sides are {N} cm and {N} cm", lambda h, a, b: trapezoid(a, b, h)),
    (rf"^(?=.*perimeter).*?{N} m.* {N} m", lambda a, b: a + b + a + b),
    (rf"^(?=.*area in square meters|.*area, in square meters).*?{N} m.* {N} m", lambda a, b: len(cells(a, b, 1))),
    (rf"^(?=.*triangle)(?=.*height).*?{N} cm.*? {N} cm", lambda a, b: Fraction(a, 2) * b),
    (rf"triangle.* {N}°.* {N}°", lambda a, b: next(c for c in range(1, 180) if a + b + c == 180)),
    (rf"area.* radius(?: is)? {N} cm", lambda r: r**2),
    (rf"radius {N} cm\. What is its area", lambda r: r**2),
    (rf"circumference.* radius(?: is)? {N} cm", lambda r: r + r),
    (rf"radius {N} cm\. What is its circumference", lambda r: r + r),
    (rf"(?:shorter sides|legs).* {N} cm and {N} cm", heron),
    (rf"hypotenuse of (?:a right triangle is )?{N} cm.* leg(?: of)? {N} cm", leg),
    (rf"{N} cm(?: by|,| long,) {N} cm(?: by| and| wide and) {N} cm.* volume", lambda *abc: len(cells(*abc))),
    (rf"{N} cm(?: by|,| long,) {N} cm(?: by| and| wide and) {N} cm.* surface", surface),
    (rf"interior angles of a polygon with {N} sides", lambda n: sum(180 for _ in range(n - 2))),
    (rf"diagonals.* {N} sides", diagonals),
    (
        rf"sides (?:of|are) {N} cm, {N} cm and {N} cm",
        lambda *abc: all(a < b + c for a, b, c in itertools.permutations(abc)),
    ),
]

SIZES = {
    **{"kilometers": 1000, "meters": 1, "centimeters": Fraction(1, 100), "millimeters": Fraction(1, 1000)},
    **{"metric tons": 1000, "kilograms": 1, "grams": Fraction(1, 1000), "liters": 1, "milliliters": Fraction(1, 1000)},
    **{"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1},
    **{"miles": 5280 * 12, "yards": 36, "feet": 12, "inches": 1, "pounds": 16, "ounces": 1},
    **{"US gallons": 8, "US quarts": 2, "US pints": 1, "cubic meters": 1000},
    **{"square kilometers": 10**6, "hectares": 10**4, "square meters": 1, "square centimeters": Fraction(1, 10_000)},
    **{"dollars": 100, "cents": 1},
    **{"kilometers per hour": Fraction(5, 18), "meters per second": 1},
}
"""Units, each in a smaller one of its kind."""
UNIT = "(" + "|".join(sorted(SIZES, key=len, reverse=True)) + ")"
AMOUNT = r"(\d+(?:\.\d+)?)"


def turned(amount: str | int, large: str, small: str) -> Fraction:
    return Fraction(str(amount)) * SIZES[large] / SIZES[small]


def fahrenheit(c: str | int) -> Fraction:
    """A straight line through 0 and 32, and 100 and 212."""
    return 32 + Fraction(str(c)) * (212 - 32) / 100


UNITS: Solver = [
    (rf"How many {UNIT} are (?:in )?{AMOUNT} {UNIT}\?", lambda small, amount, large: turned(amount, large, small)),
    (rf"(?:What is|Express|Convert) {AMOUNT} {UNIT} (?:in|to) {UNIT}[?.]", turned),
    (
        rf"{AMOUNT} ({UNIT[1:-1]}) and {N} {UNIT} together",
        lambda a, large, b, small: turned(a, large, small) + b,
    ),
    (rf"Add {N} {UNIT} to {AMOUNT} {UNIT}\.", lambda b, small, a, large: turned(a, large, small) + b),
    (
        rf"{N} liters per minute and runs for {N} hours",
        lambda rate, hours: sum(Fraction(rate, 1000) for _ in range(60 * hours)),
    ),
    (rf"{N} kilometers per hour\. .* in {N} minutes", lambda v, t: Fraction(v * 1000, 60) * t),
    (r"(-?\d+) degrees Celsius", fahrenheit),
    (r"(-?\d+) degrees Fahrenheit", lambda f: next(c for c in range(-100, 200) if fahrenheit(c) == f)),
]


def rolls(count: int, sides: int, good: Callable[..., bool]) -> Fraction:
    every = list(itertools.product(range(1, sides + 1), repeat=count))
    return Fraction(sum(map(good, every)), len(every))


def drawn(a: int, first: str, b: int, second: str, asked: str) -> Fraction:
    assert first != second
    bag = [first] * a + [second] * b
    return Fraction(bag.count(asked), len(bag))


def two_drawn(a: int, first: str, b: int, second: str, asked: str) -> Fraction:
    pairs = list(itertools.permutations([first] * a + [second] * b, 2))
    return Fraction(pairs.count((asked, asked)), len(pairs))


def mixed(a: int, first: str, b: int, second: str) -> Fraction:
    pairs = list(itertools.combinations([first] * a + [second] * b, 2))
    return Fraction(sum(x != y for x, y in pairs), len(pairs))


def total(n: int) -> Fraction:
    return rolls(2, 6, lambda roll: sum(roll) == n)


def heads(coins: int, wanted: int) -> Fraction:
    return rolls(coins, 2, lambda toss: toss.count(1) == wanted)


def wins(fields: int, spins: int) -> Fraction:
    return rolls(spins, fields, lambda spin: 1 in spin)


PROBABILITY: Solver = [
    (
        rf"{N} (\w+) and {N} (\w+) (?:marbles\. What|balls one|cards\. What).* (?:a|be|is) (\w+)(?: one)?\?",
        drawn,
    ),
    (rf"{N} (\w+) and {N} (\w+) (?:marbles two|balls\. Two|tickets two).* both are (\w+)\?", two_drawn),
    (
        rf"(?:sum is|total of|rolling) {N}(?: when| in total with|\?)(?! or)",
        total,
    ),
    (
        r"A bag holds (.*) balls\. .* likeliest",
        lambda text: max(re.findall(r"(\d+) (\w+)", text), key=lambda pair: int(pair[0]))[1],
    ),
    (rf"{N} (\w+) and {N} (\w+) (?:marbles|balls).*(?:differ in color|of each color)", mixed),
    (rf"(?:tossed|In|With) {N} (?:times|tosses|fair coins).* (?:is|exactly) {N}\?", heads),
    (rf"(?:die has|fair) {N}(?: sides|-sided).* (?:than) {N}", lambda s, m: rolls(1, s, lambda roll: roll[0] > m)),
    (rf"(?:with|One of) {N} equal fields.* {N} (?:times|spins)", wins),
]


def joint(m: int, one: int, n: int, two: int) -> Fraction:
    return Fraction(statistics.mean([one] * m + [two] * n))


STATISTICS: Solver = [
    (rf"(?:mean|average) of (?:the numbers )?{LIST}[?.]", lambda text: Fraction(statistics.mean(listed(text)))),
    (rf"median of (?:the (?:six )?numbers )?{LIST}", lambda text: Fraction(statistics.median(listed(text)))),
    (rf"Six values are {LIST}", lambda text: Fraction(statistics.median(listed(text)))),
    (rf"(?:range of|smallest of|largest of) {LIST}", lambda t: max(a - b for a in listed(t) for b in listed(t))),
    (rf"(?:mode of|often among|number among) {LIST}", lambda text: statistics.mode(listed(text))),
    (
        rf"mean of {N} numbers is {N}\. All but one are {LIST}",
        lambda n, mean, text: missing(listed(text), mean, n),
    ),
    (rf"{LIST} so that its {N} numbers have the mean {N}", lambda text, n, mean: missing(listed(text), mean, n)),
    (rf"Besides {LIST}, which.* all {N} equal to {N}", lambda text, n, mean: missing(listed(text), mean, n)),
    (
        r"^((?:\w+ scored \d+ and \d+[;.] ){4})",
        lambda text: max(re.findall(r"(\w+) scored (\d+) and (\d+)", text), key=lambda row: int(row[1]) + int(row[2]))[
            0
        ],
    ),
    (
        r"Which of the numbers (.*) is the (largest|smallest)",
        lambda text, word: sorted(listed(text))[-1 if word == "largest" else 0],
    ),
    (rf"class of {N} has a mean score of {N}, and a class of {N} one of {N}", joint),
    (rf"mean weight of {N} boxes is {N} kg, and that of {N} others is {N} kg", joint),
]


def missing(values: list[int], mean: int, count: int) -> int:
    assert len(values) + 1 == count
    return next(x for x in range(500) if statistics.mean([*values, x]) == mean)


def value(text: str, x: int, y: int = 0) -> Any:
    """An expression of x and y as Python reads it."""
    text = re.sub(r"(\d|\))(?=[x(])", r"\1*", text.replace("²", "**2").replace("^", "**"))
    return eval(text, {"x": x, "y": y})


def solutions(equation: str) -> list[int]:
    left, right = equation.split(" = ")
    return [x for x in range(-200, 200) if value(left, x) == value(right, x)]


def pair(total: int, gap: int, asked: str) -> int:
    ((x, y),) = [(x, y) for x in range(200) for y in range(200) if x + y == total and x - y == gap]
    return {"x": x, "y": y}[asked]


EQUATION = r"(\d+x [-+] \d+ = (?:\d+x [-+] \d+|\d+(?![\dx])))"
SQUARE = r"(x² (?:[-+] \d*x )?[-+] \d+ = 0)"
TERM = r"(x² \+ \d+x - \d+|\d+x² - \d+)"


def system(*numbers: Any) -> int:
    a, b, p, c, d, q, asked = numbers
    ((x, y),) = [(x, y) for x in range(99) for y in range(99) if a * x + b * y == p and c * x + d * y == q]
    return {"x": x, "y": y}[asked]


ALGEBRA: Solver = [
    (rf"If x ([-+]) {N} = {N},", lambda sign, a, b: next(x for x in range(99) if value(f"x {sign} {a}", x) == b)),
    (rf"{N}x \+ {N}y = {N} and {N}x \+ {N}y = {N}.* ([xy])[.?]", system),
    (rf"^(?:If|Solve|Which x satisfies) {EQUATION}", lambda text: solutions(text)[0]),
    (rf"x \+ y = {N} and x - y = {N}.* ([xy])[.?]", pair),
    (rf"{TERM}(?:,? for| when) x = {N}", value),
    (rf"If x = {N}, what is {TERM}", lambda x, text: value(text, x)),
    (rf"larger.* of {SQUARE}", lambda text: max(solutions(text))),
    (rf"positive.* (?:of|solves) {SQUARE}", lambda text: max(solutions(text))),
    (
        r"\((\d+), (-?\d+)\) and \((\d+), (-?\d+)\)",
        lambda a, b, c, d: Fraction(d - b, c - a),
    ),
    (rf"{N}(?: to the power of |\^){N}", lambda a, n: value(" * ".join([str(a)] * n), 0)),
    (rf"(?:root of|the square|itself makes) {N}", lambda n: next(r for r in range(n) if r * r == n)),
    (r"(\d+x \+ \d+) > (\d+)", lambda text, limit: next(x for x in range(500) if value(text, x) > limit)),
    (
        r"(\(x \+ \d+\)\(\d+x \+ \d+\))",
        lambda text: Fraction(value(text, 1) - value(text, -1), 2),
    ),
    (rf"x = {N} (?:solve|a solution of) {EQUATION}", lambda x, text: x in solutions(text)),
    (rf"Is {EQUATION} true for x = {N}", lambda text, x: x in solutions(text)),
]


def mixture(m: int, weak: int, n: int, strong: int) -> Fraction:
    return Fraction(statistics.mean([weak] * m + [strong] * n))


STORIES: Solver = [
    (rf"{N} \w+ (?:at|for) {N} dollars (?:each|apiece).*?{N} dollars", lambda n, p, note: note - sum([p] * n)),
    (rf"{N} km per hour.*? {AMOUNT} hours", lambda speed, hours: speed * Fraction(str(hours))),
    (
        rf"^{N} (?:people|visitors|eggs).* (?:seat|holds|of) {N}",
        lambda n, size: len(range(0, n, size)),
    ),
    (
        rf"(?:road of|path is|stand on) {N} m.* every {N} m",
        lambda length, gap: len(range(0, length + 1, gap)),
    ),
    (
        rf" in {N} hours(?:,| and) \w+ in {N} hours",
        lambda a, b: next(h for h in range(1, 99) if Fraction(h, a) + Fraction(h, b) == 1),
    ),
    (rf"is {N}(?: years old)?(?:;| and) \w+ (?:is )?{N} times.* {N} (?:more )?years", lambda c, t, y: c * t + y),
    (
        rf"{N} (?:people|guests|portions).*? {N} g.* (?:for|do) {N}",
        lambda few, grams, many: next(g for g in range(9999) if g * few == grams * many),
    ),
    (
        rf"{N} pages\.? \w+ reads {N} .*?{N} days,? (?:and|then) {N} .*?{N} days",
        lambda pages, a, d, b, e: pages - sum([a] * d + [b] * e),
    ),
    (
        rf"{N} dollars and adult.*? {N} dollars\. (?:It sold|A group of) {N} .*? {N} dollars",
        lambda c, d, n, money: next(k for k in range(n + 1) if d * k + c * (n - k) == money),
    ),
    (
        rf"{N} km(?: ahead)? and \w+ at {N} km per hour.* {N} km per hour",
        lambda ahead, slow, fast: next(h for h in range(1, 99) if fast * h == ahead + slow * h),
    ),
    (
        r"(?:least apiece|the cheapest): (.*)\?",
        lambda text: min(
            text.replace(" or ", ", ").split(", "), key=lambda offer: Fraction(listed(offer)[1], listed(offer)[0])
        ),
    ),
    (rf"has {N} \w+ and gets {N} more", lambda a, b: len([*range(a), *range(b)])),
    (rf"has {N} \w+ and gives {N} away", lambda a, b: len(range(b, a))),
    (rf"{N} liters of .*? with {N}% .*? {N} liters of .*? with {N}% sugar", mixture),
    (rf"{N} liters of {N}% acid and {N} liters of {N}% acid", mixture),
]


@pytest.mark.parametrize(
    ("topic", "solver"),
    [
        *(("geometry", GEOMETRY), ("units", UNITS), ("probability", PROBABILITY), ("statistics", STATISTICS)),
        *(("algebra", ALGEBRA), ("word problems", STORIES)),
    ],
)
def test_a_second_computation_agrees(topic: str, solver: Solver) -> None:
    asked = [question for question in POOLS if question.topic == topic]
    assert len(asked) >= 100
    for question in asked:
        assert_solved(question, solve(question, solver))


def test_fractions_are_in_lowest_terms() -> None:
    for question in POOLS:
        if question.topic in ("fractions", "probability"):
            for option in (question.right, *question.wrong):
                assert "/" not in option or str(Fraction(option)) == option
