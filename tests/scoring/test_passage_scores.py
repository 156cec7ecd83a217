"""Log-likelihoods of passages: those of a plain forward over the whole text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from passage_texts import passages
from ranks import in_processes
from support import WORDS, model, probe, tokenizer

from forgetwatch import Item, Probe, score
from forgetwatch.measures import snapshot_bits
from forgetwatch.scoring import Scorer, encode


def plain_forward(network: Any, ids: list[int]) -> float:
    """Log-likelihood of all ids but the first, by one forward of the model."""
    with torch.no_grad():
        logprobs = network.eval()(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return float(sum(logprobs[at - 1, token] for at, token in enumerate(ids) if at))


@pytest.mark.parametrize("bos", [False, True])
def test_a_text_is_scored_from_its_first_token_on_after_bos(bos: bool) -> None:
    tok = tokenizer(bos=bos)
    network, texts = model(tok), passages()
    rows = score(network, tok, Probe(texts)).table.to_pylist()
    for item, row in zip(texts, rows, strict=True):
        ids = tok(item.choices[0], add_special_tokens=False)["input_ids"]
        expected = plain_forward(network, [tok.bos_token_id, *ids])
        assert row["choice_logprobs"] == pytest.approx([expected], abs=1e-4)
        assert row["choice_bytes"] == row["choice_chars"] == [len(item.choices[0])]
        assert row["choice_tokens"] == [len(ids)]


def test_eos_stands_for_a_missing_bos() -> None:
    tok = tokenizer()
    tok.bos_token = None
    assert encode(Probe(passages(1)), tok, max_length=128)[0].context == (tok.eos_token_id,)


def test_without_a_start_token_the_first_token_is_not_scored_and_its_bytes_do_not_count() -> None:
    tok = tokenizer()
    tok.bos_token = tok.eos_token = None
    network, texts = model(tok), passages()
    rows = score(network, tok, Probe(texts)).table.to_pylist()
    for item, row in zip(texts, rows, strict=True):
        ids = tok(item.choices[0], add_special_tokens=False)["input_ids"]
        assert row["choice_logprobs"] == pytest.approx([plain_forward(network, ids)], abs=1e-4)
        assert row["choice_bytes"] == [len(item.choices[0]) - len(item.choices[0].split()[0])]
        assert row["choice_tokens"] == [len(ids) - 1]


def test_bytes_are_those_of_utf_8_with_a_leading_space() -> None:
    tok = tokenizer()
    text = " w1 größe 数学"
    row = score(model(tok), tok, Probe([Item(id="1", task="t", prompt="", choices=(text,))])).table.to_pylist()[0]
    assert (row["choice_chars"], row["choice_bytes"]) == ([len(text)], [len(text.encode())])


def test_a_passage_has_no_outcome_and_is_not_unscored() -> None:
    tok = tokenizer()
    found = score(model(tok), tok, Probe([*probe(6), *passages(3)]))
    assert found.is_passage.tolist() == [False] * 6 + [True] * 3
    assert not found.is_unscored.any()
    row = found.table.to_pylist()[-1]
    nothing = ("k", "gold", "golds", "chosen", "correct", "gold_share", "option_mass", "free_correct", "margin")
    assert all(row[name] is None for name in (*nothing, "unstable", "output"))
    assert row["outcome"] == "ok"
    assert math.isfinite(snapshot_bits(found))


def test_a_text_beyond_the_context_is_unscored_with_the_reason() -> None:
    tok = tokenizer()
    long = Item(id="long", task="t", prompt="", choices=(" ".join(WORDS[:60]),))
    found = score(model(tok, positions=48), tok, Probe([long, *passages(2)]))
    assert found.texts("outcome")[0] == "unscored: 60 tokens, and the model reads 48"
    assert found.is_unscored.tolist() == [True, False, False]


@pytest.mark.parametrize("norm", ["bytes", "unconditional"])
def test_no_norm_changes_a_passage(norm: Any) -> None:
    tok = tokenizer()
    network = model(tok)
    one, other = (score(network, tok, Probe([*probe(4), *passages(3)], norm=n)) for n in ("sum", norm))
    values = [[row[0] for row in side.table["choice_logprobs"].to_pylist()[4:]] for side in (one, other)]
    assert values[0] == pytest.approx(values[1], abs=1e-4)
    assert other.is_passage.sum() == 3


def test_questions_are_scored_as_they_are_without_passages() -> None:
    tok = tokenizer()
    network = model(tok)
    alone, beside = score(network, tok, probe(12)), score(network, tok, Probe([*passages(4), *probe(12)], name="both"))
    for one, other in zip(alone.table.to_pylist(), beside.table.to_pylist()[4:], strict=True):
        assert other["choice_logprobs"] == pytest.approx(one["choice_logprobs"], abs=1e-5)
        assert (other["chosen"], other["content_hash"]) == (one["chosen"], one["content_hash"])


def test_several_processes_get_the_rows_of_one(tmp_path: Path) -> None:
    script = """
from support import model, probe, tokenizer
from passage_texts import passages
from forgetwatch import Probe
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()
scorer = Scorer(Probe([*probe(9), *passages()]), tok, model(tok), token_budget=60)
found["checksum"] = scorer.score(model(tok)).checksum
"""
    tok = tokenizer()
    alone = Scorer(Probe([*probe(9), *passages()]), tok, model(tok), token_budget=60).score(model(tok)).checksum
    assert [found["checksum"] for found in in_processes(script, tmp_path)] == [alone, alone]
