"""The demo, run as a whole: it trains, forgets, and its files agree with its output."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tutorial
from datasets import Dataset
from support import model, tokenizer

from forgetwatch import Trajectory, load_probe, save_snapshot, score
from forgetwatch.comparing.verdict import estimated
from forgetwatch.demo import LOOK_EVERY, TAUGHT, TUNE_STEPS, run_demo
from forgetwatch.errors import ForgetwatchError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("demo")
    command = [
        sys.executable,
        "-m",
        "forgetwatch",
        "demo",
        "--output",
        "out",
        "--report-to",
        "wandb",
    ]
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    done = subprocess.run(
        command, cwd=path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return path / "out", done.stdout


def test_the_curve_has_every_look_and_every_item(demo: tuple[Path, str]) -> None:
    trajectory = Trajectory.from_run(demo[0] / "run" / "_forgetwatch")
    assert trajectory.steps == tuple(range(0, TUNE_STEPS + 1, LOOK_EVERY))
    assert {comparison.items.compared for comparison in trajectory.comparisons} == {360}


def test_facts_are_swapped_while_the_average_moves_little(demo: tuple[Path, str]) -> None:
    last = Trajectory.from_run(demo[0] / "run" / "_forgetwatch").comparisons[-1]
    whole = last.all
    assert 0.6 <= whole.accuracy_before <= 0.8
    assert whole.forgotten >= 30
    assert whole.gained >= 30
    assert abs(whole.net_change) < min(whole.forgetting, whole.backward_transfer) / 2
    taught = sum(last.by("category")[name].gained for name in TAUGHT)
    assert taught > whole.gained / 2


def test_the_table_shows_the_counts_of_the_files(demo: tuple[Path, str]) -> None:
    folder = demo[0] / "run" / "_forgetwatch"
    before = pq.read_table(folder / "baseline.parquet")["correct"].to_pylist()
    after = pq.read_table(folder / f"step-{TUNE_STEPS:06d}.parquet")["correct"].to_pylist()
    lost = sum(a and not b for a, b in zip(before, after, strict=True))
    won = sum(b and not a for a, b in zip(before, after, strict=True))
    assert re.search(
        rf"^answers +{lost} of all 360 lost, {won} gained, ", demo[1], flags=re.MULTILINE
    )


def test_the_readme_shows_the_table_that_is_printed(demo: tuple[Path, str]) -> None:
    """Its rows and words are exact; counts may differ by a few between processors."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(FORGOT     run.+?)```", readme, re.DOTALL)
    assert shown is not None
    printed = demo[1][demo[1].index("FORGOT     run") : demo[1].index("report: ")]
    printed = printed.replace("out/run", "forgetwatch-demo/run")
    printed, page = (
        re.sub(r"\n +", " ", text) for text in (printed, shown[1])
    )  # the page wraps its rows
    assert words(of_one_category(printed)) == words(of_one_category(page))
    ours, theirs = counts(printed), counts(page)
    assert len(ours) == len(theirs) >= 5
    assert all(abs(our - their) <= 8 for our, their in zip(ours, theirs, strict=True)), (
        ours,
        theirs,
    )


NUMBER = r"[+-]?\d*\.?\d+"
TESTED = ("first-run.md", "README.md", "index.md")
"""Pages whose numbers of the demo other tests compare."""


def claims(run: Trajectory) -> dict[str, list[tuple[str, list[float]]]]:
    """Sentences of the pages with a place for each number of the demo, and the numbers that it has today, by page."""
    last = run.comparisons[-1]
    whole, chance = last.all, last.all.chance
    known, lost, luck = whole["known"], whole["known_lost"], whole["known_by_luck"]
    raised = {one.group.name: one for one in run.alarms()}
    assert chance.paper is not None
    assert chance.guess_corrected is not None
    shares = [
        100 * one
        for one in (whole.forgetting, chance.paper.forgetting, chance.guess_corrected.forgetting)
    ]
    change, (low, high) = estimated(whole)
    again = whole["null_lost"] + whole["null_gained"]
    net = [known, luck, known - luck, lost, whole["known_lost_by_luck"], whole["known_lost_net"]]
    steps = [float(raised[name].step) for name in ("History", "all", "Geography")]
    return {
        "mass.md": [("less likely, by # nats", [-whole["log_mass_change"]])],
        "chance.md": [
            ("Of the # % of the demo that were forgotten, the corrections leave # and # %", shares)
        ],
        "net-change.md": [
            ("accuracy of the demo is # % before and after", [100 * whole.accuracy_after])
        ],
        "noise.md": [("In the demo # of # answers change", [again, whole["null_n"]])],
        "alarms.md": [
            (
                "the alarm of History in the demo is of # points of",
                [-100 * estimated(raised["History"].group)[0]],
            ),
            (
                "History alarms at step # of the demo, what it clearly knew at step #, Geography at step #",
                steps,
            ),
        ],
        "words.md": [
            ("# points in the demo |", [100 * whole.net_change]),
            (": # points in the demo. The verdict", [100 * change]),
            ("(# to #) | 95 % interval", [100 * low, 100 * high]),
            (
                "in the demo # answers were confident and right, # of them by luck, which leaves # known; # of the "
                + rf"{NUMBER} are now wrong, # of them by luck, which leaves # lost",
                net,
            ),
        ],
        "known-items.md": [
            ("of # clearly known answers that were lost are lost in every wording", [lost])
        ],
        "gates.md": [
            (
                r"ALARM: History -# points \(step #\)",
                [100 * -estimated(raised["History"].group)[0], 75.0],
            )
        ],
        "wandb.md": [("# of about # questions that the model clearly knew", [net[5], net[2]])],
        "two-logs.md": [
            (
                "net change of all questions | # points | # to # |",
                [100 * change, 100 * low, 100 * high],
            )
        ],
        "training.md": [],
        "stages.md": [],
        "versions.md": [],
        "replay.md": [],
        "why.md": [],
    }


def test_the_pages_state_the_numbers_of_the_demo(demo: tuple[Path, str]) -> None:
    """Those of another processor differ a little; a page that says more of the demo needs its claim here."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(FORGOT     run.+?)next ", readme, re.DOTALL)
    printed = demo[1][demo[1].index("FORGOT     run") : demo[1].index("next ")]
    is_same = shown is not None and counts(printed) == counts(shown[1])
    run = Trajectory.from_run(demo[0] / "run")
    found = claims(run)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = " ".join(page.read_text(encoding="utf-8").split())
        if page.name not in TESTED and re.search(
            rf"[^.]*\b(?:in|of) the demo\b[^.]*{NUMBER}", text
        ):
            assert page.name in found, page
        for sentence, numbers in found.get(page.name, ()):
            pattern = (
                re.sub(r"(?<!\\)([()|])", r"\\\1", sentence) if "\\" not in sentence else sentence
            )
            stated = re.search(pattern.replace("#", f"({NUMBER})"), text)
            assert stated is not None, (page.name, sentence)
            for ours, theirs in zip(stated.groups(), numbers, strict=True):
                digits = len(ours.partition(".")[2])
                near = (
                    pytest.approx(theirs, abs=0.51 * 10**-digits)
                    if is_same
                    else pytest.approx(theirs, rel=0.2, abs=8)
                )
                assert float(ours) == near, (page.name, sentence, theirs)


EXAMPLES = sorted((ROOT / "docs" / "measures").glob("*.md"))


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_example_of_a_measure_prints_what_its_page_shows(
    page: Path,
    demo: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = page.read_text(encoding="utf-8")
    assert all(f"\n## {part}\n" in text for part in ("Formula", "Where it errs", "Example"))
    for code, shown in re.findall(r"```python\n(.+?)```\n+```text\n(.+?)```", text, re.DOTALL):
        run_block(code, demo, tmp_path, monkeypatch, {})
        printed = re.split(r"[\s\[\],]+", capsys.readouterr().out)
        expected = re.split(r"[\s\[\],]+", shown)
        assert len(printed) == len(expected)
        for our, their in zip(printed, expected, strict=True):
            if re.fullmatch(r"[+-]?[\d.]+", their):  # counts differ by a few between processors
                assert abs(float(our) - float(their)) <= (8 if abs(float(their)) > 1 else 0.3), (
                    our,
                    their,
                )
            else:
                assert our == their


def blocks_that_run() -> list[Any]:
    """The Python of README and docs/; not of measures, nor under a comment that says why it does not run."""
    found: dict[str, Any] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.parent.name == "measures":
            continue
        for number, block in enumerate(
            re.finditer(
                r"(<!-- not run: .+? -->\n)?```python\n(.+?)```", page.read_text("utf-8"), re.DOTALL
            )
        ):
            if not block[1]:
                found.setdefault(block[2], pytest.param(block[2], id=f"{page.stem}-{number}"))
    return [*found.values()]


@pytest.mark.full("logs-0", "training", reason="further examples, which train as the others do")
@pytest.mark.parametrize("code", blocks_that_run())
def test_the_python_of_the_pages_runs(
    code: str, demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer

    tok = tokenizer(
        words_of=[f"{item.prompt} {' '.join(item.choices)}" for item in load_probe("standard")]
    )
    for name in ("base", "step-2000", "release"):
        network = model(tok, seed=len(name), positions=1024)
        save_snapshot(
            score(network, tok, load_probe("quick").head(40)), tmp_path / f"{name}.parquet"
        )
    network.save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    questions = ["Capital of Chile?,Lima,Santiago,B", "Capital of Peru?,Lima,Santiago,A"]
    (tmp_path / "mine.csv").write_text("\n".join(["question,A,B,answer", *questions, ""]))
    rows = Dataset.from_list([{"text": "Q : A B C D"} for _ in range(8)])
    named = {
        "model": AutoModelForCausalLM.from_pretrained(tmp_path / "model"),
        "tokenizer": tok,
        "data": rows,
        "SFTTrainer": SFTTrainer,
    }
    named["args"] = SFTConfig(
        "out", max_steps=2, bf16=False, use_cpu=True, report_to="none", disable_tqdm=True
    )
    run_block(code, demo, tmp_path, monkeypatch, named)


def test_the_tutorial_shows_what_its_commands_print(demo: tuple[Path, str], tmp_path: Path) -> None:
    """The words are exact; counts may differ by a few between processors."""
    (tmp_path / "forgetwatch-demo").symlink_to(demo[0])
    page = tutorial.PAGE.read_text(encoding="utf-8")

    def run(commands: str) -> str:
        if "forgetwatch demo" in commands:
            return demo[1][demo[1].index("FORGOT     run") :].replace(
                "out/run", "forgetwatch-demo/run"
            )
        is_gate = "--no-worse-than" in commands or "--policy" in commands
        script = commands.replace("\nforgetwatch ", f"\n{sys.executable} -m forgetwatch ")
        script = re.sub(r"^forgetwatch ", f"{sys.executable} -m forgetwatch ", script)
        done = subprocess.run(
            script, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == (3 if is_gate else 0), done.stderr
        return done.stdout

    (table, flips, gate), (our_table, our_flips, our_gate) = (
        [found[3] for found in tutorial.SHOWN.findall(text)]
        for text in (page, tutorial.rewritten(page, run))
    )
    assert words(of_one_category(our_table)) == words(of_one_category(table))
    assert words(our_gate) == words(gate)
    release = tutorial.RELEASE.read_text(encoding="utf-8")
    assert words(tutorial.rewritten(release, run)) == words(release)
    # Another processor may forget another question first: each row of a question has the same label.
    labels = [[line.split()[0] for line in text.splitlines()[2:]] for text in (our_flips, flips)]
    assert labels[0] == labels[1] == ["right", "before", "after", "loss", "lost"]


@pytest.mark.full(reason="further examples, which train as the others do")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")
def test_the_notebook_runs_on_the_model_of_the_demo(
    demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = json.loads((ROOT / "examples" / "first_run.ipynb").read_text(encoding="utf-8"))["cells"]
    named: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    Path("forgetwatch-demo").symlink_to(demo[0])
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), named)
    assert "forgotten" in str(named["run"])
    assert set(named["last"].by("category")) > set(TAUGHT)


def run_block(
    code: str,
    demo: tuple[Path, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: dict[str, Any],
) -> None:
    """Run a block of a page in a folder that has the demo's output."""
    monkeypatch.chdir(folder)
    Path("forgetwatch-demo").symlink_to(demo[0])
    exec(compile(code, "block", "exec"), named)


def of_one_category(table: str) -> str:
    """Return a table without the name of its worst category: on other processors another one may fall most."""
    return re.sub(r"(worst: |[( ])(?:History|Geography)\b", r"\1Worst", table)


def words(table: str) -> list[str]:
    """Return the words of the table, in order, without the spaces that align them and without numbers."""
    return re.findall(r"[A-Za-z>-]*[A-Za-z][A-Za-z/-]*", table)


def counts(table: str) -> list[int]:
    """Return the numbers that count questions: those of the basis of the verdict and of the row "answers"."""
    rows = re.findall(r"^(?:answers| +limit) .*$|; \d+ of about.*$", table, flags=re.MULTILINE)
    return [int(number) for row in rows for number in re.findall(r"\d+", row)]


def test_every_named_file_exists_and_lies_in_the_output_folder(demo: tuple[Path, str]) -> None:
    path, shown = demo
    for name in (
        "forgetting.png",
        "forgetting.svg",
        "base/model.safetensors",
        f"run/checkpoint-{TUNE_STEPS}",
    ):
        assert (path / name).exists()
    assert "forgetting.png" in shown
    assert "forgetwatch compare" in shown
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["out"]


def test_the_tracker_got_the_run(demo: tuple[Path, str]) -> None:
    assert list((demo[0] / "wandb").glob("offline-run-*/*.wandb"))


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(ForgetwatchError, match="contains files that no demo wrote"):
        run_demo(tmp_path)
    with pytest.raises(ForgetwatchError, match="--report-to nowhere: not installed, or no tracker"):
        run_demo(tmp_path / "new", report_to="nowhere")
    with pytest.raises(
        ForgetwatchError, match=r"precious.txt: needed a folder to write to, and this is a file"
    ):
        run_demo(tmp_path / "precious.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
