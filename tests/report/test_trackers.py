import math
from typing import Final

import pytest
from pages import compared, sure, watched
from support import snapshot

from forgetwatch import Item, Probe
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.verdict import estimated
from forgetwatch.measures.base import Quantity
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.quantities import MEASURES
from forgetwatch.report.tracker_rows import (
    FLIPPED,
    FLIPPED_TEXTS,
    flipped_rows,
    tracker_key,
    tracker_name,
    tracker_row,
)


def test_one_look_becomes_the_documented_keys() -> None:
    labels = {
        "category": ["Common Sense", "Knowledge/QA"] * 5,
        "gold_share": [0.99, 0.2] * 5,
        "k": [4] * 10,
    }
    comparison = compared([True, False] * 5, [False, True] * 5, **labels)
    row, (low, high) = tracker_row(comparison, seconds=1.5), estimated(comparison.all)[1]
    assert row == pytest.approx(
        {
            "eval_forget/all/accuracy": 0.5,
            "eval_forget/all/forgotten": 5,
            "eval_forget/all/gained": 5,
            "eval_forget/all/kept": 0.0,
            "eval_forget/all/net_change_points": 0.0,
            "eval_forget/all/net_change_points_low": 100 * low,
            "eval_forget/all/net_change_points_high": 100 * high,
            "eval_forget/common_sense/forgotten": 5,
            "eval_forget/common_sense/net_change_points": -100.0,
            "eval_forget/knowledge_qa/forgotten": 0,
            "eval_forget/knowledge_qa/net_change_points": 100.0,
        }
    )
    assert all(type(value) in (int, float) for value in row.values())


def test_options_with_scores_add_the_net_of_the_known() -> None:
    comparison = sure().comparison
    row, whole = tracker_row(comparison, seconds=0.0), comparison.all
    names = {key.removeprefix("eval_forget/all/") for key in row if "/all/" in key}
    assert names == {
        *("accuracy", "forgotten", "gained", "known_lost_net", "kept"),
        *("net_change_points", "net_change_points_low", "net_change_points_high"),
    }
    assert row["eval_forget/all/known_lost_net"] == 12 - 5
    for key, group in {
        "all": whole,
        **{name.lower(): one for name, one in comparison.by("category").items()},
    }.items():
        estimate = group[NET_ESTIMATE]
        assert estimate is not None
        assert row[f"eval_forget/{key}/net_change_points"] == 100 * estimate.change.mean
    assert {key.rpartition("/")[2] for key in row if "/a/" in key} == {
        "forgotten",
        "net_change_points",
    }


OLD: Final = (
    *(
        "forgotten",
        "gained",
        "known_lost",
        "known_lost_net",
        "log_score_change",
        "net_change",
        "accuracy",
    ),
    *("retention", "items", "unscored", "newly_unscored", "seconds"),
)
"""Names of the keys of all items that earlier versions sent by default."""


def test_the_full_row_has_all_keys_of_earlier_versions() -> None:
    full = tracker_row(sure().comparison, seconds=1.0, full=True)
    assert {f"eval_forget/all/{name}" for name in OLD} <= set(full)
    parts = ("forgotten", "net_change", "log_score_change")
    assert {f"eval_forget/a/{name}" for name in parts} <= set(full)


def test_no_two_numbers_have_one_name() -> None:
    quantities = [one for measure in MEASURES for one in measure.quantities]
    names = [
        (isinstance(one, Quantity) and one.tracker) or tracker_key(one.name) for one in quantities
    ]
    assert len(names) == len({*names, "unscored", "seconds"}) - 2


@pytest.mark.parametrize(
    "key",
    [
        "all/retention",
        "all/net_change_interval_low",
        "a/net_change",
        "tasks/t/retention",
        "all/regained",
    ],
)
def test_a_key_that_is_named_is_in_any_row(key: str) -> None:
    trajectory = watched([True] * 9, [False] * 9, task=["t"] * 9, category=["a"] * 9)
    key, comparison = f"eval_forget/{key}", trajectory.comparisons[-1]
    row, full = (
        tracker_row(comparison, seconds=1.0, trajectory=trajectory, full=full)
        for full in (False, True)
    )
    named = tracker_row(comparison, seconds=1.0, trajectory=trajectory, also=key)
    assert named == {**row, key: full[key]} != row


def test_the_full_row_has_the_known_and_lost_items_of_each_category() -> None:
    comparison = sure().comparison
    full = tracker_row(comparison, seconds=0.0, full=True)
    part = comparison.by("category")["A"]
    assert full["eval_forget/a/known_lost"] == part["known_lost"]
    assert full["eval_forget/a/known_lost_net"] == part["known_lost_net"]


def test_a_name_in_a_key_keeps_letters_of_any_script_and_digits() -> None:
    names = ["Общие знания", "数学", "Ma\u0301s", "Größe/2", "a.b-c", "²"]
    assert [tracker_name(name) for name in names] == [
        "общие_знания",
        "数学",
        "más",
        "größe_2",
        "a_b_c",
        "_",
    ]
    row = tracker_row(compared([True, True], [False, True], category=names[:2]), seconds=0.0)
    assert (row["eval_forget/общие_знания/forgotten"], row["eval_forget/数学/forgotten"]) == (1, 0)


def test_undefined_quantities_have_no_key() -> None:
    row = tracker_row(compared([False], [False]), seconds=0.0)
    assert "eval_forget/all/retention" not in row
    assert "eval_forget/all/known_lost_net" not in row
    assert "eval_forget/all/net_change_estimate_interval_low" not in row
    assert all(math.isfinite(value) for value in row.values())


def test_names_that_would_collide_get_numbers() -> None:
    labels = {"category": ["A b", "a-b", "all"]}
    row = tracker_row(compared([True] * 3, [False] * 3, **labels), seconds=0.0)
    assert row["eval_forget/all/forgotten"] == 3
    assert [row[f"eval_forget/{key}/forgotten"] for key in ("a_b", "a_b_2", "all_2")] == [1, 1, 1]


def test_the_full_row_holds_every_number_of_every_group_and_the_course() -> None:
    labels = {"category": ["Math", "Tasks"], "task": ["a:b", "a b"], "k": [4, 4], "chosen": [0, 1]}
    trajectory = watched([True, False], [False, False], **labels)
    short = tracker_row(trajectory.comparisons[-1], seconds=1.0)
    full = tracker_row(trajectory.comparisons[-1], seconds=1.0, full=True, trajectory=trajectory)
    assert short.items() <= full.items()
    assert (
        full["eval_forget/all/forgetting_paper"]
        == trajectory.comparisons[-1].all.chance.paper.forgetting
    )  # type: ignore[union-attr]
    low, high = trajectory.comparisons[-1].all.net_change_interval
    assert full["eval_forget/all/net_change_interval_low"] == low
    assert full["eval_forget/all/net_change_interval_high"] == high
    assert full["eval_forget/all/ever_forgotten"] == 1
    assert full["eval_forget/all/ever_forgotten_if_guessed"] == 2 * 0.25 * 0.75
    assert full["eval_forget/math/net_change"] == -1.0
    assert full["eval_forget/tasks_2/net_change"] == 0.0  # a category called Tasks
    assert {"eval_forget/tasks/a_b/forgotten", "eval_forget/tasks/a_b_2/forgotten"} <= set(full)
    assert all(type(value) in (int, float) and math.isfinite(value) for value in full.values())


def test_flipped_items_are_rows_of_ids_and_options_the_forgotten_first() -> None:
    columns = {"k": [2, 2, 2], "gold": [0, 1, 0]}
    before, after = (
        snapshot([False, True, True], chosen=[1, 1, 0], **columns),
        snapshot([True, False, True], **columns),
    )
    assert flipped_rows(flips(before, after), texts=False) == (
        FLIPPED,
        [("forgotten", "1", "t", "c", 2, 1, 1, None), ("gained", "0", "t", "c", 2, 0, 1, None)],
    )
    assert len(flipped_rows(flips(before, after), texts=False, limit=1)[1]) == 1


def test_a_chat_prompt_reaches_a_tracker_as_its_messages_with_their_roles() -> None:
    chat = [{"role": "user", "content": "Capital of Chile?"}]
    probe = Probe(
        [Item(id="0", task="t", prompt=chat, choices=(" Santiago", " Lima"), answer=0)],
        rendering="chat",
    )
    sides = [snapshot([right], k=[2], chosen=[0 if right else 1]) for right in (True, False)]
    columns, rows = flipped_rows(flips(*sides, probe=probe), texts=True)
    assert columns == (*FLIPPED, *FLIPPED_TEXTS)
    assert rows == [
        ("forgotten", "0", "t", "c", 2, 0, 0, 1, "user: Capital of Chile?", "Santiago", "Lima")
    ]


def test_a_private_item_reaches_a_tracker_without_its_texts_and_outputs() -> None:
    probe = Probe(
        [Item(id="0", task="t", prompt="secret?", answer="x", match="exact", tags=("private",))]
    )
    sides = [snapshot([right], output=["secret output"]) for right in (True, False)]
    assert flipped_rows(flips(*sides, probe=probe), texts=True)[1][0][-3:] == (None, None, None)


def test_at_most_200_flipped_items_leave_the_machine() -> None:
    """The cap on what is sent to trackers; the run folder has all of them."""
    changed = flips(snapshot([True] * 300 + [False] * 50), snapshot([False] * 300 + [True] * 50))
    assert len(changed) == 350
    _, rows = flipped_rows(changed, texts=True)
    assert len(rows) == 200
    assert {row[0] for row in rows} == {"forgotten"}
