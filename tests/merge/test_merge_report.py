"""Reports of a sweep between two models: terminal, page and Markdown, also with long names and unknown distances.

The share of a merge that keeps enough of what was known, and whether a second probe confirms it.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from merge_sweeps import ALPHAS, made_sweep
from pages import HOSTILE, plain
from rich.console import Console
from support import decided
from typer.testing import CliRunner

from forgetwatch import Snapshot, compare
from forgetwatch.cli import app
from forgetwatch.merge.choice import Choice, choose
from forgetwatch.merge.report import (
    choice_json,
    merge_detail,
    merge_figure,
    merge_json,
    merge_markdown,
    merge_page,
    merge_table,
    side_by_side,
    sweep_table,
)
from forgetwatch.merge.sweep import MergedPoint, MergeSweep, ProbeSweep


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
def test_the_distance_is_a_number_in_percent_or_said_to_be_unknown(
    overall: float, said: str
) -> None:
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


@pytest.mark.full("alphas1", reason="further cases of one sentence")
@pytest.mark.parametrize("notes", [(), ("a note",)])
@pytest.mark.parametrize("target", [None, "right on sums", "s" * 90])
@pytest.mark.parametrize("alphas", [ALPHAS, tuple(np.linspace(0, 1, 9))])
def test_the_first_table_is_12_lines_of_80_columns_whatever_the_names(
    alphas: tuple[float, ...], target: str | None, notes: tuple[str, ...]
) -> None:
    for long in (1, 30):
        ends, probes = ("base" * long, "tuned" * long), ("first" * long, "second" * long)
        for method in ("linear", "slerp", "adapter"):
            sweep = made_sweep(
                ends, probes=probes, alphas=alphas, method=method, target=target, notes=notes
            )
            lines = printed(merge_table(sweep)).splitlines()
            assert len(lines) <= 12
            assert max(map(len, lines)) <= 80
            shown = sum(bool(re.match(r"[01]", line)) and "more" not in line for line in lines)
            assert shown == len(alphas) or f"{len(alphas) - shown} more; --detail has all" in lines
            assert shown >= 4


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
        found = re.fullmatch(
            r"(\S+) (\*?) +(\d+) +(\d+) ([+-]\S+) \(.*?\) +(\d+) +(\d+) ([+-]\S+) \(.*?\)", line
        )
        assert found is not None
        expected = [
            value
            for end in (point.from_a.all, point.from_b.all)
            for value in (f"{end.forgotten:g}", f"{end.gained:g}", f"{100 * end.net_change:+.1f}")
        ]
        assert list(found.groups()) == [
            f"{point.alpha:g}",
            "*" * (f"alpha {point.alpha:g}" in front),
            *expected,
        ]
        named = dict(zip(headings, cells, strict=True))
        shown = [
            named[f"{name}, against {end}"]
            for end in sweep.ends
            for name in ("lost", "gained", "net points")
        ]
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


ITEMS, ALPHAS_OF_CHOICE = 300, (0.1, 0.3, 0.5, 0.7, 0.9)


def outcomes(lost: int) -> Snapshot:
    """250 known questions, some of which are lost, and 50 that were never right."""
    scores = np.full((ITEMS, 4), -4.0)
    scores[:250, 0], scores[250:, 1] = 0.0, 0.0
    scores[:lost, 0], scores[:lost, 1] = -4.0, 0.0
    return decided(scores, meta={"model": "m"})


def swept(name: str, lost: Sequence[int], alphas: Sequence[float]) -> ProbeSweep:
    base, end = outcomes(0), outcomes(lost[-1])
    points = [
        MergedPoint(
            alpha=alpha,
            from_a=compare(before=base, after=outcomes(count)),
            from_b=compare(before=end, after=outcomes(count)),
        )
        for alpha, count in zip(alphas, lost, strict=True)
    ]
    return ProbeSweep(probe=name, points=tuple(points))


def sweep(
    first: Sequence[int], second: Sequence[int] | None, alphas: Sequence[float] = ALPHAS_OF_CHOICE
) -> MergeSweep:
    """A sweep that loses so many questions at each share of B, on two probes."""
    confirmed = None if second is None else swept("confirmation", second, alphas)
    return replace(made_sweep(), chosen_on=swept("standard", first, alphas), confirmed_on=confirmed)


def test_the_largest_share_that_keeps_enough_is_chosen() -> None:
    found = choose(sweep([0, 1, 4, 30, 90], [0, 2, 4, 40, 80]), 0.98)
    assert (found.alpha, found.outcome) == (0.5, "held")
    assert found.chosen is not None
    assert found.chosen.kept.share == pytest.approx(
        1 - 4 / (250 - 50 / 3), abs=1e-6
    )  # less the lucky ones
    assert str(found).startswith(
        "alpha 0.5 is the largest that keeps 98 % of what A clearly knew and is not FORGOT: 98.3 % ("
    )
    assert str(found).endswith("on confirmation: held")


@pytest.mark.parametrize(("lost", "outcome"), [(7, "not clear"), (60, "did not hold")])
def test_a_second_probe_may_disagree(lost: int, outcome: str) -> None:
    found = choose(sweep([0, 1, 4, 30, 90], [0, 1, lost, 90, 120]), 0.98)
    assert (found.alpha, found.outcome) == (0.5, outcome)
    assert choice_json(found)["outcome"] == outcome


def test_a_limit_that_no_share_reaches_names_the_smallest() -> None:
    found = choose(sweep([40, 50, 60, 70, 80], None), 0.98)
    assert found.alpha is None
    assert str(found).startswith(
        "no alpha that was tried keeps 98 % of what A clearly knew without being FORGOT: 0.1 keeps 82.9 % ("
    )
    assert "try smaller ones with --alpha, or ask for less with --keep-known" in str(found)


def test_a_share_that_is_forgot_is_not_chosen() -> None:
    # A category is gone, all of it barely known, so that what was clearly known is kept.
    def of(gone: bool) -> Snapshot:
        scores = np.full((ITEMS, 4), -4.0)
        scores[:150, 0], scores[150:, :] = 0.0, 0.0
        scores[150:250, 0 if not gone else 1] = 0.3
        scores[250:, 1] = 0.3
        return decided(scores, meta={"model": "m"}, category=["a"] * 150 + ["b"] * 150)

    points = [
        MergedPoint(
            alpha=alpha,
            from_a=compare(before=of(False), after=of(gone)),
            from_b=compare(before=of(True), after=of(gone)),
        )
        for alpha, gone in ((0.1, False), (0.5, True))
    ]
    found = choose(
        replace(
            made_sweep(), chosen_on=ProbeSweep(probe="p", points=tuple(points)), confirmed_on=None
        ),
        0.98,
    )
    assert found.alpha == 0.1


def test_without_a_second_probe_nothing_confirms_it() -> None:
    found = choose(sweep([0, 0, 0, 0, 0], None), 0.98)
    assert (found.alpha, found.outcome) == (0.9, None)
    assert str(found).endswith("; nothing confirms it")


def test_the_base_itself_is_no_choice_and_unknown_knowledge_chooses_nothing() -> None:
    alone = choose(sweep([0], None, alphas=(0.0,)), 0.98)
    assert str(alone) == "no share of B is chosen: nothing was merged"
    unknown = choose(made_sweep(), 0.5)  # outcomes without scores
    assert unknown.chosen is not None
    assert unknown.chosen.kept.of == "answers"


@pytest.mark.parametrize("given", ["0", "-1", "101%", "1.5", "all", "nan", ""])
def test_a_share_that_is_none_is_wrong_usage(given: str) -> None:
    done = CliRunner().invoke(app, ["merge", "a", "b", "--keep-known", given])
    assert done.exit_code == 2
    assert "needed a share above 0 and below 1" in " ".join(done.output.replace("│", " ").split())


def test_json_has_the_choice() -> None:
    document: dict[str, Any] = choice_json(
        choose(sweep([0, 1, 4, 30, 90], [0, 2, 4, 40, 80]), 0.98)
    )
    assert (document["alpha"], document["keep_known"], document["outcome"]) == (0.5, 0.98, "held")
    assert document["confirmed"]["probe"] == "confirmation"
    assert Choice(limit=0.9, alpha=None, chosen=None).outcome is None
