"""Math: numbers in binary, octal, hexadecimal and stranger bases."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Number, Plan, numeric


def digits(n: Number, base: int) -> str:
    """The positive integer in the digits of a base."""
    value, text = int(n), ""
    while value:
        value, rest = divmod(value, base)
        text = "0123456789ABCDEF"[rest] + text
    return text


def _small_binary(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(4, 15)
    if turn % 2:
        prompt = rng.choice((f"What is {n} in binary?", f"Write the number {n} in binary."))
        return numeric(prompt, n, uses=f"{n} base 2", form=lambda value: digits(value, 2))
    prompt = rng.choice((f"Which number is {n:b} in binary?", f"What is the binary number {n:b} in decimal?"))
    return numeric(prompt, n, uses=f"{n} base 2")


def _to_decimal(rng: random.Random, turn: int) -> Draft:
    base, word = ((2, "binary"), (8, "octal"), (16, "hexadecimal"))[turn % 3]
    n = rng.randint(17, 60) if base == 2 else rng.randint(40, 250)
    text = digits(n, base)
    prompt = rng.choice(
        (
            f"What is the {word} number {text} in decimal?",
            f"Write the {word} number {text} in the decimal system.",
            f"Which decimal number is {text} in {word}?",
        )
    )
    return numeric(prompt, n, uses=f"{n} base {base}", like=word)


def _from_decimal(rng: random.Random, turn: int) -> Draft:
    base, word = ((2, "binary"), (16, "hexadecimal"), (8, "octal"))[turn % 3]
    n = rng.randint(18, 61) if base == 2 else rng.randint(40, 230)
    prompt = rng.choice(
        (f"What is {n} in {word}?", f"Write the decimal number {n} in {word}.", f"How is {n} written in {word}?")
    )
    return numeric(prompt, n, uses=f"{n} base {base}", form=lambda value: digits(value, base), like=word)


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
    return numeric(prompt, a + b, uses=f"{a}+{b}", form=lambda value: digits(value, 2))


def _digit_count(rng: random.Random, turn: int) -> Draft:
    n = rng.choice((rng.randint(20, 120), rng.randint(130, 1000), rng.randint(1100, 5000)))
    prompt = rng.choice(
        (
            f"How many digits does {n} have when it is written in binary?",
            f"How many binary digits are needed to write {n}?",
            f"Written in base 2, how many digits has {n}?",
        )
    )
    return numeric(prompt, n.bit_length(), uses=f"bits {n}")


def _odd_base(rng: random.Random, turn: int) -> Draft:
    base = rng.choice((3, 4, 5, 6, 7))
    n = rng.randint(base**2 + 1, base**3 - 2)
    prompt = rng.choice(
        (
            f"What is the number {digits(n, base)}, written in base {base}, in decimal?",
            f"A number is written {digits(n, base)} in base {base}. What is it in base ten?",
            f"Which decimal number is written {digits(n, base)} in base {base}?",
        )
    )
    return numeric(prompt, n, uses=f"{n} base {base}")


TOPICS: dict[str, Plan] = {
    "number bases": (
        *((_small_binary, 1, 5), (_to_decimal, 2, 3), (_from_decimal, 2, 2)),
        *((_binary_sum, 3, 2), (_digit_count, 3, 1), (_odd_base, 3, 1)),
    ),
}
