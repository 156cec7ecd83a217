import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Run
from support import model, probe, snapshot, tokenizer
from typer.testing import CliRunner

from forgetwatch import Item, Probe, load_snapshot, score
from forgetwatch import cache as module
from forgetwatch.cache import CacheEntry, cache_files
from forgetwatch.cli import app
from forgetwatch.errors import ProbeError, ScoringError, SnapshotError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    probe().save(tmp_path / "p.jsonl")
    return tmp_path


def test_without_a_terminal_there_are_lines_no_bar_and_no_empty_line(saved: Path) -> None:
    arguments = [
        "score",
        str(saved / "model"),
        "--probe",
        str(saved / "p.jsonl"),
        "-o",
        str(saved / "s.parquet"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "forgetwatch", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *others = done.stderr.split("\n")[:-1]
    assert first == "forgetwatch: loading torch and transformers ..."
    assert others[0] == f"forgetwatch: scoring {saved / 'model'} on toy, 30 items"
    assert all(
        line.startswith("forgetwatch: scoring: ") for line in others[1:]
    )  # on a busy machine it takes long
    assert "\r" not in done.stderr


@pytest.mark.full("score", reason="further failures of one kind")
@pytest.mark.parametrize("command", ["score", "compare"])
def test_the_first_line_comes_before_torch_is_imported(saved: Path, command: str) -> None:
    (saved / "broken").mkdir()
    (saved / "broken" / "torch.py").write_text("raise ImportError('torch was imported')")
    model_folder, target = (
        str(saved / "model"),
        ["-o", "s.parquet"] if command == "score" else [str(saved / "model")],
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "forgetwatch",
            command,
            model_folder,
            *target,
            "--probe",
            str(saved / "p.jsonl"),
        ],
        cwd=saved,
        env={
            **os.environ,
            "PYTHONPATH": f"{saved / 'broken'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    first, second = done.stderr.splitlines()
    scoring = f"scoring {model_folder} on toy, 30 items"  # compare scores what is not cached, which it knows later
    assert (
        first
        == f"forgetwatch: {scoring if command == 'score' else 'loading torch and transformers ...'}"
    )
    assert "torch was imported" in second


def test_a_checkpoint_becomes_a_snapshot_file(saved: Path) -> None:
    arguments = [
        "score",
        str(saved / "model"),
        "--probe",
        str(saved / "p.jsonl"),
        "-o",
        str(saved / "s.parquet"),
    ]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "30 items scored" in done.stdout
    written, tok = load_snapshot(saved / "s.parquet"), tokenizer()
    assert written.checksum == score(model(tok), tok, probe()).checksum
    assert written.meta["model"] == str(saved / "model")


def test_what_cannot_be_scored_is_refused_by_name(saved: Path) -> None:
    target = ["-o", str(saved / "s.parquet")]
    with pytest.raises(ProbeError, match="no such file"):
        CliRunner().invoke(
            app,
            ["score", str(saved / "model"), "--probe", "no-such", *target],
            catch_exceptions=False,
        )
    with pytest.raises(ScoringError, match="cannot be loaded"):
        CliRunner().invoke(
            app,
            ["score", str(saved), "--probe", str(saved / "p.jsonl"), *target],
            catch_exceptions=False,
        )
    assert not (saved / "s.parquet").exists()
    with pytest.raises(SnapshotError, match=r"ends in \.parquet"):
        CliRunner().invoke(
            app,
            ["score", "m", "--probe", str(saved / "p.jsonl"), "-o", str(saved / "s.csv")],
            catch_exceptions=False,
        )


def test_unscored_items_are_printed_with_their_reasons(saved: Path) -> None:
    items = [
        Item(id=str(i), task="t", prompt="Q", choices=(" w1", " "), answer=0) for i in range(2)
    ]
    Probe([*items, *probe()]).save(saved / "some.jsonl")
    Probe(items).save(saved / "none.jsonl")
    target = ["-o", str(saved / "s.parquet")]
    arguments = ["score", str(saved / "model"), "--probe"]
    done = CliRunner().invoke(
        app, [*arguments, str(saved / "some.jsonl"), *target], catch_exceptions=False
    )
    assert "2 unscored: choice 1 has no text" in done.stdout
    assert "30 items scored" in done.stdout
    with pytest.raises(SnapshotError, match="none of the 2 items could be scored"):
        CliRunner().invoke(
            app, [*arguments, str(saved / "none.jsonl"), *target], catch_exceptions=False
        )


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "forgetwatch",
        "score",
        *arguments,
        "-o",
        str(folder / "s.parquet"),
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


ITEM = '{"id": "1", "task": "t", "prompt": "Q", "choices": [" w1", " w2"], "answer": 0}\n'


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ("", "has no items"),
        (ITEM.replace('[" w1", " w2"]', "[]"), "line 1: item '1': choices is empty"),
        (
            ITEM.replace('"answer": 0', '"answer": 2'),
            "line 1: item '1': answer 2 is outside its 2 choices",
        ),
        (ITEM + ITEM, "item id '1' occurs twice in task 't'"),
        (ITEM[:30], "line 1: not a JSON object"),
        (None, "no such file, and no such shipped probe"),
    ],
)
def test_a_bad_probe_is_one_line_and_exit_status_one(
    tmp_path: Path, command: Run, items: str | None, says: str
) -> None:
    if items is not None:
        (tmp_path / "p.jsonl").write_text(items)
    done = command("score", "model", "--probe", "p.jsonl", "-o", "s.parquet")
    assert (done.status, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert says in done.stderr


def test_a_model_that_gives_no_logits_is_one_line_and_exit_status_one(saved: Path) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    LlamaForSequenceClassification(LlamaConfig(vocab_size=137, **sizes)).save_pretrained(
        saved / "head"
    )
    tokenizer().save_pretrained(saved / "head")
    done = run(saved, "head", "--probe", "p.jsonl")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "needed a whole causal language model with its head" in done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(("first", "second")):
        entry = CacheEntry.of([name])
        entry.write(snapshot([True, False], meta={"model": name, "probe": {"name": "quick"}}))
        os.utime(entry.path, (1e9 + number, 1e9 + number))
    (tmp_path / "cache" / "mine.parquet").write_bytes(b"not ours")
    return tmp_path / "cache"


def test_the_entries_are_listed_and_cleared_and_other_files_stay(
    folder: Path, command: Run
) -> None:
    cache_files(folder)[0].write_bytes(b"damaged")
    shown = command("cache", "list").stdout
    assert "damaged, and never used" in shown
    assert "quick" in shown
    assert f"2 entries, 0.0 MB of at most 2.1 GB, in {folder}" in shown
    assert "2 entries deleted" in command("cache", "clear").stdout
    assert [path.name for path in folder.iterdir()] == ["mine.parquet"]
    assert "0 entries" in command("cache", "list").stdout


def test_what_was_used_least_lately_goes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CacheEntry.of(["first"]).read() is not None  # used now
    monkeypatch.setattr(
        module, "LIMIT", sum(file.stat().st_size for file in cache_files(folder)) + 10
    )
    CacheEntry.of(["third"]).write(snapshot([True, False]))
    kept = {
        name for name in ("first", "second", "third") if CacheEntry.of([name]).read() is not None
    }
    assert kept == {"first", "third"}
