"""Math: chances as fractions in lowest terms, and averages of small lists."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

from standard_probe.drafts import Draft, Plan, numeric, worded

COLORS = ("red", "blue", "green", "white", "yellow", "black")


def _chance(prompt: str, right: Fraction, *, uses: str) -> Draft:
    """A draft whose options are fractions."""
    return numeric(prompt, right, uses=uses, form=str)


def _one_marble(rng: random.Random, turn: int) -> Draft:
    a, b = rng.sample(range(2, 13), 2)
    first, second = rng.sample(COLORS, 2)
    right = Fraction(a, a + b)
    prompt = rng.choice(
        (
            f"A bag holds {a} {first} and {b} {second} marbles. What is the probability of drawing a {first} one?",
            f"From {a} {first} and {b} {second} balls one is drawn at random. How likely is it to be {first}?",
            f"There are {a} {first} and {b} {second} cards. What is the chance that a random one is {first}?",
        )
    )
    return _chance(prompt, right, uses=f"{a} of {a + b}")


def _two_dice(rng: random.Random, turn: int) -> Draft:
    total = rng.randint(2, 12)
    ways = 6 - abs(total - 7)
    right = Fraction(ways, 36)
    prompt = rng.choice(
        (
            f"Two fair dice are rolled. What is the probability that their sum is {total}?",
            f"How likely is a total of {total} when two fair dice are thrown?",
            f"What is the chance of rolling {total} in total with two fair six-sided dice?",
        )
    )
    return _chance(prompt, right, uses=f"dice {total}")


def _coins(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(3, 5)
    heads = rng.randint(1, n)
    right = Fraction(comb(n, heads), 2**n)
    prompt = rng.choice(
        (
            f"A fair coin is tossed {n} times. What is the probability that the number of heads is {heads}?",
            f"In {n} tosses of a fair coin, how likely is it that the number of heads is exactly {heads}?",
            f"With {n} fair coins thrown, what is the chance that the number showing heads is exactly {heads}?",
        )
    )
    return _chance(prompt, right, uses=f"coins {n} {heads}")


def _die(rng: random.Random, turn: int) -> Draft:
    sides = rng.choice((6, 8, 10, 12, 20))
    limit = rng.randint(2, sides - 2)
    right = Fraction(sides - limit, sides)
    prompt = rng.choice(
        (
            f"A fair die has {sides} sides numbered from 1. What is the probability of rolling more than {limit}?",
            f"With a fair {sides}-sided die, how likely is a number greater than {limit}?",
            f"What is the chance that a fair {sides}-sided die shows more than {limit}?",
        )
    )
    return _chance(prompt, right, uses=f"die {sides}>{limit}")


def _two_marbles(rng: random.Random, turn: int) -> Draft:
    a, b = rng.sample(range(2, 9), 2)
    first, second = rng.sample(COLORS, 2)
    right = Fraction(a * (a - 1), (a + b) * (a + b - 1))
    prompt = rng.choice(
        (
            f"From a bag with {a} {first} and {b} {second} marbles two are drawn without putting any back. "
            f"What is the probability that both are {first}?",
            f"A bag holds {a} {first} and {b} {second} balls. Two are taken out together. "
            f"How likely is it that both are {first}?",
            f"Of {a} {first} and {b} {second} tickets two are drawn, one after the other, and kept. "
            f"What is the chance that both are {first}?",
        )
    )
    return _chance(prompt, right, uses=f"two of {a},{b}")


def _at_least_one(rng: random.Random, turn: int) -> Draft:
    n, sides = rng.choice(((2, 6), (3, 6), (2, 4), (3, 4), (2, 8), (2, 10), (2, 5), (3, 3)))
    right = 1 - Fraction(sides - 1, sides) ** n
    prompt = rng.choice(
        (
            f"A wheel with {sides} equal fields, one of them red, is spun {n} times. How likely is red at least once?",
            f"One of {sides} equal fields of a wheel wins. What is the chance to win at least once in {n} spins?",
        )
    )
    return _chance(prompt, right, uses=f"once {sides} {n}")


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values[:-1])) + f" and {values[-1]}"


def _mean(rng: random.Random, turn: int) -> Draft:
    n = rng.choice((4, 5))
    values = [rng.randint(3, 40) for _ in range(n)]
    values[-1] += -sum(values) % n
    right = sum(values) // n
    prompt = rng.choice(
        (
            f"What is the mean of {_listed(values)}?",
            f"Find the arithmetic mean of the numbers {_listed(values)}.",
            f"What is the average of {_listed(values)}?",
        )
    )
    return numeric(prompt, right, uses=f"mean {values}")


def _median(rng: random.Random, turn: int) -> Draft:
    values = rng.sample(range(11, 60), 5)
    ordered = sorted(values)
    prompt = rng.choice(
        (
            f"What is the median of {_listed(values)}?",
            f"Find the median of the numbers {_listed(values)}.",
            f"Which number is the median of {_listed(values)}?",
        )
    )
    # All options are numbers of the list, so that copying one is no better than guessing.
    wrong = [str(value) for value in ordered if value != ordered[2]]
    return worded(prompt, str(ordered[2]), rng.sample(wrong, 4), uses=f"median {values}")


def _even_median(rng: random.Random, turn: int) -> Draft:
    values = rng.sample(range(3, 50), 6)
    low, high = sorted(values)[2:4]
    right = Fraction(low + high, 2)
    prompt = rng.choice(
        (
            f"What is the median of {_listed(values)}?",
            f"Find the median of the six numbers {_listed(values)}.",
            f"Six values are {_listed(values)}. What is their median?",
        )
    )
    return numeric(prompt, right, uses=f"median {values}")


def _range(rng: random.Random, turn: int) -> Draft:
    values = rng.sample(range(4, 90), 5)
    right = max(values) - min(values)
    prompt = rng.choice(
        (
            f"What is the range of {_listed(values)}, the largest minus the smallest?",
            f"How far apart are the largest and the smallest of {_listed(values)}?",
            f"By how much does the largest of {_listed(values)} exceed the smallest?",
        )
    )
    return numeric(prompt, right, uses=f"range {values}")


def _mode(rng: random.Random, turn: int) -> Draft:
    right, *others = rng.sample(range(11, 40), 5)
    values = [right, right, right, others[0], others[0], *others[1:]]
    rng.shuffle(values)
    prompt = rng.choice(
        (
            f"What is the mode of {_listed(values)}?",
            f"Which value occurs most often among {_listed(values)}?",
            f"Find the most frequent number among {_listed(values)}.",
        )
    )
    return worded(prompt, str(right), map(str, others), uses=f"mode {values}")


def _missing(rng: random.Random, turn: int) -> Draft:
    n = rng.choice((3, 4))
    values = [rng.randint(5, 30) for _ in range(n)]
    mean = rng.randint(max(values) - 4, max(values) + 6)
    right = (n + 1) * mean - sum(values)
    while right < 4:
        mean, right = mean + 1, right + n + 1
    prompt = rng.choice(
        (
            f"The mean of {n + 1} numbers is {mean}. All but one are {_listed(values)}. What is the missing number?",
            f"What must be added to the list {_listed(values)} so that its {n + 1} numbers have the mean {mean}?",
            f"Besides {_listed(values)}, which number makes the mean of all {n + 1} equal to {mean}?",
        )
    )
    return numeric(prompt, right, uses=f"missing {values} {mean}")


def _highest_mean(rng: random.Random, turn: int) -> Draft:
    people = rng.sample(("Ana", "Ben", "Carl", "Dora", "Emil", "Fay"), 4)
    scores = {person: (rng.randint(4, 30), rng.randint(4, 30)) for person in people}
    sums = {person: sum(own) for person, own in scores.items()}
    right = max(people, key=sums.__getitem__)
    if list(sums.values()).count(sums[right]) > 1:
        return _highest_mean(rng, turn)
    told = "; ".join(f"{person} scored {a} and {b}" for person, (a, b) in scores.items())
    prompt = rng.choice((f"{told}. Who has the highest mean?", f"{told}. Whose average is the highest?"))
    return worded(prompt, right, [person for person in people if person != right], uses=f"highest {told}")


TOPICS: dict[str, Plan] = {
    "probability": (
        *((_one_marble, 1, 3), (_die, 1, 2), (_two_dice, 2, 3)),
        *((_coins, 2, 2), (_two_marbles, 3, 2), (_at_least_one, 3, 2)),
    ),
    "statistics": (
        *((_range, 1, 3), (_mode, 1, 2), (_mean, 2, 2), (_median, 2, 2), (_highest_mean, 2, 1)),
        *((_even_median, 3, 2), (_missing, 3, 2)),
    ),
}
