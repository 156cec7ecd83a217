"""`forgetwatch flips`: which items, in which order, how many, and as which document."""

import json
from pathlib import Path

import pytest
from pages import choices, run, sure, written
from support import snapshot, write_jsonl
from typer.testing import CliRunner

from forgetwatch import Item, Probe, Snapshot, save_snapshot
from forgetwatch.cli import app
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import SnapshotError
from forgetwatch.report.tracker_rows import flipped_rows


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    of = choices()
    assert of.probe is not None
    paths = tuple(
        str(tmp_path / name) for name in ("before.parquet", "after.parquet", "probe.jsonl")
    )
    save_snapshot(of.before, paths[0])
    save_snapshot(of.after, paths[1])
    of.probe.save(paths[2])
    return paths  # type: ignore[return-value]


def flipped(*arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(app, ["flips", *arguments, "--limit", "0", "--jsonl", "-"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_items_are_shown_with_question_and_both_answers(files: tuple[str, str, str]) -> None:
    done = CliRunner().invoke(app, ["flips", *files[:2], "--probe", files[2]])
    assert done.exit_code == 0, done.output
    assert "Question number" in done.stdout
    surest = max(
        (flip for flip in choices().changed if flip.what == "forgotten"),
        key=lambda flip: flip.margin,
    )
    first = done.stdout.split("\n\n")[0]
    assert f"/ {surest.item_id}" in first
    assert f"right  {surest.right}" in first
    assert f"before {surest.right}" in first
    assert f"after  {surest.answer(surest.after)}" in first
    lost = sum(flip.what == "forgotten" for flip in choices().changed)
    assert f"20 forgotten, {lost - 20:,} more with --limit 0" in done.stdout


def test_outcomes_on_other_questions_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(
            tmp_path / f"{name}.jsonl", [{"item_id": f"{name}{n}", "correct": 1} for n in range(3)]
        )
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    done = CliRunner().invoke(app, ["flips", *paths])
    assert done.exit_code == 1
    assert "have no item in common" in str(done.exception)


@pytest.mark.parametrize("what", ["forgotten", "known_lost", "gained", "churned"])
def test_each_kind_has_the_counts_of_the_comparison(files: tuple[str, str, str], what: str) -> None:
    whole = choices().comparison.all
    found = flipped(*files[:2], "--what", what)
    counted = {
        "forgotten": whole.forgotten,
        "known_lost": whole["known_lost"],
        "gained": whole.gained,
    }
    assert len(found) == counted.get(what, sum(flip.what == what for flip in choices().changed)) > 0


def test_task_and_category_select_items(files: tuple[str, str, str]) -> None:
    comparison = choices().comparison
    assert (
        len(flipped(*files[:2], "--category", "Math"))
        == comparison.by("category")["Math"].forgotten
    )
    two = flipped(*files[:2], "--task", "task 1", "--task", "task 2")
    assert {one["task"] for one in two} == {"task 1", "task 2"}
    assert len(two) == sum(comparison.by("task")[task].forgotten for task in ("task 1", "task 2"))


def test_the_document_is_one_line_an_item_and_plain_ascii(
    files: tuple[str, str, str], tmp_path: Path
) -> None:
    target = tmp_path / "flips.jsonl"
    done = CliRunner().invoke(
        app, ["flips", *files[:2], "--probe", files[2], "--jsonl", str(target), "--limit", "3"]
    )
    assert done.exit_code == 0, done.output
    lines = target.read_text(encoding="ascii").splitlines()
    assert len(lines) == 3
    one = json.loads(lines[0])
    assert one["what"] == "forgotten"
    assert one["before"]["answer"] == one["right"] != one["after"]["answer"]
    margins = [json.loads(line)["margin"] for line in lines]
    assert margins == sorted(margins, reverse=True)


def test_a_run_folder_needs_no_second_argument(tmp_path: Path) -> None:
    trajectory, probe = run(120, looks=3)
    folder = tmp_path / "_forgetwatch"
    folder.mkdir()
    probe.save(folder / "probe.jsonl")
    save_snapshot(trajectory.baseline, folder / "baseline.parquet")
    save_snapshot(trajectory.last, folder / "step-000080.parquet")
    done = CliRunner().invoke(app, ["flips", str(tmp_path), "--sort", "first"])
    assert done.exit_code == 0, done.output
    assert "first at step 80" in done.stdout
    assert "Question number" in done.stdout


def test_a_kind_without_items_is_named(tmp_path: Path) -> None:
    save_snapshot(snapshot([True]), tmp_path / "s.parquet")
    done = CliRunner().invoke(
        app,
        ["flips", str(tmp_path / "s.parquet"), str(tmp_path / "s.parquet"), "--what", "known_lost"],
    )
    assert done.stdout == "none known lost\n"


def test_outputs_cannot_steer_the_terminal(tmp_path: Path) -> None:
    of = written([("It is 7.", "\x1b[2J\x07 [red]8[/red] \u202e")])
    for side, name in ((of.before, "b.parquet"), (of.after, "a.parquet")):
        save_snapshot(side, tmp_path / name)
    done = CliRunner().invoke(
        app, ["flips", str(tmp_path / "b.parquet"), str(tmp_path / "a.parquet")]
    )
    assert not set(done.stdout) & set("\x1b\x07\u202e")
    assert "[red]8[/red]" in done.stdout


def test_one_file_alone_is_a_clear_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["flips", str(tmp_path)])
    assert isinstance(done.exception, SnapshotError)
    assert "pass a run folder, or BEFORE and AFTER" in str(done.exception)


def test_a_logs_questions_are_read_again_for_those_that_flipped(tmp_path: Path) -> None:
    for name, right in (("before", 1.0), ("after", 0.0)):
        rows = [
            {
                "doc_id": at,
                "doc": {"question": f"Why {at}?", "choices": ["never offered"]},
                "target": "because",
                "resps": [[f"{name} {at}"]],
                "filter": "none",
                "exact_match": right if at == 1 else 1.0,
            }
            for at in range(3)
        ]
        write_jsonl(tmp_path / f"samples_t_{name}.jsonl", rows)
    files = [str(tmp_path / f"samples_t_{name}.jsonl") for name in ("before", "after")]
    done = CliRunner().invoke(app, ["flips", *files, "--jsonl", "-"])
    assert done.exit_code == 0, done.output
    (flip,) = map(json.loads, done.stdout.splitlines())
    assert (flip["question"], flip["right"]) == ("Why 1?", "because")
    assert (flip["before"]["answer"], flip["after"]["answer"]) == ("before 1", "after 1")


def test_private_questions_stand_in_no_report(tmp_path: Path) -> None:
    items = [
        Item(
            id=str(at),
            task="t",
            prompt=f"Q{at}",
            choices=("a", "b"),
            answer=0,
            tags=("private",) if at else (),
        )
        for at in range(2)
    ]
    sides = [
        Snapshot.from_columns(
            {"item_id": ["0", "1"], "task": ["t"] * 2, "correct": [right] * 2}, {}
        )
        for right in (True, False)
    ]
    found = flips(sides[0], sides[1], probe=Probe(items))
    assert [(flip.question, flip.right) for flip in found] == [("Q0", "a"), (None, None)]
    _, rows = flipped_rows(found, texts=True)
    assert [row[-3:] for row in rows] == [("Q0", "a", None), (None, None, None)]


def test_a_name_that_is_nearly_right_is_suggested(files: tuple[str, str, str]) -> None:
    before, after, _ = files
    names = choices().before
    for column in ("task", "category"):
        name = names.texts(column)[0]
        error = (
            CliRunner().invoke(app, ["flips", before, after, f"--{column}", f"{name}x"]).exception
        )
        assert isinstance(error, SnapshotError)
        assert f"no {column} '{name}x', did you mean '{name}'? there are " in str(error)
    error = CliRunner().invoke(app, ["flips", before.replace("before", "befor"), after]).exception
    assert "no such file or folder, did you mean 'before.parquet'?" in str(error)


def test_known_and_lost_items_come_with_what_luck_alone_makes(tmp_path: Path) -> None:
    of = sure()
    for name, side in (("a", of.before), ("b", of.after)):
        save_snapshot(side, tmp_path / f"{name}.parquet")
    sides = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    done = CliRunner().invoke(app, ["flips", *sides, "--what", "known_lost", "--limit", "3"])
    assert done.stdout.splitlines()[-1] == "3 known lost, 9 more with --limit 0; luck alone makes 5"
    done = CliRunner().invoke(app, ["flips", *sides, "--what", "gained"])
    assert "luck" not in done.stdout
