from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import WORDS, probe, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.scoring.encoding import Encoded, encode
from forgetwatch.scoring.plan import PREFIX_FACTOR, Row, plan

PROBE = probe(40)
ENCODED = encode(PROBE, tokenizer(), max_length=100)
WAYS: Any = pytest.mark.parametrize("way", ["trie", "rows"])


def few_shot(items: int = 30) -> tuple[list[Item], list[Encoded]]:
    """Items of two tasks, each with a prefix of forty words that its items share."""
    rng = random.Random(3)
    prefixes = [" ".join(rng.choices(WORDS, k=40)) for _ in range(2)]
    made = [
        Item(
            id=str(i),
            task=f"t{i % 2}",
            prompt=f"{prefixes[i % 2]} Q : {' '.join(rng.choices(WORDS, k=5))} Answer :",
            choices=[" " + " ".join(rng.choices(WORDS, k=3)) for _ in range(4)],
            answer=0,
        )
        for i in range(items)
    ]
    return made, encode(Probe(made), tokenizer(), max_length=100)


def keys(items: Sequence[Item]) -> list[str]:
    return [item.content_hash for item in items]


def read(row: Row, place: int) -> tuple[int, ...]:
    """What the token at a place sees of its row, itself included: its ancestors, in order."""
    return tuple(row.ids[at] for at in range(place + 1) if row.ends[at] > place)


@WAYS
@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(0, 5000))
def test_every_choice_is_asked_once_within_the_budgets(way: Any, tokens: int, logits: int, attention: int) -> None:
    batches = plan(
        keys(PROBE.items),
        ENCODED,
        vocabulary=100,
        way=way,
        attention=attention,
        token_budget=tokens,
        logit_budget=logits,
    )
    asked = sorted((r.item, r.choice) for batch in batches for row in batch for r in row.requests)
    assert asked == sorted((i, c) for i, item in enumerate(PROBE) for c in range(len(item.choices)))
    for batch in batches:
        width = len(batch[0].ids)
        assert all(len(row.ids) <= width for row in batch)
        if len(batch) > 1:
            assert len(batch) * width <= tokens
            assert sum(len(row.places) for row in batch) * 100 <= logits


@WAYS
def test_each_place_sees_the_text_that_its_target_follows_and_nothing_else(way: Any) -> None:
    for items, encoded in ((PROBE.items, ENCODED), few_shot()):
        for batch in plan(keys(items), encoded, vocabulary=100, way=way, attention=1000):
            for row in batch:
                for request in row.requests:
                    text = encoded[request.item].context
                    for place, target in zip(request.places, request.targets, strict=True):
                        assert read(row, place) == text
                        assert row.depths[place] == len(text) - 1
                        text = (*text, target)


def test_a_tree_reads_a_shared_beginning_once() -> None:
    items, encoded = few_shot()
    sizes = {}
    for way in ("trie", "rows"):
        batches = plan(keys(items), encoded, vocabulary=100, way=way, attention=10**6)  # type: ignore[arg-type]
        sizes[way] = sum(len(row.ids) for batch in batches for row in batch)
    assert sizes["trie"] < sizes["rows"] / 5
    rows = [row for batch in plan(keys(items), encoded, vocabulary=100, way="trie", attention=10**6) for row in batch]
    assert max(len(row.ids) for row in rows) <= PREFIX_FACTOR * 42
    for row in rows:  # items of the two tasks share nothing, and no row
        assert len({items[request.item].task for request in row.requests}) == 1


def test_items_stay_apart_where_attention_would_cost_more_than_is_saved() -> None:
    items, encoded = few_shot()
    rows = [row for batch in plan(keys(items), encoded, vocabulary=100, way="trie", attention=0) for row in batch]
    assert all(len({request.item for request in row.requests}) == 1 for row in rows)


def test_one_token_choices_share_one_row() -> None:
    item = Item(id="1", task="t", prompt="Q :", choices=(" w1", " w2", " w3 w4", " w3 w5"), answer=0)
    encoded = encode(Probe([item]), tokenizer(), max_length=100)
    for way in ("trie", "rows"):
        batches = plan(keys([item]), encoded, vocabulary=100, way=way)  # type: ignore[arg-type]
        assert [(len(row.ids), len(row.requests)) for batch in batches for row in batch] == [(3, 4)]


@WAYS
def test_the_batches_do_not_depend_on_the_order_of_the_items(way: Any) -> None:
    items, encoded = few_shot()

    def contents(order: list[int]) -> list[list[tuple[int, ...]]]:
        batches = plan(
            keys([items[i] for i in order]),
            [encoded[i] for i in order],
            vocabulary=100,
            way=way,
            attention=1000,
            token_budget=128,
        )
        return [[row.ids for row in batch] for batch in batches]

    shuffled = list(range(len(items)))
    random.Random(1).shuffle(shuffled)
    assert contents(shuffled) == contents(list(range(len(items))))


@WAYS
def test_items_that_cannot_be_scored_are_in_no_batch(way: Any) -> None:
    encoded = encode(PROBE, tokenizer(), max_length=9)
    batches = plan(keys(PROBE.items), encoded, vocabulary=100, way=way)
    left = {i for i, one in enumerate(encoded) if one.unscored}
    assert left
    assert left.isdisjoint(r.item for batch in batches for row in batch for r in row.requests)
