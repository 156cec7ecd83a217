"""Logic: small grids to fill, and owners of things, each with exactly one solution."""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import TypeAlias

from standard_probe.drafts import Draft, Maker, Plan, worded

NAMES = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Fred", "Gina", "Hans", "Iris", "Jack", "Kira", "Leo")

Grid: TypeAlias = tuple[tuple[int, ...], ...]


@cache
def _squares(rows: Grid = ()) -> tuple[Grid, ...]:
    """All four-by-four Latin squares that begin with these rows."""
    if len(rows) == 4:
        return (rows,)
    return tuple(
        grid
        for row in itertools.permutations((1, 2, 3, 4))
        if all(number not in column for number, *column in zip(row, *rows, strict=True))
        for grid in _squares((*rows, row))
    )


def cell(least: int) -> Maker:
    """Maker of questions for one cell of a grid with at least so many numbers shown."""

    def make(rng: random.Random, turn: int) -> Draft:
        return _cell(rng, least)

    return make


def _cell(rng: random.Random, least: int) -> Draft:
    """A grid in which cells are blanked as long as the requested one stays determined."""
    every = _squares()
    grid, row, column = rng.choice(every), rng.randrange(4), rng.randrange(4)
    right = grid[row][column]
    shown = [(r, c) for r in range(4) for c in range(4) if (r, c) != (row, column)]
    for r, c in rng.sample(shown, 15):
        rest = [place for place in shown if place != (r, c)]
        fits = [other for other in every if all(other[i][j] == grid[i][j] for i, j in rest)]
        if len(rest) >= least and all(other[row][column] == right for other in fits):
            shown = rest
    rows = "; ".join(" ".join(str(grid[r][c]) if (r, c) in shown else "_" for c in range(4)) for r in range(4))
    place = f"row {row + 1}, column {column + 1}"
    prompt = rng.choice(
        (
            f"Each row and column of a grid holds 1, 2, 3 and 4 once. The rows are: {rows}. What stands in {place}?",
            f"A 4 by 4 grid has every number from 1 to 4 once in each row and column: {rows}. "
            f"Which number belongs in {place}?",
            f"Fill the grid so that rows and columns hold 1 to 4 once each: {rows}. Which number comes in {place}?",
        )
    )
    wrong = rng.sample([str(n) for n in range(1, 5) if n != right], 3)
    return worded(prompt, str(right), wrong, uses=f"{rows} {place}")


OWNED = (
    ("a cat", "a dog", "a parrot", "a rabbit"),
    ("tea", "milk", "juice", "water"),
    ("the violin", "the flute", "the drums", "the harp"),
    ("the red bicycle", "the blue bicycle", "the green bicycle", "the white bicycle"),
)
VERBS = ("has", "drinks", "plays", "rides")


def _owners(rng: random.Random, turn: int) -> Draft:
    """Four people and four things, with clues that exclude pairs until one assignment is left."""
    kind = rng.randrange(4)
    verb, base = VERBS[kind], {"has": "have", "drinks": "drink", "plays": "play", "rides": "ride"}[VERBS[kind]]
    people, things = rng.sample(NAMES, 4), rng.sample(OWNED[kind], 4)
    truth = dict(zip(people, things, strict=True))
    ways = [dict(zip(people, order, strict=True)) for order in itertools.permutations(things)]
    clues = [f"{people[0]} {verb} {things[0]}."]
    ways = [way for way in ways if way[people[0]] == things[0]]
    while len(ways) > 1:
        person, thing = rng.choice(people[1:]), rng.choice(things[1:])
        if truth[person] == thing or all(way[person] != thing for way in ways):
            continue
        clues.append(f"{person} does not {base} {thing}.")
        ways = [way for way in ways if way[person] != thing]
    rng.shuffle(clues)
    right = rng.choice(people[1:])
    group, clue = f"{', '.join(people[:3])} and {people[3]}", " ".join(clues)
    what = f"{', '.join(OWNED[kind][:3])} and {OWNED[kind][3]}"
    prompt = rng.choice(
        (
            f"{group} share out {what}, one each. {clue} Who {verb} {truth[right]}?",
            f"Each of {group} has chosen one of {what}, no two the same. {clue} Who {verb} {truth[right]}?",
            f"There are {what}, one for each of {group}. {clue} Who {verb} {truth[right]}?",
        )
    )
    return worded(prompt, right, rng.sample([p for p in people if p != right], 3), uses=f"{clue} {truth[right]}")


TOPICS: dict[str, Plan] = {"grids": ((cell(13), 1, 5), (cell(9), 2, 5), (_owners, 3, 4))}
