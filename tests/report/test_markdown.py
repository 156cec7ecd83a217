from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from pages import choices, hostile, run, written
from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing.flips import flips
from forgetwatch.report import ITEMS, comparison_markdown, escaped
from forgetwatch.report.sentences import summary


def tables(text: str) -> list[list[str]]:
    """The blocks of lines that begin with a bar."""
    return [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_the_first_page_is_above_the_tables() -> None:
    of = choices()
    lines = comparison_markdown(of.comparison, changed=of.changed).splitlines()
    first = summary(of.comparison, changed=of.changed)
    assert lines[0] == f"**{first.word}** {first.sentence}"
    assert lines[2] == "What changed in toy from step 0 to step 100"
    assert "| accuracy |" in lines[6]
    above = lines[: lines.index("## How sure is that?")]
    assert "**Worst categories**" in above
    assert "**Lost questions of Math**" in above
    assert sum(line.startswith("* “Question number") for line in above) == 3
    assert [line[3:] for line in lines if line.startswith("## ")] == [
        "How sure is that?",
        "All numbers",
        "Which questions",
    ]


def test_every_row_has_the_cells_of_its_head_whatever_the_text() -> None:
    for of in (choices(), written(), hostile()):
        text = comparison_markdown(of.comparison, changed=of.changed)
        assert tables(text)
        for table in tables(text):
            assert len({cells(line) for line in table}) == 1


def test_alarms_and_the_worst_categories_are_named() -> None:
    trajectory, _ = run(2400)
    text = comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory)
    assert re.search(r"\| since \| .*Math: step \d+", text)
    assert re.search(r"^\| Math \| -\d+\.\d \| -\d+\.\d to -\d+\.\d \|", text, re.MULTILINE)
    assert re.search(r"### Alarms\n\n(\* .*\n)*\* Math, step \d+: -", text)


def test_losses_of_the_largest_margin_are_listed_and_the_others_counted() -> None:
    rows = ITEMS + 7
    before, after = snapshot([True] * rows), snapshot([False] * rows)
    text = comparison_markdown(compare(before=before, after=after), changed=flips(before, after))
    assert f"{ITEMS} of {rows} forgotten, those of the largest margin:" in text
    assert len(tables(text)[-1]) == 2 + ITEMS


def test_the_level_of_the_groups_can_be_chosen() -> None:
    comparison = choices().comparison
    by_task = comparison_markdown(comparison, by="task")
    assert "| task 3 |" in by_task
    assert "| Math |" not in by_task.partition("## All numbers")[2]
    assert "| Math |" not in comparison_markdown(comparison, by="all").partition("## All numbers")[2]


def test_foreign_text_is_not_markup() -> None:
    of = hostile()
    text = comparison_markdown(of.comparison, changed=of.changed)
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)[`\[]", text)
    text.encode("utf-8")


@given(st.text())
def test_an_escaped_text_is_one_line_and_ends_no_cell(text: str) -> None:
    made = escaped(text)
    assert "\n" not in made
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", made)
