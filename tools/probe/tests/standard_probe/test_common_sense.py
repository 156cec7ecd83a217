"""Comparisons agree with the typical values of the things that they name."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from standard_probe.common_sense import SCALES, questions
from standard_probe.question import Question, alike_in_length
from standard_probe.written import entries, read_rows

HIGH = "most|tallest|longest|fastest|hottest"
LOW = "least|shortest|slowest|coldest"


def values(row: dict[str, str]) -> dict[str, float]:
    return {thing: float(value) for thing, value in (entry.split("=") for entry in entries(row["things"]))}


def worked_out(question: Question, typical: dict[str, float]) -> tuple[str, set[str]]:
    """The answer and all options, from the words of the question alone."""
    named = [thing for thing in typical if re.search(rf"(?<!\w){re.escape(thing)}(?!\w)", question.prompt)]
    ends = re.findall(rf"(?:weighs|is|lasts)(?: the)? ({HIGH}|{LOW})\b", question.prompt)
    assert len(ends) == 1, question.prompt
    pick = max if re.fullmatch(HIGH, ends[0]) else min
    return pick(named, key=typical.__getitem__), set(named)


@pytest.mark.parametrize("seed", range(20))
def test_comparisons_hold_by_typical_values(seed: int) -> None:
    made = [question for question in questions(random.Random(seed)) if question.topic == "comparisons"]
    rows = read_rows("facts/common_sense_scales")
    assert len(made) == len(rows)
    for question, row in zip(made, rows, strict=True):
        right, options = worked_out(question, values(row))
        assert question.right == right, question
        assert {question.right, *question.wrong} == options


def test_neighbours_on_a_scale_are_far_apart() -> None:
    for row in read_rows("facts/common_sense_scales"):
        typical = list(values(row).values())
        if row["scale"] == "temperature":
            assert all(high - low >= 15 for low, high in itertools.pairwise(typical)), row
        else:
            assert all(high >= 2 * low for low, high in itertools.pairwise(typical)), row


def test_every_scale_is_in_use() -> None:
    assert {row["scale"] for row in read_rows("facts/common_sense_scales")} == set(SCALES)


def test_things_on_a_scale_have_names_of_like_length() -> None:
    assert all(alike_in_length(tuple(values(row))) for row in read_rows("facts/common_sense_scales"))
