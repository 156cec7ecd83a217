"""Logic: truth values, liars, and invented rules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from standard_probe.drafts import Draft, Plan, numeric, worded, yes_or_no

NAMES = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Fred", "Gina", "Hans", "Iris", "Jack", "Kira", "Leo")

EXPRESSIONS: dict[str, Callable[[bool, bool], bool]] = {
    "p and not q": lambda p, q: p and not q,
    "not p or q": lambda p, q: not p or q,
    "not (p and q)": lambda p, q: not (p and q),
    "not (p or q)": lambda p, q: not (p or q),
    "(p or q) and not (p and q)": lambda p, q: p != q,
    "p or not q": lambda p, q: p or not q,
    "not p and not q": lambda p, q: not (p or q),
    "not p or not q": lambda p, q: not (p and q),
    "(p and q) or not p": lambda p, q: q or not p,
    "p and (q or not p)": lambda p, q: p and q,
}
WIDE: dict[str, Callable[[bool, bool, bool], bool]] = {
    "p and (q or r)": lambda p, q, r: p and (q or r),
    "(p or q) and r": lambda p, q, r: (p or q) and r,
    "p or (q and r)": lambda p, q, r: p or (q and r),
    "not p and (q or r)": lambda p, q, r: not p and (q or r),
    "(p and q) or (not p and r)": lambda p, q, r: q if p else r,
    "p and q and not r": lambda p, q, r: p and q and not r,
    "p or q or r": lambda p, q, r: p or q or r,
    "not (p and q) or r": lambda p, q, r: r or not (p and q),
    "(p or q) and not r": lambda p, q, r: (p or q) and not r,
    "p or (q and not r)": lambda p, q, r: p or (q and not r),
}
"""Statements in two and in three letters, and their truth functions."""


def _value(rng: random.Random, turn: int) -> Draft:
    wanted = turn % 2 == 0
    expression = rng.choice(list(EXPRESSIONS))
    p, q = rng.random() < 0.5, rng.random() < 0.5
    while EXPRESSIONS[expression](p, q) != wanted:
        p, q = rng.random() < 0.5, rng.random() < 0.5
    given = f"p is {str(p).lower()} and q is {str(q).lower()}"
    prompt = rng.choice(
        (
            f'If {given}, is "{expression}" true?',
            f'Suppose that {given}. Is the statement "{expression}" true then?',
            f'Does "{expression}" hold when {given}?',
        )
    )
    return yes_or_no(prompt, wanted, uses=f"{expression} {given}")


def _true_claim(rng: random.Random, turn: int) -> Draft:
    people, a, b = rng.sample(NAMES, 5), rng.randint(3, 9), rng.randint(3, 9)
    errors = [0, *rng.sample((-3, -2, -1, 1, 2, 3), 4)]
    claims = [
        f'{person} says: "{a} times {b} is {a * b + error}."' for person, error in zip(people, errors, strict=True)
    ]
    prompt = f"{' '.join(rng.sample(claims, 5))} Only one of the five tells the truth. Who is it?"
    return worded(prompt, people[0], rng.sample(people[1:], 4), uses=f"{sorted(claims)}")


def _assignments(rng: random.Random, turn: int) -> Draft:
    expression = rng.choice(list(WIDE))
    right = sum(WIDE[expression](*row) for row in itertools.product((True, False), repeat=3))
    prompt = rng.choice(
        (
            f'Each of p, q and r is true or false. In how many of the eight cases is "{expression}" true?',
            f'How many of the eight rows of its truth table make "{expression}" true?',
            f'With p, q and r each true or false, in how many of eight combinations does "{expression}" hold?',
        )
    )
    return numeric(prompt, right, uses=expression)


def _liar(rng: random.Random, turn: int) -> Draft:
    """People who each speak of another, such that exactly one choice of the liar fits their statements."""
    people = rng.sample(NAMES, 4)
    liar = rng.choice(people)
    said = []
    for person in people:
        other = rng.choice([someone for someone in people if someone != person])
        claim_truthful = (other != liar) == (person != liar)
        said.append((person, other, claim_truthful))
    fits = [who for who in people if all((claim == (other != who)) == (me != who) for me, other, claim in said)]
    if fits != [liar]:
        return _liar(rng, turn)
    lines = " ".join(f'{me} says: "{other} {"tells the truth" if claim else "lies"}."' for me, other, claim in said)
    prompt = rng.choice(
        (
            f"Of four people exactly one always lies, and the others always tell the truth. {lines} Who lies?",
            f"Exactly one of four friends is a liar; the other three never lie. {lines} Who is the liar?",
            f"Three of these four always speak the truth, and one always lies. {lines} Which one lies?",
        )
    )
    others = [person for person in people if person != liar]
    return worded(prompt, liar, rng.sample(others, 3), uses=lines)


def _operation(rng: random.Random, turn: int) -> Draft:
    m, n = rng.randint(2, 5), rng.randint(2, 5)
    a, b = rng.sample(range(3, 12), 2)
    sign = rng.choice("#@&")
    plus = rng.random() < 0.5 or m * a <= n * b
    right = m * a + n * b if plus else m * a - n * b
    rule = f"x {sign} y means {m}x {'+' if plus else '-'} {n}y"
    prompt = rng.choice(
        (
            f"If {rule}, what is {a} {sign} {b}?",
            f"A new sign is agreed on: {rule}. What is {a} {sign} {b}?",
            f"Let us say that {rule}. How much is {a} {sign} {b}?",
        )
    )
    m * b + n * a if plus else m * b - n * a
    return numeric(prompt, right, uses=f"{rule} {a},{b}")


def _machine(rng: random.Random, turn: int) -> Draft:
    start, add, steps = rng.randint(5, 30), rng.choice((1, 3, 5, 7)), rng.choice((3, 4))
    path = [start]
    for _ in range(steps + 1):
        path.append(path[-1] // 2 if path[-1] % 2 == 0 else path[-1] + add)
    right = path[steps]
    rule = f"in each step halves a number that is even and adds {add} to one that is odd"
    prompt = rng.choice(
        (
            f"A machine {rule}. Starting from {start}, what comes out after {steps} steps?",
            f"A game {rule}. Which number is reached from {start} in {steps} steps?",
            f"A program {rule}. It makes {steps} steps, beginning with {start}. What is the result?",
        )
    )
    return numeric(prompt, right, uses=f"{start},{add},{steps}")


WORDS = ("BAKE", "CLAM", "DUSK", "FERN", "GLOW", "HINT", "JUMP", "LAMB", "MOLD", "NEST", "PLUM", "RUSH", "SILK", "TWIG")


def _shifted(word: str, by: int) -> str:
    return "".join(chr((ord(letter) - 65 + by) % 26 + 65) for letter in word)


def _cipher(rng: random.Random, turn: int) -> Draft:
    word, by = rng.choice(WORDS), rng.choice((1, 2, 3))
    how = {1: "the next letter", 2: "the letter two places later", 3: "the letter three places later"}[by]
    prompt = rng.choice(
        (
            f"In a code every letter becomes {how} of the alphabet (after Z comes A). How is {word} written?",
            f"Replace each letter of {word} by {how} of the alphabet, with A after Z. What do you get?",
            f"A secret writing puts {how} of the alphabet, A following Z, for every letter. What does {word} become?",
        )
    )
    right = _shifted(word, by)
    wrong = [_shifted(word, other) for other in (-by, by + 1, by - 1) if other] + [right[:-1] + _shifted(right[-1], 1)]
    rng.shuffle(wrong)
    return worded(prompt, right, [right[::-1], *wrong] if turn % 2 else wrong, uses=f"{word}+{by}")


def _score(rng: random.Random, turn: int) -> Draft:
    up, down, reds, blues, start = (rng.randint(*limits) for limits in ((3, 6), (1, 2), (3, 8), (2, 5), (4, 12)))
    right = start + up * reds - down * blues
    prompt = rng.choice(
        (
            f"A game starts at {start} points; a red card adds {up}, a blue card takes away {down}. "
            f"What is the score after {reds} red and {blues} blue cards?",
            f"One begins with {start} points, wins {up} for each red card and loses {down} for each blue one. "
            f"How many points are there after {reds} red and {blues} blue cards?",
            f"From {start} points on, every red card gives {up} and every blue card costs {down}. "
            f"What do {reds} red and {blues} blue cards lead to?",
        )
    )
    return numeric(prompt, right, uses=f"{start},{up},{down},{reds},{blues}")


TOPICS: dict[str, Plan] = {
    "truth": ((_value, 1, 4), (_true_claim, 2, 5), (_assignments, 3, 2), (_liar, 3, 3)),
    "invented rules": ((_operation, 1, 5), (_score, 2, 2), (_machine, 2, 3), (_cipher, 3, 4)),
}
