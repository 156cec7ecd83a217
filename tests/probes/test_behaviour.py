"""The probe `behaviour`: its items, sample answers to each, and grades of real outputs next to judgements by eye."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import load_probe
from forgetwatch.grading import check_item, grade, loops
from forgetwatch.grading.traits import language
from forgetwatch.item import Item
from forgetwatch.probe import read_probe
from forgetwatch.probes.shipped import CANARY

PROBE = load_probe("behaviour")
ITEMS = {item.id: item for item in PROBE}


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(__file__).parent / name).read_text("utf-8").splitlines()]


ANSWERS = {row["id"]: row for row in rows_of("behaviour_answers.jsonl")}
OUTPUTS = rows_of("behaviour_outputs.jsonl")[1:]
"""Answers of a model of 135M parameters to all items. Each was read with its prompt: is it right (`right`), and does it
repeat itself (`loops`)? Null where the reader was in doubt, and for items with tools, for which that model's chat
template has no place. A hundred more answers are of the same model halfway to one that was ruined by training on JSON
records."""

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


def test_every_item_has_an_output_that_was_read() -> None:
    assert [row["id"] for row in OUTPUTS if not row.get("damaged")] == list(ITEMS)
    assert sum(bool(row.get("damaged")) for row in OUTPUTS) == 100
    judged = [row for row in OUTPUTS if row["right"] is not None]
    in_doubt = [row["id"] for row in OUTPUTS if row["right"] is None and not ITEMS[row["id"]].tools]
    assert len(judged) == 258
    assert in_doubt == ["language-05", "language-09"]


def test_at_most_one_percent_of_the_outputs_is_graded_otherwise_than_by_eye() -> None:
    judged = [row for row in OUTPUTS if row["right"] is not None]
    unlike = [
        row["id"]
        for row in judged
        if grade(ITEMS[row["id"]], row["output"], truncated=row["cut"]).correct is not row["right"]
    ]
    assert len(unlike) <= 0.01 * len(judged), unlike


def test_every_output_that_repeats_itself_to_the_eye_is_found_and_no_other() -> None:
    judged = [row for row in OUTPUTS if row["loops"] is not None]
    assert sum(row["loops"] for row in judged) == 83
    assert [row["id"] for row in judged if loops(row["output"]) is not row["loops"]] == []
