"""Questions in several wordings on a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import facts, model, tokenizer

from forgetwatch import Item, Probe, score
from forgetwatch.errors import ScoringError
from forgetwatch.item import Wording
from forgetwatch.probes import WORDINGS, worded
from forgetwatch.scoring.encoding import check_wordings, encode

SHORT, _, _, CHAT = WORDINGS


def asked(**settings: Any) -> Probe:
    return worded(Probe(facts(12), **settings), "each", [Wording(name="said", beginning="You say :"), CHAT])


def test_a_snapshot_names_the_wording_and_scores_what_it_asks() -> None:
    tok = tokenizer()
    network, items = model(tok), asked()
    found = score(network, tok, items)
    assert found.texts("wording").tolist()[:3] == ["shipped", "said", "chat"]
    assert len(set(found.texts("content_hash").tolist())) == 12
    assert len(set(found.texts("prompt_hash").tolist())) == len(items)
    said = [item for item in items if item.wording and item.wording.name == "said"]
    written = [
        replace(item, wording=None, prompt=str(item.full_prompt), id=f"written {item.id}", cluster=None)
        for item in said
    ]
    plain = score(network, tok, Probe(written))
    of_said = [row for row, name in enumerate(found.texts("wording")) if name == "said"]
    logprobs = found.table["choice_logprobs"].to_pylist()
    for row, expected in zip(of_said, plain.table["choice_logprobs"].to_pylist(), strict=True):
        assert logprobs[row] == pytest.approx(expected, abs=1e-4)


def test_chat_without_a_template_is_refused() -> None:
    tok = tokenizer(template=False)
    with pytest.raises(ScoringError, match="the tokenizer has no chat template"):
        score(model(tok), tok, asked())


class Gluing:
    """A tokenizer that reads a hyphen and what follows it as one word."""

    chat_template = None
    bos_token_id = eos_token_id = 0

    def __call__(self, texts: Any, **_: Any) -> Any:
        many = [texts] if isinstance(texts, str) else texts
        ids = [[1 + sum(map(ord, word)) % 5000 for word in text.replace("- ", "-").split()] for text in many]
        return {"input_ids": ids[0] if isinstance(texts, str) else ids}


def test_a_frame_that_changes_the_tokens_of_the_options_is_refused() -> None:
    glued = replace(SHORT, name="glued", frame="Q: {question} -")
    item = Item(id="a", task="t", prompt="Question: Which?\nAnswer:", choices=[" this", " that"], answer=0)
    items = Probe([item, replace(item, id="b", wording=SHORT), replace(item, id="c", wording=glued)])
    tok: Any = Gluing()
    encoded = encode(items, tok, max_length=100)
    with pytest.raises(ScoringError, match="the wording 'glued' changes the tokens of the options of item 'c'"):
        check_wordings(items, encoded, tok, max_length=100)
    fits = items.with_items(items.items[:2])
    check_wordings(fits, encode(fits, tok, max_length=100), tok, max_length=100)


def test_wordings_are_scored_alike_whatever_their_order() -> None:
    tok = tokenizer()
    network, items = model(tok), worded(Probe(facts(), name="facts"), "one", [Wording(name="said", beginning="So :")])
    one = score(network, tok, items)
    other = score(network, tok, items.with_items(items.items[::-1]))
    assert one.floats("correct").tolist() == other.floats("correct").tolist()[::-1]
