from __future__ import annotations

import pytest
from support import snapshot

from forgetwatch import Item, Probe
from forgetwatch.errors import GateError
from forgetwatch.gates import MustPass

AFTER = snapshot([True, False, None, True])


def of(*ids: str) -> MustPass:
    return MustPass(items=tuple((None, one) for one in ids))


@pytest.mark.parametrize(
    ("ids", "verdict", "measured"),
    [
        (["0", "3"], "PASS", "2 of 2 right"),
        (["0", "1"], "FAIL", "1 of 2 right; wrong: 1"),
        (["0", "2"], "INCONCLUSIVE", "1 of 2 right; unscored: 2"),
        (["1", "2"], "FAIL", "0 of 2 right; wrong: 1; unscored: 2"),
    ],
)
def test_a_wrong_item_fails_and_an_unscored_one_is_inconclusive(ids: list[str], verdict: str, measured: str) -> None:
    found = of(*ids).judge(AFTER)
    assert (found.verdict, found.measured) == (verdict, measured)


def test_a_missing_item_is_an_error() -> None:
    with pytest.raises(GateError, match="item '9' is not among the items"):
        of("0", "9").judge(AFTER)
    with pytest.raises(GateError, match="item '0' of task 'other' is not among"):
        MustPass(items=(("other", "0"),)).judge(AFTER)


def test_an_id_of_several_tasks_needs_its_task() -> None:
    twice = snapshot([True, False], item_id=["a", "a"], task=["x", "y"])
    with pytest.raises(GateError, match=r"'a' is in 2 tasks .*\(x, y\); name the task"):
        of("a").judge(twice)
    assert MustPass(items=(("x", "a"),)).judge(twice).verdict == "PASS"
    assert MustPass(items=(("y", "a"),)).judge(twice).verdict == "FAIL"


def test_an_item_answered_several_times_must_be_right_each_time() -> None:
    columns = {"item_id": ["a", "a", "b", "b"], "sample": [0, 1, 0, 1]}
    assert of("a", "b").judge(snapshot([True, False, True, True], **columns)).measured == "1 of 2 right; wrong: a"
    assert of("a").judge(snapshot([True, None, True, True], **columns)).verdict == "INCONCLUSIVE"
    assert of("a").judge(snapshot([False, None, True, True], **columns)).verdict == "FAIL"


def test_of_many_wrong_items_the_first_are_named() -> None:
    found = of(*map(str, range(12))).judge(snapshot([False] * 12))
    assert found.measured == "0 of 12 right; wrong: 0, 1, 2, 3, 4 and 7 more"


def test_the_marked_items_of_a_probe_must_be_right() -> None:
    items = [Item(id=i, task="t", prompt="?", choices=(" a", " b"), answer=0, must_pass=i != "1") for i in "012"]
    assert MustPass.tagged(Probe(items)).items == (("t", "0"), ("t", "2"))
    with pytest.raises(GateError, match="no item of the probe 'probe' is marked"):
        MustPass.tagged(Probe(items[1:2]))
