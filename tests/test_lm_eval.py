"""The scorer inside lm-evaluation-harness, against the harness's own model class."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import torch
from support import WORDS, model, tokenizer

from forgetwatch.errors import ForgetwatchError

TOK = tokenizer()


def engines(network: Any) -> tuple[Any, Any]:
    from lm_eval.models.huggingface import HFLM

    from forgetwatch.lm_eval import ForgetwatchLM

    options = {"pretrained": network, "tokenizer": TOK, "batch_size": 4, "max_length": 24}
    return HFLM(**options), ForgetwatchLM(**options)


def requests(contexts: int) -> list[Any]:
    """Four continuations of each context, some of one token, one of them twice; some contexts too long."""
    from lm_eval.api.instance import Instance

    rng = random.Random(2)
    made = []
    for number in range(contexts):
        context = " ".join(rng.choices(WORDS, k=3 + 4 * (number % 7)))
        choices = [" " + " ".join(rng.choices(WORDS, k=1 + choice)) for choice in range(3)]
        made += [Instance("loglikelihood", {}, (context, choice), number) for choice in (*choices, choices[0])]
    return made


def test_log_likelihoods_and_greedy_flags_are_the_harnesss() -> None:
    theirs, ours = engines(model(TOK).eval())
    asked = requests(21)
    expected, found = theirs.loglikelihood(asked, disable_tqdm=True), ours.loglikelihood(asked, disable_tqdm=True)
    assert [one for one, _ in found] == pytest.approx([one for one, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert ours._layout is None  # shared rows are tested again at every call


def test_continuations_of_greedy_decoding_are_flagged() -> None:
    from lm_eval.api.instance import Instance

    network = model(TOK).eval()
    ids = TOK("w1 w2 w3")["input_ids"]
    with torch.no_grad():
        for _ in range(3):
            ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
    written = " " + TOK.decode(ids[3:])
    asked = [Instance("loglikelihood", {}, ("w1 w2 w3", text), 0) for text in (written, " w9 w9 w9")]
    (_, first), (_, second) = engines(network)[1].loglikelihood(asked, disable_tqdm=True)
    assert (first, second) == (True, False)


def test_rolling_log_likelihoods_are_the_harnesss() -> None:
    from lm_eval.api.instance import Instance

    text = " ".join(random.Random(1).choices(WORDS, k=50))
    asked = [Instance("loglikelihood_rolling", {}, (text,), 0)]
    theirs, ours = engines(model(TOK).eval())
    expected = theirs.loglikelihood_rolling(asked, disable_tqdm=True)
    assert ours.loglikelihood_rolling(asked, disable_tqdm=True) == pytest.approx(expected, abs=1e-3)


def test_a_sharded_model_is_left_to_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model(TOK).eval()
    theirs, ours = engines(network)
    asked = requests(3)
    monkeypatch.setattr("forgetwatch.lm_eval.Engine", None)  # would fail if it were used
    next(network.parameters()).ds_id = 0  # type: ignore[attr-defined]
    assert ours.loglikelihood(asked, disable_tqdm=True) == theirs.loglikelihood(asked, disable_tqdm=True)


def test_without_the_harness_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", None)
    monkeypatch.delitem(sys.modules, "forgetwatch.lm_eval", raising=False)
    with pytest.raises(ForgetwatchError, match=r"pip install 'forgetwatch\[harness\]'"):
        import forgetwatch.lm_eval  # noqa: F401
