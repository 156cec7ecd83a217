from __future__ import annotations

import re

from pool_rules import by_source
from standard_probe.culture import questions
from standard_probe.question import Question

COMPUTED = by_source(questions, "computed")
LETTERS = "CDEFGAB"
HEIGHT = dict(zip(LETTERS, (0, 2, 4, 5, 7, 9, 11), strict=True))
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven")
LENGTH = {"whole": 64, "half": 32, "quarter": 16, "eighth": 8, "sixteenth": 4, "thirty-second": 2}


def signature(key: str) -> str:
    """The signature of a major key, from the steps of its scale: ``three flats``."""
    tonic, flat = key[0], -1 if "-flat" in key else 0
    steps = (0, 2, 4, 5, 7, 9, 11)
    signs = 0
    for degree, step in enumerate(steps):
        letter = LETTERS[(LETTERS.index(tonic) + degree) % 7]
        signs += (HEIGHT[tonic] + flat + step - HEIGHT[letter] + 6) % 12 - 6
    name = "sharp" if signs > 0 else "flat"
    return f"{NUMBERS[abs(signs)]} {name}{'s' * (abs(signs) > 1)}"


def semitones(interval: str) -> int:
    """An interval counted on the white keys: major and perfect ones up from C, minor ones up from E."""
    kind, name = interval.split()
    steps = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh").index(name)
    root = 2 if kind == "minor" else 0
    top = root + steps
    return HEIGHT[LETTERS[top % 7]] + 12 * (top // 7) - HEIGHT[LETTERS[root]]


def moves(piece: str, square: str) -> int:
    """The squares that a piece reaches on an empty board, by trying all sixty-four."""
    reached = 0
    for file in range(8):
        for rank in range(8):
            across, up = abs(file - "abcdefgh".index(square[0])), abs(rank + 1 - int(square[1]))
            fits = {
                "king": max(across, up) == 1,
                "knight": sorted((across, up)) == [1, 2],
                "bishop": across == up > 0,
                "queen": (across == up > 0) or ((across == 0) != (up == 0)),
            }
            reached += fits[piece]
    return reached


def checked(question: Question) -> bool:
    """True if the question is of a computed kind, after a second computation of it."""
    prompt, right, wrong = question.prompt, question.right, question.wrong
    claimed = re.search(r"the major key with (.+) is (.+)\?|semitones in a (.+) is (.+)\?", prompt)
    if claimed:
        shown, key, interval, number = claimed.groups()
        true = signature(key) == shown if key else semitones(interval) == int(number)
        assert right == ("Yes" if true else "No")
        return True
    if found := re.search(r"(\w+ (?:sharp|flat)s?)\b(?! major)", prompt):
        assert signature(right) == found[1]
        assert found[1] not in map(signature, wrong)
        return True
    if found := re.search(r"((?:major|minor|perfect) (?:second|third|fourth|fifth|sixth|seventh))", prompt):
        assert semitones(found[1]) == int(right)
        assert right not in wrong
        return True
    if found := re.search(r"(king|knight|bishop|queen).* on ([a-h][1-8])", prompt):
        assert moves(found[1], found[2]) == int(right)
        assert right not in wrong
        return True
    notes = re.findall(r"(dotted )?(whole|half|quarter|eighth|sixteenth|thirty-second) note", prompt)
    assert len(notes) == 2
    long, short = sorted((LENGTH[note] * 3 // 2 if dotted else LENGTH[note] for dotted, note in notes), reverse=True)
    assert int(right) * short == long
    assert all(int(option) * short != long for option in wrong)
    return True


def test_every_computed_answer_agrees_with_a_second_computation() -> None:
    assert len(COMPUTED) > 4 * 40
    assert all(map(checked, COMPUTED))
