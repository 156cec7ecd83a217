"""Math: equations with one and two unknowns, values of expressions, lines and powers."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, numeric, yes_or_no


def _linear(rng: random.Random, turn: int) -> Draft:
    a, x = rng.randint(3, 12), rng.randint(3, 19)
    b = rng.randint(2, 30)
    sign = rng.choice("+-")
    total = a * x + b if sign == "+" else a * x - b
    core = f"{a}x {sign} {b} = {total}"
    prompt = rng.choice((f"If {core}, what is x?", f"Solve {core} for x.", f"Which x satisfies {core}?"))
    return numeric(prompt, x, uses=core)


def _both_sides(rng: random.Random, turn: int) -> Draft:
    c, x = rng.randint(2, 6), rng.randint(3, 15)
    a, b = c + rng.randint(2, 6), rng.randint(2, 25)
    d = (a - c) * x + b
    core = f"{a}x + {b} = {c}x + {d}"
    prompt = rng.choice((f"If {core}, what is x?", f"Solve {core} for x.", f"Which x satisfies {core}?"))
    return numeric(prompt, x, uses=core)


def _two_unknowns(rng: random.Random, turn: int) -> Draft:
    x, y = rng.sample(range(4, 30), 2)
    x, y = max(x, y), min(x, y)
    wanted, right = ("x", x) if turn % 2 else ("y", y)
    core = f"x + y = {x + y} and x - y = {x - y}"
    prompt = rng.choice(
        (f"If {core}, what is {wanted}?", f"Given {core}, find {wanted}.", f"Let {core}. What is {wanted}?")
    )
    return numeric(prompt, right, uses=core)


def _value(rng: random.Random, turn: int) -> Draft:
    x, a, b = rng.randint(3, 12), rng.randint(2, 6), rng.randint(2, 9)
    if turn % 2:
        core, right = f"x² + {a}x - {b}", x * x + a * x - b
    else:
        core, right = f"{a}x² - {b}", a * x * x - b
    prompt = rng.choice(
        (f"What is {core} for x = {x}?", f"If x = {x}, what is {core}?", f"Work out {core} when x = {x}.")
    )
    return numeric(prompt, right, uses=f"{core} {x}")


def _quadratic(rng: random.Random, turn: int) -> Draft:
    p, q = rng.randint(1, 9), rng.randint(2, 12)
    while p == q:
        q = rng.randint(2, 12)
    if turn % 2:
        core = f"x² - {p + q}x + {p * q} = 0"
        prompt = rng.choice((f"What is the larger solution of {core}?", f"Which is the larger root of {core}?"))
        right = max(p, q)
        return numeric(prompt, right, uses=core)
    b = q - p
    middle = f"+ {b}x" if b > 0 else f"- {-b}x"
    core = f"x² {middle} - {p * q} = 0"
    prompt = rng.choice((f"What is the positive solution of {core}?", f"Which positive number solves {core}?"))
    return numeric(prompt, p, uses=core)


def _slope(rng: random.Random, turn: int) -> Draft:
    x1, y1, run = rng.randint(0, 5), rng.randint(0, 9), rng.randint(2, 6)
    slope = rng.choice((-5, -4, -3, -2, 2, 3, 4, 5))
    points = f"({x1}, {y1}) and ({x1 + run}, {y1 + slope * run})"
    prompt = rng.choice(
        (
            f"What is the slope of the line through {points}?",
            f"A line passes through {points}. What is its slope?",
            f"Find the slope of the line that joins {points}.",
        )
    )
    return numeric(prompt, slope, uses=points, signed=True)


def _powers(rng: random.Random, turn: int) -> Draft:
    base, top = rng.choice(((2, 5), (2, 6), (2, 7), (2, 8), (2, 9), (2, 10), (3, 3), (3, 4), (3, 5), (4, 3), (5, 3)))
    right = base**top
    prompt = rng.choice(
        (f"What is {base} to the power of {top}?", f"Work out {base}^{top}.", f"What is the value of {base}^{top}?")
    )
    return numeric(prompt, right, uses=f"{base}^{top}")


def _root(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(11, 35)
    prompt = rng.choice(
        (
            f"What is the square root of {n * n}?",
            f"Which positive number has the square {n * n}?",
            f"Which positive number times itself makes {n * n}?",
        )
    )
    return numeric(prompt, n, uses=f"root {n}")


def _inequality(rng: random.Random, turn: int) -> Draft:
    a, b, total = rng.randint(3, 9), rng.randint(2, 20), rng.randint(40, 120)
    right = (total - b) // a + 1
    core = f"{a}x + {b} > {total}"
    prompt = rng.choice(
        (
            f"What is the smallest whole number x with {core}?",
            f"Which is the smallest integer x for which {core}?",
            f"For {core} to hold, what is the smallest whole number that x can be?",
        )
    )
    return numeric(prompt, right, uses=core)


def _coefficient(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(2, 9), rng.randint(2, 5), rng.randint(2, 9)
    right = a * b + c
    core = f"(x + {a})({b}x + {c})"
    prompt = rng.choice(
        (
            f"When {core} is expanded, what is the coefficient of x?",
            f"Multiply out {core}. What is the coefficient of the term in x?",
            f"What is the coefficient of x, to the first power, in the product {core}?",
        )
    )
    return numeric(prompt, right, uses=core)


def _solves(rng: random.Random, turn: int) -> Draft:
    a, x, b = rng.randint(3, 9), rng.randint(3, 12), rng.randint(2, 20)
    total = a * x + b + (rng.choice((-1, 1)) * rng.randint(1, 3) if turn % 2 else 0)
    core = f"{a}x + {b} = {total}"
    prompt = rng.choice(
        (f"Does x = {x} solve {core}?", f"Is x = {x} a solution of {core}?", f"Is {core} true for x = {x}?")
    )
    return yes_or_no(prompt, a * x + b == total, uses=core)


TOPICS: dict[str, Plan] = {
    "algebra": (
        *((_linear, 1, 2), (_powers, 1, 1), (_root, 1, 2), (_both_sides, 2, 1), (_two_unknowns, 2, 1), (_value, 2, 1)),
        *((_solves, 2, 2), (_quadratic, 3, 1), (_slope, 3, 1), (_inequality, 3, 1), (_coefficient, 3, 1)),
    ),
}
