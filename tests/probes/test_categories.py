"""The paper's categories, and maps from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import snapshot

from forgetwatch import compare
from forgetwatch.errors import ProbeError
from forgetwatch.probes import Categories, paper_category


@pytest.mark.parametrize(
    ("task", "category"),
    [
        ("mmlu_anatomy", "Science/Tech"),
        ("community|mmlu:anatomy|0", "Science/Tech"),
        ("bbh_causal_judgement", "Logic"),
        ("arc_easy", "Logic"),
        ("ifeval", "Instruction Following"),
        ("gsm8k", ""),
    ],
)
def test_the_papers_category_of_a_task_in_any_spelling(task: str, category: str) -> None:
    assert paper_category(task) == category


def test_a_written_map_is_read_back_equal(tmp_path: Path) -> None:
    paper = Categories.paper()
    assert len(set(paper.names.values())) == 10
    (tmp_path / "c.csv").write_text(paper.to_csv(), encoding="utf-8")
    assert Categories.read(tmp_path / "c.csv").names == paper.names


def test_a_map_whose_names_are_formulas_is_written_without_them_and_read_back_equal(tmp_path: Path) -> None:
    names = {"=1+1": "@SUM(1)", "-x": "+y", "'=1": "'tis", "plain": "a,b"}
    text = Categories(names).to_csv()
    assert all(line.lstrip('"')[0] not in "=+-@" for line in text.splitlines())
    (tmp_path / "c.csv").write_text(text, encoding="utf-8")
    assert Categories.read(tmp_path / "c.csv").names == names


def test_yaml_maps_and_prefixes_of_names(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("mmlu*: Facts\nmmlu_college*: Study\nmmlu:anatomy: Body\n'7': Seven\n")
    found = Categories.read(tmp_path / "c.yaml")
    assert [found.of(task) for task in ("mmlu_virology", "mmlu_college_physics", "mmlu_anatomy", "7", "arc")] == [
        *("Facts", "Study", "Body", "Seven"),
        None,
    ]


def test_a_comparison_is_grouped_by_a_map_and_notes_unmapped_tasks() -> None:
    tasks = ["a", "a", "b", "c"]
    before, after = (snapshot(right, task=tasks) for right in ([True] * 4, [False, True, False, True]))
    own = Categories({"a": "X", "b": "X", "zebra": "Y"}, "mine.csv")
    found = compare(before=before, after=after, categories=own)
    assert {name: (group.n, group.forgotten) for name, group in found.by("category").items()} == {
        "X": (3, 2),
        "c": (1, 0),
    }
    assert found.all == compare(before=before, after=after).all
    assert found.notes == (
        "categories: 1 of 3 tasks are not in mine.csv and keep theirs (c)",
        "categories: no task for 1 name in mine.csv (zebra)",
    )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("c.csv", "name,category\na,b\n", "needed the columns task and category in its first line, task is not there"),
        ("c.csv", "task,category\na\n", "line 2: needed task,category"),
        ("c.csv", "task,category\na,b,c\n", "line 2: needed task,category"),
        ("c.csv", "task,category\nmmlu:anatomy,b\nmmlu_anatomy,c\n", "line 3: 'mmlu_anatomy' has the category 'b'"),
        ("c.csv", "task,category\n", "there are none"),
        ("c.yaml", "- a\n", "needed lines of 'task: category', got a list"),
        ("c.yaml", "a: [1]\n", "needed text on both sides, got 'a': "),
        ("c.yaml", "a: [", "it is not YAML"),
    ],
)
def test_an_unreadable_map_is_refused_with_the_line(name: str, text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ProbeError, match=why):
        Categories.read(tmp_path / name)
    with pytest.raises(ProbeError, match="no such file"):
        Categories.read(tmp_path / "none.csv")


def test_a_task_and_its_prefix_may_have_different_categories(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("task,category\nmmlu,Whole\nmmlu*,Part\n")
    found = Categories.read(path)
    assert (found.of("mmlu"), found.of("mmlu_anatomy")) == ("Whole", "Part")
