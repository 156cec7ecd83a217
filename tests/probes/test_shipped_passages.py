"""The shipped passages: their sizes, kinds and order, and the figures of their card."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from importlib.resources import files

import pytest

from forgetwatch import load_probe
from forgetwatch.probes.shipped import CANARY, FILES

SHIPPED = files("forgetwatch.probes.shipped")
PROBE = load_probe("passages")
KINDS = {"Prose": 12, "News": 8, "Dialogue": 6, "Code": 10, "Mathematics": 6, "Other languages": 18}
LANGUAGES = ("german", "french", "spanish", "italian", "russian", "chinese")


def text(name: str) -> str:
    return next(item.choices[0] for item in PROBE if item.id == name)


def test_there_are_sixty_texts_of_six_kinds() -> None:
    assert all(item.is_passage for item in PROBE)
    assert Counter(item.category for item in PROBE) == KINDS
    tasks = Counter(item.task for item in PROBE)
    assert {tasks[f"passages:{language}"] for language in LANGUAGES} == {3}
    code = {
        task.removeprefix("passages:") for task in tasks if any(i.category == "Code" for i in PROBE if i.task == task)
    }
    assert code == {"python", "c", "javascript", "sql", "shell"}
    assert (PROBE.scoring, PROBE.rendering) == ("loglikelihood", "plain")


@pytest.mark.parametrize("item", PROBE, ids=lambda item: item.id)
def test_a_text_has_120_to_250_words(item: object) -> None:
    content = item.choices[0]  # type: ignore[attr-defined]
    assert content == content.strip()
    if item.task == "passages:chinese":  # type: ignore[attr-defined]
        # A Chinese word has one or two characters, and no space.
        assert 200 <= len(re.findall(r"[一-鿿]", content)) <= 400
    else:
        assert 120 <= len(content.split()) <= 250


@pytest.mark.parametrize("count", [15, 30])
def test_a_beginning_holds_each_kind_in_proportion(count: int) -> None:
    there = Counter(item.category for item in PROBE.head(count))
    assert all(abs(there[kind] - number * count / 60) < 1 for kind, number in KINDS.items())
    assert len({item.task for item in PROBE.head(30) if item.category == "Other languages"}) == len(LANGUAGES)


def test_no_two_texts_share_a_line_of_words() -> None:
    seen: dict[str, str] = {}
    for item in PROBE:
        words = item.choices[0].split()
        for start in range(len(words) - 7):
            run = " ".join(words[start : start + 8])
            assert seen.setdefault(run, item.id) == item.id, run
    assert len({item.content_hash for item in PROBE}) == len({item.id for item in PROBE}) == 60


def test_the_file_begins_with_the_canary() -> None:
    first = SHIPPED.joinpath(FILES["passages"]).read_text(encoding="utf-8").split("\n", 1)[0]
    assert json.loads(first)["forgetwatch_probe"]["canary"] == CANARY == PROBE.canary


def test_the_texts_are_those_of_the_card() -> None:
    card = SHIPPED.joinpath("cards", "passages.md").read_text(encoding="utf-8")
    assert f"`{PROBE.fingerprint[:16]}`" in card
    assert CANARY in card
    for kind, number in KINDS.items():
        length = sum(len(item.choices[0].encode()) for item in PROBE if item.category == kind)
        assert f"| {kind} | {number} | {length:,} |" in card, (kind, length)


@pytest.mark.parametrize("name", ["code-1", "code-2", "code-3"])
def test_python_texts_are_python(name: str) -> None:
    ast.parse(text(name))


def test_each_language_has_its_letters() -> None:
    letters = {
        "german": "äöüß",
        "french": "éèàç",
        "spanish": "ñáóí",
        "italian": "èàùò",
        "russian": "жыщю",
        "chinese": "的了不一",
    }
    for language, found in letters.items():
        together = "".join(item.choices[0] for item in PROBE if item.task == f"passages:{language}")
        assert all(letter in together for letter in found), language
