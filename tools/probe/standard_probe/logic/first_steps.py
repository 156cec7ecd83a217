"""Logic: one step, for every topic; questions that a small model can answer, and lose."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, numeric, worded, yes_or_no
from standard_probe.logic.dates import DAYS

NAMES = ("Ana", "Ben", "Cora", "Dan", "Ella", "Fred", "Gina", "Hugo", "Iris", "Jack", "Kate", "Leo", "Mona", "Nils")
HABITS = {"dogs": "bark", "cats": "purr", "cows": "moo", "birds": "sing", "lions": "roar", "ducks": "quack"}


def _others(rng: random.Random, words: list[str], right: str, number: int = 4) -> list[str]:
    others = [word for word in words if word != right]
    return rng.sample(others, min(number, len(others)))


def _habit(rng: random.Random, turn: int) -> Draft:
    kind = rng.choice(list(HABITS))
    name, right = rng.choice(NAMES), HABITS[kind]
    prompt = f"All {kind} {right}. {name} is one of the {kind}. What does {name} do?"
    return worded(prompt, right, _others(rng, list(HABITS.values()), right), uses=f"{kind} {name}")


CAUSES = ("it rains", "the sun sets", "the bell rings", "the wind blows", "the snow falls", "the clock strikes")
SLEEPERS = ("the cat", "the dog", "the boy", "the hen", "the cow", "the man", "the owl", "the fox")


def _wakes(rng: random.Random, turn: int) -> Draft:
    cause, right = rng.choice(CAUSES), rng.choice(SLEEPERS)
    prompt = f"If {cause}, then {right} wakes up. Now {cause}. Who wakes up?"
    return worded(prompt, right, _others(rng, list(SLEEPERS), right), uses=f"{cause} {right}")


def _above_all(rng: random.Random, turn: int) -> Draft:
    people, word = rng.sample(NAMES, 5), rng.choice(("taller", "older", "faster"))
    superlative = word.removesuffix("r") + "st"
    said = f"{people[0]} is {word} than {people[1]}, {people[2]}, {people[3]} and {people[4]}."
    return worded(f"{said} Who is the {superlative} of the five?", people[0], rng.sample(people[1:], 4), uses=said)


WAYS = ("north", "east", "south", "west")


def _opposite(rng: random.Random, turn: int) -> Draft:
    start = turn % 4
    right = WAYS[(start + 2) % 4]
    name = rng.choice(NAMES)
    prompt = rng.choice(
        (
            f"Which direction is the opposite of {WAYS[start]}?",
            f"{name} faces {WAYS[start]} and turns around. Which way does {name} face now?",
        )
    )
    return worded(prompt, right, _others(rng, list(WAYS), right), uses=f"opposite {start}")


THINGS = ("the ball", "the book", "the cup", "the hat", "the bag", "the key", "the coin", "the pen")


def _holder(rng: random.Random, turn: int) -> Draft:
    people, things = rng.sample(NAMES, 5), rng.sample(THINGS, 5)
    said = ", ".join(f"{person} has {thing}" for person, thing in zip(people, things, strict=True))
    i = rng.randrange(5)
    return worded(f"{said}. Who has {things[i]}?", people[i], _others(rng, people, people[i]), uses=said)


def _sum_claim(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(1, 6), rng.randint(1, 6)
    claimed = a + b + (rng.choice((-1, 1, 2)) if turn % 2 else 0)
    return yes_or_no(f"Is it true that {a} + {b} = {claimed}?", claimed == a + b, uses=f"{a}+{b}={claimed}")


def _new_sign(rng: random.Random, turn: int) -> Draft:
    x, a, sign = rng.randint(2, 9), rng.randint(1, 5), rng.choice("#@&")
    prompt = f"In a game the sign {sign} adds {a} to a number. What is {x} {sign}?"
    return numeric(prompt, x + a, uses=f"{x} {sign} {a}")


def _next_day(rng: random.Random, turn: int) -> Draft:
    i = rng.randrange(7)
    word, step = ("before", -1) if turn % 2 else ("after", 1)
    right = DAYS[(i + step) % 7]
    wrong = [day for day in DAYS if day not in (right, DAYS[i])]
    return worded(
        f"Which day of the week comes right {word} {DAYS[i]}?", right, rng.sample(wrong, 5), uses=right + word
    )


def _hour_later(rng: random.Random, turn: int) -> Draft:
    hour, more = rng.randint(1, 9), rng.choice((1, 2, 3))
    later = "one hour" if more == 1 else f"{('two', 'three')[more - 2]} hours"
    prompt = f"It is {hour} o'clock. What time will it be in {later}?"
    return numeric(prompt, hour + more, uses=f"{hour}+{more} hours", form=lambda value: f"{value} o'clock")


def _missing_number(rng: random.Random, turn: int) -> Draft:
    right, *shown = rng.sample(range(1, 6), 5)
    row = ", ".join(map(str, shown))
    prompt = (
        f"A row holds each of the numbers 1, 2, 3, 4 and 5 once. It shows {row} and a gap. Which number is missing?"
    )
    return worded(prompt, str(right), [str(number) for number in shown], uses=row)


ITEMS = ("a pen", "a key", "a coin", "a ring", "a comb", "a cup", "a spoon", "a stamp", "a ball", "a brush")


def _how_many(rng: random.Random, turn: int) -> Draft:
    things = rng.sample(ITEMS, rng.randint(2, 7))
    said = f"{', '.join(things[:-1])} and {things[-1]}"
    return numeric(f"A box holds {said}. How many things are in the box?", len(things), uses=said)


WOMEN, CHILDREN = ("Ana", "Cora", "Ella", "Gina", "Iris"), ("Max", "Tom", "Sam", "Kim", "Roy")


def _mother(rng: random.Random, turn: int) -> Draft:
    women, children = rng.sample(WOMEN, 5), rng.sample(CHILDREN, 5)
    pairs = rng.sample(list(zip(women, children, strict=True)), 5)
    said = " ".join(f"{woman} is the mother of {child}." for woman, child in pairs)
    if turn % 2:
        return worded(f"{said} Who is the child of {women[0]}?", children[0], children[1:], uses=said)
    return worded(f"{said} Who is the mother of {children[0]}?", women[0], women[1:], uses=said)


def _print_sum(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    sign, right = ("*", a * b) if turn % 2 else ("+", a + b)
    return numeric(f"What does this Python code print?\nprint({a} {sign} {b})", right, uses=f"{a}{sign}{b}")


TOPICS: dict[str, Plan] = {
    "syllogisms": ((_habit, 0, 4),),
    "conditionals": ((_wakes, 0, 4),),
    "orderings": ((_above_all, 0, 4),),
    "directions": ((_opposite, 0, 4),),
    "tracking": ((_holder, 0, 4),),
    "truth": ((_sum_claim, 0, 4),),
    "invented rules": ((_new_sign, 0, 4),),
    "calendars": ((_next_day, 0, 4),),
    "time": ((_hour_later, 0, 4),),
    "grids": ((_missing_number, 0, 4),),
    "sets": ((_how_many, 0, 4),),
    "families": ((_mother, 0, 4),),
    "code results": ((_print_sum, 0, 4),),
}
