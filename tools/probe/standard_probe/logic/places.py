"""Logic: positions in an order, walks and compass directions, and things that change hands."""

from __future__ import annotations

import itertools
import random

from standard_probe.drafts import Draft, Plan, numeric, worded

NAMES = ("Ada", "Bill", "Cora", "Dean", "Elsa", "Finn", "Gwen", "Hugh", "Ivy", "Joel", "Kate", "Liam", "Mona", "Nils")

SCALES = (
    *(("taller", "tallest", "shortest"), ("older", "oldest", "youngest"), ("faster", "fastest", "slowest")),
    *(("richer", "richest", "poorest"), ("stronger", "strongest", "weakest")),
)
"""A comparison, and its two ends."""


def _chain(rng: random.Random, people: list[str], word: str) -> str:
    links = [f"{a} is {word} than {b}." for a, b in itertools.pairwise(people)]
    return " ".join(rng.sample(links, len(links)))


def _order(rng: random.Random, turn: int, *, is_end: bool) -> Draft:
    people = rng.sample(NAMES, 5)
    word, top, bottom = rng.choice(SCALES)
    place = (0, 4)[turn % 2] if is_end else (1, 3)[turn % 2]
    asked = {0: top, 1: f"second {top}", len(people) - 1: bottom, len(people) - 2: f"second {bottom}"}[place]
    said = _chain(rng, people, word)
    prompt = rng.choice(
        (
            f"{said} Who is the {asked}?",
            f"Given: {said} Who of them is the {asked}?",
            f"{said} Name the {asked} of them.",
        )
    )
    right = people[place]
    others = [person for person in people if person != right]
    return worded(prompt, right, rng.sample(others, len(others)), uses=f"{said} {asked}")


def _end(rng: random.Random, turn: int) -> Draft:
    return _order(rng, turn, is_end=True)


def _second(rng: random.Random, turn: int) -> Draft:
    return _order(rng, turn, is_end=False)


def _queue(rng: random.Random, turn: int) -> Draft:
    front, back = rng.randint(3, 14), rng.randint(3, 14)
    right, name = front + back - 1, rng.choice(NAMES)
    th = {3: "3rd"}
    a, b = th.get(front, f"{front}th"), th.get(back, f"{back}th")
    prompt = rng.choice(
        (
            f"{name} is {a} from the front of a queue and {b} from its back. How many people are in the queue?",
            f"Counted from the left {name} sits {a} in a row, counted from the right {b}. How many sit in the row?",
            f"{name} came {a} from the top of a list and {b} from its bottom. How many names are on the list?",
        )
    )
    return numeric(prompt, right, uses=f"{front},{back}")


POINTS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")


def _turns(rng: random.Random, turn: int) -> Draft:
    facing = rng.randrange(4)
    moves = [rng.choice((1, -1, 2)) for _ in range(rng.choice((3, 4)))]
    right = (facing + sum(moves)) % 4
    words = {1: "turns right", -1: "turns left", 2: "turns around"}
    name = rng.choice(NAMES)
    said = ", then ".join(words[move] for move in moves)
    start = POINTS[2 * facing]
    prompt = rng.choice(
        (
            f"{name} faces {start} and {said}. Which way does {name} face now?",
            f"Facing {start}, {name} {said}. In which direction does {name} look now?",
            f"{name} looks {start}, and {said}. What direction is {name} facing at the end?",
        )
    )
    wrong = rng.sample([p for p in POINTS[::2] if p != POINTS[2 * right]], 3)
    return worded(prompt, POINTS[2 * right], wrong, uses=f"{start} {moves}")


def _walk(rng: random.Random, turn: int) -> Draft:
    a, b, c = (rng.randint(2, 19) for _ in range(3))
    net = a + c - b
    if net <= 0:
        return _walk(rng, turn)
    there, back = rng.choice((("north", "south"), ("south", "north"), ("east", "west"), ("west", "east")))
    prompt = rng.choice(
        (
            f"A hiker goes {a} km {there}, {b} km {back} and {c} km {there}. How many km from the start is she?",
            f"A ship sails {a} km {there}, then {b} km {back}, then {c} km {there}. How many km is it from its start?",
            f"After {a} km {there}, {b} km {back} and {c} km {there}, how many km is it to the start?",
        )
    )
    return numeric(prompt, net, uses=f"{a}-{b}+{c}")


def _distance(rng: random.Random, turn: int) -> Draft:
    x, y, right = rng.choice(((3, 4, 5), (6, 8, 10), (5, 12, 13), (9, 12, 15), (8, 15, 17), (12, 16, 20), (7, 24, 25)))
    extra = rng.randint(2, 6)
    a, b = rng.sample((x, y), 2)
    prompt = rng.choice(
        (
            f"A robot rolls {a + extra} m north, {b} m east and {extra} m south. How many meters is it from its "
            "start, in a straight line?",
            f"Somebody walks {a + extra} m north, turns and goes {b} m west, and then {extra} m south. What is the "
            "straight distance to the start in meters?",
            f"From a tree one goes {a + extra} steps south, {b} steps east, {extra} steps north. How many steps is it "
            "straight back?",
        )
    )
    return numeric(prompt, right, uses=f"{a},{b},{extra}")


def _where(rng: random.Random, turn: int) -> Draft:
    p, q, r = rng.sample(("the mill", "the church", "the school", "the bridge", "the farm", "the well", "the inn"), 3)
    vertical, sideways = rng.choice(("north", "south")), rng.choice(("east", "west"))
    first, second = rng.sample((vertical, sideways), 2)
    said = f"{p[0].upper() + p[1:]} is directly {first} of {q}, and {r} is just as far directly {second} of {p}."
    prompt = rng.choice(
        (
            f"{said} In which direction does {r} lie from {q}?",
            f"{said} Which way must one go from {q} to get straight to {r}?",
            f"{said} Seen from {q}, in what direction is {r}?",
        )
    )
    right = vertical + sideways
    wrong = rng.sample([point for point in POINTS[1::2] if point != right], 3)
    return worded(prompt, right, wrong, uses=said)


THINGS = ("the red ball", "the blue book", "the green cup", "the white hat", "the black bag")


def _swaps(rng: random.Random, turn: int) -> Draft:
    n = rng.choice((4, 5))
    people, things = rng.sample(NAMES, n), list(THINGS[:n])
    rng.shuffle(things)
    holds = dict(zip(people, things, strict=True))
    first = ", ".join(f"{person} has {thing}" for person, thing in holds.items())
    swaps: list[tuple[str, str]] = []
    for _ in range(n):
        a, b = rng.sample(people, 2)
        while swaps and {a, b} == set(swaps[-1]):
            a, b = rng.sample(people, 2)
        swaps.append((a, b))
        holds[a], holds[b] = holds[b], holds[a]
    told = " ".join(f"{a} and {b} swap what they have." for a, b in swaps)
    right = rng.choice(people)
    thing = holds[right]
    prompt = rng.choice(
        (
            f"{first}. {told} Who has {thing} now?",
            f"At first, {first}. {told} Who has {thing} in the end?",
            f"To begin with, {first}. {told} Who holds {thing} after that?",
        )
    )
    others = [person for person in people if person != right]
    return worded(prompt, right, rng.sample(others, n - 1), uses=f"{first} {told} {thing}")


def _cups(rng: random.Random, turn: int) -> Draft:
    place = rng.randrange(3)
    start, words = place, ("left", "middle", "right")
    swaps: list[tuple[int, int]] = []
    for _ in range(rng.choice((3, 4))):
        a, b = rng.sample(range(3), 2)
        while swaps and {a, b} == set(swaps[-1]):
            a, b = rng.sample(range(3), 2)
        swaps.append((a, b))
        place = b if place == a else a if place == b else place
    told = ", then ".join(f"{words[a]} and {words[b]}" for a, b in swaps)
    prompt = rng.choice(
        (
            f"Of three cups in a row the {words[start]} one hides a coin. Cups at these places are swapped: {told}. "
            "Where is the coin now?",
            f"A pea lies under the {words[start]} one of three cups. One swaps the cups that stand {told}. "
            "Where is the pea in the end?",
            f"Three boxes stand in a row, and the {words[start]} one holds a ring. Boxes change places: {told}. "
            "Where is the ring after that?",
        )
    )
    wrong = rng.sample([word for word in words if word != words[place]], 2)
    return worded(prompt, words[place], wrong, uses=f"{start} {swaps}")


def _elevator(rng: random.Random, turn: int) -> Draft:
    floor = rng.randint(4, 9)
    start, moves = floor, []
    for _ in range(4):
        move = rng.choice([m for m in range(-6, 8) if m and 0 < floor + m < 20])
        moves.append(f"{'up' if move > 0 else 'down'} {abs(move)}")
        floor += move
    told = f"{', '.join(moves[:-1])} and {moves[-1]}"
    prompt = rng.choice(
        (
            f"An elevator is on floor {start}. It goes {told} floors. On which floor is it now?",
            f"Starting from floor {start}, an elevator moves {told} floors. Where does it stop?",
            f"An elevator that stands on floor {start} goes {told} floors. Which floor has it reached?",
        )
    )
    return numeric(prompt, floor, uses=f"{start} {told}")


TOPICS: dict[str, Plan] = {
    "orderings": ((_end, 1, 5), (_second, 2, 5), (_queue, 3, 4)),
    "directions": ((_turns, 1, 5), (_walk, 2, 2), (_where, 2, 3), (_distance, 3, 4)),
    "tracking": ((_elevator, 1, 5), (_cups, 2, 5), (_swaps, 3, 4)),
}
