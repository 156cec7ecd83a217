"""The same question in other words.

Worked examples come before each question.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import tokenizer

from forgetwatch import Item, Probe
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.wordings import WORDINGS, reworded, worded, worded_probe, wordings_of
from forgetwatch.probes.worked_examples import few_shot
from forgetwatch.scoring.encoding import render, render_prompt
from forgetwatch.wording import Wording

SHORT, RIGHT, BARE, CHAT = WORDINGS
SHOTS = "Question: Where do bats hang?\nAnswer: in caves\n\nQuestion: How does sandpaper feel?\nAnswer: rough\n\n"


def item(prompt: str = "Question: What is\na whisk for?\nAnswer:", **more: Any) -> Item:
    given: dict[str, Any] = {
        "id": "a",
        "task": "t",
        "choices": [" eggs", " wood"],
        "answer": 0,
        "shots": SHOTS,
        **more,
    }
    return Item(prompt=prompt, **given)


def test_the_frame_changes_and_question_options_and_key_stay() -> None:
    found = reworded(item(), SHORT)
    assert found is not None
    examples = "Q: Where do bats hang?\nA: in caves\n\nQ: How does sandpaper feel?\nA: rough\n\n"
    assert found.full_prompt == f"{examples}Q: What is\na whisk for?\nA:"
    assert replace(found, wording=None) == item()
    assert found.content_hash == item().content_hash
    right, bare, chat = (reworded(item(), one) for one in (RIGHT, BARE, CHAT))
    assert right is not None
    assert str(right.full_prompt).endswith("\n\nWhat is\na whisk for?\nThe right answer is:")
    assert bare is not None
    assert bare.full_prompt == item().prompt
    assert chat is not None
    assert chat.full_prompt == "What is\na whisk for?"
    assert Probe([chat]).rendering_of(chat) == "chat"


def test_a_sentence_that_the_options_continue_gets_a_beginning() -> None:
    gap = item("My friend and I", shots="")
    assert [found.full_prompt for one in WORDINGS if (found := reworded(gap, one))] == [
        "Complete: My friend and I",
        "Here is a sentence. My friend and I",
        "It says: My friend and I",
        "My friend and I",
    ]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Translate into French: dog\nAnswer:", "Q: Translate into French: dog\nA:"),
        ("Which law is meant: E = mc2?\nAnswer:", "Q: Which law is meant: E = mc2?\nA:"),
        ("Learning Day: what to know\nIt is soon.\n\nQuestion: When?\nAnswer:", None),
        ("Question: 1\n\nQuestion: 2\nAnswer:", "Question: 1\n\nQ: 2\nA:"),
        ("Complete the saying: the early bird catches\nwhat? Answer:", ""),
        ("def f(x):\n    return", ""),
        ("Capital of Chile?", ""),
        ("Pregunta: ¿Dónde?\nRespuesta:", ""),
        ("The cat sat on the", "Complete: The cat sat on the"),
    ],
)
def test_a_question_stays_whole_and_one_whose_beginning_is_not_clear_has_no_wording(
    prompt: str, asked: str | None
) -> None:
    found = reworded(item(prompt, shots=""), SHORT)
    expected = "Learning Day: what to know\nIt is soon.\n\nQ: When?\nA:" if asked is None else asked
    assert (found.full_prompt if found else "") == expected


def test_what_cannot_be_asked_otherwise_has_no_wording() -> None:
    for one in (
        Item(id="p", task="t", prompt="", choices=["a text"]),
        Item(id="o", task="t", prompt="Question: 1 + 1?\nAnswer:", answer="2", match="number"),
        Item(
            id="c",
            task="t",
            prompt=[{"role": "user", "content": "Which?"}],
            choices=[" a", " b"],
            answer=0,
        ),
        item(shots="An example in words.\n\n"),
    ):
        assert reworded(one, SHORT) is None
    assert reworded(item(shots=""), BARE) is None  # nothing changes
    letters = Probe([item(shots="")], scoring="letters")
    assert worded_probe(letters, letters.items, [SHORT]) == (None, [])
    chat = Probe([item(shots="")], rendering="chat")
    assert worded_probe(chat, chat.items, [SHORT])[0] is None


def test_every_question_of_the_shipped_probe_has_four_other_wordings() -> None:
    probe = load_probe("standard")
    asked, kept = worded_probe(probe, probe.items, WORDINGS)
    assert asked is not None
    gaps = sum(not one.shots for one in probe)
    assert len(kept) == len(probe)
    assert len(asked) == 4 * len(probe)
    assert len({one.full_prompt for one in asked if one.wording is not CHAT}) == 3 * len(probe)
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
        (
            lambda: Wording(name="shipped", frame="{question}\nA:"),
            "a wording needs a name other than 'shipped'",
        ),
        (lambda: Wording(name="x", shots="no"), "shots must be true or false, got 'no'"),  # type: ignore[arg-type]
        (
            lambda: Wording.from_json({"name": "x", "fram": "y"}),
            "unknown field 'fram', did you mean 'frame'",
        ),
        (lambda: Wording.from_json({"frame": "{question}\nA:"}), "a wording needs a name"),
        (
            lambda: wordings_of(["shrot"]),
            "wording 'shrot': needed some of short, right, bare, chat",
        ),
        (lambda: wordings_of(["short", "short"]), "each once, got short, short"),
        (lambda: wordings_of([]), "got none"),
    ],
)
def test_what_is_no_wording_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        make()


def questions(count: int, **more: Any) -> Probe:
    items = (
        item(f"Question: {n}?\nAnswer:", id=str(n), category="ab"[n % 2], **more)
        for n in range(count)
    )
    return Probe(tuple(items), name="mine")


def test_one_wording_an_item_is_that_of_its_hash_in_every_selection() -> None:
    plain, asked = questions(600), worded(questions(600), "one")
    assert [(one.id, one.content_hash) for one in asked] == [
        (one.id, one.content_hash) for one in plain
    ]
    count = Counter(one.wording and one.wording.name for one in asked)
    assert set(count) == {"shipped", "short", "right"}
    assert min(count.values()) > 150
    assert asked.fingerprint != plain.fingerprint
    few = worded(plain.with_items(plain.items[50::-1]), "one")
    of_all = {one.id: one.wording for one in asked}
    assert all(one.wording == of_all[one.id] for one in few)


def test_each_wording_has_an_id_and_the_question_is_one() -> None:
    asked = worded(questions(4), "each")
    assert [one.id for one in asked][:4] == ["0", "0@short", "0@right", "1"]
    assert len({one.content_hash for one in asked}) == 4
    assert len({(one.content_hash, one.wording) for one in asked}) == len(asked) == 12


def test_a_file_keeps_wordings_and_a_name_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    questions(5).save(path)
    asked = load_probe(f"{path}@each")
    asked.save(tmp_path / "asked.jsonl")
    assert load_probe(tmp_path / "asked.jsonl").fingerprint == asked.fingerprint
    assert (
        load_probe(f"{path}@one", limit=3).fingerprint
        == worded(load_probe(path).head(3), "one").fingerprint
    )
    with pytest.raises(ProbeError, match="its items have wordings already"):
        load_probe(f"{tmp_path / 'asked.jsonl'}@one")


def test_items_that_must_pass_are_asked_as_they_are_written() -> None:
    first, *rest = questions(3)
    asked = worded(Probe([replace(first, must_pass=True), *rest]), "each")
    assert [one.id for one in asked] == ["0", "1", "1@short", "1@right", "2", "2@short", "2@right"]
    with pytest.raises(ProbeError, match="an item that must pass is asked as it is written"):
        replace(rest[0], wording=SHORT, must_pass=True)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: worded(questions(3, must_pass=True), "one"), "no item has other wordings"),
        (lambda: worded(Probe([item()], rendering="chat"), "one"), "no item has other wordings"),
        (lambda: worded(questions(3), "all"), "wordings must be one of one, each, got 'all'"),  # type: ignore[arg-type]
        (
            lambda: worded(questions(3), "each", [SHORT, replace(SHORT, name="same")]),
            "the wordings 'short' and 'same' have equal frames",
        ),
        (
            lambda: Probe(
                [item(wording=SHORT), item(id="b", wording=replace(RIGHT, name="short"))]
            ),
            "two wordings are called 'short'",
        ),
        (
            lambda: Probe([item(wording=SHORT, shots="")], scoring="letters"),
            "a wording is for scored options of plain prompts",
        ),
        (
            lambda: item(shots="No frame.\n\n", wording=SHORT),
            "the wording 'short' does not fit its prompt",
        ),
        (
            lambda: item(prompt=[{"role": "user", "content": "?"}], shots="", wording=SHORT),
            "a wording is for a plain",
        ),
    ],
)
def test_wordings_that_cannot_be_asked_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        make()


def items(count: int = 8, **fields: Any) -> list[Item]:
    return [
        Item(
            id=str(n),
            task="ab"[n % 2],
            prompt=f"Q w{n}",
            choices=(f" w{n + 1}", f" w{n + 2}"),
            answer=n % 2,
            **fields,
        )
        for n in range(count)
    ]


def test_examples_depend_on_the_question_and_exclude_it() -> None:
    made = items()
    one, turned = (
        few_shot(Probe(made), made, shots=3),
        few_shot(Probe(made[::-1]), made[::-1], shots=3),
    )
    assert {item.id: item.full_prompt for item in one} == {
        item.id: item.full_prompt for item in turned
    }
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
    assert "\nB. w4\nAnswer: A\n\nQ w0" in str(
        letters[0].full_prompt
    ) or "\nAnswer: A\n\nQ w0" in str(letters[0].full_prompt)
    assert render(letters[0], letters, tokenizer()).context.endswith("Answer:")
    written = few_shot(Probe(made, scoring="generate"), made, shots=1)
    text = render_prompt(written[0], written, tokenizer()).context
    assert "since so\nAnswer: A\n\nQ w0\nA. w1\nB. w2\nThink step by step" in text
    open_items = [
        Item(id=str(n), task="t", prompt=f"w{n} =", answer=f"w{n}", match="exact") for n in range(3)
    ]
    assert str(few_shot(Probe(open_items), open_items, shots=1)[0].full_prompt).endswith("\n\nw0 =")


def test_in_a_chat_each_example_is_a_turn() -> None:
    made = items()
    probe = few_shot(
        Probe(made, scoring="generate", rendering="chat", decoding={"ask": "letter"}), made, shots=2
    )
    prompt = probe[0].prompt
    assert [message["role"] for message in prompt] == ["user", "assistant"] * 2 + ["user"]
    assert {message["content"] for message in prompt if message["role"] == "assistant"} <= {
        "A",
        "B",
    }
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
    made = [
        Item(id=str(n), task="t", prompt=f"Question: w{n}?\nAnswer:", answer="w", match="exact")
        for n in range(4)
    ]
    stops = few_shot(Probe(made, decoding={"stop": ["."]}), made, shots=1).decoding
    assert stops == Decoding(stop=(".", "\n\nQuestion:"))
    unlike = [*made, Item(id="x", task="t", prompt="w9 is", answer="w", match="exact")]
    assert few_shot(Probe(unlike), unlike, shots=1).decoding == Decoding()
    chat = few_shot(Probe(made, rendering="chat"), made, shots=1)
    assert chat.decoding == Decoding()
    scored = [
        Item(id=str(n), task="t", prompt=f"Question: w{n}", choices=(" a", " b"), answer=0)
        for n in range(3)
    ]
    assert few_shot(Probe(scored), scored, shots=1).decoding is None


def test_in_a_chat_the_items_own_examples_stay_in_its_turn() -> None:
    made = items(shots="Q w50 w51\n\n")
    probe = few_shot(Probe(made, rendering="chat"), made, shots=1)
    assert probe[0].shots == ""
    assert probe[0].prompt[-1] == {"role": "user", "content": "Q w50 w51\n\nQ w0"}


@pytest.mark.parametrize("scoring", ["letters", "generate"])
def test_worked_examples_that_end_in_a_text_are_refused_where_letters_are_needed(
    scoring: Any,
) -> None:
    made = items(shots="Q w50 w51\n\n")
    Probe(made)
    with pytest.raises(
        ProbeError,
        match=f"worked examples .* end in the text of an option, and scoring='{scoring}'",
    ):
        Probe(made, scoring=scoring)
    with pytest.raises(ProbeError, match="worked examples"):
        replace(load_probe("standard"), scoring=scoring, norm="sum")
    Probe(items(shots="Q w50\nA. w51\nB. w52\nAnswer: B\n\n"), scoring=scoring)
    Probe(few_shot(Probe(items(), scoring=scoring), items(), shots=2).items, scoring=scoring)
