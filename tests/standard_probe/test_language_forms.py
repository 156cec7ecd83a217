"""Forms, sounds and agreement agree with rules applied to the words of the question."""

from __future__ import annotations

import random
import re

import pytest
from standard_probe.language.forms import KINDS, WORD_CLASSES, forms
from standard_probe.question import Question
from standard_probe.written import read_rows

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven")
HEARD = {
    "knife": "nif",
    "lamb": "lam",
    "gnome": "nom",
    "castle": "casl",
    "wrist": "rist",
    "solemn": "solem",
    "salmon": "samon",
    "receipt": "recit",
}
"""The letters that are spoken; from the CMU Pronouncing Dictionary."""

ENDINGS = {
    "AE T": "cat hat",
    "AH T": "cut",
    "AA T": "cot",
    "UW N": "moon spoon",
    "AE N": "man",
    "AY N": "mine",
    "OW": "though dough sew toe",
    "AH F": "rough",
    "AO F": "cough",
    "EH R": "bear chair",
    "IH R": "beer fear",
    "EY T": "great late weight eight freight",
    "EH T": "threat",
    "IY T": "heat meat",
    "AH D": "blood mud",
    "UW D": "food mood",
    "UH D": "good",
    "AY T": "height kite",
    "UW M": "tomb room",
    "AA M": "bomb",
    "OW M": "comb home",
    "AW": "bough cow",
    "UW V": "move",
    "AH V": "love",
    "ER D": "word bird heard",
    "AY V": "five",
    "IH V": "give",
    "UW": "shoe blue",
    "AH M": "some",
    "AA R T": "heart",
}
"""From the last stressed vowel on, as the CMU Pronouncing Dictionary has it."""

SOUND = {word: sound for sound, words in ENDINGS.items() for word in words.split()}
SINGULAR_START = re.compile(r"(Each|One|Everybody|Many an?|The number|Neither|Every|An?)\b")
PLURAL_START = re.compile(r"(Both|Several)\b")
PLURAL_WORDS = {"children", "men", "police", "they", "we"}
SINGULAR_WORDS = {"news", "mathematics"}
PREPOSITIONS = re.compile(r"\s(?:of|to|in|under|on|near|with|about|beside|above|at)\s")


def made(*kinds: str) -> list[tuple[str, Question]]:
    """Each question of those kinds, with its stem."""
    rows = read_rows("facts/language_forms")
    return [
        (row["stem"], question)
        for seed in range(6)
        for row, question in zip(rows, forms(random.Random(seed)), strict=True)
        if row["kind"] in kinds
    ]


def is_plural(subject: str) -> bool:
    if SINGULAR_START.match(subject):
        return False
    if PLURAL_START.match(subject) or " and " in subject:
        return True
    head = PREPOSITIONS.split(subject)[0].split()[-1].casefold()
    return head in PLURAL_WORDS or (head.endswith("s") and head not in SINGULAR_WORDS)


def agrees(verb: str, *, plural: bool) -> bool:
    if verb in {"be", "am", "being", "having", "haves", "drunken", "known", "grown", "flown"}:
        return False
    if verb.endswith("ing") or verb.startswith("to "):
        return False
    for_one = verb in {"is", "was", "has", "flies"} or verb.endswith("s")
    return for_one != plural


def quoted(question: Question) -> str:
    return question.prompt[question.prompt.index('"') + 1 : question.prompt.rindex('"')]


def test_the_subjects_head_decides_the_verb() -> None:
    for _, question in made("agree"):
        plural = is_plural(quoted(question).split(" ___")[0])
        assert agrees(question.right, plural=plural), question
        assert not any(agrees(verb, plural=plural) for verb in question.wrong), question


def test_sentences_are_called_correct_if_their_verb_agrees() -> None:
    verbs = {"has", "have", "were", "was", "is", "are", "lies", "don't"}
    for _, question in made("correct"):
        words = quoted(question).rstrip(".").split()
        at = next(place for place, word in enumerate(words) if word in verbs)
        plural = is_plural(" ".join(words[:at]))
        assert (question.right == "yes") == agrees(words[at], plural=plural), question


def test_syllables_are_counted_by_groups_of_vowels() -> None:
    for _, question in made("syllables"):
        word = quoted(question)
        assert question.right == NUMBERS[len(re.findall(r"[aeiouy]+", word))]
        assert set(question.wrong) <= set(NUMBERS) - {question.right}


def test_the_silent_letter_is_written_and_not_heard() -> None:
    for _, question in made("silent"):
        word = quoted(question)
        assert question.right in word
        assert question.right not in HEARD[word]
        assert set(question.wrong) <= set(HEARD[word])


def test_rhymes_end_alike() -> None:
    for _, question in made("rhyme"):
        word, *named = re.findall(r'"(\w+)"', question.prompt)
        assert {question.right, *question.wrong} == set(named)
        assert SOUND[question.right] == SOUND[word]
        assert all(SOUND[other] != SOUND[word] for other in question.wrong)


def test_pairs_rhyme_if_they_end_alike() -> None:
    for _, question in made("rhymes"):
        first, second = re.findall(r'"(\w+)"', question.prompt)
        assert question.right == ("yes" if SOUND[first] == SOUND[second] else "no")


@pytest.mark.parametrize("kind", ["rhyme", "rhymes"])
def test_a_rhyme_is_called_a_rhyme(kind: str) -> None:
    """To end with the same sound is less: "some" and "home" do, and do not rhyme."""
    assert all("rhyme" in wording for wording in KINDS[kind].wordings)


def test_requested_forms_are_irregular_and_unique() -> None:
    stems = [stem for stem, _ in made("past", "participle", "plural")]
    assert len(set(stems)) * 6 == len(stems)
    for verb, question in made("past", "participle"):
        assert question.right not in {verb + "ed", verb + "d"}
    for stem, question in made("plural"):
        assert question.right not in {stem + "s", stem + "es"}


def test_word_classes_are_asked_of_a_word_of_the_sentence() -> None:
    asked = set()
    for _, question in made("class"):
        word, context = re.fullmatch(r'.*?"(\w+)" in "(.*)".*\?', question.prompt).groups()  # type: ignore[union-attr]
        assert re.search(rf"\b{word}\b", context, re.IGNORECASE)
        assert {question.right, *question.wrong} <= set(WORD_CLASSES)
        asked.add(question.right)
    assert asked == set(WORD_CLASSES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_three_wordings_that_are_drawn(kind: str) -> None:
    assert len({question.prompt for _, question in made(kind)}) > len({stem for stem, _ in made(kind)})
