"""`transformers serve`, a server of the field: the answers of a model in this process.

vLLM and llama-cpp-python are tried by `benchmarks/served.py`, in environments of their own.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE, facts, model, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.endpoint.served import score_endpoint
from forgetwatch.scoring.cached_score import score_checkpoint

for package in ("openai", "fastapi", "uvicorn"):
    pytest.importorskip(package, reason="transformers serve needs it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tok = tokenizer()
    model(tok).save_pretrained(path)
    tok.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    command += ["--port", str(port), "--device", "cpu", "--dtype", "float32"]
    output = tmp_path_factory.mktemp("server") / "output"
    with output.open("wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + PATIENCE
    while not answers(port):
        assert server.poll() is None, output.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}#{folder}"
    server.terminate()
    server.wait(PATIENCE)


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path))


@pytest.mark.usefixtures("cache")
def test_open_questions_get_the_texts_of_the_model_itself(folder: Path, address: str) -> None:
    items = [
        Item(
            id=item.id, task="t", prompt=str(item.prompt), answer=item.choices[0].strip(),
            match="contains",
        )
        for item in facts(24)
    ]  # fmt: skip
    asked = Probe(items, decoding={"tokens": 8})
    served, here = score_endpoint(address, asked), score_checkpoint(str(folder), asked)
    assert served.texts("output").tolist() == here.texts("output").tolist()
    assert served.table["correct"].equals(here.table["correct"])


@pytest.mark.usefixtures("cache")
def test_it_names_no_log_probability_and_is_asked_to_write(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = score_endpoint(address, Probe(list(facts(8))))
    assert (snapshot.meta["way"], snapshot.meta["probe"]["rendering"]) == ("written", "chat")
    assert "it returns no log-probabilities of a prompt" in capsys.readouterr().err
