import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pages import compared, detail_of, plain, printed, table, watched
from pages import run as scored_run_table
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.measures.known_items import KNOWN, net_of_luck
from forgetwatch.report.terminal import note_lines


def first(comparison: Comparison) -> str:
    return printed(table(comparison))


def detail(comparison: Comparison, **options: Any) -> str:
    return printed(detail_of(comparison, **options))


def made(*, categories: int = 3, shares: bool = True, name: str = "c") -> Comparison:
    rows = 40 * categories
    labels = {
        "category": [f"{name}{i % categories}" for i in range(rows)],
        "task": ["t"] * rows,
        "k": [4] * rows,
    }
    columns = {**labels, "gold_share": [0.9] * rows} if shares else labels
    # category i loses i of every 10 items
    after = [not (j // categories % 10 < min(j % categories, 9)) for j in range(rows)]
    return compared([True] * rows, after, **columns)


def rows(comparison: Comparison, **options: Any) -> list[list[str]]:
    """Cells of the lines of the detail, by at least two blanks."""
    return [
        re.split(r"\s{2,}", line.strip()) for line in detail(comparison, **options).splitlines()
    ]


def test_notes_are_whole_where_there_is_room_and_none_is_left_out_without_a_word() -> None:
    comparison = made()
    assert "note: only one" in first(replace(comparison, notes=("only one",)))
    assert first(replace(comparison, notes=("one", "two"))).endswith("note: one\nnote: two\n")
    long = "that matters " * 8
    shown = first(replace(comparison, notes=(long + "to the end", "two")))
    assert "to the end\nnote: two\n" in shown
    many = first(replace(comparison, notes=("one", "two", "three", "four")))
    assert many.endswith("note: one\nnote: two\n2 more notes: --detail\n")
    assert "* four" in detail(replace(comparison, notes=("one", "two", "three", "four")))
    assert [line.plain for line in note_lines(("one", "two"), 1)] == ["2 notes: --detail"]
    # No note is cut.
    assert [line.plain for line in note_lines(("short", long + "to the end"), 2)] == [
        "note: short",
        "1 more note: --detail",
    ]
    assert "…" not in "".join(line.plain for line in note_lines((long * 3,), 9))


def test_every_line_of_the_detail_fits_a_hundred_columns() -> None:
    shown = detail(made(categories=30, name="a category with a very long name number "))
    assert max(map(len, shown.splitlines())) <= 100


def test_the_level_can_be_chosen() -> None:
    tasks = compared([True] * 4, [False] * 4, task=["t", "u"] * 2)
    assert {"t", "u"} <= {cells[0] for cells in rows(tasks, by="task")}
    assert not {"t", "u"} & {cells[0] for cells in rows(tasks, by="all")}


@pytest.mark.parametrize("name", ["[red]", "[/]", "a\\[b"])
def test_a_name_is_text_and_never_markup(name: str) -> None:
    comparison = compared(
        [True] * 40, [False] * 20 + [True] * 20, category=[name] * 20 + ["other"] * 20
    )
    assert name in first(comparison)
    assert name in detail(comparison)


def test_large_counts_fit_a_hundred_columns() -> None:
    after = [False] * 1018 + [True] * 7982 + [True] * 2487 + [False] * 513
    comparison = compared([True] * 9000 + [False] * 3000, after)
    assert max(map(len, (first(comparison) + detail(comparison)).splitlines())) <= 100


def test_each_correction_has_its_interval_and_its_assumption() -> None:
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 4, 400) for _ in range(2)]
    before, after = (
        snapshot((chosen == 0).tolist(), k=[4] * 400, chosen=chosen) for chosen in sides
    )
    comparison = compare(before=before, after=after)
    lines = rows(comparison)
    start = next(
        number for number, cells in enumerate(lines) if cells[0] == "corrected for guessing"
    )
    named = {cells[0]: cells for cells in lines[start + 1 : start + 20] if len(cells) == 4}
    assert list(named)[:2] == ["paper", "guess-corrected"]
    paper = comparison.all.chance.paper
    assert paper is not None
    low, high = paper.forgetting_interval
    assert (
        named["paper"][1]
        == f"{100 * paper.forgetting:.1f} ({max(100 * low, 0):.1f} to {100 * high:.1f})"
    )
    assert all(cells[3] for cells in named.values())  # what it assumes


def test_the_papers_numbers_as_its_code_computes_them() -> None:
    labels = {"task": ["mmlu:anatomy"] * 2 + ["made_up"] * 2, "k": [4] * 4}
    comparison = compare(
        before=snapshot([True] * 4, **labels),
        after=snapshot([True, False, False, False], **labels),
        chance="paper-compat",
    )
    assert ["all", "75.0", "0.0"] in rows(comparison)
    assert ["Missing", "100.0", "0.0"] in rows(comparison)
    assert ["Science/Tech", "50.0", "0.0"] in rows(comparison)


def test_foreign_text_does_not_steer_the_terminal() -> None:
    meta = {"model": "\x1b[2Jmodel", "probe": {"name": "\x1b]0;title\x07"}}
    names = ["\x1b[31mred\u202e"] * 20 + ["b\rc"] * 20
    comparison = compared([True] * 40, [False] * 20 + [True] * 20, meta=meta, category=names)
    for shown in (first(comparison), detail(comparison)):
        assert not set(shown) & set("\x1b\x07\r\u202e")
        assert "⟨U+001B⟩[31mred" in shown


RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run(*looks: list[bool], planned: int | None = None, k: int | None = 4) -> Trajectory:
    return watched(*looks, planned=planned, k=[k] * len(looks[0]))


def text(trajectory: Trajectory) -> str:
    return printed(detail_of(trajectory.final, trajectory=trajectory))


def looks(trajectory: Trajectory) -> list[list[str]]:
    """Cells of the detail's table of looks."""
    lines = [line.split() for line in text(trajectory).splitlines()]
    start = next(at for at, cells in enumerate(lines) if cells[:2] == ["step", "questions"])
    return lines[
        start + 1 : start + 1 + next(at for at, cells in enumerate(lines[start:]) if not cells) - 1
    ]


def test_each_look_has_a_line_in_the_detail_and_the_alarms_a_sentence() -> None:
    assert [cells[:4] for cells in looks(run(*RUN))] == [["1", "4", "2", "0"], ["2", "4", "1", "0"]]
    assert max(map(len, text(run(*RUN)).splitlines())) <= 100
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    shown = plain(text(run(kept, kept, lost, lost, planned=5)))
    assert "All questions, step 2: -40.0 points (40 forgotten, 0 gained, of 100)" in shown
    assert "At the last look a fall of 16.0 points over all questions raises one." in shown


def test_a_long_run_shows_every_nth_look_and_the_last() -> None:
    rng = np.random.default_rng(0)
    found = looks(run(*[(rng.random(20) < 0.5).tolist() for _ in range(104)]))
    steps = [int(cells[0]) for cells in found]
    assert (steps[0], steps[-1]) == (1, 103)
    assert len(steps) == 52


def test_each_look_shows_the_known_and_the_lost_of_them_without_luck() -> None:
    trajectory, _ = scored_run_table(items=600)
    for cells, comparison in zip(looks(trajectory), trajectory.comparisons[1:], strict=True):
        net = net_of_luck(comparison.all[KNOWN])
        assert net is not None
        assert cells[4:6] == [str(round(comparison.all["known_net"])), net.net]
