"""Forms, sounds and word classes agree with rules applied to the words of the question."""

from __future__ import annotations

import random
import re

import pytest
from standard_probe.language import questions
from standard_probe.language.forms import KINDS, forms
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
    "ghost": "gost",
    "sword": "sord",
    "muscle": "musl",
    "debt": "det",
}
"""The letters that are spoken; from the CMU Pronouncing Dictionary."""

ENDINGS = {
    "AE T": "cat hat",
    "AH T": "cut",
    "AA T": "cot",
    "UW N": "moon spoon",
    "AE N": "man",
    "AY N": "mine",
    "OW": "though dough sew toe show",
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
    "UW": "shoe blue few",
    "AH M": "some drum",
    "AA R T": "heart part",
    "IH R D": "beard",
    "AO": "saw",
}
"""From the last stressed vowel on, as the CMU Pronouncing Dictionary has it."""

SOUND = {word: sound for sound, words in ENDINGS.items() for word in words.split()}
SINGULAR_START = re.compile(r"(Each|One|Everybody|Many an?|The number|Neither|Every|An?)\b")
PLURAL_START = re.compile(r"(Both|Several)\b")
PLURAL_WORDS = {"children", "men", "police", "they", "we", "criteria", "larvae"}
SINGULAR_WORDS = {"news", "mathematics", "gymnastics"}
PREPOSITIONS = re.compile(r"\s(?:of|to|in|under|on|near|with|about|beside|above|at|for)\s")
WORD_CLASSES = {
    "noun": "books child lion questions soup today ball chairs teacher students silence kindness evening people names "
    "boats islands girls ladders roses horse mountains carpenters concerts grandpa guests neighbor lake max eva martin "
    "tea coins bridges noise parcels",
    "verb": "opened laughed waited answered made rolled sings thanked enjoys helped seemed forget sailed stayed "
    "rained borrowed helps ran wins climbed snored injured sneezed was sing "
    "find left",
    "adjective": "small hungry friendly pleasant young brave yellow long new careless clever cold deep grumpy",
    "adverb": "quietly quickly kindly always really often yesterday please sometimes early suddenly very "
    "joyfully then only once",
    "pronoun": "she you they him them themselves",
    "preposition": "under for between during beneath amid",
    "conjunction": "and because although but unless lest",
}
CLASS_OF = {word: name for name, words in WORD_CLASSES.items() for word in words.split()}
BY_SENTENCE = {
    "Please water the yellow roses": ("water", "verb"),
    "A long walk helps me": ("walk", "noun"),
    "Clever guests book early": ("book", "verb"),
    "The new horse ran fast": ("fast", "adverb"),
    "A fast horse always wins": ("fast", "adjective"),
}
"""Words that belong to another class elsewhere."""


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
    asked = [question for question in questions(random.Random(0)) if question.topic == "agreement"]
    for question in (one for one in asked if one.form == "continuation"):
        plural = is_plural(question.prompt)
        assert agrees(question.right.split()[0], plural=plural), question
        assert not any(agrees(wrong.split()[0], plural=plural) for wrong in question.wrong), question


def test_no_wrong_verb_form_is_also_a_simple_past() -> None:
    """ "A bag of onions cost two dollars" is correct: only the past tense has the same form."""
    same_in_past = {"cost", "put", "hit", "cut", "set", "let", "cast", "shut", "hurt", "read", "spread"}
    for question in questions(random.Random(0)):
        if question.topic == "agreement" and question.form == "continuation":
            assert not same_in_past & {option.split()[0] for option in question.wrong}, question


def test_sentences_are_called_correct_if_their_verb_agrees() -> None:
    verbs = {"has", "have", "were", "was", "is", "are", "lies", "don't"}
    for _, question in made("correct"):
        words = quoted(question).rstrip(".").split()
        at = next(place for place, word in enumerate(words) if word in verbs)
        plural = is_plural(" ".join(words[:at]))
        assert (question.right == "Yes") == agrees(words[at], plural=plural), question


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
        assert question.right == ("Yes" if SOUND[first] == SOUND[second] else "No")


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


def test_exactly_one_option_is_of_the_requested_word_class() -> None:
    asked = set()
    for _, question in made("class"):
        name, sentence = re.fullmatch(r'.*? (\w+) in "(.*)"\?', question.prompt).groups()  # type: ignore[union-attr]
        classes = CLASS_OF | dict([BY_SENTENCE[sentence]] if sentence in BY_SENTENCE else [])
        options = (question.right, *question.wrong)
        assert {option.casefold() for option in options} <= set(re.findall(r"\w+", sentence.casefold())), question
        assert [option for option in options if classes[option.casefold()] == name] == [question.right], question
        asked.add(name)
    assert asked == set(WORD_CLASSES)


def test_no_option_is_an_invented_form() -> None:
    """Invented forms, such as "goed" beside "went", reveal the answer without the question."""
    verbs = {stem for stem, _ in made("past", "participle")}
    for stem, question in made("past", "participle", "plural"):
        right = question.right
        invented = {stem + end for end in ("d", "ed", "s", "es")} | {right + end for end in ("d", "ed", "s", "es")}
        # "Eats" is a form of its verb; "mother-in-laws" is a form that people use.
        invented -= {stem + end for end in ("s", "es")} if stem in verbs else set()
        assert "-" in stem or not invented & set(question.wrong), question


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_three_wordings_that_are_drawn(kind: str) -> None:
    assert len({question.prompt for _, question in made(kind)}) > len({stem for stem, _ in made(kind)})
