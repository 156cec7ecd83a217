"""An OpenAI-compatible server with a made model, which plays the faults of servers; no proof of equality.

Its model divides a text into words with the space before them. The log-probability of a word follows from the words
before it, so that echoed and generated numbers agree.
"""

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from forgetwatch.endpoint import client

VOCABULARY = (
    [f" w{number}" for number in range(8)] + [f" {letter}" for letter in "ABCD"] + list("ABCD")
)
"""Words that the model generates."""


def words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def logprob(before: Sequence[str], word: str, weights: int = 0) -> float:
    """Log-probability of a word after others, from -4 to about 0."""
    digest = hashlib.sha256(json.dumps([weights, before[-3:], word]).encode()).digest()
    return -0.001 - int.from_bytes(digest[:2]) / 2**14


@dataclass
class Stub:
    """The server's model and faults, and what it was asked.

    Attributes:
        weights: Which model answers.
        faults: Names of faults that last.
        busy: Number of requests that are refused with 429, 500 or a cut answer, in turn.
        busy_from: Number of answered requests before these.
        exchange_at: Number of requests after which another model answers.
        key: Key that is needed.
        delay: Seconds of each request.
        models: Names of the models.
        message: What a message has in place of the generated text.
        requests: Path and body of each request that was answered.
        most_at_once: Most requests that were in work at once.
    """

    weights: int = 0
    faults: set[str] = field(default_factory=set)
    busy: int = 0
    busy_from: int = 0
    exchange_at: int = 10**9
    key: str = ""
    delay: float = 0.0
    models: Sequence[str] = ("base",)
    message: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of an answer."""
        self.requests.append((path, body))
        if len(self.requests) > self.exchange_at:
            self.weights = 1
        if path == "/v1/completions" and "no completions" not in self.faults:
            if "refuses" in self.faults and "w3" in body["prompt"]:
                return 400, {"error": {"message": "the prompt is too long"}}
            return 200, self.completed(body)
        if path == "/v1/chat/completions" and "no chat" not in self.faults:
            if "strict" in self.faults and "chat_template_kwargs" in body:
                return 400, {"error": {"message": "Unknown parameter: 'chat_template_kwargs'"}}
            return 200, self.chatted(body)
        return 404, {"detail": "Not Found"}

    def completed(self, body: dict[str, Any]) -> dict[str, Any]:
        before = words(body["prompt"])
        generated = self.generated(before, body["max_tokens"])
        tokens = before + generated
        values: list[float | None] = [None]
        values += [logprob(tokens[:n], tokens[n], self.weights) for n in range(1, len(tokens))]
        offsets = [sum(map(len, tokens[:n])) for n in range(len(tokens))]
        if "start token" in self.faults:  # counted by the server, and not in the text
            offsets = [offset + 3 for offset in offsets]
        if "shifted" in self.faults:
            values = [None, *values[2:], -1.0]
        if "zero" in self.faults:
            values = [0.0] * len(values)
        if "alike" in self.faults:
            values = [None] + [-1.0] * (len(values) - 1)
        if "wrong offsets" in self.faults:
            offsets = [offset // 2 for offset in offsets]
        is_echoed = bool(body.get("echo"))
        start = 0 if is_echoed else len(before)
        tops = [self.top(tokens[:n], body.get("logprobs") or 0) for n in range(len(tokens))]
        logprobs: dict[str, Any] | None = {
            "tokens": tokens[start:],
            "token_logprobs": values[start:],
            "text_offset": offsets[start:],
            "top_logprobs": tops[start:],
        }
        if "short" in self.faults:
            logprobs = {name: part[:-1] for name, part in (logprobs or {}).items()}
        if "no numbers" in self.faults or (is_echoed and "no echo" in self.faults):
            logprobs = None
        usage = {"prompt_tokens": len(before), "completion_tokens": len(generated)}
        return {
            "model": body["model"],
            "choices": [
                {"text": "".join(generated), "finish_reason": "length", "logprobs": logprobs}
            ],
            "usage": usage,
        }

    def chatted(self, body: dict[str, Any]) -> dict[str, Any]:
        before = words(json.dumps(body["messages"]))
        generated = self.generated(before, body["max_tokens"])
        top = self.top(before, body.get("top_logprobs") or 0)
        content = [
            {"top_logprobs": [{"token": token, "logprob": value} for token, value in top.items()]}
        ]
        logprobs = {"content": content} if top and "no numbers" not in self.faults else None
        message = {"role": "assistant", "content": "".join(generated), **self.message}
        choice = {"message": message, "finish_reason": "stop", "logprobs": logprobs}
        return {"model": body["model"], "choices": [choice]}

    def generated(self, before: list[str], count: int) -> list[str]:
        made: list[str] = []
        for _ in range(min(count, 3)):
            words_before = before + made
            made.append(max(VOCABULARY, key=lambda word: logprob(words_before, word, self.weights)))
        return made

    def top(self, before: Sequence[str], count: int) -> dict[str, float]:
        """The likeliest words and their log-probabilities."""
        if "no letters" in self.faults:
            return {" w0": -0.1} if count else {}
        by_word = {word: logprob(before, word, self.weights) for word in VOCABULARY}
        return dict(sorted(by_word.items(), key=lambda pair: -pair[1])[:count])


@contextmanager
def served(stub: Stub, port: int = 0) -> Iterator[Stub]:
    """Serve a stub on this machine; its `url` is set."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the head of an answer and its body are sent apart

        def do_GET(self) -> None:
            self.send(200, {"data": [{"id": name, "root": "weights"} for name in stub.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with stub.lock:
                stub.at_once += 1
                stub.most_at_once = max(stub.most_at_once, stub.at_once)
                fault = stub.busy if len(stub.requests) >= stub.busy_from else 0
                stub.busy -= bool(fault)
            time.sleep(stub.delay)
            with stub.lock:
                stub.at_once -= 1
            if stub.key and self.headers.get("Authorization") != f"Bearer {stub.key}":
                self.send(
                    401, {"error": {"message": f"wrong key {self.headers.get('Authorization')}"}}
                )
            elif fault:
                self.fail(fault % 3)
            else:
                with stub.lock:
                    status, answer = stub.answer(self.path, body)
                self.send(status, answer)

        def fail(self, kind: int) -> None:
            if kind < 2:
                self.send((429, 500)[kind], {"error": {"message": "busy"}})
                return
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True

        def send(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            pass  # a client that went away

    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A served stub, with a cache of its own, and no waits between tries."""
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FORGETWATCH_API_KEY", raising=False)
    monkeypatch.setattr(client, "WAITS", (0.0,) * 8)
    with served(Stub()) as running:
        yield running


if __name__ == "__main__":  # stub_server.py PORT CHECKPOINT: another model at step 30
    if "checkpoint-20" in sys.argv[2]:
        sys.exit("no room for its weights")
    with served(Stub(weights=int("checkpoint-30" in sys.argv[2])), int(sys.argv[1])):
        time.sleep(600)
