"""A passage as an item: its form, its file, and the probes that it can stand in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from passage_texts import passages
from support import probe

from forgetwatch import Item, Probe, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probe import combine, read_probe
from forgetwatch.probes import check_probe, few_shot

TEXT = {"id": "1", "task": "news", "prompt": "", "choices": ["The bridge opened on Monday."]}


def test_one_choice_without_prompt_and_answer_is_a_passage() -> None:
    made = Item.from_json(TEXT)
    assert made.is_passage
    assert (made.answers, made.k) == ((), None)
    assert Item.from_json({**TEXT, "answer": None}) == made
    question = Item.from_json({**TEXT, "answer": 0})
    assert not question.is_passage
    assert question.content_hash != made.content_hash


def test_a_passage_comes_back_from_its_json() -> None:
    made = Item.from_json(TEXT)
    assert made.to_json() == {**TEXT, "choices": ["The bridge opened on Monday."]}
    assert Item.from_json(json.loads(json.dumps(made.to_json()))).content_hash == made.content_hash


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"choices": [" \n"]}, r"item '1': a passage needs text as its choice, got ' \\n'"),
        ({"choices": [" a", " b"], "answer": None}, "only a passage has none, and it has one choice, its text: got 2"),
        ({"choices": [" a", " b"]}, "an item needs answer"),
        ({"choices": [], "answer": None}, "got 0 choices"),
        ({"prompt": "Read:"}, "a passage has no prompt, got 'Read:'; give the answer, or an empty prompt"),
        ({"must_pass": True}, "a passage has no right answer and is read as it is, so that must_pass has no meaning"),
        ({"match": "exact"}, "so that match has no meaning"),
        ({"shots": "Q: 1\nA: 2\n\n"}, "so that shots has no meaning"),
        ({"system": "s"}, "so that system has no meaning"),
        ({"rendering": "chat"}, "so that rendering='chat' has no meaning"),
    ],
)
def test_what_is_no_passage_is_refused_in_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        Item.from_json({**TEXT, **change})


@pytest.mark.parametrize("scoring", ["letters", "generate"])
def test_passages_need_log_likelihoods(scoring: Any) -> None:
    with pytest.raises(ProbeError, match=f"a passage needs scoring='loglikelihood', got '{scoring}'"):
        Probe([*probe(6), *passages(2)], scoring=scoring)


def test_a_passage_is_plain_in_a_chat_probe() -> None:
    made = Probe([*probe(3), *passages(1)], rendering="chat")
    assert [made.rendering_of(item) for item in made] == ["chat", "chat", "chat", "plain"]


def test_a_probe_of_questions_and_passages_comes_back_from_its_file(tmp_path: Path) -> None:
    both = combine(probe(5, norm="bytes"), Probe(passages(4), name="texts"))
    both.save(tmp_path / "both.jsonl")
    assert read_probe(tmp_path / "both.jsonl").fingerprint == both.fingerprint
    assert (both.name, both.norm, len(both)) == ("toy+texts", "bytes", 9)


def test_a_file_of_passages_needs_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(item.to_json()) + "\n" for item in passages(3)))
    assert [item.choices for item in load_probe(path)] == [item.choices for item in passages(3)]


def test_passages_are_no_fault_of_a_probe() -> None:
    assert not [finding.name for finding in check_probe(Probe(passages(6))) if finding.wrong]


def test_passages_get_no_worked_examples() -> None:
    made = few_shot(Probe([*probe(4), *passages(2)]), [*probe(12), *passages(3)], shots=2)
    assert [item.prompt for item in made if item.is_passage] == ["", ""]
    assert all("Answer :" in item.prompt for item in made if not item.is_passage)
