"""A probe asked of a server: its rows, whatever the server does, and however often it is interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stub_server import Stub, logprob, words
from support import PATIENCE, probe

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.endpoint.served import score_endpoint
from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.loading import Loading


def score(stub: Stub, asked: Probe, **options: Any) -> Snapshot:
    return score_endpoint(f"{stub.url}#base", asked, **options)


def expected(item: Item, choice: str) -> float:
    """Log-likelihood of an option by the stub's own model."""
    before, whole = words(str(item.prompt)), words(f"{item.prompt}{choice}")
    return sum(logprob(whole[:n], whole[n]) for n in range(len(before), len(whole)))


def written(count: int = 6, **item: Any) -> Probe:
    items = [
        Item(id=f"o{n}", task="t", prompt=f"Say w{n} :", answer="w1", match="contains", **item)
        for n in range(count)
    ]
    return Probe(items)


def test_rows_are_those_of_an_own_computation(stub: Stub) -> None:
    asked = probe(30)
    snapshot = score(stub, asked)
    assert len(snapshot) == 30
    for item, row in zip(asked, snapshot.table.to_pylist(), strict=True):
        numbers = [expected(item, choice) for choice in item.choices]
        assert row["choice_logprobs"] == pytest.approx(numbers, abs=1e-12)
        assert row["chosen"] == int(np.argmax(numbers))
        assert row["correct"] == (row["chosen"] in item.answers)
        assert row["content_hash"] == item.content_hash
        assert row["choice_tokens"] == [len(words(choice)) for choice in item.choices]
    server = {"url": f"{stub.url}/v1", "id": "base", "root": "weights", "asked_at_once": 16}
    assert snapshot.meta["server"] == server
    assert (snapshot.meta["way"], snapshot.meta["engine"]) == ("log-likelihood", "endpoint")
    assert snapshot.meta["probe"]["fingerprint"] == asked.fingerprint


def test_order_and_answers_do_not_depend_on_how_many_are_asked_at_once(stub: Stub) -> None:
    stub.delay = 0.01
    asked = probe(40)
    alone = score(stub, asked, loading=Loading(concurrency=1))
    assert stub.most_at_once == 1
    together = score(stub, asked, loading=Loading(concurrency=16))
    assert stub.most_at_once > 4
    assert together.checksum == alone.checksum


def test_a_busy_server_changes_nothing(stub: Stub) -> None:
    asked = probe(20)
    calm = score(stub, asked)
    stub.busy, stub.busy_from = 12, len(stub.requests) + 40
    assert score(stub, asked).checksum == calm.checksum


@pytest.mark.parametrize("faults", [{"no echo"}, {"no numbers"}])
def test_letters_give_rows_of_the_same_questions(stub: Stub, faults: set[str]) -> None:
    stub.faults = faults
    asked = probe(12)
    snapshot = score(stub, asked)
    assert snapshot.texts("content_hash").tolist() == [item.content_hash for item in asked]
    assert snapshot.meta["probe"]["scoring"] == ("letters" if faults == {"no echo"} else "generate")
    assert snapshot.meta["probe"]["fingerprint"] != asked.fingerprint
    assert np.isfinite(snapshot.floats("correct")).all()
    assert ("A. w" in json.dumps(stub.requests[-1][1])) or "\\nA. " in json.dumps(
        stub.requests[-1][1]
    )


def test_an_item_without_a_likely_letter_is_wrong(stub: Stub) -> None:
    asked = replace(probe(8), scoring="letters")
    first = score(stub, asked)
    assert set(first.texts("outcome")) <= {"ok", "no answer"}
    none = first.texts("outcome") == "no answer"
    assert (first.floats("correct")[none] == 0).all()
    assert (first.ints("chosen")[none] == -1).all()


def test_open_answers_are_generated_and_graded(stub: Stub) -> None:
    snapshot = score(stub, written())
    assert snapshot.meta["way"] == "written"
    for text, right in zip(snapshot.texts("output"), snapshot.floats("correct"), strict=True):
        assert right == ("w1" in text.split())
    assert {path for path, _ in stub.requests} == {"/v1/completions"}


def test_chat_messages_are_sent_and_rendered_by_the_server(stub: Stub) -> None:
    asked = written(rendering="chat", system="Be short.")
    snapshot = score(stub, asked)
    path, body = stub.requests[-1]
    assert path == "/v1/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    stub.faults = {"strict"}
    stub.requests.clear()
    assert score(stub, asked).checksum == snapshot.checksum
    assert sum("chat_template_kwargs" in body for _, body in stub.requests) <= 16 + 1


def test_a_thinking_block_that_the_server_reads_is_no_answer(stub: Stub) -> None:
    stub.message = {"reasoning_content": "w1 or not", "content": "w9"}
    assert not score(stub, written(rendering="chat")).floats("correct").any()
    stub.message = {"reasoning_content": "hm", "content": "w1"}
    assert score(stub, written(rendering="chat")).floats("correct").all()


def test_calls_of_tools_are_read(stub: Stub) -> None:
    call = {"type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}
    stub.message = {"content": None, "tool_calls": [call]}
    tool = {"type": "function", "function": {"name": "find", "parameters": {}}}
    item = Item(
        id="c", task="t", prompt="find 1", match="tool_call", tools=[tool], rendering="chat",
        answer='{"name": "find", "arguments": {"x": 1}}',
    )  # fmt: skip
    assert score(stub, Probe([item])).floats("correct").tolist() == [1.0]
    assert stub.requests[-1][1]["tools"] == [tool]


def test_samples_have_seeds_of_their_own(stub: Stub) -> None:
    asked = replace(written(2), scoring="generate", decoding={"samples": 3, "temperature": 1.0})
    snapshot = score(stub, asked, loading=Loading(concurrency=1))
    assert snapshot.ints("sample").tolist() == [0, 1, 2, 0, 1, 2]
    seeds = {body["seed"] for _, body in stub.requests}
    assert seeds == {0, 1, 2}
    stub.requests.clear()
    score(stub, asked, is_second=True)
    assert not {body["seed"] for _, body in stub.requests} & seeds


def test_passages_and_forced_answers_are_echoed(stub: Stub) -> None:
    passage = Item(id="p", task="t", prompt="", choices=("w1 w2 w3",), answer=None)
    row = score(stub, Probe([passage])).table.to_pylist()[0]
    tokens = words("w1 w2 w3")
    assert row["choice_logprobs"] == [sum(logprob(tokens[:n], tokens[n]) for n in (1, 2))]
    assert row["choice_bytes"] == [len(" w2 w3")]
    assert row["correct"] is None
    forced = Probe(
        [Item(id="f", task="t", prompt="Say :", answer=[" w1", " w2"], match="exact")],
        decoding={"check": "forced"},
    )
    assert score(stub, forced).floats("correct").tolist() in ([0.0], [1.0])


def test_a_question_that_the_server_refuses_is_unscored(stub: Stub) -> None:
    stub.faults = {"refuses"}
    outcomes = score(stub, written(6)).texts("outcome")
    assert outcomes[3] == "unscored: the server refuses it (400: the prompt is too long)"
    assert not any(outcome.startswith("unscored") for outcome in np.delete(outcomes, 3))


def test_a_fee_is_agreed_to_before_the_first_request() -> None:
    with pytest.raises(
        ScoringError, match=r"at most \d+ requests, about .* agree to a fee with --yes"
    ):
        score_endpoint("https://127.0.0.1:9#base", probe(5))


def test_a_model_is_named_where_there_are_several(stub: Stub) -> None:
    assert score_endpoint(stub.url, probe(5)).meta["model"] == "base"
    stub.models = ["base", "tuned"]
    with pytest.raises(ScoringError, match="got ''; the server has base, tuned"):
        score_endpoint(stub.url, probe(5))
    with pytest.raises(ScoringError, match="got 'other'"):
        score_endpoint(f"{stub.url}#other", probe(5))


def test_a_model_that_is_exchanged_in_between_is_refused(stub: Stub, tmp_path: Path) -> None:
    stub.exchange_at = 40
    answers = tmp_path / "a.answers"
    with pytest.raises(ScoringError, match=f"another model has taken the place.*remove {answers}"):
        score(stub, probe(30), answers=answers, loading=Loading(concurrency=1))
    # What was answered by the first is not continued by the second.
    with pytest.raises(ScoringError, match="another model"):
        score(stub, probe(30), answers=answers)
    answers.unlink()
    assert len(score(stub, probe(30), answers=answers)) == 30


def test_answers_of_another_measurement_are_refused(stub: Stub, tmp_path: Path) -> None:
    answers = tmp_path / "a.answers"
    score(stub, probe(5), answers=answers)
    with pytest.raises(
        SnapshotError, match=r"a\.answers: holds the answers of another measurement"
    ):
        score(stub, probe(6), answers=answers)


def test_ten_thousand_items(stub: Stub) -> None:
    assert len(score(stub, written(10_000))) == 10_000


def test_killed_at_ten_moments_and_continued(stub: Stub, tmp_path: Path) -> None:
    asked, output = tmp_path / "asked.jsonl", tmp_path / "s.parquet"
    probe(120).save(asked)
    whole = score(stub, probe(120))
    stub.requests.clear()
    stub.delay = 0.02
    answers = output.with_name("s.parquet.answers")
    command = [sys.executable, "-m", "forgetwatch", "score", f"{stub.url}#base"]
    command += ["--probe", str(asked), "-o", str(output), "--concurrency", "2"]
    environment = {**os.environ, "FORGETWATCH_API_KEY": "sk-no-file-has-it"}
    sizes = [0]
    for moment in range(1, 11):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while lines(answers) < sizes[-1] + 3 * moment // 2 + 1 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate()
        assert "sk-no-file" not in stderr
        sizes.append(lines(answers))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 11
    with answers.open("a") as file:  # a row that was cut
        file.write('\n{"key": "0/0", "answer": {"corr')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "answers are there already" in done.stderr
    assert not answers.exists()
    from forgetwatch import load_snapshot

    continued = load_snapshot(output)
    assert continued.checksum == whole.checksum
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-no-file" not in path.read_bytes()


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_no_torch_is_needed(stub: Stub) -> None:
    code = (
        "import sys; from forgetwatch import Item, Probe\n"
        "from forgetwatch.endpoint.served import score_endpoint\n"
        "items = [Item(id=str(n), task='t', prompt=f'Q {n} :', choices=(' w1', ' w2'), answer=0) for n in range(5)]\n"
        f"print(len(score_endpoint('{stub.url}#base', Probe(items))), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5 False\n"
