"""Mass and conditional of groups, and the kind of each loss: under every norm, and where scores are missing.

Passages in a comparison: bits per byte of each group, and in no count of answers.
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from passage_texts import read
from scipy.special import logsumexp
from support import decided, holds, snapshot

from forgetwatch import Snapshot, compare, load_snapshot, save_snapshot
from forgetwatch.comparing.decision import conclude
from forgetwatch.comparing.document import comparison_json, trajectory_json
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.groups import Group, group_values
from forgetwatch.comparing.trajectory import guessed_history, trajectory_of
from forgetwatch.comparing.verdict import side_of_zero
from forgetwatch.measures.option_mass import MASS, mass_mode
from forgetwatch.measures.quantities import QUANTITIES, value_at
from forgetwatch.metrics.mass import MassChanges
from forgetwatch.policy.condition import Condition
from forgetwatch.report.flip_list import flip_json
from forgetwatch.report.tracker_rows import tracker_row

Logprobs = np.ndarray[Any, np.dtype[np.float64]]


def mass_of(group: Group) -> MassChanges:
    found = group[MASS]
    assert found is not None
    return found


def sentence(group: Group) -> str:
    assert MASS.sentence is not None
    return MASS.sentence(mass_of(group))


def side(
    logprobs: Logprobs, *, norm: str = "sum", lengths: Logprobs | None = None, **columns: Any
) -> Snapshot:
    """Snapshot decided by log-likelihoods of options of several characters."""
    sizes = np.full(logprobs.shape, 4) if lengths is None else lengths
    return decided(
        logprobs, norm=norm, lengths=sizes, **{"choice_chars": sizes.tolist(), **columns}
    )


def moved(rows: int = 200, k: int = 4) -> tuple[Logprobs, Logprobs]:
    rng = np.random.default_rng(8)
    before = -rng.exponential(6, (rows, k)) - 5
    before[:, 0] += 3
    return before, before + rng.normal(0, 2, before.shape) + rng.normal(-1, 1, (rows, 1))


@pytest.mark.parametrize("norm", ["sum", "bytes"])
def test_the_change_of_log_p_of_gold_splits_exactly_in_every_group_under_any_norm(
    norm: str,
) -> None:
    before, after = moved()
    lengths = np.random.default_rng(9).integers(2, 12, before.shape)
    labels = {"category": ["a", "b"] * 100, "cluster": [f"c{i // 4}" for i in range(200)]}
    sides = [side(x, norm=norm, lengths=lengths, **labels) for x in (before, after)]
    found = compare(before=sides[0], after=sides[1])
    forgotten = np.array([flip.item_id for flip in flips(*sides) if flip.what == "forgotten"], int)
    whole = found.all
    assert len(forgotten) == whole.forgotten > 10
    change = (after - before)[:, 0]
    mass = logsumexp(after, axis=1) - logsumexp(before, axis=1)
    assert whole["log_mass_change"] == pytest.approx(mass.mean())
    assert whole["log_mass_change"] + whole["log_conditional_change"] == pytest.approx(
        change.mean(), abs=1e-12
    )
    assert whole["forgotten_log_mass_change"] == pytest.approx(mass[forgotten].mean())
    both = whole["forgotten_log_mass_change"] + whole["forgotten_log_conditional_change"]
    assert both == pytest.approx(change[forgotten].mean(), abs=1e-12)
    assert mass_of(whole).mass.observations == 50
    for index, group in enumerate(found.by("category").values()):
        assert group["log_mass_change"] + group["log_conditional_change"] == pytest.approx(
            change[index::2].mean(), abs=1e-12
        )
    if norm == "sum":
        assert whole["log_conditional_change"] == pytest.approx(
            whole["log_score_change"], abs=1e-12
        )
    else:
        assert whole["log_conditional_change"] != pytest.approx(whole["log_score_change"], abs=1e-2)


def test_what_cannot_be_split_is_null() -> None:
    before, after = moved(60)
    lists: list[Any] = after.tolist()
    lists[3][1], lists[4] = -np.inf, None
    lists[5] = lists[5][:3]
    number: list[Any] = [4] * 60
    number[5] = None  # where both sides name it, another number is refused
    found = compare(before=side(before), after=side(after, choice_logprobs=lists, k=number))
    kept = np.delete(np.arange(60), [3, 4, 5])
    mass = logsumexp(after, axis=1) - logsumexp(before, axis=1)
    assert found.all["log_mass_change"] == pytest.approx(mass[kept].mean())
    assert mass_of(found.all).n == 57
    alone = compare(before=side(before), after=side(after, choice_logprobs=None))
    values = group_values(alone.all)
    for name in ("log_mass_change", "log_mass_change_interval", "forgotten_log_mass_change"):
        assert values[name] is None


def test_every_forgotten_choice_is_labelled_and_has_its_two_changes() -> None:
    before, after = moved()
    sides = side(before), side(after)
    found = [flip for flip in flips(*sides) if flip.what == "forgotten"]
    assert {flip.loss for flip in found} == {
        "knowledge"
    }  # under the sum another option is likelier
    mass = logsumexp(after, axis=1) - logsumexp(before, axis=1)
    for flip in found:
        row = int(flip.item_id)
        line = flip_json(flip)
        assert line["loss"] == "knowledge"
        assert line["log_mass_change"] == pytest.approx(mass[row])
        assert line["log_mass_change"] + line["log_conditional_change"] == pytest.approx(
            (after - before)[row, 0]
        )
    whole = compare(before=sides[0], after=sides[1]).all
    assert np.mean([flip.log_mass_change for flip in found]) == pytest.approx(
        whole["forgotten_log_mass_change"]
    )
    assert {flip.loss for flip in flips(*sides) if flip.what != "forgotten"} == {None}


def test_a_loss_by_mass_alone_under_a_length_norm_is_one_of_form() -> None:
    """All options an e^8th as likely: under bytes the long right option falls behind, and nothing else changed."""
    before = np.tile([-12.0, -5.0], (40, 1))
    lengths = np.tile([12, 4], (40, 1))
    after = before.copy()
    after[:20] += 4.0  # by mass alone
    after[20:, 1] = -2.0  # another option is likelier
    sides = (side(x, norm="bytes", lengths=lengths) for x in (before, after))
    found = flips(*sides)
    assert [flip.loss for flip in found] == ["form"] * 20 + ["knowledge"] * 20


def test_a_mere_right_and_wrong_shows_no_kind_of_loss() -> None:
    (flip,) = flips(snapshot([True]), snapshot([False]))
    assert (flip.loss, flip.log_mass_change, flip.log_conditional_change) == (None, None, None)
    (generated,) = flips(snapshot([True], output=["a"]), snapshot([False], output=["b"]))
    assert generated.loss is None
    forms = (
        {"output": ["a"], "in_form": [form], "forced_correct": [True]} for form in (True, False)
    )
    (lost,) = flips(snapshot([True], **next(forms)), snapshot([False], **next(forms)))
    assert lost.loss == "form"


def test_a_generated_answer_of_unmeasured_form_shows_no_kind_of_loss_though_its_options_have_scores() -> (
    None
):
    before, after = moved(40)
    sides = (side(x, output=["an answer"] * 40) for x in (before, after))
    forgotten = [flip for flip in flips(*sides) if flip.what == "forgotten"]
    assert forgotten
    assert {flip.loss for flip in forgotten} == {None}
    # Scores next to a generated answer did not decide it.
    assert {flip.log_mass_change for flip in forgotten} == {None}


def test_the_sentence_follows_the_part_that_fell() -> None:
    before, _ = moved()
    tilted = before + np.random.default_rng(1).normal(0, 3, before.shape)
    for shift, mode in ((-20.0, "mass"), (-2.0, "both"), (5.0, "conditional")):
        whole = compare(before=side(before), after=side(tilted + shift)).all
        assert mass_mode(mass_of(whole)) == mode
        said = sentence(whole)
        moved_by = "rose by" if shift > 0 else "fell by"
        named = {"mass": "mass, mostly", "both": "mass and choice", "conditional": "choice"}[mode]
        assert f" forgotten answers were lost by {named}: " in said
        assert f"(the options together {moved_by} " in said
        assert "within its error" not in said
    as_much = compare(before=side(before), after=side(tilted - tilted.mean() + before.mean())).all
    assert ", within its error, the right one among them fell by " in sentence(as_much)
    # Few answers whose mass may have fallen by as much as the choice: neither is told.
    few = before[:6]
    lost = np.roll(few, 1, axis=1) + np.array([-40.0, 40.0, -40.0, 40.0, -40.0, 40.0])[:, None]
    vague = compare(before=side(few), after=side(lost)).all
    assert vague.forgotten > 1
    assert mass_mode(mass_of(vague)) is None
    assert sentence(compare(before=side(before), after=side(before)).all) == ""


def test_trackers_and_gates_have_the_quantities_by_name() -> None:
    before, after = moved()
    found = compare(before=side(before), after=side(after))
    row = tracker_row(found, seconds=1.0, full=True)
    for name in ("log_mass_change", "forgotten_log_conditional_change"):
        assert row[f"eval_forget/all/{name}"] == found.all[name]
    assert "eval_forget/all/log_mass_change_interval_low" in row
    assert holds("log_mass_change<0", found)
    assert holds("forgotten_log_conditional_change<0", found)


RNG = np.random.default_rng(0)
BEFORE = RNG.uniform(0.8, 1.6, 20)
AFTER = BEFORE + RNG.normal(0.05, 0.03, 20)
QUESTIONS = [True, True, False, True, False, True]
ENDS = ("bits_per_byte_change_interval_low", "bits_per_byte_change_interval_high")
KEYS = ("passages", "bits_per_byte_before", "bits_per_byte_after", "bits_per_byte_change")


def test_each_group_has_the_bits_per_byte_of_its_passages() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    whole, news = made.all, made.by("category")["News"]
    for group, rows in ((whole, slice(20)), (news, slice(10))):
        one, other = BEFORE[rows], AFTER[rows]
        expected = [len(one), one.mean(), other.mean(), (other - one).mean()]
        assert [group[name] for name in KEYS] == pytest.approx(expected)
    assert list(made.by("task")) == ["passages:news", "passages:code"]
    assert whole["bits_per_byte_change_interval"] is not None
    low, high = whole["bits_per_byte_change_interval"]
    assert low < whole["bits_per_byte_change"] < high


def test_passages_pair_by_their_text_whatever_their_order() -> None:
    after = read(bits=AFTER)
    turned = replace(after, table=after.table.take(list(reversed(range(20)))))
    one, other = (compare(before=read(bits=BEFORE), after=side).all for side in (after, turned))
    assert other["bits_per_byte_change"] == pytest.approx(one["bits_per_byte_change"])
    assert other["bits_per_byte_change_interval"] == pytest.approx(
        one["bits_per_byte_change_interval"]
    )


def test_passages_are_in_no_count_of_answers() -> None:
    after = [True, False, False, True, True, False]
    alone = compare(before=read(bits=[], questions=QUESTIONS), after=read(bits=[], questions=after))
    beside = compare(
        before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=after)
    )
    assert beside.items == alone.items
    for level in ("all", "category"):
        one, other = (
            group_values(made.by(level)["all" if level == "all" else "Math"])
            for made in (alone, beside)
        )
        passages = (
            {name for name in one if name.startswith(("passages", "bits_per_byte"))}
            if level == "all"
            else set()
        )
        assert {name for name in one if one[name] != other[name]} == passages
    assert all(
        value is None
        for name, value in group_values(alone.all).items()
        if name.startswith("bits_per_byte")
    )
    assert alone.all.passages is None


def test_a_group_of_passages_alone_is_null_and_never_nan() -> None:
    made = compare(
        before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=QUESTIONS)
    )
    news = json.loads(json.dumps(group_values(made.by("category")["News"]), allow_nan=False))
    assert (news["n"], news["passages"]) == (0, 10)
    assert {name for name in QUANTITIES if value_at(news, name) is not None and name != "n"} == {
        *KEYS,
        *ENDS,
    }
    nulls = ("accuracy_after", "net_change", "p_value", "loss_p_value", "known")
    assert all(news[name] is None for name in nulls)
    only = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    json.dumps(comparison_json(only), allow_nan=False)
    assert (only.all.n, only.items.unscored, only.items.compared) == (0, 0, 0)


def test_categories_of_passages_do_not_change_what_is_said_of_others() -> None:
    after = [False] * 6
    alone = compare(
        before=read(bits=[], questions=[True] * 6), after=read(bits=[], questions=after)
    )
    beside = compare(
        before=read(bits=BEFORE, questions=[True] * 6), after=read(bits=AFTER, questions=after)
    )
    assert group_values(beside.by("category")["Math"]) == group_values(alone.by("category")["Math"])
    assert conclude(beside).ranked == conclude(alone).ranked == ()
    assert conclude(beside).categories == 0


def test_a_passage_scored_on_one_side_is_unscored() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER, unscored=[3, 12]))
    assert (made.items.unscored, made.all.passages) == (2, 18)
    assert made.by("category")["News"].passages == 9


def test_equal_sides_change_by_exactly_nothing() -> None:
    whole = compare(before=read(bits=BEFORE), after=read(bits=BEFORE, step=5)).all
    assert whole["bits_per_byte_change"] == 0
    assert whole["bits_per_byte_change_interval"] == (0.0, 0.0)


def test_one_passage_has_a_change_and_a_null_interval() -> None:
    whole = group_values(compare(before=read(bits=[1.0]), after=read(bits=[1.1])).all)
    assert whole["bits_per_byte_change"] == pytest.approx(0.1)
    assert whole["bits_per_byte_change_interval"] == [None, None]


def test_passages_alone_have_no_verdict_on_correctness() -> None:
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    found = conclude(made)
    assert not found.has_answers
    assert side_of_zero(made.all["bits_per_byte_change_interval"]) == "above"


def test_passages_do_not_change_a_verdict() -> None:
    after = [True, False, False, True, True, False]
    alone = conclude(
        compare(before=read(bits=[], questions=QUESTIONS), after=read(bits=[], questions=after))
    )
    beside = conclude(
        compare(
            before=read(bits=BEFORE, questions=QUESTIONS), after=read(bits=AFTER, questions=after)
        )
    )
    assert beside.has_answers
    assert beside.decision == alone.decision


def test_a_snapshot_of_passages_comes_back_from_its_file(tmp_path: object) -> None:
    made = read(bits=BEFORE, questions=QUESTIONS)
    save_snapshot(made, f"{tmp_path}/s.parquet")
    back = load_snapshot(f"{tmp_path}/s.parquet")
    assert back.checksum == made.checksum
    assert back.is_passage.tolist() == made.is_passage.tolist() == [False] * 6 + [True] * 20


def test_alarms_of_a_run_watch_no_group_of_passages_alone() -> None:
    looks = [read(bits=BEFORE + 0.05 * step, questions=QUESTIONS, step=step) for step in range(3)]
    run = trajectory_of(looks, planned=2)
    assert {test.group.name for test in run.verdicts()} == {
        "all"
    }  # Math is the only category with answers
    assert [one.all["bits_per_byte_change"] for one in run.comparisons] == pytest.approx(
        [0, 0.05, 0.1]
    )
    only = trajectory_of(
        [read(bits=BEFORE + 0.05 * step, step=step) for step in range(3)], planned=2
    )
    assert only.verdicts() == ()
    assert math.isnan(guessed_history(only).temporal_forgetting)
    json.dumps(trajectory_json(only), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("bits_per_byte_change>0.02", True),
        ("bits_per_byte_change>0.5", False),
        ("category:News.bits_per_byte_after>0.5", True),
        ("passages<20", False),
    ],
)
def test_a_gate_measures_bits_per_byte(text: str, holds: bool) -> None:
    condition = Condition.parse(text)
    made = compare(before=read(bits=BEFORE), after=read(bits=AFTER))
    assert condition.is_met_by(condition.measure(made)) is holds
