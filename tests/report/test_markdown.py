from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from pages import choices, hostile, run, written
from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing.flips import flips
from forgetwatch.report import ITEMS, comparison_markdown, escaped


def tables(text: str) -> list[list[str]]:
    """The blocks of lines that begin with a bar."""
    return [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_the_first_page_is_above_the_tables() -> None:
    of = choices()
    lines = comparison_markdown(of.comparison, changed=of.changed).splitlines()
    assert lines[0] == "# toy at step 0 → toy at step 100"
    assert re.match(r"\*\*(PASS|FAIL|INCONCLUSIVE)\*\* ", lines[2])
    headings = [line[2 : line.index("**", 2)] for line in lines if line.startswith("**")]
    assert [heading for heading in headings[1:] if heading != "LOSS"] == [
        "What it gained",
        "What it lost",
        "Does it say less of this, or something else?",
        "Is it less sure of the right answers?",
        "Is that more than luck?",
        "What was not measured",
    ]


def test_every_row_has_the_cells_of_its_head_whatever_the_text() -> None:
    for of in (choices(), written(), hostile()):
        text = comparison_markdown(of.comparison, changed=of.changed)
        assert tables(text)
        for table in tables(text):
            assert len({cells(line) for line in table}) == 1


def test_alarms_and_categories_below_zero_are_named() -> None:
    trajectory, _ = run(2400)
    text = comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory)
    assert re.search(r"\*\*LOSS\*\* At this look alone: below zero on (its|their) own, .*Math by ", text)
    assert re.search(r"\*\*ALARM\*\* Over all 4 looks and 4 groups: .*a net loss of Math at step ", text)


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
    assert "| Math |" not in by_task
    assert "| Math |" not in comparison_markdown(comparison, by="all")


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
