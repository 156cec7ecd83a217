from __future__ import annotations

import csv
import io

from pages import choices, hostile
from support import snapshot

from forgetwatch import compare
from forgetwatch.report.export import comparisons_csv


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_group_of_each_comparison_is_a_line() -> None:
    one, other = choices(60).comparison, choices(90).comparison
    found = rows(comparisons_csv([one, other]))
    assert [(row["level"], row["name"]) for row in found] == [
        (group.level, group.name) for comparison in (one, other) for group in comparison.groups
    ]
    assert {row["n"] for row in found if row["level"] == "all"} == {"57", "85"}


def test_what_is_undefined_is_an_empty_cell() -> None:
    row = rows(comparisons_csv([compare(before=snapshot([False]), after=snapshot([False]))]))[0]
    assert row["retention"] == row["known"] == row["known_lost_interval_low"] == row["chance.paper.forgetting"] == ""
    assert row["forgotten"] == "0"


def test_the_csv_table_has_no_nan() -> None:
    text = comparisons_csv([compare(before=snapshot([None]), after=snapshot([None]))])
    assert "nan" not in text
    assert "inf" not in text


def test_names_with_commas_quotes_and_line_breaks_come_back() -> None:
    names = ['a,b "c"', "line\nbreak", "=1+1"]
    labels = {"category": names}
    same = snapshot([True] * 3, **labels)
    found = [
        row["name"] for row in rows(comparisons_csv([compare(before=same, after=same)])) if row["level"] == "category"
    ]
    assert found == names
    of = hostile()
    assert len(rows(comparisons_csv([of.comparison]))) == len(of.comparison.groups)
