"""Math: two or three steps with larger numbers, for every topic; questions that a large model can lose."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, numeric
from standard_probe.mathematics.bases import digits


def _two_digit_product(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(23, 98), rng.randint(23, 98), rng.randint(101, 499)
    sign = rng.choice("+-")
    right = a * b + c if sign == "+" else a * b - c
    core = f"{a} × {b} {sign} {c}"
    return numeric(rng.choice((f"What is {core}?", f"Work out {core}.")), right, uses=core)


def _three_fractions(rng: random.Random, turn: int) -> Draft:
    a, b, c = (Fraction(rng.randint(1, bottom - 1), bottom) for bottom in rng.sample(range(3, 10), 3))
    right = a * b + c
    if 1 in (a.denominator, b.denominator, c.denominator, right.denominator):
        return _three_fractions(rng, turn)
    core = f"{a} × {b} + {c}"
    return numeric(rng.choice((f"What is {core}?", f"Work out {core}.")), right, uses=core, form=str)


def _before_two_changes(rng: random.Random, turn: int) -> Draft:
    up, down, start = rng.choice((10, 20, 25, 50, 60)), rng.choice((10, 20, 25, 40)), rng.randint(3, 40) * 20
    end = Fraction(start * (100 + up) * (100 - down), 10_000)
    if end.denominator != 1:
        return _before_two_changes(rng, turn)
    prompt = rng.choice(
        (
            f"A price rose by {up}% and then fell by {down}% to {end} dollars. What was it at first, in dollars?",
            f"After a rise of {up}% and then a cut of {down}%, a coat costs {end} dollars. "
            "What did it cost in dollars before both changes?",
        )
    )
    return numeric(prompt, start, uses=f"{start} +{up}% -{down}% back")


def _two_remainders(rng: random.Random, turn: int) -> Draft:
    a, b = rng.choice(((5, 7), (7, 9), (5, 8), (8, 11), (7, 10), (9, 11), (7, 12)))
    right = rng.randint(max(a, b) + 1, a * b - 1)
    if right % a == 0 or right % b == 0:
        return _two_remainders(rng, turn)
    prompt = rng.choice(
        (
            f"What is the smallest positive number that leaves the remainder {right % a} when divided by {a} and "
            f"the remainder {right % b} when divided by {b}?",
            f"Divided by {a}, a number leaves the remainder {right % a}; divided by {b}, it leaves {right % b}. "
            "What is the smallest positive number of this kind?",
        )
    )
    return numeric(prompt, right, uses=f"{right} mod {a},{b}")


def _sum_of_terms(rng: random.Random, turn: int) -> Draft:
    start, step, n = rng.randint(3, 15), rng.randint(3, 9), rng.randint(12, 30)
    right = n * (2 * start + (n - 1) * step) // 2
    prompt = rng.choice(
        (
            f"A sequence begins {start}, {start + step}, {start + 2 * step} and goes on with equal steps. "
            f"What is the sum of its first {n} numbers?",
            f"Add up the first {n} numbers of the equally spaced list {start}, {start + step}, {start + 2 * step}, ... "
            "What is the sum?",
        )
    )
    return numeric(prompt, right, uses=f"sum {start}+{step}n {n}")


def _between_bases(rng: random.Random, turn: int) -> Draft:
    source, target = rng.choice(((3, 7), (7, 3), (5, 8), (8, 5), (6, 9), (9, 4), (16, 7), (16, 9)))
    n = rng.randint(60, 240)
    text = digits(n, source)
    prompt = rng.choice(
        (
            f"A number is written {text} in base {source}. How is it written in base {target}?",
            f"Convert {text} from base {source} to base {target}.",
        )
    )
    return numeric(prompt, n, uses=f"{n} {source}>{target}", form=lambda value: digits(value, target), like=f"{target}")


DIAGONALS = ((2, 3, 6), (1, 4, 8), (4, 4, 7), (2, 6, 9), (6, 6, 7), (3, 4, 12), (2, 5, 14), (2, 10, 11), (8, 9, 12))


def _solid(rng: random.Random, turn: int) -> Draft:
    if turn % 2:
        scale, sides = rng.randint(1, 4), rng.choice(DIAGONALS)
        a, b, c = rng.sample([scale * side for side in sides], 3)
        prompt = f"A box measures {a} cm by {b} cm by {c} cm. How many cm long is the diagonal through its inside?"
        return numeric(prompt, math.isqrt(a * a + b * b + c * c), uses=f"diagonal {sorted((a, b, c))}")
    a, b, h = rng.randint(5, 24), rng.randint(5, 24), 2 * rng.randint(3, 12)
    if a == b:
        return _solid(rng, turn)
    prompt = rng.choice(
        (
            f"The parallel sides of a trapezoid are {a} cm and {b} cm, its height is {h} cm. "
            "What is its area in square centimeters?",
            f"What is the area, in square centimeters, of a trapezoid of height {h} cm whose parallel sides are "
            f"{a} cm and {b} cm?",
        )
    )
    return numeric(prompt, (a + b) * h // 2, uses=f"trapezoid {min(a, b)},{max(a, b)},{h}")


def _flow(rng: random.Random, turn: int) -> Draft:
    rate, hours = rng.randint(3, 20) * 5, rng.randint(3, 12)
    if turn % 2:
        prompt = (
            f"A pump moves {rate} liters per minute and runs for {hours} hours. How many cubic meters of water does it "
            "move?"
        )
        return numeric(prompt, Fraction(rate * 60 * hours, 1000), uses=f"pump {rate},{hours}")
    speed, minutes = 6 * rng.randint(5, 20), rng.randint(4, 28)
    prompt = f"A train runs at {speed} kilometers per hour. How many meters does it cover in {minutes} minutes?"
    return numeric(prompt, speed * 1000 // 60 * minutes, uses=f"train {speed},{minutes}")


def _one_of_each(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    first, second = rng.sample(("red", "blue", "green", "white", "black"), 2)
    right = Fraction(2 * a * b, (a + b) * (a + b - 1))
    if right == 1:
        return _one_of_each(rng, turn)
    prompt = rng.choice(
        (
            f"From a bag with {a} {first} and {b} {second} marbles two are drawn together. "
            "What is the probability that they differ in color?",
            f"A box holds {a} {first} and {b} {second} balls. Two are taken without putting any back. "
            "How likely is it that one is of each color?",
        )
    )
    return numeric(prompt, right, uses=f"each of {min(a, b)},{max(a, b)}", form=str)


def _joint_mean(rng: random.Random, turn: int) -> Draft:
    m, n = rng.sample(range(8, 30), 2)
    one, two = rng.randint(50, 90), rng.randint(50, 90)
    right = Fraction(m * one + n * two, m + n)
    if one == two or right.denominator != 1 or 2 * right == one + two:
        return _joint_mean(rng, turn)
    prompt = rng.choice(
        (
            f"A class of {m} has a mean score of {one}, and a class of {n} one of {two}. "
            "What is the mean score of all students together?",
            f"The mean weight of {m} boxes is {one} kg, and that of {n} others is {two} kg. "
            "What is the mean weight of them all in kg?",
        )
    )
    return numeric(prompt, right, uses=f"{m}*{one},{n}*{two}")


def _system(rng: random.Random, turn: int) -> Draft:
    x, y = rng.sample(range(2, 16), 2)
    a, b, c, d = (rng.randint(2, 7) for _ in range(4))
    if a * d == b * c:
        return _system(rng, turn)
    core = f"{a}x + {b}y = {a * x + b * y} and {c}x + {d}y = {c * x + d * y}"
    wanted, right = ("x", x) if turn % 2 else ("y", y)
    return numeric(rng.choice((f"If {core}, what is {wanted}?", f"Given {core}, find {wanted}.")), right, uses=core)


def _mixture(rng: random.Random, turn: int) -> Draft:
    weak, strong = rng.choice((5, 10, 15, 20)), rng.choice((40, 50, 60, 70, 80))
    m, n = rng.randint(2, 12), rng.randint(2, 12)
    right = Fraction(weak * m + strong * n, m + n)
    if right.denominator != 1 or m == n:
        return _mixture(rng, turn)
    prompt = rng.choice(
        (
            f"{m} liters of juice with {weak}% sugar are mixed with {n} liters of juice with {strong}% sugar. "
            "What percentage of the mixture is sugar?",
            f"A chemist pours {m} liters of {weak}% acid and {n} liters of {strong}% acid together. "
            "What is the percentage of acid in the mixture?",
        )
    )
    return numeric(prompt, right, uses=f"{m}*{weak}%+{n}*{strong}%", form=lambda value: f"{value}%")


TOPICS: dict[str, Plan] = {
    "arithmetic": ((_two_digit_product, 4, 3),),
    "fractions": ((_three_fractions, 4, 3),),
    "percentages": ((_before_two_changes, 4, 3),),
    "divisibility": ((_two_remainders, 4, 3),),
    "sequences": ((_sum_of_terms, 4, 3),),
    "number bases": ((_between_bases, 4, 3),),
    "geometry": ((_solid, 4, 3),),
    "units": ((_flow, 4, 3),),
    "probability": ((_one_of_each, 4, 3),),
    "statistics": ((_joint_mean, 4, 3),),
    "algebra": ((_system, 4, 3),),
    "word problems": ((_mixture, 4, 3),),
}
