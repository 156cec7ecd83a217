"""Math: sums, products, remainders and fractions."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, numeric, worded


def _sum(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(16, 89), rng.randint(16, 89)
    prompt = rng.choice((f"What is {a} + {b}?", f"What do {a} + {b} make?", f"Work out the sum {a} + {b}."))
    return numeric(prompt, a + b, uses=f"{a}+{b}")


def _difference(rng: random.Random, turn: int) -> Draft:
    b = rng.randint(14, 46)
    a = b + rng.randint(13, 52)
    prompt = rng.choice((f"What is {a} - {b}?", f"Work out {a} - {b}.", f"How much is {a} - {b}?"))
    return numeric(prompt, a - b, uses=f"{a}-{b}")


def _product(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(13, 89), rng.randint(3, 9)
    prompt = rng.choice((f"What is {a} × {b}?", f"Work out the product {a} × {b}.", f"How much is {a} × {b}?"))
    return numeric(prompt, a * b, uses=f"{a}*{b}")


def _precedence(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(12, 40), rng.randint(3, 9), rng.randint(4, 9)
    sign = rng.choice("+-") if a > b * c else "+"
    right = a + b * c if sign == "+" else a - b * c
    (a + b) * c if sign == "+" else (a - b) * c
    core = f"{a} {sign} {b} × {c}"
    prompt = rng.choice((f"What is {core}?", f"Work out {core}.", f"What is the value of {core}?"))
    return numeric(prompt, right, uses=core)


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
    return numeric(prompt, r, uses=f"{n} mod {b}")


def _two_products(rng: random.Random, turn: int) -> Draft:
    a, b, c, d = (rng.randint(6, 19) for _ in range(4))
    core, right = f"{a} × {b} + {c} × {d}", a * b + c * d
    prompt = rng.choice((f"What is {core}?", f"Work out {core}.", f"What is the value of {core}?"))
    return numeric(prompt, right, uses=core)


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
    return numeric(prompt, right, uses=f"round {n} {unit}", like=word)


def _fraction(rng: random.Random) -> Fraction:
    bottom = rng.randint(3, 12)
    return Fraction(rng.randint(1, bottom - 1), bottom)


def _fraction_sum(rng: random.Random, turn: int) -> Draft:
    a, b = _fraction(rng), _fraction(rng)
    while a.denominator == b.denominator or (a + b).denominator == 1:
        a, b = _fraction(rng), _fraction(rng)
    core, right = f"{a} + {b}", a + b
    prompt = rng.choice((f"What is {core}?", f"Work out {core} as one fraction.", f"How much is {core}?"))
    return numeric(prompt, right, uses=core, form=str)


def _fraction_product(rng: random.Random, turn: int) -> Draft:
    a, b = _fraction(rng), _fraction(rng)
    sign = rng.choice("×÷")
    right = a * b if sign == "×" else a / b
    if right.denominator == 1:
        return _fraction_product(rng, turn)
    core = f"{a} {sign} {b}"
    prompt = rng.choice((f"What is {core}?", f"Work out {core} in lowest terms.", f"How much is {core}?"))
    return numeric(prompt, right, uses=core, form=str)


def _lowest_terms(rng: random.Random, turn: int) -> Draft:
    right = _fraction(rng)
    by = rng.randint(4, 12)
    core = f"{right.numerator * by}/{right.denominator * by}"
    prompt = rng.choice(
        (f"What is {core} in lowest terms?", f"Simplify the fraction {core}.", f"Reduce {core} as far as possible.")
    )
    return numeric(prompt, right, uses=core, form=str)


def _extreme_fraction(rng: random.Random, turn: int) -> Draft:
    parts: list[Fraction] = []
    while len(parts) < 4:
        part = _fraction(rng)
        if all(part != other and part.denominator != other.denominator for other in parts):
            parts.append(part)
    word, pick = ("largest", max) if turn % 2 else ("smallest", min)
    right = pick(parts)
    shown = f"{', '.join(map(str, parts[:3]))} and {parts[3]}"
    prompt = rng.choice((f"Which of the fractions {shown} is the {word}?", f"What is the {word} fraction of {shown}?"))
    return worded(prompt, str(right), [str(part) for part in parts if part != right], uses=f"{word} of {sorted(parts)}")


def _fraction_of(rng: random.Random, turn: int) -> Draft:
    part = _fraction(rng)
    whole = part.denominator * rng.randint(4, 15)
    right = part * whole
    prompt = rng.choice((f"What is {part} of {whole}?", f"How much is {part} of {whole}?", f"Find {part} of {whole}."))
    return numeric(prompt, right, uses=f"{part} of {whole}")


TOPICS: dict[str, Plan] = {
    "arithmetic": (
        *((_sum, 1, 2), (_difference, 1, 2), (_rounding, 1, 1), (_product, 2, 3), (_precedence, 2, 2)),
        *((_remainder, 3, 2), (_two_products, 3, 2)),
    ),
    "fractions": (
        *((_fraction_of, 1, 5), (_lowest_terms, 2, 3), (_extreme_fraction, 2, 2)),
        *((_fraction_sum, 3, 2), (_fraction_product, 3, 2)),
    ),
}
