"""What a server proves is asked of it, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from stub_server import Stub, logprob, words
from support import probe

from forgetwatch import Item, Probe
from forgetwatch.endpoint.address import Address
from forgetwatch.endpoint.asking import UnreadableError, echoed, letters
from forgetwatch.endpoint.client import Client
from forgetwatch.endpoint.route import Route, find_route
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Rendered


def route(stub: Stub, asked: Probe) -> Route:
    with Client(Address.of(f"{stub.url}#base")) as client:
        return find_route(client, asked)


def text(context: str) -> Rendered:
    return Rendered(context=context, choices=(), spellings=(), templated=False)


def test_a_server_that_echoes_is_asked_for_log_likelihoods(stub: Stub) -> None:
    found = route(stub, probe(10))
    assert found.way == "log-likelihood"
    assert found.line == "options by log-likelihood, proved on 4 questions"
    assert found.probe.scoring == "loglikelihood"


def test_a_start_token_that_the_text_has_not_moves_no_border(stub: Stub) -> None:
    stub.faults = {"start token"}
    assert route(stub, probe(10)).way == "log-likelihood"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("no echo", "it returns no log-probabilities of a prompt"),
        ("short", "log-probabilities for the"),
        ("zero", "every log-probability that it returns is 0"),
        ("alike", "it returns one number for unlike options"),
        ("shifted", "its log-probabilities are of other tokens than they stand at"),
        ("wrong offsets", "its offsets are not those of the text"),
        ("no completions", "it refuses log-probabilities of a prompt (404: Not Found)"),
    ],
)
def test_without_a_proof_the_letters_are_compared_and_the_cause_is_said(
    stub: Stub, fault: str, why: str
) -> None:
    stub.faults = {fault}
    found = route(stub, probe(10))
    assert found.way == "letters"
    assert found.probe.scoring == "letters"
    assert why in found.line


def test_without_numbers_of_letters_they_are_written(stub: Stub) -> None:
    stub.faults = {"no numbers"}
    found = route(stub, probe(10))
    assert (found.way, found.probe.scoring, found.probe.rendering) == (
        "written",
        "generate",
        "chat",
    )
    stub.faults |= {"no chat"}
    assert route(stub, probe(10)).probe.rendering == "plain"
    stub.faults |= {"no completions"}
    with pytest.raises(ScoringError, match="neither /completions nor /chat/completions"):
        route(stub, probe(10))


def test_letters_that_are_never_likely_are_written(stub: Stub) -> None:
    stub.faults = {"no echo", "no letters"}
    assert route(stub, probe(10)).way == "written"


def test_passages_need_the_numbers_of_a_prompt(stub: Stub) -> None:
    stub.faults = {"zero"}
    passages = Probe([Item(id="p", task="t", prompt="", choices=("w1 w2 w3",), answer=None)])
    with pytest.raises(
        ScoringError, match="'p' needs the log-probabilities of a prompt, and every"
    ):
        route(stub, passages)
    stub.faults = set()
    assert route(stub, passages).way == "log-likelihood"


@pytest.mark.parametrize("norm", ["unconditional"])
def test_what_a_server_cannot_measure_is_asked_by_letters(stub: Stub, norm: str) -> None:
    found = route(stub, replace(probe(10), norm=norm))
    assert found.way == "letters"
    assert "without their prompt" in found.line


def test_worked_examples_are_left_out_where_letters_are_asked(stub: Stub) -> None:
    stub.faults = {"no echo"}
    shot = Item(
        id="s",
        task="t",
        prompt="Q: w1\nA:",
        choices=(" w2", " w3"),
        answer=0,
        shots="Q: w5\nA: w6\n\n",
    )
    asked = route(stub, Probe([shot])).probe
    assert asked[0].shots == ""


def test_a_token_across_the_border_belongs_to_the_end(stub: Stub) -> None:
    with Client(Address.of(f"{stub.url}#base")) as client:
        end = echoed(client, text("w1 w2"), "x w3")
        assert (end.ending, end.tokens) == (" w2x w3", 2)
        spaced = echoed(client, text("w1 w2 "), "w3")
        assert (spaced.ending, spaced.tokens) == (" w3", 1)
        tokens = words("w1 w2x w3")
        assert end.logprob == logprob(tokens[:1], tokens[1]) + logprob(tokens[:2], tokens[2])


def test_a_letter_that_is_not_among_the_likeliest_has_their_bound(stub: Stub) -> None:
    with Client(Address.of(f"{stub.url}#base")) as client:
        everything, _ = letters(client, text("w1"), 4, top=16)
        likeliest, is_seen = letters(client, text("w1"), 4, top=8)
        assert is_seen
        top = stub.top(words("w1"), 8)
        for letter, whole, number in zip("ABCD", everything, likeliest, strict=True):
            spelled = [top[word] for word in (letter, f" {letter}") if word in top]
            assert number == (
                pytest.approx(np.logaddexp.reduce(spelled)) if spelled else min(top.values())
            )
            assert number <= whole or not spelled
        stub.faults = {"no numbers"}
        with pytest.raises(UnreadableError):
            letters(client, text("w1"), 2, top=8)
