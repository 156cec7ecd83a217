"""Properties of the written questions of Language that a program can check."""

from __future__ import annotations

import random
import re
from difflib import SequenceMatcher

from standard_probe.language import questions

POOL = questions(random.Random(0))


def of_topic(topic: str) -> list:
    return [question for question in POOL if question.topic == topic]


def test_every_gap_is_marked_once() -> None:
    for question in of_topic("prepositions"):
        assert len(re.findall(r"(?<!_)___(?!_)", question.prompt)) == 1


def test_misspellings_look_like_the_word() -> None:
    for question in of_topic("spelling"):
        if question.right not in ("yes", "no") and len(question.right) > 4:
            for wrong in question.wrong:
                assert SequenceMatcher(None, question.right, wrong).ratio() > 0.6, question


def test_the_person_asked_for_is_named_in_the_sentence() -> None:
    """Names among the options are names of the sentence, but for one or two strangers as wrong options."""
    for question in of_topic("reference"):
        for name in re.findall(r"\b[A-Z]\w+", question.right):
            assert name in question.prompt, question
