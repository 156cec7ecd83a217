"""Groups, on pairs whose numbers are counted by hand or by independent code.

Every number in long form, for people who draw themselves.

Quantities of a group: their names, units and values.

Answers that were graded by unlike versions of the rules are not compared.
"""

import math
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import decided, snapshot

from forgetwatch import Snapshot, compare, save_snapshot
from forgetwatch.comparing import frames as module
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.frames import frame
from forgetwatch.comparing.groups import group_values
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import MismatchError
from forgetwatch.measures.base import json_value
from forgetwatch.measures.quantities import QUANTITIES, range_of, unit_of, value_at
from forgetwatch.probes.categories import PaperTasks


def meta(**settings: str) -> dict[str, Any]:
    probe = {
        "name": "p",
        "scoring": "loglikelihood",
        "norm": "bytes",
        "rendering": "plain",
        **settings,
    }
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
    comparison = compare(
        before=snapshot([True, None, True, False]), after=snapshot([None, True, False, False])
    )
    assert (comparison.items.compared, comparison.items.unscored) == (2, 2)
    assert (comparison.all.forgotten, comparison.all.missed) == (1, 1)
    whole = compare(before=snapshot([None]), after=snapshot([True])).all
    assert whole.n == 0
    assert math.isnan(whole.forgetting)


def test_unlike_items_are_refused_and_counted() -> None:
    before = snapshot([True] * 4, content_hash=list("ABCD"))
    after = snapshot([False] * 4, content_hash=list("ABXY"))
    says = r"2 items before and 2 after have no partner \(2 ids have unlike questions\)"
    with pytest.raises(MismatchError, match=says):
        compare(before=before, after=after)
    shared = compare(before=before, after=after, on_mismatch="intersect")
    assert (shared.all.n, shared.all.forgotten) == (2, 2)
    assert (shared.items.only_before, shared.items.only_after, shared.items.content_differs) == (
        2,
        2,
        2,
    )


def test_the_intersection_is_offered_where_nearly_all_items_have_a_partner() -> None:
    hashes = [f"{at:x}" for at in range(20)]
    before = snapshot([True] * 20, content_hash=hashes)
    nearly, fewer = hashes[:19], hashes[:17]
    with pytest.raises(MismatchError, match="the 19 that both have with --on-mismatch intersect"):
        compare(before=before, after=snapshot([True] * 19, content_hash=nearly))
    with pytest.raises(MismatchError, match="both have only 17: evaluate both on the same items"):
        compare(before=before, after=snapshot([True] * 17, content_hash=fewer))


def test_nothing_in_common_is_refused_in_any_case() -> None:
    with pytest.raises(MismatchError, match="no item in common"):
        compare(
            before=snapshot([True]),
            after=snapshot([True], content_hash=["z"]),
            on_mismatch="intersect",
        )


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
    assert any(
        "by their own tool's hash: 1" in note for note in compare(before=before, after=after).notes
    )
    bare = snapshot([True], content_hash=[None])
    assert any(
        "nothing guarantees that the questions are the same" in note
        for note in compare(before=bare, after=bare).notes
    )


def test_unequal_numbers_of_samples_are_refused_unless_only_the_first_counts() -> None:
    one = snapshot([True], item_id=["1"], content_hash=["A"])
    two = snapshot([False, True], item_id=["1", "1"], content_hash=["A", "A"], sample=[0, 1])
    with pytest.raises(MismatchError, match="have unlike samples: 1 and 2 per item"):
        compare(before=one, after=two)
    mixed = snapshot(
        [True] * 3, item_id=["1", "1", "2"], content_hash=["A", "A", "B"], sample=[0, 1, 0]
    )
    with pytest.raises(MismatchError, match="unlike samples"):
        compare(before=mixed, after=mixed)
    later = snapshot([False, True], item_id=["1", "1"], content_hash=["A", "A"], sample=[1, 2])
    with pytest.raises(MismatchError, match="unlike samples"):
        compare(before=two, after=later)
    assert compare(before=two, after=later, samples="first").all.n == 1
    assert compare(before=one, after=two, samples="first").all.forgotten == 1


def test_categories_come_from_before_and_where_it_has_none_from_after() -> None:
    before, after = (
        snapshot([True, True], category=["a", ""]),
        snapshot([True, True], category=["x", "b"]),
    )
    assert list(compare(before=before, after=after).by("category")) == ["a", "b"]


def test_a_comparison_prints_as_the_first_table() -> None:
    settings = {"settings": "x" * 1000}  # the metadata and the groups are not printed
    before, after = (
        snapshot([True] * 40, meta=settings),
        snapshot([False] * 10 + [True] * 30, meta=settings),
    )
    comparison = compare(before=before, after=after)
    assert "10 of 40 lost, 0 gained" in str(comparison)
    assert str(comparison) == repr(comparison)
    assert all(len(line) <= 78 for line in str(comparison).splitlines()[:-1])


def test_the_null_needs_as_many_samples_and_counts_its_items() -> None:
    twice = {
        "item_id": ["1", "1", "2", "2"],
        "content_hash": ["A", "A", "B", "B"],
        "sample": [0, 1, 0, 1],
    }
    once = {"item_id": ["1", "2"], "content_hash": ["A", "B"]}
    double, single = snapshot([True] * 4, **twice), snapshot([True, False], **once)
    with pytest.raises(
        MismatchError, match="the second measurement has 1 samples per item and snapshot has 2"
    ):
        compare(before=double, after=double, repeat=single)
    first = snapshot([False], item_id=["1"], content_hash=["A"])
    whole = compare(before=single, after=single, repeat=first).all
    assert (whole["null_n"], whole["null_lost"], whole["null_gained"]) == (1, 1, 0)
    nothing = compare(before=single, after=single, repeat=snapshot([None, None], **once))
    assert nothing.all["null_lost"] is None
    assert any("no scored item" in note for note in nothing.notes)


def test_a_null_of_another_step_is_refused() -> None:
    early, late = (snapshot([True], meta={"model": "m", "step": step}) for step in (0, 5))
    with pytest.raises(MismatchError, match="is of step 5"):
        compare(before=early, after=late, repeat=late)
    moved = snapshot([True], meta={"model": "elsewhere", "step": 0})
    assert any(
        "another model" in note for note in compare(before=early, after=late, repeat=moved).notes
    )


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
    found = compare(
        before=scored(choice_logprobs=half, gold_share=[0.9] * 200),
        after=scored(gold_share=[0.9] * 200),
    )
    assert (
        "known and lost leaves out 100 answers whose options have no scores on both sides"
        in found.notes
    )


def test_scores_of_one_side_alone_leave_the_log_score_out_without_a_note() -> None:
    found = compare(before=scored(), after=scored(choice_logprobs=[None] * 200))
    assert found.all["log_score_change"] is None
    assert not any("the log score leaves out" in note for note in found.notes)


def test_known_and_lost_needs_the_scores_of_three_options_too() -> None:
    columns = {"k": [3, 3, 2], "gold": [0] * 3, "gold_share": [0.9, 0.9, 0.9], "chosen": [0, 0, 0]}
    rows = [[-0.1, -3.0, -3.0], None, None]
    one = snapshot([True, True, True], choice_logprobs=rows, **columns)
    found = compare(before=one, after=replace(one, meta={"step": 1}))
    assert (
        "known and lost leaves out 1 answers whose options have no scores on both sides"
        in found.notes
    )


def test_scores_that_did_not_decide_are_left_out_of_all_that_rests_on_scores() -> None:
    """As in tables of lm-evaluation-harness with acc_norm: the answer is another one than that of the best score."""
    before, after = scored(), scored(4.0)
    wrong = [not right for right in after.table["correct"].to_pylist()[:30]] + after.table[
        "correct"
    ].to_pylist()[30:]
    chosen = [1 if one == 0 else 0 for one in after.table["chosen"].to_pylist()[:30]]
    chosen += after.table["chosen"].to_pylist()[30:]
    columns = {name: after.table[name].to_pylist() for name in ("k", "gold", "choice_logprobs")}
    mixed = snapshot(wrong, meta=dict(after.meta), chosen=chosen, **columns)
    found = compare(before=before, after=mixed)
    rest = np.arange(200) >= 30
    part = compare(
        before=replace(before, table=before.table.filter(rest)),
        after=replace(after, table=after.table.filter(rest)),
    )
    for name in ("known", "known_lost_net", "log_score_change", "log_mass_change", "margin_change"):
        assert found.all[name] == pytest.approx(part.all[name]), name
    (note,) = [note for note in found.notes if "did not decide" in note]
    assert note.startswith("the option scores of 30 of 200 items did not decide their outcome")


def test_all_answers_lost_is_a_loss_of_100_points_although_no_score_moved() -> None:
    rows = [[-0.1, -3.0, -3.0]] * 300
    sides = [
        snapshot(
            [right] * 300,
            k=[3] * 300,
            gold=[0] * 300,
            chosen=[0 if right else 1] * 300,
            choice_logprobs=rows,
        )
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
    widths = [
        high - low
        for low, high in (whole["net_change_estimate_interval"], whole.net_change_interval)
    ]
    assert widths[0] > 0.95 * widths[1]


def test_ties_are_no_contradiction() -> None:
    tied = snapshot(
        [True, False] * 20,
        k=[2] * 40,
        gold=[0] * 40,
        chosen=[0, 1] * 20,
        choice_logprobs=[[-1.0] * 2] * 40,
    )
    assert not any("did not decide" in note for note in compare(before=tied, after=tied).notes)


def test_one_file_on_both_sides_is_noted_and_so_are_equal_rows(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        save_snapshot(snapshot([True, False], meta={"step": 3}), tmp_path / name)
    save_snapshot(snapshot([True, False], meta={"step": 4}), tmp_path / "c.parquet")
    one, copy, later = (tmp_path / f"{name}.parquet" for name in "abc")
    assert (
        "both sides are one file, so that nothing can differ"
        in compare(before=one, after=one).notes
    )
    assert any(
        "both sides have the same outcomes" in note
        for note in compare(before=one, after=copy).notes
    )
    assert not any(
        "so that nothing can differ" in note for note in compare(before=one, after=later).notes
    )


def test_shares_of_one_side_alone_need_no_note_on_known_and_lost() -> None:
    columns = {"k": [4, 4], "gold": [0, 0]}
    before, after = (
        snapshot([True, True], gold_share=[0.9, 0.9], **columns),
        snapshot([True, True], **columns),
    )
    for one, other in ((before, after), (after, before)):
        found = compare(before=one, after=other)
        assert found.all["known"] is None
        assert not any("known and lost" in note for note in found.notes)


@pytest.mark.parametrize(("differ", "noted"), [(3, False), (4, False), (5, True)])
def test_flips_by_the_mass_of_the_options_are_noted_beyond_two_standard_deviations(
    differ: int, noted: bool
) -> None:
    """Of 20 forgotten some would be right at constant mass: 5 are more than 2 sqrt(5), and 4 are not more than 4."""
    rows = scored_by_bytes(differ)
    notes = [
        note
        for note in compare(before=rows[0], after=rows[1]).notes
        if "forgotten_at_constant_mass" in note
    ]
    assert len(notes) == noted
    if noted:
        assert notes[0].startswith(
            f"{20 - differ} instead of 20 forgotten, if the options had kept"
        )


def scored_by_bytes(by_mass: int) -> tuple[Snapshot, Snapshot]:
    """40 items of which 20 are forgotten, some of them by the mass of the options alone."""
    columns = {
        "k": [2] * 40,
        "gold": [0] * 40,
        "choice_bytes": [[4, 2]] * 40,
        "meta": {"probe": {"norm": "bytes"}},
    }
    # A score by bytes of -2 against -3.25 before; then options e^5 times as likely; another option likelier; no change.
    by_length, likelier, same = ([-4.0, -1.5], False), ([-12.0, -1.0], False), ([-8.0, -6.5], True)
    kinds = [by_length] * by_mass + [likelier] * (20 - by_mass) + [same] * 20
    before = snapshot([True] * 40, chosen=[0] * 40, choice_logprobs=[[-8.0, -6.5]] * 40, **columns)
    chosen = [0 if right else 1 for _, right in kinds]
    after = snapshot(
        [right for _, right in kinds],
        chosen=chosen,
        choice_logprobs=[scores for scores, _ in kinds],
        **columns,
    )
    return before, after


def made(seed: int, rows: int = 60) -> Comparison:
    rng = np.random.default_rng(seed)
    k = rng.integers(1, 6, rows)
    labels = {
        "task": [f"t{i}" for i in rng.integers(0, 5, rows)],
        "category": [f"c{i}" for i in rng.integers(0, 3, rows)],
        "k": k,
        "gold": np.zeros(rows, int),
    }
    sides = []
    for _ in range(2):
        chosen = rng.integers(0, k)
        sides.append(
            snapshot((chosen == 0).tolist(), chosen=chosen, gold_share=rng.random(rows), **labels)
        )
    return compare(before=sides[0], after=sides[1])


@given(st.integers(0, 2**32 - 1))
def test_groups_of_a_level_add_up_to_the_whole(seed: int) -> None:
    comparison = made(seed)
    for level in ("category", "task"):
        groups = comparison.by(level).values()
        for name in (
            "n",
            "retained",
            "forgotten",
            "gained",
            "missed",
            "known",
            "known_lost",
            "newly_known",
        ):
            # A group in which no item takes part has no known items: None, and nothing to add.
            assert sum(group[name] or 0 for group in groups) == comparison.all[name]
        assert sum(group.chance.n for group in groups) == comparison.all.chance.n


@given(st.integers(0, 2**32 - 1))
def test_known_lost_is_part_of_forgotten(seed: int) -> None:
    for group in made(seed).groups:
        if group["known_lost"] is None or group["newly_known"] is None:
            assert group["known"] is None
            assert group.level != "all"
            continue
        assert group["known_lost"] <= group.forgotten
        assert group["newly_known"] <= group.gained


def test_groups_come_in_the_order_of_their_first_rows() -> None:
    labels = {"category": ["z", "a", "z"], "task": ["2", "1", "3"]}
    comparison = compare(
        before=snapshot([True] * 3, **labels), after=snapshot([False] * 3, **labels)
    )
    assert [group.name for group in comparison.groups] == ["all", "z", "a", "2", "1", "3"]


def test_rows_without_labels_are_in_no_named_group() -> None:
    bare = snapshot([True, False], category=["", ""], task=["", ""])
    assert [group.name for group in compare(before=bare, after=bare).groups] == ["all"]


def test_cells_over_samples_are_means_and_tests_treat_the_item_as_one_observation() -> None:
    items = [str(i) for i in range(10) for _ in range(4)]
    columns = {"item_id": items, "content_hash": items, "sample": [0, 1, 2, 3] * 10}
    before = snapshot([True] * 40, **columns)
    after = snapshot([False] * 12 + [True] * 28, **columns)
    comparison = compare(before=before, after=after)
    assert (comparison.all.n, comparison.all.forgotten, comparison.items.compared) == (10, 3, 10)
    assert comparison.all.p_value > 0.05  # three items, not twelve answers
    one = compare(before=before, after=after, samples="first")
    assert (one.all.n, one.all.forgotten) == (10, 3)


def test_an_item_with_an_unscored_sample_is_left_out_with_all_its_samples() -> None:
    columns = {
        "item_id": ["1", "1", "2", "2"],
        "content_hash": ["A", "A", "B", "B"],
        "sample": [0, 1, 0, 1],
    }
    comparison = compare(
        before=snapshot([True, None, True, True], **columns), after=snapshot([False] * 4, **columns)
    )
    assert (comparison.all.n, comparison.all.forgotten, comparison.items.unscored) == (1, 1, 1)


def test_options_that_were_never_logged_leave_the_corrections_undefined() -> None:
    chance = compare(before=snapshot([True], k=[4]), after=snapshot([False], k=[4])).all.chance
    assert chance.guess_corrected is None
    assert chance.paper is not None


@pytest.mark.parametrize("k", [None, 1])
def test_open_and_single_option_items_count_in_the_raw_cells_only(k: int | None) -> None:
    whole = compare(before=snapshot([True], k=[k]), after=snapshot([False], k=[k])).all
    assert (whole.n, whole.forgotten, whole.chance.n, whole.chance.paper) == (1, 1, 0, None)


def test_copies_of_items_in_one_cluster_change_no_interval_and_no_test() -> None:
    """Nine copies of each item, said to be clusters, must count as one: in every error, interval and test."""
    rng = np.random.default_rng(5)
    n, k = 80, 4
    chosen = [rng.integers(0, k, n), rng.integers(0, k, n)]
    shares = [rng.random(n), rng.random(n)]

    def compared(copies: int) -> Comparison:
        ids = [f"{i}-{copy}" for i in range(n) for copy in range(copies)]
        labels = {
            "item_id": ids,
            "content_hash": ids,
            "cluster": np.repeat(np.arange(n), copies).astype(str).tolist(),
        }
        sides = [
            snapshot(
                np.repeat(choice == 0, copies).tolist(),
                chosen=np.repeat(choice, copies),
                gold_share=np.repeat(share, copies),
                k=[k] * n * copies,
                task=["t"] * n * copies,
                category=["c"] * n * copies,
                **labels,
            )
            for choice, share in zip(chosen, shares, strict=True)
        ]
        return compare(before=sides[0], after=sides[1])

    one, nine = compared(1).all, compared(9).all
    intervals = (
        "forgetting_interval",
        "backward_transfer_interval",
        "net_change_interval",
        "known_lost_interval",
    )
    for name in ("p_value", "loss_p_value", "effective_n", *intervals):
        assert nine[name] == pytest.approx(one[name], rel=1e-6), name
    assert nine.smallest_loss(0.01) == pytest.approx(one.smallest_loss(0.01))
    for part in ("paper", "guess_corrected"):
        for name, value in vars(getattr(nine.chance, part)).items():
            if name != "n" and value is not None:
                assert value == pytest.approx(getattr(getattr(one.chance, part), name), rel=1e-6), (
                    part,
                    name,
                )
    assert one.forgetting_interval != pytest.approx(one.backward_transfer_interval, rel=1e-3)
    assert nine.chance.guess_corrected is not None
    assert nine.chance.guess_corrected.n == 9 * n  # items, not clusters


@pytest.mark.parametrize("norm", ["sum", "bytes"])
def test_forgotten_at_constant_mass_leaves_out_what_the_mass_of_the_options_moved(
    norm: str,
) -> None:
    rng = np.random.default_rng(2)
    logprobs, lengths = -rng.exponential(8, (300, 4)), rng.integers(1, 12, (300, 4))
    other = logprobs.copy()
    other[:20, 0] -= 30  # twenty right options become unlikely, the others all an e^4th as likely
    task = ["a"] * 150 + ["b"] * 150
    before, after, unmoved = (
        decided(x, norm=norm, lengths=lengths, task=task) for x in (logprobs, other - 4.0, other)
    )
    found = compare(before=before, after=after)
    expected = compare(before=before, after=unmoved).all.forgotten
    noted = [note for note in found.notes if "forgotten_at_constant_mass" in note]
    if norm == "sum":
        assert (found.all.forgotten, found.all["forgotten_at_constant_mass"], noted) == (
            expected,
            None,
            [],
        )
        return
    assert found.all.forgotten > expected + 10
    assert (
        abs(found.all["forgotten_at_constant_mass"] - expected) <= 2
    )  # the twenty changed the mass too
    assert (
        sum(group["forgotten_at_constant_mass"] for group in found.by("task").values())
        == (found.all["forgotten_at_constant_mass"])
    )
    assert (
        f"{found.all['forgotten_at_constant_mass']} instead of {found.all.forgotten} forgotten"
        in noted[0]
    )
    assert (
        group_values(found.all)["forgotten_at_constant_mass"]
        == found.all["forgotten_at_constant_mass"]
    )


def test_forgotten_at_constant_mass_is_null_without_scores_and_as_logged_for_a_single_option() -> (
    None
):
    before, after = (
        snapshot([right], meta={"probe": {"norm": "bytes"}}) for right in (True, False)
    )
    assert compare(before=before, after=after).all["forgotten_at_constant_mass"] is None
    logprobs, lengths = np.array([[-1.0], [-2.0]]), np.array([[2], [3]])
    before, after = (decided(x, norm="bytes", lengths=lengths) for x in (logprobs, logprobs - 1))
    assert compare(before=before, after=after).all["forgotten_at_constant_mass"] == 0


def test_the_smallest_loss_is_a_share_of_the_items() -> None:
    """Of seven flips seven must be losses for p = .0078; of six none is enough."""
    before = snapshot([True] * 60)
    group = compare(before=before, after=snapshot([False] * 7 + [True] * 53)).all
    assert group.smallest_loss(0.01) == pytest.approx(7 / 60)
    assert math.isnan(
        compare(before=before, after=snapshot([False] * 6 + [True] * 54)).all.smallest_loss(0.01)
    )
    assert math.isnan(
        compare(before=snapshot([None]), after=snapshot([None])).all.smallest_loss(0.01)
    )


def test_the_interval_of_known_and_lost_is_wilsons_of_the_known_items() -> None:
    columns = {"k": [4] * 60, "gold": [0] * 60, "gold_share": [0.9] * 50 + [0.5] * 10}
    group = compare(
        before=snapshot([True] * 60, **columns),
        after=snapshot([False] * 10 + [True] * 50, **columns),
    ).all
    assert (group["known"], group["known_lost"]) == (50, 10)
    expected = stats.binomtest(10, 50).proportion_ci(method="wilson")
    assert group["known_lost_interval"] == pytest.approx((expected.low, expected.high))


def test_kinds_come_before_categories_and_only_where_there_are_both() -> None:
    mixed = snapshot([True, False], output=["text", None])
    levels = [group.level for group in compare(before=mixed, after=mixed).groups]
    assert levels == ["all", "kind", "kind", "category", "task"]
    scored = snapshot([True, False])
    assert [group.level for group in compare(before=scored, after=scored).groups] == [
        "all",
        "category",
        "task",
    ]


TWICE = {
    "item_id": [*"1122"],
    "content_hash": [*"AABB"],
    "sample": [0, 1] * 2,
    "task": ["piqa"] * 4,
}


def test_the_macro_mean_weighs_tasks_and_categories_equally() -> None:
    # tasks t (4 items, k = 2) and u (2 items, k = 4) in category a, task v (1 item, k = 2) in category b
    labels = {"task": list("ttttuuv"), "category": list("aaaaaab"), "k": [2] * 4 + [4] * 2 + [2]}
    before = snapshot([True, True, False, False, True, False, True], **labels)
    after = snapshot([False, True, True, False, False, False, True], **labels)
    macro = compare(before=before, after=after).macro
    t, u, v = 1 / 4 - 0.5 * 0.5 / 1, 1 / 2 - 0.5 * 1.0 / 3, 0.0
    assert macro.forgetting.mean == pytest.approx(((t + u) / 2 + v) / 2)
    assert macro.by_category["a"][0].mean == pytest.approx((t + u) / 2)
    assert math.isnan(macro.forgetting.sd)


def test_the_macro_spread_is_over_samples() -> None:
    before, after = (
        snapshot(right, **TWICE, k=[2] * 4) for right in ([True] * 4, [False, True, False, True])
    )
    macro = compare(before=before, after=after).macro
    rates = [
        1.0,
        0.0,
    ]  # sample 0 lost both items, sample 1 none; nothing was wrong before, so chance is 0
    assert macro.forgetting.mean == pytest.approx(np.mean(rates))
    assert macro.forgetting.sd == pytest.approx(np.std(rates, ddof=1))


TASKS = (
    ["mmlu:anatomy"] * 4
    + ["community|bbh:snarks|0"] * 4
    + ["own task"] * 4
    + ["bbh:word_sorting"] * 4
)


def test_the_released_codes_numbers_on_its_own_tasks() -> None:
    before = snapshot([True, True, False, False] * 4, task=TASKS, k=[10] * 16)
    after = snapshot([True, False, False, False] * 4, task=TASKS, k=[10] * 16)
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    four, two = 1 / 4 - 0.5 * 0.75 / 3, 0.0  # k = 4; k = 2: 1/4 - .375 is clipped at once
    assert set(compat.by_category) == {
        "Science/Tech",
        "Language",
        "Missing",
    }  # word sorting is ignored
    assert compat.by_category["Science/Tech"][0].mean == pytest.approx(four)
    assert compat.by_category["Language"][0].mean == two
    assert compat.forgetting.mean == pytest.approx(
        (four + two + four) / 3
    )  # Missing counts as much as any
    assert compare(before=before, after=after).paper_compat is None


def test_clipping_comes_before_the_mean_over_seeds_and_tasks() -> None:
    before, after = (
        snapshot([False, True, True, True], **TWICE),
        snapshot([True, False, True, True], **TWICE),
    )
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    # seed 0: nothing forgotten, clipped at 0; seed 1: one of two, nothing was wrong before
    assert compat.forgetting.mean == pytest.approx((0.0 + 0.5) / 2)
    assert compat.forgetting.sd == pytest.approx(np.std([0.0, 0.5], ddof=1))


def test_the_papers_tasks_in_any_spelling() -> None:
    tasks = PaperTasks.released()
    for name in (
        "mmlu:anatomy",
        "mmlu_anatomy",
        "community|mmlu:anatomy|0",
        "community|mmlu_custom:anatomy|0",
    ):
        assert (tasks.category(name), tasks.k(name), tasks.ignored(name)) == (
            "Science/Tech",
            4,
            False,
        )
    assert (tasks.category("piqa"), tasks.category("commonsense_qa:main")) == (
        "Common Sense",
        "Common Sense",
    )
    assert tasks.k("bbh:geometric_shapes") == 11
    assert tasks.ignored("truthfulqa:mc2")
    assert tasks.ignored("community|global_mmlu:fra|0")
    assert (tasks.category("unheard of"), tasks.k("unheard of")) == ("", 4)
    assert len({category for category, _, _ in tasks.rows.values() if category}) == 10
    assert len(tasks.rows) == 99


def test_an_unscored_answer_leaves_its_seed_only_as_in_the_released_code() -> None:
    before, after = (
        snapshot([True, True, None, False], **TWICE),
        snapshot([True, False, True, False], **TWICE),
    )
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    seed0, seed1 = (
        0.0,
        1 / 2 - 0.5 * 1.0 / 3,
    )  # seed 0: one item, kept; seed 1: two, one lost and one missed
    assert compat.forgetting.mean == pytest.approx((seed0 + seed1) / 2)


def test_nothing_has_no_rate() -> None:
    nothing = compare(before=snapshot([True]), after=snapshot([True])).macro  # an open answer
    assert math.isnan(nothing.forgetting.mean)
    assert math.isnan(nothing.backward_transfer.sd)
    assert nothing.by_category == {}


def looks() -> list[Any]:
    right = ([True] * 6, [False] * 2 + [True] * 4, [False] * 3 + [True] * 3)
    return [
        snapshot(one, category=["Math", "Law"] * 3, meta={"step": 5 * at})
        for at, one in enumerate(right)
    ]


def test_a_comparison_and_a_run_give_a_row_for_each_group_and_quantity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    start, _, end = looks()
    found = compare(before=start, after=end).to_frame()
    assert isinstance(found, pa.Table)
    rows = {(row["level"], row["name"], row["quantity"]): row["value"] for row in found.to_pylist()}
    assert (rows["all", "all", "forgotten"], rows["category", "Math", "forgotten"]) == (3.0, 2.0)
    assert rows["all", "all", "net_change_interval_low"] < rows["all", "all", "net_change"] == -0.5
    assert ("all", "all", "known") not in rows
    run = trajectory_of(looks()).to_frame().to_pylist()
    steps = {
        row["step"]: row["value"]
        for row in run
        if (row["level"], row["quantity"]) == ("all", "forgotten")
    }
    assert steps == {0: 0.0, 5: 2.0, 10: 3.0}


def test_pandas_is_used_where_it_is_installed() -> None:
    pandas = pytest.importorskip("pandas")
    assert isinstance(frame([{"level": "all", "value": 1.0}]), pandas.DataFrame)


RATES = ("forgetting", "backward_transfer")
PASSAGES = ("passages", "bits_per_byte")
"""Beginnings of the names of quantities that only passages have."""


def side(seed: int, samples: int = 1) -> Snapshot:
    """120 items with four options and their scores."""
    scores = np.random.default_rng(0).normal(-20, 2, (120, 4)) + np.random.default_rng(seed).normal(
        0, 1, (120, 4)
    )
    ids = [str(i // samples) for i in range(120)]
    return decided(scores, item_id=ids, content_hash=ids, sample=[i % samples for i in range(120)])


def test_the_chance_of_a_group_has_the_documented_keys_and_the_values_of_its_parts() -> None:
    whole = compare(before=side(1), after=side(2)).all
    chance = group_values(whole)["chance"]
    adjusted = (
        *RATES,
        *(f"{name}_unclipped" for name in RATES),
        *(f"{name}_max" for name in RATES),
    )
    errors = tuple(f"{name}_se" for name in RATES)
    assert {"expected", *adjusted} <= chance["paper"].keys()
    assert {"n", *RATES, *errors} <= chance["guess_corrected"].keys()
    assert chance["n"] == 120
    for part in ("paper", "guess_corrected"):
        for name in RATES:
            assert chance[part][name] == getattr(getattr(whole.chance, part), name)


def test_what_a_group_lacks_is_null() -> None:
    values = group_values(
        compare(before=snapshot([True, False]), after=snapshot([False, True])).all
    )
    assert values["log_score_change"] is values["chance"]["paper"] is None


def test_every_quantity_is_at_its_path_within_its_range() -> None:
    values = group_values(compare(before=side(1, samples=2), after=side(2, samples=2)).all)
    for name in QUANTITIES:
        value, (low, high) = value_at(values, name), range_of(name)
        assert value is None or low <= value <= high, name
    # No second measurement, form, no norm that divides by a length, and fewer than 20 known items less luck.
    missing = {
        name
        for name in QUANTITIES
        if value_at(values, name) is None and not name.startswith(PASSAGES)
    }
    unmeasured = {
        "null_n",
        "null_lost",
        "null_gained",
        "format_lost",
        "knowledge_lost",
        "forgotten_at_constant_mass",
    }
    ends = ("", "_interval_low", "_interval_high")
    of_share = {
        f"{name}{end}"
        for name in ("known_lost_net_share", "right_lost_share", "score_change")
        for end in ends
    }
    assert missing == {*unmeasured, *of_share, "score_before", "score_after"}


@pytest.mark.parametrize(
    ("name", "unit", "ends"),
    [
        ("forgotten", "count", (0.0, math.inf)),
        ("known_lost_net", "count", (-math.inf, math.inf)),
        ("known_lost_net_share", "share", (-math.inf, math.inf)),
        ("forgetting", "share", (0.0, 1.0)),
        ("net_change", "share", (-1.0, 1.0)),
        ("log_score_before", "nats", (-math.inf, 0.0)),
        ("log_score_change", "nats", (-math.inf, math.inf)),
        ("log_mass_change", "nats", (-math.inf, math.inf)),
        ("forgotten_log_conditional_change", "nats", (-math.inf, math.inf)),
        ("chance.n", "count", (0.0, math.inf)),
        ("chance.paper.forgetting", "share", (0.0, 1.0)),
        ("chance.paper.forgetting_unclipped", "share", (-1.0, 1.0)),
        ("chance.guess_corrected.backward_transfer", "share", (-1.0, 1.0)),
    ],
)
def test_each_quantity_has_its_unit_and_its_range(
    name: str, unit: str, ends: tuple[float, float]
) -> None:
    assert name in QUANTITIES
    assert (unit_of(name), range_of(name)) == (unit, ends)


def test_numbers_that_json_lacks_are_null_at_any_depth() -> None:
    given = {"a": (1, math.nan), 2: {"b": math.inf, "c": [True, "x", -0.5]}}
    assert json_value(given) == {"a": [1, None], "2": {"b": None, "c": [True, "x", -0.5]}}
    assert list(chain(json_value(given))) == ["a", "2"]


def test_answers_graded_by_other_rules_are_refused() -> None:
    before = snapshot([True] * 9, meta={"rules": 2, "scorer": "forgetwatch"}, in_form=[True] * 9)
    after = replace(before, meta={**before.meta, "rules": 3})
    with pytest.raises(
        MismatchError,
        match=r"graded by version 2 of the grading rules and those .* by version 3, .*",
    ):
        compare(before=before, after=after)
    # Where nothing was generated, the rules have graded nothing.
    scored = snapshot([True] * 9, meta={"rules": 2, "scorer": "forgetwatch"})
    assert (
        compare(before=scored, after=replace(scored, meta={**scored.meta, "rules": 3})).all.n == 9
    )
