"""Lost answers asked again in other wordings, on planted worlds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support import decided

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.comparing import ask_again, marked_flips
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import SnapshotError
from forgetwatch.measures import Again, LostElsewhere, lost_elsewhere
from forgetwatch.probes import worded

ITEMS = 200
SHORT = "short"


def probe(**settings: Any) -> Probe:
    items = [
        Item(id=str(n), task="t", prompt=f"Question: {n}?\nAnswer:", choices=[" a", " b", " c"], answer=0)
        for n in range(ITEMS)
    ]
    return Probe(items, **settings)


def outcomes(right: Any, ids: list[str]) -> Snapshot:
    """Sure answers: the first option is right where `right`, else another."""
    scores = np.full((len(ids), 3), -9.0)
    scores[np.arange(len(ids)), np.where(right, 0, 1)] = -0.1
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(1)
    names = {"item_id": ids, "content_hash": ids, "gold_share": share.tolist()}
    return decided(scores, **names)


def world(rng: np.random.Generator, kind: str) -> Again:
    """All known before; a quarter damaged after: in all wordings, in the shipped one alone, or each by itself."""
    ids = [str(n) for n in range(ITEMS)]
    damaged = rng.random(ITEMS) < 0.25
    if kind == "nothing":
        damaged[:] = False

    def score(asked: Probe) -> tuple[Snapshot, Snapshot]:
        names = [item.id for item in asked]
        at = np.array([int(name.split("@")[0]) for name in names])
        lost = {
            "knowledge": damaged[at],
            "form": np.zeros(len(at), bool),
            "noise": rng.random(len(at)) < 0.25,
            "nothing": np.zeros(len(at), bool),
        }[kind]
        return outcomes(np.ones(len(at), bool), names), outcomes(~lost, names)

    return ask_again(outcomes(np.ones(ITEMS, bool), ids), outcomes(~damaged, ids), probe(), score)


def test_lost_knowledge_is_lost_in_every_wording_and_lost_form_in_none() -> None:
    found = world(np.random.default_rng(0), "knowledge")
    assert found.counts.lost == found.counts.lost_elsewhere == found.counts.kept
    assert found.counts.kept_elsewhere == 0
    assert found.counts.in_every_wording == found.counts.lost
    assert set(found.status.values()) == {"lost in every wording"}
    assert f"{found.counts.lost} are lost in every wording (short {found.counts.lost}" in str(found)
    form = world(np.random.default_rng(0), "form")
    assert form.counts.lost_elsewhere == 0
    assert form.counts.interval[0] <= 0 <= form.counts.interval[1]
    assert set(form.status.values()) == {"right when asked otherwise"}


def test_noise_by_wording_has_no_excess_in_95_of_100_worlds() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        low, high = world(rng, "noise").counts.interval
        inside += low <= 0 <= high
    assert inside >= 186  # 93 %: two standard errors of 95 %
    noise = world(rng, "noise")
    assert {"right when asked otherwise", "not clear"} <= set(noise.status.values())


def test_where_nothing_is_lost_nothing_is_asked() -> None:
    found = world(np.random.default_rng(0), "nothing")
    assert (found.counts.lost, found.left_out, found.status) == (0, 0, {})
    assert math.isnan(found.counts.excess)
    assert math.isnan(found.counts.interval[0])
    assert str(found) == "none of the clearly known answers that were lost could be asked in other words"


def test_what_has_no_other_wording_is_left_out_and_counted() -> None:
    ids = [str(n) for n in range(ITEMS)]
    before, after = outcomes(np.ones(ITEMS, bool), ids), outcomes(np.arange(ITEMS) >= 3, ids)
    found = ask_again(before, after, probe(rendering="chat"), lambda asked: pytest.fail("asked"))
    assert (found.counts.lost, found.left_out) == (0, 3)
    with pytest.raises(SnapshotError, match="it lacks the question '0', which was lost"):
        ask_again(before, after, probe().with_items(probe().items[5:]), lambda asked: pytest.fail("asked"))


def test_flips_are_marked_with_what_became_of_them() -> None:
    found = world(np.random.default_rng(0), "knowledge")
    ids = [str(n) for n in range(ITEMS)]
    lost = {int(one) for _, one in found.status}
    changed = flips(outcomes(np.ones(ITEMS, bool), ids), outcomes([n not in lost for n in range(ITEMS)], ids))
    assert {flip.again for flip in marked_flips(found, changed)} == {"lost in every wording"}
    assert {flip.again for flip in changed} == {None}


def test_the_interval_is_newcombes_of_two_independent_shares() -> None:
    found = LostElsewhere(lost=70, lost_elsewhere=56, kept=80, kept_elsewhere=48)
    assert found.excess == pytest.approx(0.2)
    assert found.interval == pytest.approx((0.0524, 0.3339), abs=1e-4)  # Newcombe 1998, table II, method 10
    assert found.in_every_wording == pytest.approx(14.0)


def test_an_item_is_lost_elsewhere_only_if_it_was_right_in_each_before() -> None:
    before = np.array([[1, 1], [1, 0], [1, 1]], bool)
    after = np.array([[0, 0], [0, 0], [0, 1]], bool)
    assert lost_elsewhere(before, after).tolist() == [True, False, False]
    with pytest.raises(ValueError, match=r"needed outcomes \[items, wordings\] of both sides"):
        lost_elsewhere(before, after[:, :1])


def test_an_item_in_another_wording_is_asked_in_that_of_the_probe_too() -> None:
    ids, asked_in = [str(n) for n in range(ITEMS)], worded(probe(), "one")
    damaged = np.arange(ITEMS) % 4 == 0
    seen: list[Item] = []

    def score(asked: Probe) -> tuple[Snapshot, Snapshot]:
        seen.extend(asked)
        names = [item.id for item in asked]
        lost = np.array([damaged[int(name.split("@")[0])] for name in names])
        return outcomes(np.ones(len(names), bool), names), outcomes(~lost, names)

    found = ask_again(outcomes(np.ones(ITEMS, bool), ids), outcomes(~damaged, ids), asked_in, score)
    own = {item.id: item.wording for item in asked_in}
    for item in seen:
        assert item.wording != own[item.id.split("@")[0]]
    assert list(found.by_wording) == ["short", "right", "shipped"]
    assert sum(found.by_wording.values()) == 2 * found.counts.lost == 2 * found.counts.lost_elsewhere


def test_what_was_asked_in_each_wording_is_not_asked_again() -> None:
    asked = worded(probe(), "each")
    ids = [item.id for item in asked]
    lost = np.array([int(one.split("@")[0]) % 4 == 0 and not one.endswith("@right") for one in ids])
    before, after = outcomes(np.ones(len(ids), bool), ids), outcomes(~lost, ids)
    found = ask_again(before, after, asked, lambda _: pytest.fail("asked"))
    assert found.counts.lost == ITEMS // 4
    assert found.by_wording == {"short": ITEMS // 4, "right": 0}
    assert found.counts.lost_elsewhere == 0
