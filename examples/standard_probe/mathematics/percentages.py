"""Math: percentages of amounts, of prices that change, and the whole behind a part."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, near, numeric, yes_or_no


def _percent_of(rng: random.Random, turn: int) -> Draft:
    percent, whole = rng.choice((5, 15, 20, 25, 30, 35, 40, 60, 70, 75)), rng.randint(3, 24) * 20
    right = Fraction(percent * whole, 100)
    prompt = rng.choice(
        (f"What is {percent}% of {whole}?", f"How much is {percent}% of {whole}?", f"Work out {percent}% of {whole}.")
    )
    step = Fraction(whole, 20)
    return numeric(prompt, right, near(right, step, 2 * step, 3 * step), uses=f"{percent}% of {whole}")


def _changed_price(rng: random.Random, turn: int) -> Draft:
    price, percent = rng.randint(4, 18) * 20, rng.choice((5, 10, 15, 20, 25, 30, 40))
    change, rises = price * percent // 100, rng.random() < 0.5
    right = price + change if rises else price - change
    thing, verb = rng.choice(("coat", "lamp", "bicycle", "chair", "camera")), "raised" if rises else "reduced"
    prompt = rng.choice(
        (
            f"A {thing} costs {price} dollars. Its price is {verb} by {percent}%. What is the new price in dollars?",
            f"The price of a {thing}, {price} dollars, is {verb} by {percent}%. How many dollars does it cost now?",
            f"A {thing} sells for {price} dollars; then the price is {verb} by {percent}%. What is it, in dollars?",
        )
    )
    mistakes = [price - (right - price), right + change, right - change, *near(right, percent, 10, 5)]
    return numeric(prompt, right, mistakes, uses=f"{price} {verb} {percent}%")


def _which_percent(rng: random.Random, turn: int) -> Draft:
    whole, percent = rng.randint(2, 12) * 20, rng.choice((5, 15, 20, 30, 35, 40, 45, 55, 60, 65, 80, 85))
    part = whole * percent // 100
    prompt = rng.choice(
        (
            f"What percentage of {whole} is {part}?",
            f"Out of {whole}, what percentage is {part}?",
            f"Of {whole} guests, {part} eat fish. What percentage is that?",
        )
    )
    mistakes = [m for m in (100 - percent, *near(percent, 5, 10, 15, 20)) if m < 100]
    return numeric(prompt, percent, mistakes, uses=f"{part} as percent of {whole}", form=lambda n: f"{n}%")


def _whole_from_percent(rng: random.Random, turn: int) -> Draft:
    percent, whole = rng.choice((5, 15, 20, 30, 40, 60, 80)), rng.randint(3, 20) * 20
    part = whole * percent // 100
    prompt = rng.choice(
        (
            f"If {percent}% of a number is {part}, what is the number?",
            f"{percent}% of what number is {part}?",
            f"Taking {percent}% of a number gives {part}. What is the number?",
        )
    )
    return numeric(prompt, whole, [*near(whole, 20, 40), whole - part, whole + part], uses=f"{percent}% is {part}")


def _two_changes(rng: random.Random, turn: int) -> Draft:
    up, down = rng.choice((10, 20, 30, 40, 50)), rng.choice((10, 20, 30, 40, 50))
    start = rng.choice((100, 200, 300, 400, 500, 600))
    right = start * (100 + up) * (100 - down) // 10000
    mistakes = [start + start * (up - down) // 100, *near(right, start * up // 1000, start * down // 500, start // 20)]
    prompt = rng.choice(
        (
            f"A price of {start} dollars rises by {up}% and then falls by {down}%. What is it now, in dollars?",
            f"Starting from {start} dollars, a price goes up {up}% and then down {down}%. How many dollars is it now?",
            f"A share worth {start} dollars gains {up}% and then loses {down}%. What is it worth in dollars?",
        )
    )
    return numeric(prompt, right, mistakes, uses=f"{start} +{up}% -{down}%")


def _percent_claim(rng: random.Random, turn: int) -> Draft:
    a, b = rng.choice((15, 20, 30, 40, 60)), rng.choice((40, 50, 60, 70, 80, 90)) * rng.choice((1, 2))
    c = rng.choice((10, 25, 45, 50, 75))
    d = a * b // c + rng.randint(2, 5) * (1 if turn % 2 else -1)
    prompt = rng.choice(
        (
            f"Is {a}% of {b} more than {c}% of {d}?",
            f"Does {a}% of {b} exceed {c}% of {d}?",
            f"Is it true that {a}% of {b} is greater than {c}% of {d}?",
        )
    )
    return yes_or_no(prompt, a * b > c * d, uses=f"{a}% of {b} > {c}% of {d}")


TOPICS: dict[str, Plan] = {
    "percentages": (
        *((_percent_of, 1, 7), (_which_percent, 2, 4), (_changed_price, 2, 6)),
        *((_whole_from_percent, 3, 4), (_two_changes, 3, 4), (_percent_claim, 2, 4)),
    ),
}
