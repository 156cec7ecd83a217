"""Nearness of questions to training rows: 1 for a row with all words, 0 for none in common, rare words count more."""

import math

import pytest

from forgetwatch.item import Item
from forgetwatch.probes.nearness import category_words, nearness_to

pytest.importorskip("bm25s")


def item(prompt: str, answer: str, category: str = "c") -> Item:
    return Item(
        id=prompt,
        task="t",
        prompt=prompt,
        choices=[f" {answer}", " other"],
        answer=0,
        category=category,
    )


ROWS = [
    "the river of lima is long",
    "the wind of oslo is cold",
    "the bread of rome is old",
    "The Wind, of Oslo: is cold!",
]


def test_a_row_with_all_words_is_near_and_one_with_none_far() -> None:
    found = nearness_to(
        [item("the bread of rome is", "old"), item("quite another question", "here")], ROWS
    )
    assert found[0] == pytest.approx(1.0, abs=0.02)
    assert found[1] == 0.0


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    rare, common = nearness_to([item("lima xx yy", "zz"), item("the xx yy", "zz")], ROWS)
    assert rare > common > 0.0


def test_the_best_row_counts_and_the_worked_examples_do_not() -> None:
    one = item("the river of lima is", "long")
    alone = nearness_to([one], ROWS[:1] + ROWS[1:2])
    assert alone[0] > nearness_to([one], ROWS[1:3])[0]


def test_rows_without_words_are_refused() -> None:
    with pytest.raises(ValueError, match="needed training rows with words, found none"):
        nearness_to([item("a b", "c")], ["", " ... "])


def test_words_of_a_category_are_those_that_occur_mostly_in_it() -> None:
    items = [item(f"river {at}", "lima", "rivers") for at in range(3)] + [
        item(f"wind {at}", "cold", "winds") for at in range(3)
    ]
    items += [item("alone", "x", "single")]
    found = category_words(items, ["the river of lima", "a river again"])
    assert found["rivers"] == pytest.approx(1000 * 3 / 7)
    assert found["winds"] == 0.0
    assert math.isnan(found["single"])
