"""Groups, on pairs whose numbers are counted by hand or by independent code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import decided, snapshot

from forgetwatch import compare
from forgetwatch.comparing import Comparison, group_values
from forgetwatch.measures.scores import LOG_SCORE
from forgetwatch.metrics import detectable_change


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
        sides.append(snapshot((chosen == 0).tolist(), chosen=chosen, gold_share=rng.random(rows), **labels))
    return compare(before=sides[0], after=sides[1])


@given(st.integers(0, 2**32 - 1))
def test_groups_of_a_level_add_up_to_the_whole(seed: int) -> None:
    comparison = made(seed)
    for level in ("category", "task"):
        groups = comparison.by(level).values()
        for name in ("n", "retained", "forgotten", "gained", "missed", "known", "known_lost", "newly_known"):
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
    comparison = compare(before=snapshot([True] * 3, **labels), after=snapshot([False] * 3, **labels))
    assert [group.name for group in comparison.groups] == ["all", "z", "a", "2", "1", "3"]


def test_rows_without_labels_are_in_no_named_group() -> None:
    bare = snapshot([True, False], category=["", ""], task=["", ""])
    assert [group.name for group in compare(before=bare, after=bare).groups] == ["all"]


def test_q_values_are_taken_within_each_level() -> None:
    names = ["a"] * 8 + ["b"] * 8 + ["c"] * 8
    before, after = (snapshot(right, category=names) for right in ([True] * 24, [False] * 12 + [True] * 12))
    made = compare(before=before, after=after)
    groups = made.by("category")
    p_values = {name: group.p_value for name, group in groups.items()}
    assert groups["a"].q_value == pytest.approx(min(3 * p_values["a"], 3 * p_values["b"] / 2))
    assert groups["c"].q_value == p_values["c"] == 1.0
    assert made.all.q_value == made.all.p_value


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
    columns = {"item_id": ["1", "1", "2", "2"], "content_hash": ["A", "A", "B", "B"], "sample": [0, 1, 0, 1]}
    comparison = compare(before=snapshot([True, None, True, True], **columns), after=snapshot([False] * 4, **columns))
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
        labels = {"item_id": ids, "content_hash": ids, "cluster": np.repeat(np.arange(n), copies).astype(str).tolist()}
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
    intervals = ("forgetting_interval", "backward_transfer_interval", "net_change_interval", "known_lost_interval")
    for name in ("p_value", "loss_p_value", "effective_n", *intervals):
        assert nine[name] == pytest.approx(one[name], rel=1e-6), name
    assert nine.smallest_loss(0.01) == pytest.approx(one.smallest_loss(0.01))
    for part in ("paper", "guess_corrected"):
        for name, value in vars(getattr(nine.chance, part)).items():
            if name != "n" and value is not None:
                assert value == pytest.approx(getattr(getattr(one.chance, part), name), rel=1e-6), (part, name)
    assert one.forgetting_interval != pytest.approx(one.backward_transfer_interval, rel=1e-3)
    assert nine.chance.guess_corrected is not None
    assert nine.chance.guess_corrected.n == 9 * n  # items, not clusters


@pytest.mark.parametrize("norm", ["sum", "bytes"])
def test_forgotten_at_constant_mass_leaves_out_what_the_mass_of_the_options_moved(norm: str) -> None:
    rng = np.random.default_rng(2)
    logprobs, lengths = -rng.exponential(8, (300, 4)), rng.integers(1, 12, (300, 4))
    other = logprobs.copy()
    other[:20, 0] -= 30  # twenty right options become unlikely, the others all an e^4th as likely
    task = ["a"] * 150 + ["b"] * 150
    before, after, unmoved = (decided(x, norm=norm, lengths=lengths, task=task) for x in (logprobs, other - 4.0, other))
    found = compare(before=before, after=after)
    expected = compare(before=before, after=unmoved).all.forgotten
    noted = [note for note in found.notes if "forgotten_at_constant_mass" in note]
    if norm == "sum":
        assert (found.all.forgotten, found.all["forgotten_at_constant_mass"], noted) == (expected, None, [])
        return
    assert found.all.forgotten > expected + 10
    assert abs(found.all["forgotten_at_constant_mass"] - expected) <= 2  # the twenty changed the mass too
    assert (
        sum(group["forgotten_at_constant_mass"] for group in found.by("task").values())
        == (found.all["forgotten_at_constant_mass"])
    )
    assert f"{found.all['forgotten_at_constant_mass']} instead of {found.all.forgotten} forgotten" in noted[0]
    assert group_values(found.all)["forgotten_at_constant_mass"] == found.all["forgotten_at_constant_mass"]


def test_forgotten_at_constant_mass_is_null_without_scores_and_as_logged_for_a_single_option() -> None:
    before, after = (snapshot([right], meta={"probe": {"norm": "bytes"}}) for right in (True, False))
    assert compare(before=before, after=after).all["forgotten_at_constant_mass"] is None
    logprobs, lengths = np.array([[-1.0], [-2.0]]), np.array([[2], [3]])
    before, after = (decided(x, norm="bytes", lengths=lengths) for x in (logprobs, logprobs - 1))
    assert compare(before=before, after=after).all["forgotten_at_constant_mass"] == 0


def test_the_smallest_loss_is_a_share_of_the_items() -> None:
    """Of seven flips seven must be losses for p = .0078; of six none is enough."""
    before = snapshot([True] * 60)
    group = compare(before=before, after=snapshot([False] * 7 + [True] * 53)).all
    assert group.smallest_loss(0.01) == pytest.approx(7 / 60)
    assert math.isnan(compare(before=before, after=snapshot([False] * 6 + [True] * 54)).all.smallest_loss(0.01))
    assert math.isnan(compare(before=snapshot([None]), after=snapshot([None])).all.smallest_loss(0.01))


def test_the_temperature_and_the_change_after_it_are_of_the_calibrated_score() -> None:
    rng = np.random.default_rng(5)
    start = rng.normal(-20, 2, (200, 4)) + np.array([1.0, 0, 0, 0])
    whole = compare(before=decided(start), after=decided(3 * start)).all
    scores = whole[LOG_SCORE]
    assert scores is not None
    assert whole["temperature_before"] is not None
    assert whole["temperature_after"] == pytest.approx(3 * whole["temperature_before"], rel=1e-3)
    assert whole["log_score_change_calibrated"] == pytest.approx(0.0, abs=1e-6)
    assert whole["log_score_change"] == pytest.approx(scores.after - scores.before)
    for kind in ("", "_calibrated"):
        change = getattr(scores, kind[1:] or "change")
        assert whole[f"log_score_change{kind}"] == change.mean
        assert whole[f"log_score_change{kind}_interval"] == change.interval
    assert whole["log_score_p_value"] == whole["log_score_q_value"] == scores.calibrated.p_value


def test_the_detectable_change_is_that_of_the_observed_flips_and_of_three_at_least() -> None:
    before = snapshot([True] * 1000)
    for flips in (0, 2, 3, 40):
        group = compare(before=before, after=snapshot([False] * flips + [True] * (1000 - flips))).all
        expected = detectable_change(1000, max(flips, 3) / 1000)
        assert group.detectable_change == pytest.approx(expected, nan_ok=True)
    assert group.detectable_change == pytest.approx(0.0177, abs=5e-5)  # Connor's formula at 4 % of 1,000 items
    assert math.isnan(compare(before=snapshot([None]), after=snapshot([None])).all.detectable_change)


def test_the_interval_of_known_and_lost_is_wilsons_of_the_known_items() -> None:
    columns = {"k": [4] * 60, "gold": [0] * 60, "gold_share": [0.9] * 50 + [0.5] * 10}
    group = compare(before=snapshot([True] * 60, **columns), after=snapshot([False] * 10 + [True] * 50, **columns)).all
    assert (group["known"], group["known_lost"]) == (50, 10)
    expected = stats.binomtest(10, 50).proportion_ci(method="wilson")
    assert group["known_lost_interval"] == pytest.approx((expected.low, expected.high))


def test_kinds_come_before_categories_and_only_where_there_are_both() -> None:
    mixed = snapshot([True, False], output=["text", None])
    levels = [group.level for group in compare(before=mixed, after=mixed).groups]
    assert levels == ["all", "kind", "kind", "category", "task"]
    scored = snapshot([True, False])
    assert [group.level for group in compare(before=scored, after=scored).groups] == ["all", "category", "task"]
