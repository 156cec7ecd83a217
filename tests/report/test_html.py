"""The page as text: what it says in edge cases, what it leaves out, how large it becomes.

Fragments that a notebook shows: valid markup, everything escaped, nothing that reaches beyond the fragment.
"""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, choices, compared, hostile, printed, run, watched, written
from pages import table as table_of
from support import snapshot

from forgetwatch import Item, Probe, Trajectory
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.verdict import estimated
from forgetwatch.report import html, sections
from forgetwatch.report.flip_list import LONGEST, MOST, ROOM, flip_list, marked
from forgetwatch.report.html import page, run_page
from forgetwatch.run_folder.task_figure import TaskFigure
from forgetwatch.visible_text import visible


def data(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_names_no_other_file_and_no_place_in_a_network() -> None:
    trajectory, probe = run(60)
    text = run_page(trajectory, probe=probe)
    assert set(re.findall(r"https?://[^\"' )<]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
        "https://github.com/leeoniya/uPlot",  # the first line of the library, which is unchanged
    }
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)""", text) == []
    assert "@import" not in text


def test_only_its_own_script_may_run() -> None:
    text = page(choices(30).comparison)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in text


def test_only_a_run_has_the_library_of_its_curve() -> None:
    vendor = Path(html.__file__).parent / "page" / "vendor"
    library = (vendor / "uPlot.iife.min.js").read_text()
    trajectory, probe = run(60)
    assert library in run_page(trajectory, probe=probe)
    assert "uPlot" not in page(choices(30).comparison)
    assert "MIT" in (vendor / "uPlot.LICENSE").read_text()


def test_the_curve_has_the_numbers_of_the_looks() -> None:
    trajectory, probe = run(240)
    first, *_, last = trajectory.steps
    trajectory = replace(trajectory, task=TaskFigure("eval_loss", ((first + 1, 2.0), (last, 0.5))))
    (text,) = re.findall(
        r'<script type="application/json" id="looks">(.*?)</script>',
        run_page(trajectory, probe=probe),
    )
    found = json.loads(text)
    assert found["steps"] == list(trajectory.steps)
    lost, net, task = found["views"]
    assert (lost["label"], lost["limit"]) == ("clearly known and now lost, %", 5)
    assert lost["series"][0]["value"][-1] == round(
        100 * trajectory.final.all["known_lost_net_share"], 2
    )
    assert (task["label"], task["series"][0]["value"][0], task["series"][0]["value"][-1]) == (
        "new task: eval loss",
        None,
        0.5,
    )
    whole, category = net["series"][:2]
    group = trajectory.comparisons[-1].by("category")[category["category"]]
    for row, of in ((whole, trajectory.comparisons[-1].all), (category, group)):
        change, (low, high) = estimated(of)
        ends = [round(100 * end, 2) for end in (change, low, high)]
        assert [row[name][-1] for name in ("value", "low", "high")] == ends
        assert (row["forgotten"][-1], row["gained"][-1], row["n"]) == (
            of.forgotten,
            of.gained,
            of.n,
        )
        assert row["value"][0] == 0


def test_page_of_two_thousand_items_and_twenty_looks_is_below_500_kb() -> None:
    trajectory, probe = run(2000, 21)
    assert len(run_page(trajectory, probe=probe).encode()) < 500_000


def test_nothing_changed_is_said_and_has_no_filters() -> None:
    text = page(compared([True, False], [True, False]))
    assert "No answer changed." in text
    assert '<form id="filters"' not in text


def test_a_run_needs_one_look() -> None:
    one = run_page(watched([True] * 8, [False] * 8, every=7), title="out/run")
    assert 'data-group="look:7"' in one
    assert "out/run" in one
    none = run_page(watched([True] * 8))
    assert 'id="curves"' not in none
    assert "no look was taken after the start" in none


def test_the_same_run_gives_the_same_page() -> None:
    trajectory, probe = run(60)
    pages = [re.sub(r"on \d{4}-.*? UTC", "", run_page(trajectory, probe=probe)) for _ in range(2)]
    assert pages[0] == pages[1]


def test_of_many_looks_the_first_some_between_and_the_last_are_in_the_table() -> None:
    rng = np.random.default_rng(0)
    text = run_page(watched(*(rng.random((250, 12)) < 0.5).tolist()))
    steps = [int(step) for step in re.findall(r'data-group="look:(\d+)"', text)]
    assert len(steps) <= sections.LOOKS + 1
    assert (steps[0], steps[-1]) == (1, 249)


def test_of_many_tasks_those_that_lost_most_are_in_the_table() -> None:
    rows = 2 * (sections.GROUPS + 50)
    labels = {"task": [f"t{i // 2}" for i in range(rows)]}
    text = page(
        compared([True] * rows, [i >= 2 * sections.GROUPS for i in range(rows)][::-1], **labels)
    )
    shown = [int(task) for task in re.findall(r'data-group="task:t(\d+)"', text)]
    assert len(shown) == sections.GROUPS
    assert shown == sorted(shown)
    assert shown[-1] == rows // 2 - 1
    assert "50 more tasks that lost no more are left out." in text


def test_no_more_items_are_listed_than_there_is_room_for_and_that_is_said() -> None:
    rows = MOST + 100
    before, after = snapshot([True] * rows, margin=np.arange(rows)), snapshot([False] * rows)
    listed = flip_list(flips(before, after))
    found = json.loads(listed.data)
    assert found["counts"] == {"forgotten": rows, "gained": 0, "churned": 0}
    assert [flip["id"] for flip in found["flips"]] == [
        str(rows - 1 - i) for i in range(MOST)
    ]  # the surest
    assert (
        f"Those of the largest margin are listed: {MOST} of the {rows} forgotten."
        in listed.left_out
    )
    assert "run the command again with --probe" in listed.left_out


def test_where_no_margin_is_known_the_first_are_listed() -> None:
    listed = flip_list(flips(snapshot([True] * 600), snapshot([False] * 600)))
    assert listed.left_out.startswith("The first are listed: 500 of the 600 forgotten.")


def test_long_texts_make_the_list_shorter_and_never_the_page_large() -> None:
    rows = 400
    probe = Probe(
        [
            Item(id=str(i), task="t", prompt="長い" * 9000, answer="x", match="exact")
            for i in range(rows)
        ]
    )
    outputs = ["🦜 word " * 1000 + side for side in "ab"]
    before, after = (
        snapshot(
            [right] * rows, output=[text] * rows, content_hash=[item.content_hash for item in probe]
        )
        for right, text in zip((True, False), outputs, strict=True)
    )
    listed = flip_list(flips(before, after, probe=probe))
    assert len(listed.data.encode()) < ROOM * 1.05
    assert 0 < len(json.loads(listed.data)["flips"]) < rows
    assert f"of the {rows} forgotten" in listed.left_out
    assert f"Outputs are cut at {LONGEST:,} characters." in listed.left_out


def test_short_outputs_are_not_said_to_be_cut() -> None:
    of = written()
    assert flip_list(of.changed).left_out == ""
    assert [
        flip["after"]["cut"] for flip in data(page(of.comparison, changed=of.changed))["flips"]
    ] == [0] * 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("!" * LONGEST, "!?" * (LONGEST // 2)),
        ("the the " * 128, "the cat " * 128),
        ("same start, one end", "same start, another end"),
        ("", "something"),
        ("a\nb", "a\nb"),
    ],
)
def test_pieces_of_two_outputs_add_up_to_them(before: str, after: str) -> None:
    pieces = marked(before, after)
    assert ["".join(text for _, text in side) for side in pieces] == [before, after]
    assert "".join(t for same, t in pieces[0] if same) == "".join(
        t for same, t in pieces[1] if same
    ) or "" in (
        before,
        after,
    )


def test_foreign_text_is_neither_markup_nor_invisible() -> None:
    of = hostile()
    text = page(of.comparison, changed=of.changed, title=HOSTILE[1])
    text.encode("utf-8")  # no half of a surrogate pair is left
    assert len(re.findall(r"<script\b", text)) == 2
    assert len(re.findall(r"<img\b|<iframe\b|<b\b", text)) == 0
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert "{{ 7 * 7 }}" in text
    ids = {flip["id"] for flip in data(text)["flips"]}
    assert {visible(f"{one}-0") for one in HOSTILE[:1]} <= ids


def test_a_formula_in_a_name_is_a_name() -> None:
    labels = {"category": ["$\\frac{1}{0$", "b$x$"] * 10}
    text = run_page(watched([True] * 20, [False] * 20, **labels))
    assert text.count("$\\frac{1}{0$  (10)") == 1  # in the bars


EVIL = "<script>alert(1)</script>\"'&\x1b[31m"


def run_of_notebook(category: str = "c", looks: int = 3) -> Trajectory:
    every = [[at >= look for at in range(40)] for look in range(looks)]
    labels = {"category": [f"{category}{at % 2}" for at in range(40)]}
    return watched(*every, meta={"model": "m"}, **labels)


@pytest.mark.parametrize("what", ["comparison", "run"])
def test_a_notebook_and_print_show_the_first_table(what: str) -> None:
    trajectory = run_of_notebook(EVIL)
    shown = trajectory if what == "run" else trajectory.comparisons[-1]
    table = (
        table_of(trajectory.final, trajectory=trajectory)
        if what == "run"
        else table_of(trajectory.comparisons[-1])
    )
    assert str(shown) == repr(shown)
    assert str(shown).splitlines() == printed(table).splitlines()
    assert "NOT CLEAR" in str(shown)
    assert "\x1b" not in str(shown)
    assert not hasattr(shown, "_repr_html_")
