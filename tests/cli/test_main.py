"""Small inputs that ended in a bug, in silence, or after the work.

Reports as files.

Outputs overwrite nothing that forgetwatch did not write in the same format, and no input.
"""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest
from commands import Run
from pages import choices, hostile, run
from rich.cells import cell_len
from support import snapshot, write_jsonl
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, compare, load_snapshot
from forgetwatch.cli import COMMANDS, app, main
from forgetwatch.cli.options import check_output
from forgetwatch.cli.output import write_report
from forgetwatch.cli.probe import probe_app
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.errors import MismatchError, SnapshotError, WatchError
from forgetwatch.snapshot import save_snapshot


def test_every_command_explains_itself_and_each_of_its_options() -> None:
    helped = CliRunner().invoke(app, ["--help"]).stdout
    words = " ".join(helped.replace("│", " ").split())
    files = Path(__file__).parent.parent.parent.joinpath("forgetwatch", "cli").glob("*.py")
    found = {
        name
        for file in files
        for name in re.findall(r"^def (\w+)_command\(", file.read_text(), re.MULTILINE)
    }
    of_probe = {command.name for command in probe_app.registered_commands}
    assert found - of_probe | {"probe", "cache"} == set(COMMANDS)
    for name, text in {
        "demo": "Watch a small model forget: train one, fine-tune it,",
        **COMMANDS,
    }.items():
        assert f"{name} {text}" in words
        own = CliRunner().invoke(app, [name, "--help"])
        assert own.exit_code == 0
        assert text in " ".join(own.stdout.split())


def test_the_version_is_the_packages() -> None:
    assert (
        CliRunner().invoke(app, ["--version"]).stdout.strip()
        == f"forgetwatch {version('forgetwatch')}"
    )


def test_an_unexpected_error_is_one_line_unless_its_traceback_is_wanted(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("forgetwatch.cli.app", fail)
    assert command().stderr.startswith(
        "forgetwatch: unexpected ZeroDivisionError: a b (a bug in forgetwatch;"
    )
    monkeypatch.setenv("FORGETWATCH_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_an_error_of_a_tracker_is_named_as_its_own(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = type("UsageError", (Exception,), {"__module__": "wandb.errors"})("no key")
    monkeypatch.setattr("forgetwatch.cli.app", Mock(side_effect=error))
    assert command().stderr == "forgetwatch: wandb: no key\n"


def test_a_package_that_the_base_installation_lacks_is_named_with_the_remedy(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    monkeypatch.setattr("forgetwatch.cli.app", fail)
    done = command()
    assert done.status == 1
    assert done.stderr.startswith(
        "forgetwatch: this command needs the package torch, which is not installed: pip"
    )
    assert "bug" not in done.stderr


def test_an_expected_error_is_one_line_without_a_traceback_and_keeps_its_brackets(
    command: Run,
) -> None:
    done = command("compare", "no\nne.csv", "b.csv")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert (
        "[red]a[/].csv: no such file or folder"
        in command("compare", "[red]a[/].csv", "b.csv").stderr
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "a.csv"], "Missing argument"),
        (["compare", "a.csv", "b.csv", "--by", "categry"], "did you mean 'category'?"),
        (["compare", "a.csv", "b.csv", "--jsn", "x"], "--json"),
        (["comparee"], "compare"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_two(
    command: Run, arguments: list[str], says: str
) -> None:
    done = command(*arguments)
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("forgetwatch: ")
    assert says in done.stderr


def test_help_without_a_command_is_no_error_message(command: Run) -> None:
    done = command()
    assert done.status == 2
    assert "Usage:" in done.stdout + done.stderr
    assert "forgetwatch: " not in done.stderr


@pytest.mark.parametrize(
    "named", [[], *([name] for name in COMMANDS), ["probe", "build"], ["probe", "check"]]
)
def test_help_fits_eighty_columns_and_loses_no_brackets(named: list[str]) -> None:
    shown = (
        CliRunner()
        .invoke(app, [*named, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
        .stdout
    )
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert "[/" not in shown
    assert "[bold" not in shown


def test_the_options_of_compare_are_in_panels() -> None:
    shown = CliRunner().invoke(app, ["compare", "--help"]).stdout
    panels = [line.split()[1] for line in shown.splitlines() if line.startswith("╭─")]
    assert panels == ["Arguments", "Options", "Items", "Chance", "Gates", "Output"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two logs whose ids and questions are no ASCII."""
    made = []
    for name, right in (("before", 1), ("after", 0)):
        rows = [
            {"item_id": f"é{at}", "question": "¿Qué?", "correct": right * (at % 2)}
            for at in range(12)
        ]
        made.append(str(write_jsonl(tmp_path / f"{name}.jsonl", rows)))
    return made


def test_what_the_terminal_cannot_encode_is_escaped(files: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", *files],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert r"\xe91" in done.stdout


def test_a_path_that_is_too_long_and_an_empty_argument_are_one_short_sentence(
    files: list[str],
) -> None:
    for argument, status, said in (
        ("x" * 5000, 1, "File name too long"),
        ("", 2, "an argument is empty"),
    ):
        words = [sys.executable, "-m", "forgetwatch", "compare", files[0], argument]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert said in done.stderr
        assert len(done.stderr) < 300


@pytest.mark.parametrize(("one", "other"), [("é", "e\u0301"), ("a b", "a  b "), ("007", "7")])
def test_ids_that_are_spelled_unlike_get_a_hint(one: str, other: str, tmp_path: Path) -> None:
    before, after = (
        load_snapshot(
            write_jsonl(
                tmp_path / f"{at}.jsonl", [{"item_id": name, "correct": 1} for name in (own, "x")]
            )
        )
        for at, own in enumerate((one, other))
    )
    with pytest.raises(MismatchError, match="1 ids are spelled unlike"):
        compare(before=before, after=after)


def test_a_cell_with_an_inch_sign_is_read_and_a_cut_quote_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('item_id,correct,output\na,1,a 5" pipe\nb,0,no\n')
    assert load_snapshot(path).texts("output")[0] == 'a 5" pipe'
    path.write_text('item_id,correct,output\na,1,"a 5 pipe\nb,0,no\n')
    with pytest.raises(Exception, match="a quote is opened and never closed"):
        load_snapshot(path)


def test_metadata_with_a_null_probe_are_compared() -> None:
    before, after = (snapshot([True] * 3, meta={"probe": None, "step": step}) for step in (0, 1))
    assert compare(before=before, after=after).items.compared == 3


def test_two_outputs_of_one_name_and_a_folder_for_a_comment_are_refused_before_the_work(
    tmp_path: Path, files: list[str]
) -> None:
    out = str(tmp_path / "y.json")
    done = CliRunner().invoke(app, ["compare", *files, "--json", out, "-o", out])
    assert "two outputs have this name" in " ".join(done.output.replace("│", " ").split())
    assert not Path(out).exists()
    for name in "ab":
        save_snapshot(snapshot([True] * 20), tmp_path / f"{name}.parquet")
    sides = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    done = CliRunner().invoke(app, ["gate", *sides, "--comment", str(tmp_path)])
    assert "a comment ends in .md" in str(done.exception)
    done = CliRunner().invoke(app, ["gate", *sides, "--comment", files[0]])
    assert "a comment ends in .md" in str(done.exception)


def test_a_value_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("critical: [{metric: acc, gain: 2%}]")
    save_snapshot(snapshot([True] * 20), tmp_path / "a.parquet")
    words = [
        "gate",
        str(tmp_path / "a.parquet"),
        str(tmp_path / "a.parquet"),
        "--policy",
        str(tmp_path / "p.yaml"),
    ]
    done = CliRunner().invoke(app, [*words, "--value", "acc=.6,.7", "--value", "acc=.6,.5"])
    assert done.exit_code == 2
    assert "a metric is given twice" in " ".join(done.output.replace("│", " ").split())


def test_json_of_another_command_is_not_replaced(tmp_path: Path, files: list[str]) -> None:
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({"schema": "forgetwatch/gate@1"}))
    done = CliRunner().invoke(app, ["compare", *files, "--json", str(path)])
    assert "not a JSON document of forgetwatch (comparison)" in str(done.exception)


def test_clearing_the_cache_is_described() -> None:
    assert "Delete all entries of the cache." in CliRunner().invoke(app, ["cache", "--help"]).stdout


def test_an_overhead_that_is_text_is_one_sentence() -> None:
    with pytest.raises(WatchError, match=r"max_overhead='0\.02': needed a share of the time"):
        ForgetWatchCallback("demo", max_overhead="0.02")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.html", "<!doctype html>"),
        ("r.md", "**FORGOT** toy at step 100 against toy at step 0: about 31 % of what"),
        ("r.csv", "before,after,"),
        ("r.json", "{"),
    ],
)
def test_the_suffix_decides_the_format(tmp_path: Path, name: str, start: str) -> None:
    of = choices()
    write_report(tmp_path / name, [of.comparison], of.changed, tolerance=TOLERANCE)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no part of it is left behind


@pytest.mark.parametrize("name", ["report", "report.txt", "report.HTML.gz"])
def test_another_suffix_is_refused_before_the_work(name: str) -> None:
    with pytest.raises(SnapshotError, match=r"a report ends in \.html, \.md, \.csv or \.json"):
        check_output(Path(name), "a report")


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no-such-folder"):
        check_output(tmp_path / "no-such-folder" / "r.html", "a report")
    check_output(tmp_path / "r.html", "a report")
    check_output(None, "a report")


def test_several_comparisons_are_in_one_document(tmp_path: Path) -> None:
    one, other = choices(60), choices(90)
    both = [one.comparison, other.comparison]
    for name in ("r.md", "r.csv", "r.json"):
        write_report(tmp_path / name, both, other.changed, tolerance=TOLERANCE)
    assert (
        len(
            re.findall(
                r"^\*\*(?:FORGOT|KEPT|NOT CLEAR)\*\*", (tmp_path / "r.md").read_text(), re.MULTILINE
            )
        )
        == 2
    )
    assert [
        row["n"]
        for row in csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text()))
        if row["level"] == "all"
    ] == ["57", "85"]
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["schema"] == "forgetwatch/comparisons@2"
    assert len(document["comparisons"]) == 2


def test_a_report_of_a_run_is_a_trajectory_document(tmp_path: Path) -> None:
    trajectory, _ = run(60)
    write_report(
        tmp_path / "r.json",
        [trajectory.comparisons[-1]],
        (),
        tolerance=TOLERANCE,
        trajectory=trajectory,
    )
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "forgetwatch/trajectory@2"


@pytest.mark.parametrize("kind", ["html", "md", "csv", "json"])
def test_any_text_can_be_written_as_utf_8(tmp_path: Path, kind: str) -> None:
    of = hostile()
    path = tmp_path / f"r.{kind}"
    write_report(path, [of.comparison], of.changed, tolerance=TOLERANCE, title="\ud800")
    path.read_text(encoding="utf-8")
    if kind == "json":
        json.loads(path.read_text(encoding="utf-8"))


def test_the_tolerance_is_that_of_the_verdict(tmp_path: Path) -> None:
    of = choices(240)
    words = []
    for tolerance in (Tolerance(accuracy=0.5, known=0.99, category=0.9), Tolerance(accuracy=0.0)):
        write_report(tmp_path / "r.md", [of.comparison], of.changed, tolerance=tolerance)
        words.append(decide(of.comparison, tolerance).word)
        assert f"**{words[-1]}** " in (tmp_path / "r.md").read_text()
    assert words[0] == "KEPT" != words[1]


def test_a_report_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = choices(60)
    path = tmp_path / "r.html"
    path.write_text("old")

    def broken(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space"):
        write_report(path, [of.comparison], of.changed, tolerance=TOLERANCE)
    assert path.read_text() == "old"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three snapshots, a log in JSON lines, a table, notes, and a picture of somebody else."""
    monkeypatch.chdir(tmp_path)
    for name, right in (("base", 40), ("new1", 38), ("new2", 36)):
        category = ["a", "b"] * 30
        save_snapshot(
            snapshot([at < right for at in range(60)], category=category), f"{name}.parquet"
        )
    Path("log.jsonl").write_text(
        '{"item_id": "a", "correct": true}\n{"item_id": "b", "correct": false}\n'
    )
    Path("results.json").write_text('{"results": {"arc": {"acc": 0.5}}}')
    Path("table.csv").write_text("item_id,correct\na,1\nb,0\n")
    Path("notes.md").write_text("# forgetwatch\n\nmine\n")
    Path("page.html").write_text("<!doctype html><title>forgetwatch</title>")
    Path("rows.csv").write_text("question,a,b,answer\n1+1?,2,3,a\n2+2?,4,5,a\n3+3?,6,7,a\n")
    return tmp_path


@pytest.fixture
def refused(command: Run) -> Callable[..., str]:
    """Last line of a command that must be refused with status 1."""

    def checked(*arguments: str) -> str:
        done = command(*arguments)
        assert done.status == 1, done.stdout
        return done.last

    return checked


COMPARE = ("compare", "base.parquet")
SIDES = (*COMPARE, "new2.parquet")


@pytest.mark.parametrize(
    ("arguments", "target", "says"),
    [
        # Somebody takes --json for a switch: the next path is its value.
        (
            (*COMPARE, "--json", "new1.parquet", "new2.parquet"),
            "new1.parquet",
            "a JSON document ends in .json",
        ),
        (
            ("flips", "base.parquet", "new2.parquet", "--jsonl", "base.parquet"),
            "base.parquet",
            "ends in .jsonl",
        ),
        (
            (*SIDES, "-o", "new1.parquet"),
            "new1.parquet",
            "a report ends in .html, .md, .csv or .json",
        ),
        ((*SIDES, "--json", "results.json"), "results.json", "not a JSON document of forgetwatch"),
        ((*SIDES, "-o", "results.json"), "results.json", "not a report of forgetwatch"),
        ((*SIDES, "-o", "table.csv"), "table.csv", "not a report of forgetwatch"),
        ((*SIDES, "-o", "notes.md"), "notes.md", "not a report of forgetwatch"),
        ((*SIDES, "-o", "page.html"), "page.html", "not a report of forgetwatch"),
        (
            ("flips", "base.parquet", "new2.parquet", "--jsonl", "log.jsonl"),
            "log.jsonl",
            "not a list of items",
        ),
        (
            ("convert", "base.parquet", "-o", "base.parquet"),
            "base.parquet",
            "the command reads this file",
        ),
        (("convert", "log.jsonl", "-o", "log.jsonl"), "log.jsonl", "a snapshot ends in .parquet"),
        (
            ("probe", "build", "rows.csv", "-o", "log.jsonl"),
            "log.jsonl",
            "not a probe of forgetwatch",
        ),
    ],
)
def test_a_file_that_is_not_ours_is_kept(
    folder: Path, refused: Callable[..., str], arguments: tuple[str, ...], target: str, says: str
) -> None:
    before = (folder / target).read_bytes()
    assert says in refused(*arguments)
    assert (folder / target).read_bytes() == before


def test_a_table_that_is_another_kind_of_parquet_is_kept(
    folder: Path, refused: Callable[..., str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), "mine.parquet")
    assert "not a snapshot of forgetwatch" in refused("convert", "log.jsonl", "-o", "mine.parquet")
    assert pq.read_table("mine.parquet").num_rows == 1


def test_an_input_under_another_name_is_kept(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "link.parquet").symlink_to(folder / "base.parquet")
    before = (folder / "base.parquet").read_bytes()
    assert "the command reads this file" in refused("convert", "base.parquet", "-o", "link.parquet")
    assert (folder / "base.parquet").read_bytes() == before


def test_what_forgetwatch_wrote_is_written_again(folder: Path) -> None:
    commands = [
        (*SIDES, "--json", "out.json"),
        *((*SIDES, "-o", f"report{suffix}") for suffix in (".html", ".md", ".csv", ".json")),
        ("flips", "base.parquet", "new2.parquet", "--jsonl", "flips.jsonl"),
        ("convert", "log.jsonl", "-o", "log.parquet"),
        ("probe", "build", "rows.csv", "-o", "probe.jsonl"),
        (*SIDES, "--plots", "pictures"),
    ]
    for arguments in commands:
        for _ in range(2):
            done = CliRunner().invoke(app, [*arguments])
            assert done.exit_code in (0, 4), done.output
    # An empty file, as mktemp makes it, is anybody's.
    (folder / "empty.json").touch()
    assert CliRunner().invoke(app, [*SIDES, "--json", "empty.json"]).exit_code == 0
    assert json.loads((folder / "empty.json").read_text())["schema"] == "forgetwatch/comparison@2"


def test_a_picture_of_somebody_else_is_kept(folder: Path, refused: Callable[..., str]) -> None:
    assert CliRunner().invoke(app, [*SIDES, "--plots", "pictures"]).exit_code == 0
    drawn = sorted((folder / "pictures").iterdir())
    assert drawn
    drawn[0].write_bytes(b"\x89PNG\r\n\x1a\n of somebody else")
    assert "there is a picture that forgetwatch did not draw" in refused(
        *SIDES, "--plots", "pictures"
    )
    assert drawn[0].read_bytes().endswith(b"of somebody else")


def test_a_study_does_not_write_into_a_folder_of_others(
    folder: Path, refused: Callable[..., str]
) -> None:
    pairs = [{"name": "one", "before": "base.parquet", "after": "new1.parquet"}]
    stage = {"name": "tuning", "pairs": pairs}
    (folder / "study.yaml").write_text(json.dumps({"name": "mine", "stages": [stage]}))
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("precious")
    assert "contains files that no study wrote" in refused("study", "study.yaml")
    assert [path.name for path in (folder / "mine").iterdir()] == ["thesis.tex"]
    shutil.rmtree(folder / "mine")
    for _ in range(2):
        assert CliRunner().invoke(app, ["study", "study.yaml"]).exit_code == 0
