"""Logic: sizes of groups that overlap, and relations in a family."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, near, numeric, worded, yes_or_no

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
    prompt = rng.choice(
        (f"{facts} {asked}", f"A survey found this. {facts} {asked}", f"{facts} So, {asked[0].lower()}{asked[1:]}")
    )
    mistakes = [total - a - b, a + b, a, only_a, only_b, neither, *near(right, 1, both, 2)]
    return numeric(prompt, right, mistakes, uses=f"{total},{a},{b},{both} {turn % 4}")


def _least_both(rng: random.Random, turn: int) -> Draft:
    total = rng.randint(20, 60)
    a, b = rng.randint(total // 2 + 2, total - 3), rng.randint(total // 2 + 2, total - 3)
    first, second = rng.choice(PAIRS)
    least = turn % 2 == 0
    right = a + b - total if least else min(a, b)
    word = "smallest" if least else "largest"
    prompt = rng.choice(
        (
            f"Of {total} people {a} {first} and {b} {second}. What is the {word} possible number who do both?",
            f"In a group of {total}, {a} {first} and {b} {second}. What is the {word} number that can do both?",
            f"Among {total} people {a} {first}, {b} {second}. The number doing both has which {word} possible value?",
        )
    )
    mistakes = [min(a, b), a + b - total, abs(a - b), total - min(a, b), *near(right, 1, 2, 5)]
    return numeric(prompt, right, mistakes, uses=f"{word} {total},{a},{b}")


def _subset(rng: random.Random, turn: int) -> Draft:
    yes = turn % 2 == 0
    n = rng.choice((2, 3, 4, 5, 6, 7, 9))
    m = n * rng.randint(2, 6) if yes else n * rng.randint(2, 6) + rng.randint(1, n - 1)
    prompt = rng.choice(
        (
            f"Is every multiple of {m} also a multiple of {n}?",
            f"Are all numbers that {m} divides also divisible by {n}?",
            f"Does the set of multiples of {n} contain all multiples of {m}?",
        )
    )
    return yes_or_no(prompt, yes, uses=f"{m}Z in {n}Z")


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
    return numeric(prompt, right, [*near(right, 1, 2, 3), len(a) + len(b)], uses=f"{shown} {turn % 3}")


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
    ("parent", "sibling"): ("mother", "father"),
    ("sibling", "child"): ("daughter", "son"),
}
"""Relation of the first person to the last by the steps between them, for a woman and a man."""

SHORT = ("grandmother", "granddaughter", "aunt", "niece", "mother", "daughter", "sister", "cousin", "great-aunt")
SHORT_OF_MEN = ("grandfather", "grandson", "uncle", "nephew", "father", "son", "brother", "cousin", "great-uncle")
"""Relations that can be wrong answers."""


def _kin(rng: random.Random, turn: int) -> Draft:
    usable = [path for path in KIN if path not in (("parent", "child"), ("parent", "sibling"), ("sibling", "child"))]
    path = usable[turn % len(usable)]
    sexes = [rng.randrange(2) for _ in range(len(path) + 1)]
    women, men = rng.sample(WOMEN, len(sexes)), rng.sample(MEN, len(sexes))
    people = [(women, men)[sex][i] for i, sex in enumerate(sexes)]
    facts = [f"{people[i]} is the {STEPS[step][sexes[i]]} of {people[i + 1]}." for i, step in enumerate(path)]
    said = " ".join(rng.sample(facts, len(facts)))
    first, last = people[0], people[-1]
    prompt = rng.choice(
        (
            f"{said} What is {first} to {last}?",
            f"{said} How is {first} related to {last}?",
            f"{said} {first} is what to {last}?",
        )
    )
    right = KIN[path][sexes[0]]
    others = [word for word in (SHORT, SHORT_OF_MEN)[sexes[0]] if word not in right]
    return worded(prompt, right, rng.sample(others, 4), uses=said)


def _grandchildren(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.randint(2, 4), rng.randint(2, 5), rng.randint(2, 4)
    name = rng.choice(WOMEN)
    right = a * b + c
    prompt = rng.choice(
        (
            f"{name} has {a} daughters with {b} children each, and one son with {c} children. "
            f"How many grandchildren has {name}?",
            f"Each of {name}'s {a} daughters has {b} children, her only son has {c}. How many grandchildren has she?",
            f"{name} has {a} daughters with {b} children each and a son with {c}. How many grandchildren are there?",
        )
    )
    return numeric(prompt, right, [a * (b + c), a + b + c, (a + 1) * b, *near(right, 1, 2)], uses=f"{a}*{b}+{c}")


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
    return numeric(f"{both} {asked}", right, [right - 1, right + 1, *near(right, 2, 3)], uses=f"{counts} {asked}")


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
    mistakes = [age + later, age + gap, age - gap + later, *near(right, gap, 1, 2, 10)]
    return numeric(prompt, right, mistakes, uses=f"{age}+{gap}+{later}")


TOPICS: dict[str, Plan] = {
    "sets": ((_overlap, 2, 8), (_least_both, 3, 6), (_subset, 1, 6), (_set_size, 1, 6)),
    "families": ((_kin, 1, 7), (_kin, 2, 7), (_grandchildren, 1, 4), (_siblings, 3, 4), (_older, 2, 4)),
}
