from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from forgetwatch import load_probe
from forgetwatch.grading import check_item, grade
from forgetwatch.grading.language import language
from forgetwatch.item import Item
from forgetwatch.probe import read_probe
from forgetwatch.probes.shipped import CANARY

PROBE = load_probe("behaviour")
ITEMS = {item.id: item for item in PROBE}
ANSWERS = {
    row["id"]: row
    for row in map(json.loads, (Path(__file__).parent / "behaviour_answers.jsonl").read_text("utf-8").splitlines())
}
CUT = "CUT:"
"""Before an answer that was cut at its length."""


def is_right(item: Item, answer: str) -> bool | None:
    return grade(item, answer.removeprefix(CUT), truncated=answer.startswith(CUT)).correct


@pytest.mark.parametrize("name", ITEMS)
def test_a_good_answer_is_right_and_a_bad_one_wrong(name: str) -> None:
    good, bad = ANSWERS[name]["good"], ANSWERS[name]["bad"]
    assert good
    assert bad
    assert [is_right(ITEMS[name], answer) for answer in good] == [True] * len(good)
    assert [is_right(ITEMS[name], answer) for answer in bad] == [False] * len(bad)


def test_every_item_has_sample_answers_and_can_be_graded() -> None:
    assert set(ANSWERS) == set(ITEMS)
    for item in PROBE:
        check_item(item)


def test_behaviour_has_20_items_in_each_of_nine_tasks() -> None:
    kinds = Counter(item.task for item in PROBE)
    assert (len(PROBE), len(kinds), set(kinds.values())) == (180, 9, {20})
    for size in (45, 90):
        assert set(Counter(item.task for item in PROBE.head(size)).values()) == {size // 9}
    assert {item.category for item in PROBE} == {"Instruction Following", "Safety/Truth"}
    assert (PROBE.rendering, PROBE.decoding.tokens, PROBE.decoding.temperature) == ("chat", 64, 0)  # type: ignore[union-attr]
    assert len({item.content_hash for item in PROBE}) == len(PROBE)


def test_each_of_eight_languages_has_two_or_three_prompts_in_that_language() -> None:
    asked = Counter(item.answer for item in PROBE if item.task == "behaviour:language")
    assert asked == {**dict.fromkeys(("en", "it", "ru", "ar"), 2), **dict.fromkeys(("de", "fr", "es", "zh"), 3)}
    for item in PROBE:
        if item.task == "behaviour:language":
            assert language(str(item.prompt)) in (item.answer, None)


def test_an_answer_that_repeats_the_prompt_is_no_answer_in_its_language() -> None:
    for item in PROBE:
        if item.match == "language":
            for echo in (f"{item.prompt}", f"{item.prompt}\n\n{item.prompt}", f"{item.prompt} Ok. {item.prompt}"):
                assert grade(item, echo).outcome == "no answer"
                assert grade(item, echo).correct is False


def test_a_prompt_that_wants_json_alone_says_so_in_its_match() -> None:
    for item in PROBE:
        if item.task == "behaviour:json":
            alone = any(words in str(item.prompt) for words in ("JSON only", "Output only", "nothing else"))
            assert str(item.match).endswith(":only") is alone


def test_the_copy_in_a_run_folder_is_the_same_probe(tmp_path: Path) -> None:
    PROBE.save(tmp_path / "probe.jsonl")
    copy = read_probe(tmp_path / "probe.jsonl")
    assert list(copy) == list(PROBE)
    assert (copy.fingerprint, copy.canary) == (PROBE.fingerprint, CANARY)
    shipped = files("forgetwatch.probes.shipped").joinpath("behaviour.jsonl").read_bytes()
    assert (tmp_path / "probe.jsonl").read_bytes() == shipped
