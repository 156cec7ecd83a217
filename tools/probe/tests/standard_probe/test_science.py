"""Computed questions of science agree with a second computation, and facts with scipy and arithmetic."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from fractions import Fraction

import scipy.constants
from pool_rules import SEEDS, Solver, assert_solved, solve
from standard_probe.question import alike_in_length
from standard_probe.science import questions
from standard_probe.written import read_rows

POOLS = [question for seed in SEEDS for question in questions(random.Random(seed))]
COMPUTED = [question for question in POOLS if question.source == "computed"]
N, F = r"(\d+)", r"(\d+(?:\.\d+)?)"
ELEMENTS, PLANETS = read_rows("facts/elements"), read_rows("facts/planets")
PROTONS = {row["name"]: int(row["number"]) for row in ELEMENTS}


def exact(text: str | int) -> Fraction:
    return Fraction(str(text))


def parallel(a: int, b: int) -> Fraction:
    return 1 / (Fraction(1, a) + Fraction(1, b))


def remaining(life: int, grams: int, after: int) -> Fraction:
    left = Fraction(grams)
    for _ in range(after // life):
        left /= 2
    return left


def looked_at(n: int) -> int:
    """The entries that a binary search looks at in the worst case."""
    return 0 if n == 0 else 1 + looked_at(n // 2)


GATES = {
    "AND": lambda a, b: a and b,
    "OR": lambda a, b: a or b,
    "XOR": lambda a, b: a != b,
    "NAND": lambda a, b: not (a and b),
    "NOR": lambda a, b: not (a or b),
}

PHYSICS: Solver = [
    (rf"gives {N} kg an acceleration of {N}", lambda m, a: sum([m] * a)),
    (rf"(?:body of|accelerate) {N} kg (?:is accelerated )?by {N}", lambda m, a: sum([m] * a)),
    (rf"current of {N} A flows through {N} ohms", lambda i, r: sum([r] * i)),
    (rf"drives {N} A through a resistor of {N} ohms", lambda i, r: sum([r] * i)),
    (rf"resistor of {N} ohms is connected to {N} V", lambda r, v: Fraction(v, r)),
    (rf"At {N} V, how many amperes flow through {N} ohms", Fraction),
    (rf"{N} cm³ (?:of a metal that )?weighs? {F} g", lambda volume, mass: exact(mass) / volume),
    (rf"{N} kg (?:moving|moves|at)(?: at)? {N} m/s\b(?!²)", lambda m, v: Fraction(m, 2) * v**2),
    (rf"{N} Hz (?:and a|whose) wavelength (?:of|is) {N} m", lambda f, length: sum([f] * length)),
    (rf"{N} (?:and|ohms and) {N} ohms(?: are connected)? in parallel", parallel),
    (rf"{N} (?:and|ohms and) {N} ohms(?: are connected)? in series", lambda a, b: len([*range(a), *range(b)])),
    (rf"half-life is {N} days.* of {N} g .*after {N}", remaining),
    (rf"half-life of {N} hours.* of {N} g .*after {N}", remaining),
    (rf"of {N} g are left after {N} years.* is {N} years", lambda g, after, life: remaining(life, g, after)),
    (rf"lever {N} N push down {N} m .* {N} m off", lambda force, a, b: Fraction(force * a, b)),
    (rf"carries {N} N at {N} m .* newtons {N} m", lambda force, a, b: Fraction(force * a, b)),
]

COMPUTING: Solver = [
    (rf"{N} (?:bits|binary digits)", lambda n: len(list(itertools.product("01", repeat=n)))),
    (r"an? ([A-Z]+) gate (?:are|with the inputs|gets) (\d) and (\d)", lambda g, a, b: bool(GATES[g](a, b))),
    (rf"(?:sorted list of|holds|among) {N}(?: entries| sorted ones|\?)", looked_at),
    (rf"send {N} megabytes at {N} megabits", lambda size, rate: Fraction(size * 8, rate)),
    (rf"{N} megabits per second.*? {N} megabytes", lambda rate, size: Fraction(size * 8, rate)),
]


def parts(formula: str) -> list[str]:
    """The atoms of a formula, one by one."""
    if found := re.search(r"\(([^()]*)\)(\d+)", formula):
        return parts(formula.replace(found[0], "", 1)) + parts(found[1]) * int(found[2])
    return [atom for symbol, n in re.findall(r"([A-Z][a-z]?)(\d*)", formula) for atom in [symbol] * int(n or 1)]


def coefficients(reaction: str) -> dict[str, int]:
    """The smallest whole numbers that balance a reaction, by elimination over fractions."""
    left, right = (side.split(" + ") for side in reaction.split(" -> "))
    formulas = left + right
    symbols = sorted({atom for formula in formulas for atom in parts(formula)})
    rows = [
        [Fraction(parts(f).count(symbol) * (1 if i < len(left) else -1)) for i, f in enumerate(formulas)]
        for symbol in symbols
    ]
    pivots: list[int] = []
    for column in range(len(formulas)):
        below = [row for row in rows[len(pivots) :] if row[column]]
        if not below:
            continue
        place, row = len(pivots), below[0]
        rows.remove(row)
        rows.insert(place, [value / row[column] for value in row])
        for other in [r for r in rows if r is not rows[place]]:
            factor = other[column]
            other[:] = [a - factor * b for a, b in zip(other, rows[place], strict=True)]
        pivots.append(column)
    (free,) = set(range(len(formulas))) - set(pivots)
    values = [Fraction(1) if i == free else -rows[pivots.index(i)][free] for i in range(len(formulas))]
    scale = math.lcm(*(value.denominator for value in values))
    whole = [int(value * scale) for value in values]
    return {f: n // math.gcd(*whole) for f, n in zip(formulas, whole, strict=True)}


def weighed(given: str, formula: str) -> int:
    masses = {symbol: int(n) for symbol, n in re.findall(r"([A-Z][a-z]?) = (\d+)", given)}
    return sum(masses[atom] for atom in parts(formula))


FORMULA = r"([A-Z][A-Za-z0-9()]*)"
CHEMISTRY: Solver = [
    (
        rf"(?:When|Balance|In) (.* -> [\w +()]*?)(?: is balanced| with|, balanced).*?(?:before|of|does) {FORMULA}[?. ]",
        lambda r, f: coefficients(r)[f],
    ),
    (rf"How many atoms (?:are there|does).* {FORMULA}(?: contain)?\?", lambda f: len(parts(f))),
    (rf"how many atoms make up {FORMULA}\?", lambda f: len(parts(f))),
    (rf"(?:With|Taking) (.*?)(?: g/mol)?, (?:what|how).* of {FORMULA} (?:in|weigh)", weighed),
    (rf"of one mole of {FORMULA}, if (.*)\?", lambda formula, given: weighed(given, formula)),
    (rf"(?:does an|An) atom of \w+-{N} (?:with|has) {N} protons", lambda mass, z: len(range(z, mass))),
    (rf"With {N} protons.* \w+-{N} have\?", lambda z, mass: len(range(z, mass))),
]
NAMES = r"([a-z]+)"
CHART: Solver = [
    (rf"symbol of {NAMES}\?", lambda name: symbol(name)),
    (rf"(?:symbol does|chemists use for) {NAMES}(?: have|\?)", lambda name: symbol(name)),
    (r"(?:has the symbol|does the symbol|which element is) ([A-Z][a-z]?)(?: stand|\?)", lambda s: named(s)),
    (rf"(?:number of|atom of|number does) {NAMES}(?: have| stand|\?)", lambda name: PROTONS[name]),
    (
        rf"(?:nucleus: |number: |Of ){NAMES}, {NAMES} (?:or|and) {NAMES}",
        lambda *three: max(three, key=lambda one: PROTONS[one]),
    ),
    (rf"from 1 to 18, (?:is|does|holds) {NAMES}(?: belong)?\?", lambda name: group(PROTONS[name])),
]


def symbol(name: str) -> str:
    return next(row["symbol"] for row in ELEMENTS if row["name"] == name)


def named(symbol: str) -> str:
    return next(row["name"] for row in ELEMENTS if row["symbol"] == symbol)


def group(z: int) -> int:
    """By the distance from a noble gas."""
    noble = (0, 2, 10, 18, 36, 54, 86)
    before = min(gas for gas in noble if gas >= z) - z
    after = z - max(gas for gas in noble if gas < z)
    return after if before and after < 3 else 18 - before


PLANET = "(" + "|".join(row["planet"] for row in PLANETS) + ")"
BY_SIZE = ["Jupiter", "Saturn", "Uranus", "Neptune", "Earth", "Venus", "Mars", "Mercury"]
SKY: Solver = [
    (
        r"(first|second|third|fourth|fifth|sixth|seventh|eighth)",
        lambda word: ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"][
            ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"].index(word)
        ],
    ),
    (
        rf"longest.*: {PLANET}, {PLANET} or {PLANET}",
        lambda *three: max(three, key=[row["planet"] for row in PLANETS].index),
    ),
    (
        rf"(?:largest|diameter): {PLANET}, {PLANET} or {PLANET}",
        lambda *three: min(three, key=BY_SIZE.index),
    ),
]
SOLVERS = {
    **{"physics": PHYSICS, "computing": COMPUTING, "chemistry": CHEMISTRY, "elements": CHART, "astronomy": SKY},
}


def test_every_computed_question_agrees_with_a_second_computation() -> None:
    counts = Counter(question.topic for question in COMPUTED)
    assert set(counts) == set(SOLVERS)
    for question in COMPUTED:
        answer = solve(question, SOLVERS[question.topic])
        assert_solved(question, answer)


def test_the_groups_of_the_periodic_table_follow_from_the_noble_gases() -> None:
    assert [int(row["number"]) for row in ELEMENTS] == sorted(PROTONS.values())
    assert len({row["symbol"] for row in ELEMENTS}) == len(ELEMENTS)
    for row in ELEMENTS:
        z, group = int(row["number"]), row["group"]
        if group in ("1", "2"):
            assert z - int(group) in (0, 2, 10, 18, 36, 54, 86)
        elif group and int(group) > 12:
            assert z + 18 - int(group) in (2, 10, 18, 36, 54, 86)
        elif group:
            start = {4: 18, 5: 36, 6: 68}[4 + (z > 36) + (z > 57)]
            assert z - start == int(group)


def test_no_question_states_the_protons_that_another_asks_for() -> None:
    told = {name for q in COMPUTED for name in re.findall(r"([a-z]+)-\d+", q.prompt) if q.topic == "chemistry"}
    asked = [q for q in COMPUTED if q.topic == "elements" and re.search("proton|number", q.prompt)]
    assert told
    assert not [q for q in asked if told & set(re.findall(r"[a-z]+", q.prompt))]


def test_planets_are_ordered_by_their_years() -> None:
    years = [float(row["year_days"]) for row in PLANETS]
    assert years == sorted(years)
    sizes = sorted(PLANETS, key=lambda row: -float(row["diameter_km"]))
    assert [row["planet"] for row in sizes] == [
        "Jupiter",
        "Saturn",
        "Uranus",
        "Neptune",
        "Earth",
        "Venus",
        "Mars",
        "Mercury",
    ]


def test_prefixes_and_constants_are_those_of_scipy() -> None:
    prefixes = [row for row in read_rows("facts/science_pairs") if row["kind"] == "prefix"]
    assert len(prefixes) >= 10
    for row in prefixes:
        assert math.isclose(getattr(scipy.constants, row["asked"]), float(row["answer"].replace("10^", "1e")))
    right = {row["uses"]: row["right"] for row in read_rows("facts/science")}
    assert float(right["absolute zero"]) == -scipy.constants.zero_Celsius
    assert round(scipy.constants.c / 1e8) == 3
    assert right["speed of light"] == "300,000 km/s"
    assert right["Avogadro"] == f"{scipy.constants.N_A / 1e23:.2f} × 10^23"


def test_formulas_agree_with_the_atoms_in_their_names() -> None:
    told = {
        **{"formula CO2": "COO", "formula CH4": "CHHHH", "formula NH3": "NHHH", "formula O3": "OOO"},
        **{"formula H2O2": "HHOO", "formula HNO3": "HNOOO", "formula H2SO4": "HHSOOOO"},
    }
    right = {row["uses"]: row["right"] for row in read_rows("facts/science")}
    for name, atoms in told.items():
        assert sorted(parts(right[name])) == sorted(atoms)


def test_facts_have_sources_and_fair_options() -> None:
    rows = read_rows("facts/science")
    assert len({row["prompt"] for row in rows}) == len(rows)
    for row in rows:
        wrong = row["wrong"].split("|")
        assert row["source"]
        assert row["right"] not in wrong
        assert len(set(wrong)) == len(wrong)
        told = [re.search(rf"\b{re.escape(option)}\b", row["prompt"]) is not None for option in (row["right"], *wrong)]
        assert len(row["right"]) == 1 or all(told) or not told[0]


def test_every_row_of_the_table_has_options_alike_in_length() -> None:
    for row in read_rows("facts/science"):
        assert alike_in_length((row["right"], *row["wrong"].split("|"))), row


def test_every_topic_has_questions_that_few_can_answer() -> None:
    rows = [row for row in read_rows("facts/science") if int(row["difficulty"]) > 3]
    counts = Counter(row["topic"] for row in rows)
    assert set(counts) == {question.topic for question in POOLS}
    assert len(rows) >= 60
    assert min(counts.values()) >= 5


def test_a_question_that_names_its_options_offers_all_of_them() -> None:
    for question in COMPUTED:
        if named := re.search(r"(?:: |Of )(\w+), (\w+) (?:or|and) (\w+)", question.prompt):
            assert {question.right, *question.wrong} == set(named.groups())


def test_the_answers_of_one_kind_are_distinct() -> None:
    rows = read_rows("facts/science_pairs")
    for kind in {row["kind"] for row in rows}:
        answers = [row["answer"] for row in rows if row["kind"] == kind]
        assert len(set(answers)) == len(answers) >= 5
        assert len({row["asked"] for row in rows if row["kind"] == kind}) == len(answers)
