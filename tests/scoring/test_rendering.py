from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import tokenizer

from forgetwatch import Item, Probe
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import render, render_prompt

QUESTION = Item(id="1", task="t", prompt="Q : w1", choices=(" w2 w3", " w4"), answer=0)
CHAT = ({"role": "user", "content": "w5"}, {"role": "assistant", "content": "w6"}, {"role": "user", "content": "w1"})
NEEDS_W = "{% if messages[-1].content[0] != 'w' %}{{ raise_exception('no') }}{% endif %}"
"""Beginning of a template that refuses some questions."""


def rendered(item: Item, **settings: Any) -> Any:
    return render(item, Probe([item], **settings), tokenizer())


def test_plain_log_likelihood_leaves_prompt_and_choices_unchanged() -> None:
    made = rendered(QUESTION)
    assert (made.context, made.choices, made.templated) == ("Q : w1", (" w2 w3", " w4"), False)
    assert made.spellings == ((), ())


def test_worked_examples_come_before_the_prompt() -> None:
    item = replace(QUESTION, shots="Q : w5 w6\n\n")
    assert rendered(item).context == "Q : w5 w6\n\nQ : w1"
    assert rendered(item, rendering="chat").context.count("Q : w5 w6\n\nQ : w1") == 1


def test_letters_list_the_choices_in_the_prompt() -> None:
    made = rendered(QUESTION, scoring="letters")
    assert made.context == "Q : w1\nA. w2 w3\nB. w4\nAnswer:"
    assert made.choices == (" A", " B")
    assert made.spellings == (("A",), ("B",))


def test_choices_that_are_letters_are_not_listed_again() -> None:
    made = rendered(replace(QUESTION, prompt="... A. x B. y Answer:", choices=("A", "B")), scoring="letters")
    assert made.context == "... A. x B. y Answer:"
    assert made.choices == ("A", "B")
    assert made.spellings == ((" A",), (" B",))


def test_chat_wraps_the_prompt_and_the_letter_has_no_space() -> None:
    item = replace(QUESTION, prompt="w1", choices=(" w2", " w3"), system="w9")
    made = rendered(item, scoring="letters", rendering="chat")
    assert made.context.startswith("system : w9 user : w1\nA. w2\nB. w3\n")
    assert made.context.endswith("assistant :")
    assert made.choices == ("A", "B")
    assert made.templated


def test_chat_messages_keep_their_order_and_the_options_follow_the_last() -> None:
    made = rendered(replace(QUESTION, prompt=CHAT, choices=("w7", "w8")), scoring="letters", rendering="chat")
    assert made.context.startswith("user : w5 assistant : w6 user : w1\nA. w7\nB. w8\n")
    assert CHAT[2]["content"] == "w1"


@pytest.mark.parametrize(
    ("template", "prompt", "system", "reason"),
    [
        ("hello", "w1", None, "the question"),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "w1", "w9", "the system message"),
        ("{{ messages[-1].content }}", CHAT, None, "message 1, of the user"),
        ("{{ messages[0].content }}{{ messages[1].content }}", CHAT, None, "the question"),
        (NEEDS_W + "hello", "w1", None, "the question"),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", CHAT, None, "message 2, of the as"),
    ],
)
def test_a_template_that_drops_a_part_of_an_item_leaves_it_unscored(
    template: str, prompt: Any, system: str | None, reason: str
) -> None:
    item, tok = replace(QUESTION, prompt=prompt, system=system), tokenizer()
    tok.chat_template = template
    probe = Probe([item], rendering="chat")
    for made in (render(item, probe, tok), render_prompt(item, probe, tok)):
        assert made.unscored.startswith(f"the chat template leaves out {reason}")


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content | trim }}\n{% endfor %}",
        "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
        NEEDS_W + "{% for m in messages %}{{ m.content }}{% endfor %}",
    ],
)
def test_a_template_that_changes_texts_or_asks_for_something_drops_nothing(template: str) -> None:
    item, tok = replace(QUESTION, prompt=CHAT, system="w9"), tokenizer()
    tok.chat_template = template
    assert render(item, Probe([item], rendering="chat"), tok).unscored == ""


def test_parts_of_a_message_and_messages_without_text_are_no_text_that_was_dropped() -> None:
    parts = ({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "w1"}]},)
    silent = ({"role": "assistant", "content": ""}, {"role": "user", "content": "w1"})
    tok = tokenizer()
    tok.chat_template = (
        "{% for m in messages %}{% if m.tool_calls %}call{% elif m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}"
    )
    calls = ({"role": "assistant", "content": "w5", "tool_calls": [{"name": "f"}]}, {"role": "user", "content": "w1"})
    for prompt in (parts, silent, calls):
        item = replace(QUESTION, prompt=prompt)
        assert render(item, Probe([item], rendering="chat"), tok).unscored == ""


def test_a_template_that_refuses_is_a_clear_error() -> None:
    tok = tokenizer()
    tok.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ScoringError, match=r"item '1'.*System role not supported"):
        render(QUESTION, Probe([QUESTION], rendering="chat"), tok)


def test_chat_needs_a_template() -> None:
    probe = Probe([QUESTION], rendering="chat")
    with pytest.raises(ScoringError, match="no chat template"):
        render(QUESTION, probe, tokenizer(template=False))
