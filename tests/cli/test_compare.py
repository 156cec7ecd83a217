"""`forgetwatch compare` as a user runs it: output, files, exit status.

Output of every command: plain text of at most 100 columns, whatever the names; colour says nothing alone.

`forgetwatch compare` with several AFTERs, a target, and pictures; `report` with pictures.

Commands on a probe of passages: score, plan, probe show and check, and compare of several models.

Models that take images and text, put to a text probe: scored, watched in a training, compared and followed.

Checkpoints of a watched run carry their looks: comparing them needs no probe, and no model is loaded.
"""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import Run
from pages import detail_of
from pages import table as table_of
from passage_texts import passages, read
from rich.cells import cell_len
from rich.console import Console, RenderableType
from run_folders import write_run
from short_looks import no_picture
from support import log_likelihood, model, probe, snapshot, tokenizer, trained, write_jsonl
from tool_logs import choice_row, write_samples
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    Trainer,
    TrainingArguments,
)
from typer.testing import CliRunner

from forgetwatch import (
    ForgetWatchCallback,
    Probe,
    Trajectory,
    compare,
    load_snapshot,
    save_snapshot,
)
from forgetwatch.cli import app
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.follow.follower import Follower
from forgetwatch.measures.aligned import snapshot_bits
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.report.flip_list import flip_lines
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.model_loading import load_model
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.text import brief, fit, fit_ends

OK = "item_id,correct\na,1\nb,0\n"


@pytest.fixture
def run(command: Run) -> Run:
    """`forgetwatch compare` in `tmp_path`."""
    return partial(command, "compare")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ok.csv").write_text(OK)
    (tmp_path / "after.csv").write_text("item_id,correct,category\na,0,Math\nb,1,Math\n")
    return tmp_path


def test_the_table_is_plain_text_that_fits_a_hundred_columns(folder: Path) -> None:
    arguments = [sys.executable, "-m", "forgetwatch", "compare", "ok.csv", "after.csv"]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("NOT CLEAR  after: accuracy may have fallen up to ")
    assert "1 of 2 lost, 1 gained: accuracy still 50.0 %" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_goes_to_a_file_or_alone_to_stdout(run: Run, folder: Path) -> None:
    assert run("ok.csv", "after.csv", "--json", "o.json").status == 0
    document = json.loads((folder / "o.json").read_text())
    assert (document["schema"], document["groups"][0]["forgotten"]) == (
        "forgetwatch/comparison@2",
        1,
    )
    assert json.loads(run("ok.csv", "after.csv", "--json", "-").stdout) == document


def test_several_afters_are_each_compared_with_before(run: Run, folder: Path) -> None:
    done = run("ok.csv", "after.csv", "ok.csv", "--json", "-")
    document = json.loads(done.stdout)
    assert document["schema"] == "forgetwatch/comparisons@2"
    assert [one["groups"][0]["forgotten"] for one in document["comparisons"]] == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("dup.csv", "item_id,correct\na,1\na,0\n", "is twice"),
        ("empty.csv", "item_id,correct\n", "no rows"),
        ("type.csv", "item_id,correct\na,maybe\n", "got 'maybe'"),
        ("columns.csv", "question,answer\nx,y\n", "item_id is missing"),
        ("disjoint.csv", "item_id,correct\nz,1\n", "no item in common"),
        ("fewer.csv", "item_id,correct\na,1\n", "both have only 1: evaluate both on the same"),
        ("cut.jsonl", '{"item_id": "a", "correct": 1}\n{"item_id": "b", "corr', "is the file cut"),
        ("noise.parquet", "PAR1 no parquet", "cannot be read"),
        ("nothere.csv", None, "no such file"),
        ("link.csv", None, "no such file"),
        (".", None, "a folder that contains neither a checkpoint"),
        ("some-model", None, "needs --probe"),
        ("org/model", None, "needs --probe"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_one(
    run: Run, folder: Path, name: str, content: str | None, says: str
) -> None:
    if content is not None:
        (folder / name).write_text(content)
    (folder / "link.csv").symlink_to(folder / "gone.csv")
    done = run("ok.csv", name)
    assert done.status == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_intersect_compares_the_items_of_both_sides(run: Run, folder: Path) -> None:
    (folder / "fewer.csv").write_text("item_id,correct\na,0\n")
    done = run("ok.csv", "fewer.csv", "--on-mismatch", "intersect")
    assert done.status == 0
    assert "1 of 1 lost, 0 gained: accuracy 100.0 -> 0.0 %, 1 left out" in done.stdout
    done = run("ok.csv", "fewer.csv", "--on-mismatch", "intersect", "--detail")
    assert "have no counterpart on the other and are left out." in " ".join(done.stdout.split())


def test_wrong_usage_is_exit_status_two(run: Run, folder: Path) -> None:
    assert run("ok.csv").status == 2
    assert run("ok.csv", "ok.csv", "--by", "colour").status == 2


@pytest.mark.parametrize("target", ["file/o.json", "nowhere/o.json"])
def test_json_that_cannot_be_written_is_one_line_and_no_folder_is_made(
    run: Run, folder: Path, target: str
) -> None:
    (folder / "file").write_text("")
    done = run("ok.csv", "after.csv", "--json", target)
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "needed a folder that exists" in done.stderr
    assert not (folder / "nowhere").exists()


def test_nothing_scored_on_both_sides_is_an_error(run: Run, folder: Path) -> None:
    (folder / "none.csv").write_text("item_id,correct\na,\nb,\n")
    done = run("ok.csv", "none.csv")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "nothing to compare, none of the 2 items was scored on both sides" in done.stderr


def test_a_probe_is_checked_even_where_no_model_is_scored(run: Run, folder: Path) -> None:
    assert run("ok.csv", "after.csv", "--probe", "nope.jsonl").status == 1
    probe().save(folder / "p.jsonl")
    done = run("ok.csv", "p.jsonl")
    assert "a probe (questions), not outcomes" in done.stderr


def test_checkpoint_folders_are_scored_and_compared(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(folder / "cache"))
    tok = tokenizer()
    for seed in (0, 1):
        model(tok, seed=seed).save_pretrained(folder / f"m{seed}")
        tok.save_pretrained(folder / f"m{seed}")
    probe().save(folder / "p.jsonl")
    done = run("m0", "m1", "--probe", "p.jsonl", "--json", "-")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["items"]["compared"] == 30
    assert document["groups"][0]["forgotten"] + document["groups"][0]["gained"] > 0
    assert len(list((folder / "cache").glob("*.parquet"))) == 2
    missing = run("m0", "m1")
    assert (missing.status, missing.stderr.count("\n")) == (1, 1)
    assert "needs --probe" in missing.stderr


def outcomes(folder: Path, name: str, right: list[int], **columns: list[object]) -> str:
    """A CSV of the items 0, 1, ...; its name."""
    header = ["item_id", "correct", *columns]
    rows = [[i, *row] for i, row in enumerate(zip(right, *columns.values(), strict=True))]
    (folder / name).write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
    return name


def test_a_second_measurement_is_counted_as_noise(run: Run, tmp_path: Path) -> None:
    before, again = (
        outcomes(tmp_path, "b.csv", [1, 1, 0, 0]),
        outcomes(tmp_path, "n.csv", [1, 0, 0, 0]),
    )
    after = outcomes(tmp_path, "a.csv", [0, 0, 0, 1])
    done = run(before, after, "--repeat", again, "--json", "-")
    whole = json.loads(done.stdout)["groups"][0]
    assert (whole["forgotten"], whole["null_lost"], whole["null_gained"]) == (2, 1, 0)
    assert "1 had another result" in run(before, after, "--repeat", again, "--detail").stdout
    refused = run(before, after, "--repeat", outcomes(tmp_path, "o.csv", [1], task=["other"]))
    assert (refused.status, "no item of b" in refused.stderr) == (1, True)


def test_paper_compat_is_optional(run: Run, tmp_path: Path) -> None:
    columns = {"task": ["piqa"] * 60, "k": [4] * 60}
    before = outcomes(
        tmp_path, "b.csv", [1] * 30 + [0] * 30, chosen=[0] * 30 + [1, 2] * 15, **columns
    )
    after = outcomes(
        tmp_path, "a.csv", [1] * 20 + [0] * 40, chosen=[0] * 20 + [1, 2] * 20, **columns
    )
    plain = json.loads(run(before, after, "--json", "-").stdout)
    assert plain["paper_compat"] is None
    document = json.loads(run(before, after, "--chance", "paper-compat", "--json", "-").stdout)
    assert document["paper_compat"]["forgetting"]["mean"] == pytest.approx(
        10 / 60 - 0.5 * (40 / 60) / 3
    )
    assert list(document["paper_compat"]["by_category"]) == ["Common Sense"]


def test_samples_of_a_csv_reach_the_table_and_the_json(run: Run, tmp_path: Path) -> None:
    """Three answers to each of two questions: counts are means over them, and no test takes them for six."""
    rows = [(item, sample) for item in "xy" for sample in range(3)]
    for name, right in (("b.csv", [1, 1, 1, 1, 0, 0]), ("a.csv", [0, 0, 1, 1, 0, 0])):
        lines = [f"{item},{sample},{r}" for (item, sample), r in zip(rows, right, strict=True)]
        (tmp_path / name).write_text("\n".join(["item_id,sample,correct", *lines]) + "\n")
    done = run("b.csv", "a.csv", "--json", "-")
    document = json.loads(done.stdout)
    whole = document["groups"][0]
    assert (document["samples"], whole["n"], whole["forgotten"]) == (3, 2, pytest.approx(2 / 3))
    assert whole["p_value"] == 0.5  # one item changed: one coin
    assert "33.3 %, 3 samples each" in run("b.csv", "a.csv").stdout
    first = json.loads(run("b.csv", "a.csv", "--samples", "first", "--json", "-").stdout)
    assert (first["samples"], first["groups"][0]["forgotten"]) == (1, 1)


def test_questions_of_one_passage_are_not_counted_as_independent(run: Run, tmp_path: Path) -> None:
    cluster = [f"p{i // 10}" for i in range(100)]
    right = [0] * 30 + [1] * 70
    alone = [
        outcomes(tmp_path, f"{name}.csv", values)
        for name, values in (("b", [1] * 100), ("a", right))
    ]
    together = [
        outcomes(tmp_path, f"{name}c.csv", values, cluster=cluster)
        for name, values in (("b", [1] * 100), ("a", right))
    ]
    one, other = (json.loads(run(*pair, "--json", "-").stdout) for pair in (alone, together))
    assert one["groups"][0]["p_value"] < 1e-8
    assert other["groups"][0]["p_value"] == pytest.approx(
        2 * (0.5**3) * 0.5
    )  # three passages, mid-p
    assert other["clusters"] == 10
    assert other["groups"][0]["effective_n"] < 15
    widths = [
        d["groups"][0]["net_change_interval"][1] - d["groups"][0]["net_change_interval"][0]
        for d in (one, other)
    ]
    assert widths[1] > 2 * widths[0]


def test_metric_decides_which_answers_of_a_harness_are_right(run: Run, tmp_path: Path) -> None:
    for name, right in (("before", (1.0, 0.0)), ("after", (0.0, 0.0))):
        judged = {"acc": 1.0, "acc_norm": right[0]}
        write_samples(
            tmp_path / name / f"org__{name}",
            "arc_easy",
            [choice_row(0, (-1.0, -2.0), 0, metrics=judged)],
        )
    done = run("before", "after", "--metric", "acc_norm", "--json", "-")
    assert done.status == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["groups"][0]["forgotten"], document["before"]["metric"]) == (1, "acc_norm")
    assert json.loads(run("before", "after", "--json", "-").stdout)["groups"][0]["forgotten"] == 0
    done = run("before", "after", "--metric", "f1")
    assert done.status == 1
    assert "no metric 'f1' in this log; those that are right or wrong: acc, acc_norm" in " ".join(
        done.stderr.split()
    )


def test_own_categories_group_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,task,category,correct\n1,t,old,1\n2,u,old,1\n")
    (tmp_path / "b.csv").write_text("item_id,task,category,correct\n1,t,old,0\n2,u,old,1\n")
    (tmp_path / "c.yaml").write_text("t: Fresh\n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    done = CliRunner().invoke(
        app, ["compare", *files, "--categories", str(tmp_path / "c.yaml"), "--detail"]
    )
    assert done.exit_code == 0
    assert "Fresh" in done.stdout
    assert "1 of 2 tasks are not in" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "named", [["--category", "Fresh"], ["--fail-if", "category:Fresh.forgotten>0"]]
)
def test_options_name_the_categories_of_the_map(tmp_path: Path, named: list[str]) -> None:
    (tmp_path / "a.csv").write_text("item_id,task,category,correct\n1,t,old,1\n2,u,old,1\n")
    (tmp_path / "b.csv").write_text("item_id,task,category,correct\n1,t,old,0\n2,u,old,1\n")
    (tmp_path / "c.yaml").write_text("t: Fresh\n")
    command = ["compare", *(str(tmp_path / name) for name in ("a.csv", "b.csv"))]
    done = CliRunner().invoke(
        app, [*command, "--categories", str(tmp_path / "c.yaml"), *named, "--json", "-"]
    )
    whole, *_ = json.loads(done.stdout)["groups"]
    assert (done.exit_code, whole["n"]) == ((0, 1) if named[0] == "--category" else (3, 2)), (
        done.output
    )


def test_ids_that_repeat_within_subjects_lead_to_a_command_that_works(
    run: Run, command: Run, tmp_path: Path
) -> None:
    lines = [f"{subject},{n},{n % 2},{subject}{n}" for subject in "xyz" for n in range(4)]
    path = tmp_path / "my outcomes.csv"
    path.write_text("\n".join(["subject,item_id,correct,remark", *lines]))
    refused = run(path.name, path.name)
    assert "its ids repeat, and are unique within each subject; `" in refused.last
    assert command(*shlex.split(refused.last.split("`")[1])[1:]).status == 0
    assert set(load_snapshot(tmp_path / "outcomes.parquet").texts("task")) == {"x", "y", "z"}


NAMES = {
    "plain": "Maths",
    "wide": "数学和物理学的问题" * 20,
    "emoji": "🙂👩‍👩‍👧🎉" * 40,
    "long": "x" * 200,
    "lines": "two\nlines\tand a tab",
    "codes": "\x1b[31mred\x1b[0m [bold]not markup[/bold]",
}
ITEMS = 60
MANY = range(8)
PAPER = ("--chance", "paper-compat", "--repeat", "again.parquet")


@pytest.fixture(params=NAMES, ids=list(NAMES))
def folder_of_columns(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A base, two models and a run, whose models, categories, tasks, ids and texts all have one kind of name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(
        "forgetwatch.report.html.svg", no_picture
    )  # of the page that `report` writes, and not prints
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
        made = snapshot(
            right, meta={"model": name, "step": step, "probe": described}, chosen=chosen, **labels
        )
        save_snapshot(made, place)
        for copy in MANY if step else ():
            shutil.copy(place, f"{copy}{place}")
        looks[step] = made
    shutil.copy("base.parquet", "again.parquet")
    write_run(tmp_path / "run", probe(), looks.pop(0), looks)
    item = {
        "id": "1",
        "task": name,
        "category": name,
        "prompt": "Q",
        "choices": ["a", "b"],
        "answer": 0,
    }
    write_jsonl(tmp_path / "p.jsonl", [item, {**item, "id": "2", "prompt": "R"}])
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "base.parquet", "a.parquet"],
        ["compare", "base.parquet", "a.parquet", "--detail"],
        ["compare", "base.parquet", "a.parquet", "--by", "task", "--detail", *PAPER],
        ["compare", "base.parquet", *(f"{copy}{side}.parquet" for copy in MANY for side in "ab")],
        [
            "compare",
            "base.parquet",
            *(f"{copy}{side}.parquet" for copy in MANY for side in "ab"),
            "--detail",
        ],
        ["flips", "base.parquet", "b.parquet"],
        ["report", "run"],
        ["report", "run", "--detail"],
    ],
    ids=lambda command: " ".join(command)[:40],
)
def test_every_command_prints_plain_text_of_a_hundred_columns(
    folder_of_columns: Path, command: list[str]
) -> None:
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) > 2
    assert [
        line
        for line in lines
        if cell_len(line) > 100 and not line.startswith(("report: ", "   forgetwatch ", "next "))
    ] == []
    assert "\x1b" not in done.output


@pytest.mark.parametrize(("factor", "lost"), [(1_234_567, "4,938,268"), (2_000, "8,000")])
def test_huge_counts_keep_their_columns(factor: int, lost: str) -> None:
    """Thousands or a million of items a category: the columns hold, and no line is broken in two."""
    base = snapshot([True] * 8, category=["a", "b"] * 4, k=[4] * 8, gold_share=[0.9] * 8)
    after = snapshot([False] * 8, category=["a", "b"] * 4, k=[4] * 8, gold_share=[0.1] * 8)
    comparison = compare(before=base, after=after)
    groups = tuple(_times(group, factor) for group in comparison.groups)
    shown = printed(detail_of(replace(comparison, groups=groups)))
    rows = [line for line in shown.splitlines() if re.match("  [ab] ", line)]
    assert len(rows) == 2
    assert all(lost in row and row.endswith(")") for row in rows)
    assert max(map(len, shown.splitlines())) <= 100


def _times(group: Group, factor: int) -> Group:
    counts = ("retained", "forgotten", "gained", "missed", "effective_n")
    more = replace(group, **{name: getattr(group, name) * factor for name in counts})
    known, counts = group[KNOWN], ("known", "known_lost", "newly_known")
    return more.having(
        KNOWN, replace(known, **{name: getattr(known, name) * factor for name in counts})
    )


def printed(lines: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(lines)
    return out.getvalue()


def coloured(lines: RenderableType) -> Iterator[tuple[str, str]]:
    """The pieces of text that have a colour of their own, but for titles; and the line each stands in."""
    console = Console(
        width=500, highlight=False, force_terminal=True, color_system="truecolor", no_color=False
    )
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
    trajectory = trajectory_of(looks)
    changed = flips(looks[0], looks[1])
    gained = flips(looks[1], looks[0])
    tables = [
        table_of(trajectory.comparisons[-1]),
        detail_of(trajectory.comparisons[-1]),
        detail_of(trajectory.comparisons[-1], by="task"),
        table_of(trajectory.final, trajectory=trajectory),
        detail_of(trajectory.comparisons[-1], trajectory=trajectory),
        flip_lines(changed[0]),
        flip_lines(gained[0]),
    ]
    pieces = [piece for table in tables for piece in coloured(table)]
    assert len(pieces) > 8
    signed = re.compile(
        r"[-+][\d,.]+M?|now lost .*|[\d,.]+M? \([\d.]+ %\)|(FORGOT|KEPT|NOT CLEAR) *"
    )
    named = re.compile(r"(\s*\* |forgotten|gained|churned|clearly known|questions)\b")
    assert [
        piece for piece, line in pieces if not (signed.fullmatch(piece) or named.match(line))
    ] == []


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
    [
        (0, "0"),
        (99_999, "99,999"),
        (999_999, "999999"),
        (1_234_567, "1.2M"),
        (12.5, "12.5"),
        (1234.5, "1234.5"),
    ],
)
def test_a_count_is_exact_as_long_as_it_fits(value: float, shown: str) -> None:
    assert brief(value, 6) == shown


def test_json_keeps_whole_names(folder_of_columns: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "a.parquet", "--json", "-"])
    names = {group["name"] for group in json.loads(done.stdout)["groups"]}
    assert any(name[:-1] in NAMES.values() for name in names)


@pytest.fixture
def folder_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    labels = {"category": ["a", "b"] * 20}
    save_snapshot(snapshot([True] * 40, meta={"model": "base"}, **labels), "base.parquet")
    for step, lost in ((10, 2), (20, 8)):
        checkpoint = Path(f"checkpoint-{step}")
        checkpoint.mkdir()
        made = snapshot([at >= lost for at in range(40)], meta={"model": str(checkpoint)}, **labels)
        save_snapshot(made, f"s{step}.parquet")
    Path("t.csv").write_text("after,eval_accuracy\ns20.parquet,0.2\ns10.parquet,0.1\n")
    return tmp_path


def compared(*options: str) -> str:
    done = CliRunner().invoke(
        app, ["compare", "base.parquet", "s10.parquet", "s20.parquet", *options]
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_ranking_is_first_and_the_detail_ends_with_the_matrix(folder_of_several: Path) -> None:
    assert "  checkpoint-20" not in compared()
    shown = compared("--detail")
    assert shown.index("2 models against base") < shown.index("  checkpoint-20")
    assert [line.split()[:3] for line in shown.splitlines()[-3:]] == [
        ["0", "base", "–"],
        ["1", "checkpoint-10", "0"],
        ["2", "checkpoint-20", "0"],
    ]


def test_the_target_is_read_from_a_table(folder_of_several: Path) -> None:
    document = json.loads(compared("--target", "t.csv", "--json", "-"))
    models = document["ranking"]["models"]
    assert [(one["number"], one["target"], one["on_front"]) for one in models] == [
        (1, 0.1, True),
        (2, 0.2, True),
    ]
    assert document["matrix"]["lost"] == [[0, 2, 8], [0, 0, 6], [0, 0, 0]]
    assert len(document["comparisons"]) == 2


def test_a_report_of_several_begins_with_all_of_them(folder_of_several: Path) -> None:
    compared("-o", "r.html", "--target", "t.csv")
    compared("-o", "r.md")
    compared("-o", "r.json")
    page = (folder_of_several / "r.html").read_text()
    assert page.index('id="several"') < page.index('id="summary"')
    assert (folder_of_several / "r.md").read_text().startswith("# 2 models against base\n")
    assert json.loads((folder_of_several / "r.json").read_text())["matrix"]["items"] == 40


def test_the_matrix_counts_the_first_sample_where_that_is_asked(tmp_path: Path) -> None:
    rows = {"item_id": list("aabb"), "content_hash": list("AABB"), "sample": [0, 1, 0, 1]}
    for name, right in (
        ("b", [True] * 4),
        ("x", [False, True, True, True]),
        ("y", [True, False, False, False]),
    ):
        save_snapshot(snapshot(right, **rows), tmp_path / f"{name}.parquet")
    names = [str(tmp_path / f"{name}.parquet") for name in "bxy"]
    for options, lost in (([], [0, 0.5, 1.5]), (["--samples", "first"], [0, 1, 1])):
        done = CliRunner().invoke(app, ["compare", *names, *options, "--json", "-"])
        assert json.loads(done.stdout)["matrix"]["lost"][0] == lost


def test_a_target_of_one_model_is_wrong_usage(folder_of_several: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "s10.parquet", "--target", "t.csv"])
    assert done.exit_code == 2
    assert "needed at least two" in " ".join(done.output.replace("│", " ").split())


def test_a_target_that_is_not_there_is_an_error(folder_of_several: Path) -> None:
    done = CliRunner().invoke(
        app, ["compare", "base.parquet", "s10.parquet", "s20.parquet", "--target", "no.csv"]
    )
    assert isinstance(done.exception, SnapshotError)
    assert "no.csv: no such file" in str(done.exception)


def test_pictures_are_drawn_where_they_are_wanted(folder_of_several: Path) -> None:
    shown = compared("--plots", "new/pictures", "--target", "t.csv")
    assert "pictures: 3 in new/pictures, as PNG and SVG" in shown
    assert {path.name for path in (folder_of_several / "new" / "pictures").glob("*.png")} == {
        "retention-against-eval_accuracy.png",
        "categories-1-checkpoint-10.png",
        "categories-2-checkpoint-20.png",
    }


def test_with_json_on_stdout_pictures_are_named_on_stderr(folder_of_several: Path) -> None:
    json.loads(compared("--plots", "pictures", "--json", "-"))


def test_a_comparison_without_pictures_says_so(folder_of_several: Path) -> None:
    for name in ("one", "two"):
        (folder_of_several / f"{name}.csv").write_text("item_id,correct\na,1\nb,0\n")
    done = CliRunner().invoke(app, ["compare", "one.csv", "two.csv", "--plots", "pictures"])
    assert "pictures: none" in done.stdout


@pytest.mark.parametrize("place", ["base.parquet", "base.parquet/below"])
def test_a_file_where_the_pictures_should_go_is_refused_before_the_work(
    folder_of_several: Path, place: str
) -> None:
    done = CliRunner().invoke(app, ["compare", "nothere.parquet", "s10.parquet", "--plots", place])
    assert isinstance(done.exception, SnapshotError)
    assert "base.parquet is a file" in str(done.exception)


def test_the_pictures_of_a_run(folder_of_several: Path) -> None:
    run = folder_of_several / "out" / "_forgetwatch"
    run.mkdir(parents=True)
    for step, name in ((0, "baseline"), (5, "step-000005")):
        right = [at >= step for at in range(40)]
        save_snapshot(
            snapshot(right, category=["a", "b"] * 20, meta={"step": step}), run / f"{name}.parquet"
        )
    done = CliRunner().invoke(app, ["report", "out", "--plots", "pictures"])
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in (folder_of_several / "pictures").glob("*.svg"))
    assert names == ["categories-step-5.svg", "curves.svg", "items-look-by-look.svg"]


BEFORE = np.random.default_rng(0).uniform(0.8, 1.6, 20)
QUESTIONS = [True, True, False, True, False, True]


def run_of_passages(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


def saved(folder: Path, *, questions: bool) -> list[str]:
    asked = QUESTIONS if questions else []
    paths = []
    for step in range(3):
        paths.append(str(folder / f"{step}.parquet"))
        save_snapshot(read(bits=BEFORE + 0.02 * step, questions=asked, step=step), paths[-1])
    return paths


def test_score_prints_the_bits_per_byte(tmp_path: Path) -> None:
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    Probe(passages(4), name="texts").save(tmp_path / "texts.jsonl")
    output = tmp_path / "s.parquet"
    printed = run_of_passages(
        "score",
        str(tmp_path / "model"),
        "--probe",
        str(tmp_path / "texts.jsonl"),
        "-o",
        str(output),
    )
    found = snapshot_bits(load_snapshot(output))
    assert f"4 passages scored, {found:.3f} bits per byte" in printed


def test_several_models_of_passages_alone_have_a_table_each(tmp_path: Path) -> None:
    printed = run_of_passages("compare", *saved(tmp_path, questions=False))
    assert " ".join(printed.split()).count("passages alone were compared") == 2
    assert "n/a" not in printed
    document = json.loads(
        run_of_passages("compare", *saved(tmp_path, questions=False), "--json", "-")
    )
    changes = [one["groups"][0]["bits_per_byte_change"] for one in document["comparisons"]]
    assert changes == pytest.approx([0.02, 0.04])


def test_several_models_of_both_are_ranked_by_their_questions(tmp_path: Path) -> None:
    printed = run_of_passages("compare", *saved(tmp_path, questions=True))
    assert "left out" not in printed


@pytest.mark.parametrize("suffix", ["html", "md", "csv", "json"])
def test_reports_of_passages_are_written(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"r.{suffix}"
    run_of_passages("compare", *saved(tmp_path, questions=False), "-o", str(target))
    assert "passages" in target.read_text(encoding="utf-8")


def test_a_passage_is_shown_as_its_text() -> None:
    printed = run_of_passages("probe", "show", "passages", "--limit", "1")
    assert "passage 1\n" in printed
    assert "Als das Schwimmbad im Herbst geschlossen wurde" in " ".join(printed.split())
    assert "no fault found" in run_of_passages("probe", "check", "passages")


TOK = tokenizer()
TEXT: dict[str, Any] = {
    **{"vocab_size": len(TOK), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
    **{"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 1},
}
VISION: dict[str, Any] = {
    **{
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    },
    **{"image_size": 28, "patch_size": 14},
}
MROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10_000.0}
KINDS: dict[str, dict[str, Any]] = {
    "llava": {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {"model_type": "clip_vision_model", **VISION},
    },
    "qwen2_5_vl": {
        "text_config": {**TEXT, "rope_parameters": MROPE, "rope_scaling": MROPE},
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "out_hidden_size": 32,
        },
    },
    "gemma3": {
        "text_config": {**TEXT, "head_dim": 8, "sliding_window": 8},
        "vision_config": VISION,
    },
    "idefics3": {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": VISION,
        "image_token_id": 9,
    },
}

PARTS: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
}
SMALL: dict[str, dict[str, Any]] = {
    "blip": {
        "text_config": {**PARTS, "encoder_hidden_size": 32, "vocab_size": len(TOK)},
        "vision_config": VISION,
    },
    "kosmos-2": {
        "text_config": {
            "embed_dim": 32,
            "ffn_dim": 64,
            "layers": 1,
            "attention_heads": 4,
            "vocab_size": len(TOK),
        },
        "vision_config": VISION,
    },
}
"""Models that need an image with every text."""


def made(kind: str, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    model = (
        AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **KINDS[kind]))
        .float()
        .eval()
    )
    with torch.no_grad():
        for weight in model.parameters():  # large enough for a wrong mask to show
            if weight.ndim == 2 and 0 < (scale := float(weight.std())) < 0.15:
                weight.mul_(min(8.0, 0.15 / scale))
    return model


def saved_of_images_and_text(folder: Path, kind: str, seed: int = 0) -> Path:
    made(kind, seed).save_pretrained(folder)
    TOK.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_whole_and_scored_as_by_plain_forwards(
    kind: str, tmp_path: Path
) -> None:
    model, tok = load_model(str(saved_of_images_and_text(tmp_path / kind, kind)))
    assert type(model).__name__ == type(made(kind)).__name__
    items = probe(24)
    snapshot = Scorer(items, tok, model).score(model)
    rows = snapshot.table["choice_logprobs"].to_pylist()
    for encoded, found in zip(encode(items, tok, max_length=128), rows, strict=True):
        for choice, value in zip(encoded.choices, found, strict=True):
            assert value == pytest.approx(log_likelihood(model, encoded.context, choice), abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("blip", "BlipForConditionalGeneration cannot read a short text (.*pixel_values"),
        (
            "kosmos-2",
            "Kosmos2ForConditionalGeneration cannot read a short text (You have to specify",
        ),
    ],
)
def test_a_model_that_reads_no_text_alone_is_refused_in_one_sentence(
    kind: str, reason: str
) -> None:
    model = (
        AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **SMALL[kind]))
        .float()
        .eval()
    )
    with pytest.raises(ScoringError, match=reason.replace("(", r"\(")):
        Scorer(probe(4), TOK, model).score(model)


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Rows of token ids, each its own label."""

    def __init__(self) -> None:
        self.rows = torch.randint(
            20, len(TOK), (16, 12), generator=torch.Generator().manual_seed(0)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def test_callback_compare_and_follow_count_the_same(tmp_path: Path, command: Run) -> None:
    items, base, out = (
        probe(30),
        saved_of_images_and_text(tmp_path / "base", "qwen2_5_vl"),
        tmp_path / "out",
    )
    watch = ForgetWatchCallback(items, every="save", max_overhead=None)
    settings: dict[str, Any] = {
        "max_steps": 4,
        "save_steps": 2,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": "none",
    }
    arguments = TrainingArguments(
        str(out), disable_tqdm=True, per_device_train_batch_size=4, **settings
    )
    model = transformers.AutoModelForImageTextToText.from_pretrained(base)
    Trainer(
        model, arguments, train_dataset=Texts(), processing_class=TOK, callbacks=[watch]
    ).train()
    looks = {
        step: one.all
        for step, one in zip((0, 2, 4), Trajectory.from_run(out).comparisons, strict=True)
    }
    assert looks[4].forgotten + looks[4].gained > 0
    file = tmp_path / "p.jsonl"
    items.save(file)
    done = command(
        "compare", str(base), str(out / "checkpoint-4"), "--probe", str(file), "--json", "-"
    )
    (whole,) = [group for group in json.loads(done.stdout)["groups"] if group["level"] == "all"]
    assert (whole["forgotten"], whole["gained"]) == (looks[4].forgotten, looks[4].gained)
    follower = Follower(str(out), items, FollowSettings(base=str(base), once=True, poll=0.05))
    follower.follow()
    followed = {step: one.all for step, one in follower.run.comparisons.items() if step > 0}
    assert {step: (one.forgotten, one.gained) for step, one in followed.items()} == {
        step: (looks[step].forgotten, looks[step].gained) for step in (2, 4)
    }


SAVES = {"save_strategy": "steps", "save_steps": 3, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def saved_of_carried_looks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base and a run that began with it."""
    folder = tmp_path_factory.mktemp("saved")
    tok = tokenizer()
    model(tok).save_pretrained(folder / "base")
    tok.save_pretrained(folder / "base")
    network = AutoModelForCausalLM.from_pretrained(folder / "base")
    watch = ForgetWatchCallback(probe(), every=3, max_overhead=None)
    trained(folder / "run", network=network, tok=tok, callbacks=[watch], steps=6, **SAVES)
    return folder


def test_a_base_and_a_checkpoint_are_compared_by_what_the_checkpoint_carries(
    saved_of_carried_looks: Path, command: Run
) -> None:
    whole = Trajectory.from_run(saved_of_carried_looks / "run").comparisons[-1].all
    shown = command(
        "compare",
        str(saved_of_carried_looks / "base"),
        str(saved_of_carried_looks / "run" / "checkpoint-6"),
    )
    assert f"{whole.forgotten} of 30 lost, {whole.gained} gained" in shown.stdout
    carrying = saved_of_carried_looks / "run" / "checkpoint-6"
    assert (
        f"{saved_of_carried_looks / 'base'}: the baseline that {carrying} carries" in shown.stderr
    )
    assert "its own look, without scoring it again (--probe scores it)" in shown.stderr
    assert "loading torch" not in shown.stderr


def test_two_checkpoints_are_compared_and_their_questions_are_those_of_the_run(
    saved_of_carried_looks: Path, command: Run
) -> None:
    sides = [str(saved_of_carried_looks / "run" / f"checkpoint-{step}") for step in (3, 6)]
    assert command("compare", *sides).status == 0
    shown = command("flips", str(saved_of_carried_looks / "base"), sides[1]).stdout
    assert "Q : " in shown


def test_a_checkpoint_of_another_base_or_without_a_look_needs_a_probe(
    saved_of_carried_looks: Path, command: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(saved_of_carried_looks / "base", other)
    missing = command("compare", str(other), str(saved_of_carried_looks / "run" / "checkpoint-6"))
    assert (missing.status, missing.last) == (
        1,
        f"forgetwatch: {other}: a model folder without a look of its own, which needs --probe (such as standard)",
    )
    bare = tmp_path / "checkpoint-6"
    shutil.copytree(
        saved_of_carried_looks / "run" / "checkpoint-6",
        bare,
        ignore=shutil.ignore_patterns("forgetwatch"),
    )
    assert (
        "without a look of its own"
        in command("compare", str(saved_of_carried_looks / "base"), str(bare)).last
    )


def test_a_checkpoint_without_a_look_is_scored_on_the_items_of_its_run(
    saved_of_carried_looks: Path, command: Run, tmp_path: Path
) -> None:
    sides = [str(saved_of_carried_looks / "run" / f"checkpoint-{step}") for step in (3, 6)]
    whole = command("compare", *sides).stdout.splitlines()[1:4]
    shutil.copytree(saved_of_carried_looks / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint-3" / "forgetwatch")
    shown = command(
        "compare", *(side.replace(str(saved_of_carried_looks), str(tmp_path)) for side in sides)
    )
    assert "checkpoint-3: no look of its own; it is scored on the items of its run" in shown.stderr
    assert shown.stdout.splitlines()[1:4] == whole


def judged(path: Path, scores: list[Any], **columns: list[Any]) -> Path:
    rows = [
        {"item_id": f"q{row}", "correct": score, **{name: of[row] for name, of in columns.items()}}
        for row, score in enumerate(scores)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_scores_are_compared_on_their_scale_and_the_next_command_keeps_it(tmp_path: Path) -> None:
    before = judged(tmp_path / "a.jsonl", [9, 7, 5, 3] * 50)
    after = judged(tmp_path / "b.jsonl", [5, 7, 5, 3] * 50)
    options = ["--scale", "0,10", "--right-if", "score>=7"]
    done = CliRunner().invoke(app, ["compare", str(before), str(after), *options])
    shown = " ".join(done.output.split())
    assert done.exit_code == 0
    assert "50 of all 200 lost" in shown or "50 of 200 lost" in shown
    assert "(right: >=7): score 0.60 -> 0.50, -0.10" in shown
    assert "flips" in shown
    assert "'score>=7' --scale 0,10" in shown
    done = CliRunner().invoke(app, ["flips", str(before), str(after), *options, "--limit", "1"])
    assert "49 more with --limit 0" in done.output
    out = tmp_path / "a.parquet"
    done = CliRunner().invoke(app, ["convert", str(before), *options, "-o", str(out)])
    assert "200 rows, 50.0 % right" in done.output
    done = CliRunner().invoke(app, ["compare", str(before), str(after)])
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "10"], "--scale 10"),
        (["--scale", "1,0"], "--scale 1,0: scale: needed the lower end first"),
        (["--right-if", "f1>=0.5"], "--right-if f1>=0.5: needed score>=NUMBER"),
        (["--right-if", "score>=0.5", "--lower-is-better"], "needed score<=NUMBER"),
        (["--unscored-if", "status"], "--unscored-if status: needed field=value"),
    ],
)
def test_an_option_of_scores_that_cannot_be_read_is_wrong_usage(
    tmp_path: Path, options: list[str], message: str
) -> None:
    path = judged(tmp_path / "a.jsonl", [0.5, 1])
    done = CliRunner().invoke(app, ["compare", str(path), str(path), *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


def test_attacks_that_succeed_are_losses(tmp_path: Path) -> None:
    values = {"behaviour_1": [{"label": 0}], "behaviour_2": [{"label": 1}]}
    path = tmp_path / "attacks.json"
    path.write_text(json.dumps(values))
    done = CliRunner().invoke(app, ["compare", str(path), str(path)])
    assert "--lower-is-better says which value is right" in str(done.exception)
    command = "--rows . --map item_id=key --map correct=label --lower-is-better -o"
    out = tmp_path / "attacks.parquet"
    done = CliRunner().invoke(app, ["convert", str(path), *command.split(), str(out)])
    assert done.exit_code == 0, done.output
    assert load_snapshot(out).table["correct"].to_pylist() == [True, False]
