from __future__ import annotations

import csv
import random
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from standard_probe.fact_tables import (
    Fact,
    ask_all,
    in_sentence,
    read_facts,
    read_relations,
    wrong_answers,
    wrong_subjects,
)
from standard_probe.question import Category

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
        assert row["difficulty"] in ("1", "2", "3")
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
        assert len(set(relation.asks)) == 3
        assert all(text.count("{subject}") == 1 and text.endswith("?") for text in relation.asks)
        assert all(text.count("{answer}") == 1 and text.endswith("?") for text in relation.backs)
        assert re.findall(r"{\w+}", relation.claim) in (["{subject}", "{answer}"], ["{answer}", "{subject}"])


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
    chile, peru, bolivia = fact("Chile", "Santiago"), fact("Peru", "Lima"), fact("Bolivia", "Sucre", also=("La Paz",))
    also_chile, other = fact("Chile by another name", "Santiago"), fact("a table's slip", "La Paz")
    rows = [chile, peru, bolivia, also_chile, other]
    assert sorted(wrong_answers(bolivia, rows, random.Random(0))) == ["Lima", "Santiago"]
    assert sorted(wrong_subjects(chile, rows, random.Random(0))) == ["Bolivia", "Peru", "a table's slip"]
    assert "Bolivia" not in wrong_subjects(other, rows, random.Random(0))


def test_a_facts_own_wrong_answers_are_used() -> None:
    asked = fact("the largest city", "Rome", wrong=("Milan", "Turin", "Naples"))
    assert sorted(wrong_answers(asked, [asked, fact("x", "Oslo")], random.Random(0))) == ["Milan", "Naples", "Turin"]


def test_wrong_answers_of_similar_length_then_same_group_go_first() -> None:
    asked = fact("Italy", "Rome", group="europe")
    rows = [asked, fact("a", "Antananarivo", "europe"), fact("b", "Lima", "america"), fact("c", "Oslo", "europe")]
    for seed in range(5):
        assert wrong_answers(asked, rows, random.Random(seed)) == ["Oslo", "Lima", "Antananarivo"]


def test_an_answer_is_drawn_as_often_as_it_is_right() -> None:
    rows = [fact(f"s{n}", "Rome" if n < 6 else f"T{n}wn") for n in range(12)]
    asked = fact("asked", "Oslo")
    first = Counter(wrong_answers(asked, rows, random.Random(seed))[0] for seed in range(400))
    assert 160 < first["Rome"] < 240


def test_names_take_their_article_only_within_a_sentence() -> None:
    assert in_sentence("Netherlands") == "the Netherlands"
    assert in_sentence("Chile") == "Chile"
