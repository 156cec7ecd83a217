"""Worked examples come before each question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import tokenizer

from forgetwatch import Item, Probe, load_probe
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.probes import few_shot
from forgetwatch.scoring import render, render_prompt


def items(count: int = 8, **fields: Any) -> list[Item]:
    return [
        Item(
            id=str(n), task="ab"[n % 2], prompt=f"Q w{n}", choices=(f" w{n + 1}", f" w{n + 2}"), answer=n % 2, **fields
        )
        for n in range(count)
    ]


def test_examples_depend_on_the_question_and_exclude_it() -> None:
    made = items()
    one, turned = few_shot(Probe(made), made, shots=3), few_shot(Probe(made[::-1]), made[::-1], shots=3)
    assert {item.id: item.full_prompt for item in one} == {item.id: item.full_prompt for item in turned}
    assert len({item.full_prompt for item in one}) == 8
    for item, plain in zip(one, made, strict=True):
        *shown, last = str(item.full_prompt).split("\n\n")
        assert len(shown) == 3
        assert last == plain.prompt
        tasks = {made[int(text.split()[1][1:])].task for text in shown}
        assert tasks == {plain.task}  # enough of the own task
        assert all(not text.startswith(f"{plain.prompt} ") for text in shown)


def test_an_example_ends_in_the_requested_form() -> None:
    made = items(meta={"reasoning": "since so"})
    scored = few_shot(Probe(made), made, shots=1)
    assert str(scored[0].full_prompt).split("\n\n")[0].endswith((" w3", " w5", " w6", " w7", " w8"))
    letters = few_shot(Probe(made, scoring="letters"), made, shots=1)
    assert "\nB. w4\nAnswer: A\n\nQ w0" in str(letters[0].full_prompt) or "\nAnswer: A\n\nQ w0" in str(
        letters[0].full_prompt
    )
    assert render(letters[0], letters, tokenizer()).context.endswith("Answer:")
    written = few_shot(Probe(made, scoring="generate"), made, shots=1)
    text = render_prompt(written[0], written, tokenizer()).context
    assert "since so\nAnswer: A\n\nQ w0\nA. w1\nB. w2\nThink step by step" in text
    open_items = [Item(id=str(n), task="t", prompt=f"w{n} =", answer=f"w{n}", match="exact") for n in range(3)]
    assert str(few_shot(Probe(open_items), open_items, shots=1)[0].full_prompt).endswith("\n\nw0 =")


def test_in_a_chat_each_example_is_a_turn() -> None:
    made = items()
    probe = few_shot(Probe(made, scoring="generate", rendering="chat", decoding={"ask": "letter"}), made, shots=2)
    prompt = probe[0].prompt
    assert [message["role"] for message in prompt] == ["user", "assistant"] * 2 + ["user"]
    assert {message["content"] for message in prompt if message["role"] == "assistant"} <= {"A", "B"}
    assert prompt[-1]["content"] == "Q w0"
    assert "assistant : A user :" in render_prompt(probe[0], probe, tokenizer()).context


def test_too_few_examples_are_an_error() -> None:
    with pytest.raises(ProbeError, match="needed 5 examples other than itself, there are 2"):
        few_shot(Probe(items(3)), items(3))


def test_a_question_with_reordered_options_is_not_its_own_example() -> None:
    question = Item(id="0", task="t", prompt="Q w0", choices=(" w1", " w2"), answer=0)
    turned = Item(id="1", task="t", prompt="q  w0 ", choices=(" w2", " w1"), answer=1)
    other = Item(id="2", task="t", prompt="Q w0", choices=(" w3", " w4"), answer=1)
    (shown,) = few_shot(Probe([question]), [question, turned, other], shots=1)
    assert shown.full_prompt == "Q w0 w4\n\nQ w0"
    with pytest.raises(ProbeError, match="needed 1 examples other than itself, there are 0"):
        few_shot(Probe([question]), [turned], shots=1)


def test_a_generated_answer_stops_before_the_next_question() -> None:
    made = [Item(id=str(n), task="t", prompt=f"Question: w{n}?\nAnswer:", answer="w", match="exact") for n in range(4)]
    stops = few_shot(Probe(made, decoding={"stop": ["."]}), made, shots=1).decoding
    assert stops == Decoding(stop=(".", "\n\nQuestion:"))
    unlike = [*made, Item(id="x", task="t", prompt="w9 is", answer="w", match="exact")]
    assert few_shot(Probe(unlike), unlike, shots=1).decoding == Decoding()
    chat = few_shot(Probe(made, rendering="chat"), made, shots=1)
    assert chat.decoding == Decoding()
    scored = [Item(id=str(n), task="t", prompt=f"Question: w{n}", choices=(" a", " b"), answer=0) for n in range(3)]
    assert few_shot(Probe(scored), scored, shots=1).decoding is None


def test_in_a_chat_the_items_own_examples_stay_in_its_turn() -> None:
    made = items(shots="Q w50 w51\n\n")
    probe = few_shot(Probe(made, rendering="chat"), made, shots=1)
    assert probe[0].shots == ""
    assert probe[0].prompt[-1] == {"role": "user", "content": "Q w50 w51\n\nQ w0"}


@pytest.mark.parametrize("scoring", ["letters", "generate"])
def test_worked_examples_that_end_in_a_text_are_refused_where_letters_are_needed(scoring: Any) -> None:
    made = items(shots="Q w50 w51\n\n")
    Probe(made)
    with pytest.raises(ProbeError, match=f"worked examples .* end in the text of an option, and scoring='{scoring}'"):
        Probe(made, scoring=scoring)
    with pytest.raises(ProbeError, match="worked examples"):
        replace(load_probe("standard"), scoring=scoring, norm="sum")
    Probe(items(shots="Q w50\nA. w51\nB. w52\nAnswer: B\n\n"), scoring=scoring)
    Probe(few_shot(Probe(items(), scoring=scoring), items(), shots=2).items, scoring=scoring)
