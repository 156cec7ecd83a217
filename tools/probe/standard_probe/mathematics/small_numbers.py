"""Math: one step with small numbers, for every topic; questions that a small model can answer, and lose."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, numeric, worded


def _one_digit(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    if turn % 2:
        a, b = max(a, b) + 2, min(a, b)
        return numeric(f"What is {a} - {b}?", a - b, uses=f"{a}-{b}")
    return numeric(f"What is {a} + {b}?", a + b, uses=f"{a}+{b}")


def _half_or_double(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(3, 12)
    if turn % 2:
        return numeric(f"What is half of {2 * n}?", n, uses=f"half {2 * n}")
    return numeric(f"What is twice {n}?", 2 * n, uses=f"twice {n}")


def _easy_percent(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(2, 15)
    percent, whole = (50, 2 * n) if turn % 2 else (10, 10 * n)
    return numeric(f"What is {percent}% of {whole}?", n, uses=f"{percent}% of {whole}")


def _division(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 5)
    return numeric(f"What is {a * b} divided by {b}?", a, uses=f"{a * b}/{b}")


def _next_number(rng: random.Random, turn: int) -> Draft:
    step = (1, 2, 5, 10)[turn % 4]
    start = step * rng.randint(1, 9)
    shown = ", ".join(str(start + i * step) for i in range(4))
    return numeric(f"Which number comes next: {shown}?", start + 4 * step, uses=shown)


def _tens_and_ones(rng: random.Random, turn: int) -> Draft:
    tens, ones = rng.sample(range(2, 10), 2)
    prompt = f"What number is made of {tens} tens and {ones} ones?"
    return numeric(prompt, 10 * tens + ones, uses=f"{tens} tens {ones}")


SIDES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "octagon": 8, "rectangle": 4, "heptagon": 7}


def _sides(rng: random.Random, turn: int) -> Draft:
    shape, count = rng.choice(list(SIDES.items()))
    return numeric(
        f"How many sides does {'an' if shape == 'octagon' else 'a'} {shape} have?", count, uses=f"sides {shape}"
    )


WHOLES = {"weeks": ("days", 7), "feet": ("inches", 12), "dollars": ("cents", 100), "days": ("hours", 24)}


def _wholes(rng: random.Random, turn: int) -> Draft:
    large = list(WHOLES)[turn % 4]
    small, factor = WHOLES[large]
    n = rng.randint(2, 9)
    return numeric(f"How many {small} are in {n} {large}?", n * factor, uses=f"{n} {large}")


COLORS = ("red", "blue", "green", "white", "black", "brown", "gray", "pink")


def _likeliest(rng: random.Random, turn: int) -> Draft:
    colors, counts = rng.sample(COLORS, 4), rng.sample(range(1, 10), 4)
    listed = [f"{count} {color}" for count, color in zip(counts, colors, strict=True)]
    right = colors[counts.index(max(counts))]
    said = f"A bag holds {', '.join(listed[:3])} and {listed[3]} balls."
    prompt = f"{said} One is drawn without looking. Which color is the likeliest?"
    return worded(prompt, right, rng.sample([c for c in colors if c != right], 3), uses=said)


def _extreme(rng: random.Random, turn: int) -> Draft:
    values = rng.sample(range(1, 20), 4)
    word, right = ("largest", max(values)) if turn % 2 else ("smallest", min(values))
    listed = f"{', '.join(map(str, values[:3]))} and {values[3]}"
    wrong = rng.sample([str(value) for value in values if value != right], 3)
    return worded(f"Which of the numbers {listed} is the {word}?", str(right), wrong, uses=f"{word} {sorted(values)}")


def _plus(rng: random.Random, turn: int) -> Draft:
    x, a = rng.randint(2, 12), rng.randint(1, 9)
    core = f"x - {a} = {x - a}" if turn % 2 and x > a else f"x + {a} = {x + a}"
    return numeric(f"If {core}, what is x?", x, uses=core)


def _gets_more(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    name = rng.choice(("Ana", "Ben", "Tom", "Eva", "Mia", "Leo"))
    things = rng.choice(("apples", "coins", "books", "eggs"))
    if turn % 2:
        prompt = f"{name} has {a + b} {things} and gives {b} away. How many {things} does {name} have now?"
        return numeric(prompt, a, uses=f"{a + b} {things} -{b}")
    prompt = f"{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?"
    return numeric(prompt, a + b, uses=f"{a} {things} +{b}")


TOPICS: dict[str, Plan] = {
    "arithmetic": ((_one_digit, 0, 6),),
    "fractions": ((_half_or_double, 0, 4),),
    "percentages": ((_easy_percent, 0, 4),),
    "divisibility": ((_division, 0, 4),),
    "sequences": ((_next_number, 0, 4),),
    "number bases": ((_tens_and_ones, 0, 4),),
    "geometry": ((_sides, 0, 4),),
    "units": ((_wholes, 0, 4),),
    "probability": ((_likeliest, 0, 4),),
    "statistics": ((_extreme, 0, 4),),
    "algebra": ((_plus, 0, 4),),
    "word problems": ((_gets_more, 0, 4),),
}
