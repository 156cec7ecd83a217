"""Science: the periodic table, planets, balanced equations and the atoms in a formula."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from standard_probe.drafts import Draft, Plan, near, numeric, worded
from standard_probe.fact_tables import similar
from standard_probe.question import alike_in_length
from standard_probe.written import read_rows

ELEMENTS = read_rows("facts/elements")
MAIN_GROUPS = (1, 2, 13, 14, 15, 16, 17, 18)
PLANETS = read_rows("facts/planets")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
MASSES = {"H": 1, "C": 12, "N": 14, "O": 16, "Na": 23, "Mg": 24, "S": 32, "Ca": 40}
"""Rounded atomic masses; a question states those that it needs."""


def _symbol(rng: random.Random, turn: int) -> Draft:
    element = rng.choice([one for one in ELEMENTS if len(one["symbol"]) == 2])
    symbol, name = element["symbol"], element["name"]
    two_letters = [one["symbol"] for one in ELEMENTS if len(one["symbol"]) == 2]
    alike = [other for other in two_letters if other[0] in (symbol[0], name[0].upper())]
    wrong = [name[:2].title(), *rng.sample(alike, len(alike)), *rng.sample(two_letters, 5)]
    prompt = rng.choice(
        (
            f"What is the chemical symbol of {name}?",
            f"Which symbol does {name} have in the periodic table?",
            f"Which symbol do chemists use for {name}?",
        )
    )
    return worded(
        prompt, symbol, [other for other in dict.fromkeys(wrong) if other != symbol][:5], uses=f"symbol {symbol}"
    )


def _named(rng: random.Random, turn: int) -> Draft:
    element = rng.choice(ELEMENTS)
    initials = (element["name"][0], element["symbol"][0].lower())
    others = [(one["name"], int(one["name"][0] not in initials)) for one in ELEMENTS if one != element]
    prompt = rng.choice(
        (
            f"Which element has the symbol {element['symbol']}?",
            f"What element does the symbol {element['symbol']} stand for?",
            f"The symbol of which element is {element['symbol']}?",
        )
    )
    wrong = similar(element["name"], others, rng, count=4)
    return worded(prompt, element["name"], wrong, uses=f"symbol {element['symbol']}")


def _number(rng: random.Random, turn: int) -> Draft:
    element = rng.choice(ELEMENTS[:36])
    number = int(element["number"])
    prompt = rng.choice(
        (
            f"What is the atomic number of {element['name']}?",
            f"How many protons does an atom of {element['name']} have?",
            f"Which number does {element['name']} have in the periodic table?",
        )
    )
    return numeric(prompt, number, uses=f"number {element['symbol']}")


def _most_protons(rng: random.Random, turn: int) -> Draft:
    three = _alike(rng, [one["name"] for one in ELEMENTS[:46]])
    first, second, third = three
    prompt = rng.choice(
        (
            f"Which has the most protons in its nucleus: {first}, {second} or {third}?",
            f"Which element has the highest atomic number: {first}, {second} or {third}?",
            f"Of {first}, {second} and {third}, which stands last in the periodic table?",
        )
    )
    numbers = {one["name"]: int(one["number"]) for one in ELEMENTS}
    right = max(three, key=numbers.__getitem__)
    return worded(prompt, right, three, uses=f"most protons {'/'.join(sorted(three))}")


def _alike(rng: random.Random, names: Sequence[str]) -> list[str]:
    """Three of the names that are alike in length."""
    three = rng.sample(names, 3)
    while not alike_in_length(three):
        three = rng.sample(names, 3)
    return three


def _group(rng: random.Random, turn: int) -> Draft:
    element = rng.choice([one for one in ELEMENTS if one["group"] in map(str, MAIN_GROUPS) and one["symbol"] != "H"])
    group = int(element["group"])
    prompt = rng.choice(
        (
            f"In which group of the periodic table, from 1 to 18, is {element['name']}?",
            f"To which group of the periodic table, from 1 to 18, does {element['name']} belong?",
            f"Which group of the periodic table, from 1 to 18, holds {element['name']}?",
        )
    )
    wrong = sorted(MAIN_GROUPS, key=lambda other: abs(other - group))
    return numeric(prompt, group, wrong, uses=f"group {element['symbol']}")


def _planet_order(rng: random.Random, turn: int) -> Draft:
    place = rng.randrange(8)
    right = PLANETS[place]["planet"]
    others = [(PLANETS[other]["planet"], int(abs(other - place) > 2)) for other in range(8) if other != place]
    prompt = rng.choice(
        (
            f"Which planet is the {ORDINALS[place]} from the Sun?",
            f"Counting outward from the Sun, which planet comes {ORDINALS[place]}?",
            f"What is the {ORDINALS[place]} planet of the solar system, counted from the Sun?",
        )
    )
    return worded(prompt, right, similar(right, others, rng, count=4), uses=f"order {right}")


def _largest_planet(rng: random.Random, turn: int) -> Draft:
    three = _alike(rng, [one["planet"] for one in PLANETS])
    first, second, third = three
    key, prompt = (
        (
            "diameter_km",
            rng.choice(
                (
                    f"Which planet is the largest: {first}, {second} or {third}?",
                    f"Which has the greatest diameter: {first}, {second} or {third}?",
                )
            ),
        ),
        (
            "year_days",
            rng.choice(
                (
                    f"Which planet has the longest year: {first}, {second} or {third}?",
                    f"Which takes the longest to go around the Sun: {first}, {second} or {third}?",
                )
            ),
        ),
    )[turn % 2]
    values = {one["planet"]: float(one[key]) for one in PLANETS}
    right = max(three, key=values.__getitem__)
    return worded(prompt, right, three, uses=f"{key} {'/'.join(sorted(three))}")


def atoms(formula: str) -> Counter[str]:
    """Number of atoms of each element in a formula with at most one level of brackets.

    >>> atoms("Ca(OH)2")
    Counter({'O': 2, 'H': 2, 'Ca': 1})
    """
    flat = re.sub(r"\((\w+)\)(\d+)", lambda found: found[1] * int(found[2]), formula)
    counts: Counter[str] = Counter()
    for symbol, number in re.findall(r"([A-Z][a-z]?)(\d*)", flat):
        counts[symbol] += int(number or 1)
    return counts


@cache
def balanced(reaction: str) -> tuple[int, ...]:
    """Smallest integer coefficients that balance a reaction, in the order of its formulas."""
    left, right = (side.split(" + ") for side in reaction.split(" -> "))
    sides = [(atoms(formula), sign) for formulas, sign in ((left, 1), (right, -1)) for formula in formulas]
    symbols = sorted({symbol for counts, _ in sides for symbol in counts})
    return next(
        numbers
        for numbers in sorted(itertools.product(range(1, 14), repeat=len(sides)), key=sum)
        if all(
            sum(n * sign * counts[s] for n, (counts, sign) in zip(numbers, sides, strict=True)) == 0 for s in symbols
        )
    )


def _coefficient(rng: random.Random, turn: int) -> Draft:
    reaction = rng.choice(read_rows("facts/reactions"))["reaction"]
    formulas = re.split(r" \+ | -> ", reaction)
    numbers = balanced(reaction)
    place = rng.choice([place for place, number in enumerate(numbers) if number > 1])
    asked = formulas[place]
    prompt = rng.choice(
        (
            f"When {reaction} is balanced with the smallest whole numbers, what number stands before {asked}?",
            f"Balance {reaction} with the smallest whole numbers. What is the coefficient of {asked}?",
            f"In {reaction}, balanced with the smallest whole numbers, which coefficient does {asked} get?",
        )
    )
    return numeric(prompt, numbers[place], [*near(numbers[place], 1, 2, 3), *numbers], uses=f"balance {reaction}")


FORMULAS = ("H2SO4", "Ca(OH)2", "C6H12O6", "Mg(NO3)2", "CaCO3", "NaHCO3", "C2H5OH", "HNO3", "CH3COOH", "C3H8", "Na2CO3")


def _atom_count(rng: random.Random, turn: int) -> Draft:
    formula = rng.choice(FORMULAS)
    right = sum(atoms(formula).values())
    prompt = rng.choice(
        (
            f"How many atoms are there in the formula {formula}?",
            f"How many atoms does one formula unit of {formula} contain?",
            f"Counting every atom, how many atoms make up {formula}?",
        )
    )
    return numeric(prompt, right, near(right, 1, 2, 3), uses=f"atoms {formula}")


def _molar_mass(rng: random.Random, turn: int) -> Draft:
    formula = rng.choice(FORMULAS)
    counts = atoms(formula)
    right = sum(MASSES[symbol] * number for symbol, number in counts.items())
    given = ", ".join(f"{symbol} = {MASSES[symbol]}" for symbol in counts)
    prompt = rng.choice(
        (
            f"With {given}, what is the molar mass of {formula} in g/mol?",
            f"Taking {given} g/mol, how many grams does one mole of {formula} weigh?",
            f"What is the mass in grams of one mole of {formula}, if {given}?",
        )
    )
    return numeric(prompt, right, uses=f"mass {formula}")


NUCLEI = (
    *(("silver", 47, 107), ("tin", 50, 120), ("iodine", 53, 131), ("xenon", 54, 132), ("barium", 56, 138)),
    *(("tungsten", 74, 184), ("gold", 79, 197), ("mercury", 80, 202), ("lead", 82, 208), ("uranium", 92, 235)),
)
"""Elements that no other question asks the atomic number of, since a question about neutrons states it."""


def _neutrons(rng: random.Random, turn: int) -> Draft:
    name, number, mass = rng.choice(NUCLEI)
    right = mass - number
    prompt = rng.choice(
        (
            f"How many neutrons does an atom of {name}-{mass} with {number} protons have?",
            f"An atom of {name}-{mass} has {number} protons. How many neutrons does it have?",
            f"With {number} protons in its nucleus, how many neutrons does {name}-{mass} have?",
        )
    )
    return numeric(prompt, right, uses=f"neutrons {name}")


TOPICS: dict[str, Plan] = {
    "elements": (*((_symbol, 1, 8), (_named, 2, 6), (_number, 2, 6), (_group, 2, 6), (_most_protons, 3, 6)),),
    "astronomy": ((_planet_order, 1, 5), (_largest_planet, 1, 6)),
    "chemistry": ((_coefficient, 3, 7), (_atom_count, 1, 3), (_molar_mass, 2, 3), (_neutrons, 2, 3)),
}
