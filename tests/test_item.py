from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from forgetwatch import Item
from forgetwatch.errors import ProbeError

ITEM = Item(
    id="1", task="capitals", category="Culture", prompt="Q: Chile?\nA:", choices=(" Santiago", " Lima"), answer=0
)


def test_content_hash_is_that_of_the_written_definition() -> None:
    content = ["Q: Chile?\nA:", [" Santiago", " Lima"], [0], None, None, None]
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    assert ITEM.content_hash == hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "change", [{"id": "2"}, {"task": "t"}, {"category": "x"}, {"tags": ("a",)}, {"meta": {"a": 1}}]
)
def test_content_hash_ignores_ids_labels_and_metadata(change: dict[str, Any]) -> None:
    assert replace(ITEM, **change).content_hash == ITEM.content_hash


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Q"},
        {"shots": "Q: Peru?\nA: Lima\n\n"},
        {"choices": (" Santiago", " Quito")},
        {"answer": 1},
        {"system": "s"},
        {"tools": [{"n": 1}]},
    ],
)
def test_content_hash_covers_the_content_of_the_question(change: dict[str, Any]) -> None:
    assert replace(ITEM, **change).content_hash != ITEM.content_hash


def test_worked_examples_are_part_of_the_content_and_not_of_the_question() -> None:
    shots = "Q: Peru?\nA: Lima\n\n"
    item = replace(ITEM, shots=shots)
    assert item.full_prompt == shots + ITEM.prompt
    assert item.prompt == ITEM.prompt
    assert item.content_hash == replace(ITEM, prompt=shots + ITEM.prompt).content_hash
    assert Item.from_json(item.to_json()) == item


def test_the_order_of_several_right_answers_does_not_matter() -> None:
    one, other = (Item(id="1", task="t", prompt="p", choices=("a", "b", "c"), answer=a) for a in ((0, 2), (2, 0)))
    assert one.content_hash == other.content_hash
    assert one.answers == (0, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": 2}, "answer 2 is outside its 2 choices"),
        ({"answer": -1}, "outside its 2 choices"),
        ({"answer": True}, "must be an index"),
        ({"answer": "Santiago"}, "must be an index"),
        ({"answer": ()}, "no answer"),
        ({"choices": ()}, "choices is empty"),
        ({"answer": (0, 0)}, "names a choice twice"),
        ({"answer": None}, "no answer is given; only a passage has none, and it has one choice"),
        ({"answer": 1.0}, "answer must be an index or text"),
        ({"choices": "ab"}, "choices must be a list of texts"),
        ({"choices": {"a": 1}}, "choices must be a list of texts"),
        ({"choices": None}, "choices must be a list of texts"),
        ({"id": ""}, "id must be text that is not empty"),
        ({"task": 3}, "task must be text"),
        ({"cluster": 5}, "cluster must be text"),
        ({"tags": 5}, "tags must be a list"),
        ({"tools": [1]}, "tools must be a list of objects"),
        ({"shots": "a", "prompt": ({"role": "user", "content": "b"},)}, "shots is for a prompt of text"),
        ({"shots": None}, "shots must be text"),
        ({"prompt": ()}, "prompt must be text, or chat messages"),
        ({"prompt": 5}, "prompt must be text, or chat messages"),
        ({"prompt": ({"role": "user"},)}, "prompt must be text, or chat messages"),
        ({"prompt": "half a pair: \ud83d"}, "prompt must be text"),
    ],
)
def test_an_invalid_item_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        replace(ITEM, **change)


def test_an_open_item_has_no_k() -> None:
    item = Item(id="1", task="t", prompt="2+2=", answer="4", match="number")
    assert item.k is None
    assert item.answers == ("4",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"match": "fuzzy"}, "match must be one of exact, .* or regex:PATTERN, got 'fuzzy'"),
        ({"match": "regex:"}, "match must be one of"),
        ({"match": ""}, "match must be one of"),
        ({"choices": ("4", "5"), "answer": 0}, "is for open answers, and this item has choices"),
    ],
)
def test_a_match_that_is_unknown_or_does_not_fit_is_refused(change: dict[str, Any], says: str) -> None:
    item = Item(id="1", task="t", prompt="2+2=", answer="4", match="number")
    with pytest.raises(ProbeError, match=says):
        replace(item, **change)


@pytest.mark.parametrize("change", [{"system": ""}, {"tools": ()}, {"cluster": ""}, {"meta": {}}, {"tags": []}])
def test_an_item_keeps_its_content_hash_in_a_file(change: dict[str, Any]) -> None:
    """An empty system message was left out of the file, which made it another question."""
    item = replace(ITEM, **change)
    assert Item.from_json(json.loads(json.dumps(item.to_json()))).content_hash == item.content_hash
