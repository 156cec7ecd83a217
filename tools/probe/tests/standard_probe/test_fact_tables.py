from __future__ import annotations

import csv
import random
import re
from collections import Counter, defaultdict
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest
from standard_probe.fact_tables import (
    CLAIMS,
    Fact,
    ask_all,
    in_sentence,
    read_facts,
    read_relations,
    wrong_answers,
    wrong_subjects,
)
from standard_probe.question import Category, alike_in_length

from forgetwatch.errors import ProbeError

TABLES: tuple[tuple[str, Category], ...] = (
    ("culture", "Culture"),
    ("knowledge", "Knowledge/QA"),
    ("liberal_arts", "Liberal Arts"),
)
FOLDER = Path(str(files("standard_probe").joinpath("facts")))


def fact(subject: str, answer: str, group: str = "", also: tuple[str, ...] = (), wrong: tuple[str, ...] = ()) -> Fact:
    return Fact(
        relation="capital",
        subject=subject,
        answer=answer,
        group=group,
        also=also,
        wrong=wrong,
        difficulty=1,
        source="an atlas",
    )


@pytest.mark.parametrize("name", ["culture", "knowledge", "liberal_arts", "events"])
def test_every_row_is_complete_and_unique(name: str) -> None:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["source"]
        assert row["difficulty"] in ("1", "2", "3", "4", "5")
        assert all(row[column] == row[column].strip() for column in row)
        right, wrong = {row["answer"], *row["also"].split(";")}, row["wrong"].split(";")
        assert row["answer"] not in row["also"].split(";")
        assert wrong == [""] or (len(set(wrong)) >= 4 and not right & set(wrong))
    assert max(Counter((row["relation"], row["subject"]) for row in rows).values()) == 1


@pytest.mark.parametrize(("name", "category"), TABLES)
def test_every_relation_has_a_wording_with_its_blanks(name: str, category: Category) -> None:
    relations = read_relations(category)
    worked_out = {"key", "interval"} if name == "culture" else set()
    assert set(relations) - worked_out == {row.relation for row in read_facts(name)}
    for relation in relations.values():
        assert 1 <= len(set(relation.asks)) == len(relation.asks)
        assert all(text.count("{subject}") == 1 and text.endswith("?") for text in relation.asks)
        assert all(text.count("{answer}") == 1 and text.endswith("?") for text in relation.backs)
        assert re.findall(r"{\w+}", relation.claim) in ([], ["{subject}", "{answer}"], ["{answer}", "{subject}"])
        assert not relation.claim or "{" in relation.claim


@pytest.mark.parametrize(("name", "category"), TABLES)
def test_no_wrong_answer_is_right_by_the_table(name: str, category: Category) -> None:
    facts = {(row.relation, row.subject): row for row in read_facts(name)}
    for seed in range(3):
        for question in ask_all(list(facts.values()), category=category, rng=random.Random(seed)):
            (used,) = question.uses
            relation, _, subject = used.partition(":")
            asked = facts[relation, subject]
            right = {asked.answer, *asked.also}
            if question.right == asked.answer:
                assert not right & set(question.wrong)
            elif question.right == subject:
                for wrong in question.wrong:
                    other = facts[relation, wrong]
                    assert asked.answer not in (other.answer, *other.also)
            else:
                said = {row.answer for row in facts.values() if row.relation == relation} | set(asked.wrong)
                claim = read_relations(category)[relation].claim + "?"
                claimed = {
                    answer
                    for answer in said
                    if claim.format(subject=in_sentence(subject), answer=in_sentence(answer)) in question.prompt
                }
                assert len(claimed) == 1
                assert (question.right, claimed <= right) in (("Yes", True), ("No", False))


def test_arguable_answers_are_not_drawn_as_wrong() -> None:
    chile, peru, bolivia = fact("Chile", "Bogus"), fact("Peru", "Lima"), fact("Cuba", "Sucre", also=("La Paz",))
    also_chile, other = fact("Chilly", "Bogus"), fact("Slip", "La Paz")
    rows = [chile, peru, bolivia, also_chile, other]
    assert sorted(wrong_answers(bolivia, rows, random.Random(0))) == ["Bogus", "Lima"]
    assert sorted(wrong_subjects(chile, rows, random.Random(0))) == ["Cuba", "Peru", "Slip"]
    assert "Cuba" not in wrong_subjects(other, rows, random.Random(0))


def test_a_facts_own_wrong_answers_are_used() -> None:
    asked = fact("the largest city", "Rome", wrong=("Milan", "Turin", "Naples"))
    assert sorted(wrong_answers(asked, [asked, fact("x", "Oslo")], random.Random(0))) == ["Milan", "Naples", "Turin"]


def test_texts_of_unlike_length_are_not_drawn_and_the_same_group_goes_first() -> None:
    asked = fact("Italy", "Rome", group="europe")
    rows = [asked, fact("a", "Antananarivo", "europe"), fact("b", "Lima", "america"), fact("c", "Oslo", "europe")]
    for seed in range(5):
        assert wrong_answers(asked, rows, random.Random(seed)) == ("Oslo", "Lima")
        assert wrong_answers(asked, rows, random.Random(seed), count=1) == ("Oslo",)


def test_the_right_answer_is_the_longest_as_often_as_by_chance() -> None:
    rows = [fact(f"s{n}", "x" * (4 + n % 9) + str(n)) for n in range(90)]
    ranks: dict[int, Fraction] = defaultdict(Fraction)
    for seed, asked in enumerate(rows * 20):
        wrong = wrong_answers(asked, rows, random.Random(seed), count=3)
        assert alike_in_length((asked.answer, *wrong))
        longer = sum(len(text) > len(asked.answer) for text in wrong)
        equal = sum(len(text) == len(asked.answer) for text in wrong)
        for rank in range(longer, longer + equal + 1):
            ranks[rank] += Fraction(1, equal + 1)
    assert all(abs(ranks[rank] / 1800 - 0.25) < 0.05 for rank in range(4))


def test_wrong_numbers_have_a_like_magnitude() -> None:
    rows = [fact(str(n), str(n)) for n in (1, 2, 3, 5, 8, 12, 20, 26, 33, 50, 64, 88, 100, 144, 360, 1000)]
    for asked in rows:
        for seed in range(20):
            numbers = sorted(map(int, (asked.answer, *wrong_answers(asked, rows, random.Random(seed)))))
            assert numbers[-1] <= max(9, 3 * numbers[0])
    assert wrong_answers(rows[-1], rows, random.Random(0)) == ("360",)


def test_a_fact_with_too_few_wrong_answers_is_named() -> None:
    rows = [fact("Burkina Faso", "Ouagadougou"), *(fact(f"{n}", f"Lima{n}") for n in range(60))]
    with pytest.raises(ProbeError, match=r"capital of 'Burkina Faso': needed two wrong answers .* 'Ouagadougou'"):
        ask_all(rows, category="Knowledge/QA", rng=random.Random(1))


@pytest.mark.parametrize(("name", "category"), TABLES)
def test_claims_are_few_and_no_other_question_has_two_options(name: str, category: Category) -> None:
    facts = read_facts(name)
    for seed in range(3):
        asked = ask_all(facts, category=category, rng=random.Random(seed))
        claims = Counter(question.right for question in asked if len(question.wrong) == 1)
        assert claims.keys() <= {"Yes", "No"}
        assert claims["Yes"] == claims["No"] <= CLAIMS


def test_an_answer_is_drawn_as_often_as_it_is_right() -> None:
    rows = [fact(f"s{n}", "Rome" if n < 6 else f"T{n}wn") for n in range(12)]
    asked = fact("asked", "Oslo")
    first = Counter(wrong_answers(asked, rows, random.Random(seed))[0] for seed in range(400))
    assert 160 < first["Rome"] < 240


def test_names_take_their_article_only_within_a_sentence() -> None:
    assert in_sentence("Netherlands") == "the Netherlands"
    assert in_sentence("Chile") == "Chile"
