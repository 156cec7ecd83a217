"""`forgetwatch gate` and `verify`: a policy's answer, its evidence, a comment that is updated, and damages to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import decided
from typer.testing import CliRunner

from forgetwatch import load_snapshot
from forgetwatch.cli import app
from forgetwatch.report.policy_comment import put_comment
from forgetwatch.snapshot import save_snapshot

POLICY = """policy: release
critical: [{of: all, accuracy: 2%}]
supporting: {unclear: all, limits: [{of: "category:*", accuracy: 5%}]}
"""


def run(*arguments: object, **environment: str) -> Any:
    return CliRunner().invoke(app, ["gate", *map(str, arguments)], env={"GITHUB_STEP_SUMMARY": "", **environment})


def verify(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    before = rng.normal(1.0, 2.0, 600)
    margins = {"base": before, "kept": before + rng.normal(0, 0.01, 600), "lost": before - rng.exponential(2.0, 600)}
    names = {"item_id": [str(n) for n in range(600)], "content_hash": [f"h{n}" for n in range(600)]}
    for name, margin in margins.items():
        scores = np.stack([margin, np.zeros(600), np.full(600, -5.0)], axis=1) - 3
        made = decided(scores, meta={"model": name}, category=[f"c{n % 3}" for n in range(600)], **names)
        save_snapshot(made, tmp_path / f"{name}.parquet")
    (tmp_path / "policy.yaml").write_text(POLICY)
    return {
        **{name: tmp_path / f"{name}.parquet" for name in margins},
        **{"policy": tmp_path / "policy.yaml", "evidence": tmp_path / "evidence.json", "comment": tmp_path / "c.md"},
    }


def test_the_exit_status_is_the_answer(files: dict[str, Path], tmp_path: Path) -> None:
    done = run(files["base"], files["kept"], "--policy", files["policy"])
    assert done.exit_code == 0, done.output
    assert "POLICY PASSED   release: 4 of 4 limits hold" in " ".join(done.stdout.split(" "))
    failed = run(files["base"], files["lost"], "--policy", files["policy"], "--json", tmp_path / "j.json")
    assert failed.exit_code == 3
    assert "POLICY FAILED" in failed.stdout
    document = json.loads((tmp_path / "j.json").read_text())
    assert (document["answer"], document["limits"]) == ("FAIL", 4)
    assert {one["answer"] for one in document["rulings"]} >= {"FAIL"}
    shown = json.loads(run(files["base"], files["lost"], "--policy", files["policy"], "--json", "-").stdout)
    assert shown["answer"] == "FAIL"
    missing = tmp_path / "missing.yaml"
    missing.write_text("critical: [{metric: eval_accuracy, gain: 2%}]")
    assert run(files["base"], files["kept"], "--policy", missing).exit_code == 4
    assert run(files["base"], files["kept"], "--policy", missing, "--value", "eval_accuracy=0.5,0.6").exit_code == 0


def test_what_cannot_be_judged_is_one_sentence(files: dict[str, Path]) -> None:
    unknown = run(files["base"], files["kept"], "--policy", "fine-tun")
    assert "did you mean 'fine-tune'" in str(unknown.exception)
    for arguments, says in (
        ((files["base"],), "needed BEFORE and AFTER, or --plan"),
        (("--plan",), "--plan: needed --probe"),
        ((files["base"], files["kept"], "--value", "x"), "--value: needed NAME=BEFORE,AFTER"),
        ((files["base"], files["kept"], "--value", "x=61,62"), "as shares from 0 to 1"),
        ((files["base"], files["kept"], "--value", "x=.1,.2"), "the policy has no metric 'x'"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert says in " ".join(done.output.replace("│", " ").split())


def test_no_file_of_the_user_is_overwritten(files: dict[str, Path], tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"a": 1}')
    for option in ("--json", "--evidence"):
        done = run(files["base"], files["kept"], "--policy", files["policy"], option, mine)
        assert "there is a file that is not a JSON document of forgetwatch" in str(done.exception)
    assert mine.read_text() == '{"a": 1}'
    again = ("--policy", files["policy"], "--evidence", files["evidence"])
    assert [run(files["base"], files["kept"], *again).exit_code for _ in range(2)] == [0, 0]


def test_a_plan_needs_no_model() -> None:
    done = run("--plan", "--probe", "quick", "--policy", "fine-tune")
    assert done.exit_code == 0, done.output
    assert "limits share an error of 5 %; 80 % power" in done.stdout
    assert "no: too few items" in done.stdout


def test_evidence_holds_and_every_change_of_it_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    options = ("--policy", files["policy"], "--evidence", files["evidence"])
    assert run(files["base"], files["lost"], *options).exit_code == 3
    held = verify(files["evidence"])
    assert held.exit_code == 0, held.output
    assert "the evidence holds: FAIL of policy release (" in held.stdout
    document = json.loads(files["evidence"].read_text())
    assert {"policy", "sides", "rulings", "comparison", "versions", "command", "time"} <= set(document)
    files["policy"].write_text(POLICY.replace("2%", "90%"))
    edited = verify(files["evidence"])
    assert edited.exit_code == 3
    assert "was edited after its evidence" in edited.stderr
    files["policy"].write_text(POLICY)
    exchanged = verify(files["evidence"], "--after", files["kept"])
    assert exchanged.exit_code == 3
    assert "the snapshot after is another one" in exchanged.stderr
    assert "answer is 'PASS', in the evidence 'FAIL'" in exchanged.stderr

    def written(change: Any) -> Any:
        changed = json.loads(files["evidence"].read_text())
        change(changed)
        (tmp_path / "changed.json").write_text(json.dumps(changed))
        return verify(tmp_path / "changed.json")

    better = written(lambda one: one.update(answer="PASS"))
    assert "does not match its own checksum" in better.stderr
    assert "answer is 'FAIL', in the evidence 'PASS'" in better.stderr
    loose = written(lambda one: one["policy"].update(text=POLICY.replace("2%", "90%")))
    assert "the policy's text in the evidence was edited" in loose.stderr
    gone = written(lambda one: one["rulings"].pop())
    assert "differs: rulings is " in gone.stderr
    figure = written(lambda one: one["rulings"][0].update(value=0.0))
    assert "differs: rulings.0.value is " in figure.stderr
    whole = written(lambda one: one["comparison"].update(groups=[]))
    assert "differs: comparison.groups is " in whole.stderr
    level = written(lambda one: one.update(level=0.5))
    assert "differs: level is " in level.stderr
    model = written(lambda one: one["sides"]["after"].update(model="another"))
    assert "differs: sides.after.model is " in model.stderr
    files["policy"].unlink()
    moved = verify(files["evidence"])
    assert moved.exit_code == 0
    assert "the policy's file is not at hand, and its text was not compared" in moved.stderr
    files["policy"].write_text(POLICY)


def test_evidence_of_the_common_items_holds(files: dict[str, Path], tmp_path: Path) -> None:
    cut = load_snapshot(files["kept"]).head(500)
    save_snapshot(cut, tmp_path / "cut.parquet")
    options = ("--policy", files["policy"], "--evidence", files["evidence"], "--on-mismatch", "intersect")
    assert run(files["base"], tmp_path / "cut.parquet", *options).exit_code == 0
    assert verify(files["evidence"]).exit_code == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": "forgetwatch/evidence@1"}', "null"])
def test_damaged_evidence_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.json"
    path.write_text(text)
    done = verify(path)
    assert done.exit_code == 1
    assert "needed evidence that forgetwatch gate wrote" in str(done.exception)


def test_snapshots_that_are_gone_are_asked_for(files: dict[str, Path]) -> None:
    run(files["base"], files["kept"], "--policy", files["policy"], "--evidence", files["evidence"])
    moved = files["kept"].rename(files["kept"].with_name("moved.parquet"))
    done = verify(files["evidence"])
    assert "name where it is now with --before or --after" in str(done.exception)
    assert verify(files["evidence"], "--after", moved).exit_code == 0


def test_a_comment_is_updated_in_place(files: dict[str, Path]) -> None:
    files["comment"].write_text("Above.\n")
    options = ("--policy", files["policy"], "--comment", files["comment"])
    run(files["base"], files["lost"], *options)
    first = files["comment"].read_text()
    assert first.startswith("Above.\n\n<!-- forgetwatch policy: release -->\n### forgetwatch: policy release FAILED")
    assert "<details><summary>10 of " in first
    files["comment"].write_text(first + "Below.\n")
    run(files["base"], files["kept"], *options)
    second = files["comment"].read_text()
    assert second.count("<!-- forgetwatch policy: release -->") == 1
    assert "PASSED" in second
    assert "FAILED" not in second
    assert (second.startswith("Above."), second.endswith("Below.\n")) == (True, True)
    assert put_comment(second, first.removeprefix("Above.\n\n")) == first + "Below.\n"


def test_steps_of_a_workflow_are_annotated(files: dict[str, Path], tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = run(
        files["base"],
        files["lost"],
        "--policy",
        files["policy"],
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    (line, *_) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert line.startswith("::error title=forgetwatch release::all accuracy -")
    assert "%25" not in line.split("::")[1]
    assert "policy release FAILED" in summary.read_text()
