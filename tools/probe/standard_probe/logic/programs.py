"""Logic: the output of a few lines of Python."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, numeric, worded

ASKED = (
    "What does this Python code print?",
    "Which output does this Python program give?",
    "These lines are run in Python. What is printed?",
)


def _prompt(rng: random.Random, code: str) -> str:
    return f"{rng.choice(ASKED)}\n{code}"


def _loop_sum(rng: random.Random, turn: int) -> Draft:
    start, stop = rng.randint(1, 4), rng.randint(6, 10)
    code = f"total = 0\nfor i in range({start}, {stop}):\n    total = total + i\nprint(total)"
    right = sum(range(start, stop))
    return numeric(_prompt(rng, code), right, uses=code)


def _divisions(rng: random.Random, turn: int) -> Draft:
    b = rng.randint(4, 9)
    a = b * rng.randint(5, 15) + rng.randint(1, b - 1)
    code = f"a = {a}\nb = {b}\nprint(a // b + a % b)"
    right = a // b + a % b
    return numeric(_prompt(rng, code), right, uses=code)


def _double(rng: random.Random, turn: int) -> Draft:
    x, times, add = rng.randint(2, 9), rng.randint(3, 4), rng.randint(1, 5)
    code = f"x = {x}\nfor i in range({times}):\n    x = 2 * x + {add}\nprint(x)"
    path = [x]
    for _ in range(times + 1):
        path.append(2 * path[-1] + add)
    right = path[times]
    return numeric(_prompt(rng, code), right, uses=code)


def _branches(rng: random.Random, turn: int) -> Draft:
    limit, score = rng.choice((50, 60, 70)), rng.randint(41, 95)
    words = rng.choice((("high", "fair", "low"), ("gold", "blue", "gray"), ("north", "south", "west")))
    code = (
        f'n = {score}\nif n > {limit + 20}:\n    print("{words[0]}")\nelif n > {limit}:\n    print("{words[1]}")\n'
        f'else:\n    print("{words[2]}")'
    )
    right = words[0] if score > limit + 20 else words[1] if score > limit else words[2]
    return worded(_prompt(rng, code), right, rng.sample([w for w in words if w != right], 2), uses=code)


def _index(rng: random.Random, turn: int) -> Draft:
    words = rng.sample(("fig", "pear", "plum", "kiwi", "lime", "mango", "peach"), 5)
    place = rng.choice((1, 2, 3, -1, -2))
    code = f"names = {words!r}\nprint(names[{place}])"
    right = words[place]
    others = [words[place - 1], words[(place + 1) % 5], words[-place], *words]
    return worded(_prompt(rng, code), right, [w for w in dict.fromkeys(others) if w != right], uses=code)


def _slice(rng: random.Random, turn: int) -> Draft:
    word = rng.choice(("lantern", "gardens", "kitchen", "pilgrim", "blanket", "morning", "harvest", "compass"))
    a = rng.randint(0, 2)
    b = a + rng.randint(2, 4)
    code = f'word = "{word}"\nprint(word[{a}:{b}])'
    wrong = [word[a : b + 1], word[a + 1 : b + 1], word[max(a - 1, 0) : b - 1 + (a == 0)], word[a : b - 1]]
    right = word[a:b]
    wrong = [text for text in dict.fromkeys(wrong) if text and text != right]
    rng.shuffle(wrong)
    return worded(_prompt(rng, code), right, wrong, uses=code)


def _length(rng: random.Random, turn: int) -> Draft:
    values = [rng.randint(11, 16) for _ in range(rng.randint(7, 9))]
    code = f"values = {values}\nprint(len(set(values)))"
    right = len(set(values))
    return numeric(_prompt(rng, code), right, uses=code)


def _comprehension(rng: random.Random, turn: int) -> Draft:
    n, d, power = rng.randint(9, 14), rng.choice((2, 3, 4)), rng.choice((1, 2))
    term = "i" if power == 1 else "i * i"
    code = f"print(sum({term} for i in range({n}) if i % {d} == 0))"
    right = sum(i**power for i in range(n) if i % d == 0)
    return numeric(_prompt(rng, code), right, uses=code)


def _while(rng: random.Random, turn: int) -> Draft:
    n, step = rng.randint(40, 130), rng.choice((2, 3))
    code = f"n = {n}\ncount = 0\nwhile n > 1:\n    n = n // {step}\n    count = count + 1\nprint(count)"
    count, left = 0, n
    while left > 1:
        left, count = left // step, count + 1
    return numeric(_prompt(rng, code), count, uses=code)


def _alias(rng: random.Random, turn: int) -> Draft:
    values = rng.sample(range(1, 9), 3)
    copied = turn % 2 == 0
    added = rng.sample(range(1, 9), 2)
    right_hand = "a[:]" if copied else "a"
    code = f"a = {values}\nb = {right_hand}\nb.append({added[0]})\nb.append({added[1]})\nprint(len(a))"
    return numeric(_prompt(rng, code), 3 if copied else 5, (3, 5, 4, 2, 6), uses=code)


TOPICS: dict[str, Plan] = {
    "code results": (
        *((_branches, 1, 2), (_index, 1, 3), (_loop_sum, 2, 1), (_divisions, 2, 1), (_slice, 2, 2), (_length, 2, 1)),
        *((_double, 3, 1), (_comprehension, 3, 1), (_while, 3, 1), (_alias, 3, 1)),
    ),
}
