"""Written tables become questions row by row."""

from __future__ import annotations

import re

import pytest
from standard_probe.question import Category
from standard_probe.written import GAP, entries, read_rows, written

TABLES: list[tuple[str, Category]] = [
    ("common_sense", "Common Sense"),
    ("language", "Language"),
    ("safety", "Safety/Truth"),
]


@pytest.mark.parametrize(("name", "category"), TABLES)
def test_every_row_is_one_question_in_order(name: str, category: Category) -> None:
    rows = read_rows(f"facts/{name}")
    questions = written(name, category=category)
    assert [row["prompt"].removesuffix(f" {GAP}") for row in rows] == [question.prompt for question in questions]
    assert [row["prompt"].endswith(GAP) for row in rows] == [one.form == "continuation" for one in questions]
    assert {question.category for question in questions} == {category}


def test_entries_of_a_cell_are_split_at_bars() -> None:
    assert entries("a hammer|a brush") == ("a hammer", "a brush")
    assert entries("") == ()


@pytest.mark.parametrize(("name", "category"), TABLES)
def test_every_row_names_a_source_and_a_level(name: str, category: Category) -> None:
    for question in written(name, category=category):
        assert question.source.strip()
        assert 1 <= question.difficulty <= 5


@pytest.mark.parametrize("name", [name for name, _ in TABLES])
def test_no_cell_has_stray_spaces(name: str) -> None:
    for row in read_rows(f"facts/{name}"):
        for cell in row.values():
            assert cell == cell.strip()
            assert not re.search(r"  | \||\| |\|\|", cell), cell
