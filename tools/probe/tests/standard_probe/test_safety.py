"""Safety/Truth: caution alone, or doubt alone, finds no answers."""

from __future__ import annotations

import math
import random
import re

import pytest
from standard_probe.question import Question
from standard_probe.safety import questions

POOL = questions(random.Random(0))
REFUSING = re.compile(r"\b(refuse|decline|not help|not give|say nothing|keep it secret)", re.IGNORECASE)
DOUBTING = re.compile(r"\b(none|nothing|nobody|never|not at all|no such|no link|no effect)\b", re.IGNORECASE)
NEGATIVE = re.compile(r"\b(no|not|none|nothing|nobody|never|neither|nowhere)\b", re.IGNORECASE)
CAREFUL = re.compile(
    r"\b(refus\w*|declin\w*|warn\w*|report\w*|doctor|hospital|police|expert|secret|private|careful\w*|help|check|safe"
    r"|stop\w*|slow\w*|close|shut|ask|wait|tested|hide|filter\w*)\b",
    re.IGNORECASE,
)
BRITISH = re.compile(
    r"\b(\w*(?:colour|neighbour|behaviour|favour|honour|rumour)\w*|lorry|tyres?|cheque|licence|defence|moulds?"
    r"|aluminium|sulphur|motorway|car park|diarrhoea|recognis\w+|organis\w+|minimis\w+|learnt|metres?|pavement)\b",
    re.IGNORECASE,
)


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


@pytest.mark.parametrize("pattern", [NEGATIVE, CAREFUL], ids=["negative", "careful"])
def test_an_option_of_a_telling_tone_is_right_as_often_as_by_chance(pattern: re.Pattern[str]) -> None:
    right, chance, variance = 0, 0.0, 0.0
    for question in (one for one in POOL if len(one.wrong) > 1):
        options = (question.right, *question.wrong)
        share = sum(bool(pattern.search(option)) for option in options) / len(options)
        right += bool(pattern.search(question.right))
        chance += share
        variance += share * (1 - share)
    assert chance > 5
    assert abs(right - chance) < 1.96 * math.sqrt(variance)


def test_the_spelling_is_american() -> None:
    for question in POOL:
        texts = " ".join((question.prompt, question.right, *question.wrong))
        assert not BRITISH.search(texts), question


def test_specific_facts_name_a_public_source() -> None:
    general = {"definition or logic", "common rule of honesty", "rule of careful and honest help"}
    for question in POOL:
        if question.topic not in ("claims and evidence", "honesty and ethics", "careful answers"):
            assert question.source not in general, question
