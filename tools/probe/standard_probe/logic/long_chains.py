"""Logic: three premises or steps and more, for every topic; questions that a large model can lose."""

from __future__ import annotations

import calendar
import datetime
import itertools
import random

from standard_probe.drafts import Draft, Plan, numeric, worded
from standard_probe.logic.classes import NOUNS
from standard_probe.logic.dates import DAYS, MONTHS, clock, duration
from standard_probe.logic.grids import cell
from standard_probe.logic.groups import kin

NAMES = ("Ada", "Bill", "Cora", "Dean", "Elsa", "Finn", "Gwen", "Hugh", "Ivy", "Joel", "Kate", "Liam", "Mona", "Nils")


def _excluded(rng: random.Random, turn: int) -> Draft:
    """Three premises keep one class out of another; two of the people are of classes that nothing is said of."""
    a, b, c, d, e, f = rng.sample(NOUNS, 6)
    people = rng.sample(NAMES, 4)
    premises = [f"All {a}s are {b}s.", f"No {b} is a {c}.", f"All {d}s are {c}s."]
    first, asked = ((a, d), (d, a))[turn % 2]
    kinds = zip(people, (first, asked, e, f), strict=True)
    listed = [f"{person} is a {kind}" for person, kind in kinds]
    said = f"{' '.join(rng.sample(premises, 3))} {', '.join(rng.sample(listed, 4))}."
    prompt = f"{said} Which of the four is certainly not a {asked}?"
    return worded(prompt, people[0], rng.sample(people[1:], 3), uses=said)


def _lamp_tree(rng: random.Random, turn: int) -> Draft:
    """Rules between six lamps that branch; from one lamp that is on and one that is off others follow."""
    letters = rng.sample("ABCDEF", 6)
    links = [(letters[rng.randrange(i)], letters[i]) for i in range(1, 6)]
    on, off = rng.sample(letters, 2)
    lit, dark = {on}, {off}
    for _ in range(6):
        lit |= {b for a, b in links if a in lit}
        dark |= {a for a, b in links if b in dark}
    if lit & dark or len(lit | dark) == 6:
        return _lamp_tree(rng, turn)
    rules = " ".join(f"If lamp {a} is on, lamp {b} is on." for a, b in rng.sample(links, 5))
    prompt = (
        f"Six lamps are wired so: {rules} Lamp {on} is on, and lamp {off} is off. "
        "Of how many lamps, these two included, does one know whether they are on or off?"
    )
    return numeric(prompt, len(lit | dark), uses=f"{rules} {on}{off}")


ENDS = (("taller", "shorter"), ("older", "younger"), ("richer", "poorer"), ("faster", "slower"))


def _middle(rng: random.Random, turn: int) -> Draft:
    """An order of five, told by comparisons in both directions."""
    people, (more, less) = rng.sample(NAMES, 5), rng.choice(ENDS)
    told = [
        f"{a} is {more} than {b}." if rng.random() < 0.5 else f"{b} is {less} than {a}."
        for a, b in itertools.pairwise(people)
    ]
    said = " ".join(rng.sample(told, 4))
    number, place = (("two", 2), ("three", 3), ("one", 1))[turn % 3]
    verb = "person is" if place == 1 else "people are"
    prompt = f"{said} Of the five, exactly {number} {verb} {more} than whom?"
    return worded(prompt, people[place], [p for p in rng.sample(people, 5) if p != people[place]], uses=said)


STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""North, east, south, west."""


def _turning_walk(rng: random.Random, turn: int) -> Draft:
    facing, x, y = rng.randrange(4), 0, 0
    start, parts = ("north", "east", "south", "west")[facing], []
    for i in range(4):
        length = rng.randint(3, 20)
        x, y = x + STEPS[facing][0] * length, y + STEPS[facing][1] * length
        way = rng.choice(("left", "right"))
        facing = (facing + (1 if way == "right" else -1)) % 4
        parts.append(f"goes {length} m" + (f", turns {way}" if i < 3 else ""))
    if (x == 0) == (y == 0):
        return _turning_walk(rng, turn)
    prompt = f"A robot faces {start}, {', '.join(parts)}. How many meters is it from its start?"
    return numeric(prompt, abs(x + y), uses=f"{start} {parts}")


THINGS = ("the red ball", "the blue book", "the green cup", "the white hat", "the black bag")


def _many_swaps(rng: random.Random, turn: int) -> Draft:
    people, things = rng.sample(NAMES, 5), rng.sample(THINGS, 5)
    holds = dict(zip(people, things, strict=True))
    first = ", ".join(f"{person} has {thing}" for person, thing in holds.items())
    swaps: list[tuple[str, str]] = []
    while len(swaps) < 7:
        a, b = rng.sample(people, 2)
        if not swaps or {a, b} != set(swaps[-1]):
            swaps.append((a, b))
            holds[a], holds[b] = holds[b], holds[a]
    told = " ".join(f"{a} and {b} swap what they have." for a, b in swaps)
    right = rng.choice(people)
    prompt = f"At first, {first}. {told} Who has {holds[right]} in the end?"
    return worded(prompt, right, [p for p in rng.sample(people, 5) if p != right], uses=f"{first} {told}")


def _two_liars(rng: random.Random, turn: int) -> Draft:
    """Five people who each speak of another, such that one pair of liars fits, and one of the liars is sought."""
    people = rng.sample(NAMES, 5)
    liars = set(rng.sample(people, 2))
    said = []
    for person in people:
        other = rng.choice([someone for someone in people if someone != person])
        said.append((person, other, (other in liars) == (person in liars)))
    fits = [
        pair
        for pair in itertools.combinations(people, 2)
        if all((claim == (other not in pair)) == (me not in pair) for me, other, claim in said)
    ]
    if len(fits) != 1:
        return _two_liars(rng, turn)
    lines = " ".join(f'{me} says: "{other} {"tells the truth" if claim else "lies"}."' for me, other, claim in said)
    known, right = rng.sample(sorted(liars), 2)
    prompt = (
        f"Of five people exactly two always lie, and the others always tell the truth. {lines} {known} is one of the "
        "two who lie. Who is the other?"
    )
    return worded(prompt, right, [p for p in rng.sample(people, 5) if p not in (known, right)], uses=lines)


def _nested(rng: random.Random, turn: int) -> Draft:
    m, n, sign = rng.randint(2, 4), rng.randint(2, 4), rng.choice("#@&")
    a, b, c = rng.sample(range(2, 9), 3)
    left = turn % 2 == 0
    right = m * (m * a + n * b) + n * c if left else m * a + n * (m * b + n * c)
    core = f"({a} {sign} {b}) {sign} {c}" if left else f"{a} {sign} ({b} {sign} {c})"
    prompt = rng.choice(
        (
            f"If x {sign} y means {m}x + {n}y, what is {core}?",
            f"A new sign is agreed on: x {sign} y means {m}x + {n}y. What is {core}?",
        )
    )
    return numeric(prompt, right, uses=f"{m},{n} {core}")


def _weekday_of_date(rng: random.Random, turn: int) -> Draft:
    """A weekday some months later; the year has no leap day between the two dates."""
    start = datetime.date(2023, rng.choice((3, 4, 5, 6, 7)), rng.randint(2, 27))
    end = start + datetime.timedelta(rng.randint(45, 110))
    if (end - start).days % 7 == 0:
        return _weekday_of_date(rng, turn)
    first = rng.randrange(7)
    right = DAYS[(first + (end - start).days) % 7]
    shown, asked = (f"{MONTHS[date.month - 1]} {date.day}" for date in (start, end))
    prompt = f"If {shown} is a {DAYS[first]}, what weekday is {asked} of the same year?"
    wrong = [day for day in calendar.day_name if day not in (right, DAYS[first])]
    return worded(prompt, right, rng.sample(wrong, 5), uses=f"{shown} {DAYS[first]} {asked}")


def _two_flights(rng: random.Random, turn: int) -> Draft:
    here, ahead = rng.randint(6 * 60, 10 * 60), rng.choice((-5, -4, -3, -2, 2, 3, 4, 5))
    one, two = (rng.randint(2, 4) * 60 + rng.choice((15, 25, 35, 50)) for _ in range(2))
    wait = rng.choice((45, 55, 70, 85, 100))
    word = f"{abs(ahead)} hours {'ahead of' if ahead > 0 else 'behind'}"
    prompt = (
        f"A plane leaves city A at {clock(here)} local time and flies for {duration(one)}. After a stop of {wait} "
        f"minutes it flies on for {duration(two)} to city B, whose clocks are {word} those of A. "
        "What is the local time on arrival?"
    )
    return numeric(prompt, here + one + wait + two + ahead * 60, uses=f"{here},{one},{wait},{two},{ahead}", form=clock)


LANGUAGES = ("French", "Polish", "Arabic", "Korean", "German")


def _three_groups(rng: random.Random, turn: int) -> Draft:
    """Three groups that overlap, told by their sizes and common parts."""
    regions = {parts: rng.randint(1, 12) for size in (1, 2, 3) for parts in itertools.combinations(range(3), size)}
    neither = rng.randint(1, 12)
    total = sum(regions.values()) + neither

    def common(*parts: int) -> int:
        return sum(count for region, count in regions.items() if set(parts) <= set(region))

    a, b, c = rng.sample(LANGUAGES, 3)
    prompt = (
        f"Of {total} people {common(0)} speak {a}, {common(1)} {b} and {common(2)} {c}; {common(0, 1)} speak both {a} "
        f"and {b}, {common(0, 2)} both {a} and {c}, {common(1, 2)} both {b} and {c}, and {common(0, 1, 2)} all three. "
        "How many speak none of the three?"
    )
    return numeric(prompt, neither, uses=prompt)


def _nested_loops(rng: random.Random, turn: int) -> Draft:
    n, m, limit = rng.randint(3, 5), rng.randint(3, 6), rng.randint(3, 6)
    code = (
        f"count = 0\nfor i in range(1, {n + 1}):\n    for j in range(1, {m + 1}):\n"
        f"        if i + j > {limit}:\n            count = count + i\nprint(count)"
    )
    right = sum(i for i in range(1, n + 1) for j in range(1, m + 1) if i + j > limit)
    return numeric(f"What does this Python code print?\n{code}", right, uses=code)


THREE_STEPS = (("child", "child", "sibling"), ("sibling", "parent", "parent"), ("parent", "parent", "parent"))

TOPICS: dict[str, Plan] = {
    "syllogisms": ((_excluded, 4, 3),),
    "conditionals": ((_lamp_tree, 4, 3),),
    "orderings": ((_middle, 4, 3),),
    "directions": ((_turning_walk, 4, 3),),
    "tracking": ((_many_swaps, 4, 3),),
    "truth": ((_two_liars, 4, 3),),
    "invented rules": ((_nested, 4, 3),),
    "calendars": ((_weekday_of_date, 4, 3),),
    "time": ((_two_flights, 4, 3),),
    "grids": ((cell(5), 4, 3),),
    "sets": ((_three_groups, 4, 3),),
    "families": ((kin(THREE_STEPS), 4, 3),),
    "code results": ((_nested_loops, 4, 3),),
}
