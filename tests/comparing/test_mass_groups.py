"""Mass and conditional of groups, and the kind of each loss: under every norm, and where scores are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from support import decided, holds, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing import Group, group_values
from forgetwatch.comparing.flips import flips
from forgetwatch.measures import MASS
from forgetwatch.measures.option_mass import mass_mode
from forgetwatch.metrics import MassChanges
from forgetwatch.report import flip_json, tracker_row

Logprobs = np.ndarray[Any, np.dtype[np.float64]]


def mass_of(group: Group) -> MassChanges:
    found = group[MASS]
    assert found is not None
    return found


def sentence(group: Group) -> str:
    assert MASS.sentence is not None
    return MASS.sentence(mass_of(group))


def side(logprobs: Logprobs, *, norm: str = "sum", lengths: Logprobs | None = None, **columns: Any) -> Snapshot:
    """Snapshot decided by log-likelihoods of options of several characters."""
    sizes = np.full(logprobs.shape, 4) if lengths is None else lengths
    return decided(logprobs, norm=norm, lengths=sizes, **{"choice_chars": sizes.tolist(), **columns})


def moved(rows: int = 200, k: int = 4) -> tuple[Logprobs, Logprobs]:
    rng = np.random.default_rng(8)
    before = -rng.exponential(6, (rows, k)) - 5
    before[:, 0] += 3
    return before, before + rng.normal(0, 2, before.shape) + rng.normal(-1, 1, (rows, 1))


@pytest.mark.parametrize("norm", ["sum", "bytes"])
def test_the_change_of_log_p_of_gold_splits_exactly_in_every_group_under_any_norm(norm: str) -> None:
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
    assert whole["log_mass_change"] + whole["log_conditional_change"] == pytest.approx(change.mean(), abs=1e-12)
    assert whole["forgotten_log_mass_change"] == pytest.approx(mass[forgotten].mean())
    both = whole["forgotten_log_mass_change"] + whole["forgotten_log_conditional_change"]
    assert both == pytest.approx(change[forgotten].mean(), abs=1e-12)
    assert mass_of(whole).mass.observations == 50
    for index, group in enumerate(found.by("category").values()):
        assert group["log_mass_change"] + group["log_conditional_change"] == pytest.approx(
            change[index::2].mean(), abs=1e-12
        )
    if norm == "sum":
        assert whole["log_conditional_change"] == pytest.approx(whole["log_score_change"], abs=1e-12)
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
    assert {flip.loss for flip in found} == {"knowledge"}  # under the sum another option is likelier
    mass = logsumexp(after, axis=1) - logsumexp(before, axis=1)
    for flip in found:
        row = int(flip.item_id)
        line = flip_json(flip)
        assert line["loss"] == "knowledge"
        assert line["log_mass_change"] == pytest.approx(mass[row])
        assert line["log_mass_change"] + line["log_conditional_change"] == pytest.approx((after - before)[row, 0])
    whole = compare(before=sides[0], after=sides[1]).all
    assert np.mean([flip.log_mass_change for flip in found]) == pytest.approx(whole["forgotten_log_mass_change"])
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
    forms = ({"output": ["a"], "in_form": [form], "forced_correct": [True]} for form in (True, False))
    (lost,) = flips(snapshot([True], **next(forms)), snapshot([False], **next(forms)))
    assert lost.loss == "form"


def test_a_generated_answer_of_unmeasured_form_shows_no_kind_of_loss_though_its_options_have_scores() -> None:
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
        assert f"forgotten answers: the log probability of the options together {moved_by} " in said
        assert "within its error" not in said
    as_much = compare(before=side(before), after=side(tilted - tilted.mean() + before.mean())).all
    assert ", which is within its error, and that of the right one among them fell by " in sentence(as_much)
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
