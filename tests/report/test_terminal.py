from __future__ import annotations

import io

import pytest
from rich.console import Console
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.compare import Comparison
from forgetwatch.report.terminal import ROWS, WIDTH, comparison_table, course_line


def text(comparison: Comparison, **options: str) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(comparison_table(comparison, **options))  # type: ignore[arg-type]
    return out.getvalue()


def made(*, categories: int = 3, shares: bool = True, name: str = "c") -> Comparison:
    rows = 40 * categories
    labels = {"category": [f"{name}{i % categories}" for i in range(rows)], "task": ["t"] * rows, "k": [4] * rows}
    columns = {**labels, "gold_share": [0.9] * rows} if shares else labels
    # category i loses i of every 10 items
    after = [not (j // categories % 10 < min(j % categories, 9)) for j in range(rows)]
    return compare(before=snapshot([True] * rows, **columns), after=snapshot(after, **columns))


def test_the_counts_stand_as_people_quote_them() -> None:
    lines = text(made()).splitlines()
    assert lines[0].startswith("forgetwatch  ")
    assert any("-12 +0 of 120" in line for line in lines)
    assert any("clearly known 120 before   now lost 12 (10.0 %, 5.8 to 16.7)" in line for line in lines)


def test_the_worst_category_stands_first() -> None:
    for shares in (True, False):
        names = [line.split()[0] for line in text(made(shares=shares)).splitlines() if line.startswith("  c")]
        assert names == ["c2", "c1", "c0"]


def test_every_line_fits_eighty_columns() -> None:
    shown = text(made(categories=30, name="a category with a very long name number "))
    assert max(map(len, shown.splitlines())) <= 80


def test_groups_that_are_not_shown_are_counted() -> None:
    assert f"and {30 - ROWS} more" in text(made(categories=30))


def test_the_level_and_the_title_can_be_chosen() -> None:
    shown = text(made(), by="task", title="step 3 of 9")
    assert "step 3 of 9" in shown
    assert "worst tasks" in shown
    assert "worst" not in text(made(), by="all")


def test_undefined_numbers_say_so() -> None:
    shown = text(compare(before=snapshot([None]), after=snapshot([None])))
    assert "nan" not in shown
    assert "n/a" in shown
    assert "1 unscored" in shown


@pytest.mark.parametrize("name", ["[red]", "[/]", "a\\[b"])
def test_a_name_is_text_and_never_markup(name: str) -> None:
    labelled = snapshot([True, False], category=[name, name])
    assert name in text(compare(before=labelled, after=labelled))


def test_large_counts_fit_too() -> None:
    before = snapshot([True] * 9000 + [False] * 3000)
    after = snapshot([False] * 1018 + [True] * 7982 + [True] * 2487 + [False] * 513)
    assert max(map(len, text(compare(before=before, after=after)).splitlines())) <= 80


def test_the_course_of_a_run_stands_beside_a_guessers() -> None:
    looks = [snapshot(correct, meta={"step": step}, k=[4] * 4) for step, correct in enumerate(RUN)]
    line = course_line(Trajectory.of(looks)).plain
    assert line == "over 2 looks: ever forgotten 2, of them right again 1  (a pure guesser: 1)"
    assert course_line(Trajectory.of(looks[:1])).plain == "no look after the baseline"


RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])
