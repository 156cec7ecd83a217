"""Output of every command: plain text of at most 100 columns, whatever the names; colour says nothing alone."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from run_folders import write_run
from short_looks import no_picture
from support import probe, snapshot, write_jsonl
from typer.testing import CliRunner

from forgetwatch import Trajectory, compare, save_snapshot
from forgetwatch.cli import app
from forgetwatch.comparing import Group
from forgetwatch.comparing.flips import flips
from forgetwatch.measures import KNOWN
from forgetwatch.report import comparison_detail, comparison_table, flip_lines
from forgetwatch.report.terminal import run_table
from forgetwatch.text import brief, fit, fit_ends

NAMES = {
    "plain": "Maths",
    "wide": "数学和物理学的问题" * 20,
    "emoji": "🙂👩‍👩‍👧🎉" * 40,
    "long": "x" * 200,
    "lines": "two\nlines\tand a tab",
    "codes": "\x1b[31mred\x1b[0m [bold]not markup[/bold]",
}
ITEMS = 60
PAPER = ("--chance", "paper-compat", "--null", "base.parquet")


@pytest.fixture(params=NAMES, ids=list(NAMES))
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base, two models and a run, whose models, categories, tasks, ids and texts all have one kind of name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("forgetwatch.report.html.svg", no_picture)  # of the page that `report` writes, and not prints
    name = NAMES[request.param]
    labels = {
        "item_id": [f"{name}{at}" for at in range(ITEMS)],
        "category": [f"{name}{at % 3}" for at in range(ITEMS)],
        "task": [f"{name}{at % 2}" for at in range(ITEMS)],
        "k": [4] * ITEMS,
        "gold": [0] * ITEMS,
        "gold_share": [0.9] * ITEMS,
        "output": [name] * ITEMS,
    }
    looks = {}
    for step, place in enumerate(["base.parquet", "a.parquet", "b.parquet"]):
        right = [at >= 12 * step for at in range(ITEMS)]
        chosen = [0 if one else 1 for one in right]
        described = {"name": name, "rendering": "plain"}
        made = snapshot(right, meta={"model": name, "step": step, "probe": described}, chosen=chosen, **labels)
        save_snapshot(made, place)
        looks[step] = made
    write_run(tmp_path / "run", probe(), looks.pop(0), looks)
    item = {"id": "1", "task": name, "category": name, "prompt": "Q", "choices": ["a", "b"], "answer": 0}
    write_jsonl(tmp_path / "p.jsonl", [item, {**item, "id": "2", "prompt": "R"}])
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "base.parquet", "a.parquet"],
        ["compare", "base.parquet", "a.parquet", "--detail"],
        ["compare", "base.parquet", "a.parquet", "--by", "task", "--detail", *PAPER],
        ["compare", "base.parquet", *["a.parquet", "b.parquet"] * 8],
        ["compare", "base.parquet", *["a.parquet", "b.parquet"] * 8, "--detail"],
        ["flips", "base.parquet", "b.parquet"],
        ["report", "run"],
        ["report", "run", "--detail"],
        ["probe", "plan", "--probe", "p.jsonl"],
        ["probe", "plan", "--items", "1000000000", "--change", "0.0001%", "--flips", "50%"],
        [
            "probe",
            "plan",
            "--items",
            "500",
            *[part for share in (1, 2, 5, 10, 20) for part in ("--flips", f"{share}%")],
        ],
    ],
    ids=lambda command: " ".join(command)[:40],
)
def test_every_command_prints_plain_text_of_a_hundred_columns(folder: Path, command: list[str]) -> None:
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) > 2
    assert [
        line for line in lines if cell_len(line) > 100 and not line.startswith(("report: ", "   forgetwatch "))
    ] == []
    assert "\x1b" not in done.output


@pytest.mark.parametrize(("factor", "lost"), [(1_234_567, "4,938,268"), (2_000, "8,000")])
def test_huge_counts_keep_their_columns(factor: int, lost: str) -> None:
    """Thousands or a million of items a category: the columns hold, and no line is broken in two."""
    base = snapshot([True] * 8, category=["a", "b"] * 4, k=[4] * 8, gold_share=[0.9] * 8)
    after = snapshot([False] * 8, category=["a", "b"] * 4, k=[4] * 8, gold_share=[0.1] * 8)
    comparison = compare(before=base, after=after)
    groups = tuple(_times(group, factor) for group in comparison.groups)
    shown = printed(comparison_detail(replace(comparison, groups=groups)))
    rows = [line for line in shown.splitlines() if re.match("  [ab] ", line)]
    assert len(rows) == 2
    assert all(lost in row and row.endswith("<.001") for row in rows)
    assert max(map(len, shown.splitlines())) <= 100


def _times(group: Group, factor: int) -> Group:
    counts = ("retained", "forgotten", "gained", "missed", "effective_n")
    more = replace(group, q_value=0.0, **{name: getattr(group, name) * factor for name in counts})
    known, counts = group[KNOWN], ("known", "known_lost", "newly_known")
    return more.having(KNOWN, replace(known, **{name: getattr(known, name) * factor for name in counts}))


def printed(lines: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(lines)
    return out.getvalue()


def coloured(lines: RenderableType) -> Iterator[tuple[str, str]]:
    """The pieces of text that have a colour of their own, but for titles; and the line each stands in."""
    console = Console(width=500, highlight=False, force_terminal=True, color_system="truecolor", no_color=False)
    for line in console.render_lines(lines):
        whole = "".join(segment.text for segment in line)
        for segment in line:
            color = None if segment.style is None else segment.style.color
            if color is not None and color.name != "cyan" and segment.text.strip():
                yield segment.text.strip(), whole


def test_colour_is_never_the_only_carrier_of_meaning() -> None:
    """Each has a sign or a word of its own, or its line or column is named for it."""
    labels = {"category": ["a", "b"] * 20, "k": [4] * 40, "gold": [0] * 40}
    looks = [
        snapshot(
            [at >= 15 * step for at in range(40)],
            meta={"step": step},
            gold_share=[0.9] * 40,
            chosen=[0 if at >= 15 * step else 1 for at in range(40)],
            **labels,
        )
        for step in range(3)
    ]
    trajectory = Trajectory.of(looks)
    changed = flips(looks[0], looks[1])
    gained = flips(looks[1], looks[0])
    tables = [
        comparison_table(trajectory.comparisons[-1]),
        comparison_detail(trajectory.comparisons[-1]),
        comparison_detail(trajectory.comparisons[-1], by="task"),
        run_table(trajectory),
        comparison_detail(trajectory.comparisons[-1], trajectory=trajectory),
        flip_lines(changed[0]),
        flip_lines(gained[0]),
    ]
    pieces = [piece for table in tables for piece in coloured(table)]
    assert len(pieces) > 10
    signed = re.compile(r"[-+][\d,.]+M?|now lost .*|[\d,.]+M? \([\d.]+ %\)|(FORGOT|KEPT|NOT CLEAR) *")
    named = re.compile(r"(\s*\* |forgotten|gained|churned|clearly known|questions)\b")
    assert [piece for piece, line in pieces if not (signed.fullmatch(piece) or named.match(line))] == []


def test_an_item_without_a_task_is_named_alone() -> None:
    sides = [snapshot(right, task=[""] * 2) for right in ([True, True], [True, False])]
    out = io.StringIO()
    Console(file=out, width=80).print(flip_lines(flips(*sides)[0]))
    assert out.getvalue().splitlines()[0].rstrip() == "forgotten  c, 1"


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
@pytest.mark.parametrize("width", [4, 11, 26])
def test_a_fitted_name_has_exactly_its_columns(name: str, width: int) -> None:
    for fitted in (fit(name, width), fit_ends(name, width)):
        assert cell_len(fitted) == width
        assert "\x1b" not in fitted
        assert "\n" not in fitted


def test_names_that_differ_at_their_ends_are_told_apart() -> None:
    names = [f"{'a-long-sweep-' * 5}{number}" for number in (1, 2)]
    assert len({fit_ends(name, 20) for name in names}) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (99_999, "99,999"), (999_999, "999999"), (1_234_567, "1.2M"), (12.5, "12.5"), (1234.5, "1234.5")],
)
def test_a_count_is_exact_as_long_as_it_fits(value: float, shown: str) -> None:
    assert brief(value, 6) == shown


def test_json_keeps_whole_names(folder: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "a.parquet", "--json", "-"])
    names = {group["name"] for group in json.loads(done.stdout)["groups"]}
    assert any(name[:-1] in NAMES.values() for name in names)
