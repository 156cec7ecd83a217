from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from support import probe, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.plan import plan

PROBE = probe(40)
ENCODED = encode(PROBE, tokenizer(), max_length=100)


@given(st.integers(1, 400), st.integers(1, 10**6))
def test_every_choice_is_asked_once_within_the_budgets(tokens: int, logits: int) -> None:
    batches = plan(PROBE.items, ENCODED, vocabulary=100, token_budget=tokens, logit_budget=logits)
    asked = sorted((r.item, r.choice) for batch in batches for row in batch for r in row.requests)
    assert asked == sorted((i, c) for i, item in enumerate(PROBE) for c in range(len(item.choices)))
    for batch in batches:
        width, first = len(batch[0].ids), min(row.first for row in batch)
        assert all(len(row.ids) <= width for row in batch)
        if len(batch) > 1:
            assert len(batch) * width <= tokens
            assert len(batch) * (width - first) * 100 <= logits


def test_each_row_holds_the_context_and_the_targets_it_is_read_for() -> None:
    for batch in plan(PROBE.items, ENCODED, vocabulary=100):
        for row in batch:
            for request in row.requests:
                context = ENCODED[request.item].context
                assert row.ids[: len(context)] == context
                assert request.start == len(context) - 1
                ahead = row.ids[request.start + 1 : request.start + len(request.targets)]
                assert ahead == request.targets[:-1]


def test_one_token_choices_share_one_row() -> None:
    item = Item(id="1", task="t", prompt="Q :", choices=(" w1", " w2", " w3 w4", " w3 w5"), answer=0)
    batches = plan([item], encode(Probe([item]), tokenizer(), max_length=100), vocabulary=100)
    assert [len(row.requests) for batch in batches for row in batch] == [4]


def test_the_batches_do_not_depend_on_the_order_of_the_items() -> None:
    def contents(order: list[int]) -> list[list[tuple[int, ...]]]:
        items, encoded = [PROBE.items[i] for i in order], [ENCODED[i] for i in order]
        return [[row.ids for row in batch] for batch in plan(items, encoded, vocabulary=100, token_budget=64)]

    shuffled = list(range(40))
    random.Random(1).shuffle(shuffled)
    assert contents(shuffled) == contents(list(range(40)))


def test_items_that_cannot_be_scored_are_in_no_batch() -> None:
    encoded = encode(PROBE, tokenizer(), max_length=9)
    batches = plan(PROBE.items, encoded, vocabulary=100)
    left = {i for i, one in enumerate(encoded) if one.unscored}
    assert left
    assert left.isdisjoint(r.item for batch in batches for row in batch for r in row.requests)
