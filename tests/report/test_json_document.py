import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import choices, compared, hostile, run, sure, written
from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.document import comparison_json, comparisons_json
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.verdict import Tolerance, ranked_categories
from forgetwatch.metrics.known import TAU
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.markdown import ITEMS, comparison_markdown, escaped

GROUP = {
    *(
        "level",
        "name",
        "n",
        "retained",
        "forgotten",
        "gained",
        "missed",
        "known",
        "known_lost",
        "newly_known",
    ),
    *(
        "accuracy_before",
        "accuracy_after",
        "forgetting",
        "backward_transfer",
        "net_change",
        "forgetting_relative",
    ),
    *("retention", "format_lost", "knowledge_lost", "null_lost"),
    *("forgetting_interval", "backward_transfer_interval", "net_change_interval"),
    *("p_value", "chance", "null_n", "null_gained", "known_lost_interval"),
    *("loss_p_value", "effective_n"),
    *(
        "known_by_luck",
        "known_lost_by_luck",
        "known_net",
        "known_lost_net",
        "known_lost_net_interval",
    ),
    *(
        "known_lost_net_share",
        *("score_before", "score_after", "score_change", "score_change_interval"),
        "score_sampling_share",
        "log_score_before",
        "log_score_after",
        "log_score_change",
        "log_score_change_interval",
    ),
    "forgotten_at_constant_mass",
    *(
        "log_mass_change",
        "log_mass_change_interval",
        "log_conditional_change",
        "log_conditional_change_interval",
    ),
    *("forgotten_log_mass_change", "forgotten_log_mass_change_interval"),
    *("forgotten_log_conditional_change", "forgotten_log_conditional_change_interval"),
    *("passages", "bits_per_byte_before", "bits_per_byte_after", "bits_per_byte_change"),
    "bits_per_byte_change_interval",
    *(
        "net_change_interval_worst",
        "known_vanished",
        "vanished",
        "unscored_before",
        "unscored_after",
        "newly_unscored",
    ),
    "not_finite",
    *(
        "margin_change",
        "margin_change_interval",
        "net_change_estimate",
        "net_change_estimate_interval",
    ),
    *("known_lost_net_share_interval", "newly_known_net", "newly_known_net_interval"),
    *("right_lost_share", "right_lost_share_interval"),
}
CHANCE = {"n", "paper", "guess_corrected"}


def test_the_document_has_every_promised_key_and_plain_values() -> None:
    columns = {"k": [4, 4], "chosen": [0, 1], "gold_share": [0.9, 0.1]}
    made = compared([True, False], [False, False], meta={"model": "m"}, **columns)
    document = json.loads(json.dumps(comparison_json(made), allow_nan=False))
    assert document["schema"] == "forgetwatch/comparison@2"
    assert document["before"] == {"model": "m"}
    assert document["items"] == {
        "compared": 2, "unscored": 0, "only_before": 0, "only_after": 0, "content_differs": 0, "prompt_differs": 0,
    }  # fmt: skip
    whole = document["groups"][0]
    assert (whole["level"], whole["name"]) == ("all", "all")
    assert set(whole) == GROUP
    assert set(whole["chance"]) == CHANCE
    assert set(whole["chance"]["paper"]) == {
        *(
            "expected",
            "forgetting",
            "backward_transfer",
            "forgetting_unclipped",
            "backward_transfer_unclipped",
        ),
        *("forgetting_max", "backward_transfer_max", "forgetting_se", "backward_transfer_se"),
        *("forgetting_interval", "backward_transfer_interval"),
    }
    assert set(document["macro"]) == {"forgetting", "backward_transfer", "by_category"}
    assert isinstance(whole["forgotten"], int)
    assert document["definitions"] == {"known": "k>=3, share>=tau", "tau": TAU, "margin": None}
    assert document["categories"] == {"differ_p_value": None, "ranked": []}


def test_the_known_less_luck_and_the_log_score_are_those_of_the_group() -> None:
    comparison = sure().comparison
    whole, group = comparison_json(comparison)["groups"][0], comparison.all
    assert (
        whole["known"],
        whole["known_lost"],
        whole["known_lost_by_luck"],
        whole["known_lost_net"],
    ) == (60, 12, 5, 7)
    assert whole["known_by_luck"] == pytest.approx(40 / 3)
    assert whole["known_net"] == pytest.approx(60 - 40 / 3)
    assert whole["known_lost_net_share"] == pytest.approx(7 / (60 - 40 / 3))
    assert group["known_lost_net_interval"] is not None
    assert whole["known_lost_net_interval"] == list(group["known_lost_net_interval"])
    assert whole["log_score_change"] == pytest.approx(
        whole["log_score_after"] - whole["log_score_before"]
    )
    assert group["log_score_change_interval"] is not None
    assert whole["log_score_change_interval"] == list(group["log_score_change_interval"])


def test_an_undefined_quantity_is_null() -> None:
    document = comparison_json(compared([None], [None]))
    whole = document["groups"][0]
    names = ("forgetting", "retention", "known", "null_lost", "known_lost_net")
    assert {whole[name] for name in (*names, "log_score_change")} == {None}
    assert whole["net_change_interval"] == [None, None]
    assert whole["chance"]["paper"] is None


def test_several_comparisons_are_a_list() -> None:
    one = compared([True], [True])
    assert comparisons_json([one]) == comparison_json(one)
    assert comparisons_json([one, one]) == {
        "schema": "forgetwatch/comparisons@2",
        "comparisons": [comparison_json(one)] * 2,
    }


def test_the_verdict_names_its_question_and_its_legs() -> None:
    comparison = sure().comparison
    for tolerance in (Tolerance(), Tolerance(accuracy=0.3, known=None)):
        document, found = (
            comparison_json(comparison, tolerance=tolerance)["verdict"],
            decide(comparison, tolerance),
        )
        legs = document.pop("legs")
        assert document == {
            "question": "in this comparison alone, is a loss beyond its limit?",
            "answer": found.answer,
            "word": found.word,
            **{name: getattr(found, name) for name in ("sentence", "next", "deciding")},
            "reasons": list(found.reasons),
        }
        assert set(legs) == {"accuracy", "knowledge", "category"}
        accuracy = found.leg("accuracy")
        assert accuracy is not None
        assert accuracy.interval is not None
        assert legs["accuracy"]["interval"] == list(accuracy.interval)
        assert (legs["accuracy"]["limit"], legs["accuracy"]["answer"]) == (
            -(tolerance.accuracy or 0),
            accuracy.answer,
        )
        assert (legs["knowledge"]["answer"] is None) == (tolerance.known is None)
        assert legs["category"]["limit"] == -0.05


def test_the_ranked_categories_are_in_the_document() -> None:
    right, category = [True] * 120, ["a"] * 60 + ["b"] * 60
    comparison = compared(right, [False] * 25 + [True] * 95, category=category)
    document = comparison_json(comparison)["categories"]
    ranked, p_value = ranked_categories(comparison)
    assert document["differ_p_value"] == p_value
    assert [one["name"] for one in document["ranked"]] == ["a", "b"]
    assert document["ranked"][0]["change"] == ranked[0].change
    assert document["ranked"][0]["interval"] == list(ranked[0].interval)


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
    assert (
        row["retention"]
        == row["known"]
        == row["known_lost_interval_low"]
        == row["chance.paper.forgetting"]
        == ""
    )
    assert row["forgotten"] == "0"


def test_the_csv_table_has_no_nan() -> None:
    text = comparisons_csv([compared([None], [None])])
    assert "nan" not in text
    assert "inf" not in text


def test_names_with_commas_quotes_and_line_breaks_come_back() -> None:
    names = ['a,b "c"', "line\nbreak", "1=1"]
    same = compared([True] * 3, [True] * 3, category=names)
    assert [
        row["name"] for row in rows(comparisons_csv([same])) if row["level"] == "category"
    ] == names
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
    assert {row["name"] for row in rows(text)} > {
        '\'=HYPERLINK("http://evil","x")',
        "'-1",
        "a⟨U+001B⟩[31m",
    }
    assert "\x1b" not in text


def tables(text: str) -> list[list[str]]:
    """The blocks of lines that begin with a bar."""
    return [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_the_first_page_is_above_the_tables() -> None:
    of = choices()
    lines = comparison_markdown(of.comparison, changed=of.changed).splitlines()
    made = first_table(of.comparison)
    assert lines[0] == f"**FORGOT** {made.name}: {made.decision.claim}"
    assert lines[2] == made.decision.basis
    assert lines[4].startswith("| answers | ")
    above = lines[: lines.index("## How sure is that?")]
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
    assert re.search(r"\| when \| .*\(Math from \d+\)", text)
    assert re.search(r"\| where \| worst: Math, \d+ of \d+ lost", text)
    assert re.search(r"### Alarms\n\n(\* .*\n)*\* Math, step \d+: -", text)


def test_some_losses_are_listed_and_the_others_counted() -> None:
    rows = ITEMS + 7
    before, after = snapshot([True] * rows), snapshot([False] * rows)
    text = comparison_markdown(compare(before=before, after=after), changed=flips(before, after))
    assert f"{ITEMS} of {rows} forgotten, the first:" in text
    assert len(tables(text)[-1]) == 2 + ITEMS


def test_the_level_of_the_groups_can_be_chosen() -> None:
    comparison = choices().comparison
    by_task = comparison_markdown(comparison, by="task")
    assert "| task 3 |" in by_task
    assert "| Math |" not in by_task.partition("## All numbers")[2]
    assert (
        "| Math |" not in comparison_markdown(comparison, by="all").partition("## All numbers")[2]
    )


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
