"""Passages in every output: terminal, Markdown, CSV, page, notebook, trackers, pictures."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from pages import detail_of, printed
from pages import table as table_of
from passage_texts import read

from forgetwatch import Comparison, Trajectory, compare
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.html import run_page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.pictures import save_run
from forgetwatch.report.terminal import LINES
from forgetwatch.report.tracker_rows import tracker_row

RNG = np.random.default_rng(0)
BEFORE = RNG.uniform(0.8, 1.6, 60)
AFTER = BEFORE + RNG.normal(0.046, 0.05, 60)
QUESTIONS = [True, True, False, True, False, True]
LINE = "passages   60 passages: 1.204 -> 1.255 bits per byte (+0.037 to +0.063)"
NO_VERDICT = "NO VERDICT"


def compared(*, questions: bool) -> Comparison:
    asked = QUESTIONS if questions else []
    turned = [True, False, False, True, True, False] if questions else []
    return compare(
        before=read(bits=BEFORE, questions=asked), after=read(bits=AFTER, questions=turned, step=10)
    )


def watched(*, questions: bool) -> Trajectory:
    asked = QUESTIONS if questions else []
    return trajectory_of(
        [read(bits=BEFORE + 0.02 * at, questions=asked, step=10 * at) for at in range(4)], planned=3
    )


def lines(*shown: object) -> list[str]:
    return printed(*shown).splitlines()


@pytest.mark.parametrize("questions", [False, True])
def test_the_first_table_has_one_line_of_passages(questions: bool) -> None:
    found = lines(table_of(compared(questions=questions)))
    assert LINE in found
    assert len(found) <= LINES
    assert max(map(len, found)) <= 100
    assert any(line.startswith(NO_VERDICT) for line in found) is not questions
    assert any(line.startswith("NOT CLEAR ") for line in found) is questions


def test_without_flips_the_line_of_passages_stays() -> None:
    sides = {
        "before": read(bits=BEFORE, questions=QUESTIONS),
        "after": read(bits=AFTER, questions=QUESTIONS, step=1),
    }
    found = lines(table_of(compare(**sides)))
    assert LINE in found
    assert any("none of 6 changed" in line for line in found)


@pytest.mark.parametrize("questions", [False, True])
def test_the_detail_lists_every_category_with_passages(questions: bool) -> None:
    run = watched(questions=questions)
    of_run = detail_of(run.comparisons[-1], trajectory=run)
    found = lines(detail_of(compared(questions=questions)), of_run)
    of_texts = [
        line.split()[:2]
        for line in found
        if line.startswith(("  News", "  Code")) and "+0." in line
    ]
    assert sorted(map(tuple, of_texts)) == [
        ("Code", "30"),
        ("Code", "30"),
        ("News", "30"),
        ("News", "30"),
    ]
    assert not any("nan" in line or "n/a points" in line for line in found)
    heading = next(line for line in found if line.startswith("  group") and "bits per byte" in line)
    assert heading.split() == [
        "group",
        "passages",
        "bits",
        "per",
        "byte",
        "before",
        "after",
        "change",
    ]
    assert any(line.split()[:1] == ["30"] and "+0.060" in line for line in found)  # the last look


def test_a_run_of_passages_alone_has_no_alarm_to_report() -> None:
    found = lines(table_of(watched(questions=False).final))
    assert not any("alarm" in line for line in found)


@pytest.mark.parametrize("questions", [False, True])
def test_markdown_has_a_table_of_passages(questions: bool) -> None:
    text = comparison_markdown(compared(questions=questions))
    assert "| all | 60 | 1.204 | 1.255 | +0.050 (+0.037 to +0.063) |" in text
    assert (NO_VERDICT in text) is not questions
    assert "nan" not in text


def test_the_csv_table_has_the_columns_of_passages() -> None:
    rows = list(csv.DictReader(io.StringIO(comparisons_csv([compared(questions=True)]))))
    by_name = {row["name"]: row for row in rows if row["level"] in ("all", "category")}
    assert (by_name["News"]["passages"], by_name["News"]["n"], by_name["News"]["p_value"]) == (
        "30",
        "0",
        "",
    )
    assert float(by_name["all"]["bits_per_byte_change_interval_low"]) == pytest.approx(
        0.037, abs=1e-3
    )
    assert by_name["Math"]["passages"] == by_name["Math"]["bits_per_byte_before"] == ""


@pytest.mark.parametrize("questions", [False, True])
def test_the_page_of_a_run_has_a_table_by_category_and_a_curve(questions: bool) -> None:
    text = run_page(watched(questions=questions))
    section = text[text.index('<h3 id="passages">') :]
    section = section[: section.index("</section>")]
    assert 'data-group="category:News"' in section
    assert "Curves: change of the bits per byte" in section
    assert "+0.060" in section
    assert ('<section id="curves">' in text) is questions
    assert (NO_VERDICT in text) is not questions
    assert 'data-group="category:News"' not in text.replace(section, "")
    assert "nan" not in text.replace("financ", "")


def test_a_page_without_passages_has_no_section_of_them() -> None:
    run = trajectory_of([read(bits=[], questions=QUESTIONS, step=step) for step in range(2)])
    assert 'id="passages"' not in run_page(run)


def test_a_tracker_gets_one_curve_and_with_full_one_for_each_category() -> None:
    made = compared(questions=True)
    row = tracker_row(made, seconds=1.0)
    assert [key for key in row if "bits" in key] == ["eval_forget/all/bits_per_byte"]
    assert row["eval_forget/all/bits_per_byte"] == made.all["bits_per_byte_after"]
    assert not [key for key in row if key.startswith(("eval_forget/news", "eval_forget/code"))]
    full = tracker_row(made, seconds=1.0, full=True)
    assert (
        full["eval_forget/news/bits_per_byte"] == made.by("category")["News"]["bits_per_byte_after"]
    )
    assert full["eval_forget/all/bits_per_byte_change"] == made.all["bits_per_byte_change"]
    assert "eval_forget/all/bits_per_byte_change_interval_low" in full
    assert "eval_forget/news/forgotten" not in full
    assert "eval_forget/math/bits_per_byte" not in full


def test_a_tracker_gets_no_count_of_answers_for_passages_alone() -> None:
    for full in (False, True):
        row = tracker_row(compared(questions=False), seconds=1.0, full=full)
        counts = [
            key
            for key in row
            if "passages" not in key and not key.endswith(("seconds", "unscored"))
        ]
        assert all(
            "bits_per_byte" in key or (key.endswith(("/items", "/n")) and row[key] == 0)
            for key in counts
        ), counts


def test_a_group_of_one_text_keeps_its_row() -> None:
    made = compare(before=read(bits=[1.0]), after=read(bits=[1.1]))
    assert PASSAGES.cells(made.all[PASSAGES])["bits_per_byte_change"] == "+0.100"


def test_a_probe_without_passages_has_no_key_of_them() -> None:
    made = compare(
        before=read(bits=[], questions=QUESTIONS), after=read(bits=[], questions=QUESTIONS, step=1)
    )
    assert not [
        key
        for key in tracker_row(made, seconds=1.0, full=True)
        if "bits" in key or "passages" in key
    ]


def test_a_run_of_passages_is_drawn(tmp_path: Path) -> None:
    assert {path.name for path in save_run(watched(questions=False), tmp_path)} == {
        "passages.png",
        "passages.svg",
    }
