"""Properties of the written questions of Language that a program can check."""

from __future__ import annotations

import random
import re
from difflib import SequenceMatcher

from standard_probe.language import questions

POOL = questions(random.Random(0))


def of_topic(topic: str) -> list:
    return [question for question in POOL if question.topic == topic]


INVENTED_BESIDE = {f"language:{word}" for word in ("necessary", "separate", "accommodation", "supersede", "desiccate")}
"""Spelling questions whose wrong options are misspellings."""

MISSPELLED = {
    "freind": "friend",
    "becuase": "because",
    "tommorow": "tomorrow",
    "beutiful": "beautiful",
    "libary": "library",
    "calender": "calendar",
    "recieve": "receive",
    "beleive": "believe",
    "rythm": "rhythm",
    "embarass": "embarrass",
    "lieutenent": "lieutenant",
    "questionaire": "questionnaire",
    "millenium": "millennium",
    "wierd": "weird",
    "brocolli": "broccoli",
    "definately": "definitely",
    "untill": "until",
    "occurence": "occurrence",
    "percieve": "perceive",
    "unforseen": "unforeseen",
    "privilige": "privilege",
}


def test_gaps_are_at_the_end_of_the_prompt() -> None:
    """The model reads a sentence that breaks off, and each option continues it."""
    for question in POOL:
        assert "___" not in question.prompt
    assert all(question.form == "continuation" for question in of_topic("prepositions"))


def test_sentences_that_break_off_are_completed_by_every_option() -> None:
    for question in of_topic("prepositions") + of_topic("agreement"):
        if question.form == "continuation":
            assert {option[-1] for option in (question.right, *question.wrong)} <= {".", "?"}, question


def test_the_misspelled_word_is_one_of_the_sentence() -> None:
    asked = [question for question in of_topic("spelling") if "misspelled" in question.prompt]
    for question in asked:
        sentence = re.findall(r"\w+", question.prompt.partition('"')[2].casefold())
        assert {question.right, *question.wrong} <= set(sentence), question
        assert set(MISSPELLED) & set(sentence) == {question.right}, question
    assert {question.right for question in asked} == set(MISSPELLED)


def test_misspelled_words_are_right_more_often_than_wrong() -> None:
    """A model that prefers what it has seen often must not find the answers without the question."""
    asked = [question for question in of_topic("spelling") if "misspelled" in question.prompt]
    invented = [question for question in of_topic("spelling") if question.uses & INVENTED_BESIDE]
    assert len(asked) > 3 * len(invented)


def test_misspellings_look_like_the_word() -> None:
    for question in of_topic("spelling"):
        if question.uses & INVENTED_BESIDE:
            for wrong in question.wrong:
                assert SequenceMatcher(None, question.right, wrong).ratio() > 0.6, question
        elif question.right in MISSPELLED:
            assert SequenceMatcher(None, question.right, MISSPELLED[question.right]).ratio() > 0.6, question


def test_the_person_asked_for_is_named_in_the_sentence() -> None:
    """Names among the options are names of the sentence, but for one or two strangers as wrong options."""
    for question in of_topic("reference"):
        for name in re.findall(r"\b[A-Z]\w+", question.right):
            assert name in question.prompt, question
