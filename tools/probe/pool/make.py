"""Questions with a dial: computed keys, eight levels, and frames that vary the words; the candidates of a harder probe.

    python tools/probe/pool/make.py OUT.jsonl [--items 100] [--seed 0]

Each kind is a function of a level from 1 to 8 and a random generator. It returns a frame, that is the question, the
right option, and wrong ones of the same form. Nothing is copied: keys are computed, and the chains of facts are
composed from the tables in `tools/probe/standard_probe/facts`. Items are shuffled, the place of the right option is
balanced, and the rank of a right number among its options is uniform, so that the options alone say nothing.

    kind        question                                         level
    state       who holds what after some exchanges              number of exchanges
    program     what a short program prints                      number of statements
    chain       a number after some operations                   number of operations
    order       the n-th of a list, what two lists share         length of the lists
    date        the date or weekday some days away               reach in days
    units       how many parts in a whole of parts               length of the chain
    facts       chains of one to three facts                     length of the chain
    reading     two facts of a text among many others            number of other sentences
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

FACTS: Final = Path(__file__).parent.parent / "standard_probe" / "facts"
LEVELS: Final = range(1, 9)
PEOPLE: Final = (
    "Anna",
    "Boris",
    "Clara",
    "David",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Irene",
    "Jonas",
    "Karin",
    "Liam",
)
THINGS: Final = ("ball", "book", "coin", "cup", "drum", "flag", "key", "lamp", "map", "pen", "ring", "shell")
WARES: Final = (
    *("apples", "bread", "butter", "candles", "cheese", "chairs", "eggs", "flour", "gloves", "honey", "ink", "jam"),
    *("lemons", "milk", "nails", "onions", "paper", "pears", "rice", "rope", "salt", "soap", "sugar", "tea", "wool"),
)
PLACES: Final = (
    "garden",
    "kitchen",
    "library",
    "market",
    "museum",
    "office",
    "school",
    "station",
    "theatre",
    "workshop",
)


class Question(NamedTuple):
    """A question with its options; `frame` names its words."""

    frame: int
    text: str
    right: str
    wrong: tuple[str, ...]


Rng = np.random.Generator


def _choice(rng: Rng, values: Sequence[Any], count: int) -> list[Any]:
    return [values[index] for index in rng.permutation(len(values))[:count]]


def _numbers(rng: Rng, right: int, step: int) -> tuple[str, ...]:
    """Return three wrong numbers; the rank of the right one among the four is uniform."""
    rank = int(rng.integers(4))
    offsets = [*(-step * place for place in range(1, rank + 1)), *(step * place for place in range(1, 4 - rank))]
    return tuple(str(right + offset) for offset in offsets)


def state(level: int, rng: Rng) -> Question:
    """Exchange things between people, and ask who has one of them, or what one of them has."""
    people, things = _choice(rng, PEOPLE, 4), _choice(rng, THINGS, 4)
    holds = dict(zip(people, things, strict=True))
    starts = (
        "At first {0} has the {1}",
        "{0} begins with the {1}",
        "{0} brings the {1}",
        "The {1} belongs to {0} at first",
    )
    swaps = (
        "{0} and {1} exchange what they have.",
        "Then {0} trades with {1}.",
        "Next, {0} swaps with {1}.",
        "{0} and {1} change places with their things.",
        "{0} gives {1} what {0} has, and gets what {1} has.",
    )
    start, swap = int(rng.integers(len(starts))), int(rng.integers(len(swaps)))
    lines = ["; ".join(starts[start].format(who, what) for who, what in holds.items()) + "."]
    for _ in range(level):
        one, other = _choice(rng, people, 2)
        holds[one], holds[other] = holds[other], holds[one]
        lines.append(swaps[swap].format(one, other))
    who = people[int(rng.integers(4))]
    asks_person = bool(rng.integers(2))
    if asks_person:
        text, right, wrong = f"Who has the {holds[who]} at the end?", who, [one for one in people if one != who]
    else:
        text, right, wrong = (
            f"What does {who} have at the end?",
            f"the {holds[who]}",
            [f"the {holds[one]}" for one in people if one != who],
        )
    return Question(start * 10 + swap * 2 + asks_person, " ".join([*lines, text]), right, tuple(wrong))


def chain(level: int, rng: Rng) -> Question:
    """Apply some operations to a number."""
    begins = ("Start with {0}.", "Take the number {0}.", "Think of {0}.", "Write down {0}.", "A counter shows {0}.")
    words = (
        {"+": "Add {0}.", "-": "Subtract {0}.", "*": "Multiply by {0}."},
        {"+": "Increase it by {0}.", "-": "Decrease it by {0}.", "*": "Make it {0} times as large."},
        {"+": "Then add {0} to the result.", "-": "Then take {0} away.", "*": "Then multiply the result by {0}."},
        {"+": "Plus {0}.", "-": "Minus {0}.", "*": "Times {0}."},
    )
    begin, word = int(rng.integers(len(begins))), int(rng.integers(len(words)))
    value = int(rng.integers(3, 20))
    lines = [begins[begin].format(value)]
    for _ in range(level):
        sign = str(rng.choice(["+", "-", "*"] if abs(value) < 60 else ["+", "-"]))
        by = int(rng.integers(2, 4)) if sign == "*" else int(rng.integers(3, 20))
        value = value + by if sign == "+" else value - by if sign == "-" else value * by
        lines.append(words[word][sign].format(by))
    step = int(rng.choice([1, 2, 10]))
    return Question(begin * 4 + word, " ".join([*lines, "What is the result?"]), str(value), _numbers(rng, value, step))


def program(level: int, rng: Rng) -> Question:
    """Run a short program, and ask what it prints."""
    one, other = _choice(rng, ("a", "b", "c", "n", "x", "y", "total", "count"), 2)
    values = {one: int(rng.integers(1, 10)), other: int(rng.integers(1, 10))}
    lines = [f"{name} = {value}" for name, value in values.items()]
    for _ in range(level):
        name, source = _choice(rng, [one, other], 2)
        form, by = int(rng.integers(5)), int(rng.integers(2, 5))
        if form == 0:
            lines.append(f"{name} = {name} + {source}")
            values[name] += values[source]
        elif form == 1:
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
    ask = int(rng.integers(len(asks)))
    shown = int(rng.integers(5))
    last = (
        f"print({one})",
        f"print({other})",
        f"print({one} + {other})",
        f"print({one} - {other})",
        f"print(2 * {one})",
    )[shown]
    right = (values[one], values[other], values[one] + values[other], values[one] - values[other], 2 * values[one])[
        shown
    ]
    text = "\n".join([asks[ask], *lines, last])
    return Question(ask * 5 + shown, text, str(right), _numbers(rng, right, int(rng.choice([1, 2]))))


def order(level: int, rng: Rng) -> Question:
    """Sort a list, or find what two lists share."""
    size = 3 + level
    framed = int(rng.integers(20))
    if framed < 10:
        numbers = [int(value) for value in rng.choice(np.arange(10, 10 + 15 * size), size, replace=False)]
        place = int(rng.integers(2, size))
        names = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
        up = framed % 2 == 0
        words = (
            "The numbers are",
            "Here are some numbers:",
            "Sort these numbers:",
            "A list holds",
            "Tickets have the numbers",
        )[framed // 2]
        ranked = sorted(numbers, reverse=not up)
        asked = f"Which is the {names[place - 2]} {'smallest' if up else 'largest'}?"
        text = f"{words} {', '.join(map(str, numbers))}. {asked}"
        near = [ranked[index] for index in range(len(ranked)) if index != place - 1]
        near.sort(key=lambda value: abs(ranked.index(value) - place + 1))
        return Question(framed, text, str(ranked[place - 1]), tuple(map(str, _choice(rng, near[:4], 3))))
    words = _choice(rng, WARES, 2 * size - 1)
    shared, first = words[0], words[1:size]
    second = words[size : 2 * size - 1]
    lists = [[*first, shared], [*second, shared]]
    shown = [", ".join(_choice(rng, one, len(one))) for one in lists]
    frames = (
        ("One list has {0}. Another has {1}.", "What is in both lists?"),
        ("Anna buys {0}. Boris buys {1}.", "What do both buy?"),
        ("In the first box: {0}. In the second box: {1}.", "What is in both boxes?"),
        ("Delivered on Monday: {0}. On Tuesday: {1}.", "What comes on both days?"),
        ("The first shop sells {0}. The second shop sells {1}.", "What do both shops sell?"),
    )
    story, ask = frames[(framed - 10) // 2]
    swap = framed % 2
    text = f"{story.format(*(shown[::-1] if swap else shown))} {ask}"
    return Question(framed, text, shared, (*_choice(rng, first, 2), *_choice(rng, second, 1)))


def date(level: int, rng: Rng) -> Question:
    """Count days forwards or backwards."""
    reach = (3, 7, 14, 30, 60, 120, 250, 400)[level - 1]
    start = datetime.date(2001 + int(rng.integers(60)), 1, 1) + datetime.timedelta(days=int(rng.integers(365)))
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
            "It is {0}. Which day of the week is {1} that?",
            "A trip begins on a {0}. Which weekday is {1} it?",
            "A letter arrives on a {0}. Which weekday is {1} its arrival?",
            "The course starts on a {0}. Which day of the week is {1} the start?",
            "The shop opens on a {0}. Which weekday is {1} that day?",
            "She was born on a {0}. Which weekday is {1} her birth?",
            "The game is on a {0}. Which day of the week is {1} the game?",
            "The film opens on a {0}. Which weekday is {1} the opening?",
            "The bill came on a {0}. Which weekday is {1} that?",
        )
        right = f"{end:%A}"
        others = [f"{end + datetime.timedelta(days=shift):%A}" for shift in range(1, 7)]
        return Question(framed, frames[framed].format(f"{start:%A}", ahead), right, tuple(_choice(rng, others, 3)))
    frames = (
        "Which date is {1} {0}?",
        "What is the date {1} {0}?",
        "A contract is signed on {0}. Which date is {1} that?",
        "The ship leaves on {0}. Which date is {1} its departure?",
        "The exam is on {0}. What is the date {1} the exam?",
        "A book is due on {0}. Which date is {1} that?",
        "The house was sold on {0}. Which date is {1} the sale?",
        "The concert is on {0}. Which date is {1} it?",
        "Count from {0}: which date is {1} it?",
        "The seeds were sown on {0}. Which date is {1} that day?",
    )
    rank = int(rng.integers(4))
    shifts = [place - rank for place in range(4) if place != rank]
    wrong = tuple(named(end + datetime.timedelta(days=shift)) for shift in shifts)
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
        ("albums", "pages", "strips", "photos", "faces"),
        ("parks", "gardens", "beds", "plants", "flowers"),
        ("trains", "carriages", "compartments", "benches", "seats"),
    )
    framed = int(rng.integers(20))
    parts = chains[framed // 2]
    length = min(2 + (level - 1) // 2, 4)
    most = 5 if level % 2 else 9
    counts = [int(rng.integers(2, most + 1)) for _ in range(length)]
    start = int(rng.integers(0, 5 - length + 0)) if length < 5 else 0
    used = parts[start : start + length + 1]
    each = ("Each of the {0} has {2} {1}.", "There are {2} {1} in each of the {0}.")[framed % 2]
    begin = int(rng.integers(2, 6)) if level > 4 else 1
    first = f"There are {begin} {used[0]}." if begin > 1 else f"There is one of the {used[0]}."
    lines = [first, *(each.format(used[index], used[index + 1], counts[index]) for index in range(len(used) - 1))]
    counts = counts[: len(used) - 1]
    right = begin * math.prod(counts)
    step = counts[-1] if right > 3 * counts[-1] else 1
    return Question(
        framed, " ".join([*lines, f"How many {used[-1]} are there in all?"]), str(right), _numbers(rng, right, step)
    )


def _table(file: str, relation: str) -> dict[str, str]:
    """Return the facts of a relation that have one answer."""
    with (FACTS / file).open(newline="", encoding="utf-8") as opened:
        rows = [row for row in csv.DictReader(opened) if row["relation"] == relation and not row["also"]]
    return {row["subject"]: row["answer"] for row in rows}


TO_COUNTRY: Final = {
    "the country where the dish {0} comes from": _table("culture.csv", "dish"),
    "the country where the dance {0} comes from": _table("culture.csv", "dance"),
    "the country where {0} stands": _table("knowledge.csv", "mountain"),
    "the country whose flag shows {0}": _table("knowledge.csv", "flag"),
}
OF_COUNTRY: Final = {
    "the capital of {0}": _table("knowledge.csv", "capital"),
    "the currency of {0}": _table("knowledge.csv", "currency"),
    "the official language of {0}": _table("knowledge.csv", "official_language"),
}
FAMILY: Final = _table("knowledge.csv", "language_family")
CAPITALS: Final = _table("knowledge.csv", "capital")
RIVERS: Final = _table("knowledge.csv", "river_capital")
ASKS: Final = ("What is {0}?", "Name {0}.", "Which answer is {0}?", "Think step by step: what is {0}?", "Give {0}.")


def _ways() -> dict[str, tuple[int, dict[str, str]]]:
    """Return the descriptions of a country, each with its number of facts and with what fits into it."""
    country_of = {city: country for country, city in CAPITALS.items()}
    ways = {way: (1, table) for way, table in TO_COUNTRY.items()}
    ways["the country whose capital is {0}"] = (1, country_of)
    rivers = {river: country_of[city] for river, city in RIVERS.items() if city in country_of}
    return ways | {"the country whose capital lies on the {0}": (2, rivers)}


def _chains() -> dict[int, list[tuple[str, str, tuple[str, ...]]]]:
    """Return all chains by their number of facts: what is asked, the answer, and all other answers."""
    found: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}
    families = sorted(set(FAMILY.values()))
    for phrase, table in OF_COUNTRY.items():
        answers = sorted(set(table.values()))
        described = [(0, country, country) for country in table]
        described += [
            (length, way.format(thing), country)
            for way, (length, pairs) in _ways().items()
            for thing, country in pairs.items()
            if country in table and not ("capital" in way and "capital" in phrase)
        ]
        for length, country_by, country in described:
            right = table[country]
            others = tuple(one for one in answers if one != right)
            found.setdefault(length + 1, []).append((phrase.format(country_by), right, others))
            if "language" in phrase and right in FAMILY:
                family = FAMILY[right]
                rest = tuple(one for one in families if one != family)
                found.setdefault(length + 2, []).append((f"the family of {phrase.format(country_by)}", family, rest))
    return found


CHAINS: Final = _chains()


def facts(level: int, rng: Rng) -> Question:
    """Follow a chain of one fact (levels 1 and 2), two, or three (from level 6 on)."""
    length, first, levels = (1, 1, 2) if level < 3 else (2, 3, 3) if level < 6 else (3, 6, 3)
    chains = CHAINS[length][level - first :: levels]
    asked, right, others = chains[int(rng.integers(len(chains)))]
    ask = int(rng.integers(len(ASKS)))
    return Question(ask * 4 + (level - 1) // 2, ASKS[ask].format(asked), right, tuple(_choice(rng, others, 3)))


def reading(level: int, rng: Rng) -> Question:
    """Find two facts in a text among others, and join them."""
    people = _choice(
        rng,
        [f"{first} {last}" for first in PEOPLE for last in ("Berg", "Costa", "Dahl", "Eker", "Fonti", "Grau")],
        4 + 6 * level,
    )
    works = [PLACES[index % len(PLACES)] for index in rng.permutation(len(people))]
    streets = [
        f"{name} Street"
        for name in (
            "Mill",
            "Oak",
            "Lake",
            "Church",
            "Bridge",
            "Hill",
            "Station",
            "Garden",
            "River",
            "Park",
            "School",
            "Market",
        )
    ]
    homes = [streets[index % len(streets)] for index in rng.permutation(len(people))]
    things = [THINGS[index % len(THINGS)] for index in rng.permutation(len(people))]
    lives = ("{0} lives in {1}.", "The home of {0} is in {1}.", "{0} has a flat in {1}.", "In {1} lives {0}.")
    has = (
        "{0} owns a {1}.",
        "A {1} belongs to {0}.",
        "{0} never leaves without a {1}.",
        "{0} has kept a {1} for years.",
        "There is a {1} on the desk of {0}.",
    )
    live, own = int(rng.integers(len(lives))), int(rng.integers(len(has)))
    index = int(rng.integers(len(people)))
    lines = [lives[live].format(one, home) for one, home in zip(people, homes, strict=True)]
    lines += [has[own].format(one, thing) for one, thing in zip(people, things, strict=True)]
    lines += [f"{one} works in the {place}." for one, place in zip(people, works, strict=True)]
    text = " ".join(_choice(rng, lines, len(lines)))
    whole = [(home, thing) for home, thing in zip(homes, things, strict=True)]
    if whole.count(whole[index]) == 1 and things.count(things[index]) > 1:
        ask = f"Who lives in {homes[index]} and has a {things[index]}?"
        right, wrong = people[index], [one for one in people if one != people[index]]
    else:
        ask = f"In which street does {people[index]} live?"
        right, wrong = homes[index], sorted({home for home in homes if home != homes[index]})
    return Question(live * 5 + own, f"{text}\n{ask}", right, tuple(_choice(rng, wrong, 3)))


KINDS: Final[dict[str, tuple[str, Callable[[int, Rng], Question]]]] = {
    "state": ("Logic", state),
    "program": ("Code", program),
    "chain": ("Math", chain),
    "order": ("Logic", order),
    "date": ("Math", date),
    "units": ("Math", units),
    "facts": ("Knowledge", facts),
    "reading": ("Reading", reading),
}


def items(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield `count` items of each kind and level, each question of a kind once; fewer where it has no more."""
    for kind, (category, make) in KINDS.items():
        seen: set[str] = set()
        for level in LEVELS:
            rng = np.random.default_rng([seed, level, *kind.encode()])
            places = iter(rng.permutation(np.arange(count) % 4))
            for made in (make(level, rng) for _ in range(40 * count)):
                if made.text in seen or len({made.right, *made.wrong}) < 4:
                    continue
                place = next(places, None)
                if place is None:
                    break
                seen.add(made.text)
                options = [*made.wrong[:place], made.right, *made.wrong[place:3]]
                name = hashlib.sha256(f"{kind}{level}{made.text}".encode()).hexdigest()[:10]
                yield {
                    "id": f"{kind}-{level}-{name}",
                    "task": f"{kind}:{level}",
                    "category": category,
                    "prompt": f"Question: {made.text}\nAnswer:",
                    "choices": [f" {option}" for option in options],
                    "answer": int(place),
                    "tags": [f"level:{level}", f"frame:{made.frame}"],
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, default=100, help="items of each kind and level")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    header = {"forgetwatch_probe": {"name": "pool", "scoring": "loglikelihood", "norm": "sum", "rendering": "plain"}}
    lines = [header, *items(given.items, given.seed)]
    given.out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
