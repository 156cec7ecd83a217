"""Math: divisibility and primes, and sequences whose rule is given."""

from __future__ import annotations

import math
import random

from standard_probe.drafts import Draft, Plan, numeric, yes_or_no


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _prime_claim(rng: random.Random, turn: int) -> Draft:
    wanted = turn % 2 == 0
    n = rng.randrange(31, 200, 2)
    while _is_prime(n) != wanted or n % 5 == 0:
        n = rng.randrange(31, 200, 2)
    prompt = rng.choice((f"Is {n} a prime number?", f"Is the number {n} prime?", f"Is {n} prime?"))
    return yes_or_no(prompt, wanted, uses=f"prime {n}")


def _divisible_claim(rng: random.Random, turn: int) -> Draft:
    d = rng.choice((3, 4, 6, 7, 8, 9, 11))
    n = d * rng.randint(14, 80) + (rng.randint(1, d - 1) if turn % 2 else 0)
    prompt = rng.choice(
        (
            f"Is {n} divisible by {d}?",
            f"Can {n} be divided by {d} without a remainder?",
            f"Is {n} a multiple of {d}?",
        )
    )
    return yes_or_no(prompt, n % d == 0, uses=f"{d} divides {n}")


def _gcd(rng: random.Random, turn: int) -> Draft:
    g = rng.randint(4, 16)
    a, b = g * rng.randint(2, 9), g * rng.randint(2, 9)
    while a == b or math.gcd(a, b) != g:
        a, b = g * rng.randint(2, 9), g * rng.randint(2, 9)
    prompt = rng.choice(
        (
            f"What is the greatest common divisor of {a} and {b}?",
            f"What is the largest number that divides {a} and {b}?",
            f"Which is the greatest whole number that both {a} and {b} can be divided by?",
        )
    )
    return numeric(prompt, g, uses=f"gcd {a} {b}")


def _lcm(rng: random.Random, turn: int) -> Draft:
    a, b = rng.sample(range(4, 19), 2)
    while math.gcd(a, b) == 1 or max(a, b) % min(a, b) == 0:
        a, b = rng.sample(range(4, 19), 2)
    right = math.lcm(a, b)
    prompt = rng.choice(
        (
            f"What is the least common multiple of {a} and {b}?",
            f"What is the smallest common multiple of {a} and {b}?",
            f"Which is the smallest positive number that is a multiple of both {a} and {b}?",
        )
    )
    return numeric(prompt, right, uses=f"lcm {a} {b}")


def _next_prime(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(20, 140)
    right = next(m for m in range(n + 1, 2 * n) if _is_prime(m))
    prompt = rng.choice(
        (
            f"What is the smallest prime number greater than {n}?",
            f"Which prime number comes next after {n}?",
            f"Counting up from {n}, which is the first prime number above it?",
        )
    )
    return numeric(prompt, right, uses=f"prime after {n}")


def _divisors(rng: random.Random, turn: int) -> Draft:
    n = rng.choice([m for m in range(12, 101) if 5 <= sum(m % d == 0 for d in range(1, m + 1)) <= 12])
    right = sum(n % d == 0 for d in range(1, n + 1))
    prompt = rng.choice(
        (
            f"How many positive divisors does {n} have, counting 1 and {n} themselves?",
            f"Counting 1 and {n} too, how many whole numbers divide {n}?",
            f"How many numbers divide {n} without remainder, 1 and {n} included?",
        )
    )
    return numeric(prompt, right, uses=f"divisors {n}")


def _prime_factor(rng: random.Random, turn: int) -> Draft:
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23)
    right = rng.choice(primes[3:-2])
    n = right * math.prod(rng.choices([p for p in primes if p <= right][:4], k=2))
    prompt = rng.choice(
        (
            f"What is the largest prime factor of {n}?",
            f"What is the greatest prime number that divides {n}?",
            f"Split {n} into prime factors. Which is the largest?",
        )
    )
    return numeric(prompt, right, uses=f"largest prime of {n}")


def _next_term(rng: random.Random, turn: int) -> Draft:
    start, step = rng.randint(3, 40), rng.randint(3, 17) * rng.choice((1, 1, -1))
    start += 5 * abs(step) if step < 0 else 0
    terms = [start + i * step for i in range(6)]
    shown = ", ".join(map(str, terms[:5]))
    prompt = rng.choice(
        (
            f"The numbers {shown} change by the same amount at each step. What comes next?",
            f"A sequence with equal steps begins {shown}. What is its next number?",
            f"Which number continues the evenly spaced sequence {shown}?",
        )
    )
    return numeric(prompt, terms[5], uses=f"{shown}")


def _nth_term(rng: random.Random, turn: int) -> Draft:
    start, step, n = rng.randint(2, 20), rng.randint(3, 12), rng.choice((10, 12, 15, 20, 21, 25))
    right = start + (n - 1) * step
    prompt = rng.choice(
        (
            f"A sequence begins with {start} and each number is {step} more than the one before. What is number {n}?",
            f"Start at {start} and keep adding {step}. If {start} is the first number, what is number {n}?",
            f"In a list the first number is {start}, and every next one is larger by {step}. What is number {n}?",
        )
    )
    return numeric(prompt, right, uses=f"{start}+{step}n {n}")


def _geometric(rng: random.Random, turn: int) -> Draft:
    start, factor, n = rng.randint(2, 7), rng.choice((2, 3)), rng.choice((5, 6, 7))
    right = start * factor ** (n - 1)
    prompt = rng.choice(
        (
            f"A sequence begins with {start} and each number is {factor} times the one before. What is number {n}?",
            f"Start at {start} and keep multiplying by {factor}. If {start} is the first number, what is number {n}?",
            f"In a list that begins with {start} every next number is {factor} times as large. What is number {n}?",
        )
    )
    return numeric(prompt, right, uses=f"{start}*{factor}^{n}")


def _sum_of_two(rng: random.Random, turn: int) -> Draft:
    terms = [rng.randint(1, 6), rng.randint(2, 9)]
    n = rng.choice((6, 7, 8))
    for _ in range(n):
        terms.append(terms[-1] + terms[-2])
    a, b, right = terms[0], terms[1], terms[n - 1]
    prompt = rng.choice(
        (
            f"A sequence begins {a}, {b}, and each later number is the sum of the two before it. What is number {n}?",
            f"After {a} and {b}, every number in a list is the sum of the previous two. What is number {n} of it?",
            f"The list {a}, {b}, ... goes on by adding its last two numbers. What is number {n} of the list?",
        )
    )
    return numeric(prompt, right, uses=f"{a},{b} fib {n}")


def _in_sequence(rng: random.Random, turn: int) -> Draft:
    start, step = rng.randint(2, 9), rng.randint(4, 9)
    n = start + step * rng.randint(6, 25) + (rng.randint(1, step - 1) if turn % 2 else 0)
    prompt = rng.choice(
        (
            f"Start at {start} and keep adding {step}. Does the number {n} ever appear?",
            f"A sequence begins with {start} and grows by {step} at each step. Is {n} one of its numbers?",
            f"Counting from {start} in steps of {step}, does one reach {n} exactly?",
        )
    )
    return yes_or_no(prompt, (n - start) % step == 0, uses=f"{n} in {start}+{step}n")


TOPICS: dict[str, Plan] = {
    "divisibility": (
        *((_next_prime, 1, 3), (_divisible_claim, 1, 2), (_gcd, 2, 2), (_lcm, 2, 1), (_prime_claim, 2, 2)),
        *((_divisors, 3, 2), (_prime_factor, 3, 2)),
    ),
    "sequences": (
        *((_next_term, 1, 5), (_nth_term, 2, 3), (_in_sequence, 2, 2)),
        *((_geometric, 3, 2), (_sum_of_two, 3, 2)),
    ),
}
