from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.report.terminal import ROWS, WIDTH, comparison_table


def text(comparison: Comparison, **options: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(comparison_table(comparison, **options))
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


def test_what_stays_the_same_when_measured_again_stands_beside() -> None:
    columns = {"k": [4] * 4, "chosen": [0, 0, 1, 2], "gold": [0] * 4}
    before = snapshot([True, True, False, False], **columns)
    after = snapshot([True, False, False, False], **{**columns, "chosen": [0, 1, 1, 3]})
    again = snapshot([True, True, True, False], **{**columns, "chosen": [0, 0, 0, 2]})
    shown = text(compare(before=before, after=after, null=again))
    assert "measured twice -0 +1 by the same weights" in shown
    assert "wrong twice   same option 50.0 % (fresh guesses 33.3 %)" in shown.splitlines()
    assert "tipping ratio 2.0: that it was forgotten is fragile" in shown.splitlines()


def test_the_corrections_stand_with_their_intervals_and_can_explain_themselves() -> None:
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 4, 400) for _ in range(2)]
    before, after = (snapshot((chosen == 0).tolist(), k=[4] * 400, chosen=chosen) for chosen in sides)
    comparison = compare(before=before, after=after)
    lines = text(comparison, explain=True).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("corrected "))
    assert [line.split()[0] for line in lines[start + 1 : start + 7 : 2]] == ["paper", "guess-corrected", "bound"]
    for line in lines[start + 2 : start + 8 : 2]:
        assert line.startswith("    ")
        assert ";" in line  # what it assumes; where it errs
    paper = comparison.all.chance.paper
    assert paper is not None
    low, high = paper.forgetting_interval
    assert f"{100 * paper.forgetting:.1f} ({max(100 * low, 0):.1f} to {100 * high:.1f})" in lines[start + 1]
    assert max(map(len, lines)) <= 80


def test_samples_and_clusters_are_named() -> None:
    columns = {"item_id": ["1", "1", "2", "2"], "content_hash": ["A", "A", "B", "B"], "sample": [0, 1, 0, 1]}
    before = snapshot([True, True, True, False], cluster=["p", "p", "p", "p"], **columns)
    after = snapshot([False, True, False, False], cluster=["p", "p", "p", "p"], **columns)
    shown = text(compare(before=before, after=after))
    assert "2 items compared, 2 samples each, in 1 cluster" in shown
    assert "sampling      flips 25.0 % each way by itself; forgot above it +25.0 (n/a)" in shown


def test_the_papers_numbers_as_its_code_computes_them() -> None:
    labels = {"task": ["mmlu:anatomy"] * 2 + ["made_up"] * 2, "k": [4] * 4}
    comparison = compare(
        before=snapshot([True] * 4, **labels),
        after=snapshot([True, False, False, False], **labels),
        chance="paper-compat",
    )
    lines = [line.split() for line in text(comparison).splitlines()]
    assert ["all", "75.0", "0.0"] in lines
    assert ["Missing", "100.0", "0.0"] in lines
    assert ["Science/Tech", "50.0", "0.0"] in lines


def test_text_of_others_does_not_steer_the_terminal() -> None:
    meta = {"model": "\x1b[2Jmodel", "probe": {"name": "\x1b]0;title\x07"}}
    labelled = snapshot([True, False], meta=meta, category=["\x1b[31mred\u202e", "b\rc"])
    shown = text(compare(before=labelled, after=labelled))
    assert not set(shown) & set("\x1b\x07\r\u202e")
    assert "⟨U+001B⟩[31mred" in shown
