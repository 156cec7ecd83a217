"""`forgetwatch gate`: a policy's answer, its JSON, and a comment that is updated."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import decided, snapshot
from typer.testing import CliRunner

from forgetwatch import load_snapshot
from forgetwatch.cli import app, gate
from forgetwatch.policy.policy import load_policy
from forgetwatch.report.comment import put_comment
from forgetwatch.snapshot import save_snapshot

POLICY = """policy: release
critical: [{of: all, accuracy: 2%}]
supporting: {unclear: all, limits: [{of: "category:*", accuracy: 5%}]}
"""


def run(*arguments: object, **environment: str) -> Any:
    return CliRunner().invoke(
        app, ["gate", *map(str, arguments)], env={"GITHUB_STEP_SUMMARY": "", **environment}
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    before = rng.normal(1.0, 2.0, 600)
    margins = {
        "base": before,
        "kept": before + rng.normal(0, 0.01, 600),
        "lost": before - rng.exponential(2.0, 600),
    }
    names = {"item_id": [str(n) for n in range(600)], "content_hash": [f"h{n}" for n in range(600)]}
    for name, margin in margins.items():
        scores = np.stack([margin, np.zeros(600), np.full(600, -5.0)], axis=1) - 3
        made = decided(
            scores, meta={"model": name}, category=[f"c{n % 3}" for n in range(600)], **names
        )
        save_snapshot(made, tmp_path / f"{name}.parquet")
    (tmp_path / "policy.yaml").write_text(POLICY)
    return {
        **{name: tmp_path / f"{name}.parquet" for name in margins},
        **{"policy": tmp_path / "policy.yaml", "comment": tmp_path / "c.md"},
    }


def test_the_exit_status_is_the_answer(files: dict[str, Path], tmp_path: Path) -> None:
    done = run(files["base"], files["kept"], "--policy", files["policy"])
    assert done.exit_code == 0, done.output
    assert "gate PASS: policy release; limits that hold: 4" in " ".join(done.stdout.split())
    assert done.stdout.startswith("KEPT       ")
    failed = run(
        files["base"], files["lost"], "--policy", files["policy"], "--json", tmp_path / "j.json"
    )
    assert failed.exit_code == 3
    assert failed.stdout.startswith("FORGOT     ")
    assert "\ngate       FAIL: policy release" in failed.stdout
    document = json.loads((tmp_path / "j.json").read_text())
    assert (document["word"], document["answer"], document["limits"]) == ("FORGOT", "FAIL", 4)
    assert {one["answer"] for one in document["rulings"]} >= {"FAIL"}
    assert document["sides"]["after"]["checksum"] == load_snapshot(files["lost"]).checksum
    assert document["policy_sha256"] == load_policy(str(files["policy"])).checksum
    shown = json.loads(
        run(files["base"], files["lost"], "--policy", files["policy"], "--json", "-").stdout
    )
    assert shown["answer"] == "FAIL"
    missing = tmp_path / "missing.yaml"
    missing.write_text("critical: [{metric: eval_accuracy, gain: 2%}]")
    assert run(files["base"], files["kept"], "--policy", missing).exit_code == 4
    assert (
        run(
            files["base"], files["kept"], "--policy", missing, "--value", "eval_accuracy=0.5,0.6"
        ).exit_code
        == 0
    )


def test_what_cannot_be_judged_is_one_sentence(files: dict[str, Path]) -> None:
    unknown = run(files["base"], files["kept"], "--policy", "fine-tun")
    assert "did you mean 'fine-tune'" in str(unknown.exception)
    for arguments, says in (
        ((files["base"],), "needed BEFORE and AFTER, or --verify FILE"),
        ((files["base"], files["kept"], "--value", "x"), "--value: needed NAME=BEFORE,AFTER"),
        ((files["base"], files["kept"], "--value", "x=61,62"), "as shares from 0 to 1"),
        ((files["base"], files["kept"], "--value", "x=.1,.2"), "the policy has no metric 'x'"),
        ((files["base"], files["kept"], "--fail-if", "forgetting 5"), "--fail-if: "),
        ((files["base"], files["kept"], "--no-worse-than", "many"), "--no-worse-than: "),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert says in " ".join(done.output.replace("│", " ").split())


def test_no_file_of_the_user_is_overwritten(files: dict[str, Path], tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"a": 1}')
    done = run(files["base"], files["kept"], "--policy", files["policy"], "--json", mine)
    assert "there is a file that is not a JSON document of forgetwatch" in str(done.exception)
    assert mine.read_text() == '{"a": 1}'
    again = ("--policy", files["policy"], "--json", tmp_path / "answer.json")
    assert [run(files["base"], files["kept"], *again).exit_code for _ in range(2)] == [0, 0]


def test_an_answer_is_computed_again_and_what_changed_is_named(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    answer = tmp_path / "answer.json"
    limits = ("--policy", files["policy"], "--fail-if", "newly_unscored>9", "--json", answer)
    assert run(files["base"], files["lost"], *limits).exit_code == 3
    again = run("--verify", answer)
    assert str(tmp_path) not in answer.read_text()
    document = json.loads(answer.read_text())
    assert document["call"]["before"] == f"~/{files['base'].relative_to(tmp_path)}"
    day = document["day"]
    told = f"{answer}: FAIL on {day} again, 5 limits and all checksums are the same; FAIL today\n"
    assert (again.exit_code, again.stdout) == (3, told)
    answer.write_text(json.dumps({**document, "answer": "PASS"}))
    forged = run("--verify", answer)
    assert "the answer was PASS and is FAIL now; not as stored: answer" in str(forged.exception)
    answer.write_text(json.dumps(document))
    files["policy"].write_text(POLICY.replace("2%", "3%"))
    changed = run("--verify", answer)
    assert "not as stored: policy_sha256 and rulings" in str(changed.exception)
    files["policy"].write_text(POLICY)
    files["lost"].write_bytes(files["kept"].read_bytes())
    assert "not as stored: sides" in str(run("--verify", answer).exception)
    answer.write_text(json.dumps({**document, "schema": "forgetwatch/gate@1"}))
    earlier = "its format is 'forgetwatch/gate@1', this version reads 'forgetwatch/gate@2'; run the gate again"
    assert earlier in str(run("--verify", answer).exception)
    answer.write_text('{"schema": "forgetwatch/gate@2"}')
    assert "needed an answer of gate --json" in str(run("--verify", answer).exception)
    answer.write_text(
        json.dumps({**document, "call": {**document["call"], "before": "someone/model"}})
    )
    assert "it names someone/model, which is not here, and --verify downloads no" in str(
        run("--verify", answer).exception
    )


def test_an_answer_of_an_earlier_day_has_that_of_today_beside_it(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2026, 1, 1, tzinfo=tz)

    answer = tmp_path / "answer.json"
    limits = "critical: [{of: all, accuracy: 2%}, {of: all, known: 90%}]"
    files["policy"].write_text(
        f"{limits}\nexceptions: [{{of: all, reason: a known loss, until: 2026-01-31}}]"
    )
    given = (files["base"], files["lost"], "--policy", files["policy"], "--json", answer)
    with monkeypatch.context() as patch:
        patch.setattr(gate, "datetime", Then)
        assert run(*given).exit_code == 0  # the limit on accuracy is excused
    document = json.loads(answer.read_text())
    today = run("--verify", answer)
    assert today.exit_code == 3
    assert (
        "PASS on 2026-01-01 again, 2 limits and all checksums are the same; FAIL today"
        in today.stdout
    )
    for change, says in (
        ({"day": "2999-01-01"}, "its day 2999-01-01 has not come"),
        ({"more": 1}, "an answer of a gate has no key more"),
    ):
        answer.write_text(json.dumps({**document, **change}))
        assert says in str(run("--verify", answer).exception)
    answer.write_text(json.dumps(document)[:-1] + ', "answer": "PASS"}')
    assert "the key 'answer' is in one object twice" in str(run("--verify", answer).exception)
    read = load_snapshot(files["lost"])
    save_snapshot(
        replace(read, meta={**read.meta, "time": "2026-02-01T00:00:00+00:00"}), files["lost"]
    )
    answer.write_text(json.dumps(document))
    assert "its day 2026-01-01 is before 2026-02-01, when a side was measured" in str(
        run("--verify", answer).exception
    )


def test_a_category_cannot_write_into_a_comment(files: dict[str, Path]) -> None:
    """A name that is a link, a picture and a heading, and that calls everyone."""
    name = "[click](https://evil.example) ![x](y)\n## heading @everyone"
    for side in ("base", "lost"):
        read = load_snapshot(files[side])
        table = read.table.set_column(
            read.table.schema.get_field_index("category"), "category", [[name] * len(read)]
        )
        save_snapshot(replace(read, table=table), files[side])
    run(files["base"], files["lost"], "--policy", files["policy"], "--comment", files["comment"])
    text = files["comment"].read_text()
    assert "everyone" in text
    assert not re.search(
        r"@everyone|^## heading|(?<!\\)\[click|(?<!\\)!\[x|!\[x\]\(", text, re.MULTILINE
    )


def test_items_of_a_subset_are_read_from_the_folder_of_the_policy(
    files: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("1\n\n 2 \n1\n")
    files["policy"].write_text("critical: [n<2, n>2]\nmust_pass: ['9']\nsubset: {items: ids.txt}")
    done = run(files["base"], files["kept"], "--policy", files["policy"])
    assert "FAIL must_pass 0 of 1 right; wrong: 9 " in " ".join(done.stdout.split())
    (tmp_path / "ids.txt").write_text("nope\n")
    assert "no item_id 'nope'" in str(
        run(files["base"], files["kept"], "--policy", files["policy"]).exception
    )


def test_a_comment_is_updated_in_place(files: dict[str, Path]) -> None:
    files["comment"].write_text("Above.\n")
    options = ("--policy", files["policy"], "--comment", files["comment"])
    run(files["base"], files["lost"], *options)
    first = files["comment"].read_text()
    assert first.startswith(
        "Above.\n\n<!-- forgetwatch policy: release -->\n### forgetwatch: FORGOT; policy release FAIL"
    )
    assert len(first.splitlines()) <= 2 + 12
    assert "<details>" not in first  # no probe names the questions
    files["comment"].write_text(first + "Below.\n")
    run(files["base"], files["kept"], *options)
    second = files["comment"].read_text()
    assert second.count("<!-- forgetwatch policy: release -->") == 1
    assert "KEPT; policy release PASS" in second
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
    assert "FORGOT; policy release FAIL" in summary.read_text()


def test_what_is_no_answer_or_no_figure_is_refused_in_one_sentence(
    files: dict[str, Path], tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    run(files["base"], files["kept"], "--json", answer)
    stored = json.loads(answer.read_text())
    assert (
        run("--verify", answer).exit_code
        == {"PASS": 0, "FAIL": 3, "INCONCLUSIVE": 4}[stored["answer"]]
    )
    for changed in (
        {name: value for name, value in stored.items() if name != "answer"},
        stored | {"call": stored["call"] | {"before": 5}},
        stored | {"call": stored["call"] | {"on_mismatch": "foo"}},
        stored | {"call": stored["call"] | {"value": ["foo"]}},
    ):
        answer.write_text(json.dumps(changed))
        assert "needed an answer of gate --json" in str(run("--verify", answer).exception)
    answer.write_text("[" * 100_000)
    assert "needed an answer of gate --json" in str(run("--verify", answer).exception)
    assert run("--verify", answer, files["base"], files["kept"]).exit_code == 2
    assert run(files["base"], files["kept"], "--value", "acc=0.5,nan").exit_code == 2


def test_options_beside_a_policy_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    both, path = ("--policy", files["policy"], "--fail-if", "forgotten>599"), tmp_path / "j.json"
    run(files["base"], files["kept"], *both, "--json", path)
    document = json.loads(path.read_text())
    assert (document["policy"], document["rulings"][-1]["what"]) == (
        "release and options",
        "all forgotten",
    )


def test_a_second_measurement_makes_a_loss_of_right_answers_sure(tmp_path: Path) -> None:
    """Answers without scores: their loss is sure only beyond the flips of noise, and one file is no second one."""
    rng = np.random.default_rng(1)
    right = rng.random(600) < 0.7
    sides = {
        "base": (right, "org/base"),
        "again": (right, "org/base"),
        "lost": (right & (rng.random(600) < 0.8), "org/tuned"),
        "other": (right, "org/other"),
    }
    for name, (values, model) in sides.items():
        meta = {"model": model, "tool": "t", "chat_template_sha": None, "date": name}
        meta["chat_template_sha"] = "x" if name == "lost" else None
        outputs = [f"a{row}" if value else f"w{row % 7}" for row, value in enumerate(values)]
        made = snapshot(values.tolist(), meta=meta, output=outputs)
        save_snapshot(made, tmp_path / f"{name}.parquet")
    base, lost, again, other = (
        tmp_path / f"{name}.parquet" for name in ("base", "lost", "again", "other")
    )
    alone = run(base, lost, "--no-worse-than", "50%,known=5%", "--detail")
    assert "beyond the limit, unless by guessing or noise" in " ".join(alone.stdout.split())
    assert "a chat template was used after only" in alone.stdout
    sure = run(base, lost, "--no-worse-than", "50%,known=5%", "--repeat", again)
    assert sure.exit_code == 3
    for path, says in (
        (base, "got the first one"),
        (other, "the second measurement is of org/other"),
    ):
        refused = run(base, lost, "--repeat", path)
        assert says in str(refused.exception)


def test_a_limit_of_accuracy_that_is_open_says_how_many_questions_would_decide(
    tmp_path: Path,
) -> None:
    """As many times the questions as the half width is of the distance to the limit, squared."""
    for name, lost in (("base", 0), ("new", 60)):
        right = [row >= lost for row in range(600)]
        right[560:] = [name == "new"] * 40
        save_snapshot(snapshot(right), tmp_path / f"{name}.parquet")
    done = run(tmp_path / "base.parquet", tmp_path / "new.parquet", "--no-worse-than", "2%")
    said = " ".join(done.stdout.split())
    (change, low, high) = map(
        float, re.findall(r"accuracy (-[\d.]+) points \((-[\d.]+) to ([+-][\d.]+)\)", said)[0]
    )
    (number,) = re.findall(r"about ([\d,]+) such questions would decide", said)
    wanted = 600 * ((high - low) / 2 / (change + 2)) ** 2
    assert int(number.replace(",", "")) == pytest.approx(wanted, rel=0.1)
