"""The items whose answer changed.

Lost answers asked again in other wordings, on planted worlds.

Changes by wording, on planted worlds.
"""

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import choices, sure, written
from support import decided, snapshot

from forgetwatch import Item, Probe, Snapshot, compare
from forgetwatch.comparing.asked_again import ask_again, marked_flips
from forgetwatch.comparing.by_wording import WordingChanges
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.flips import first_forgotten, flips, prompt_text, sort_flips
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.other_wordings import Again, LostElsewhere, lost_elsewhere
from forgetwatch.probes.wordings import worded
from forgetwatch.report.flip_list import flip_json


def test_each_changed_answer_is_of_one_kind() -> None:
    columns = {"k": [3] * 6, "gold": [0] * 6}
    before = snapshot(
        [True, True, False, False, False, None], chosen=[0, 0, 1, 1, 1, None], **columns
    )
    after = snapshot([True, False, True, False, False, True], chosen=[0, 1, 0, 2, 1, 0], **columns)
    found = [(flip.item_id, flip.what) for flip in flips(before, after)]
    assert found == [("1", "forgotten"), ("2", "gained"), ("3", "churned")]


@given(
    st.lists(
        st.tuples(st.sampled_from([True, False, None]), st.sampled_from([True, False, None])),
        min_size=1,
        max_size=40,
    )
)
def test_flips_are_as_many_as_the_comparison_counts(
    rows: list[tuple[bool | None, bool | None]],
) -> None:
    before, after = (snapshot(list(side)) for side in zip(*rows, strict=True))
    whats = [flip.what for flip in flips(before, after)]
    whole = compare(before=before, after=after).all
    assert (whats.count("forgotten"), whats.count("gained")) == (whole.forgotten, whole.gained)
    back = [flip.what for flip in flips(after, before)]
    assert (back.count("gained"), back.count("forgotten")) == (whole.forgotten, whole.gained)


def test_known_and_lost_flips_are_as_many_as_the_groups_count() -> None:
    of = choices(600)
    assert (
        sum(flip.known and flip.what == "forgotten" for flip in of.changed)
        == of.comparison.all["known_lost"]
    )
    for name, group in of.comparison.by("category").items():
        there = [flip for flip in of.changed if flip.category == name and flip.what == "forgotten"]
        assert (len(there), sum(flip.known for flip in there)) == (
            group.forgotten,
            group["known_lost"],
        )


def test_what_luck_makes_of_the_known_and_lost_adds_up_over_the_flips() -> None:
    of = sure()
    lost = [flip for flip in of.changed if flip.known and flip.what == "forgotten"]
    by_luck = [flip.by_luck for flip in of.changed]
    assert None not in by_luck
    assert {flip.what for flip in of.changed if flip.by_luck} == {"churned"}
    assert (
        len(lost) - sum(map(float, filter(None, by_luck)))
        == of.comparison.all["known_lost_net"]
        == 7
    )
    assert (
        sum(flip_json(flip)["known_lost_by_luck"] for flip in of.changed)
        == of.comparison.all["known_lost_by_luck"]
    )


def test_without_scores_of_the_options_nothing_shows_what_luck_makes() -> None:
    columns = {"k": [4, 4], "gold": [0, 0], "gold_share": [0.99, 0.99]}
    before, after = (
        snapshot([True, False], chosen=[0, 1], **columns),
        snapshot([False] * 2, chosen=[1, 2], **columns),
    )
    changed = flips(before, after)
    found = [(flip.what, flip.known, flip.by_luck) for flip in changed]
    assert found == [("forgotten", True, None), ("churned", False, None)]
    assert flip_json(changed[0])["known_lost_by_luck"] is None


def test_answers_are_option_texts_with_a_probe_and_letters_without() -> None:
    probe = Probe(
        [Item(id="0", task="t", prompt="Q?", choices=(" yes", " no"), answer=0, shots="P? yes\n\n")]
    )
    sides = [snapshot([right], k=[2], gold=[0], chosen=[int(not right)]) for right in (True, False)]
    flip = flips(*sides, probe=probe)[0]
    assert (flip.question, flip.right, flip.answer(flip.before), flip.answer(flip.after)) == (
        "Q?",
        "yes",
        "yes",
        "no",
    )
    flip = flips(*sides)[0]
    assert (flip.question, flip.right, flip.answer(flip.before), flip.answer(flip.after)) == (
        None,
        "A",
        "A",
        "B",
    )
    assert flip.option(30) == "option 31"


def test_generated_answers_are_their_output_or_the_reason_why_there_is_none() -> None:
    flip = written([("It is 7.", "It is 8.")]).changed[0]
    assert (flip.right, flip.answer(flip.before), flip.answer(flip.after)) == (
        "7",
        "It is 7.",
        "It is 8.",
    )
    cut = snapshot([False], outcome=["truncated"])
    flip = flips(snapshot([True]), cut)[0]
    assert (flip.answer(flip.before), flip.answer(flip.after)) == (None, "truncated")


def test_all_right_options_are_named() -> None:
    sides = [
        snapshot([right], k=[3], gold=[0], golds=[[0, 2]], chosen=[0 if right else 1])
        for right in (True, False)
    ]
    flip = flips(*sides)[0]
    assert flip.gold == (0, 2)
    assert flip.right == "A | C"


def test_the_most_confident_come_first_and_those_without_a_margin_last() -> None:
    before, after = (
        snapshot([True] * 3, margin=[0.5, None, 2.0]),
        snapshot([False] * 3, margin=[9.0, 9.0, 9.0]),
    )
    found = flips(before, after)
    assert [flip.item_id for flip in sort_flips(found)] == ["2", "0", "1"]
    assert math.isinf(found[1].margin)
    gained = flips(after, before)
    assert sort_flips(gained)[0].margin == 2.0  # how sure it is now


def test_flips_sort_by_the_look_that_was_first_wrong() -> None:
    looks = ["1101", "1001", "0111", "0001"]
    sides = [[answer == "1" for answer in look] for look in looks]
    run = trajectory_of(
        [snapshot(right, meta={"step": 10 * step}) for step, right in enumerate(sides)]
    )
    first = first_forgotten(run)
    assert first == {("t", "0", 0): 20, ("t", "1", 0): 10}
    found = flips(run.baseline, run.last, first=first)
    assert [(flip.item_id, flip.first) for flip in sort_flips(found, by="first")] == [
        ("1", 10),
        ("0", 20),
    ]


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
    before, after = (
        snapshot([right] * 2, chosen=[2 * right, None], **columns) for right in (True, False)
    )
    assert [
        (flip.k, flip.gold, flip.before.chosen, flip.after.chosen) for flip in flips(before, after)
    ] == [
        (3, (2,), 2, 0),
        (None, (), None, None),
    ]


def test_an_option_without_a_letter_is_named_by_its_number() -> None:
    columns = {"k": [30], "gold": [0]}
    flip = flips(
        snapshot([True], chosen=[0], **columns), snapshot([False], chosen=[26], **columns)
    )[0]
    assert [flip.option(index) for index in (0, 25, 26, 29)] == ["A", "Z", "option 27", "option 30"]
    assert flip.answer(flip.after) == "option 27"


ITEMS = 200
SHORT = "short"


def probe(**settings: Any) -> Probe:
    items = [
        Item(
            id=str(n),
            task="t",
            prompt=f"Question: {n}?\nAnswer:",
            choices=[" a", " b", " c"],
            answer=0,
        )
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


@pytest.mark.full(reason="further worlds of a simulation")
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
    assert (
        str(found)
        == "none of the clearly known answers that were lost could be asked in other words"
    )


def test_what_has_no_other_wording_is_left_out_and_counted() -> None:
    ids = [str(n) for n in range(ITEMS)]
    before, after = outcomes(np.ones(ITEMS, bool), ids), outcomes(np.arange(ITEMS) >= 3, ids)
    found = ask_again(before, after, probe(rendering="chat"), lambda asked: pytest.fail("asked"))
    assert (found.counts.lost, found.left_out) == (0, 3)
    with pytest.raises(SnapshotError, match="question '0' is missing"):
        ask_again(
            before, after, probe().with_items(probe().items[5:]), lambda asked: pytest.fail("asked")
        )


def test_flips_are_marked_with_what_became_of_them() -> None:
    found = world(np.random.default_rng(0), "knowledge")
    ids = [str(n) for n in range(ITEMS)]
    lost = {int(one) for _, one in found.status}
    changed = flips(
        outcomes(np.ones(ITEMS, bool), ids), outcomes([n not in lost for n in range(ITEMS)], ids)
    )
    assert {flip.again for flip in marked_flips(found, changed)} == {"lost in every wording"}
    assert {flip.again for flip in changed} == {None}


def test_the_interval_is_newcombes_of_two_independent_shares() -> None:
    found = LostElsewhere(lost=70, lost_elsewhere=56, kept=80, kept_elsewhere=48)
    assert found.excess == pytest.approx(0.2)
    assert found.interval == pytest.approx(
        (0.0524, 0.3339), abs=1e-4
    )  # Newcombe 1998, table II, method 10
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
    assert (
        sum(found.by_wording.values()) == 2 * found.counts.lost == 2 * found.counts.lost_elsewhere
    )


def test_what_was_asked_in_each_wording_is_not_asked_again() -> None:
    asked = worded(probe(), "each")
    ids = [item.id for item in asked]
    lost = np.array([int(one.split("@")[0]) % 4 == 0 and not one.endswith("@right") for one in ids])
    before, after = outcomes(np.ones(len(ids), bool), ids), outcomes(~lost, ids)
    found = ask_again(before, after, asked, lambda _: pytest.fail("asked"))
    assert found.counts.lost == ITEMS // 4
    assert found.by_wording == {"short": ITEMS // 4, "right": 0}
    assert found.counts.lost_elsewhere == 0


NAMES = ("shipped", "short", "right")


def world_of_by_wording(
    rng: np.random.Generator,
    fall: tuple[float, float, float],
    *,
    asked: Literal["one", "each"],
    items: int = 300,
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
def test_a_loss_of_one_wording_is_named_and_an_equal_loss_is_not(
    asked: Literal["one", "each"],
) -> None:
    rng = np.random.default_rng(3)
    form = world_of_by_wording(rng, (1.5, 0.0, 0.0), asked=asked)
    found = changes(form)
    assert found.differ
    assert found.asked_in == asked
    assert list(found.changes) == ["shipped", "short", "right"]
    assert found.changes["shipped"] < -0.1 < found.changes["short"]
    assert list(form.by("wording")) == ["shipped", "short", "right"]
    text = "; ".join(decide(form).reasons)
    assert f"part of it is the wording ({found})" in text
    assert str(found).startswith("shipped -")
    assert found.p_value == 0.001
    document = form.to_dict()["wordings"]
    assert document["p_value"] == found.p_value
    assert document["asked_in"] == asked
    equal = world_of_by_wording(rng, (0.8, 0.8, 0.8), asked=asked)
    assert not changes(equal).differ
    assert not any("the wording" in one for one in decide(equal).reasons)


@pytest.mark.full("0.0", "0.8-one", reason="further worlds of a simulation")
@pytest.mark.parametrize("asked", ["one", "each"])
@pytest.mark.parametrize("fall", [0.0, 0.8])
def test_equal_changes_are_called_unequal_in_at_most_5_of_100_worlds(
    asked: Literal["one", "each"], fall: float
) -> None:
    rng, worlds = np.random.default_rng(4), 100
    called = sum(
        changes(world_of_by_wording(rng, (fall, fall, fall), asked=asked, items=150)).differ
        for _ in range(worlds)
    )
    assert called / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


def test_the_same_weights_changed_in_no_wording() -> None:
    one = world_of_by_wording(np.random.default_rng(5), (0.0, 0.0, 0.0), asked="one")
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
    with pytest.raises(
        MismatchError,
        match=r"were asked 20 questions in other words.*'short' and 'right'; score both",
    ):
        compare(before=_all(30, "short"), after=_all(30, "right"))
    with pytest.raises(MismatchError, match="'short' and 'shipped'"):
        compare(before=_all(30, "short"), after=_all(30))
    with pytest.raises(MismatchError, match="in other words"):
        compare(
            before=_all(30, "short", of=0), after=_all(30, "right", of=0), on_mismatch="intersect"
        )
    found = compare(before=_all(30, "short"), after=_all(30, "right"), on_mismatch="intersect")
    assert found.all.n == 10


def test_questions_that_have_no_other_wording_take_no_part() -> None:
    """Only items without a wording lose: that is no change of a wording."""
    rng = np.random.default_rng(11)
    before = rng.normal(1.0, 2.0, 400)
    wording = [None if n >= 300 else NAMES[n % 3] for n in range(400)]
    names = {
        "item_id": [str(n) for n in range(400)],
        "content_hash": [f"h{n}" for n in range(400)],
        "wording": wording,
    }
    after = before + rng.normal(0, 0.3, 400) - np.where(np.arange(400) >= 300, 3.0, 0.0)
    found = compare(before=_side(before, names), after=_side(after, names))
    assert not changes(found).differ
    assert {name: group.n for name, group in found.by("wording").items()} == dict.fromkeys(
        NAMES, 100
    )
    lost = decide(found).sentence
    assert "the wording" not in lost


def test_a_question_in_several_wordings_is_one_observation() -> None:
    rng = np.random.default_rng(8)
    found = world_of_by_wording(rng, (0.8, 0.8, 0.8), asked="each", items=100)
    assert found.clusters == 100
    few = world_of_by_wording(rng, (2.0, 2.0, 2.0), asked="each", items=20)
    known = few.all[KNOWN]
    assert known is not None
    assert known.known >= 20 > known.independent
    assert known.lost_net_share is None
