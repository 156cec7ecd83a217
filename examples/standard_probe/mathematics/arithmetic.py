"""Math: sums, products, remainders and fractions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

from standard_probe.drafts import Draft, Number, Plan, near, numeric, worded


def _sum(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(126, 879), rng.randint(126, 879)
    prompt = rng.choice((f"What is {a} + {b}?", f"What do {a} + {b} make?", f"Work out the sum {a} + {b}."))
    return numeric(prompt, a + b, near(a + b, 10, 100, 1), uses=f"{a}+{b}")


def _difference(rng: random.Random, turn: int) -> Draft:
    b = rng.randint(117, 460)
    a = b + rng.randint(123, 480)
    prompt = rng.choice((f"What is {a} - {b}?", f"Work out {a} - {b}.", f"How much is {a} - {b}?"))
    return numeric(prompt, a - b, near(a - b, 10, 100, 1), uses=f"{a}-{b}")


def _product(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(13, 48), rng.randint(6, 19)
    prompt = rng.choice((f"What is {a} × {b}?", f"Work out the product {a} × {b}.", f"How much is {a} × {b}?"))
    mistakes = [*near(a * b, 10, b, a), *near(a * b, 100)]
    return numeric(prompt, a * b, mistakes, uses=f"{a}*{b}")


def _larger_product(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(12, 29), rng.randint(6, 9)
    c, d = a + rng.randint(2, 6), b - 1
    while a * b == c * d or abs(a * b - c * d) > 12:
        c, d = a + rng.randint(2, 6), b - 1
    first, second = rng.sample((f"{a} × {b}", f"{c} × {d}"), 2)
    right = f"{a} × {b}" if a * b > c * d else f"{c} × {d}"
    form = rng.choice(
        (
            f"Which is larger, {first} or {second}?",
            f"Which product is greater: {first} or {second}?",
            f"Of {first} and {second}, which gives the larger number?",
        )
    )
    return worded(form, right, (first, second), uses=f"larger {a}*{b},{c}*{d}")


def _precedence(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(12, 40), rng.randint(3, 9), rng.randint(4, 9)
    sign = rng.choice("+-") if a > b * c else "+"
    right = a + b * c if sign == "+" else a - b * c
    left_to_right = (a + b) * c if sign == "+" else (a - b) * c
    core = f"{a} {sign} {b} × {c}"
    prompt = rng.choice((f"What is {core}?", f"Work out {core}.", f"What is the value of {core}?"))
    return numeric(prompt, right, [*near(right, b, c), left_to_right, *near(right, 10, 2)], uses=core)


def _remainder(rng: random.Random, turn: int) -> Draft:
    b = rng.randint(7, 19)
    a, r = rng.randint(9, 60) * b, rng.randint(2, b - 2)
    n = a + r
    prompt = rng.choice(
        (
            f"What is the remainder when {n} is divided by {b}?",
            f"Divide {n} by {b}. What is the remainder?",
            f"What is left over when {n} is divided into groups of {b}?",
        )
    )
    mistakes = [m for m in (b - r, *near(r, 1, 2, 3)) if 0 < m < b]
    return numeric(prompt, r, mistakes, uses=f"{n} mod {b}")


def _two_products(rng: random.Random, turn: int) -> Draft:
    a, b, c, d = (rng.randint(6, 19) for _ in range(4))
    core, right = f"{a} × {b} + {c} × {d}", a * b + c * d
    prompt = rng.choice((f"What is {core}?", f"Work out {core}.", f"What is the value of {core}?"))
    return numeric(prompt, right, near(right, 10, a, d, 1), uses=core)


def _rounding(rng: random.Random, turn: int) -> Draft:
    unit, word = rng.choice(((10, "ten"), (100, "hundred"), (1000, "thousand")))
    n = rng.randint(2, 9) * 1000 + rng.randint(101, 949)
    while n % unit in (0, unit // 2):
        n += 1
    right = (n + unit // 2) // unit * unit
    prompt = rng.choice(
        (
            f"What is {n} rounded to the nearest {word}?",
            f"Round {n} to the nearest {word}.",
            f"To the nearest {word}, what is {n}?",
        )
    )
    return numeric(prompt, right, near(right, unit, 2 * unit, 3 * unit), uses=f"round {n} {unit}")


def _fraction(rng: random.Random) -> Fraction:
    bottom = rng.randint(3, 12)
    return Fraction(rng.randint(1, bottom - 1), bottom)


def _fraction_sum(rng: random.Random, turn: int) -> Draft:
    a, b = _fraction(rng), _fraction(rng)
    while a.denominator == b.denominator or (a + b).denominator == 1:
        a, b = _fraction(rng), _fraction(rng)
    core, right = f"{a} + {b}", a + b
    tops = Fraction(a.numerator + b.numerator, a.denominator + b.denominator)
    half = Fraction(a.numerator + b.numerator, a.denominator * b.denominator)
    mistakes = [tops, half, *near(right, Fraction(1, right.denominator), Fraction(2, right.denominator))]
    prompt = rng.choice((f"What is {core}?", f"Work out {core} as one fraction.", f"How much is {core}?"))
    mistakes += near(right, Fraction(1, 2 * right.denominator))
    return numeric(prompt, right, _proper(mistakes), uses=core, form=str)


def _fraction_product(rng: random.Random, turn: int) -> Draft:
    a, b = _fraction(rng), _fraction(rng)
    sign = rng.choice("×÷")
    right, other = (a * b, a / b) if sign == "×" else (a / b, a * b)
    if right.denominator == 1:
        return _fraction_product(rng, turn)
    mistakes = [other, 1 / other, 1 / right, a + b, right * 2, right / 2]
    core = f"{a} {sign} {b}"
    prompt = rng.choice((f"What is {core}?", f"Work out {core} in lowest terms.", f"How much is {core}?"))
    return numeric(prompt, right, _proper(mistakes), uses=core, form=str)


def _proper(values: Sequence[Number]) -> list[Number]:
    """The values that are not integers; an integer would look unlike the right fraction."""
    return [value for value in values if Fraction(value).denominator > 1]


def _lowest_terms(rng: random.Random, turn: int) -> Draft:
    right = _fraction(rng)
    by = rng.randint(4, 12)
    core = f"{right.numerator * by}/{right.denominator * by}"
    step = Fraction(1, right.denominator)
    mistakes = [*near(right, step, 2 * step, step / 2), Fraction(right.numerator, right.denominator + 1)]
    prompt = rng.choice(
        (f"What is {core} in lowest terms?", f"Simplify the fraction {core}.", f"Reduce {core} as far as possible.")
    )
    wrong = [value for value in _proper(mistakes) if value < 1]
    return numeric(prompt, right, wrong, uses=core, form=str)


def _larger_fraction(rng: random.Random, turn: int) -> Draft:
    a, b = _fraction(rng), _fraction(rng)
    while a == b or abs(a - b) > Fraction(1, 8):
        a, b = _fraction(rng), _fraction(rng)
    prompt = rng.choice(
        (
            f"Which is larger, {a} or {b}?",
            f"Which fraction is greater: {a} or {b}?",
            f"Of the fractions {a} and {b}, which is the larger one?",
        )
    )
    return worded(prompt, str(max(a, b)), (str(a), str(b)), uses=f"larger {min(a, b)},{max(a, b)}")


def _fraction_of(rng: random.Random, turn: int) -> Draft:
    part = _fraction(rng)
    whole = part.denominator * rng.randint(4, 15)
    right = part * whole
    mistakes = [whole - right, Fraction(whole, part.denominator), *near(right, part.denominator, part.numerator, 2)]
    prompt = rng.choice((f"What is {part} of {whole}?", f"How much is {part} of {whole}?", f"Find {part} of {whole}."))
    return numeric(prompt, right, mistakes, uses=f"{part} of {whole}")


TOPICS: dict[str, Plan] = {
    "arithmetic": (
        *((_sum, 1, 5), (_difference, 1, 4), (_rounding, 1, 4), (_product, 2, 5), (_precedence, 2, 3)),
        *((_larger_product, 2, 4), (_remainder, 3, 3), (_two_products, 3, 3)),
    ),
    "fractions": (
        *((_larger_fraction, 1, 5), (_fraction_of, 1, 4), (_lowest_terms, 2, 8)),
        *((_fraction_sum, 3, 6), (_fraction_product, 3, 5)),
    ),
}
