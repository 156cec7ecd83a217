from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import decided, snapshot

from forgetwatch import Snapshot, compare, save_snapshot
from forgetwatch.errors import MismatchError


def meta(**settings: str) -> dict[str, Any]:
    probe = {"name": "p", "scoring": "loglikelihood", "norm": "bytes", "rendering": "plain", **settings}
    return {"model": "m", "probe": probe}


def test_the_same_snapshot_twice_changes_nothing() -> None:
    same = snapshot([True, False, True], k=[3, 3, 3], chosen=[0, 1, 0], gold_share=[0.9, 0.2, 0.8])
    whole = compare(before=same, after=same).all
    assert (whole.forgotten, whole.gained, whole["known"], whole["known_lost"]) == (0, 0, 2, 0)
    assert (whole.net_change, whole.retention, whole.p_value) == (0.0, 1.0, 1.0)


def test_paths_and_snapshots_give_the_same_comparison(tmp_path: Path) -> None:
    before, after = snapshot([True, False]), snapshot([False, True])
    save_snapshot(before, tmp_path / "b.parquet")
    save_snapshot(after, tmp_path / "a.parquet")
    read = compare(before=tmp_path / "b.parquet", after=str(tmp_path / "a.parquet"))
    assert read.all == compare(before=before, after=after).all


def test_unscored_items_are_in_no_cell_and_nothing_scored_gives_undefined_rates() -> None:
    comparison = compare(before=snapshot([True, None, True, False]), after=snapshot([None, True, False, False]))
    assert (comparison.items.compared, comparison.items.unscored) == (2, 2)
    assert (comparison.all.forgotten, comparison.all.missed) == (1, 1)
    whole = compare(before=snapshot([None]), after=snapshot([True])).all
    assert whole.n == 0
    assert math.isnan(whole.forgetting)


def test_unlike_items_are_refused_and_counted_and_the_intersection_is_offered() -> None:
    before = snapshot([True] * 4, content_hash=list("ABCD"))
    after = snapshot([False] * 4, content_hash=list("ABXY"))
    says = r"2 items before and 2 after have no partner \(2 ids have unlike questions\)"
    with pytest.raises(MismatchError, match=says):
        compare(before=before, after=after)
    shared = compare(before=before, after=after, on_mismatch="intersect")
    assert (shared.all.n, shared.all.forgotten) == (2, 2)
    assert (shared.items.only_before, shared.items.only_after, shared.items.content_differs) == (2, 2, 2)


def test_nothing_in_common_is_refused_in_any_case() -> None:
    with pytest.raises(MismatchError, match="no item in common"):
        compare(before=snapshot([True]), after=snapshot([True], content_hash=["z"]), on_mismatch="intersect")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"scoring": "letters"}, "scored with scoring"),
        ({"rendering": "chat"}, "scored with rendering"),
        ({"norm": "sum"}, "by the norm"),  # without scores
    ],
)
def test_outcomes_of_other_settings_are_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(MismatchError, match=says):
        compare(before=snapshot([True], meta=meta()), after=snapshot([True], meta=meta(**settings)))


def test_other_prompts_are_refused_above_one_percent_and_by_name() -> None:
    hashes = [f"p{i}" for i in range(200)]
    before = snapshot([True] * 200, prompt_hash=hashes, meta=meta())
    some = snapshot([True] * 200, prompt_hash=["x", "y", *hashes[2:]], meta=meta())
    many = snapshot([True] * 200, prompt_hash=["x", "y", "z", *hashes[3:]], meta=meta())
    assert compare(before=before, after=some).items.prompt_differs == 2
    says = r"prompts of 3 of 200 items differ .*plain prompt.*--allow-prompt-mismatch"
    with pytest.raises(MismatchError, match=says):
        compare(before=before, after=many)
    assert compare(before=before, after=many, allow_prompt_mismatch=True).items.prompt_differs == 3


def test_a_chat_rendering_against_a_plain_one_needs_permission() -> None:
    before = snapshot([True], prompt_hash=["p"], meta=meta())
    after = snapshot([True], prompt_hash=["q"], meta=meta(rendering="chat"))
    with pytest.raises(MismatchError, match="'plain' and m with 'chat'"):
        compare(before=before, after=after)
    assert compare(before=before, after=after, allow_prompt_mismatch=True).all.n == 1


def test_another_tools_prompt_hashes_and_pairing_by_id_alone_are_noted() -> None:
    before, after = (snapshot([True], source_prompt_hash=[h]) for h in "pq")
    assert any("by their own tool's hash: 1" in note for note in compare(before=before, after=after).notes)
    bare = snapshot([True], content_hash=[None])
    assert any(
        "nothing guarantees that the questions are the same" in note for note in compare(before=bare, after=bare).notes
    )


def test_unequal_numbers_of_samples_are_refused_unless_only_the_first_counts() -> None:
    one = snapshot([True], item_id=["1"], content_hash=["A"])
    two = snapshot([False, True], item_id=["1", "1"], content_hash=["A", "A"], sample=[0, 1])
    with pytest.raises(MismatchError, match="have unlike samples: 1 and 2 per item"):
        compare(before=one, after=two)
    mixed = snapshot([True] * 3, item_id=["1", "1", "2"], content_hash=["A", "A", "B"], sample=[0, 1, 0])
    with pytest.raises(MismatchError, match="unlike samples"):
        compare(before=mixed, after=mixed)
    later = snapshot([False, True], item_id=["1", "1"], content_hash=["A", "A"], sample=[1, 2])
    with pytest.raises(MismatchError, match="unlike samples"):
        compare(before=two, after=later)
    assert compare(before=two, after=later, samples="first").all.n == 1
    assert compare(before=one, after=two, samples="first").all.forgotten == 1


def test_categories_come_from_before_and_where_it_has_none_from_after() -> None:
    before, after = snapshot([True, True], category=["a", ""]), snapshot([True, True], category=["x", "b"])
    assert list(compare(before=before, after=after).by("category")) == ["a", "b"]


def test_a_comparison_prints_as_one_line() -> None:
    settings = {"settings": "x" * 1000}  # the metadata and the groups are not printed
    before, after = snapshot([True] * 40, meta=settings), snapshot([False] * 10 + [True] * 30, meta=settings)
    comparison = compare(before=before, after=after)
    low, high = comparison.all.net_change_interval
    assert str(comparison) == (
        "snapshot -> snapshot: 10 forgotten and 0 gained of 40 items, net -25.0 points "
        f"({100 * low:+.1f} to {100 * high:+.1f})"
    )
    assert len(repr(comparison)) < 400


def test_the_null_needs_as_many_samples_and_counts_its_items() -> None:
    twice = {"item_id": ["1", "1", "2", "2"], "content_hash": ["A", "A", "B", "B"], "sample": [0, 1, 0, 1]}
    once = {"item_id": ["1", "2"], "content_hash": ["A", "B"]}
    double, single = snapshot([True] * 4, **twice), snapshot([True, False], **once)
    with pytest.raises(MismatchError, match="the null has 1 samples per item and snapshot has 2"):
        compare(before=double, after=double, null=single)
    first = snapshot([False], item_id=["1"], content_hash=["A"])
    whole = compare(before=single, after=single, null=first).all
    assert (whole["null_n"], whole["null_lost"], whole["null_gained"]) == (1, 1, 0)
    nothing = compare(before=single, after=single, null=snapshot([None, None], **once))
    assert nothing.all["null_lost"] is None
    assert any("no scored item" in note for note in nothing.notes)


def test_a_null_of_another_step_is_refused() -> None:
    early, late = (snapshot([True], meta={"model": "m", "step": step}) for step in (0, 5))
    with pytest.raises(MismatchError, match="measured at step 5"):
        compare(before=early, after=late, null=late)
    moved = snapshot([True], meta={"model": "elsewhere", "step": 0})
    assert any("another model" in note for note in compare(before=early, after=late, null=moved).notes)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="needed one of all, kind, wording, category, task"):
        compare(before=snapshot([True]), after=snapshot([True])).by("tasks")  # type: ignore[arg-type]


def scored(shift: float = 0.0, *, gold: float = 2.0, **columns: object) -> Snapshot:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200, 4)) + np.array([gold, 0, 0, 0])
    scores[::2, 1] += shift
    scores -= scores.max()  # log-likelihoods are at most 0
    return decided(scores, **columns)


def test_without_the_chosen_options_luck_is_not_measured() -> None:
    assert compare(before=scored(), after=scored(4.0)).all["known_lost_net"] is not None
    nothing = [None] * 200
    found = compare(before=scored(chosen=nothing), after=scored(4.0, chosen=nothing))
    assert found.all["known_lost"]
    assert found.all["known_lost_net"] is None
    assert any("nothing shows how much of known and lost is luck" in note for note in found.notes)


def test_known_and_lost_says_what_it_leaves_out_for_want_of_scores() -> None:
    rows = scored().table["choice_logprobs"].to_pylist()
    half = [row if number % 2 else None for number, row in enumerate(rows)]
    found = compare(before=scored(choice_logprobs=half, gold_share=[0.9] * 200), after=scored(gold_share=[0.9] * 200))
    assert "known and lost leaves out 100 answers whose options have no scores on both sides" in found.notes


def test_scores_of_one_side_alone_leave_the_log_score_out_without_a_note() -> None:
    found = compare(before=scored(), after=scored(choice_logprobs=[None] * 200))
    assert found.all["log_score_change"] is None
    assert not any("the log score leaves out" in note for note in found.notes)


def test_known_and_lost_needs_the_scores_of_three_options_too() -> None:
    columns = {"k": [3, 3, 2], "gold": [0] * 3, "gold_share": [0.9, 0.9, 0.9], "chosen": [0, 0, 0]}
    rows = [[-0.1, -3.0, -3.0], None, None]
    one = snapshot([True, True, True], choice_logprobs=rows, **columns)
    found = compare(before=one, after=replace(one, meta={"step": 1}))
    assert "known and lost leaves out 1 answers whose options have no scores on both sides" in found.notes


def test_scores_that_did_not_decide_are_left_out_of_all_that_rests_on_scores() -> None:
    """As in tables of lm-evaluation-harness with acc_norm: the answer is another one than that of the best score."""
    before, after = scored(), scored(4.0)
    wrong = [not right for right in after.table["correct"].to_pylist()[:30]] + after.table["correct"].to_pylist()[30:]
    chosen = [1 if one == 0 else 0 for one in after.table["chosen"].to_pylist()[:30]]
    chosen += after.table["chosen"].to_pylist()[30:]
    columns = {name: after.table[name].to_pylist() for name in ("k", "gold", "choice_logprobs")}
    mixed = snapshot(wrong, meta=dict(after.meta), chosen=chosen, **columns)
    found = compare(before=before, after=mixed)
    rest = np.arange(200) >= 30
    part = compare(
        before=replace(before, table=before.table.filter(rest)), after=replace(after, table=after.table.filter(rest))
    )
    for name in ("known", "known_lost_net", "log_score_change", "log_mass_change", "margin_change"):
        assert found.all[name] == pytest.approx(part.all[name]), name
    (note,) = [note for note in found.notes if "did not decide" in note]
    assert note.startswith("the option scores of 30 of 200 items did not decide their outcome")


def test_all_answers_lost_is_a_loss_of_100_points_although_no_score_moved() -> None:
    rows = [[-0.1, -3.0, -3.0]] * 300
    sides = [
        snapshot([right] * 300, k=[3] * 300, gold=[0] * 300, chosen=[0 if right else 1] * 300, choice_logprobs=rows)
        for right in (True, False)
    ]
    found = compare(before=sides[0], after=sides[1]).all
    assert found["net_change_estimate"] == -1.0
    assert found["net_change_estimate_interval"] == found.net_change_interval
    assert found["known"] is None


def test_answers_that_contradict_their_scores_do_not_narrow_the_interval() -> None:
    """Half of the right answers lost, no score moved: which answers have a margin follows from the outcome."""
    before = scored()
    rng = np.random.default_rng(1)
    right, chosen = (before.table[name].to_pylist() for name in ("correct", "chosen"))
    lost = [one and rng.random() < 0.5 for one in right]
    after = snapshot(
        [one and not gone for one, gone in zip(right, lost, strict=True)],
        meta=dict(before.meta),
        chosen=[1 if gone else one for one, gone in zip(chosen, lost, strict=True)],
        **{name: before.table[name].to_pylist() for name in ("k", "gold", "choice_logprobs")},
    )
    whole = compare(before=before, after=after).all
    assert whole["net_change_estimate"] == pytest.approx(whole.net_change)
    assert whole["net_change_estimate_interval"] is not None
    widths = [high - low for low, high in (whole["net_change_estimate_interval"], whole.net_change_interval)]
    assert widths[0] > 0.95 * widths[1]


def test_ties_are_no_contradiction() -> None:
    tied = snapshot(
        [True, False] * 20, k=[2] * 40, gold=[0] * 40, chosen=[0, 1] * 20, choice_logprobs=[[-1.0] * 2] * 40
    )
    assert not any("did not decide" in note for note in compare(before=tied, after=tied).notes)


def test_one_file_on_both_sides_is_noted_and_so_are_equal_rows(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        save_snapshot(snapshot([True, False], meta={"step": 3}), tmp_path / name)
    save_snapshot(snapshot([True, False], meta={"step": 4}), tmp_path / "c.parquet")
    one, copy, later = (tmp_path / f"{name}.parquet" for name in "abc")
    assert "both sides are one file, so that nothing can differ" in compare(before=one, after=one).notes
    assert any("both sides have equal rows" in note for note in compare(before=one, after=copy).notes)
    assert not any("so that nothing can differ" in note for note in compare(before=one, after=later).notes)


def test_shares_of_one_side_alone_need_no_note_on_known_and_lost() -> None:
    columns = {"k": [4, 4], "gold": [0, 0]}
    before, after = snapshot([True, True], gold_share=[0.9, 0.9], **columns), snapshot([True, True], **columns)
    for one, other in ((before, after), (after, before)):
        found = compare(before=one, after=other)
        assert found.all["known"] is None
        assert not any("known and lost" in note for note in found.notes)


@pytest.mark.parametrize(("differ", "noted"), [(3, False), (4, False), (5, True)])
def test_flips_by_the_mass_of_the_options_are_noted_beyond_two_standard_deviations(differ: int, noted: bool) -> None:
    """Of 20 forgotten some would be right at constant mass: 5 are more than 2 sqrt(5), and 4 are not more than 4."""
    rows = scored_by_bytes(differ)
    notes = [note for note in compare(before=rows[0], after=rows[1]).notes if "forgotten_at_constant_mass" in note]
    assert len(notes) == noted
    if noted:
        assert notes[0].startswith(f"{20 - differ} instead of 20 forgotten, if the options had kept")


def scored_by_bytes(by_mass: int) -> tuple[Snapshot, Snapshot]:
    """40 items of which 20 are forgotten, some of them by the mass of the options alone."""
    columns = {"k": [2] * 40, "gold": [0] * 40, "choice_bytes": [[4, 2]] * 40, "meta": {"probe": {"norm": "bytes"}}}
    # A score by bytes of -2 against -3.25 before; then options e^5 times as likely; another option likelier; no change.
    by_length, likelier, same = ([-4.0, -1.5], False), ([-12.0, -1.0], False), ([-8.0, -6.5], True)
    kinds = [by_length] * by_mass + [likelier] * (20 - by_mass) + [same] * 20
    before = snapshot([True] * 40, chosen=[0] * 40, choice_logprobs=[[-8.0, -6.5]] * 40, **columns)
    chosen = [0 if right else 1 for _, right in kinds]
    after = snapshot(
        [right for _, right in kinds], chosen=chosen, choice_logprobs=[scores for scores, _ in kinds], **columns
    )
    return before, after
