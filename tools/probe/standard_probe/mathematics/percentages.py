"""Math: percentages of amounts, of prices that change, and the whole behind a part."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, numeric


def _percent_of(rng: random.Random, turn: int) -> Draft:
    percent, whole = rng.choice((5, 15, 20, 25, 30, 35, 40, 60, 70, 75)), rng.randint(3, 24) * 20
    right = Fraction(percent * whole, 100)
    prompt = rng.choice(
        (f"What is {percent}% of {whole}?", f"How much is {percent}% of {whole}?", f"Work out {percent}% of {whole}.")
    )
    Fraction(whole, 20)
    return numeric(prompt, right, uses=f"{percent}% of {whole}")


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
    return numeric(prompt, right, uses=f"{price} {verb} {percent}%")


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
    return numeric(prompt, percent, uses=f"{part} as percent of {whole}", form=lambda n: f"{n}%")


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
    return numeric(prompt, whole, uses=f"{percent}% is {part}")


def _two_changes(rng: random.Random, turn: int) -> Draft:
    up, down = rng.choice((10, 20, 30, 40, 50)), rng.choice((10, 20, 30, 40, 50))
    start = rng.choice((100, 200, 300, 400, 500, 600))
    right = start * (100 + up) * (100 - down) // 10000
    prompt = rng.choice(
        (
            f"A price of {start} dollars rises by {up}% and then falls by {down}%. What is it now, in dollars?",
            f"Starting from {start} dollars, a price goes up {up}% and then down {down}%. How many dollars is it now?",
            f"A share worth {start} dollars gains {up}% and then loses {down}%. What is it worth in dollars?",
        )
    )
    return numeric(prompt, right, uses=f"{start} +{up}% -{down}%")


TOPICS: dict[str, Plan] = {
    "percentages": (
        *((_percent_of, 1, 5), (_which_percent, 2, 2), (_changed_price, 2, 3)),
        *((_whole_from_percent, 3, 2), (_two_changes, 3, 2)),
    ),
}
