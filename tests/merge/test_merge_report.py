"""Reports of a sweep between two models: terminal, page and Markdown, also with long names and unknown distances."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from merge_sweeps import ALPHAS, made_sweep
from pages import HOSTILE, plain
from rich.console import Console

from forgetwatch.merge import (
    merge_detail,
    merge_figure,
    merge_json,
    merge_markdown,
    merge_page,
    merge_table,
    side_by_side,
    sweep_table,
)


def printed(lines: object) -> str:
    console = Console(width=80, highlight=False, no_color=True)
    with console.capture() as kept:
        console.print(lines)
    return kept.get()


@pytest.mark.parametrize(
    ("overall", "said"),
    [
        (0.0046453, "weights 0.46 % of base's norm apart"),
        (0.0, "weights 0 % of base's norm apart"),
        (2.17467, "weights 217 % of base's norm apart"),
        (math.nan, "the distance of the weights from base's is unknown"),
    ],
)
def test_the_distance_is_a_number_in_percent_or_said_to_be_unknown(overall: float, said: str) -> None:
    sweep = made_sweep(overall=overall)
    assert said in printed(merge_table(sweep))
    page = merge_page(sweep).replace("&#39;", "'")
    assert f"{said[0].upper()}{said[1:]}." in page
    for text in (printed(merge_detail(sweep)), merge_markdown(sweep), merge_page(sweep)):
        assert not re.search(r"\bnan\b", text)
    assert merge_json(sweep)["distance"]["overall"] == (None if math.isnan(overall) else overall)
    json.dumps(merge_json(sweep), allow_nan=False)


def test_all_notes_are_in_the_detail_the_page_and_markdown() -> None:
    notes = ("one tensor is odd " * 9, "a second one")
    sweep = made_sweep(notes=notes)
    for text in (printed(merge_detail(sweep)), merge_page(sweep), merge_markdown(sweep)):
        for note in notes:
            assert plain(note) in plain(text)


@pytest.mark.parametrize("notes", [(), ("a note",)])
@pytest.mark.parametrize("target", [None, "right on sums", "s" * 90])
@pytest.mark.parametrize("alphas", [ALPHAS, tuple(np.linspace(0, 1, 9))])
def test_the_first_table_is_12_lines_of_80_columns_whatever_the_names(
    alphas: tuple[float, ...], target: str | None, notes: tuple[str, ...]
) -> None:
    for long in (1, 30):
        ends, probes = ("base" * long, "tuned" * long), ("first" * long, "second" * long)
        for method in ("linear", "slerp", "adapter"):
            sweep = made_sweep(ends, probes=probes, alphas=alphas, method=method, target=target, notes=notes)
            lines = printed(merge_table(sweep)).splitlines()
            assert len(lines) <= 12
            assert max(map(len, lines)) <= 80
            shown = sum(bool(re.match(r"[01]", line)) and "more" not in line for line in lines)
            assert shown == len(alphas) or f"{len(alphas) - shown} more; --detail has all" in lines
            assert shown >= 4
            assert any(line.startswith("net ") and line.count(",") == shown - 1 for line in lines)


def test_the_detail_has_the_target_of_every_point_in_lines_of_80_columns() -> None:
    sweep = made_sweep(alphas=tuple(np.linspace(0, 1, 30)), target="s" * 90)
    lines = printed(merge_detail(sweep)).splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith(("0", "1"))]) >= 30


def test_the_page_shows_both_probes_and_on_which_of_them_the_front_is() -> None:
    page = plain(re.sub(r"<[^>]+>", " ", merge_page(made_sweep())))
    for text in (
        "All counts on standard",
        "All counts on confirmation",
        "the second probe, on which nothing is chosen",
    ):
        assert text in page
    assert "Kept on standard" in page
    for word in ("recommend", "best point", "choose "):
        assert word not in page.lower()


def test_foreign_names_are_text_on_the_page() -> None:
    page = merge_page(made_sweep((HOSTILE[0], HOSTILE[2]), target=HOSTILE[3], notes=HOSTILE[:4]))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "<svg onload" not in page


def test_headings_of_the_page_shorten_names() -> None:
    page = merge_page(made_sweep(("base", "a-tuned-model-lr-2e-5-epochs-3-checkpoint-1200")))
    headings = re.findall(r'<th scope="col"><bdi>([^<]*)', page)
    assert "lost, against base" in headings
    assert "lost, against a-tuned-mo…oint-1200" in headings
    assert max(map(len, headings)) < 60


def test_the_numbers_of_both_ends_are_under_their_own_headings_and_the_front_is_marked() -> None:
    sweep = made_sweep()
    front = {one.label for one in sweep.ranking.ranking if one.on_front}
    assert 0 < len(front) < len(ALPHAS)
    lines = printed(merge_table(sweep)).splitlines()[3:8]
    headings, rows = sweep_table(sweep, sweep.chosen_on)
    for line, cells, point in zip(lines, rows, sweep.chosen_on.points, strict=True):
        found = re.fullmatch(r"(\S+) (\*?) +(\d+) +(\d+) ([+-]\S+) \(.*?\) +(\d+) +(\d+) ([+-]\S+) \(.*?\)", line)
        assert found is not None
        expected = [
            value
            for end in (point.from_a.all, point.from_b.all)
            for value in (f"{end.forgotten:g}", f"{end.gained:g}", f"{100 * end.net_change:+.1f}")
        ]
        assert list(found.groups()) == [f"{point.alpha:g}", "*" * (f"alpha {point.alpha:g}" in front), *expected]
        named = dict(zip(headings, cells, strict=True))
        shown = [named[f"{name}, against {end}"] for end in sweep.ends for name in ("lost", "gained", "net points")]
        assert [cell.split(" ")[0] for cell in shown] == expected


def test_both_probes_are_next_to_each_other_for_each_end() -> None:
    sweep = made_sweep()
    headings, rows = side_by_side(sweep)
    for number, row in enumerate(rows):
        cells = dict(zip(headings, row, strict=True))
        for one in sweep.sweeps:
            point = one.points[number]
            for end, comparison in zip(sweep.ends, point.ends, strict=True):
                net = f"{100 * comparison.all.net_change:+.1f} "
                assert cells[f"against {end}, on {one.probe}"].startswith(net)


def test_the_curves_are_the_net_changes_in_points() -> None:
    sweep = made_sweep()
    for side, panel in enumerate(merge_figure(sweep).axes):
        assert sweep.ends[side] in panel.get_title()
        for one in sweep.sweeps:
            (line,) = [drawn for drawn in panel.lines if drawn.get_label() == one.probe]
            nets = [100 * point.ends[side].all.net_change for point in one.points]
            np.testing.assert_allclose(np.asarray(line.get_ydata(), float), nets)
