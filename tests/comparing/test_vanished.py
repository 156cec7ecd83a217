"""A verdict that an answer which vanished could overturn is not PASS."""

import io
from collections.abc import Sequence

import numpy as np
import pytest
from pages import table as table_of
from rich.console import Console
from support import holds, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import conclude, decide
from forgetwatch.comparing.document import comparison_json
from forgetwatch.comparing.ranking import rank_models
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.metrics.intervals import newcombe
from forgetwatch.metrics.transitions import Cells
from forgetwatch.policy.policy import limits_of
from forgetwatch.policy.ruling import Ruling, Sides, apply_policy
from forgetwatch.run.guard import Guard
from forgetwatch.snapshot import LEFT_OUT

Right = list[bool | None]

BEFORE: Right = [True] * 700 + [False] * 300
KEPT: Right = [None] * 100 + [True] * 600 + [None] * 300
"""1,000 items, 700 right; after: 600 of these right, and 400 without an outcome."""


def compared(
    before: Sequence[bool | None], after: Sequence[bool | None], **columns: list[str]
) -> Comparison:
    return compare(before=snapshot(before, **columns), after=snapshot(after, **columns))


def shown_table(made: Comparison) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(table_of(made))
    return out.getvalue()


def test_a_pass_must_survive_the_worst_case_of_what_vanished() -> None:
    made = compared(BEFORE, KEPT)
    found = decide(made)
    assert made.all.net_change_interval[0] > -0.02
    assert (found.answer, found.next, made.all.outcomes.vanished) == (
        "INCONCLUSIVE",
        "vanished",
        400,
    )
    assert (
        found.legs[0].worst == newcombe(Cells(retained=600, forgotten=100, gained=0, missed=300))[0]
    )
    judged = limited(made, "2%")
    assert judged.answer == "INCONCLUSIVE"
    assert judged.measured.endswith("to -11.9 in the worst case of the answers that vanished")
    assert "answers have vanished" in decide(made).sentence


def test_an_answer_that_was_wrong_cannot_be_lost() -> None:
    found = decide(compared(BEFORE, [*BEFORE[:700], *[None] * 300]))
    assert (found.answer, found.next) == ("PASS", "nothing")


def test_wrong_answers_that_vanish_do_not_make_a_loss_smaller() -> None:
    before: Right = [True] * 50 + [False] * 250
    after: Right = [False] * 10 + [True] * 40 + [None] * 250
    whole = compared(before, after).all
    assert whole["net_change_interval_worst"] == whole.net_change_interval


def limited(comparison: Comparison, no_worse_than: str) -> Ruling:
    side = snapshot([True])
    sides = Sides(before=side, after=side)
    return apply_policy(
        limits_of(no_worse_than=no_worse_than), sides, comparison=comparison
    ).rulings[0]


def test_the_gate_names_the_answers_that_leave_it_open() -> None:
    made = compared([True] * 200, [None] * 50 + [True] * 150)
    found = decide(made, Tolerance(accuracy=0.05))
    assert (found.answer, found.next) == ("INCONCLUSIVE", "vanished")
    assert "in the worst case of the answers that vanished" in limited(made, "5%").measured
    few = decide(compared([True] * 300, [None] + [True] * 299))
    assert (few.answer, few.next) == ("PASS", "nothing")


def test_where_everything_vanished_the_table_says_so() -> None:
    made = compared([True] * 60, [None] * 60)
    shown = shown_table(made)
    assert "no item was scored on both sides" in shown
    assert "60 of 60 items were scored on one side alone" in " ".join(shown.split())


def test_hiding_wrong_answers_is_no_gain() -> None:
    """Every wrong answer after is unscored: accuracy over the rest rises to 1."""
    rng = np.random.default_rng(0)
    after: Right = [True if right else None for right in rng.random(1000) < 0.5]
    made = compared(BEFORE, after)
    assert made.all.accuracy_after == 1.0
    assert made.all.net_change > 0.2
    assert decide(made).answer == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("before", "after", "cells"),
    [
        (True, None, Cells(retained=9, forgotten=2, gained=0, missed=0)),
        (False, None, Cells(retained=9, forgotten=1, gained=0, missed=1)),
        (None, True, Cells(retained=10, forgotten=1, gained=0, missed=0)),
        (None, False, Cells(retained=9, forgotten=2, gained=0, missed=0)),
        (None, None, Cells(retained=9, forgotten=1, gained=0, missed=0)),
    ],
)
def test_each_missing_outcome_is_the_one_that_lowers_the_net_change_most(
    before: bool | None, after: bool | None, cells: Cells
) -> None:
    whole = compared([True] * 10 + [before], [True] * 9 + [False, after]).all
    both = zip(newcombe(cells), whole.net_change_interval, strict=True)
    assert whole["net_change_interval_worst"] == tuple(map(min, both))
    assert whole["vanished"] == (before is not None) + (after is not None)
    assert whole["newly_unscored"] == (before is not None)
    assert (whole["unscored_before"], whole["unscored_after"]) == (before is None, after is None)


def test_what_a_budget_leaves_out_has_not_vanished() -> None:
    before = snapshot([True] * 10)
    after = snapshot([True] * 8 + [None] * 2, outcome=["ok"] * 8 + [LEFT_OUT] * 2)
    made = compare(before=before, after=after)
    assert made.items.unscored == 2
    assert (made.all["vanished"], made.all["unscored_after"]) == (0, 0)
    assert made.all["net_change_interval_worst"] == made.all.net_change_interval


def test_one_sample_that_vanishes_bounds_the_others_of_its_item() -> None:
    items = {
        "item_id": ["a", "a", "b", "b"],
        "content_hash": ["a", "a", "b", "b"],
        "sample": [0, 1, 0, 1],
    }
    made = compare(
        before=snapshot([True] * 4, **items), after=snapshot([True, True, True, None], **items)
    )
    assert (made.all.n, made.all["vanished"]) == (1, 1)
    # Both rows of b are back: one retained, one forgotten, which are one observation.
    assert made.all["net_change_interval_worst"][0] < made.all.net_change_interval[0]
    assert made.all["net_change_interval_worst"][1] <= made.all.net_change_interval[1]


def test_clearly_known_items_that_vanish_are_counted() -> None:
    columns = {"k": [4, 4, 4, 2], "gold_share": [0.9, 0.9, 0.5, 0.9], "chosen": [0, 0, 0, 0]}
    before = snapshot([True] * 4, **columns)
    after = snapshot([True, None, None, None], **{**columns, "gold_share": [0.9, None, None, None]})
    assert compare(before=before, after=after).all["known_vanished"] == 1
    bare = compare(before=snapshot([True] * 2), after=snapshot([True, None]))
    assert bare.all["known_vanished"] is None


def test_a_category_that_vanished_is_a_group_that_a_gate_can_name() -> None:
    labels = {"category": ["Math"] * 60 + ["Law"] * 60}
    made = compared([True] * 120, [True] * 60 + [None] * 60, **labels)
    law = made.by("category")["Law"]
    assert (law.n, law["vanished"], law["net_change_interval_worst"][1] < -0.9) == (0, 60, True)
    assert "no item was scored on both sides in Law" in made.notes
    for condition in (
        "category:Law.newly_unscored>0",
        "newly_unscored>=60",
        "net_change_interval_worst_low<-40%",
    ):
        assert holds(condition, made)


def test_a_category_that_vanished_whole_keeps_the_verdict_open() -> None:
    labels = {"category": ["Math"] * 3000 + ["Law"] * 20 + ["Art"] * 300}
    made = compared([True] * 3320, [True] * 3000 + [None] * 20 + [True] * 300, **labels)
    found = decide(made)
    leg = found.leg("category")
    assert leg is not None
    assert found.legs[0].answer == "PASS"
    assert (leg.group, leg.value, leg.answer, leg.is_open_by_vanished) == (
        "Law",
        None,
        "INCONCLUSIVE",
        True,
    )
    assert (found.answer, found.next) == ("INCONCLUSIVE", "vanished")
    assert "20 of 20 right answers of Law have no outcome and none gained" in decide(made).sentence


def test_an_answer_that_left_no_text_is_of_the_kind_that_it_was_of() -> None:
    before = snapshot([True] * 4, output=["a", "b", None, None])
    after = snapshot(
        [True, None, True, True], output=["a", None, None, None], outcome=["ok", None, "ok", "ok"]
    )
    kinds = compare(before=before, after=after).by("kind")
    assert {name: (group.n, group["vanished"]) for name, group in kinds.items()} == {
        "written": (1, 1),
        "scored": (2, 0),
    }


def test_few_are_no_note_and_more_are_one() -> None:
    found = {}
    for gone in (10, 30, 200):
        made = compared([True] * 1000, [None] * gone + [True] * (1000 - gone))
        shown, notes = (
            shown_table(made),
            [note for note in made.notes if "were scored on one side alone" in note],
        )
        found[gone] = (
            len(notes),
            "were scored on one side" in shown,
            f", {gone} unanswered" in shown,
        )
    assert found == {10: (0, False, True), 30: (1, True, True), 200: (1, True, True)}


def test_an_alarm_is_not_recovered_while_its_answers_are_missing() -> None:
    def look(right: Right, step: int) -> Snapshot:
        return snapshot(right, meta={"step": step, "model": "m"})

    lost: Right = [False] * 40 + [True] * 160
    run = [look([True] * 200, 0), look(lost, 1)]
    for last, state in (([None] * 40 + [True] * 160, "unclear"), ([True] * 200, "recovered")):
        trajectory = trajectory_of([*run, look(last, 2)])
        alarm, *_ = conclude(trajectory.comparisons[-1], trajectory=trajectory).alarms
        assert (alarm.alarm.step, alarm.state) == (1, state)
        assert not any(one.what == "policy" for one in Guard().findings(trajectory))


@pytest.mark.parametrize("hides", ["any", "wrong", "right"])
def test_no_more_passes_at_a_loss_of_the_limit_whatever_vanishes(hides: str) -> None:
    """Each case is judged with all its answers too: what vanishes never turns another verdict into PASS."""
    rng = np.random.default_rng(7)
    passed = passed_without_the_rule = 0
    for _ in range(30):
        before = rng.random(2000) < 0.6
        after = before ^ (rng.random(2000) < np.where(before, 0.05, 0.06))
        hidden = rng.random(2000) < 0.5 if hides == "any" else after if hides == "right" else ~after
        gone = hidden & (rng.random(2000) < 0.2)
        seen: Right = [
            None if lost else bool(right) for lost, right in zip(gone, after, strict=True)
        ]
        made = compared(before.tolist(), seen)
        whole, part = decide(compared(before.tolist(), after.tolist())), decide(made)
        assert whole.word == "PASS" or part.word != "PASS"
        passed += part.word == "PASS"
        passed_without_the_rule += made.all.net_change_interval[0] > -0.02
    assert passed < passed_without_the_rule


def test_right_answers_that_vanish_are_not_retained() -> None:
    """600 of 700 right answers are left: a judge that returns nothing must not make a model best."""
    before = snapshot([True] * 700 + [False] * 300)
    hidden = snapshot([None] * 100 + [True] * 600 + [False] * 300)
    lost = snapshot([False] * 100 + [True] * 600 + [False] * 300)
    one, other = (compare(before=before, after=after) for after in (hidden, lost))
    assert one.all.retention == other.all.retention == pytest.approx(6 / 7)
    assert (one.all.forgotten, one.all.accuracy_after, one.all.net_change) == (0, 600 / 900, 0)
    ranked = rank_models([one, other])
    assert [model.place for model in ranked] == [1, 1]
    assert ranked[0].kept.interval == pytest.approx(ranked[1].kept.interval)
    assert comparison_json(one)["groups"][0]["retention"] == pytest.approx(6 / 7)


def test_a_guard_trips_on_answers_that_vanish() -> None:
    looks = [
        snapshot([True] * 60 + [False] * 40, meta={"step": 0}),
        snapshot([None] * 1 + [True] * 59 + [False] * 40, meta={"step": 1}),
        snapshot([None] * 24 + [True] * 36 + [False] * 40, meta={"step": 2}),
    ]
    for last, found in ((2, []), (3, ["vanished"])):
        trajectory = trajectory_of(looks[:last])
        findings = Guard().findings(trajectory)
        assert [one.what for one in findings] == found
        assert [one.line for one in findings] == [
            "24 answers that were scored at the start have no outcome at step 2, 24 of them right before"
        ] * len(found)


@pytest.mark.parametrize(
    ("before", "k", "little"),
    [
        ([True] * 46 + [False] * 132, 4, True),  # 26 % right of four
        ([True] * 90 + [False] * 88, 4, False),
        ([False] * 50, None, True),
        ([True] + [False] * 49, None, False),
    ],
)
def test_a_model_at_chance_has_little_to_lose(
    before: list[bool], k: int | None, little: bool
) -> None:
    columns = {} if k is None else {"k": [k] * len(before), "gold": [0] * len(before)}
    side = snapshot(before, **columns)
    comparison = compare(before=side, after=side)
    found = decide(comparison)
    said = found.sentence
    assert found.word == "NOT CLEAR" or not little
    assert (
        "not shown to be better than guessing" in said or "nothing to forget here" in said
    ) == little
    gate = limited(comparison, "50%")
    assert (gate.answer == "PASS") != little
