"""Every question about orders, directions, moves, relatives, dates, times and code agrees with a simulation."""

from __future__ import annotations

import calendar
import contextlib
import datetime
import io
import itertools
import random
import re
from collections import defaultdict

import pytest
from pool_rules import SEEDS, Solver, assert_solved, solve
from standard_probe.logic import questions

POOLS = [question for seed in SEEDS for question in questions(random.Random(seed))]
N = r"(\d+)"
ENDS = {"tall": "short", "old": "young", "fast": "slow", "rich": "poor", "strong": "weak"}


def stem(word: str) -> str:
    return re.sub(r"(e?r|e?st)$", "", word).removesuffix("e")


LESS = {"shorter": "taller", "younger": "older", "poorer": "richer", "slower": "faster"}


def ranked(prompt: str) -> tuple[list[str], str]:
    """The people from most to least, by going through all orders, and the quality."""
    links = [
        (b, LESS[word], a) if word in LESS else (a, word, b)
        for a, word, b in re.findall(r"(\w+) is (\w+) than (\w+)\.", prompt)
    ]
    people = sorted({a for a, _, _ in links} | {b for _, _, b in links})
    orders = [o for o in itertools.permutations(people) if all(o.index(a) < o.index(b) for a, _, b in links)]
    (order,) = orders
    return list(order), links[0][1]


def test_orders_are_those_that_fit_every_clue() -> None:
    for question in POOLS:
        if question.topic != "orderings":
            continue
        if found := re.search(r" (\d+)(?:th|rd)\D* (\d+)(?:th|rd)", question.prompt):
            front, back = int(found[1]), int(found[2])
            assert_solved(question, next(n for n in range(1, 99) if n - front + 1 == back))
            continue
        if above := re.search(r"(\w+) is \w+ than (\w+, \w+, \w+ and \w+)\.", question.prompt):
            assert set(question.wrong) <= set(re.split(", | and ", above[2]))
            assert_solved(question, above[1])
            continue
        order, word = ranked(question.prompt)
        if count := re.search(r"exactly (one|two|three) (?:person|people) (?:is|are) (\w+) than whom", question.prompt):
            assert count[2] == word
            assert_solved(question, order[{"one": 1, "two": 2, "three": 3}[count[1]]])
            continue
        (second, superlative) = re.findall(r"the (second )?(\w+est)\b", question.prompt)[0]
        from_top = superlative.startswith(word[:4]) or stem(superlative) == stem(word)
        assert from_top or stem(superlative).startswith(ENDS[next(k for k in ENDS if word.startswith(k))])
        assert_solved(question, (order if from_top else order[::-1])[1 if second else 0])


WAYS = {"north": 1j, "east": 1, "south": -1j, "west": -1}
TURNS = {"turns right": -1j, "turns left": 1j, "turns around": -1}


def spelled(way: complex) -> str:
    vertical = "north" if way.imag > 0 else "south" if way.imag < 0 else ""
    return vertical + ("east" if way.real > 0 else "west" if way.real < 0 else "")


def compass(said: str) -> str:
    (start,) = re.findall(r"\b(north|east|south|west)\b", said)
    way = complex(WAYS[start])
    for turn in re.findall(r"turns \w+", said):
        way *= TURNS[turn]
    return spelled(way)


def far(said: str) -> float:
    moves = re.findall(r"(\d+) (?:km|m|steps)(?: to the)? (north|east|south|west)", said)
    return abs(sum(int(length) * WAYS[way] for length, way in moves))


def lies(first: str, second: str) -> str:
    return spelled(complex(WAYS[first] + WAYS[second]))


def robot(way: str, said: str) -> float:
    place, facing = 0j, complex(WAYS[way])
    for length, turn in re.findall(r"goes (\d+) m|(turns \w+)", said):
        facing *= TURNS[turn] if turn else 1
        place += int(length or 0) * facing
    return abs(place)


DIRECTIONS: Solver = [
    (r"opposite of (\w+)\?", lambda way: spelled(complex(-WAYS[way]))),
    (r"A robot faces (\w+), (.*)", robot),
    (r"(.*turns.*(?:Which way does|In which direction does|What direction is) \w+ \w+.*)", compass),
    (r"^(?!.*faces)(.*(?:km|m|steps)\b.*(?:start|back).*)", far),
    (r"is directly (\w+) of .*just as far directly (\w+) of", lies),
]


def test_walks_end_where_a_simulation_ends() -> None:
    for question in POOLS:
        if question.topic == "directions":
            assert_solved(question, solve(question, DIRECTIONS))


def test_moved_things_are_where_a_simulation_puts_them() -> None:
    for question in POOLS:
        if question.topic != "tracking":
            continue
        if "floor" in question.prompt:
            (start,) = re.findall(r"floor (\d+)", question.prompt)
            moves = re.findall(r"(up|down) (\d+)", question.prompt)
            assert_solved(question, sum([int(n) if way == "up" else -int(n) for way, n in moves], int(start)))
        elif "swap" not in question.prompt and "change places" not in question.prompt:
            owner = {thing: person for person, thing in re.findall(r"(\w+) has (the \w+)[,.]", question.prompt)}
            (thing,) = re.findall(r"Who has (the \w+)\?", question.prompt)
            assert_solved(question, owner[thing])
        elif "swap what" in question.prompt:
            owner = {t: p for p, t in re.findall(r"(?!Who)\b([A-Z]\w+) has (the \w+ \w+)", question.prompt)}
            for a, b in re.findall(r"(\w+) and (\w+) swap", question.prompt):
                owner = {thing: {a: b, b: a}.get(person, person) for thing, person in owner.items()}
            (thing,) = re.findall(r"Who (?:has|holds) (the \w+ \w+)", question.prompt)
            assert_solved(question, owner[thing])
        else:
            (place,) = re.findall(r"the (left|middle|right) one", question.prompt)
            for a, b in re.findall(r"(left|middle|right) and (left|middle|right)", question.prompt):
                place = {a: b, b: a}.get(place, place)
            assert_solved(question, place)


SEX = {"mother": 0, "daughter": 0, "sister": 0, "father": 1, "son": 1, "brother": 1}
RELATED = {
    **{(0, 2): ("grandmother", "grandfather"), (0, 3): ("great-grandmother", "great-grandfather")},
    **{(1, 1): ("sister", "brother"), (1, 2): ("aunt", "uncle"), (2, 1): ("niece", "nephew")},
    **{(2, 0): ("granddaughter", "grandson"), (2, 2): ("cousin", "cousin"), (1, 3): ("great-aunt", "great-uncle")},
    **{(3, 1): ("grandniece", "grandnephew"), (3, 0): ("great-granddaughter", "great-grandson")},
}
"""By how many generations the first and the last are below their nearest common ancestor."""


def ancestors(person: str, parents: dict[str, set[str]]) -> dict[str, int]:
    found, level, depth = {person: 0}, {person}, 0
    while level:
        level, depth = {above for one in level for above in parents[one]}, depth + 1
        found.update(dict.fromkeys(level, depth))
    return found


def kinship(prompt: str) -> str:
    parents: dict[str, set[str]] = defaultdict(set)
    facts = re.findall(r"(\w+) is the (\w+) of (\w+)\.", prompt)
    for a, word, b in facts:
        if word in ("mother", "father"):
            parents[b].add(a)
        elif word in ("daughter", "son"):
            parents[a].add(b)
    for a, word, b in facts:
        if word in ("sister", "brother"):
            shared = (parents[a] | parents[b]) or {f"parent of {a} and {b}"}
            parents[a], parents[b] = set(shared), set(shared)
    ((first, last),) = re.findall(r"(?:is |is )?(\w+) (?:to|related to|is what to) (\w+)\?", prompt)
    up, over = ancestors(first, parents), ancestors(last, parents)
    nearest = min((up[one], over[one]) for one in up if one in over)
    (sex,) = {SEX[word] for a, word, _ in facts if a == first}
    return RELATED[nearest][sex]


def children(sisters: int, brothers: int, prompt: str) -> int:
    girl = bool(re.search(r"a girl|A girl|She has no", prompt))
    assert girl or re.search(r"a boy|A boy|He has no", prompt)
    girls, boys = sisters + girl, brothers + (not girl)
    return girls if "How many girls" in prompt else boys if "How many boys" in prompt else girls + boys


FAMILIES: Solver = [
    (r"(.*is the \w+ of.*)", kinship),
    (rf"{N} daughters(?: with| has)? {N} children.* (?:with|has) {N}", lambda a, b, c: sum([b] * a) + c),
    (rf"{N} years older than her brother \w+, who is {N}\..* {N} years", lambda gap, age, more: age + more + gap),
    (rf"is {N}, and his sister \w+ is {N} years older.* {N} years", lambda age, gap, more: age + more + gap),
    (rf"was born, his sister \w+ was {N}\. He is {N} now.* {N} years", lambda gap, age, more: age + more + gap),
]


def test_relatives_are_found_by_their_common_ancestor() -> None:
    for question in POOLS:
        if question.topic != "families":
            continue
        if found := re.search(r"Who is the (mother|child) of (\w+)\?", question.prompt):
            word, name = found.groups()
            mothers = dict(re.findall(r"(\w+) is the mother of (\w+)\.", question.prompt))
            children_of = {child: mother for mother, child in mothers.items()}
            assert_solved(question, (mothers if word == "child" else children_of)[name])
        elif counts := re.search(rf"{N} sisters? and {N} brothers?", question.prompt):
            assert_solved(question, children(int(counts[1]), int(counts[2]), question.prompt))
        else:
            assert_solved(question, solve(question, FAMILIES))


def day(text: str) -> datetime.date:
    return datetime.datetime.strptime(f"{text} 2023", "%B %d %Y").date()


def weekday(name: str, days: int) -> str:
    start = next(date for n in range(7) if calendar.day_name[(date := datetime.date(2023, 5, 1 + n)).weekday()] == name)
    return (start + datetime.timedelta(days)).strftime("%A")


def same_month(start: str, name: str, later: str) -> str:
    year = next(y for y in range(2001, 2030) if day(start).replace(year=y).strftime("%A") == name)
    return day(later).replace(year=year).strftime("%A")


def leap(year: int) -> bool:
    with contextlib.suppress(ValueError):
        return bool(datetime.date(year, 2, 29))
    return False


def later(start: str, days: int) -> str:
    date = day(start) + datetime.timedelta(days)
    return f"{date:%B} {date.day}"


DATE, DAY = r"([A-Z][a-z]+ \d+)", r"(\w+day)"
CALENDARS: Solver = [
    (rf"comes right (before|after) {DAY}\?", lambda word, name: weekday(name, 1 if word == "after" else -1)),
    (rf"oday is {DAY}.* {N} days ago\?", lambda name, n: weekday(name, -n)),
    (rf"^{N} days ago.* {DAY}\?", lambda n, name: weekday(name, -n)),
    (rf"is {DAY}.*(?: in|it) {N} days(?: from now)?\?", weekday),
    (rf"^In {N} days.* {DAY}\?", lambda n, name: weekday(name, n)),
    (rf"{DATE} (?:is|falls on|as) a {DAY}.* {DATE}", same_month),
    (rf"date is (?:reached )?{N} days after {DATE}", lambda n, start: later(start, n)),
    (rf"sent on {DATE} arrives {N} days", later),
    (rf"(?:after|on) {DATE} (?:is|to noon on) {DATE}", lambda a, b: (day(b) - day(a)).days),
    (rf"It is {DATE}\..* {DATE}\?", lambda a, b: (day(b) - day(a)).days),
    (rf"(?:is|the year) {N}\b(?! days)", leap),
]


def test_dates_are_those_of_the_calendar() -> None:
    for question in POOLS:
        if question.topic == "calendars":
            assert_solved(question, solve(question, CALENDARS))


NOON = datetime.datetime(2023, 5, 1)


def at(clock: str) -> datetime.datetime:
    hour, minute = clock.split(":")
    return NOON.replace(hour=int(hour), minute=int(minute))


def shifted(clock: str, *minutes: int) -> str:
    return (at(clock) + sum((datetime.timedelta(minutes=m) for m in minutes), datetime.timedelta())).strftime("%H:%M")


def passed(start: str, end: str) -> str:
    seconds = (at(end) - at(start)).seconds
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


CLOCK, LENGTH = r"(\d\d:\d\d)", r"(\d+) h (\d+) min"
TIMES: Solver = [
    (rf"(?:leaves|starts) at {CLOCK} and (?:travels for|lasts) {LENGTH}", lambda t, h, m: shifted(t, 60 * h, m)),
    (rf"{CLOCK} (?:and ends at|and|to|and wakes at|and arrives at) {CLOCK}", passed),
    (rf"{CLOCK}\D* {N} minutes\D* {N} minutes", lambda t, a, b: shifted(t, -a, -b)),
    (rf"(?:is|shows) {CLOCK}\. What .* {N} minutes", shifted),
    (
        r"It is (\d+) o'clock\. .* in (one|two|three) hours?\?",
        lambda hour, more: f"{len([*range(hour), *{'one': 'a', 'two': 'ab', 'three': 'abc'}[more]])} o'clock",
    ),
    (
        rf"{CLOCK} local time and flies for {LENGTH}\. After .* {N} minutes .* {LENGTH} .* {N} hours (ahead|behind)",
        lambda t, h, m, stop, i, n, gap, way: shifted(
            t, 60 * h, m, stop, 60 * i, n, 60 * gap * (1 if way == "ahead" else -1)
        ),
    ),
]


def test_times_are_those_of_the_clock() -> None:
    for question in POOLS:
        if question.topic == "time":
            assert_solved(question, solve(question, TIMES))


def test_programs_print_the_right_answer() -> None:
    asked = [question for question in POOLS if question.topic == "code results"]
    assert len(asked) >= 100
    for question in asked:
        code = question.prompt.partition("\n")[2]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        assert printed.getvalue().strip() == question.right
        assert question.right not in question.wrong


@pytest.mark.parametrize("topic", ["orderings", "directions", "tracking", "families", "calendars", "time"])
def test_there_is_enough_to_check(topic: str) -> None:
    assert sum(question.topic == topic for question in POOLS) >= 100
