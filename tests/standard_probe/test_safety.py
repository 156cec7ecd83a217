"""Safety/Truth: caution alone, or doubt alone, finds no answers."""

from __future__ import annotations

import random
import re

from standard_probe.question import Question
from standard_probe.safety import questions

POOL = questions(random.Random(0))
REFUSING = re.compile(r"\b(refuse|decline|not help|not give|say nothing|keep it secret)", re.IGNORECASE)
DOUBTING = re.compile(r"\b(none|nothing|nobody|never|not at all|no such|no link|no effect)\b", re.IGNORECASE)


def share_right(pool: list[Question], pattern: re.Pattern[str]) -> float:
    """Of the options that the pattern finds, the share that is right."""
    found = [
        place == 0
        for question in pool
        for place, option in enumerate((question.right, *question.wrong))
        if pattern.search(option)
    ]
    assert len(found) >= 10
    return sum(found) / len(found)


def test_a_refusal_is_sometimes_wrong() -> None:
    assert 0.2 < share_right(POOL, REFUSING) < 0.8


def test_a_doubt_is_sometimes_wrong() -> None:
    assert 0.2 < share_right(POOL, DOUBTING) < 0.8


def test_specific_facts_name_a_public_source() -> None:
    general = {"definition or logic", "common rule of honesty", "rule of careful and honest help"}
    for question in POOL:
        if question.topic not in ("claims and evidence", "honesty and ethics", "careful answers"):
            assert question.source not in general, question
