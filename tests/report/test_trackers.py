from __future__ import annotations

import math

from support import snapshot

from forgetwatch import Item, Probe, Trajectory, compare
from forgetwatch.comparing.flips import flips
from forgetwatch.report.tracker_rows import FLIPPED, FLIPPED_TEXTS, flipped_rows, tracker_row


def test_one_look_becomes_the_documented_keys() -> None:
    labels = {"category": ["Common Sense", "Knowledge/QA"], "gold_share": [0.9, 0.2]}
    row = tracker_row(
        compare(before=snapshot([True, False], **labels), after=snapshot([False, True], **labels)), seconds=1.5
    )
    assert row == {
        "eval_forget/all/forgotten": 1,
        "eval_forget/all/gained": 1,
        "eval_forget/all/known_lost": 1,
        "eval_forget/all/net_change": 0.0,
        "eval_forget/all/accuracy": 0.5,
        "eval_forget/all/retention": 0.0,
        "eval_forget/all/unscored": 0,
        "eval_forget/all/items": 2,
        "eval_forget/all/seconds": 1.5,
        "eval_forget/common_sense/forgotten": 1,
        "eval_forget/common_sense/known_lost": 1,
        "eval_forget/knowledge_qa/forgotten": 0,
        "eval_forget/knowledge_qa/known_lost": 0,
    }
    assert all(type(value) in (int, float) for value in row.values())


def test_undefined_quantities_have_no_key() -> None:
    row = tracker_row(compare(before=snapshot([False]), after=snapshot([False])), seconds=0.0)
    assert "eval_forget/all/retention" not in row
    assert "eval_forget/all/known_lost" not in row
    assert all(math.isfinite(value) for value in row.values())


def test_names_that_would_collide_get_numbers() -> None:
    labels = {"category": ["A b", "a-b", "all"]}
    row = tracker_row(
        compare(before=snapshot([True] * 3, **labels), after=snapshot([False] * 3, **labels)), seconds=0.0
    )
    assert row["eval_forget/all/forgotten"] == 3
    assert [row[f"eval_forget/{key}/forgotten"] for key in ("a_b", "a_b_2", "all_2")] == [1, 1, 1]


def test_the_full_row_holds_every_number_of_every_group_and_the_course() -> None:
    labels = {"category": ["Math", "Tasks"], "task": ["a:b", "a b"], "k": [4, 4], "chosen": [0, 1]}
    looks = [
        snapshot(right, meta={"step": step}, **labels) for step, right in enumerate([[True, False], [False, False]])
    ]
    trajectory = Trajectory.of(looks)
    short = tracker_row(trajectory.comparisons[-1], seconds=1.0)
    full = tracker_row(trajectory.comparisons[-1], seconds=1.0, full=True, trajectory=trajectory)
    assert short.items() <= full.items()
    assert full["eval_forget/all/forgetting_paper"] == trajectory.comparisons[-1].all.chance.paper.forgetting  # type: ignore[union-attr]
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
    before, after = snapshot([False, True, True], chosen=[1, 1, 0], **columns), snapshot([True, False, True], **columns)
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
    assert rows == [("forgotten", "0", "t", "c", 2, 0, 0, 1, "user: Capital of Chile?", "Santiago", "Lima")]


def test_a_private_item_reaches_a_tracker_without_its_texts_and_outputs() -> None:
    probe = Probe([Item(id="0", task="t", prompt="secret?", answer="x", match="exact", tags=("private",))])
    sides = [snapshot([right], output=["secret output"]) for right in (True, False)]
    assert flipped_rows(flips(*sides, probe=probe), texts=True)[1][0][-3:] == (None, None, None)
