"""Math: short stories of buying, travelling, sharing and working that end in a number."""

from __future__ import annotations

import random
from fractions import Fraction

from standard_probe.drafts import Draft, Plan, numeric, worded

NAMES = (
    "Ana",
    "Ben",
    "Clara",
    "David",
    "Elif",
    "Felix",
    "Grace",
    "Hugo",
    "Ines",
    "Jonas",
    "Kofi",
    "Lena",
    "Mei",
    "Noah",
)


def _change(rng: random.Random, turn: int) -> Draft:
    name, thing = rng.choice(NAMES), rng.choice(("notebooks", "melons", "tickets", "brushes", "candles"))
    n, price = rng.randint(3, 8), rng.randint(3, 9)
    note = 50 if n * price < 45 else 100
    right = note - n * price
    prompt = rng.choice(
        (
            f"{name} buys {n} {thing} at {price} dollars each and pays with {note} dollars. How much change is due?",
            f"{name} takes {n} {thing} for {price} dollars each and hands over {note} dollars. What comes back?",
            f"For {n} {thing} at {price} dollars apiece {name} gives {note} dollars. How many dollars come back?",
        )
    )
    return numeric(prompt, right, uses=f"{n}*{price} of {note}")


def _trip(rng: random.Random, turn: int) -> Draft:
    speed, halves = rng.randint(4, 12) * 10, rng.choice((3, 4, 5, 6, 7, 8, 9))
    hours = Fraction(halves, 2)
    shown = str(halves // 2) if halves % 2 == 0 else f"{halves // 2}.5"
    right = speed * hours
    who = rng.choice(("bus", "train", "truck", "car"))
    prompt = rng.choice(
        (
            f"A {who} travels at {speed} km per hour for {shown} hours. How many kilometers does it cover?",
            f"At a steady {speed} km per hour, how many kilometers does a {who} go in {shown} hours?",
            f"A {who} keeps to {speed} km per hour. How many kilometers are behind it after {shown} hours?",
        )
    )
    return numeric(prompt, right, uses=f"{speed}*{halves}")


def _trips(rng: random.Random, turn: int) -> Draft:
    people, seats = rng.randint(90, 260), rng.randint(11, 24)
    while people % seats == 0:
        people += 1
    right = -(-people // seats)
    prompt = rng.choice(
        (
            f"{people} people are to travel in vans that seat {seats}. How many vans are needed?",
            f"{people} visitors use an elevator that holds {seats} at a time. How many rides do they need?",
            f"{people} eggs are packed into boxes of {seats}. How many boxes are needed for all of them?",
        )
    )
    return numeric(prompt, right, uses=f"{people}/{seats} up")


def _fence(rng: random.Random, turn: int) -> Draft:
    gap, spaces = rng.randint(3, 9), rng.randint(6, 24)
    what = rng.choice(("lamp posts", "trees", "flags"))
    prompt = rng.choice(
        (
            f"Along a road of {gap * spaces} m, {what} stand every {gap} m, at both ends too. How many are there?",
            f"A straight path is {gap * spaces} m long, with {what} every {gap} m from end to end. How many is that?",
            f"How many {what} stand on {gap * spaces} m of straight road, one every {gap} m, both ends included?",
        )
    )
    return numeric(prompt, spaces + 1, uses=f"{gap}*{spaces} posts")


def _shared_work(rng: random.Random, turn: int) -> Draft:
    a, b, right = rng.choice(((3, 6, 2), (4, 12, 3), (6, 12, 4), (10, 15, 6), (12, 24, 8), (20, 30, 12), (15, 30, 10)))
    one, two = rng.sample(NAMES, 2)
    job = rng.choice(("paint a fence", "clear a garden", "sort a library", "unload a ship"))
    prompt = rng.choice(
        (
            f"{one} can {job} in {a} hours, {two} in {b} hours. How many hours do they need together?",
            f"Alone, {one} would {job} in {a} hours and {two} in {b} hours. How many hours does it take both at once?",
        )
    )
    return numeric(prompt, right, uses=f"work {a},{b}")


def _ages(rng: random.Random, turn: int) -> Draft:
    child, times = rng.randint(4, 14), rng.choice((2, 3, 4))
    years = rng.randint(3, 12)
    right = child * times + years
    a, b = rng.sample(NAMES, 2)
    prompt = rng.choice(
        (
            f"{a} is {child} years old; {b} is {times} times as old. How old will {b} be in {years} years?",
            f"{a} is {child} and {b} is {times} times that age. What age will {b} be {years} years from now?",
            f"Today {a} is {child} years old and {b} {times} times as old. How old is {b} after {years} more years?",
        )
    )
    return numeric(prompt, right, uses=f"{child}*{times}+{years}")


def _recipe(rng: random.Random, turn: int) -> Draft:
    few, each = rng.choice((2, 3, 4, 5, 6)), rng.randint(6, 24) * 5
    many = few + rng.randint(1, 9)
    food = rng.choice(("flour", "rice", "sugar", "lentils"))
    right = each * many
    prompt = rng.choice(
        (
            f"A dish for {few} people takes {each * few} g of {food}. How many grams are needed for {many} people?",
            f"For {few} guests a cook needs {each * few} g of {food}. How many grams does she need for {many}?",
            f"If {few} portions take {each * few} g of {food}, how many grams do {many} portions take?",
        )
    )
    return numeric(prompt, right, uses=f"{each * few}/{few}*{many}")


def _reading(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(12, 34), rng.randint(3, 9)
    d1, d2 = rng.randint(3, 6), rng.randint(2, 5)
    total = a * d1 + (a + b) * d2
    pages = total + rng.randint(15, 80)
    right = pages - total
    name = rng.choice(NAMES)
    prompt = rng.choice(
        (
            f"A book has {pages} pages. {name} reads {a} pages a day for {d1} days and {a + b} a day for {d2} days. "
            "How many pages are left?",
            f"Of {pages} pages {name} reads {a} on each of {d1} days, then {a + b} on each of {d2} days. "
            "How many remain?",
        )
    )
    return numeric(prompt, right, uses=f"{pages}-{a}*{d1}-{a + b}*{d2}")


def _two_kinds(rng: random.Random, turn: int) -> Draft:
    cheap, dear = rng.randint(3, 7), rng.randint(8, 14)
    x, y = rng.randint(3, 12), rng.randint(3, 12)
    money = cheap * x + dear * y
    place = rng.choice(("cinema", "museum", "zoo", "pool"))
    prompt = rng.choice(
        (
            f"A {place} sells child tickets for {cheap} dollars and adult tickets for {dear} dollars. "
            f"It sold {x + y} tickets for {money} dollars in total. How many were adult tickets?",
            f"At a {place} children pay {cheap} dollars and adults {dear} dollars. "
            f"A group of {x + y} paid {money} dollars. How many adults were in it?",
        )
    )
    return numeric(prompt, y, uses=f"{cheap},{dear},{x + y},{money}")


def _catch_up(rng: random.Random, turn: int) -> Draft:
    slow, gain, right = rng.randint(4, 12), rng.randint(2, 6), rng.randint(2, 7)
    ahead = gain * right
    a, b = rng.sample(NAMES, 2)
    prompt = rng.choice(
        (
            f"{a} is {ahead} km ahead and cycles at {slow} km per hour. {b} follows at {slow + gain} km per hour. "
            f"After how many hours does {b} catch up?",
            f"{a} has a lead of {ahead} km and rides at {slow} km per hour; {b} comes behind at {slow + gain} km per "
            f"hour. How many hours does {b} need to catch up?",
        )
    )
    return numeric(prompt, right, uses=f"{ahead},{slow},{slow + gain}")


def _better_buy(rng: random.Random, turn: int) -> Draft:
    cheapest, counts = rng.randint(30, 70), rng.sample(range(3, 9), 4)
    prices = [cheapest + extra for extra in (0, *rng.sample(range(2, 16), 3))]
    offers = [f"{n} for {n * price} cents" for n, price in zip(counts, prices, strict=True)]
    shown = rng.sample(offers, 4)
    what = rng.choice(("pencils", "apples", "rolls", "screws"))
    listed = f"{', '.join(shown[:3])} or {shown[3]}"
    prompt = rng.choice(
        (f"Which {what} cost least apiece: {listed}?", f"Per piece, which {what} are the cheapest: {listed}?")
    )
    return worded(prompt, offers[0], rng.sample(offers[1:], 3), uses=f"{sorted(offers)}")


TOPICS: dict[str, Plan] = {
    "word problems": (
        *((_change, 1, 2), (_trip, 1, 2), (_recipe, 1, 1), (_trips, 2, 1), (_fence, 2, 1), (_ages, 2, 1)),
        *((_reading, 2, 1), (_better_buy, 2, 1), (_shared_work, 3, 1), (_two_kinds, 3, 2), (_catch_up, 3, 1)),
    ),
}
