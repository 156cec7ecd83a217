"""Questions of the probe `standard-written`: answers that a model generates, graded by rules.

    word problems       100, of one to five steps, computed here                         match "number"
    instructions        80, from facts/instructions.csv, of one to three instructions    match "instructions"

A word problem is a story with numbers that are drawn anew for each item; items of one story are one cluster. Numbers
are drawn until every quantity on the way is a positive integer. A test works out each answer a second time, from the
text of the problem.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from standard_probe.question import digest

from forgetwatch.decoding import Decoding
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY
from standard_parts.multilingual import read_rows

NAME: Final = "standard-written"
ASK: Final = 'Write a short solution and end with "Answer:" and the number.'
"""Request after each word problem."""

TOKENS: Final = 256
"""Maximum number of generated tokens; a longer answer is cut."""

_SEED: Final = 20261122
_NAMES: Final = ("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Henry", "Irene", "Jonas", "Kate", "Leo")

Draw = Callable[..., int]
Solved = tuple[str, int]
"""A problem and its answer."""
Write = Callable[[Draw, str, str], Solved | None]


@dataclass(frozen=True, kw_only=True)
class Story:
    """A word problem whose numbers are drawn.

    Attributes:
        name: Name of the story; it becomes the cluster of its items.
        steps: Number of operations that the answer needs.
        items: Number of items.
        write: Function of (drawing, two names) that returns the problem and its answer, or None for numbers that do
            not fit.
    """

    name: str
    steps: int
    items: int
    write: Write


def probe() -> Probe:
    """The probe `standard-written`."""
    made = _alternating(word_problems(), instructions())
    decoding = Decoding(tokens=TOKENS)
    return Probe(made, name=NAME, scoring="generate", rendering="chat", decoding=decoding, canary=CANARY)


def word_problems() -> list[Item]:
    """100 word problems, ordered so that each prefix holds all numbers of steps."""
    found = []
    for story in STORIES:
        rng = random.Random(f"{_SEED} {story.name}")
        seen: set[int] = set()
        while len(seen) < story.items:
            first, second = rng.sample(_NAMES, 2)
            solved = story.write(_drawing(rng), first, second)
            if solved is None or solved[1] in seen or solved[1] <= 0:
                continue
            seen.add(solved[1])
            found.append(_word_problem(story, *solved, turn=len(seen)))
    return [item for _, item in sorted(found, key=lambda one: one[0])]


def instructions() -> list[Item]:
    """80 requests with one to three instructions, ordered so that each prefix holds all numbers of instructions."""
    rows = read_rows("instructions")
    made = [
        Item(
            id=f"follow-{digest(row['prompt'])[:6]}",
            task="written:instructions",
            category="Instruction Following",
            prompt=row["prompt"],
            answer=row["instructions"],
            match="instructions",
            tags=(f"difficulty:{row['difficulty']}", f"instructions:{row['difficulty']}"),
            meta={"source": "written for this project"},
        )
        for row in rows
    ]
    return _spread(made, key=lambda item: item.tags[0])


def _drawing(rng: random.Random) -> Draw:
    """Function of (lowest, highest, step) that draws a number; the highest is included."""
    return lambda low, high, step=1: rng.randrange(low, high + 1, step)


def _word_problem(story: Story, problem: str, answer: int, *, turn: int) -> tuple[tuple[float, str], Item]:
    """(Position among the word problems, the item)."""
    item = Item(
        id=f"solve-{digest(problem)[:6]}",
        task="written:math",
        category="Math",
        prompt=f"{problem} {ASK}",
        answer=str(answer),
        match="number",
        cluster=story.name,
        tags=(f"difficulty:{min(story.steps, 3)}", f"steps:{story.steps}"),
        meta={"source": "computed"},
    )
    # All stories take their first turn before any takes its second.
    return ((turn - 0.5) / story.items, digest(story.name)), item


def _spread(made: list[Item], key: Callable[[Item], str]) -> list[Item]:
    """The items in an order in which each value of a key comes at equal distances."""
    groups: dict[str, list[Item]] = {}
    for item in sorted(made, key=lambda item: digest(item.id)):
        groups.setdefault(key(item), []).append(item)
    places = [((n + 0.5) / len(own), name, item) for name, own in groups.items() for n, item in enumerate(own)]
    return [item for _, _, item in sorted(places, key=lambda one: one[:2])]


def _alternating(first: list[Item], second: list[Item]) -> list[Item]:
    """Both lists in one, in which each keeps its order and its share of every prefix."""
    places = [
        ((n + 0.5) / len(own), which, item) for which, own in enumerate((first, second)) for n, item in enumerate(own)
    ]
    return [item for _, _, item in sorted(places, key=lambda one: one[:2])]


def _marbles(n: Draw, one: str, two: str) -> Solved:
    a, b = n(2, 9), n(2, 9)
    problem = f"{one} has {a} marbles and finds {b} more. How many marbles does {one} have now?"
    return problem, a + b


def _bus(n: Draw, one: str, two: str) -> Solved | None:
    a, b = n(12, 48), n(3, 11)
    problem = (
        f"There are {a} people on a bus. At the next stop {b} of them get off and nobody gets on. How many people "
        "are still on the bus?"
    )
    return problem, a - b


def _eggs(n: Draw, one: str, two: str) -> Solved:
    a, b = n(6, 12, 2), n(3, 9)
    return f"A box holds {a} eggs. How many eggs are in {b} full boxes?", a * b


def _cookies(n: Draw, one: str, two: str) -> Solved:
    b, each = n(3, 8), n(2, 9)
    problem = f"{one} shares {b * each} cookies equally among {b} children. How many cookies does each child get?"
    return problem, each


def _pages(n: Draw, one: str, two: str) -> Solved:
    a, b = n(120, 320, 10), n(35, 95)
    problem = f"A book has {a} pages. {one} has read {b} of them. How many pages are left to read?"
    return problem, a - b


def _train(n: Draw, one: str, two: str) -> Solved:
    v, t = n(60, 140, 10), n(2, 6)
    problem = f"A train travels at {v} kilometers per hour for {t} hours. How many kilometers does it travel?"
    return problem, v * t


def _older(n: Draw, one: str, two: str) -> Solved:
    a, b = n(7, 40), n(3, 15)
    problem = f"{one} is {a} years old. {two} is {b} years older than {one}. How old is {two}?"
    return problem, a + b


def _rope(n: Draw, one: str, two: str) -> Solved:
    b, pieces = n(3, 9), n(4, 12)
    problem = (
        f"A rope is {b * pieces} meters long. It is cut into pieces of {b} meters each. How many pieces are there?"
    )
    return problem, pieces


def _tickets(n: Draw, one: str, two: str) -> Solved:
    a, b = n(6, 18), n(3, 8)
    problem = f"A ticket for the museum costs {a} dollars. How many dollars do {b} tickets cost?"
    return problem, a * b


def _class(n: Draw, one: str, two: str) -> Solved:
    a, b = n(22, 32), n(9, 17)
    problem = (
        f"There are {a} students in a class. {b} of them are girls, and the others are boys. How many boys are there?"
    )
    return problem, a - b


def _change(n: Draw, one: str, two: str) -> Solved | None:
    a, p = n(3, 9), n(2, 5)
    problem = (
        f"{one} buys {a} notebooks at {p} dollars each and pays with a 50-dollar bill. How many dollars of change "
        f"does {one} get back?"
    )
    return problem, 50 - a * p


def _trees(n: Draw, one: str, two: str) -> Solved:
    a, b, c = n(4, 9), n(6, 15), n(5, 20)
    problem = (
        f"A farmer has {a} rows of {b} apple trees and plants {c} more apple trees along the road. How many apple "
        "trees does the farmer have then?"
    )
    return problem, a * b + c


def _savings(n: Draw, one: str, two: str) -> Solved | None:
    a, w, c = n(5, 15), n(6, 12), n(15, 45)
    problem = (
        f"{one} saves {a} dollars every week for {w} weeks and then spends {c} dollars on a present. How many "
        "dollars are left?"
    )
    return problem, a * w - c


def _balloons(n: Draw, one: str, two: str) -> Solved | None:
    a, b, c = n(14, 40), n(14, 40), n(4, 8)
    if (a + b) % c:
        return None
    problem = (
        f"There are {a} red and {b} blue balloons. They are tied together in bunches of {c}. How many bunches are "
        "there?"
    )
    return problem, (a + b) // c


def _sale(n: Draw, one: str, two: str) -> Solved | None:
    a, p = n(20, 120, 10), n(10, 40, 10)
    if a * p % 100:
        return None
    problem = (
        f"A jacket costs {a} dollars. In a sale its price is reduced by {p} percent. How many dollars does it cost "
        "in the sale?"
    )
    return problem, a - a * p // 100


def _fence(n: Draw, one: str, two: str) -> Solved | None:
    a, b = n(9, 25), n(4, 12)
    if a <= b:
        return None
    problem = (
        f"A rectangular garden is {a} meters long and {b} meters wide. How many meters of fence are needed to go "
        "all the way around it?"
    )
    return problem, 2 * (a + b)


def _runner(n: Draw, one: str, two: str) -> Solved | None:
    a, b = n(3, 8), n(9, 21)
    problem = (
        f"{one} runs {a} kilometers on each of the five days from Monday to Friday and {b} kilometers on Saturday. "
        f"How many kilometers does {one} run in these six days?"
    )
    return problem, 5 * a + b


def _rice(n: Draw, one: str, two: str) -> Solved | None:
    people, each, guests = n(2, 6), n(60, 90, 5), n(7, 12)
    problem = (
        f"A recipe for {people} people needs {people * each} grams of rice. How many grams of rice are needed for "
        f"{guests} people?"
    )
    return problem, each * guests


def _garage(n: Draw, one: str, two: str) -> Solved:
    a, b, c = n(3, 6), n(40, 80, 5), n(55, 99)
    problem = (
        f"A parking garage has {a} floors with {b} spaces on each floor. {c} spaces are taken. How many spaces are "
        "free?"
    )
    return problem, a * b - c


def _twice(n: Draw, one: str, two: str) -> Solved:
    a, k = n(6, 25), n(3, 12)
    problem = f"{one} is {a} years old, and {two} is twice as old as {one}. How old will {two} be in {k} years?"
    return problem, 2 * a + k


def _shopping(n: Draw, one: str, two: str) -> Solved | None:
    a, b, x, y = n(2, 4), n(5, 9), n(3, 8), n(2, 5)
    problem = (
        f"A pen costs {a} dollars and a notebook costs {b} dollars. {one} has 90 dollars and buys {x} pens and {y} "
        f"notebooks. How many dollars does {one} have left?"
    )
    return problem, 90 - a * x - b * y


def _tank(n: Draw, one: str, two: str) -> Solved:
    r, leak, start, minutes = n(11, 20), n(2, 6), n(20, 90, 10), n(6, 30)
    problem = (
        f"A tank already holds {start} liters of water. Every minute {r} liters flow in and {leak} liters leak "
        f"out. After how many minutes does the tank hold {start + minutes * (r - leak)} liters?"
    )
    return problem, minutes


def _reading(n: Draw, one: str, two: str) -> Solved:
    a, b = n(12, 30), n(4, 15)
    problem = (
        f"{one} reads {a} pages on Monday, {b} pages more than that on Tuesday, and on Wednesday twice as many "
        f"pages as on Tuesday. How many pages does {one} read on the three days together?"
    )
    return problem, a + (a + b) + 2 * (a + b)


def _wages(n: Draw, one: str, two: str) -> Solved:
    a, more, t = n(12, 20), n(4, 9), n(33, 42)
    problem = (
        f"{one} earns {a} dollars an hour for the first 30 hours of a week and {a + more} dollars for every "
        f"further hour. This week {one} worked {t} hours. How many dollars did {one} earn?"
    )
    return problem, 30 * a + (t - 30) * (a + more)


def _oranges(n: Draw, one: str, two: str) -> Solved | None:
    a, b, c, d = n(4, 9), n(15, 30), n(5, 25), n(5, 9)
    if (a * b - c) % d:
        return None
    problem = (
        f"A shop receives {a} boxes with {b} oranges each. {c} oranges are rotten and are thrown away. The others "
        f"are packed in bags of {d}. How many bags are there?"
    )
    return problem, (a * b - c) // d


def _film(n: Draw, one: str, two: str) -> Solved | None:
    start, film, pause = n(5, 55, 5), n(80, 130, 5), n(10, 25, 5)
    if not 5 <= start + film + pause - 120 <= 55:
        return None
    problem = (
        f"A film starts at 18:{start:02} and lasts {film} minutes. In the middle there is a break of {pause} "
        "minutes. How many minutes after 20:00 does the show end?"
    )
    return problem, start + film + pause - 120


def _average(n: Draw, one: str, two: str) -> Solved | None:
    a, b, c, mean = n(60, 90), n(60, 90), n(60, 90), n(70, 88)
    last = 4 * mean - a - b - c
    if not 50 <= last <= 100:
        return None
    problem = (
        f"{one} scored {a}, {b} and {c} points in three tests. How many points does {one} need in the fourth test "
        f"for an average of exactly {mean} points over the four tests?"
    )
    return problem, last


def _school(n: Draw, one: str, two: str) -> Solved | None:
    a, p = n(200, 800, 40), n(10, 60, 10)
    play = a * p // 100
    if a * p % 100 or play % 4:
        return None
    problem = (
        f"A school has {a} students, and {p} percent of them play an instrument. A quarter of those who play an "
        "instrument play the piano. How many of those who play an instrument do not play the piano?"
    )
    return problem, play - play // 4


def _trip(n: Draw, one: str, two: str) -> Solved | None:
    v, w, first, second, rest = n(60, 120, 20), n(40, 100, 20), n(60, 300, 20), n(40, 200, 20), n(10, 40, 5)
    if v == w or first * 60 % v or second * 60 % w:
        return None
    minutes = first * 60 // v + rest + second * 60 // w
    problem = (
        f"{one} drives {first} kilometers at {v} kilometers per hour, rests for {rest} minutes, and then drives "
        f"{second} kilometers at {w} kilometers per hour. How many minutes does the whole trip take?"
    )
    return problem, minutes


def _baker(n: Draw, one: str, two: str) -> Solved | None:
    a, b, c, d = n(6, 14), n(12, 24, 2), n(10, 40), n(4, 8)
    left = a * b // 2 - c
    if left <= 0 or left % d:
        return None
    problem = (
        f"A baker bakes {a} trays of {b} rolls each. The baker sells half of the rolls in the morning and {c} "
        f"rolls in the afternoon, and puts the remaining rolls into bags of {d}. How many bags does the baker fill?"
    )
    return problem, left // d


def _ages(n: Draw, one: str, two: str) -> Solved:
    k, y, age = n(3, 5), n(4, 10), n(5, 12)
    problem = (
        f"{one} is {k} times as old as {two}. In {y} years their ages will add up to {(k + 1) * age + 2 * y}. How "
        f"old is {two} now?"
    )
    return problem, age


def _gate(n: Draw, one: str, two: str) -> Solved | None:
    a, b, gate, c, d = n(15, 30), n(6, 14), n(2, 4), n(6, 14), n(90, 180, 10)
    problem = (
        f"A rectangular field is {a} meters long and {b} meters wide. It gets a fence all around, except for a "
        f"gate that is {gate} meters wide. The fence costs {c} dollars per meter, and the gate costs {d} dollars. "
        "How many dollars do fence and gate cost together?"
    )
    return problem, (2 * (a + b) - gate) * c + d


def _farm(n: Draw, one: str, two: str) -> Solved:
    cows, hens = n(4, 15), n(6, 25)
    problem = (
        f"There are only cows and chickens in a barn. Together they have {cows + hens} heads and "
        f"{4 * cows + 2 * hens} legs. How many cows are there?"
    )
    return problem, cows


def _phone(n: Draw, one: str, two: str) -> Solved:
    base, free, cents, over = n(8, 20), n(100, 300, 50), n(5, 15), n(12, 60)
    problem = (
        f"A phone plan costs {base} dollars a month and includes {free} minutes of calls. Every further minute "
        f"costs {cents} cents. Last month {one} called for {free + over} minutes. How many cents did {one} pay for "
        "that month?"
    )
    return problem, 100 * base + over * cents


def _pumps(n: Draw, one: str, two: str) -> Solved:
    a, b, alone, both = n(200, 600, 50), n(150, 500, 50), n(2, 5), n(2, 7)
    problem = (
        f"Pump A fills {a} liters per hour, and pump B fills {b} liters per hour. Pump A runs alone for {alone} "
        f"hours. Then both pumps run until there are {a * alone + (a + b) * both} liters in the pool, which was "
        "empty at the start. How many hours does pump A run in all?"
    )
    return problem, alone + both


def _lamps(n: Draw, one: str, two: str) -> Solved | None:
    a, cost, c, price = n(10, 30), n(8, 20), n(6, 25), n(24, 50, 2)
    if c >= a:
        return None
    profit = c * price + (a - c) * price // 2 - a * cost
    problem = (
        f"A shop buys {a} lamps for {cost} dollars each. It sells {c} of them for {price} dollars each and the "
        "others for half of that price. How many dollars of profit does the shop make?"
    )
    return problem, profit


def _stories(steps: int, items: int, *written: Write) -> tuple[Story, ...]:
    """Stories named after their functions."""
    return tuple(
        Story(name=f"story: {write.__name__.removeprefix('_')}", steps=steps, items=items, write=write)
        for write in written
    )


STORIES: Final = (
    *_stories(1, 3, _marbles, _bus, _eggs, _cookies, _pages, _train, _older, _rope, _tickets, _class),
    *_stories(2, 3, _change, _trees, _savings, _balloons, _sale, _fence, _runner, _rice, _garage, _twice),
    *_stories(3, 3, _tank, _oranges, _film, _school),
    *_stories(4, 3, _shopping, _reading, _wages, _average),
    *_stories(4, 2, _baker, _ages, _farm, _phone),
    *_stories(5, 2, _trip, _gate, _pumps, _lamps),
)
"""The word problems, from one step to five."""
