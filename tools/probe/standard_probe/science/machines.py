"""Science: quantities of physics from their laws, and computing with bits and bytes."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, decimal, near, numeric, yes_or_no


def _ohm(rng: random.Random, turn: int) -> Draft:
    current, resistance = rng.randint(2, 12), rng.randint(3, 25)
    voltage = current * resistance
    prompt, right = (
        (
            rng.choice(
                (
                    f"A current of {current} A flows through {resistance} ohms. What is the voltage in volts?",
                    f"What voltage, in volts, drives {current} A through a resistor of {resistance} ohms?",
                )
            ),
            voltage,
        ),
        (
            rng.choice(
                (
                    f"A resistor of {resistance} ohms is connected to {voltage} V. How many amperes flow?",
                    f"At {voltage} V, how many amperes flow through {resistance} ohms?",
                )
            ),
            current,
        ),
    )[turn % 2]
    return numeric(prompt, right, uses=f"ohm {voltage},{current} {turn % 2}")


def _newton(rng: random.Random, turn: int) -> Draft:
    mass, acceleration = rng.randint(3, 40), rng.randint(2, 9)
    right = mass * acceleration
    prompt = rng.choice(
        (
            f"What force, in newtons, gives {mass} kg an acceleration of {acceleration} m/s²?",
            f"A body of {mass} kg is accelerated by {acceleration} m/s². What is the net force in newtons?",
            f"How many newtons are needed to accelerate {mass} kg by {acceleration} m/s²?",
        )
    )
    return numeric(prompt, right, uses=f"F {mass}*{acceleration}")


def _density(rng: random.Random, turn: int) -> Draft:
    volume, density = rng.randint(3, 25), Fraction(rng.randint(4, 18), 2)
    mass = volume * density
    prompt = rng.choice(
        (
            f"A block of {volume} cm³ weighs {decimal(mass)} g. What is its density in g/cm³?",
            f"What is the density, in g/cm³, of {volume} cm³ of a metal that weighs {decimal(mass)} g?",
            f"A stone of {volume} cm³ weighs {decimal(mass)} g. What is its density in g/cm³?",
        )
    )
    return numeric(prompt, density, uses=f"density {mass}/{volume}")


def _kinetic(rng: random.Random, turn: int) -> Draft:
    mass, speed = 2 * rng.randint(1, 12), rng.randint(3, 12)
    right = mass * speed * speed // 2
    prompt = rng.choice(
        (
            f"What is the kinetic energy, in joules, of {mass} kg moving at {speed} m/s?",
            f"A body of {mass} kg moves at {speed} m/s. What is its kinetic energy in joules?",
            f"How many joules of kinetic energy does a mass of {mass} kg at {speed} m/s have?",
        )
    )
    return numeric(prompt, right, uses=f"E {mass},{speed}")


def _wave(rng: random.Random, turn: int) -> Draft:
    frequency, length = rng.randint(5, 40) * 5, rng.randint(2, 9)
    right = frequency * length
    prompt = rng.choice(
        (
            f"A wave has a frequency of {frequency} Hz and a wavelength of {length} m. What is its speed in m/s?",
            f"How fast, in m/s, is a wave of {frequency} Hz whose wavelength is {length} m?",
        )
    )
    return numeric(prompt, right, uses=f"wave {frequency}*{length}")


def _resistors(rng: random.Random, turn: int) -> Draft:
    a, b, parallel = rng.choice(((3, 6, 2), (6, 12, 4), (4, 12, 3), (10, 15, 6), (20, 30, 12), (12, 24, 8), (5, 20, 4)))
    right, way = (parallel, "parallel") if turn % 2 else (a + b, "series")
    prompt = rng.choice(
        (
            f"Resistors of {a} and {b} ohms are connected in {way}. What is the total resistance in ohms?",
            f"What is the resistance, in ohms, of {a} ohms and {b} ohms in {way}?",
        )
    )
    mistakes = [parallel, a + b, b - a, *near(right, 1, 2, 3)]
    return numeric(prompt, right, mistakes, uses=f"{way} {a},{b}")


def _half_life(rng: random.Random, turn: int) -> Draft:
    life, times = rng.randint(3, 14), rng.randint(2, 4)
    start = 2**times * rng.randint(3, 12)
    right = start // 2**times
    prompt = rng.choice(
        (
            f"If the half-life is {life} days, how many grams of {start} g are left after {life * times} days?",
            f"With a half-life of {life} hours, how many grams of {start} g remain after {life * times} hours?",
            f"How many grams of {start} g are left after {life * times} years, if the half-life is {life} years?",
        )
    )
    return numeric(prompt, right, uses=f"half {start},{times}")


def _lever(rng: random.Random, turn: int) -> Draft:
    a, b, right = rng.randint(2, 9), rng.randint(2, 9), rng.randint(4, 20)
    while a == b or right * b % a:
        a, b, right = rng.randint(2, 9), rng.randint(2, 9), rng.randint(4, 20)
    force = right * b // a
    prompt = rng.choice(
        (
            f"On a lever {force} N push down {a} m from the pivot. What force in newtons, {b} m off on the other side, "
            "keeps the balance?",
            f"A seesaw carries {force} N at {a} m left of its pivot. How many newtons {b} m to the right balance it?",
        )
    )
    return numeric(prompt, right, uses=f"lever {force},{a},{b}")


def _values_of_bits(rng: random.Random, turn: int) -> Draft:
    bits = rng.randint(3, 12)
    prompt = rng.choice(
        (
            f"How many different values can {bits} bits represent?",
            f"With {bits} bits, how many different patterns are possible?",
            f"How many numbers can be told apart with {bits} binary digits?",
        )
    )
    right = 2**bits
    return numeric(prompt, right, uses=f"values {bits}")


def _gate(rng: random.Random, turn: int) -> Draft:
    wanted = turn % 2 == 0
    rules = {"AND": (0, 0, 0, 1), "OR": (0, 1, 1, 1), "XOR": (0, 1, 1, 0), "NAND": (1, 1, 1, 0), "NOR": (1, 0, 0, 0)}
    gate, a, b = rng.choice(list(rules)), rng.randrange(2), rng.randrange(2)
    while rules[gate][2 * a + b] != wanted:
        gate, a, b = rng.choice(list(rules)), rng.randrange(2), rng.randrange(2)
    name = f"{'an' if gate[0] in 'AOX' else 'a'} {gate} gate"
    prompt = rng.choice(
        (
            f"The inputs of {name} are {a} and {b}. Is its output 1?",
            f"Does {name} with the inputs {a} and {b} give the output 1?",
            f"If {name} gets {a} and {b}, is the result 1?",
        )
    )
    return yes_or_no(prompt, wanted, uses=f"{gate} {a}{b}")


def _search_steps(rng: random.Random, turn: int) -> Draft:
    right = rng.randint(5, 12)
    n = 2**right - 1
    prompt = rng.choice(
        (
            f"At most how many entries must a binary search look at in a sorted list of {n}?",
            f"A sorted list holds {n} entries. How many does binary search compare at the very most?",
            f"What is the largest number of entries that a binary search examines among {n} sorted ones?",
        )
    )
    return numeric(prompt, right, uses=f"search {n}")


def _transfer(rng: random.Random, turn: int) -> Draft:
    megabytes, rate = rng.randint(3, 30) * 10, rng.choice((8, 16, 20, 40, 80))
    while megabytes * 8 % rate:
        megabytes = rng.randint(3, 30) * 10
    right = megabytes * 8 // rate
    prompt = rng.choice(
        (
            f"How many seconds does it take to send {megabytes} megabytes at {rate} megabits per second?",
            f"A line carries {rate} megabits per second. In how many seconds does it send {megabytes} megabytes?",
            f"At {rate} megabits per second, how many seconds does a file of {megabytes} megabytes take?",
        )
    )
    return numeric(prompt, right, uses=f"send {megabytes}/{rate}")


TOPICS: dict[str, Plan] = {
    "physics": (
        *((_newton, 1, 2), (_ohm, 1, 2), (_density, 1, 2), (_kinetic, 3, 2)),
        *((_wave, 2, 1), (_resistors, 3, 2), (_half_life, 3, 2), (_lever, 2, 2)),
    ),
    "computing": ((_values_of_bits, 1, 2), (_gate, 1, 4), (_search_steps, 3, 2), (_transfer, 3, 2)),
}
