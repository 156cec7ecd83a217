"""Families of four functions that differ in their last line, and of four regular expressions.

Each line of a family completes one of its four functions, and is a wrong option of the other three: a line that looks
likelier than the others helps with one question and hurts with three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, kw_only=True)
class Family:
    """Four functions with the same beginning.

    Attributes:
        name: Name of the family.
        difficulty: See `programs.Program`.
        head: The function's lines up to its docstring.
        body: Lines between the docstring and the last line, without indentation.
        calls: Arguments of the examples in the docstring, as they are written.
        lines: Purpose of each function, and its last line.
    """

    name: str
    difficulty: Literal[0, 1, 2, 3]
    head: str
    body: Sequence[str] = ()
    calls: Sequence[str]
    lines: Sequence[tuple[str, str]]


FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        name="one number of a list",
        difficulty=0,
        head="def f(values):",
        calls=("[4, 9, 2]", "[7, 7]"),
        lines=(
            ("Return the largest value.", "return max(values)"),
            ("Return the smallest value.", "return min(values)"),
            ("Return all the values added together.", "return sum(values)"),
            ("Return the number of values.", "return len(values)"),
        ),
    ),
    Family(
        name="a text in another form",
        difficulty=0,
        head="def f(text):",
        calls=("' a red Fox'", "'Old tree '"),
        lines=(
            ("Return the text in capital letters.", "return text.upper()"),
            ("Return the text in small letters.", "return text.lower()"),
            ("Return the text without the spaces at its ends.", "return text.strip()"),
            ("Return the text with a capital at the beginning of each word.", "return text.title()"),
        ),
    ),
    Family(
        name="one word of a list",
        difficulty=0,
        head="def f(words):",
        calls=("['sun', 'rain', 'snow', 'wind']", "['one', 'two', 'three']"),
        lines=(
            ("Return the first word.", "return words[0]"),
            ("Return the last word.", "return words[-1]"),
            ("Return the second word.", "return words[1]"),
            ("Return the last word but one.", "return words[-2]"),
        ),
    ),
    Family(
        name="two numbers",
        difficulty=1,
        head="def f(a, b):",
        calls=("17, 5", "8, 3"),
        lines=(
            ("Return how many whole times b fits into a.", "return a // b"),
            ("Return the remainder when a is divided by b.", "return a % b"),
            ("Return a to the power of b.", "return a ** b"),
            ("Return the area of a rectangle with the sides a and b.", "return a * b"),
        ),
    ),
    Family(
        name="some numbers of a list",
        difficulty=1,
        head="def f(numbers):",
        calls=("[3, -2, 0, 8, -5]", "[-7, 6, 0]"),
        lines=(
            ("Return the numbers above zero.", "return [n for n in numbers if n > 0]"),
            ("Return the numbers below zero.", "return [n for n in numbers if n < 0]"),
            ("Return the numbers that are odd.", "return [n for n in numbers if n % 2]"),
            ("Return the numbers other than zero.", "return [n for n in numbers if n]"),
        ),
    ),
    Family(
        name="the length of words",
        difficulty=1,
        head="def f(words):",
        calls=("['plum', 'fig', 'banana', 'fig']", "['apple', 'pear']"),
        lines=(
            ("Return the shortest word.", "return min(words, key=len)"),
            ("Return the longest word.", "return max(words, key=len)"),
            ("Return the number of letters of all the words together.", "return sum(map(len, words))"),
            ("Return the number of different words.", "return len(set(words))"),
        ),
    ),
    Family(
        name="a part of a text",
        difficulty=1,
        head="def f(text):",
        calls=("'garden'", "'window'"),
        lines=(
            ("Return the text backward.", "return text[::-1]"),
            ("Return every second letter, beginning with the first.", "return text[::2]"),
            ("Return the text without its first letter.", "return text[1:]"),
            ("Return the text without its last letter.", "return text[:-1]"),
        ),
    ),
    Family(
        name="a table of prices",
        difficulty=2,
        head="def f(prices):",
        calls=("{'pen': 3, 'cup': 8, 'hat': 5}", "{'egg': 2, 'jam': 1}"),
        lines=(
            ("Return what all the things cost together.", "return sum(prices.values())"),
            ("Return the highest price.", "return max(prices.values())"),
            ("Return the name of the most expensive thing.", "return max(prices, key=prices.get)"),
            ("Return the name of the cheapest thing.", "return min(prices, key=prices.get)"),
        ),
    ),
    Family(
        name="two lists",
        difficulty=2,
        head="def f(left, right):",
        body=("pairs = zip(left, right)",),
        calls=("[5, 2, 9], [3, 4, 1]", "[6, 1], [2, 8]"),
        lines=(
            ("Return the sum of each pair of neighbors in the two lists.", "return [a + b for a, b in pairs]"),
            ("Return by how much each left number exceeds the right one.", "return [a - b for a, b in pairs]"),
            ("Return the larger number of each pair.", "return [max(a, b) for a, b in pairs]"),
            ("Return for each pair whether the left number is larger.", "return [a > b for a, b in pairs]"),
        ),
    ),
    Family(
        name="recursion",
        difficulty=2,
        head="def f(n):",
        body=("if n == 0:", "    return 0"),
        calls=("3", "25"),
        lines=(
            ("Return twice the sum of all numbers from 1 to n.", "return 2 * n + f(n - 1)"),
            ("Return the sum of the digits of n.", "return n % 10 + f(n // 10)"),
            ("Return the number of digits of n.", "return 1 + f(n // 10)"),
            ("Return the sum of the squares of all numbers from 1 to n.", "return n * n + f(n - 1)"),
        ),
    ),
    Family(
        name="rows of a table",
        difficulty=2,
        head="def f(rows):",
        calls=("[[4, 1, 6], [2, 9, 3]]", "[[5, 5], [8, 7]]"),
        lines=(
            ("Return the first number of each row.", "return [row[0] for row in rows]"),
            ("Return the number of entries in each row.", "return [len(row) for row in rows]"),
            ("Return the total of each row.", "return [sum(row) for row in rows]"),
            ("Return the largest number of each row.", "return [max(row) for row in rows]"),
        ),
    ),
    Family(
        name="pairs to a dictionary",
        difficulty=3,
        head="def f(pairs):",
        calls=("[(1, 5), (2, 7)]", "[(3, 4)]"),
        lines=(
            ("Return a dictionary from the first to the second of each pair.", "return {a: b for a, b in pairs}"),
            ("Return a dictionary from the second to the first of each pair.", "return {b: a for a, b in pairs}"),
            (
                "Return a dictionary from the first of each pair to the sum of both.",
                "return {a: a + b for a, b in pairs}",
            ),
            ("Return a dictionary from the sum of each pair to its first.", "return {a + b: a for a, b in pairs}"),
        ),
    ),
    Family(
        name="a grid turned",
        difficulty=3,
        head="def f(rows):",
        calls=("[[3, 1], [2, 4]]", "[[9, 6, 7], [5, 8, 0]]"),
        lines=(
            ("Return the columns of the grid as rows.", "return [list(row) for row in zip(*rows)]"),
            ("Return the grid with each row in ascending order.", "return [sorted(row) for row in rows]"),
            ("Return the grid as a mirror shows it, left and right exchanged.", "return [row[::-1] for row in rows]"),
            (
                "Return the grid with the first entry of each row moved to its end.",
                "return [row[1:] + row[:1] for row in rows]",
            ),
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """Four regular expressions, and texts by which they can be told apart."""

    name: str
    difficulty: Literal[0, 1, 2, 3]
    patterns: Sequence[str]
    texts: Sequence[str]


PATTERNS: Final[tuple[Patterns, ...]] = (
    Patterns(
        name="letters and digits",
        difficulty=1,
        patterns=(r"[a-z]+\d", r"\d[a-z]+", r"[a-z]\d+", r"\d+[a-z]"),
        texts=("ab7", "xyz3", "q5", "4ab", "9xyz", "6m", "c48", "k205", "31b", "207x", "word8", "2word"),
    ),
    Patterns(
        name="a and b",
        difficulty=2,
        patterns=(r"(ab)+", r"a+bb*", r"[ab]+", r"(a|b)a*"),
        texts=(
            "ab",
            "abab",
            "ababab",
            "aab",
            "aabb",
            "abbb",
            "ba",
            "baa",
            "bab",
            "aaa",
            "b",
            "bbaa",
            "baaaa",
            "abc",
            "cab",
            "bac",
        ),
    ),
    Patterns(
        name="optional and repeated",
        difficulty=3,
        patterns=(r"\w{3}-?\d{2}", r"\w{2}-\d{2,}", r"\w{2,}-\d{2}", r"\w{3}-\d+"),
        texts=(
            "abc-12",
            "abc12",
            "ab-12",
            "ab-345",
            "abcde-12",
            "abc-1",
            "abc-3456",
            "xyz98",
            "qr-7788",
            "long-44",
            "xyz-5",
            "no-61",
        ),
    ),
)
