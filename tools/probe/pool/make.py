"""Questions with a dial: computed keys, eight levels, and frames that vary the words; the lists of the probe `ladder`.

    python tools/probe/pool/make.py FOLDER [--seed 0]

The three lists have levels 1 to 3, 4 and 5, and 6 to 8. Each has 400 questions of `standard` too.

Each kind is a function of a level from 1 to 8 and a random generator that gives questions: words with a frame, the
right option, and wrong ones of the same form. Nothing is copied: keys are computed, and the chains of facts are
composed from the tables in `tools/probe/standard_probe/facts`.

The place of the right option is balanced, the rank of a right number among its options is uniform, and of the four
answers of a chain of facts each is asked for equally often. Options that are numbers are tens apart, and people who
are compared are named equally often. `shortcuts.py` measures what the options alone and some shortcuts tell.

    kind        category            question                                        level
    state       Tracking            who holds what after some exchanges             number of exchanges
    program     Programs            what a short program prints                     number of statements
    chain       Arithmetic          a number after some operations                  number of operations, and sizes
    units       Arithmetic          how many parts in a whole of parts              length of the chain, and sizes
    order       Sorting             the n-th of a list of numbers or words          length of the list
    date        Dates               the date or weekday some days away              reach in days
    events      Facts in steps      which of four events came first, second, ...    years between them
    facts       Facts in steps      chains of one or two facts (to level 5)         length of the chain, and how known
    reading     Reading             one or two facts of a text among others         length of the text
    compared    Six languages       who does more of something, from comparisons    number of people
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from forgetwatch.item import Item
from forgetwatch.probes.shipped_probes import interleave, shipped_probe

FACTS: Final = Path(__file__).parent.parent / "standard_probe" / "facts"
LEVELS: Final = range(1, 9)
PEOPLE: Final = tuple(
    "Anna Boris Clara David Elena Farid Greta Hugo Irene Jonas Karin Liam".split()
)
SURNAMES: Final = tuple(
    "Adler Berg Costa Dahl Eker Fonti Grau Holm Ivers Jansen Keller Lind Moreau Novak Orsini Prado Quist Rossi Sand "
    "Torres".split()
)
THINGS: Final = tuple("ball book coin cup drum flag key lamp map pen ring shell".split())
OWNED: Final = tuple(
    "bicycle boat camera clock drum flute globe guitar kite lamp mirror parrot piano tent".split()
)
STREETS: Final = tuple(
    f"{name} Street"
    for name in "Mill Oak Lake Church Bridge Hill Station Garden River Park School Market".split()
)
PLACES: Final = tuple(
    "garden kitchen library market museum office school station theatre workshop".split()
)
WARES: Final = tuple(
    "apples bread butter candles chairs cheese eggs flour gloves honey ink jam lemons milk nails onions paper pears "
    "rice rope salt soap sugar tea wool".split()
)
NTH: Final = tuple(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
)


class Question(NamedTuple):
    """A question with its options; `frame` names its words, `text` what stands before it.

    Questions of one `about` are dependent: of one text, event or description.
    """

    frame: int
    asked: str
    right: str
    wrong: tuple[str, ...]
    text: str = ""
    labels: tuple[str, str] = ("Question", "Answer")
    about: str = ""


Rng = np.random.Generator


def _choice(rng: Rng, values: Sequence[Any], count: int) -> list[Any]:
    return [values[index] for index in rng.permutation(len(values))[:count]]


def _one(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _around(rng: Rng, ordered: Sequence[Any], right: Any) -> tuple[str, ...] | None:
    """Return three neighbours of a value in an order; the rank of the right one is uniform. None if there are not."""
    rank, place = int(rng.integers(4)), ordered.index(right)
    if place < rank or place + 3 - rank >= len(ordered):
        return None
    return tuple(
        str(ordered[index]) for index in range(place - rank, place + 4 - rank) if index != place
    )


def state(level: int, rng: Rng) -> Question:
    """Exchange things between people, and ask who has one of them, or what one of them has."""
    people, things = _choice(rng, PEOPLE, 4), _choice(rng, THINGS, 4)
    holds = dict(zip(people, things, strict=True))
    starts = (
        "at first {0} has the {1}",
        "{0} begins with the {1}",
        "{0} brings the {1}",
        "the {1} is with {0} at first",
    )
    swaps = (
        "{0} and {1} exchange what they have.",
        "Then {0} trades with {1}.",
        "Next, {0} swaps with {1}.",
        "{0} and {1} each take what the other one has.",
        "{0} gives {1} what {0} has, and gets what {1} has.",
    )
    start, swap = int(rng.integers(len(starts))), int(rng.integers(len(swaps)))
    told = "; ".join(starts[start].format(who, what) for who, what in holds.items())
    lines = [f"{told[0].upper()}{told[1:]}."]
    for _ in range((1, 2, 3, 4, 5, 7, 10, 14)[level - 1]):
        one, other = _choice(rng, people, 2)
        holds[one], holds[other] = holds[other], holds[one]
        lines.append(swaps[swap].format(one, other))
    who = _one(rng, people)
    others = [one for one in people if one != who]
    if by_person := bool(rng.integers(2)):
        lines.append(f"Who has the {holds[who]} now?")
        right, wrong = who, others
    else:
        lines.append(f"What does {who} have now?")
        right, wrong = f"the {holds[who]}", [f"the {holds[one]}" for one in others]
    return Question(start * 10 + swap * 2 + by_person, " ".join(lines), right, tuple(wrong))


def chain(level: int, rng: Rng) -> Question:
    """Apply some operations to a number."""
    begins = (
        "Start with {0}.",
        "Take the number {0}.",
        "Think of {0}.",
        "Write down {0}.",
        "A counter shows {0}.",
    )
    words = (
        {"+": "Add {0}.", "-": "Subtract {0}.", "*": "Multiply by {0}."},
        {
            "+": "Increase it by {0}.",
            "-": "Decrease it by {0}.",
            "*": "Make it {0} times as large.",
        },
        {
            "+": "Add {0} to what you have.",
            "-": "Take {0} away.",
            "*": "Multiply what you have by {0}.",
        },
        {"+": "Plus {0}.", "-": "Minus {0}.", "*": "Times {0}."},
    )
    begin, word = int(rng.integers(len(begins))), int(rng.integers(len(words)))
    by_most = (1, 5, 9, 19, 19, 19, 49, 99)[level - 1]
    value = int(rng.integers(20, 100))
    lines = [begins[begin].format(value)]
    for _ in range((1, 1, 1, 2, 3, 5, 7, 10)[level - 1]):
        multiplies = level > 3 and abs(value) < 100 and rng.integers(3) == 0
        sign = "*" if multiplies else "+" if value <= by_most or rng.integers(2) else "-"
        by = int(rng.integers(2, 5)) if multiplies else int(rng.integers(1, by_most + 1))
        value = value + by if sign == "+" else value - by if sign == "-" else value * by
        lines.append(words[word][sign].format(by))
    return Question(begin * 4 + word, " ".join([*lines, "What is the result?"]), str(value), ())


def program(level: int, rng: Rng) -> Question:
    """Run a short program, and ask what it prints."""
    one, other = _choice(rng, ("a", "b", "c", "n", "x", "y", "total", "count"), 2)
    values = {one: int(rng.integers(1, 60)), other: int(rng.integers(1, 60))}
    lines = [f"{name} = {value}" for name, value in values.items()]
    for _ in range((1, 2, 3, 4, 5, 7, 9, 12)[level - 1]):
        name, source = _choice(rng, [one, other], 2)
        form, by = int(rng.integers(5)), int(rng.integers(2, 5))
        if form == 0 and values[source] < 90:
            lines.append(f"{name} = {name} + {source}")
            values[name] += values[source]
        elif form in (0, 1):
            lines.append(f"{name} += {by}")
            values[name] += by
        elif form == 2:
            lines.append(f"{one}, {other} = {other}, {one}")
            values[one], values[other] = values[other], values[one]
        elif form == 3:
            lines += [f"if {name} > {source}:", f"    {name} -= {by}"]
            values[name] -= by if values[name] > values[source] else 0
        else:
            lines += [f"for _ in range({by}):", f"    {name} += 2"]
            values[name] += 2 * by
    asks = (
        "What does this program print?",
        "What is printed when this code runs?",
        "This Python code runs. What is its output?",
        "Read the code. Which number does it print?",
    )
    shown = {
        f"print({one})": values[one],
        f"print({other})": values[other],
        f"print({one} + {other})": values[one] + values[other],
        f"print({other} - {one})": values[other] - values[one],
        f"print(2 * {one})": 2 * values[one],
    }
    ask, last = int(rng.integers(len(asks))), int(rng.integers(2 if level < 2 else len(shown)))
    line, right = list(shown.items())[last]
    return Question(ask * 5 + last, "\n".join([asks[ask], *lines, line]), str(right), ())


def order(level: int, rng: Rng) -> Question | None:
    """Ask for the n-th of a list of numbers or words."""
    size, framed = (4, 5, 6, 7, 8, 10, 12, 15)[level - 1], int(rng.integers(20))
    is_word, down = framed >= 10, bool(framed % 2)
    listed = _choice(rng, WARES if is_word else range(10, 100), size)
    ranked = sorted(listed, reverse=down)
    right = _one(rng, ranked)
    wrong, place = _around(rng, ranked, right), ranked.index(right)
    if wrong is None or place >= len(NTH):
        return None
    begin = ("{0}.", "A list: {0}.", "Look at {0}.", "Sort {0}.", "On a sheet stand {0}.")[
        framed // 2 % 5
    ]
    if is_word:
        asked = f"Which comes {NTH[place]} in {'reverse ' if down else ''}alphabetical order?"
    else:
        nth = "" if place == 0 else f"{NTH[place]} "
        asked = f"Which is the {nth}{'largest' if down else 'smallest'}?"
    listing = begin.format(", ".join(map(str, listed)))
    return Question(framed, f"{listing} {asked}", str(right), wrong)


def date(level: int, rng: Rng) -> Question:
    """Count days forwards or backwards."""
    reach = (1, 2, 4, 6, 13, 30, 100, 400)[level - 1]
    start = datetime.date(2001 + int(rng.integers(60)), 1, 1) + datetime.timedelta(
        days=int(rng.integers(365))
    )
    by = int(rng.integers(max(1, reach // 2), reach + 1)) * (1 if rng.integers(2) else -1)
    by += by % 7 == 0  # after whole weeks the weekday of the question would be the answer
    end = start + datetime.timedelta(days=by)
    ahead = f"{abs(by)} day{'s' if abs(by) > 1 else ''} {'after' if by > 0 else 'before'}"
    framed = int(rng.integers(20))

    def named(day: datetime.date) -> str:
        return f"{day:%B} {day.day}, {day.year}"

    if framed < 10:
        frames = (
            "Today is a {0}. Which weekday is {1} today?",
            "It is {0}. Which day of the week is {1} today?",
            "A trip begins on a {0}. Which weekday is {1} its first day?",
            "A letter arrives on a {0}. Which weekday is {1} its arrival?",
            "The course starts on a {0}. Which day of the week is {1} the start?",
            "The shop opens on a {0}. Which weekday is {1} that day?",
            "She was born on a {0}. Which weekday is {1} her birth?",
            "The game is on a {0}. Which day of the week is {1} the game?",
            "The film opens on a {0}. Which weekday is {1} the opening?",
            "The bill came on a {0}. Which weekday is {1} that day?",
        )
        right = f"{end:%A}"
        others = [f"{end + datetime.timedelta(days=shift):%A}" for shift in range(1, 7)]
        return Question(
            framed,
            frames[framed].format(f"{start:%A}", ahead),
            right,
            tuple(_choice(rng, others, 3)),
        )
    frames = (
        "Which date is {1} {0}?",
        "What is the date {1} {0}?",
        "A contract is signed on {0}. Which date is {1} that day?",
        "The ship leaves on {0}. Which date is {1} its departure?",
        "The exam is on {0}. What is the date {1} the exam?",
        "A book is due on {0}. Which date is {1} that day?",
        "The house is sold on {0}. Which date is {1} the sale?",
        "The concert is on {0}. Which date is {1} the concert?",
        "Look up {0} in a calendar. Which date is {1} that day?",
        "The seeds are sown on {0}. Which date is {1} that day?",
    )
    days = [end + datetime.timedelta(days=shift) for shift in range(-3, 4)]
    wrong = _around(rng, [named(day) for day in days], named(end)) or ()
    return Question(framed, frames[framed - 10].format(named(start), ahead), named(end), wrong)


def units(level: int, rng: Rng) -> Question:
    """Multiply along a chain of wholes and parts."""
    chains = (
        ("lorries", "crates", "boxes", "bags", "apples"),
        ("towns", "streets", "houses", "rooms", "lamps"),
        ("libraries", "halls", "shelves", "rows", "books"),
        ("schools", "classes", "tables", "pupils", "pencils"),
        ("fleets", "ships", "decks", "cabins", "beds"),
        ("farms", "fields", "rows", "trees", "birds"),
        ("hotels", "floors", "corridors", "rooms", "chairs"),
        ("albums", "pages", "strips", "photos", "stickers"),
        ("parks", "gardens", "flower beds", "plants", "flowers"),
        ("trains", "carriages", "compartments", "benches", "seats"),
    )
    framed = int(rng.integers(20))
    length, most = (1, 1, 1, 2, 2, 3, 3, 4)[level - 1], (9, 13, 19, 9, 14, 7, 9, 9)[level - 1]
    start = int(rng.integers(0, 5 - length))
    used = chains[framed // 2][start : start + length + 1]
    counts = [int(rng.integers(2, most + 1)) for _ in range(length + 1)]
    each = ("Each of the {0} has {2} {1}.", "For each of the {0} there are {2} {1}.")[framed % 2]
    lines = [f"There are {counts[0]} {used[0]}."]
    lines += [
        each.format(used[index], used[index + 1], counts[index + 1]) for index in range(length)
    ]
    right = math.prod(counts)
    asked = " ".join([*lines, f"How many {used[-1]} are there in all?"])
    return Question(framed, asked, str(right), ())


class Fact(NamedTuple):
    """A row of a table of facts."""

    subject: str
    answer: str
    difficulty: int


DISPUTED: Final = frozenset(
    {
        *("the ukulele", "ukulele", "the duduk", "duduk", "the tango", "Mount Ararat", "Ararat"),
        *(
            "the Hungarian uprising",
            "the Iranian Revolution",
            "the Iranian Constitutional Revolution",
        ),
        "the Declaration of Independence",
    }
)
"""Subjects that several countries claim, and events of whose names there are two."""


@cache
def _table(file: str, relation: str) -> list[Fact]:
    """Return the facts of a relation that have one answer, against which any other of the relation is wrong."""
    with (FACTS / file).open(newline="", encoding="utf-8") as opened:
        rows = [row for row in csv.DictReader(opened) if row["relation"] == relation]
    return [
        Fact(row["subject"], row["answer"], int(row["difficulty"]))
        for row in rows
        if not row["also"] and not row["wrong"] and row["subject"] not in DISPUTED
    ]


@cache
def _years() -> dict[str, int]:
    rows = [*_table("events.csv", "event"), *_table("liberal_arts.csv", "event_year")]
    return {fact.subject: int(fact.answer) for fact in rows}


def events(level: int, rng: Rng) -> Question | None:
    """Ask which of four events came first, second, third or last."""
    most, least = (
        (4000, 300),
        (300, 200),
        (200, 130),
        (130, 80),
        (80, 50),
        (50, 30),
        (30, 15),
        (15, 4),
    )[level - 1]
    year = _years()
    four, rank = _choice(rng, sorted(year), 4), int(rng.integers(4))
    ranked = sorted(four, key=year.__getitem__)
    gaps = [year[later] - year[earlier] for earlier, later in itertools.pairwise(ranked)]
    if not least <= min(gaps) < most:  # of all four, or who stands apart would be asked for
        return None
    word = ("first", "second", "third", "last")[rank]
    frames = (
        "Which of these came {0}: {1}?",
        "Which of these events was the {0} one: {1}?",
        "What happened {0}: {1}?",
        "In the course of history, which was {0}: {1}?",
        "Which of the following took place {0}: {1}?",
        "Sort by year. Which comes {0}: {1}?",
        "On a time line, which stands {0}: {1}?",
        "Four events: {1}. Which was {0}?",
        "Of {1}, which was {0}?",
        "Think of the years of {1}. Which is {0}?",
    )
    frame = int(rng.integers(len(frames)))
    joined = f"{', '.join(four[:3])} {'and' if frame > 6 else 'or'} {four[3]}"
    wrong = tuple(event for event in ranked if event != ranked[rank])
    asked = frames[frame].format(word, joined)
    return Question(frame * 4 + rank, asked, ranked[rank], wrong, about=f"event:{ranked[rank]}")


class Chain(NamedTuple):
    """A question that some facts answer, one after another, from a description on.

    `target` names the relation of the answer.
    """

    asked: str
    answer: str
    target: str
    facts: int
    difficulty: int
    begins: str


@cache
def chains() -> tuple[Chain, ...]:
    """Return all chains of one and two facts."""
    capitals = _table("knowledge.csv", "capital")
    country_of = {fact.answer: fact for fact in capitals}
    described = {
        "the country where {0} comes from": [
            *_table("culture.csv", "dish"),
            *_table("culture.csv", "dance"),
        ],
        "the country where the {0} is at home": _table("culture.csv", "instrument_home"),
        "the country where {0} stands": _table("knowledge.csv", "mountain"),
        "the country whose flag shows {0}": _table("knowledge.csv", "flag"),
        "the country whose capital is {0}": [
            Fact(fact.answer, fact.subject, fact.difficulty)
            for fact in capitals
            if fact.answer != fact.subject
        ],
    }
    one = []
    for phrase, known in described.items():
        for fact in known:
            named = fact.subject.removeprefix("the ") if " the {0}" in phrase else fact.subject
            one.append(
                Chain(phrase.format(named), fact.answer, "country", 1, fact.difficulty, named)
            )
    rivers = _table("knowledge.csv", "river_capital")
    two = [
        Chain(f"the country whose capital lies on the {river.subject}", country_of[river.answer].subject, "country", 2,
              river.difficulty + 1, river.subject)
        for river in rivers
        if river.answer in country_of
    ]  # fmt: skip
    of_country = {
        "capital": ("the capital of {0}", capitals),
        "currency": ("the currency of {0}", _table("knowledge.csv", "currency")),
        "language": ("the official language of {0}", _table("knowledge.csv", "official_language")),
        "region": ("the part of the world in which {0} lies", _table("knowledge.csv", "continent")),
    }
    made = [*one, *two]
    for target, (phrase, table) in of_country.items():
        by_country = {fact.subject: fact for fact in table}
        made += [
            Chain(
                phrase.format(fact.subject), fact.answer, target, 1, fact.difficulty, fact.subject
            )
            for fact in table
        ]
        made += [
            Chain(phrase.format(way.asked), by_country[way.answer].answer, target, way.facts + 1,
                  way.difficulty + by_country[way.answer].difficulty, way.begins)
            for way in (*one, *two)
            if way.answer in by_country and not ("capital" in way.asked and target == "capital")
        ]  # fmt: skip
    family = {fact.subject: fact for fact in _table("knowledge.csv", "language_family")}
    river_of = {
        fact.answer: fact
        for fact in rivers
        if [other.answer for other in rivers].count(fact.answer) == 1
    }
    for way in list(made):
        if way.target == "language" and way.answer in family:
            last = family[way.answer]
            made.append(Chain(f"the language family of {way.asked}", last.answer, "family", way.facts + 1,
                              way.difficulty + last.difficulty, way.begins))  # fmt: skip
        if way.target == "capital" and way.answer in river_of and "lies on" not in way.asked:
            last = river_of[way.answer]
            made.append(Chain(f"the river that flows through {way.asked}", last.subject, "river", way.facts + 1,
                              way.difficulty + last.difficulty, way.begins))  # fmt: skip
    found = [
        one for one in made if one.facts <= 2 and one.answer.split()[0] not in one.asked.split()
    ]
    return tuple(dict.fromkeys(found))


@cache
def chains_of(level: int) -> dict[str, dict[str, list[Chain]]]:
    """Return the chains of a level by relation and answer: of one fact (levels 1 and 2), or two (to 5)."""
    length, first, levels = (1, 1, 2) if level < 3 else (2, 3, 3)
    ranked = sorted(
        (one for one in chains() if one.facts == length),
        key=lambda one: (one.difficulty, hashlib.sha256(one.asked.encode()).hexdigest()),
    )
    part = ranked[
        (level - first) * len(ranked) // levels : (level - first + 1) * len(ranked) // levels
    ]
    by_target: dict[str, dict[str, list[Chain]]] = defaultdict(lambda: defaultdict(list))
    for one in part:
        by_target[one.target][one.answer].append(one)
    return {
        target: dict(answers) for target, answers in sorted(by_target.items()) if len(answers) >= 4
    }


ASKS: Final = (
    "What is {0}?", "Name {0}.", "Which answer is {0}?", "Give {0}.", "Tell me {0}.", "Find {0}.", "Say what {0} is.",
)  # fmt: skip


def facts(level: int, rng: Rng) -> Iterator[Question]:
    """Follow a chain of one fact (levels 1 and 2), or two (levels 3 to 5), each chain once.

    Four answers of one relation are drawn, and then which of them is asked for, so that each is right equally often.
    """
    left = {target: {answer: _choice(rng, own, len(own)) for answer, own in answers.items()}
            for target, answers in chains_of(level).items()}  # fmt: skip
    while left:
        sizes = np.array([sum(map(len, answers.values())) for answers in left.values()], float)
        target = list(left)[int(rng.choice(len(sizes), p=sizes / sizes.sum()))]
        right, *wrong = _choice(rng, sorted(left[target]), 4)
        chain, ask = left[target][right].pop(), int(rng.integers(len(ASKS)))
        asked, begins = chain.asked, chain.begins
        left[target] = {answer: own for answer, own in left[target].items() if own}
        if len(left[target]) < 4:
            del left[target]
        if asked.startswith("the country") and ask in (0, 6):
            asked = asked.replace("the country", "the name of the country", 1)
        yield Question(
            ask * 3 + (level > 2),
            ASKS[ask].format(asked),
            right,
            tuple(wrong),
            about=f"description:{begins}",
        )


HOMES: Final = (
    "{0} lives in {1}.",
    "The home of {0} is in {1}.",
    "{0} is at home in {1}.",
    "{1} is where {0} lives.",
)
OWNS: Final = (
    "{0} owns a {1}.",
    "A {1} belongs to {0}.",
    "{0} likes to show a {1} to visitors.",
    "{0} has had a {1} for years.",
    "There is a {1} in the room of {0}.",
)


class Town(NamedTuple):
    """People with their streets, things and places of work, and a text that tells of them."""

    text: str
    frame: int
    people: list[str]
    homes: list[str]
    things: list[str]


def town(level: int, rng: Rng) -> Town:
    """Return a text of about 30 to 4,000 words."""
    count = (3, 5, 8, 15, 30, 55, 110, 210)[level - 1]
    people = _choice(
        rng, [f"{first} {last}" for first in PEOPLE for last in SURNAMES], max(count, 4)
    )
    # So that neither a street nor a thing alone tells who is asked for.
    few = max(4 if level < 3 else 2, len(people) // 2)
    homes, things, works = (
        [some[index % len(some)] for index in rng.permutation(len(people))]
        for some in (_choice(rng, values, few) for values in (STREETS, OWNED, PLACES))
    )
    home, own = int(rng.integers(len(HOMES))), int(rng.integers(len(OWNS)))
    lines = [HOMES[home].format(one, street) for one, street in zip(people, homes, strict=True)]
    lines += [OWNS[own].format(one, thing) for one, thing in zip(people, things, strict=True)]
    lines += (
        [f"{one} works in the {place}." for one, place in zip(people, works, strict=True)]
        if level > 2
        else []
    )
    return Town(" ".join(_choice(rng, lines, len(lines))), home * 5 + own, people, homes, things)


def read(level: int, rng: Rng, told: Town) -> Question | None:
    """Ask about one fact of a text (levels 1 and 2), or for the one who fits two of them."""
    _, frame, people, homes, things = told
    index = int(rng.integers(len(people)))
    if level < 3:
        right = homes[index]
        wrong = _choice(rng, sorted({home for home in homes if home != right}), 3)
        asked = f"In which street does {people[index]} live?"
        return Question(frame, asked, right, tuple(wrong), told.text, about=told.text)
    whole = list(zip(homes, things, strict=True))
    if whole.count(whole[index]) > 1:
        return None
    home, thing = whole[index]
    at_home = [
        one for one, own in zip(people, whole, strict=True) if own[0] == home and own[1] != thing
    ]
    owners = [
        one for one, own in zip(people, whole, strict=True) if own[0] != home and own[1] == thing
    ]
    if not at_home or not owners:
        return None
    wrong = [_one(rng, at_home), _one(rng, owners)]
    wrong += _choice(rng, [one for one in people if one != people[index] and one not in wrong], 1)
    asked = f"Who lives in {home} and has a {thing}?"
    return Question(frame, asked, people[index], tuple(wrong), told.text, about=told.text)


class Tongue(NamedTuple):
    """How a language compares: labels, names, and per verb a sentence and its questions (most, least, second)."""

    labels: tuple[str, str]
    names: tuple[str, ...]
    verbs: tuple[tuple[str, str, str, str], ...]
    space: str = " "


_LATIN: Final = tuple(
    "Anna Boris Clara David Elena Farid Greta Hugo Irene Jonas Karin Lukas".split()
)
TONGUES: Final = {
    "german": Tongue(("Frage", "Antwort"), _LATIN, (
        ("{0} läuft schneller als {1}.", "Wer läuft am schnellsten?", "Wer läuft am langsamsten?",
         "Wer läuft am zweitschnellsten?"),
        ("{0} singt lauter als {1}.", "Wer singt am lautesten?", "Wer singt am leisesten?",
         "Wer singt am zweitlautesten?"),
        ("{0} schläft länger als {1}.", "Wer schläft am längsten?", "Wer schläft am kürzesten?",
         "Wer schläft am zweitlängsten?"),
        ("{0} liest mehr als {1}.", "Wer liest am meisten?", "Wer liest am wenigsten?",
         "Wer liest am zweitmeisten?"),
    )),
    "french": Tongue(("Question", "Réponse"), tuple(name for name in _LATIN if name != "Hugo"), (
        ("{0} court plus vite que {1}.", "Qui court le plus vite ?", "Qui court le moins vite ?",
         "Qui vient en deuxième position, du plus rapide au plus lent ?"),
        ("{0} chante plus fort que {1}.", "Qui chante le plus fort ?", "Qui chante le moins fort ?",
         "Qui vient en deuxième position, de la voix la plus forte à la plus faible ?"),
        ("{0} dort plus longtemps que {1}.", "Qui dort le plus longtemps ?", "Qui dort le moins longtemps ?",
         "Qui vient en deuxième position, du sommeil le plus long au plus court ?"),
        ("{0} lit plus que {1}.", "Qui lit le plus ?", "Qui lit le moins ?",
         "Qui vient en deuxième position, de qui lit le plus à qui lit le moins ?"),
    )),
    "spanish": Tongue(("Pregunta", "Respuesta"), _LATIN, (
        ("{0} corre más rápido que {1}.", "¿Quién corre más rápido de todos?", "¿Quién corre más lento de todos?",
         "¿Quién es el segundo que más rápido corre?"),
        ("{0} canta más fuerte que {1}.", "¿Quién canta más fuerte de todos?", "¿Quién canta menos fuerte de todos?",
         "¿Quién es el segundo que más fuerte canta?"),
        ("{0} duerme más tiempo que {1}.", "¿Quién duerme más tiempo de todos?", "¿Quién duerme menos tiempo de todos?",
         "¿Quién es el segundo que más tiempo duerme?"),
        ("{0} lee más que {1}.", "¿Quién lee más de todos?", "¿Quién lee menos de todos?",
         "¿Quién es el segundo que más lee?"),
    )),
    "italian": Tongue(("Domanda", "Risposta"), _LATIN, (
        ("{0} corre più velocemente di {1}.", "Chi corre più velocemente di tutti?",
         "Chi corre più lentamente di tutti?", "Chi è il secondo più veloce?"),
        ("{0} canta più forte di {1}.", "Chi canta più forte di tutti?", "Chi canta meno forte di tutti?",
         "Chi è il secondo per volume della voce?"),
        ("{0} dorme più a lungo di {1}.", "Chi dorme più a lungo di tutti?", "Chi dorme meno a lungo di tutti?",
         "Chi è il secondo per ore di sonno?"),
        ("{0} legge più di {1}.", "Chi legge più di tutti?", "Chi legge meno di tutti?",
         "Chi è il secondo per quantità di letture?"),
    )),
    "russian": Tongue(("Вопрос", "Ответ"), tuple("Анна Борис Вера Глеб Дарья Егор Жанна Захар Ирина Кирилл".split()), (
        ("{0} бегает быстрее, чем {1}.", "Кто бегает быстрее всех?", "Кто бегает медленнее всех?",
         "Кто на втором месте по скорости бега?"),
        ("{0} поёт громче, чем {1}.", "Кто поёт громче всех?", "Кто поёт тише всех?",
         "Кто на втором месте по громкости пения?"),
        ("{0} спит дольше, чем {1}.", "Кто спит дольше всех?", "Кто спит меньше всех?",
         "Кто на втором месте по продолжительности сна?"),
        ("{0} читает больше, чем {1}.", "Кто читает больше всех?", "Кто читает меньше всех?",
         "Кто на втором месте по количеству прочитанного?"),
    )),
    "chinese": Tongue(("问题", "答案"), tuple("安娜 大卫 小明 小红 李华 王芳 张伟 刘洋 陈静 赵磊".split()), (
        ("{0}跑得比{1}快。", "谁跑得最快？", "谁跑得最慢？", "谁跑得第二快？"),
        ("{0}唱得比{1}响。", "谁唱得最响？", "谁唱得最轻？", "谁唱得第二响？"),
        ("{0}睡得比{1}久。", "谁睡得最久？", "谁睡的时间最短？", "谁睡得第二久？"),
        ("{0}读的书比{1}多。", "谁读的书最多？", "谁读的书最少？", "谁读的书第二多？"),
    ), ""),
}  # fmt: skip


def compared(level: int, rng: Rng, language: str = "") -> Question:
    """Compare people in pairs, in one of six languages, and ask who stands at an end, or next to it."""
    language = language or _one(rng, list(TONGUES))
    tongue = TONGUES[language]
    ranked = _choice(rng, tongue.names, (4, 4, 5, 5, 6, 7, 8, 9)[level - 1])
    verb, ask = int(rng.integers(len(tongue.verbs))), int(rng.integers(2 if level < 4 else 3))
    sentence, *asks = tongue.verbs[verb]
    # The last pair follows from the others: with it everyone is named twice.
    pairs = [*itertools.pairwise(ranked), (ranked[0], ranked[-1])]
    lines = [sentence.format(one, other) for one, other in pairs]
    if level > 1:
        lines = _choice(rng, lines, len(lines))
    right = ranked[(0, -1, 1)[ask]]
    wrong = _choice(rng, [one for one in ranked if one != right], 3)
    asked = tongue.space.join([*lines, asks[ask]])
    if language == "french":
        asked = re.sub(r"\bque (?=[AEI])", "qu'", asked)
    frame = list(TONGUES).index(language) * 12 + verb * 3 + ask
    labels = (
        (tongue.labels[0] + " ", tongue.labels[1] + " ") if language == "french" else tongue.labels
    )
    return Question(frame, asked, right, tuple(wrong), labels=labels)


def reading(level: int, rng: Rng) -> Iterator[Question]:
    """Ask about texts; from level 5 on four questions share a text."""
    while True:
        told = town(level, rng)
        made = (read(level, rng, told) for _ in range(40))
        yield from itertools.islice((one for one in made if one is not None), 4 if level > 4 else 1)


def repeated(
    make: Callable[[int, Rng], Question | None],
) -> Callable[[int, Rng], Iterator[Question]]:
    """Return the questions of a kind one after another."""

    def made(level: int, rng: Rng) -> Iterator[Question]:
        while True:
            if (one := make(level, rng)) is not None:
                yield one

    return made


def computed(make: Callable[[int, Rng], Question]) -> Callable[[int, Rng], Iterator[Question]]:
    """Return questions whose options are the results of four of them, each equally often right.

    First the options are drawn, neighbours that end in one digit, and then which of them is right:
    so the options alone say nothing.
    """

    def made(level: int, rng: Rng) -> Iterator[Question]:
        left: dict[int, list[Question]] = defaultdict(list)
        for _ in range(_DRAWN):
            question = make(level, rng)
            left[int(question.right)].append(question)
        alike = [sorted(result for result in left if result % 10 == digit) for digit in range(10)]
        drawn = [int(question.right) for questions in left.values() for question in questions]
        for result in _choice(rng, drawn, _DRAWN):
            neighbours = alike[result % 10]
            first = neighbours.index(result) - int(rng.integers(4))
            options = neighbours[first : first + 4] if first >= 0 else []
            if len(options) == 4 and all(left[option] for option in options):
                right = _one(rng, options)
                wrong = tuple(str(option) for option in options if option != right)
                yield left[right].pop()._replace(wrong=wrong)

    return made


_DRAWN: Final = 4_000
"""Questions of a level from which `computed` draws."""

KINDS: Final[dict[str, tuple[str, Callable[[int, Rng], Iterator[Question]]]]] = {
    "state": ("Tracking", repeated(state)),
    "program": ("Programs", computed(program)),
    "chain": ("Arithmetic", computed(chain)),
    "units": ("Arithmetic", computed(units)),
    "order": ("Sorting", repeated(order)),
    "date": ("Dates", repeated(date)),
    "events": ("Facts in steps", repeated(events)),
    "facts": ("Facts in steps", facts),
    "reading": ("Reading", reading),
    "compared": ("Six languages", repeated(compared)),
}
LISTS: Final = (range(1, 4), range(4, 6), range(6, 9))
"""Levels of the three lists."""

LEVELS_OF: Final = {
    ("facts", 1): (1, 2),
    ("facts", 2): (3, 4, 5),
    ("facts", 3): (),
    ("reading", 3): (6,),
}
"""Other levels of a kind in a list: there are no longer chains of facts, and the longest texts are too long."""

OF_KIND: Final = 93
OF_LIST: Final = 800
OF_STANDARD: Final = 400
TRIED: Final = 30

FEWER: Final = {("reading", 6): 60, ("reading", 7): 40, ("reading", 8): 24}
"""Most items of a kind and level with long texts."""


def _prompt(made: Question) -> str:
    colon = "：" if made.labels[0] == "问题" else ":"
    before = f"{made.text}\n\n" if made.text else ""
    return f"{before}{made.labels[0]}{colon}{'' if colon == '：' else ' '}{made.asked}\n{made.labels[1]}{colon}"


def _option(made: Question, option: str) -> str:
    return option if made.labels[0] == "问题" else f" {option}"


def _shots(kind: str, language: str = "") -> str:
    """Return three worked examples of the lower levels, the same for all items of a kind, or of a language."""
    rng, make = np.random.default_rng([77, *kind.encode()]), KINDS[kind][1]
    if language:
        make = repeated(partial(compared, language=language))
    shown = [next(make(level, rng)) for level in ((1, 1) if kind == "reading" else (1, 2, 3))]
    return "".join(f"{_prompt(made)}{_option(made, made.right)}\n\n" for made in shown)


def items(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield `count` items of each kind and level, each question of a kind once; fewer where it has no more."""
    for kind, (category, make) in KINDS.items():
        languages = (
            {labels[0].strip(): name for name, (labels, *_) in TONGUES.items()}
            if kind == "compared"
            else {}
        )
        shots = {name: _shots(kind, name) for name in languages.values()} or {"": _shots(kind)}
        seen: set[str] = set()
        for level in LEVELS:
            rng = np.random.default_rng([seed, level, *kind.encode()])
            most = min(count, FEWER.get((kind, level), count))
            places = iter(rng.permutation(np.arange(most) % 4))
            for made in make(level, rng):
                if len({made.right, *made.wrong}) < 4:
                    continue
                prompt = _prompt(made)
                example = shots[languages.get(made.labels[0].strip(), "")]
                if prompt in seen or prompt in example:
                    continue
                place = next(places, None)
                if place is None:
                    break
                seen.add(prompt)
                wrong = _choice(rng, made.wrong, 3)  # in no order that the right one would break
                options = [*wrong[:place], made.right, *wrong[place:]]
                name = hashlib.sha256(f"{kind}{level}{prompt}".encode()).hexdigest()[:8]
                about = hashlib.sha256(made.about.encode()).hexdigest()[:8] if made.about else ""
                yield {
                    "id": f"{kind}-{level}-{name}",
                    "task": f"{kind}:{level}",
                    "category": category,
                    "prompt": prompt,
                    "choices": [_option(made, option) for option in options],
                    "answer": int(place),
                    "shots": example,
                    "tags": [f"frame:{made.frame}"],
                    **({"cluster": f"{kind}:{about}"} if about else {}),
                }


def lists(seed: int) -> tuple[list[list[Item]], list[Item]]:
    """Return the questions of three lists, from easy to hard, and `TRIED` of each that are in none.

    The kinds are equally many in a list, and the levels of a kind.
    """
    made: dict[str, list[Item]] = defaultdict(list)
    for row in items(100, seed):
        made[row["task"]].append(Item(**row))
    of_lists, trial = [], []
    for number, levels in enumerate(LISTS, start=1):
        kept: list[Item] = []
        by_kind = []
        for kind in KINDS:
            cells = [made[f"{kind}:{level}"] for level in LEVELS_OF.get((kind, number), levels)]
            turns = itertools.zip_longest(*cells)
            by_kind.append([item for turn in turns for item in turn if item is not None])
        tried = [item for turn in zip(*filter(None, by_kind), strict=False) for item in turn]
        tried = tried[:TRIED]
        trial += [replace(item, task=f"ladder-{number}") for item in tried]
        for of_kind in by_kind:
            kept += [item for item in of_kind if item not in tried][:OF_KIND]
        of_lists.append(interleave(kept)[:OF_LIST])
    return of_lists, trial


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    standard = shipped_probe("standard")
    of_lists, trial = lists(given.seed)
    for number, kept in enumerate(of_lists, start=1):
        whole = interleave([*standard.items[:OF_STANDARD], *kept])
        probe = replace(standard.with_items(whole), name=f"ladder-{number}")
        probe.save(given.folder / f"ladder3-{number}.jsonl.gz")
    probe = replace(standard.with_items(interleave(trial)), name="ladder")
    probe.save(given.folder / "ladder3-trial.jsonl.gz")


if __name__ == "__main__":
    main()
