"""Math: conversion of units: lengths, weights, times, speeds, temperatures."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Number, Plan, decimal, near, numeric, worded

METRIC = (
    *(("kilometres", "metres", 1000), ("metres", "centimetres", 100), ("centimetres", "millimetres", 10)),
    *(("kilograms", "grams", 1000), ("tonnes", "kilograms", 1000), ("litres", "millilitres", 1000)),
)
"""Number of the second unit in one of the first."""

CLOCK = (("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("weeks", "days", 7))

IMPERIAL = (
    *(("feet", "inches", 12), ("yards", "feet", 3), ("pounds", "ounces", 16), ("miles", "yards", 1760)),
    *(("US gallons", "US quarts", 4), ("US quarts", "US pints", 2)),
)


def _converted(rng: random.Random, amount: Number, unit: tuple[str, str, int], mistakes: list[Number]) -> Draft:
    large, small, factor = unit
    text = decimal(amount)
    prompt = rng.choice(
        (
            f"How many {small} are {text} {large}?",
            f"What is {text} {large} in {small}?",
            f"Express {text} {large} in {small}.",
        )
    )
    return numeric(prompt, amount * factor, mistakes, uses=f"{text} {large}>{small}")


def _metric_down(rng: random.Random, turn: int) -> Draft:
    unit = rng.choice(METRIC)
    amount = Fraction(rng.randint(12, 98), 10)
    right = amount * unit[2]
    return _converted(rng, amount, unit, [right / 10, right * 10, right * 100, right / 100])


def _metric_up(rng: random.Random, turn: int) -> Draft:
    large, small, factor = rng.choice(METRIC)
    amount = rng.randint(2, 98) * 5
    right = Fraction(amount, factor)
    prompt = rng.choice(
        (
            f"How many {large} are {amount} {small}?",
            f"What is {amount} {small} in {large}?",
            f"Express {amount} {small} in {large}.",
        )
    )
    mistakes = [right * 10, right / 10, right * 100, right / 100]
    return numeric(prompt, right, mistakes, uses=f"{amount} {small}>{large}")


def _clock(rng: random.Random, turn: int) -> Draft:
    unit = rng.choice(CLOCK)
    amount = Fraction(rng.randint(5, 25), 2) if unit[2] != 7 else Fraction(rng.randint(4, 18))
    right = amount * unit[2]
    return _converted(rng, amount, unit, near(right, unit[2], unit[2] // 2, 10))


def _imperial(rng: random.Random, turn: int) -> Draft:
    unit = rng.choice(IMPERIAL)
    amount = rng.randint(3, 14)
    right = amount * unit[2]
    mistakes = near(right, amount, 2 * amount, unit[2])
    return _converted(rng, amount, unit, mistakes)


def _speed(rng: random.Random, turn: int) -> Draft:
    metres = 5 * rng.randint(1, 12)
    hours = Fraction(metres * 36, 10)
    if turn % 2:
        prompt = rng.choice(
            (
                f"What is {metres} metres per second in kilometres per hour?",
                f"Express {metres} metres per second in kilometres per hour.",
            )
        )
        return numeric(prompt, hours, [metres * 6, metres * 3, *near(hours, 6, 18, 10)], uses=f"{metres} m/s>km/h")
    prompt = rng.choice(
        (
            f"What is {decimal(hours)} kilometres per hour in metres per second?",
            f"Express {decimal(hours)} kilometres per hour in metres per second.",
        )
    )
    return numeric(prompt, metres, [*near(metres, 5, 10, 1), hours / 6], uses=f"{metres} m/s<km/h")


def _temperature(rng: random.Random, turn: int) -> Draft:
    c = rng.randint(-3, 20) * 5
    f = c * 9 // 5 + 32
    if turn % 2:
        prompt = rng.choice(
            (f"What is {c} degrees Celsius in degrees Fahrenheit?", f"Convert {c} degrees Celsius to Fahrenheit.")
        )
        return numeric(prompt, f, [*near(f, 9, 32, 5), (c + 32) * 9 // 5], uses=f"{c} C>F", signed=True)
    prompt = rng.choice(
        (f"What is {f} degrees Fahrenheit in degrees Celsius?", f"Convert {f} degrees Fahrenheit to Celsius.")
    )
    return numeric(prompt, c, [f - 32, *near(c, 5, 10, 9)], uses=f"{f} F>C", signed=True)


def _square_units(rng: random.Random, turn: int) -> Draft:
    large, small, factor = rng.choice(
        (
            ("square metres", "square centimetres", 10_000),
            ("cubic metres", "litres", 1000),
            ("hectares", "square metres", 10_000),
            ("square kilometres", "hectares", 100),
        )
    )
    amount = rng.randint(2, 19)
    right = amount * factor
    return _converted(rng, amount, (large, small, factor), [right // 10, right * 10, right // 100, right * 100])


def _longer(rng: random.Random, turn: int) -> Draft:
    (large, small, factor) = rng.choice((METRIC[0], METRIC[1], METRIC[3], METRIC[5], CLOCK[0]))
    amount = rng.randint(2, 9)
    other = amount * factor + rng.choice((-1, 1)) * factor * rng.choice((1, 2, 3)) // 10
    first, second = f"{amount} {large}", f"{other} {small}"
    right = first if amount * factor > other else second
    a, b = rng.sample((first, second), 2)
    prompt = rng.choice(
        (f"Which is more, {a} or {b}?", f"Of {a} and {b}, which is more?", f"What is more: {a} or {b}?")
    )
    return worded(prompt, right, (first, second), uses=f"{first}|{second}")


TOPICS: dict[str, Plan] = {
    "units": (
        *((_metric_down, 1, 5), (_metric_up, 2, 4), (_clock, 1, 4), (_imperial, 2, 4), (_speed, 3, 4)),
        *((_temperature, 3, 4), (_square_units, 3, 3), (_longer, 1, 4)),
    ),
}
