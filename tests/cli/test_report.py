"""`forgetwatch report` on run folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import write_run
from support import probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Snapshot
from forgetwatch.cli import app
from forgetwatch.errors import GateError, SnapshotError

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
    assert "All questions, step 5: -75.0 points (30 forgotten, 0 gained, of 40); at the last look -62.5 points" in told
    assert "step 9 against the start" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= max(100, 2 * len(str(run)) + 60)
    page = run / "_forgetwatch" / "report.html"
    assert f"report: {page}" in done.stdout
    assert "How sure is that?" in page.read_text()


def test_the_first_table_of_a_run_has_at_most_eleven_lines(run: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(run)])
    lines = done.stdout.splitlines()
    table = lines[: lines.index("")]
    assert len(table) <= 10
    assert "since         all questions: step 5; best look: the start" in table
    assert table[-1] == f"next          what is listed below; or forgetwatch flips {run}"
    assert lines[len(table) + 1] == "What can be tried, the least work first; measure again after each:"
    assert lines[-1].startswith("report: ")


def test_report_writes_a_run_as_json(run: Path) -> None:
    document = json.loads(CliRunner().invoke(app, ["report", str(run), "--json", "-"]).stdout)
    assert document["schema"] == "forgetwatch/trajectory@1"
    assert (document["items"], document["planned_looks"]) == (40, 4)
    assert document["forgetting_events"] == {"0": 10, "1": 30}
    last = document["looks"][-1]
    assert (last["step"], last["ever_forgotten"], last["regained"], last["newly_regained"]) == (9, 30, 5, 5)
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


def test_a_page_that_cannot_be_written_leaves_the_table(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("forgetwatch.cli.report.write_report", full)
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 0, done.output
    assert "25 of 40 forgotten, 0 gained" in done.stdout
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
    first, last = (str(run / "_forgetwatch" / name) for name in ("baseline.parquet", "step-000009.parquet"))
    with pytest.raises(GateError, match=r"history\.regained has no number; needed a run"):
        CliRunner().invoke(app, ["compare", first, last, "--fail-if", "history.regained>1"], catch_exceptions=False)
    (tmp_path / "p.yaml").write_text("critical: [history.regained>1]")
    assert gated("--policy", str(tmp_path / "p.yaml"))[0] in (0, 3)


def stages(folder: Path) -> list[str]:
    """Two stages, each of two categories, of which the first one is taught by the first stage."""

    def look(step: int, right: list[bool]) -> Snapshot:
        return snapshot(right, meta={"model": "m", "step": step}, k=[4] * 8, category=["a"] * 4 + ["=b"] * 4)

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
    assert [one["path"] for one in document["questions"]] == ["011", "011", "010", "010", "111", "111", "111", "101"]
    assert document["questions"][0]["item_id"] == "0"
    rows = {(row["stage"], row["name"]): row for row in document["matrix"]}
    assert {name for _, name in rows} == {"all", "a", "=b", "t"}
    last = rows["dpo", "a"]
    assert (last["right"], last["forgotten_since_base"], last["gained_since_base"]) == (0.5, 0, 2)
    assert (last["forgotten_since_previous"], last["gained_since_previous"]) == (2, 0)
    printed = CliRunner().invoke(app, ["report", *folders]).stdout
    assert "paths: of 8 questions 3 were right throughout, 0 lost, 1 lost and recovered" in printed
    assert max(map(len, printed.split("report: ")[0].partition("\n\n")[2].splitlines()[:-1])) <= 100
