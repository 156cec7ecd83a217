"""`forgetwatch report` on run folders.

The section of a model card, and the results in its head, as the hub's own library reads them.

`forgetwatch report --train` says whether what was lost was barely known, or near the training rows.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Run
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from run_folders import write_run
from support import decided, probe, snapshot, trainer
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, Snapshot, Trajectory
from forgetwatch.cli import app
from forgetwatch.errors import GateError, SnapshotError
from forgetwatch.report.card import write_card

LOOKS = {5: [False] * 30 + [True] * 10, 9: [False] * 25 + [True] * 15}


def write(folder: Path, *, planned: int | None = 4) -> Path:
    def look(step: int, right: list[bool]) -> Snapshot:
        return snapshot(right, meta={"model": "m", "step": step}, k=[4] * 40)

    looks = {step: look(step, right) for step, right in LOOKS.items()}
    write_run(folder, probe(40), look(0, [True] * 40), looks, planned=planned)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "out")


@pytest.mark.parametrize("place", ["", "_forgetwatch"])
def test_detail_has_every_look_of_a_run(run: Path, place: str) -> None:
    done = CliRunner().invoke(app, ["report", str(run / place), "--detail"])
    assert done.exit_code == 0, done.output
    told = " ".join(done.stdout.split())
    assert (
        "All questions, step 5: -75.0 points (30 forgotten, 0 gained, of 40); at the last look -62.5 points"
        in told
    )
    assert "step 9: " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= max(100, 2 * len(str(run)) + 60)
    page = run / "_forgetwatch" / "report.html"
    assert f"report: {page}" in done.stdout
    assert "How sure is that?" in page.read_text()


def test_the_first_table_of_a_run_has_at_most_eight_lines(run: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(run)])
    lines = done.stdout.splitlines()
    table = lines[: lines.index("")]
    assert len(table) <= 8
    assert "when       forgot from step 5, never surely kept" in table
    assert table[-1] == f"next       forgetwatch flips {run}"
    told = lines[len(table) + 1 :]
    assert told[0] == "Of 30 right answers lost at some look, 5 are right again at the last look."
    assert told[2] == "To try, the least work first; measure again after each:"
    assert lines[-1].startswith("report: ")


def test_report_writes_a_run_as_json(run: Path) -> None:
    document = json.loads(CliRunner().invoke(app, ["report", str(run), "--json", "-"]).stdout)
    assert document["schema"] == "forgetwatch/trajectory@2"
    assert (document["items"], document["planned_looks"]) == (40, 4)
    assert document["forgetting_events"] == {"0": 10, "1": 30}
    last = document["looks"][-1]
    assert (last["step"], last["ever_forgotten"], last["regained"], last["newly_regained"]) == (
        9,
        30,
        5,
        5,
    )
    assert last["if_guessed"]["ever_forgotten"] == pytest.approx(40 * 0.25 * (1 - 0.25**2))
    assert [alarm["raised"] for alarm in last["alarms"]] == [True]  # a single category is the whole
    assert last["alarms"][0]["alarm_level"] == pytest.approx(0.05 / 4)
    assert last["comparison"]["groups"][0]["forgotten"] == 25


def test_a_run_without_a_plan_uses_alarm_levels_that_need_none(run: Path) -> None:
    (run / "_forgetwatch" / "run.json").unlink()
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.exit_code == 0
    assert "run.json is missing: " in shown.stdout
    assert "alarms follow the rule that needs no plan" in " ".join(shown.stdout.split())
    document = json.loads(CliRunner().invoke(app, ["report", str(run), "--json", "-"]).stdout)
    assert document["notes"][0].startswith("run.json is missing")
    levels = [look["alarms"][0]["alarm_level"] for look in document["looks"]]
    assert levels == pytest.approx([0.05 / 2, 0.05 / 6])
    assert document["planned_looks"] is None


def test_looks_beyond_the_plan_leave_the_levels_before_them(tmp_path: Path) -> None:
    run = write(tmp_path / "out", planned=1)
    document = json.loads(CliRunner().invoke(app, ["report", str(run), "--json", "-"]).stdout)
    levels = [look["alarms"][0]["alarm_level"] for look in document["looks"][:2]]
    assert levels == pytest.approx([0.05 / 1, 0.05 / (2 * 3)])


def test_a_folder_without_a_run_is_one_clear_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(done.exception, SnapshotError)
    assert "needed a run folder with baseline.parquet" in str(done.exception)


def test_a_page_that_cannot_be_written_leaves_the_table(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("forgetwatch.cli.report.write_report", full)
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 0, done.output
    assert "25 of 40 lost, 0 gained" in done.stdout
    assert "no page was written to" in done.stdout
    assert CliRunner().invoke(app, ["report", str(run), "-o", str(run / "r.html")]).exit_code == 1


def test_a_run_can_be_gated_by_its_last_look_and_by_its_history(run: Path, tmp_path: Path) -> None:
    def gated(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["report", str(run), *options])
        return done.exit_code, done.output

    status, text = gated("--fail-if", "history.ever_forgotten>29")
    assert status == 3
    assert "gate FAIL: all history.ever_forgotten 30 (fails if >29)" in text
    assert gated("--fail-if", "history.ever_forgotten>30", "--json", "-")[0] == 0
    status, text = gated("--no-worse-than", "2%")
    assert (status, "gate FAIL: all accuracy -62.5 points" in text) == (3, True)
    first, last = (
        str(run / "_forgetwatch" / name) for name in ("baseline.parquet", "step-000009.parquet")
    )
    with pytest.raises(GateError, match=r"history\.regained has no number; needed a run"):
        CliRunner().invoke(
            app, ["compare", first, last, "--fail-if", "history.regained>1"], catch_exceptions=False
        )
    (tmp_path / "p.yaml").write_text("critical: [history.regained>1]")
    assert gated("--policy", str(tmp_path / "p.yaml"))[0] in (0, 3)


def stages(folder: Path) -> list[str]:
    """Two stages, each of two categories, of which the first one is taught by the first stage."""

    def look(step: int, right: list[bool]) -> Snapshot:
        return snapshot(
            right, meta={"model": "m", "step": step}, k=[4] * 8, category=["a"] * 4 + ["=b"] * 4
        )

    start = [False] * 4 + [True] * 4
    middle, end = [True] * 4 + [True] * 3 + [False], [True] * 2 + [False] * 2 + [True] * 4
    write_run(folder / "sft", probe(8), look(0, start), {5: look(5, middle)})
    write_run(folder / "dpo", probe(8), look(0, middle), {5: look(5, end)})
    return [str(folder / "sft"), str(folder / "dpo")]


def test_stages_are_shown_as_a_matrix(tmp_path: Path) -> None:
    folders = stages(tmp_path)
    done = CliRunner().invoke(app, ["report", *folders, "--json", "-"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)["stages"]
    assert document["stages"] == ["sft", "dpo"]
    assert document["paths"] == {
        "questions": 8,
        "kept": 3,
        "lost": [0, 0],
        "recovered": [0, 1],
        "never": 0,
        "learned": 2,
        "passing": 2,
        "recovered_if_guessed": pytest.approx(8 * 0.25**2 * 0.75),
    }
    assert [one["path"] for one in document["questions"]] == [
        "011",
        "011",
        "010",
        "010",
        "111",
        "111",
        "111",
        "101",
    ]
    assert document["questions"][0]["item_id"] == "0"
    rows = {(row["stage"], row["name"]): row for row in document["matrix"]}
    assert {name for _, name in rows} == {"all", "a", "=b", "t"}
    last = rows["dpo", "a"]
    assert (last["right"], last["forgotten_since_base"], last["gained_since_base"]) == (0.5, 0, 2)
    assert (last["forgotten_since_previous"], last["gained_since_previous"]) == (2, 0)
    printed = CliRunner().invoke(app, ["report", *folders]).stdout
    assert "paths: of 8 questions 3 were right throughout, 0 lost, 1 lost and recovered" in printed
    assert max(map(len, printed.split("report: ")[0].partition("\n\n")[2].splitlines()[:-1])) <= 100


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a training of TRL with the callback, which writes the card of TRL's own README."""
    folder = tmp_path_factory.mktemp("card") / "tuned"
    watch = ForgetWatchCallback(probe(40, norm="bytes"), every=2, max_overhead=None)
    trainer(folder, steps=4, callbacks=[watch], save_strategy="steps", save_steps=2).train()
    assert CliRunner().invoke(app, ["report", str(folder), "--model-card"]).exit_code == 0
    return folder


def test_a_training_writes_its_result_into_the_card_of_trl(output: Path) -> None:
    card = ModelCard((output / "README.md").read_text(encoding="utf-8"))
    assert "SFT" in card.text
    assert (card.text.count("## What it forgot"), card.text.count("|  |")) == (
        1,
        0,
    )  # no row is empty
    whole = Trajectory.from_run(output).comparisons[-1].all
    assert f"{whole.forgotten} of 40 lost, {whole.gained} gained" in card.text
    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert found["accuracy_after"] == round(whole.accuracy_after, 4)
    assert (found["forgotten"], found["gained"]) == (whole.forgotten, whole.gained)


def test_a_card_holds_no_text_of_a_question(output: Path) -> None:
    text = (output / "README.md").read_text(encoding="utf-8")
    assert not any(item.prompt in text for item in probe(40))


def test_the_command_replaces_the_section_and_keeps_everything_else(
    output: Path, command: Run, tmp_path: Path
) -> None:
    other = EvalResult(
        task_type="text-generation",
        dataset_type="wikitext",
        dataset_name="W",
        metric_type="loss",
        metric_value=3.0,
    )
    path = output / "README.md"
    head = ModelCardData(model_name="mine", license="mit", eval_results=[other])
    path.write_text(
        f"---\n{head}\n---\nBefore.\n\n<!-- forgetwatch -->\nold\n<!-- end of forgetwatch -->\n\nAfter.\n"
    )
    first = command("report", str(output), "--model-card", "-o", str(tmp_path / "r.html"))
    assert (first.status, first.stdout.splitlines()[-1]) == (0, f"model card: {path}")
    written = path.read_text(encoding="utf-8")
    card = ModelCard(written)
    assert card.text.startswith("Before.\n\n<!-- forgetwatch -->\n## What it forgot")
    assert card.text.endswith("<!-- end of forgetwatch -->\n\nAfter.\n")
    assert (card.data.model_name, card.data.license) == ("mine", "mit")
    assert {result.dataset_type for result in card.data.eval_results} == {"wikitext", "forgetwatch"}
    command("report", str(output), "--model-card", "-o", str(tmp_path / "r.html"))
    assert path.read_text(encoding="utf-8") == written


def test_a_card_is_made_where_there_is_none(output: Path, tmp_path: Path) -> None:
    write_card(tmp_path / "model" / "README.md", Trajectory.from_run(output))
    card = ModelCard((tmp_path / "model" / "README.md").read_text(encoding="utf-8"))
    assert card.data.model_name == "model"
    assert card.text.startswith("<!-- forgetwatch -->")


def test_a_marker_within_a_text_is_no_section(output: Path, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("Put `<!-- forgetwatch -->` there.\n\n# Usage\n\nkeep me\n")
    write_card(path, Trajectory.from_run(output))
    assert ModelCard(path.read_text()).text.startswith(
        "Put `<!-- forgetwatch -->` there.\n\n# Usage\n\nkeep me\n\n<!--"
    )


def test_a_folder_that_is_no_output_of_a_training_gets_no_card(
    output: Path, command: Run, tmp_path: Path
) -> None:
    shutil.copytree(output / "_forgetwatch", tmp_path / "results")
    done = command(
        "report", str(tmp_path / "results"), "--model-card", "-o", str(tmp_path / "r.html")
    )
    assert (done.status, (tmp_path / "README.md").exists()) == (1, False)
    assert (
        "--model-card: needed the output_dir of a training or its _forgetwatch, got" in done.stderr
    )


@pytest.mark.parametrize(
    "head",
    [
        "model-index:\n- 3",
        "tags: [a",
        "model-index:\n- name: a\n  results: []\n- name: b\n  results: []",
    ],
)
def test_a_card_whose_head_cannot_be_read_is_left_as_it_is(
    output: Path, tmp_path: Path, head: str
) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"---\n{head}\n---\ntext\n")
    with pytest.raises(SnapshotError, match=r"README.md: the metadata at its head cannot be read"):
        write_card(path, Trajectory.from_run(output))
    assert path.read_text() == f"---\n{head}\n---\ntext\n"


ITEMS = 200


def look(step: int, lost: np.ndarray) -> Snapshot:
    """A look at questions of which each is surer than the one before."""
    scores = np.full((ITEMS, 4), -3.0)
    scores[:, 0] = -3.0 + np.linspace(0.1, 4.0, ITEMS)
    if step:
        scores[lost, 1] = 5.0
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    return decided(scores, meta={"model": "m", "step": step}, gold_share=share.tolist())


@pytest.fixture
def run_of_why(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lost = np.flatnonzero(rng.random(ITEMS) < np.linspace(0.6, 0.0, ITEMS))
    write_run(tmp_path / "run", probe(ITEMS), look(0, lost), {5: look(5, lost)})
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"text": str(item.prompt)}) + "\n" for item in probe(9))
    )
    return tmp_path / "run"


def test_with_rows_both_are_asked_and_json_has_them(run_of_why: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    path = tmp_path / "why.json"
    arguments = [
        "report",
        str(run_of_why),
        "--train",
        str(tmp_path / "rows.jsonl"),
        "--json",
        str(path),
    ]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "its words in the rows, per 1,000" in done.stdout
    assert "lost of each tenth, %" in done.stdout
    document = json.loads(path.read_text())["why"]
    assert [one["column"] for one in document["columns"]] == ["sure", "near"]
    assert document["columns"][0]["explains"] is True
    assert (
        sum(part["items"] for part in document["columns"][0]["parts"]) == document["items"] == ITEMS
    )
    assert document["columns"][0]["explained"] > document["columns"][0]["explained_by_chance"] > 0


def test_the_page_shows_both_columns(run_of_why: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    arguments = ["report", str(run_of_why), "--train", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(
        app, [*arguments, "-o", str(tmp_path / "page.html")], catch_exceptions=False
    )
    assert done.exit_code == 0
    page = (tmp_path / "page.html").read_text()
    for heading in ("Which knowledge it lost", "by words", "its words in the training rows"):
        assert heading in page
    done = CliRunner().invoke(
        app, ["report", str(run_of_why), "-o", str(tmp_path / "plain.html")], catch_exceptions=False
    )
    plain = (tmp_path / "plain.html").read_text()
    assert "Within categories, it lost the less sure of its right answers." in plain
    assert "by words" not in plain


def test_what_is_missing_is_told(run_of_why: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    for name, looks in (("empty", {}), ("run", None)):
        if looks is not None:
            write_run(tmp_path / name, probe(ITEMS), look(0, np.array([], int)), looks)
        (tmp_path / "blank.jsonl").write_text('{"text": ""}\n')
        done = CliRunner().invoke(
            app, ["report", str(tmp_path / name), "--train", str(tmp_path / "blank.jsonl")]
        )
        said = {
            "empty": "--train needs a look after the start",
            "run": "needed training rows with words, found none",
        }
        assert said[name] in str(done.exception)
