"""Groups stay together, prefixes are like the whole, and right options are at each position equally often."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from standard_parts.assembly import Ask, items

from forgetwatch.errors import ProbeError


def asks(size: int, *, group: int = 1, seed: int = 0) -> list[list[Ask]]:
    rng = random.Random(seed)
    found = []
    for number in range(size):
        task = rng.choice(("a", "b", "c"))
        found.append(
            [
                Ask(
                    prompt=f"{number} {part}",
                    right="r",
                    wrong=("x", "y", "z")[: rng.choice((2, 3))],
                    task=task,
                    category="C",
                    tags=(f"difficulty:{rng.randint(1, 3)}",),
                    cluster=str(number),
                )
                for part in range(group)
            ]
        )
    return found


def test_questions_of_a_group_stay_next_to_each_other() -> None:
    clusters = [item.cluster for item in items(asks(20, group=4), prefix="p")]
    assert [clusters[at : at + 4] for at in range(0, 80, 4)] == [[clusters[at]] * 4 for at in range(0, 80, 4)]
    assert len(set(clusters)) == 20


def test_the_order_does_not_depend_on_the_order_given() -> None:
    given = asks(50)
    assert items(given, prefix="p") == items(given[::-1], prefix="p")


@pytest.mark.parametrize("count", [50, 100])
def test_prefixes_are_like_the_whole(count: int) -> None:
    made = items(asks(200), prefix="p")
    for kind in (lambda item: item.task, lambda item: item.tags, lambda item: item.k):
        whole, there = Counter(map(kind, made)), Counter(map(kind, made[:count]))
        assert all(abs(there[name] - number * count / 200) <= 1.5 for name, number in whole.items())


def test_right_options_are_at_each_position_equally_often_in_every_prefix() -> None:
    made = items(asks(200), prefix="p")
    for count in range(1, 201):
        for k in (3, 4):
            there = Counter(item.answer for item in made[:count] if item.k == k)
            assert max(there[p] for p in range(k)) - min(there[p] for p in range(k)) <= 1


def test_equal_questions_and_equal_options_are_refused() -> None:
    one = Ask(prompt="q", right="r", wrong=("x",), task="t", category="C")
    with pytest.raises(ProbeError, match="stands for two questions"):
        items([[one], [one]], prefix="p")
    with pytest.raises(ProbeError, match="two of the options are equal"):
        items([[Ask(prompt="q", right="r", wrong=("r",), task="t", category="C")]], prefix="p")
