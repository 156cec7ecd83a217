"""The gates of `forgetwatch compare` as a pipeline meets them: exit status, one line, the summary."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from commands import Run


@pytest.fixture
def run(command: Run) -> Run:
    return partial(command, "compare")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Math loses 2 of 2, Art wins 1 of 2; `none` does not score item d."""
    header = "item_id,correct,category,task\n"
    (tmp_path / "base.csv").write_text(header + "a,1,Math,x\nb,1,Math,y\nc,0,Art,x\nd,1,Art,y\n")
    (tmp_path / "new.csv").write_text(header + "a,0,Math,x\nb,0,Math,y\nc,1,Art,x\nd,1,Art,y\n")
    (tmp_path / "none.csv").write_text(header + "a,1,Math,x\nb,1,Math,y\nc,0,Art,x\nd,,Art,y\n")


@pytest.mark.parametrize(
    ("conditions", "status", "says"),
    [
        (["all.forgetting>=0.5"], 3, "gate FAIL: all.forgetting 0.5 (fails if >=0.5)\n"),
        (["all.forgetting>=0"], 3, "gate FAIL: all.forgetting 0.5 (fails if >=0, as every value is)\n"),
        (["forgetting>0.5"], 0, ""),
        (
            ["forgetting>0.5", "category:Math.forgotten>=1"],
            3,
            "gate FAIL: category:Math.forgotten 2 (fails if >=1)\n",
        ),
        (["known_lost>0"], 1, "has no number"),
        (["known_lost_net>=0"], 1, "has no number"),
        (["log_score_change_calibrated<0"], 1, "has no number"),
        (["forgetting>5"], 1, "the gate would never fail"),
        (["forgotten>5%"], 1, "is a count, not a share"),
        (["all.speed>0"], 1, "is not a quantity"),
        (["category:Physics.forgetting>0"], 1, "no such group"),
        (["n>=0"], 3, "(fails if >=0, as every value is)"),
        (["forgetting>-5%"], 1, "the gate would always fail"),
        (["nonsense"], 1, "needed"),
    ],
)
def test_a_condition_decides_the_exit_status(run: Run, conditions: list[str], status: int, says: str) -> None:
    done = run("base.csv", "new.csv", *(part for one in conditions for part in ("--fail-if", one)))
    assert done.status == status
    assert says in done.stderr
    assert done.stderr.count("\n") == (status != 0)


def outcomes(name: str, right: list[int]) -> str:
    Path(name).write_text("item_id,correct\n" + "".join(f"{i},{one}\n" for i, one in enumerate(right)))
    return name


@pytest.mark.parametrize(
    ("lost", "won", "status", "says"),
    [
        (0, 0, 0, "gate PASS: all.net_change_estimate +0.0 points ("),
        (80, 0, 3, "gate FAIL: all.net_change_estimate -8.0 points (-9.7 to -6.3) (no worse than -2 points)"),
        (40, 30, 4, "gate INCONCLUSIVE: all.net_change_estimate -1.0 points (-2.6 to +0.6) (no worse than -2 points)"),
    ],
)
@pytest.mark.parametrize("way", ["option", "file"])
def test_no_worse_than_decides_by_the_interval(run: Run, way: str, lost: int, won: int, status: int, says: str) -> None:
    before = outcomes("b.csv", [1] * 500 + [0] * 500)
    after = outcomes("a.csv", [0] * lost + [1] * (500 - lost) + [1] * won + [0] * (500 - won))
    Path("gate.yaml").write_text("tolerance: 2%")
    asked = ["--no-worse-than", "2%"] if way == "option" else ["--gate", "gate.yaml"]
    done = run(before, after, *asked)
    assert done.status == status
    assert says in (done.stderr if status else done.stdout)


def test_the_first_line_is_the_answer_of_the_gate_and_names_other_losses(run: Run, tmp_path: Path) -> None:
    """A category that fell by 40 points is named, though the gate asks about accuracy alone."""
    header = "item_id,correct,category,gold,k\n"
    rows = [(n, "Math" if n < 200 else "Art") for n in range(400)]
    for name, wrong in (("b.csv", range(200, 280)), ("a.csv", range(80))):
        text = "".join(f"{n},{int(n not in wrong)},{category},0,4\n" for n, category in rows)
        (tmp_path / name).write_text(header + text)
    passed = run("b.csv", "a.csv", "--no-worse-than", "10%").stdout.splitlines()
    assert passed[1].startswith("KEPT          gate: accuracy +0.0 points (")
    assert "not asked for: Math fell by " in " ".join(" ".join(passed[1:4]).split())
    failed = run("b.csv", "a.csv", "--no-worse-than", "10%,category=5%").stdout.splitlines()
    assert failed[1].startswith("FORGOT        gate: category Math -40.0 points (")
    assert "not asked for" not in " ".join(failed)
    assert run("b.csv", "a.csv").stdout.splitlines()[1].startswith("FORGOT ")
    undecided = run("base.csv", "none.csv", "--no-worse-than", "10%").stdout.splitlines()
    assert undecided[1].startswith("NOT CLEAR     gate: accuracy ")


def test_options_and_file_are_one_gate_and_one_line(run: Run) -> None:
    Path("gate.yaml").write_text(
        "groups: {category:Math: {fail_if: [forgotten>1]}, category:Art: {fail_if: [forgotten>1]}}\nmust_pass: [a, d]"
    )
    done = run("base.csv", "new.csv", "--gate", "gate.yaml", "--fail-if", "gained>0", "--no-worse-than", "2%")
    assert done.status == 3
    assert done.stderr.startswith(
        "gate FAIL: category:Math.forgotten 2 (fails if >1); gained 1 (fails if >0); "
        "must_pass 1 of 2 right; wrong: a (each right in every answer); inconclusive: "
        "all.net_change_estimate -25.0 points ("
    )
    assert done.stderr.count("\n") == 1


def test_of_several_afters_each_is_judged_and_the_worst_counts(run: Run) -> None:
    Path("gate.yaml").write_text("fail_if: [forgotten>0]\nmust_pass: [d]")
    done = run("base.csv", "base.csv", "new.csv", "none.csv", "--gate", "gate.yaml", "--json", "o.json")
    assert done.status == 3
    assert Path("o.json").is_file()
    assert "gate PASS: forgotten 0 (fails if >0); must_pass 1 of 1 right" in done.stdout
    assert "(base -> base)" in done.stdout
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["gate FAIL", "gate INCONCLUSIVE"]
    assert "(base -> none)" in done.stderr
    assert run("base.csv", "base.csv", "none.csv", "--gate", "gate.yaml").status == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tolerence: 2%", "unknown key 'tolerence'"),
        ("groups: {category:Physics: {tolerance: 2%}}", "no group 'category:Physics'"),
        ("fail_if: [chance.paper.forgetting>0]", "has no number"),
        ("must_pass: [z]", "item 'z' is not among the items"),
        ("must_pass: true", "name it with --probe"),
        ("fail_if: [n>9]\nsubset: {tasks: [z]}", "no task 'z'"),
        ("fail_if: [n>9]\nsubset: {items: ids.txt}", "no item_id 'z'"),
        ("fail_if: [n>9]\nsubset: {tasks: [x], items: other.txt}", "no item meets all"),
        ("a: [", "needed a gate in YAML, and it is not YAML"),
        (None, "no such file; needed a gate in YAML"),
    ],
)
def test_what_is_no_gate_is_one_line_and_exit_status_one(run: Run, text: str | None, says: str) -> None:
    Path("ids.txt").write_text("a\nz\n")
    Path("other.txt").write_text("b\n")
    if text is not None:
        Path("gate.yaml").write_text(text)
    done = run("base.csv", "new.csv", "--gate", "gate.yaml")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert says in done.stderr


def test_a_subset_is_what_is_compared_and_items_that_must_be_right_may_lie_outside(run: Run) -> None:
    Path("ids.txt").write_text("c\nd\na\n")
    Path("gate.yaml").write_text(
        "fail_if: [n<2, n>2]\nmust_pass: [d]\nsubset: {categories: [Art, Math], tasks: [x], items: ids.txt}"
    )
    done = run("base.csv", "new.csv", "--gate", "gate.yaml", "--null", "base.csv")
    assert done.status == 0
    assert "2 items" in done.stdout
    assert "must_pass 1 of 1 right" in done.stdout


def test_the_probe_says_which_items_must_be_right(run: Run) -> None:
    item = '{"id": "%s", "task": "%s", "prompt": "?", "choices": [" u", " v"], "answer": 0, "must_pass": true}\n'
    Path("p.jsonl").write_text(item % ("a", "x") + item % ("d", "y"))
    Path("gate.yaml").write_text("must_pass: true")
    done = run("base.csv", "new.csv", "--gate", "gate.yaml", "--probe", "p.jsonl")
    assert (done.status, "1 of 2 right; wrong: a" in done.stderr) == (3, True)


MARKED = "\n<!-- forgetwatch -->\n"


def test_the_summary_is_written_and_appended_where_the_pipeline_says(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    Path("step.md").write_text("before\n")
    assert run("base.csv", "new.csv", "--fail-if", "forgotten>1", "--summary", "s.md").status == 3
    text = Path("s.md").read_text()
    assert text.startswith("## forgetwatch: FORGOT\n")
    assert Path("step.md").read_text() == f"before\n{text.removesuffix(MARKED)}"
    assert run("base.csv", "base.csv", "--fail-if", "forgotten>1").status == 0
    assert Path("step.md").read_text().count("## forgetwatch: KEPT") == 1
    run("base.csv", "new.csv")
    assert Path("step.md").read_text().count("## forgetwatch") == 2  # no gate, no summary


def test_a_summary_that_cannot_be_written_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("base.csv", "new.csv", "--summary", "s.md").status == 2
    assert run("base.csv", "new.csv", "--fail-if", "n>1", "--summary", "nowhere/s.md").status == 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/step.md")
    done = run("base.csv", "base.csv", "--fail-if", "n>9")
    assert (done.status, "GITHUB_STEP_SUMMARY" in done.stderr) == (1, True)


def test_json_on_stdout_stays_json(run: Run) -> None:
    done = run("base.csv", "base.csv", "--fail-if", "forgotten>1", "--json", "-")
    assert (done.status, done.stdout[0], done.stdout[-2:]) == (0, "{", "}\n")
    assert done.stderr == "gate PASS: forgotten 0 (fails if >1)\n"


def test_the_report_takes_the_tolerance_of_the_gate(run: Run) -> None:
    Path("gate.yaml").write_text("tolerance: 30%")
    run("base.csv", "base.csv", "--gate", "gate.yaml", "-o", "r.md")
    assert "(limit 30)" in Path("r.md").read_text()
    run("base.csv", "base.csv", "--gate", "gate.yaml", "--tolerance", "7%", "-o", "r.md")
    assert "(limit 7)" in Path("r.md").read_text()
    run("base.csv", "base.csv", "-o", "r.md")
    assert "(limit 2)" in Path("r.md").read_text()
