"""The page on security: what it promises is tested, and by tests that exist."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support import model, snapshot, tokenizer

from forgetwatch import save_snapshot
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.model_loading import load_model

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
TESTS = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def test_the_page_names_a_test_for_every_promise() -> None:
    lines = PAGE.partition("## Promised")[2].partition("\n## ")[0].splitlines()
    promises = [
        line
        for line in lines
        if line.startswith("| ") and line != "| promise | held by |" and "---" not in line
    ]
    assert len(promises) > 12
    for line in promises:
        assert re.search(r"`tests/", line), line


@pytest.mark.parametrize(("path", "name"), TESTS, ids=["::".join(one) for one in TESTS])
def test_the_tests_that_the_page_names_exist(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert not name or name in {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }


RUNS_CODE = {"eval", "exec", "compile", "__import__"}
UNPICKLES = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "forgetwatch").rglob("*.py")),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_module_runs_or_unpickles_what_it_reads(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            assert not {name.split(".")[0] for name in names} & UNPICKLES
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in RUNS_CODE
            assert called not in (
                "os.system",
                "torch.load",
                "np.load",
                "yaml.load",
                "yaml.unsafe_load",
            )
            assert not [word for word in node.keywords if word.arg in ("shell", "allow_pickle")]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", [None, "of_somebody"])
def test_code_that_comes_with_a_model_is_not_run(saved: Path, kind: str | None) -> None:
    mark = saved / "was-run"
    config = json.loads((saved / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    config["model_type"] = kind or config["model_type"]
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    settings = json.loads((saved / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}
    (saved / "tokenizer_config.json").write_text(json.dumps(settings))
    if kind is None:
        load_model(str(saved))
    else:
        with pytest.raises(ScoringError, match="cannot be loaded"):
            load_model(str(saved))
    assert not mark.exists()


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.mark), "w")


def test_pickled_weights_are_refused_and_not_run(saved: Path) -> None:
    import torch

    mark = saved / "was-run"
    (saved / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Evil(mark)}, saved / "pytorch_model.bin")
    with pytest.raises(ScoringError, match="cannot be loaded"):
        load_model(str(saved))
    assert not mark.exists()


OFFLINE = """
import socket, sys
def refuse(*given, **named):
    raise SystemExit(f"a connection was opened: {given}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from forgetwatch.cli import app
for command in COMMANDS:
    status = app(command, standalone_mode=False)
    assert not status, (command, status)
"""


def test_files_are_compared_and_a_folder_is_scored_without_a_network(
    saved: Path, tmp_path: Path
) -> None:
    run = tmp_path / "out" / "_forgetwatch"
    for step, right in enumerate([[True, True], [False, True]]):
        name = "baseline" if step == 0 else f"step-{step:06d}"
        save_snapshot(snapshot(right, meta={"model": "m", "step": step}), run / f"{name}.parquet")
    before, after = (str(run / f"{name}.parquet") for name in ("baseline", "step-000001"))
    item = {"id": "1", "task": "t", "prompt": "w1 w2", "choices": [" w3", " w4"], "answer": 0}
    (tmp_path / "p.jsonl").write_text(json.dumps(item) + "\n")
    commands = [
        ["compare", before, after, "-o", str(tmp_path / "r.html")],
        ["flips", before, after],
        ["report", str(tmp_path / "out")],
        ["convert", before, "-o", str(tmp_path / "c.parquet")],
        ["probe", "check", "standard"],
        [
            "score",
            str(saved),
            "--probe",
            str(tmp_path / "p.jsonl"),
            "-o",
            str(tmp_path / "s.parquet"),
        ],
    ]
    code = textwrap.dedent(OFFLINE).replace("COMMANDS", repr(commands))
    free = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=free, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
