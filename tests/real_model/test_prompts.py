"""Prompts of the shipped probe in a real tokenizer: their text, and the tokens of the choices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forgetwatch import Probe, load_probe
from forgetwatch.scoring import Encoded, encode


def encoded(tok: Any, rendering: Any) -> tuple[Probe, list[Encoded]]:
    probe = replace(load_probe("standard"), rendering=rendering)
    return probe, encode(probe, tok, max_length=8192)


def test_a_plain_prompt_is_the_text_of_the_question(tok: Any) -> None:
    probe, items = encoded(tok, "plain")
    assert [tok.decode(one.context) for one in items] == [item.full_prompt for item in probe]


def test_a_chat_prompt_is_the_template_with_the_question_as_the_users_turn(tok: Any) -> None:
    probe, items = encoded(tok, "chat")
    header = tok.apply_chat_template([{"role": "user", "content": "@"}], tokenize=False, add_generation_prompt=True)
    opening, closing = header.split("@")
    assert closing.strip() != ""
    assert [tok.decode(one.context) for one in items] == [f"{opening}{item.full_prompt}{closing}" for item in probe]


@pytest.mark.parametrize("rendering", ["plain", "chat"])
def test_every_choice_keeps_its_own_tokens(tok: Any, rendering: str) -> None:
    probe, items = encoded(tok, rendering)
    assert not any(one.unscored for one in items)
    merged = []
    for item, one in zip(probe, items, strict=True):
        for choice, ids in zip(item.choices or (), one.choices, strict=True):
            whole = tok.decode(one.context) + choice
            # Together they are the tokens of the whole text, and the border of the texts is a border of tokens.
            assert tuple(tok(whole, add_special_tokens=False).input_ids) == one.context + ids
            merged += [(item.id, choice)] if tok.decode(ids) != choice else []
    assert merged == []
