import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import WORDS, probe, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.scoring.encoding import Encoded, encode
from forgetwatch.scoring.layout import (
    BATCH_COST,
    KEYS,
    LEAST_BATCH_COST,
    PREFIX_FACTOR,
    SMALLEST,
    Batch,
    Row,
    by_prefix,
    plan,
)

PROBE = probe(40)
ENCODED = encode(PROBE, tokenizer(), max_length=100)
LAYOUTS: Any = pytest.mark.parametrize("layout", ["prefix", "trie", "rows"])


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


def read(batch: Batch, row: Row, place: int) -> tuple[int, ...]:
    """Tokens that the token at a place sees: the prefix, and of its row its ancestors in order and itself."""
    return batch.prefix + tuple(row.ids[at] for at in range(place + 1) if row.ends[at] > place)


@LAYOUTS
@given(st.integers(1, 400), st.integers(0, 5000))
def test_every_choice_is_in_one_row_within_the_budget(
    layout: Any, tokens: int, attention: int
) -> None:
    batches = plan(
        keys(PROBE.items), ENCODED, layout=layout, attention=attention, token_budget=tokens
    )
    asked = sorted(
        (r.item, r.choice) for batch in batches for row in batch.rows for r in row.requests
    )
    assert asked == sorted((i, c) for i, item in enumerate(PROBE) for c in range(len(item.choices)))
    for batch in batches:
        width = batch.width
        assert all(len(row.ids) <= width for row in batch.rows)
        if len(batch.rows) > 1:
            assert len(batch.rows) * width <= tokens


@LAYOUTS
def test_each_position_sees_exactly_the_text_before_its_target(layout: Any) -> None:
    for items, encoded in ((PROBE.items, ENCODED), few_shot()):
        batches = plan(keys(items), encoded, layout=layout, attention=1000, token_budget=256)
        assert any(batch.prefix for batch in batches) == (layout == "prefix")
        for batch in batches:
            for row in batch.rows:
                for request in row.requests:
                    text = encoded[request.item].context
                    for place, target in zip(request.positions, request.targets, strict=True):
                        assert read(batch, row, place) == text
                        assert row.depths[place] == len(text) - 1
                        text = (*text, target)


def test_a_tree_reads_a_shared_beginning_once() -> None:
    items, encoded = few_shot()
    sizes, layouts = {}, ("prefix", "trie", "rows")
    for layout in layouts:
        batches = plan(keys(items), encoded, layout=layout, attention=10**6, token_budget=1024)  # type: ignore[arg-type]
        prefixes = {batch.prefix for batch in batches}
        sizes[layout] = sum(len(row.ids) for batch in batches for row in batch.rows) + sum(
            map(len, prefixes)
        )
    assert sizes["trie"] < sizes["rows"] / 5
    assert sizes["prefix"] < sizes["trie"]
    assert len(prefixes | {()}) == 1
    batches = plan(keys(items), encoded, layout="trie", attention=10**6, token_budget=8192)
    rows = [row for batch in batches for row in batch.rows]
    assert max(len(row.ids) for row in rows) <= PREFIX_FACTOR * 42
    for row in rows:  # items of the two tasks share nothing, and no row
        assert len({items[request.item].task for request in row.requests}) == 1


def test_items_stay_apart_where_attention_would_cost_more_than_is_saved() -> None:
    items, encoded = few_shot()
    batches = plan(keys(items), encoded, layout="trie", attention=0, token_budget=8192)
    rows = [row for batch in batches for row in batch.rows]
    assert all(len({request.item for request in row.requests}) == 1 for row in rows)


def test_one_token_choices_share_one_row() -> None:
    item = Item(
        id="1", task="t", prompt="Q :", choices=(" w1", " w2", " w3 w4", " w3 w5"), answer=0
    )
    encoded = encode(Probe([item]), tokenizer(), max_length=100)
    for layout in ("trie", "rows"):
        batches = plan(keys([item]), encoded, token_budget=8192, layout=layout)  # type: ignore[arg-type]
        assert [(len(row.ids), len(row.requests)) for batch in batches for row in batch.rows] == [
            (3, 4)
        ]


@LAYOUTS
def test_the_batches_do_not_depend_on_the_order_of_the_items(layout: Any) -> None:
    items, encoded = few_shot()

    def contents(order: list[int]) -> list[list[tuple[int, ...]]]:
        ids = [encoded[i] for i in order]
        batches = plan(
            keys([items[i] for i in order]), ids, layout=layout, attention=1000, token_budget=128
        )
        return [[batch.prefix, *(row.ids for row in batch.rows)] for batch in batches]

    shuffled = list(range(len(items)))
    random.Random(1).shuffle(shuffled)
    assert contents(shuffled) == contents(list(range(len(items))))


@LAYOUTS
def test_items_that_cannot_be_scored_are_in_no_batch(layout: Any) -> None:
    encoded = encode(PROBE, tokenizer(), max_length=9)
    batches = plan(keys(PROBE.items), encoded, token_budget=8192, layout=layout)
    left = {i for i, one in enumerate(encoded) if one.unscored}
    assert left
    assert left.isdisjoint(r.item for batch in batches for row in batch.rows for r in row.requests)


def test_each_prefix_is_read_once_and_its_batches_are_consecutive() -> None:
    items, encoded = few_shot()
    batches = plan(keys(items), encoded, layout="prefix", attention=1000, token_budget=128)
    prefixes = [batch.prefix for batch in batches]
    assert len(set(prefixes)) == 2
    assert sum(one != other for one, other in pairwise(prefixes)) == 1
    for batch in batches:
        assert (
            len(batch.rows) == 1
            or len(batch.rows) * (len(batch.prefix) + batch.width) <= KEYS * 128
        )


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=12),
    st.integers(0, 6),
)
def test_no_single_group_saves_more_tokens(texts: list[list[int]], cost: int) -> None:
    encoded = [
        Encoded(context=tuple(text), texts=("",), choices=((9,),), spellings=((),))
        for text in texts
    ]
    ordered, groups = by_prefix(range(len(texts)), encoded, cost=cost)
    saved = sum((len(group.items) - 1) * group.length - cost for group in groups)
    for group in groups:
        assert len({tuple(texts[index][: group.length]) for index in group.items}) == 1
        assert all(len(texts[index]) > group.length for index in group.items)
    grouped = [index for group in groups for index in group.items]
    assert len(set(grouped)) == len(grouped)

    def saves(items: list[int]) -> int:
        texts_without_last = [texts[index][:-1] for index in items]
        alike = [len(set(column)) == 1 for column in zip(*texts_without_last, strict=False)]
        return (len(items) - 1) * (alike.index(False) if False in alike else len(alike)) - cost

    assert saved >= max(
        (saves(ordered[i:j]) for i, j in combinations(range(len(ordered) + 1), 2) if j - i > 1),
        default=0,
    )
    assert all(saves(list(group.items)) > 0 for group in groups)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(20, 400))
def test_no_division_of_sorted_rows_into_batches_costs_less(
    lengths: list[int], budget: int
) -> None:
    encoded = [
        Encoded(context=(1,) * length, texts=("",), choices=((2,),), spellings=((),), unscored="")
        for length in lengths
    ]
    batches = plan(
        [f"{n:03d}" for n in range(len(lengths))], encoded, token_budget=budget, layout="rows"
    )
    ordered = sorted(lengths, reverse=True)
    own = max(BATCH_COST * budget, LEAST_BATCH_COST)

    @cache
    def least(start: int) -> float:
        if start == len(ordered):
            return 0.0
        return min(
            max(count * ordered[start], SMALLEST * budget) + own + least(start + count)
            for count in range(1, len(ordered) - start + 1)
            if count == 1 or count * ordered[start] <= budget
        )

    costs = [max(batch.tokens, SMALLEST * budget) + own for batch in batches]
    assert sum(costs) == pytest.approx(least(0))


def test_rows_of_a_few_shot_group_are_padded_little() -> None:
    rng = random.Random(3)
    shots = tuple(range(100, 400))
    encoded = [
        Encoded(
            context=(*shots, *(rng.randrange(90) for _ in range(int(rng.lognormvariate(4, 0.6))))),
            texts=("",) * 4,
            choices=((1,), (2,), (3,), (4,)),
            spellings=((),) * 4,
        )
        for _ in range(400)
    ]
    batches = plan(
        [f"{n:03d}" for n in range(400)],
        encoded,
        token_budget=16384,
        layout="prefix",
        attention=10**4,
    )
    tokens = sum(len(row.ids) for batch in batches for row in batch.rows)
    assert {len(batch.prefix) for batch in batches} == {300}
    assert sum(batch.tokens for batch in batches) < 1.15 * tokens
