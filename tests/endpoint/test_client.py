"""Addresses, keys, and requests that outlast a busy server."""

import pytest
from stub_server import Stub

from forgetwatch.endpoint import client as module
from forgetwatch.endpoint.address import Address, is_endpoint
from forgetwatch.endpoint.client import Client, RefusedError
from forgetwatch.errors import ScoringError


def post(stub: Stub) -> dict[str, object]:
    with Client(Address.of(f"{stub.url}#base")) as client:
        return client.ask("/completions", prompt="w1 w2", max_tokens=1)


def test_an_address_names_server_and_model() -> None:
    assert Address.of("http://host:8000#base") == Address("http://host:8000/v1", "base")
    assert Address.of("https://host/api/v3/") == Address("https://host/api/v3", "")
    assert Address.of("http://host#a/b").model == "a/b"
    assert is_endpoint("https://x")
    assert not is_endpoint("org/http")


@pytest.mark.parametrize("text", ["http://", "http://me:secret@host", "http://host?key=secret"])
def test_an_address_holds_no_secret(text: str) -> None:
    with pytest.raises(ScoringError) as error:
        Address.of(text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("busy", [1, 2, 3, 6])
def test_a_busy_server_is_asked_again(stub: Stub, busy: int) -> None:
    stub.busy = busy  # 429, 500 and a cut answer in turn
    assert post(stub)["choices"]
    assert len(stub.requests) == 1


def test_after_nine_tries_the_cause_is_said(stub: Stub) -> None:
    stub.busy = 100
    with pytest.raises(ScoringError, match=r"no answer to /completions in 9 tries \(") as error:
        post(stub)
    assert not isinstance(error.value, RefusedError)


def test_a_refusal_is_not_asked_again(stub: Stub) -> None:
    stub.faults = {"no completions"}
    with pytest.raises(RefusedError, match=r"refuses /completions \(404: Not Found\)") as error:
        post(stub)
    assert (error.value.status, len(stub.requests)) == (404, 1)


def test_no_server_shows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITS", (0.0,) * 8)
    with (
        Client(Address.of("http://127.0.0.1:9#x")) as client,
        pytest.raises(ScoringError, match="in 3 tries"),
    ):
        client.ask("/models")


def test_the_key_is_sent_and_in_no_message(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.key = "sk-right"
    monkeypatch.setenv("FORGETWATCH_API_KEY", "sk-wrong-42")
    with pytest.raises(RefusedError, match="401: wrong key Bearer ") as error:
        post(stub)
    assert "sk-wrong-42" not in str(error.value)
    monkeypatch.setenv("FORGETWATCH_API_KEY", "sk-right")
    assert post(stub)["choices"]


def test_a_known_name_of_a_key_is_for_its_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORGETWATCH_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-o")
    assert Address.of("https://api.openai.com/v1#m").key == "sk-o"
    assert Address.of("https://api.openai.com.example.org/v1#m").key == ""
    assert Address.of("http://localhost#m").key == ""
