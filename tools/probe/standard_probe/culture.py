"""The category Culture: arts, sports, food, feasts, games and stories.

The facts are in ``facts/culture.csv``; keys, intervals, note values and chess moves are computed here.
"""

from __future__ import annotations

import random
from itertools import combinations
from typing import Final

from standard_probe.fact_tables import Fact, ask_all, read_facts, similar
from standard_probe.question import Level, Question

_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six")
_SHARP_KEYS: Final = ("G major", "D major", "A major", "E major", "B major")
_FLAT_KEYS: Final = ("F major", "B-flat major", "E-flat major", "A-flat major", "D-flat major")
_INTERVALS: Final = (
    *("minor second", "major second", "minor third", "major third", "perfect fourth", "", "perfect fifth"),
    *("minor sixth", "major sixth"),
)
"""Intervals of one semitone, of two, and so on; that of six has two names and is left out."""

_NOTES: Final = ("whole", "half", "quarter", "eighth", "sixteenth", "thirty-second")
_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Numbers of short notes in a long one that are offered; all but the first and the last are also right somewhere."""

_STEPS: Final = {
    "knight": ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)),
    "bishop": ((1, 1), (1, -1), (-1, 1), (-1, -1)),
    "queen": ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)),
}


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: a question for each fact of the table, and the computed ones."""
    facts = [*read_facts("culture"), *_music_facts()]
    return [*ask_all(facts, category="Culture", rng=rng), *_note_values(rng), *_chess_moves(rng)]


def _music_facts() -> list[Fact]:
    """Major keys by their signatures, and intervals by their semitones."""
    keys = [
        (f"{_WORDS[n]} {sign}{'s' * (n > 1)}", key, sign)
        for sign, names in (("sharp", _SHARP_KEYS), ("flat", _FLAT_KEYS))
        for n, key in enumerate(names, start=1)
    ]
    intervals = [(name, str(n), "") for n, name in enumerate(_INTERVALS, start=1) if name]
    return [
        Fact(
            relation=relation,
            subject=subject,
            answer=answer,
            group=group,
            also=(),
            wrong=(),
            difficulty=3,
            source="computed",
        )
        for relation, rows in (("key", keys), ("interval", intervals))
        for subject, answer, group in rows
    ]


def _note_values(rng: random.Random) -> list[Question]:
    """Questions for the number of short notes that last as long as a long one, plain or dotted."""
    made = []
    for (i, long), (j, short) in combinations(enumerate(_NOTES), 2):
        for dotted in (False, True):
            # A dot adds half of a note's length, so that powers of two are not right alone.
            count = 3 * 2 ** (j - i - 1) if dotted else 2 ** (j - i)
            if count in _COUNTS[1:-1] and not (dotted and short == _NOTES[-1]):
                name = f"dotted {long}" if dotted else long
                prompt = rng.choice(
                    (
                        f"How many {short} notes last as long as one {name} note?",
                        f"In music, one {name} note is as long as how many {short} notes?",
                    )
                )
                others = [(str(other), 0) for other in _COUNTS if other != count]
                wrong = similar(str(count), others, rng, count=rng.choice((2, 3, 3, 4)))
                level: Level = 3 if dotted else 1 if j - i < 3 else 2
                made.append(_computed(prompt, str(count), wrong, "music", level, f"{short}/{name}"))
    return made


def _chess_moves(rng: random.Random) -> list[Question]:
    """Questions for the number of squares that a piece can reach; every possible number is right equally often."""
    made = []
    for piece in _STEPS:
        by_count: dict[int, list[str]] = {}
        for square in (f"{file}{rank}" for file in "abcdefgh" for rank in range(1, 9)):
            by_count.setdefault(_reach(piece, square), []).append(square)
        for count, squares in sorted(by_count.items()):
            square = rng.choice(squares)
            prompt = rng.choice(
                (
                    f"On an otherwise empty chessboard, how many squares can a {piece} on {square} move to?",
                    f"A {piece} stands alone on {square} of a chessboard. How many moves does it have?",
                    f"How many different squares can a lone {piece} on {square} of a chessboard reach in one move?",
                )
            )
            wrong = tuple(str(other) for other in sorted(by_count) if other != count)
            made.append(_computed(prompt, str(count), wrong, "games", 3, f"moves:{piece}:{square}"))
    return made


def _reach(piece: str, square: str) -> int:
    """Number of squares that a piece attacks on an empty board."""
    far = 7 if piece in ("bishop", "queen") else 1
    reached = 0
    for across, up in _STEPS[piece]:
        for n in range(1, far + 1):
            file, rank = ord(square[0]) - ord("a") + n * across, int(square[1]) - 1 + n * up
            reached += 0 <= file < 8 and 0 <= rank < 8
    return reached


def _computed(prompt: str, right: str, wrong: tuple[str, ...], topic: str, difficulty: Level, uses: str) -> Question:
    """A computed question of the category."""
    return Question(
        prompt=prompt,
        right=right,
        wrong=wrong,
        category="Culture",
        topic=topic,
        difficulty=difficulty,
        uses=frozenset({uses}),
        source="computed",
    )
