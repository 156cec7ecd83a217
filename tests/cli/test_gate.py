"""Limits of `forgetwatch compare` as a pipeline meets them: exit status, one line, the summary of a step."""

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
        (["all.forgetting>=0"], 3, "gate FAIL: all forgetting 0.5 (0.15"),
        (["forgetting>0.9"], 0, ""),
        (["forgetting>0.5"], 4, "gate INCONCLUSIVE: all forgetting 0.5 (0.15"),
        (
            ["gained>1", "category:Math.forgotten>=1"],
            3,
            "gate FAIL: category:Math forgotten 2 (fails if >=1): beyond the limit; exit status 3\n",
        ),
        (["known_lost>0"], 1, "has no number"),
        (["known_lost_net>=0"], 1, "has no number"),
        (["log_score_change<0"], 1, "has no number"),
        (["forgetting>5"], 2, "the gate would never fail"),
        (["forgotten>5%"], 2, "is a count, not a share"),
        (["all.speed>0"], 2, "is not a quantity"),
        (["category:Physics.forgetting>0"], 1, "no such group"),
        (
            ["category:*.forgetting>90%"],
            4,
            "category:Art forgetting 0 % (0 to 100) (fails if >90%): not clear",
        ),
        (
            ["category:*.forgotten>=1"],
            3,
            "gate FAIL: category:Math forgotten 2 (fails if >=1): beyond the limit",
        ),
        (["n>=0"], 3, "(fails if >=0, as every value is)"),
        (["forgetting>-5%"], 2, "the gate would always fail"),
        (["nonsense"], 2, "needed"),
    ],
)
def test_a_condition_decides_the_exit_status(
    run: Run, conditions: list[str], status: int, says: str
) -> None:
    done = run("base.csv", "new.csv", *(part for one in conditions for part in ("--fail-if", one)))
    assert done.status == status
    assert says in done.stderr
    assert done.stderr.count("\n") == (status != 0)
    if status in (1, 2):  # before the work
        assert done.stdout == ""


def outcomes(name: str, right: list[int]) -> str:
    Path(name).write_text(
        "item_id,correct\n" + "".join(f"{i},{one}\n" for i, one in enumerate(right))
    )
    return name


@pytest.mark.parametrize(
    ("lost", "won", "status", "says"),
    [
        (0, 0, 0, "gate PASS: "),
        (80, 0, 3, "gate FAIL: all accuracy -8.0 points (-9.7 to -6.3) (no worse than -2 points)"),
        (
            40,
            30,
            4,
            "gate INCONCLUSIVE: all accuracy -1.0 points (-2.6 to +0.6); about 2,800 such questions would decide, "
            "if the change stays (no worse than -2 points)",
        ),
    ],
)
@pytest.mark.parametrize("way", ["option", "file"])
def test_no_worse_than_is_a_policy_of_one_limit(
    run: Run, command: Run, way: str, lost: int, won: int, status: int, says: str
) -> None:
    before = outcomes("b.csv", [1] * 500 + [0] * 500)
    after = outcomes("a.csv", [0] * lost + [1] * (500 - lost) + [1] * won + [0] * (500 - won))
    Path("p.yaml").write_text("critical: [{accuracy: 2%}]")
    if way == "option":
        done = run(before, after, "--no-worse-than", "2%")
        assert says in (done.stderr if status else done.stdout)
    else:
        done = command("gate", before, after, "--policy", "p.yaml")
        assert says.partition("all accuracy ")[2].partition(" (no")[0] in " ".join(
            done.stdout.split()
        )
    assert done.status == status


def test_the_first_line_is_the_verdict_and_a_gate_has_a_line_of_its_own(
    run: Run, tmp_path: Path
) -> None:
    """A category fell by 40 points, and the first limit is about accuracy alone."""
    header = "item_id,correct,category,gold,k\n"
    rows = [(n, "Math" if n < 200 else "Art") for n in range(400)]
    for name, wrong in (("b.csv", range(200, 280)), ("a.csv", range(80))):
        text = "".join(f"{n},{int(n not in wrong)},{category},0,4\n" for n, category in rows)
        (tmp_path / name).write_text(header + text)
    passed = run("b.csv", "a.csv", "--no-worse-than", "10%").stdout.splitlines()
    assert passed[0].startswith("FORGOT     a against b: Math fell by about 40 points (")
    assert any(line.startswith("gate       PASS: policy ") for line in passed)
    failed = run("b.csv", "a.csv", "--no-worse-than", "10%,category=5%").stdout.splitlines()
    assert failed[0] == passed[0]
    assert any(line.startswith("gate       FAIL: category Math -40.0 points (") for line in failed)
    assert run("b.csv", "a.csv").stdout.splitlines()[0] == passed[0]
    undecided = run("base.csv", "none.csv", "--no-worse-than", "10%").stdout.splitlines()
    assert any(line.startswith("gate       INCONCLUSIVE: accuracy ") for line in undecided)


def test_of_several_afters_each_is_judged_and_the_worst_counts(run: Run) -> None:
    limits = ["--fail-if", "forgotten>0", "--fail-if", "newly_unscored>0"]
    done = run("base.csv", "base.csv", "new.csv", "none.csv", *limits, "--json", "o.json")
    assert done.status == 3
    assert Path("o.json").is_file()
    assert (
        "gate PASS: all forgotten 0 (fails if >0): within the limit; all newly_unscored 0"
        in done.stdout
    )
    assert "(base -> base)" in done.stdout
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["gate FAIL", "gate FAIL"]
    assert "(base -> none)" in done.stderr


def test_a_step_of_a_workflow_has_the_answer_in_its_summary(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    Path("step.md").write_text("before\n")
    assert run("base.csv", "new.csv", "--fail-if", "forgotten>1").status == 3
    text = Path("step.md").read_text()
    assert text.startswith(
        "before\n\n<!-- forgetwatch policy: options -->\n### forgetwatch: NOT CLEAR; policy options FAIL"
    )
    assert run("base.csv", "base.csv", "--fail-if", "forgotten>1").status == 0
    assert Path("step.md").read_text().count("policy options PASS") == 1
    run("base.csv", "new.csv")
    assert Path("step.md").read_text().count("### forgetwatch") == 2  # no limit, no summary
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/step.md")
    done = run("base.csv", "base.csv", "--fail-if", "n>9")
    assert (done.status, "GITHUB_STEP_SUMMARY" in done.stderr) == (1, True)


def test_json_on_stdout_stays_json(run: Run) -> None:
    done = run("base.csv", "base.csv", "--fail-if", "forgotten>1", "--json", "-")
    assert (done.status, done.stdout[0], done.stdout[-2:]) == (0, "{", "}\n")
    assert (
        done.stderr == "gate PASS: all forgotten 0 (fails if >1): within the limit; exit status 0\n"
    )


def test_the_report_takes_the_tolerance_and_no_limit(run: Run) -> None:
    run("base.csv", "base.csv", "--no-worse-than", "30%", "-o", "r.md")
    assert "(limit 2)" in Path("r.md").read_text()
    run("base.csv", "base.csv", "--no-worse-than", "30%", "--tolerance", "7%", "-o", "r.md")
    assert "(limit 7)" in Path("r.md").read_text()
    run("base.csv", "base.csv", "-o", "r.md")
    assert "(limit 2)" in Path("r.md").read_text()
