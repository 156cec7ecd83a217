from __future__ import annotations

import csv
import io

from pages import choices, compared, hostile

from forgetwatch.report import comparisons_csv


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
    row = rows(comparisons_csv([compared([False], [False])]))[0]
    assert row["retention"] == row["known"] == row["known_lost_interval_low"] == row["chance.paper.forgetting"] == ""
    assert row["forgotten"] == "0"


def test_the_csv_table_has_no_nan() -> None:
    text = comparisons_csv([compared([None], [None])])
    assert "nan" not in text
    assert "inf" not in text


def test_names_with_commas_quotes_and_line_breaks_come_back() -> None:
    names = ['a,b "c"', "line\nbreak", "1=1"]
    same = compared([True] * 3, [True] * 3, category=names)
    assert [row["name"] for row in rows(comparisons_csv([same])) if row["level"] == "category"] == names
    of = hostile()
    assert len(rows(comparisons_csv([of.comparison]))) == len(of.comparison.groups)


def test_no_cell_begins_as_a_formula_and_numbers_stay_numbers() -> None:
    names = [
        '=HYPERLINK("http://evil","x")',
        "+1+cmd|' /C calc'!A0",
        "@SUM(1+1)",
        "-1",
        "\t=1",
        "\r=1",
        " =1",
        "a\x1b[31m",
    ]
    labels = {"category": names, "task": names, "k": [4] * len(names), "gold": [0] * len(names)}
    made = compared([True] * len(names), [False] * len(names), meta={"model": "=1+1"}, **labels)
    text = comparisons_csv([made])
    for row in rows(text):
        assert all(row[name][0] not in "=+-@\t\r" for name in ("before", "after", "level", "name"))
        assert float(row["net_change"]) == -1
    assert {row["name"] for row in rows(text)} > {'\'=HYPERLINK("http://evil","x")', "'-1", "a⟨U+001B⟩[31m"}
    assert "\x1b" not in text
