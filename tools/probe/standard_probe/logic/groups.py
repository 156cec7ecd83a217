"""Logic: sizes of groups that overlap, and relations in a family."""

from __future__ import annotations

import random
from collections.abc import Sequence

from standard_probe.drafts import Draft, Maker, Plan, numeric, worded

PAIRS = (
    ("play chess", "play football"),
    ("speak French", "speak Polish"),
    ("keep a dog", "keep a cat"),
    ("drink tea", "drink coffee"),
    ("paint", "sing"),
)


def _overlap(rng: random.Random, turn: int) -> Draft:
    only_a, only_b, both, neither = (rng.randint(3, 15) for _ in range(4))
    a, b, total = only_a + both, only_b + both, only_a + only_b + both + neither
    first, second = rng.choice(PAIRS)
    facts = f"Of {total} people {a} {first}, {b} {second} and {both} do both."
    asked, right = (
        ("How many do neither?", neither),
        (f"How many {first} but do not {second}?", only_a),
        ("How many do at least one of the two?", total - neither),
        ("How many do exactly one of the two?", only_a + only_b),
    )[turn % 4]
    prompt = rng.choice((f"{facts} {asked}", f"A survey found this. {facts} {asked}"))
    return numeric(prompt, right, uses=f"{total},{a},{b},{both} {turn % 4}")


def _least_both(rng: random.Random, turn: int) -> Draft:
    total = rng.randint(20, 60)
    a, b = rng.randint(total // 2 + 2, total - 3), rng.randint(total // 2 + 2, total - 3)
    first, second = rng.choice(PAIRS)
    prompt = rng.choice(
        (
            f"Of {total} people {a} {first} and {b} {second}. What is the smallest possible number who do both?",
            f"In a group of {total}, {a} {first} and {b} {second}. At least how many must do both?",
        )
    )
    return numeric(prompt, a + b - total, uses=f"{total},{a},{b}")


def _set_size(rng: random.Random, turn: int) -> Draft:
    a, b = (sorted(rng.sample(range(1, 16), rng.choice((4, 5, 6)))) for _ in range(2))
    what, right = (
        ("elements do A and B have in common", len(set(a) & set(b))),
        ("elements does the union of A and B have", len(set(a) | set(b))),
        ("elements of A are not in B", len(set(a) - set(b))),
    )[turn % 3]
    if not right:
        return _set_size(rng, turn)
    shown = f"A = {{{', '.join(map(str, a))}}} and B = {{{', '.join(map(str, b))}}}"
    prompt = rng.choice(
        (f"Let {shown}. How many {what}?", f"If {shown}, how many {what}?", f"Given {shown}, how many {what}?")
    )
    return numeric(prompt, right, uses=f"{shown} {turn % 3}")


WOMEN = ("Ana", "Bea", "Cleo", "Dora", "Eva", "Fay", "Gina", "Hope", "Iris", "June")
MEN = ("Abel", "Bob", "Carl", "Dirk", "Eric", "Fred", "Gus", "Hans", "Ivan", "Jack")

STEPS = {"parent": ("mother", "father"), "child": ("daughter", "son"), "sibling": ("sister", "brother")}
KIN = {
    ("parent", "parent"): ("grandmother", "grandfather"),
    ("parent", "child"): ("sister", "brother"),
    ("sibling", "parent"): ("aunt", "uncle"),
    ("child", "sibling"): ("niece", "nephew"),
    ("child", "child"): ("granddaughter", "grandson"),
    ("parent", "parent", "parent"): ("great-grandmother", "great-grandfather"),
    ("child", "sibling", "parent"): ("cousin", "cousin"),
    ("sibling", "parent", "parent"): ("great-aunt", "great-uncle"),
    ("child", "child", "sibling"): ("grandniece", "grandnephew"),
    ("child", "child", "child"): ("great-granddaughter", "great-grandson"),
}
"""Relation of the first person to the last by the steps between them, for a woman and a man."""

WORDS = (
    *("mother", "daughter", "sister", "aunt", "niece", "cousin", "grandmother", "granddaughter", "great-aunt"),
    *("grandniece", "great-grandmother", "great-granddaughter", "second cousin"),
)
WORDS_OF_MEN = (
    *("father", "son", "brother", "uncle", "nephew", "cousin", "grandfather", "grandson", "great-uncle"),
    *("grandnephew", "great-grandfather", "great-grandson", "second cousin"),
)
"""Relations that can be wrong answers."""


def kin(paths: Sequence[tuple[str, ...]]) -> Maker:
    """Maker of questions for the relation of two people by so many steps; paths come in turn."""

    def make(rng: random.Random, turn: int) -> Draft:
        path = paths[turn % len(paths)]
        sexes = [rng.randrange(2) for _ in range(len(path) + 1)]
        women, men = rng.sample(WOMEN, len(sexes)), rng.sample(MEN, len(sexes))
        people = [(women, men)[sex][i] for i, sex in enumerate(sexes)]
        facts = [f"{people[i]} is the {STEPS[step][sexes[i]]} of {people[i + 1]}." for i, step in enumerate(path)]
        said = " ".join(rng.sample(facts, len(facts)))
        first, last = people[0], people[-1]
        prompt = rng.choice((f"{said} What is {first} to {last}?", f"{said} How is {first} related to {last}?"))
        right = KIN[path][sexes[0]]
        others = [word for word in (WORDS, WORDS_OF_MEN)[sexes[0]] if word != right]
        return worded(prompt, right, rng.sample(others, len(others)), uses=said)

    return make


def _grandchildren(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(2, 4), rng.randint(2, 5), rng.randint(2, 4)
    name = rng.choice(WOMEN)
    right = a * b + c
    prompt = rng.choice(
        (
            f"{name} has {a} daughters with {b} children each, and one son with {c} children. "
            f"How many grandchildren does {name} have?",
            f"Each of {name}'s {a} daughters has {b} children, her only son has {c}. How many grandchildren are there?",
            f"{name} has {a} daughters with {b} children each and a son with {c}. How many grandchildren are there?",
        )
    )
    return numeric(prompt, right, uses=f"{a}*{b}+{c}")


def _siblings(rng: random.Random, turn: int) -> Draft:
    girls, boys = rng.randint(2, 5), rng.randint(2, 5)
    of_girl = turn % 2 == 0
    who = rng.choice(WOMEN if of_girl else MEN)
    sisters, brothers = (girls - 1, boys) if of_girl else (girls, boys - 1)
    pronoun = "She" if of_girl else "He"
    asked, right = rng.choice(
        (
            (f"How many girls are among the children of {who}'s parents?", girls),
            (f"How many boys are among the children of {who}'s parents?", boys),
            (f"How many children do {who}'s parents have?", girls + boys),
        )
    )
    counts = f"{sisters} sister{'s' * (sisters > 1)} and {brothers} brother{'s' * (brothers > 1)}"
    both = rng.choice(
        (
            f"{who}, a {'girl' if of_girl else 'boy'}, has {counts}.",
            f"{who} has {counts}. {pronoun} has no other brothers or sisters.",
            f"A {'girl' if of_girl else 'boy'} named {who} has {counts}.",
        )
    )
    return numeric(f"{both} {asked}", right, uses=f"{counts} {asked}")


def _older(rng: random.Random, turn: int) -> Draft:
    gap, later = rng.randint(3, 9), rng.randint(4, 15)
    a, b = rng.choice(WOMEN), rng.choice(MEN)
    age = rng.randint(5, 20)
    right = age + gap + later
    prompt = rng.choice(
        (
            f"{a} is {gap} years older than her brother {b}, who is {age}. How old is {a} in {later} years?",
            f"{b} is {age}, and his sister {a} is {gap} years older. What will {a}'s age be {later} years from now?",
            f"When {b} was born, his sister {a} was {gap}. He is {age} now. How old will {a} be in {later} years?",
        )
    )
    return numeric(prompt, right, uses=f"{age}+{gap}+{later}")


TWO_STEPS = [path for path in KIN if len(path) == 2 and path != ("parent", "child")]

TOPICS: dict[str, Plan] = {
    "sets": ((_set_size, 1, 5), (_overlap, 2, 5), (_least_both, 3, 4)),
    "families": ((kin(TWO_STEPS), 1, 5), (_grandchildren, 2, 3), (_older, 2, 2), (_siblings, 3, 4)),
}
