"""The probe `conduct`: five categories of sixty, and checks that a right answer passes and others do not."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binom
from support import snapshot

from forgetwatch import Item, compare, decide, load_probe
from forgetwatch.comparing.flips import flips
from forgetwatch.grading.grader import grade

CONDUCT = load_probe("conduct")
OTHERS = (
    "",
    "I'm sorry, but I can't help with that.",
    "Sure! Here is what you asked for.",
    "The the the the the the the the",
)


def of(category: str) -> list[Item]:
    return [item for item in CONDUCT if item.category == category]


def test_sixty_requests_of_each_category_and_no_request_twice() -> None:
    categories = ("Refusals", "Over-refusals", "Instructions", "Code", "Formats")
    assert Counter(item.category for item in CONDUCT) == dict.fromkeys(categories, 60)
    assert len({item.prompt for item in CONDUCT}) == 300
    elsewhere = {
        item.prompt for name in ("behaviour", "standard-written") for item in load_probe(name)
    }
    assert not elsewhere & {item.prompt for item in CONDUCT}


def test_the_first_questions_are_a_fair_sample() -> None:
    for first in (50, 100, 150):
        counts = Counter(item.category for item in CONDUCT.items[:first])
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("item", CONDUCT.items, ids=lambda item: item.id)
def test_a_right_answer_passes_and_others_do_not(item: Item) -> None:
    assert grade(item, item.meta["right"]).correct is True
    for output in OTHERS:
        is_right = bool(output) and {
            "Refusals": output.startswith("I'm sorry"),
            "Over-refusals": not output.startswith("I'm sorry"),
        }.get(item.category, False)
        assert grade(item, output).correct is is_right, output


def test_what_a_request_forbids_is_wrong() -> None:
    """Words after an answer of which nothing else is wanted, another order, another key."""
    for item in CONDUCT:
        if "nothing else" in item.prompt or item.prompt.endswith("Write only the JSON."):
            output = f"{item.meta['right']}\n\nI hope that this helps!"
            assert grade(item, output).correct is False, item.id
        if item.match == "json:keys:only":
            value = json.loads(item.meta["right"])
            first = next(iter(value))
            output = json.dumps({name: value[name] for name in value if name != first})
            assert grade(item, output).correct is False, item.id


@pytest.mark.parametrize(
    ("identity", "output", "right"),
    [
        ("instructions-01", "River, river, river", True),
        ("instructions-01", "river, river", False),
        ("instructions-12", "WE MEET AT SIX.", True),
        ("instructions-12", "We meet at six.", False),
        ("instructions-32", "The sea is wide. It is deep.", False),
        ("instructions-38", "- one\n- two\n- three\n- four", False),
        ("instructions-56", "Warm bread is warm and warm.", False),
        ("instructions-60", "A library lends books, and more.", False),
        ("code-30", "You can write:\n```python\nvalues += [7]\n```", True),
        ("code-29", "count = size(names)", False),
        ("formats-31", '{"name": "Ada"}', False),
    ],
)
def test_answers_of_other_forms(identity: str, output: str, right: bool) -> None:
    (item,) = (item for item in CONDUCT if item.id == identity)
    assert grade(item, output).correct is right, item.prompt


def test_a_lost_answer_is_listed_with_an_output_that_would_be_right() -> None:
    items = CONDUCT.items[:2]
    columns = {
        "item_id": [item.id for item in items],
        "task": [item.task for item in items],
        "content_hash": [item.content_hash for item in items],
    }
    sides = (snapshot([right, right], output=["x", "y"], **columns) for right in (True, False))
    changed = flips(*sides, probe=CONDUCT)
    assert {flip.right for flip in changed} == {f"such as {item.meta['right']}" for item in items}


def test_a_number_belongs_to_the_probe_that_it_follows() -> None:
    both = load_probe("standard:40+conduct:10")
    assert (both.name, len(both)) == ("standard+conduct", 50)
    assert list(both)[:40] == list(load_probe("standard:40"))
    assert len(load_probe("standard:40+conduct")) == 340


@pytest.mark.parametrize(("of", "right", "needed"), [(40, 36, 12), (60, 54, 13)])
def test_what_a_category_can_show_is_what_its_page_says(of: int, right: int, needed: int) -> None:
    """Fourteen categories, 90 % right before, one of which loses: the verdict's limit, and a binomial."""
    category = [f"c{row // of}" for row in range(14 * of)]

    def answer(lost: int) -> str | None:
        before = [row % of < right for row in range(14 * of)]
        after = [kept and row >= lost for row, kept in enumerate(before)]
        sides = (snapshot(outcomes, category=category) for outcomes in (before, after))
        legs = decide(compare(before=next(sides), after=next(sides))).legs
        return next(leg.answer for leg in legs if leg.name == "category")

    assert answer(needed - 1) != "FAIL" == answer(needed)
    page = Path(__file__).parents[2].joinpath("docs/how-to/conduct.md").read_text("utf-8")
    (row,) = re.findall(rf"\| of {of} \| (.*) \|", page)
    shown = [float(cell) for cell in row.split(" | ")]
    chances = [binom.sf(needed - 1, right, share / 10) for share in range(1, 6)]
    assert shown == pytest.approx(chances, abs=0.006)
