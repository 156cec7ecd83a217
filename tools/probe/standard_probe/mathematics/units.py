"""Math: conversion of units: lengths, weights, times, speeds, temperatures."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Number, Plan, decimal, numeric

METRIC = (
    *(("kilometers", "meters", 1000), ("meters", "centimeters", 100), ("centimeters", "millimeters", 10)),
    *(("kilograms", "grams", 1000), ("metric tons", "kilograms", 1000), ("liters", "milliliters", 1000)),
)
"""Number of the second unit in one of the first."""

CLOCK = (("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("weeks", "days", 7))

IMPERIAL = (("feet", "inches", 12), ("pounds", "ounces", 16), ("US gallons", "US quarts", 4))


def _converted(rng: random.Random, amount: Number, unit: tuple[str, str, int]) -> Draft:
    large, small, factor = unit
    text = decimal(amount)
    prompt = rng.choice(
        (
            f"How many {small} are {text} {large}?",
            f"What is {text} {large} in {small}?",
            f"Convert {text} {large} to {small}.",
        )
    )
    return numeric(prompt, amount * factor, uses=f"{text} {large}>{small}", like=small)


def _metric_down(rng: random.Random, turn: int) -> Draft:
    return _converted(rng, Fraction(rng.randint(12, 98), 10), rng.choice(METRIC))


def _metric_sum(rng: random.Random, turn: int) -> Draft:
    large, small, factor = rng.choice([unit for unit in METRIC if unit[2] == 1000])
    amount, rest = Fraction(rng.randint(12, 68), 10), rng.randint(3, 19) * 50
    prompt = rng.choice(
        (
            f"How many {small} are {decimal(amount)} {large} and {rest} {small} together?",
            f"Add {rest} {small} to {decimal(amount)} {large}. What is the sum in {small}?",
        )
    )
    return numeric(prompt, amount * factor + rest, uses=f"{decimal(amount)} {large}+{rest}")


def _clock(rng: random.Random, turn: int) -> Draft:
    unit = rng.choice(CLOCK)
    amount = Fraction(rng.randint(5, 25), 2) if unit[2] != 7 else Fraction(rng.randint(4, 18))
    return _converted(rng, amount, unit)


def _imperial(rng: random.Random, turn: int) -> Draft:
    return _converted(rng, rng.randint(3, 14), rng.choice(IMPERIAL))


def _speed(rng: random.Random, turn: int) -> Draft:
    meters = 5 * rng.randint(1, 12)
    hours = Fraction(meters * 36, 10)
    if turn % 2:
        prompt = rng.choice(
            (
                f"What is {meters} meters per second in kilometers per hour?",
                f"Express {meters} meters per second in kilometers per hour.",
            )
        )
        return numeric(prompt, hours, uses=f"{meters} m/s>km/h")
    prompt = rng.choice(
        (
            f"What is {decimal(hours)} kilometers per hour in meters per second?",
            f"Express {decimal(hours)} kilometers per hour in meters per second.",
        )
    )
    return numeric(prompt, meters, uses=f"{meters} m/s<km/h")


def _temperature(rng: random.Random, turn: int) -> Draft:
    c = rng.randint(-3, 20) * 5
    f = c * 9 // 5 + 32
    if turn % 2:
        prompt = rng.choice(
            (f"What is {c} degrees Celsius in degrees Fahrenheit?", f"Convert {c} degrees Celsius to Fahrenheit.")
        )
        return numeric(prompt, f, uses=f"{c} C>F", signed=True)
    prompt = rng.choice(
        (f"What is {f} degrees Fahrenheit in degrees Celsius?", f"Convert {f} degrees Fahrenheit to Celsius.")
    )
    return numeric(prompt, c, uses=f"{f} F>C", signed=True)


def _square_units(rng: random.Random, turn: int) -> Draft:
    large, small, factor = rng.choice(
        (
            ("square meters", "square centimeters", 10_000),
            ("cubic meters", "liters", 1000),
            ("hectares", "square meters", 10_000),
            ("square kilometers", "hectares", 100),
        )
    )
    return _converted(rng, Fraction(rng.randint(12, 98), 10), (large, small, factor))


TOPICS: dict[str, Plan] = {
    "units": (
        *((_metric_down, 1, 3), (_clock, 1, 2), (_imperial, 2, 2), (_metric_sum, 2, 3)),
        *((_speed, 3, 2), (_temperature, 3, 1), (_square_units, 3, 1)),
    ),
}
