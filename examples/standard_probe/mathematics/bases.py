"""Math: numbers in binary, octal, hexadecimal and stranger bases."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Number, Plan, near, numeric


def _digits(n: Number, base: int) -> str:
    value, text = int(n), ""
    while value:
        value, rest = divmod(value, base)
        text = "0123456789ABCDEF"[rest] + text
    return text


def _to_decimal(rng: random.Random, turn: int) -> Draft:
    base, word = ((2, "binary"), (8, "octal"), (16, "hexadecimal"))[turn % 3]
    n = rng.randint(17, 60) if base == 2 else rng.randint(40, 250)
    text = _digits(n, base)
    prompt = rng.choice(
        (
            f"What is the {word} number {text} in decimal?",
            f"Write the {word} number {text} in the decimal system.",
            f"Which decimal number is {text} in {word}?",
        )
    )
    return numeric(prompt, n, near(n, base, 1, 2 if base > 2 else 4, 8 if base < 8 else 3), uses=f"{n} base {base}")


def _from_decimal(rng: random.Random, turn: int) -> Draft:
    base, word = ((2, "binary"), (16, "hexadecimal"), (8, "octal"))[turn % 3]
    n = rng.randint(18, 61) if base == 2 else rng.randint(40, 230)
    prompt = rng.choice(
        (f"What is {n} in {word}?", f"Write the decimal number {n} in {word}.", f"How is {n} written in {word}?")
    )
    mistakes = near(n, 1, 2, base, 4)
    return numeric(prompt, n, mistakes, uses=f"{n} base {base}", form=lambda value: _digits(value, base))


def _binary_sum(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(9, 29), rng.randint(5, 29)
    core = f"{a:b} + {b:b}"
    prompt = rng.choice(
        (
            f"What is {core} in binary?",
            f"Add the binary numbers: {core}.",
            f"Both numbers being binary, what is {core} in binary?",
        )
    )
    mistakes = near(a + b, 1, 2, 4)
    return numeric(prompt, a + b, mistakes, uses=f"{a}+{b}", form=lambda value: _digits(value, 2))


def _digit_count(rng: random.Random, turn: int) -> Draft:
    n = rng.choice((rng.randint(20, 120), rng.randint(130, 1000), rng.randint(1100, 5000)))
    prompt = rng.choice(
        (
            f"How many digits does {n} have when it is written in binary?",
            f"How many binary digits are needed to write {n}?",
            f"Written in base 2, how many digits has {n}?",
        )
    )
    return numeric(prompt, n.bit_length(), near(n.bit_length(), 1, 2, 3), uses=f"bits {n}")


def _odd_base(rng: random.Random, turn: int) -> Draft:
    base = rng.choice((3, 4, 5, 6, 7))
    n = rng.randint(base**2 + 1, base**3 - 2)
    prompt = rng.choice(
        (
            f"What is the number {_digits(n, base)}, written in base {base}, in decimal?",
            f"A number is written {_digits(n, base)} in base {base}. What is it in base ten?",
            f"Which decimal number is written {_digits(n, base)} in base {base}?",
        )
    )
    return numeric(prompt, n, near(n, base, 1, 2), uses=f"{n} base {base}")


TOPICS: dict[str, Plan] = {
    "number bases": (
        *((_to_decimal, 2, 8), (_from_decimal, 2, 6), (_binary_sum, 3, 5), (_digit_count, 3, 4), (_odd_base, 3, 3)),
    ),
}
