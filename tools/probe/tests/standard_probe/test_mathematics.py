"""Every question of the topics about numbers is parsed and agrees with a second computation."""

from __future__ import annotations

import itertools
import random
import re
from fractions import Fraction
from typing import Any

import pytest
from pool_rules import SEEDS, Solver, assert_solved, solve
from standard_probe.mathematics import questions

POOLS = [question for seed in SEEDS for question in questions(random.Random(seed))]


def worked(text: str) -> Any:
    """The value of an expression as Python reads it."""
    return eval(text.replace("×", "*").replace("÷", "/"))


def listed(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def prime(n: int) -> bool:
    return n in [m for m in range(2, n + 1) if m not in {a * b for a in range(2, m) for b in range(2, m // a + 1)}]


def from_left(n: int, b: int) -> int:
    while n >= b:
        n -= b
    return n


N, F = r"(\d+)", r"(\d+/\d+)"
SIGNED = r"(\d+(?: [-+×÷] \d+)+)"

ARITHMETIC: Solver = [
    (SIGNED, worked),
    (rf"{N}.* nearest (ten|hundred|thousand)", lambda n, unit: nearest(n, unit)),
    (rf"nearest (ten|hundred|thousand).* {N}", lambda unit, n: nearest(n, unit)),
    (rf"{N}.* (?:divided )?(?:by|groups of) {N}", from_left),
]


def nearest(n: int, unit: str) -> int:
    step = {"ten": 10, "hundred": 100, "thousand": 1000}[unit]
    return min(range(0, 20_000, step), key=lambda m: abs(m - n))


def both(a: str, sign: str, b: str) -> Fraction:
    (p, q), (r, s) = listed(a), listed(b)
    if sign == "+":
        return Fraction(p * s + r * q, q * s)
    return Fraction(p * r, q * s) if sign == "×" else Fraction(p * s, q * r)


def extreme(word: str, *texts: str) -> str:
    """The text of the largest or smallest fraction, by comparing cross products."""
    found = texts[0]
    for text in texts[1:]:
        (p, q), (r, s) = listed(found), listed(text)
        if (r * q > p * s) == (word == "largest"):
            found = text
    return found


FRACTIONS: Solver = [
    (rf"^(?!.*×.*\+).*?{F} ([+×÷]) {F}", both),
    (rf"{F} × {F} \+ {F}", lambda a, b, c: both(str(both(a, "×", b)), "+", c)),
    (rf"half of {N}", lambda n: next(h for h in range(n) if h + h == n)),
    (rf"twice {N}", lambda n: n + n),
    (rf"(largest|smallest).*? {F}, {F}, {F} and {F}\?", extreme),
    (rf"{F}, {F}, {F} and {F} is the (largest|smallest)", lambda *found: extreme(found[4], *found[:4])),
    (rf"{F} of {N}", lambda part, whole: Fraction(whole, listed(part)[1]) * listed(part)[0]),
    (rf"(?:What is|Simplify the fraction|Reduce) {F} ?(?:in|as|\.)", Fraction),
]


def changed(price: int, verb: str, percent: int) -> Fraction:
    return Fraction(price) * (100 + (percent if verb == "raised" else -percent)) / 100


PERCENTAGES: Solver = [
    (rf"(?:What is|How much is|Work out) {N}% of {N}[?.]", lambda p, n: Fraction(n, 100) * p),
    (rf"{N} dollars.* (raised|reduced) by {N}%", changed),
    (rf"(?:percentage of|Out of|Of) {N}(?: is|, what percentage is| guests,) {N}", lambda n, m: Fraction(m, n) * 100),
    (rf"{N}% of (?:a|what) number (?:is|gives) {N}", lambda p, n: next(w for w in range(1, 2000) if w * p == n * 100)),
    (rf"{N} dollars.* (?:up|rises by|gains) {N}%.* {N}%", lambda n, p, q: n * Fraction(100 + p, 100) * (100 - q) / 100),
    (
        rf"(?:rose by|rise of) {N}% and then .*? {N}%(?: to|, a coat costs) {N} dollars",
        lambda p, q, n: next(w for w in range(2000) if w * (100 + p) * (100 - q) == n * 10_000),
    ),
]

DIVISIBILITY: Solver = [
    (rf"What is {N} divided by {N}\?", lambda n, d: len(range(0, n, d))),
    (
        rf"remainder {N} when divided by {N} and the remainder {N} when divided by {N}",
        lambda r, a, s, b: next(n for n in range(1, 999) if from_left(n, a) == r and from_left(n, b) == s),
    ),
    (
        rf"Divided by {N}, .* remainder {N}; divided by {N}, it leaves {N}",
        lambda a, r, b, s: next(n for n in range(1, 999) if from_left(n, a) == r and from_left(n, b) == s),
    ),
    (rf"Is (?:the number )?{N} (?:a )?prime", prime),
    (rf"^(?:Is|Can) {N} (?:divisible by|be divided by|a multiple of) {N}", lambda n, d: from_left(n, d) == 0),
    (
        rf"(?:divisor of|largest number that divides|number that both) {N} and {N}",
        lambda a, b: max(d for d in range(1, a + 1) if not a % d and not b % d),
    ),
    (rf"multiple of (?:both )?{N} and {N}", lambda a, b: next(m for m in itertools.count(a, a) if m % b == 0)),
    (rf"prime number.* (?:than|after) {N}", lambda n: next(m for m in itertools.count(n + 1) if prime(m))),
    (rf"Counting up from {N}", lambda n: next(m for m in itertools.count(n + 1) if prime(m))),
    (rf"(?i)how many.* (?:does|divide) {N}", lambda n: len([d for d in range(1, n + 1) if n % d == 0])),
    (
        rf"(?:factor of|that divides|Split) {N}(?: into prime factors|\?)",
        lambda n: max(p for p in range(2, n + 1) if n % p == 0 and prime(p)),
    ),
]


def steps(start: int, change: int, count: int) -> int:
    return list(itertools.accumulate([start, *[change] * (count - 1)]))[-1]


def times(start: int, factor: int, count: int) -> int:
    return list(itertools.accumulate([start, *[factor] * (count - 1)], lambda a, b: a * b))[-1]


def fibonacci(a: int, b: int, count: int) -> int:
    terms = [a, b]
    while len(terms) < count:
        terms.append(sum(terms[-2:]))
    return terms[count - 1]


def summed(a: int, b: int, count: int) -> int:
    return sum(range(a, a + (b - a) * count, b - a))


SEQUENCES: Solver = [
    (r"comes next: ((?:\d+, ){3}\d+)\?", lambda text: 2 * (v := [int(n) for n in text.split(", ")])[3] - v[2]),
    (rf"begins {N}, {N}, \d+ and goes on.* first {N} numbers", summed),
    (rf"first {N} numbers of the equally spaced list {N}, {N},", lambda n, a, b: summed(a, b, n)),
    (r"((?:-?\d+, ){4}-?\d+)", lambda text: 2 * (v := [int(n) for n in text.split(", ")])[4] - v[3]),
    (rf"(?:begins with|Start at) {N} and (?:each number is|keep adding) {N}(?! times).* number {N}\?", steps),
    (rf"first number is {N}, and every next one is larger by {N}.* number {N}\?", steps),
    (rf"begins with {N} and each number is {N} times.* number {N}\?", times),
    (rf"Start at {N} and keep multiplying by {N}.* number {N}\?", times),
    (rf"list that begins with {N} every next number is {N} times.* number {N}\?", times),
    (rf"(?:begins|After|list) {N}(?:,| and) {N},.*number {N}(?: of|\?)", fibonacci),
    (
        rf"(?:Start at|begins with|from) {N} (?:and keep adding|and grows by|in steps of) {N}"
        r".*(?:number|Is|reach) (\d+) (?!of)",
        lambda start, step, n: n in range(start, 2000, step),
    ),
]


def repeated(n: int, base: int) -> str:
    """Digits by trying every string of them in order."""
    return next(
        "".join(text).lstrip("0")
        for text in itertools.product("0123456789"[:base], repeat=6)
        if int("".join(text), base) == n
    )


BASES: Solver = [
    (r"(binary|octal|hexadecimal) number ([0-9A-F]+) in", lambda word, text: int(str(text), RADIX[word])),
    (r"number is ([0-9A-F]+) in (binary|octal|hexadecimal)", lambda text, word: int(str(text), RADIX[word])),
    (
        rf"(?:What is|the (?:decimal )?number|How is) {N} (?:written )?in (binary|octal|hexadecimal)[?.]",
        lambda n, word: digits_of(n, word),
    ),
    (r"([01]+) \+ ([01]+)", lambda a, b: f"{int(str(a), 2) + int(str(b), 2):b}"),
    (rf"digits (?:does|are needed to write) {N}", lambda n: len(f"{n:b}")),
    (rf"Written in base 2, how many digits has {N}", lambda n: len(f"{n:b}")),
    (rf"^(?!.*How is it).*?{N}(?:, written)? in base (\d)", lambda text, base: int(str(text), base)),
    (rf"made of {N} tens and {N} ones", lambda tens, ones: int(f"{tens}{ones}")),
    (
        rf"(?:written|Convert) ([0-9A-F]+) (?:in|from) base {N}(?:\. How is it written in| to) base {N}",
        lambda text, a, b: repeated(int(str(text), a), b),
    ),
]
RADIX = {"binary": 2, "octal": 8, "hexadecimal": 16}


def digits_of(n: int, word: str) -> str:
    return {"binary": f"{n:b}", "octal": f"{n:o}", "hexadecimal": f"{n:X}"}[word]


@pytest.mark.parametrize(
    ("topic", "solver"),
    [
        *(("arithmetic", ARITHMETIC), ("fractions", FRACTIONS), ("percentages", PERCENTAGES)),
        *(("divisibility", DIVISIBILITY), ("sequences", SEQUENCES), ("number bases", BASES)),
    ],
)
def test_a_second_computation_agrees(topic: str, solver: Solver) -> None:
    asked = [question for question in POOLS if question.topic == topic]
    assert len(asked) >= 100
    for question in asked:
        if topic == "number bases" and "+" in question.prompt:
            assert solve(question, solver) == question.right
        else:
            assert_solved(question, solve(question, solver))
