"""Text of other people in a terminal, in a CSV table, and on pages that are passed on."""

import sys
import unicodedata
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import snapshot, write_jsonl

from forgetwatch import save_snapshot
from forgetwatch.cli import main
from forgetwatch.errors import ForgetwatchError, ProbeError
from forgetwatch.progress import Done, log, shown
from forgetwatch.visible_text import csv_cell, from_csv_cell, visible, without_folders

EVIL = "\x1b]0;pwned\x07\x1b[31m\u202eRED\x9b2J\r"
RAW = set("\x1b\x07\x9b\r\u202e")


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    found = visible(text)
    assert not [char for char in found if unicodedata.category(char) == "Cc" and char not in "\n\t"]
    assert not set(
        "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    ) & set(found)
    found.encode()  # no lone surrogate


@given(st.text() | st.text(st.sampled_from("'=+-@\t\r\n ＝1a\x1b")))
def test_a_csv_cell_is_no_formula_and_is_read_back(text: str) -> None:
    cell = csv_cell(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert from_csv_cell(cell) == visible(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me/a/run.json: 3", "run.json: 3"),
        (
            "see '/srv/data/x.csv' and C:\\Users\\me\\y.csv, or ~/z/w.csv",
            "see 'x.csv' and y.csv, or w.csv",
        ),
        ("\\\\server\\share\\me\\y.csv", "y.csv"),
        ("a/b, 1/2, and/or, /tmp", "a/b, 1/2, and/or, /tmp"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("out/_forgetwatch/run.json", "out/_forgetwatch/run.json"),
    ],
)
def test_absolute_paths_become_names(text: str, shown: str) -> None:
    assert without_folders(text) == shown


@pytest.mark.parametrize("kind", [ForgetwatchError, ProbeError])
def test_an_error_that_quotes_a_file_is_visible_wherever_it_is_printed(
    kind: type[ForgetwatchError],
) -> None:
    assert str(kind(EVIL)) == visible(EVIL)


def test_lines_and_bars_of_a_training_are_visible(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log(f"baseline: {EVIL}")
    with shown(f"scoring {EVIL}", opening=f"scoring {EVIL}") as progress:
        assert progress is not None
        progress(Done(count=0, total=2, share=0.0))
        progress(Done(count=1, total=2, share=0.5))
    printed = capsys.readouterr().err
    assert printed.count("pwned") >= 2
    assert not RAW & set(printed)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files whose names and contents would steer a terminal."""
    monkeypatch.chdir(tmp_path)
    name = EVIL.replace("\r", "")
    columns = {"category": [name, "c"], "task": [name, "t"], "item_id": [name, "2"]}
    for file, right in (("a", True), ("b", False)):
        save_snapshot(
            snapshot([right, True], meta={"model": name, "probe": {"name": name}}, **columns),
            f"{file}.parquet",
        )
    Path("header.csv").write_text(f'item_id,"{name}"\n1,2\n')
    Path("rows.csv").write_text(f'q,right\n"{name}","{name}"\n')
    Path("gate.yaml").write_text(f'groups:\n  - name: "{name.encode("unicode_escape").decode()}"\n')
    Path("map.yaml").write_text(f'"{name.encode("unicode_escape").decode()}": [1]\n')
    Path("text.jsonl").write_text(name)
    item = {
        "id": name,
        "task": name,
        "category": name,
        "prompt": name,
        "choices": [name, "b"],
        "answer": 0,
    }
    write_jsonl(tmp_path / "p.jsonl", [item, {**item, "id": "2", "prompt": "R"}])
    write_jsonl(tmp_path / "bad.jsonl", [{**item, "answer": name}])
    write_jsonl(tmp_path / "open.jsonl", [{"id": 1, "truth": "a", "reply": "b", name: 1}])
    (tmp_path / "run" / "_forgetwatch").mkdir(parents=True)
    (tmp_path / "run" / "_forgetwatch" / "run.json").write_text(name)
    return tmp_path


COMMANDS = [
    ["compare", "a.parquet", "b.parquet", "--category", "nope"],
    ["compare", "a.parquet", "b.parquet", "--task", EVIL],
    ["compare", "a.parquet", EVIL],
    ["compare", "a.parquet", "b.parquet", EVIL],
    ["compare", "a.parquet", "b.parquet", f"--{EVIL}"],
    ["compare", "a.parquet", "b.parquet", "--by", EVIL],
    ["compare", "header.csv", "a.parquet"],
    ["compare", "text.jsonl", "a.parquet"],
    ["gate", "a.parquet", "b.parquet", "--policy", "gate.yaml"],
    ["compare", "a.parquet", "b.parquet", "--fail-if", f"{EVIL}>1"],
    ["compare", "a.parquet", "b.parquet", "--fail-if", "forgotten>=0"],
    ["compare", "a.parquet", "b.parquet", "--categories", "map.yaml"],
    ["compare", "a.parquet", "b.parquet", "--metric", EVIL],
    ["compare", "a.parquet", "b.parquet", "-o", f"no/{EVIL}.xyz"],
    ["compare", "a.parquet", "b.parquet", "--detail"],
    ["flips", "a.parquet", "b.parquet", "--probe", "p.jsonl"],
    ["flips", "a.parquet", "b.parquet", "--category", EVIL],
    ["convert", "header.csv", "-o", "x.parquet"],
    ["convert", "rows.csv", "--map", f"{EVIL}=right", "-o", "x.parquet"],
    ["convert", "rows.csv", "--map", "item_id=q", "--map", "correct=right", "-o", "x.parquet"],
    ["convert", "rows.csv", "--map", "item_id=nope", "-o", "x.parquet"],
    ["convert", "open.jsonl", "--map", "item_id=nope", "--map", "correct=truth", "-o", "x.parquet"],
    [*("convert", "open.jsonl", "--map", "item_id=id", "--map", "gold=truth", "--map", "output=reply"),
     *("--match", f"regex:({EVIL}", "-o", "x.parquet")],
    ["probe", "show", "p.jsonl"],
    ["probe", "check", "p.jsonl"],
    ["probe", "check", "bad.jsonl"],
    ["probe", "show", EVIL],
    ["probe", "build", "p.jsonl", "-o", "q.jsonl"],
    ["report", "run"],
    ["report", EVIL],
    [EVIL],
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=[" ".join(map(ascii, one))[:60] for one in COMMANDS]
)
def test_no_line_of_a_command_steers_the_terminal(
    folder: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "argv", ["forgetwatch", *arguments])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert not RAW & set(printed.out + printed.err)


def test_a_warning_of_a_command_is_visible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(*, standalone_mode: bool) -> int:
        sys.stderr.write(warnings.formatwarning(UserWarning(EVIL), UserWarning, "x.py", 1, ""))
        return 0

    before = warnings.formatwarning
    monkeypatch.setattr("forgetwatch.cli.app", warn)
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().err
    assert "pwned" in printed
    assert not RAW & set(printed)
    assert warnings.formatwarning is before


def test_the_page_of_a_run_names_no_folder_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "private-folder" / "out"
    for step, right in enumerate([[True, True], [False, True], [True, False]]):
        meta = {
            "model": str(out / "base"),
            "step": step,
            "probe": {
                "name": str(tmp_path / "private-folder" / "probe.jsonl"),
                "rendering": "plain",
            },
        }
        name = "baseline" if step == 0 else f"step-{step:06d}"
        save_snapshot(snapshot(right, meta=meta), out / "_forgetwatch" / f"{name}.parquet")
    before, after = (
        str(out / "_forgetwatch" / f"{name}.parquet") for name in ("baseline", "step-000001")
    )
    categories = tmp_path / "private-folder" / "map.csv"
    categories.write_text("task,category\nother,x\n")
    for command in (
        ["report", str(out)],
        ["report", str(out / "_forgetwatch"), "-o", str(out / "run.md")],
        [
            "compare",
            before,
            after,
            "--categories",
            str(categories),
            "-o",
            str(out / "compare.html"),
        ],
        ["compare", before, after, "--categories", str(categories), "-o", str(out / "compare.md")],
        ["compare", before, after, "--categories", str(categories), "-o", str(out / "compare.csv")],
    ):
        monkeypatch.setattr(sys, "argv", ["forgetwatch", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, capsys.readouterr().err
    files = [out / "_forgetwatch" / "report.html", *out.glob("*.*")]
    assert len(files) == 5
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "private-folder" not in text, file
        assert str(tmp_path) not in text, file
    assert "out" in files[0].read_text(encoding="utf-8")
    assert "not in map.csv" in (out / "compare.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "mark", ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u3164", "\u180e", "\U000e0041", "\u200d"]
)
def test_a_character_without_a_shape_is_shown(mark: str) -> None:
    assert visible(f"Ma{mark}th") == f"Ma⟨U+{ord(mark):04X}⟩th"


@pytest.mark.parametrize("text", ["می\u200cخواهم", "👩\u200d🔬", "क्\u200dष", "❤\ufe0f"])
def test_joiners_of_scripts_and_emoji_stay(text: str) -> None:
    assert visible(text) == text
