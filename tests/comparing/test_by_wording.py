"""Changes by wording, on planted worlds."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from support import decided

from forgetwatch import Snapshot, compare
from forgetwatch.comparing import Comparison, WordingChanges, decide
from forgetwatch.errors import MismatchError
from forgetwatch.measures import KNOWN

NAMES = ("shipped", "short", "right")


def world(
    rng: np.random.Generator, fall: tuple[float, float, float], *, asked: Literal["one", "each"], items: int = 300
) -> Comparison:
    """Margins that fall by a mean of so many nats in each wording; a question has a difficulty of its own."""
    own = np.repeat(np.arange(items), 3) if asked == "each" else np.arange(items)
    wording = np.tile([0, 1, 2], items) if asked == "each" else np.arange(items) % 3
    before = rng.normal(1.0, 2.0, items)[own] + rng.normal(0.0, 0.5, len(own))
    damage = rng.normal(0.0, 0.7, items)[own] + rng.normal(0.0, 0.7, len(own))
    after = before - np.array(fall)[wording] + damage
    names = {
        "item_id": [f"{n}@{NAMES[w]}" for n, w in zip(own, wording, strict=True)],
        "content_hash": [f"h{n}" for n in own],
        "wording": [NAMES[w] for w in wording],
    }
    return compare(before=_side(before, names), after=_side(after, names))


def _side(margin: Any, names: dict[str, Any]) -> Snapshot:
    scores = np.stack([margin, np.zeros(len(margin)), np.full(len(margin), -5.0)], axis=1) - 3
    return decided(scores, **names)


def changes(comparison: Comparison) -> WordingChanges:
    assert comparison.wordings is not None
    return comparison.wordings


@pytest.mark.parametrize("asked", ["one", "each"])
def test_a_loss_of_one_wording_is_named_and_an_equal_loss_is_not(asked: Literal["one", "each"]) -> None:
    rng = np.random.default_rng(3)
    form = world(rng, (1.5, 0.0, 0.0), asked=asked)
    found = changes(form)
    assert found.differ
    assert found.asked_in == asked
    assert list(found.changes) == ["shipped", "short", "right"]
    assert found.changes["shipped"] < -0.1 < found.changes["short"]
    assert list(form.by("wording")) == ["shipped", "short", "right"]
    text = decide(form).sentence
    assert f"part of it is the wording ({found})" in text
    assert str(found).startswith("shipped -")
    assert found.p_value == 0.001
    document = form.to_dict()["wordings"]
    assert document["p_value"] == found.p_value
    assert document["asked_in"] == asked
    equal = world(rng, (0.8, 0.8, 0.8), asked=asked)
    assert not changes(equal).differ
    assert "the wording" not in decide(equal).sentence


@pytest.mark.parametrize("asked", ["one", "each"])
@pytest.mark.parametrize("fall", [0.0, 0.8])
def test_equal_changes_are_called_unequal_in_at_most_5_of_100_worlds(
    asked: Literal["one", "each"], fall: float
) -> None:
    rng, worlds = np.random.default_rng(4), 100
    called = sum(changes(world(rng, (fall, fall, fall), asked=asked, items=150)).differ for _ in range(worlds))
    assert called / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


def test_the_same_weights_changed_in_no_wording() -> None:
    one = world(np.random.default_rng(5), (0.0, 0.0, 0.0), asked="one")
    again = changes(one)
    assert again.p_value > 0.05
    whole = compare(before=(start := _all(200, "short")), after=start)
    assert changes(whole).p_value == 1
    assert not changes(whole).differ


def _all(items: int, wording: str | None = None, *, of: int = 3) -> Snapshot:
    names = {
        "item_id": [str(n) for n in range(items)],
        "content_hash": [f"h{n}" for n in range(items)],
        "wording": [wording if not of or n % of else "shipped" for n in range(items)],
    }
    return _side(np.random.default_rng(6).normal(1.0, 2.0, items), names)


def test_wordings_that_differ_between_two_sides_are_refused() -> None:
    with pytest.raises(MismatchError, match=r"were asked 20 questions in other words.*'short' and 'right'; score both"):
        compare(before=_all(30, "short"), after=_all(30, "right"))
    with pytest.raises(MismatchError, match="'short' and 'shipped'"):
        compare(before=_all(30, "short"), after=_all(30))
    with pytest.raises(MismatchError, match="in other words"):
        compare(before=_all(30, "short", of=0), after=_all(30, "right", of=0), on_mismatch="intersect")
    found = compare(before=_all(30, "short"), after=_all(30, "right"), on_mismatch="intersect")
    assert found.all.n == 10


def test_questions_that_have_no_other_wording_take_no_part() -> None:
    """Only items without a wording lose: that is no change of a wording."""
    rng = np.random.default_rng(11)
    before = rng.normal(1.0, 2.0, 400)
    wording = [None if n >= 300 else NAMES[n % 3] for n in range(400)]
    names = {"item_id": [str(n) for n in range(400)], "content_hash": [f"h{n}" for n in range(400)], "wording": wording}
    after = before + rng.normal(0, 0.3, 400) - np.where(np.arange(400) >= 300, 3.0, 0.0)
    found = compare(before=_side(before, names), after=_side(after, names))
    assert not changes(found).differ
    assert {name: group.n for name, group in found.by("wording").items()} == dict.fromkeys(NAMES, 100)
    lost = decide(found).sentence
    assert "the wording" not in lost


def test_a_question_in_several_wordings_is_one_observation() -> None:
    rng = np.random.default_rng(8)
    found = world(rng, (0.8, 0.8, 0.8), asked="each", items=100)
    assert found.clusters == 100
    few = world(rng, (2.0, 2.0, 2.0), asked="each", items=20)
    known = few.all[KNOWN]
    assert known is not None
    assert known.known >= 20 > known.independent
    assert known.lost_net_share is None
