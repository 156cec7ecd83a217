from __future__ import annotations

from importlib.resources import files

import pytest
from pools import pools
from standard_probe import measured
from standard_probe.assemble import assemble
from standard_probe.card import figures, with_figures, with_measured

from forgetwatch import Probe, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.shipped import CANARY

CARD = files("forgetwatch.probes.shipped").joinpath("CARD.md").read_text(encoding="utf-8")


def test_the_figures_of_the_card_are_those_of_the_probe() -> None:
    assert with_figures(CARD, [load_probe("behaviour")]) == CARD


def test_the_number_of_the_easiest_questions_is_counted() -> None:
    probe = load_probe("standard")
    right = sum("difficulty:0" in item.tags for item in probe)
    assert f"({right} questions of Logic and Math)" in CARD
    stale = CARD.replace(f"({right} questions of", "(7 questions of")
    assert with_figures(stale, [probe]) == CARD
    with pytest.raises(ProbeError, match="number of questions of difficulty 0"):
        with_figures(stale.replace("(7 questions", "(seven questions"), [probe])


def test_the_card_holds_the_canary() -> None:
    assert CANARY in CARD


def test_figures_add_up() -> None:
    items, _ = assemble(pools(size=40), standard=90, confirmation=9)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in figures(Probe(items)).splitlines()
        if line.startswith("|")
    ]
    header, _, *body = rows
    assert header == ["category", "task", "items", "k=2", "k=3", "k=4", "k=5", *(f"difficulty {n}" for n in range(6))]
    tasks, categories = [row for row in body if row[1]], [row for row in body[:-1] if row[0]]
    for part in (tasks, categories):
        assert [str(sum(int(row[at]) for row in part)) for at in range(2, 13)] == body[-1][2:]
    assert all(sum(map(int, row[3:7])) == sum(map(int, row[7:])) == int(row[2]) for row in body)


def test_measured_difficulty_is_refused_for_items_that_were_not_measured() -> None:
    items, _ = assemble(pools(size=60), standard=90, confirmation=9)
    with pytest.raises(ProbeError, match="90 items of 'probe' were not measured"):
        with_measured(CARD, Probe(items))


def test_measured_tables_are_means_over_the_items() -> None:
    probe = load_probe("standard")
    rows = measured.read()
    logic = [item for item in probe if item.category == "Logic"]
    right = sum(rows[item.id]["trained_right"] for item in logic) / len(logic)
    share = sum(rows[item.id]["trained_log_share"] for item in logic) / len(logic)
    (line,) = [line for line in measured.tables(probe, rows).splitlines() if line.startswith("| Logic |")]
    assert line.split(" | ")[-2] == f"{right:.2f} ({share:.2f})"


def test_a_card_without_lines_for_a_probe_is_refused() -> None:
    with pytest.raises(ProbeError, match="needs a line '<!-- figures: behaviour -->'"):
        with_figures("# Card\n", [load_probe("behaviour")])
