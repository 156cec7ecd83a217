"""The same question in other words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from forgetwatch import Item, Probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes import WORDINGS, Wording, load_probe, reworded, worded_probe, wordings_of

SHORT, RIGHT, BARE = WORDINGS
SHOTS = "Question: Where do bats hang?\nAnswer: in caves\n\nQuestion: How does sandpaper feel?\nAnswer: rough\n\n"


def item(prompt: str = "Question: What is\na whisk for?\nAnswer:", **more: Any) -> Item:
    given: dict[str, Any] = {"id": "a", "task": "t", "choices": [" eggs", " wood"], "answer": 0, "shots": SHOTS, **more}
    return Item(prompt=prompt, **given)


def test_the_frame_changes_and_question_options_and_key_stay() -> None:
    found = reworded(item(), SHORT)
    assert found is not None
    assert found.prompt == "Q: What is\na whisk for?\nA:"
    assert found.shots == "Q: Where do bats hang?\nA: in caves\n\nQ: How does sandpaper feel?\nA: rough\n\n"
    assert (found.choices, found.answer, found.id, found.task) == ((" eggs", " wood"), 0, "a", "t")
    assert found.content_hash != item().content_hash
    right = reworded(item(), RIGHT)
    assert right is not None
    assert right.prompt == "What is\na whisk for?\nThe right answer is:"
    bare = reworded(item(), BARE)
    assert bare is not None
    assert (bare.prompt, bare.shots) == (item().prompt, "")


def test_a_sentence_that_the_options_continue_gets_a_beginning() -> None:
    gap = item("My friend and I", shots="")
    assert [found.prompt for one in WORDINGS if (found := reworded(gap, one))] == [
        "Complete: My friend and I",
        "Here is a sentence. My friend and I",
        "It says: My friend and I",
    ]


def test_what_cannot_be_asked_otherwise_has_no_wording() -> None:
    for one in (
        Item(id="p", task="t", prompt="", choices=["a text"]),
        Item(id="o", task="t", prompt="Question: 1 + 1?\nAnswer:", answer="2", match="number"),
        Item(id="c", task="t", prompt=[{"role": "user", "content": "Which?"}], choices=[" a", " b"], answer=0),
        item(shots="An example in words.\n\n"),
    ):
        assert reworded(one, SHORT) is None
    assert reworded(item(shots=""), BARE) is None  # nothing changes
    letters = Probe([item(shots="")], scoring="letters")
    assert worded_probe(letters, letters.items, [SHORT]) == (None, [])
    chat = Probe([item(shots="")], rendering="chat")
    assert worded_probe(chat, chat.items, [SHORT])[0] is None


def test_every_question_of_the_shipped_probe_has_three_other_wordings() -> None:
    probe = load_probe("standard")
    asked, kept = worded_probe(probe, probe.items, WORDINGS)
    assert asked is not None
    gaps = sum(not one.shots for one in probe)
    assert len(kept) == len(probe)
    assert len(asked) == 3 * len(probe)
    assert len({one.content_hash for one in asked}) == len(asked)
    assert gaps == 38
    assert asked.fingerprint != probe.fingerprint


def test_items_are_named_by_their_wording_and_never_block_a_release() -> None:
    probe = Probe([item(must_pass=True), item(id="b", shots="No frame.\n\n")])
    asked, kept = worded_probe(probe, probe.items, [SHORT, RIGHT])
    assert asked is not None
    assert [one.id for one in asked] == ["a@short", "a@right"]
    assert [one.id for one in kept] == ["a"]
    assert not any(one.must_pass for one in asked)
    assert asked.name == "probe in 2 other wordings"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Wording(name="x", frame="Tell me:"), "needed {question} once in its frame"),
        (lambda: Wording(name="x", frame="{question} {question}\nA:"), "needed {question} once"),
        (lambda: Wording(name="x", frame="{question}\nA: "), "its frame ends in a space"),
        (lambda: wordings_of(["shrot"]), "wording 'shrot': needed some of short, right, bare"),
        (lambda: wordings_of(["short", "short"]), "each once, got short, short"),
        (lambda: wordings_of([]), "got none"),
    ],
)
def test_what_is_no_wording_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        make()
