"""The items whose answer changed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pages import choices, sure, written
from support import snapshot

from forgetwatch import Item, Probe, Trajectory, compare
from forgetwatch.comparing import first_forgotten, prompt_text, sort_flips
from forgetwatch.comparing.flips import flips
from forgetwatch.report import flip_json


def test_each_changed_answer_is_of_one_kind() -> None:
    columns = {"k": [3] * 6, "gold": [0] * 6}
    before = snapshot([True, True, False, False, False, None], chosen=[0, 0, 1, 1, 1, None], **columns)
    after = snapshot([True, False, True, False, False, True], chosen=[0, 1, 0, 2, 1, 0], **columns)
    found = [(flip.item_id, flip.what) for flip in flips(before, after)]
    assert found == [("1", "forgotten"), ("2", "gained"), ("3", "churned")]


@given(
    st.lists(
        st.tuples(st.sampled_from([True, False, None]), st.sampled_from([True, False, None])), min_size=1, max_size=40
    )
)
def test_flips_are_as_many_as_the_comparison_counts(rows: list[tuple[bool | None, bool | None]]) -> None:
    before, after = (snapshot(list(side)) for side in zip(*rows, strict=True))
    whats = [flip.what for flip in flips(before, after)]
    whole = compare(before=before, after=after).all
    assert (whats.count("forgotten"), whats.count("gained")) == (whole.forgotten, whole.gained)
    back = [flip.what for flip in flips(after, before)]
    assert (back.count("gained"), back.count("forgotten")) == (whole.forgotten, whole.gained)


def test_known_and_lost_flips_are_as_many_as_the_groups_count() -> None:
    of = choices(600)
    assert sum(flip.known and flip.what == "forgotten" for flip in of.changed) == of.comparison.all["known_lost"]
    for name, group in of.comparison.by("category").items():
        there = [flip for flip in of.changed if flip.category == name and flip.what == "forgotten"]
        assert (len(there), sum(flip.known for flip in there)) == (group.forgotten, group["known_lost"])


def test_what_luck_makes_of_the_known_and_lost_adds_up_over_the_flips() -> None:
    of = sure()
    lost = [flip for flip in of.changed if flip.known and flip.what == "forgotten"]
    by_luck = [flip.by_luck for flip in of.changed]
    assert None not in by_luck
    assert {flip.what for flip in of.changed if flip.by_luck} == {"churned"}
    assert len(lost) - sum(map(float, filter(None, by_luck))) == of.comparison.all["known_lost_net"] == 7
    assert sum(flip_json(flip)["known_lost_by_luck"] for flip in of.changed) == of.comparison.all["known_lost_by_luck"]


def test_without_scores_of_the_options_nothing_shows_what_luck_makes() -> None:
    columns = {"k": [4, 4], "gold": [0, 0], "gold_share": [0.99, 0.99]}
    before, after = snapshot([True, False], chosen=[0, 1], **columns), snapshot([False] * 2, chosen=[1, 2], **columns)
    changed = flips(before, after)
    found = [(flip.what, flip.known, flip.by_luck) for flip in changed]
    assert found == [("forgotten", True, None), ("churned", False, None)]
    assert flip_json(changed[0])["known_lost_by_luck"] is None


def test_answers_are_option_texts_with_a_probe_and_letters_without() -> None:
    probe = Probe([Item(id="0", task="t", prompt="Q?", choices=(" yes", " no"), answer=0, shots="P? yes\n\n")])
    sides = [snapshot([right], k=[2], gold=[0], chosen=[int(not right)]) for right in (True, False)]
    flip = flips(*sides, probe=probe)[0]
    assert (flip.question, flip.right, flip.answer(flip.before), flip.answer(flip.after)) == ("Q?", "yes", "yes", "no")
    flip = flips(*sides)[0]
    assert (flip.question, flip.right, flip.answer(flip.before), flip.answer(flip.after)) == (None, "A", "A", "B")
    assert flip.option(30) == "option 31"


def test_generated_answers_are_their_output_or_the_reason_why_there_is_none() -> None:
    flip = written([("It is 7.", "It is 8.")]).changed[0]
    assert (flip.right, flip.answer(flip.before), flip.answer(flip.after)) == ("7", "It is 7.", "It is 8.")
    cut = snapshot([False], outcome=["truncated"])
    flip = flips(snapshot([True]), cut)[0]
    assert (flip.answer(flip.before), flip.answer(flip.after)) == (None, "truncated")


def test_all_right_options_are_named() -> None:
    sides = [snapshot([right], k=[3], gold=[0], golds=[[0, 2]], chosen=[0 if right else 1]) for right in (True, False)]
    flip = flips(*sides)[0]
    assert flip.gold == (0, 2)
    assert flip.right == "A | C"


def test_the_most_confident_come_first_and_those_without_a_margin_last() -> None:
    before, after = snapshot([True] * 3, margin=[0.5, None, 2.0]), snapshot([False] * 3, margin=[9.0, 9.0, 9.0])
    found = flips(before, after)
    assert [flip.item_id for flip in sort_flips(found)] == ["2", "0", "1"]
    assert math.isinf(found[1].margin)
    gained = flips(after, before)
    assert sort_flips(gained)[0].margin == 2.0  # how sure it is now


def test_flips_sort_by_the_look_that_was_first_wrong() -> None:
    looks = ["1101", "1001", "0111", "0001"]
    sides = [[answer == "1" for answer in look] for look in looks]
    run = Trajectory.of([snapshot(right, meta={"step": 10 * step}) for step, right in enumerate(sides)])
    first = first_forgotten(run)
    assert first == {("t", "0", 0): 20, ("t", "1", 0): 10}
    found = flips(run.baseline, run.last, first=first)
    assert [(flip.item_id, flip.first) for flip in sort_flips(found, by="first")] == [("1", 10), ("0", 20)]


def test_each_sample_of_an_item_is_a_flip_of_its_own() -> None:
    columns = {"item_id": ["q", "q"], "content_hash": ["h", "h"], "sample": [0, 1]}
    found = flips(snapshot([True, True], **columns), snapshot([True, False], **columns))
    assert [(flip.item_id, flip.sample) for flip in found] == [("q", 1)]


def test_rows_in_another_order_are_the_same_items() -> None:
    of = choices(60)
    order = np.random.default_rng(0).permutation(60)
    shuffled = type(of.after)(of.after.table.take(order), of.after.meta)
    assert flips(of.before, shuffled, probe=of.probe) == of.changed


def test_the_messages_of_a_chat_come_in_order_with_their_roles() -> None:
    assert prompt_text("Q?") == "Q?"
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q?"}]
    assert prompt_text(chat) == "system: Be brief.\n\nuser: Q?"


def test_an_item_shows_its_number_of_options_and_an_open_one_none() -> None:
    columns = {"k": [3, None], "gold": [2, None], "item_id": ["a", "b"]}
    before, after = (snapshot([right] * 2, chosen=[2 * right, None], **columns) for right in (True, False))
    assert [(flip.k, flip.gold, flip.before.chosen, flip.after.chosen) for flip in flips(before, after)] == [
        (3, (2,), 2, 0),
        (None, (), None, None),
    ]


def test_an_option_without_a_letter_is_named_by_its_number() -> None:
    columns = {"k": [30], "gold": [0]}
    flip = flips(snapshot([True], chosen=[0], **columns), snapshot([False], chosen=[26], **columns))[0]
    assert [flip.option(index) for index in (0, 25, 26, 29)] == ["A", "Z", "option 27", "option 30"]
    assert flip.answer(flip.after) == "option 27"
