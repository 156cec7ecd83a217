"""Sums of economists and accountants: elasticity, market price, break-even point, depreciation.

The options are evenly spaced numbers, and the right one is at a random position among them, so that its size tells
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from standard_probe.question import Question
from standard_probe.written import difficulty, read_rows

EACH: Final = 3
"""Number of questions of each kind."""

Drawn = tuple[tuple[int, ...], Fraction, Fraction]
"""The numbers that a text names, in its order; the answer; and the distance between two options."""


def sums(rng: random.Random) -> list[Question]:
    """`EACH` sums of each kind, all with different numbers; their wordings are in ``sum_wordings.csv``."""
    return [question for row in read_rows("sum_wordings") for question in _questions(row, rng)]


def _questions(row: dict[str, str], rng: random.Random) -> list[Question]:
    """Questions of one kind, each with another of its wordings."""
    made: dict[tuple[int, ...], Question] = {}
    while len(made) < EACH:
        numbers, answer, step = DRAWS[row["kind"]](rng)
        if numbers in made:
            continue
        k = rng.choices((3, 4, 5), weights=(2, 4, 2))[0]
        # The number of options below the answer, few enough that the smallest option is above 0.
        below = rng.randrange(min(k, -(-answer // step)))
        options = [answer + (position - below) * step for position in range(k)]
        made[numbers] = Question(
            prompt=row[f"text_{len(made) + 1}"].format(*(f"{number:,}" for number in numbers)),
            right=row["unit"].format(_plain(answer)),
            wrong=tuple(row["unit"].format(_plain(option)) for option in options if option != answer),
            category="Liberal Arts",
            topic=row["topic"],
            difficulty=difficulty(row),
            uses=frozenset({f"{row['kind']}:{numbers}"}),
            source="computed",
        )
    return list(made.values())


def _plain(number: Fraction) -> str:
    """A number in digits: 1,200 or 2.5."""
    return f"{int(number):,}" if number.denominator == 1 else str(float(number))


def _elasticity(rng: random.Random) -> Drawn:
    price, elasticity = rng.choice((4, 6, 8, 10)), Fraction(rng.choice((1, 2, 3, 4, 5, 6)), 2)
    return (price, int(price * elasticity)), elasticity, Fraction(1, 2)


def _market_price(rng: random.Random) -> Drawn:
    price, slope_of_demand, slope_of_supply, start = (
        rng.randint(5, 20),
        rng.randint(2, 5),
        rng.randint(2, 4),
        rng.randint(5, 30),
    )
    meeting = start + slope_of_supply * price
    return (meeting + slope_of_demand * price, slope_of_demand, start, slope_of_supply), Fraction(price), Fraction(1)


def _forgone(rng: random.Random) -> Drawn:
    wheat, ratio = rng.choice((4, 6, 8, 10, 12)), Fraction(rng.randint(3, 10), 2)
    return (wheat, int(wheat * ratio)), ratio, Fraction(1, 2)


def _real_rate(rng: random.Random) -> Drawn:
    inflation, real = rng.randint(1, 6), rng.randint(2, 6)
    return (inflation + real, inflation), Fraction(real), Fraction(1)


def _unemployment(rng: random.Random) -> Drawn:
    force, rate = 1000 * rng.randint(20, 90), rng.randint(4, 12)
    return (force, force * rate // 100), Fraction(rate), Fraction(1)


def _output(rng: random.Random) -> Drawn:
    parts = tuple(10 * rng.randint(low, high) for low, high in ((50, 80), (10, 25), (15, 30), (10, 30), (5, 9)))
    return parts, Fraction(sum(parts[:4]) - parts[4]), Fraction(20)


def _marginal_cost(rng: random.Random) -> Drawn:
    units, average, extra = rng.randint(8, 40), rng.randint(5, 15), rng.randint(7, 25)
    return (units, units * average, units + 1, units * average + extra), Fraction(extra), Fraction(2)


def _profit(rng: random.Random) -> Drawn:
    units, price, cost = 10 * rng.randint(4, 20), rng.randint(9, 20), rng.randint(3, 7)
    fixed = 10 * rng.randint(5, 10)
    return (units, price, cost, fixed), Fraction(units * (price - cost) - fixed), Fraction(20)


def _break_even(rng: random.Random) -> Drawn:
    units, margin, cost = 10 * rng.randint(5, 40), rng.randint(3, 12), rng.randint(4, 20)
    return (units * margin, cost + margin, cost), Fraction(units), Fraction(10)


def _depreciation(rng: random.Random) -> Drawn:
    yearly, years, rest = 100 * rng.randint(5, 30), rng.randint(4, 10), 500 * rng.randint(1, 6)
    return (yearly * years + rest, years, rest), Fraction(yearly), Fraction(100)


def _equity(rng: random.Random) -> Drawn:
    debts, equity = 1000 * rng.randint(20, 90), 1000 * rng.randint(15, 80)
    return (debts + equity, debts), Fraction(equity), Fraction(1000)


def _margin(rng: random.Random) -> Drawn:
    sales, percent = 1000 * rng.randint(10, 60), 5 * rng.randint(5, 13)
    return (sales, sales * (100 - percent) // 100), Fraction(percent), Fraction(5)


def _return(rng: random.Random) -> Drawn:
    paid, percent = 1000 * rng.randint(5, 40), rng.randint(6, 30)
    return (paid, paid * (100 + percent) // 100), Fraction(percent), Fraction(2)


def _unit_cost(rng: random.Random) -> Drawn:
    units, share, cost = 100 * rng.randint(2, 9), rng.randint(3, 9), rng.randint(4, 15)
    return (units, units * share, cost), Fraction(share + cost), Fraction(1)


DRAWS: Final[dict[str, Callable[[random.Random], Drawn]]] = {
    "elasticity": _elasticity,
    "market price": _market_price,
    "opportunity cost": _forgone,
    "real rate": _real_rate,
    "unemployment": _unemployment,
    "output": _output,
    "marginal cost": _marginal_cost,
    "profit": _profit,
    "break-even": _break_even,
    "depreciation": _depreciation,
    "equity": _equity,
    "gross margin": _margin,
    "return": _return,
    "unit cost": _unit_cost,
}
