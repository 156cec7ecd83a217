"""Net change by margins and flips: from snapshots to JSON, CSV and gates."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import decided, holds, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.document import comparison_json
from forgetwatch.comparing.trajectory import Alarm
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.quantities import QUANTITIES
from forgetwatch.metrics.margin_change import FEWEST
from forgetwatch.report.csv_table import comparisons_csv


def sides(
    items: int = 120, *, fall: float = 0.3, seed: int = 2, **columns: Any
) -> tuple[Snapshot, Snapshot]:
    """Log-likelihoods of three options before and after; the right one, which is the first, falls by some nats."""
    rng = np.random.default_rng(seed)
    before = rng.normal(0, 2, (items, 3)) - 4
    before[:, 0] += 1.5
    after = before + rng.normal(0, 0.4, before.shape)
    after[:, 0] -= fall
    columns = {"category": ["a" if at % 3 else "b" for at in range(items)], **columns}
    return decided(before, **columns), decided(after, **columns)


def margins_of(side: Snapshot) -> np.ndarray:
    """First option's log-likelihood minus the best of the others, nats."""
    scores = np.array(side.table["choice_logprobs"].to_pylist())
    return np.asarray(scores[:, 0] - scores[:, 1:].max(axis=1))


def compared(before: Snapshot, after: Snapshot) -> Comparison:
    return compare(before=before, after=after)


def test_every_group_uses_the_widths_of_all_items_and_its_own_weight() -> None:
    before, after = sides()
    found = compared(before, after)
    definition = comparison_json(found)["definitions"]["margin"]
    m, m_after = margins_of(before), margins_of(after)
    assert set(definition) == {"c", "h", "h_after", "floor", "curve", "excess"}
    assert definition["h"] == pytest.approx(0.75 * np.abs(m).mean())
    assert definition["h_after"] == pytest.approx(0.75 * np.abs(m_after).mean())
    softened = stats.norm.cdf(m_after / definition["h_after"]) - stats.norm.cdf(m / definition["h"])
    category = np.array(before.texts("category"))
    flips = (m_after > 0).astype(float) - (m > 0)
    for group in found.groups:
        rows = category == group.name if group.level == "category" else np.ones(len(m), bool)
        result = group[NET_ESTIMATE]
        assert result is not None
        assert result.margin_change is not None
        assert result.margin_change.mean == pytest.approx(softened[rows].mean())
        ends = flips[rows].mean(), softened[rows].mean()
        assert min(ends) - 1e-12 <= result.change.mean <= max(ends) + 1e-12
        assert result.interval is not None
        low, high = result.interval
        assert low < result.change.mean < high
        half = stats.t.ppf(0.975, rows.sum() - 1) * result.change.error
        assert (low, high) == pytest.approx((result.change.mean - half, result.change.mean + half))


def test_the_interval_is_narrower_than_that_of_the_flips() -> None:
    group = compared(*sides()).all
    found = group[NET_ESTIMATE]
    assert found is not None
    widths = [high - low for low, high in (found.interval, group.net_change_interval)]
    assert widths[0] < 0.8 * widths[1]


@pytest.mark.parametrize("without", ["before", "after", "both"])
def test_without_scores_on_both_sides_it_is_the_net_change_of_the_flips(without: str) -> None:
    pair = {"before": sides()[0], "after": sides()[1]}
    for name in pair if without == "both" else (without,):
        pair[name] = snapshot(
            pair[name].table["correct"].to_pylist(), category=pair[name].texts("category").tolist()
        )
    group = compared(**pair).all
    found = group[NET_ESTIMATE]
    assert found is not None
    assert (found.margin_change, found.rule) == (None, None)
    assert (found.change.mean, found.interval) == (
        pytest.approx(group.net_change),
        group.net_change_interval,
    )
    assert comparison_json(compared(**pair))["definitions"]["margin"] is None
    said = any(
        "the options have scores on one side only" in note for note in compared(**pair).notes
    )
    assert said == (without != "both")


def test_answers_without_scores_count_by_their_flips() -> None:
    """Half of the answers have scores: the estimate is the mean of both parts."""
    before, after = sides()
    half = [at % 2 == 0 for at in range(120)]
    scored = [
        decided(np.array(side.table["choice_logprobs"].to_pylist())[half])
        for side in (before, after)
    ]
    mixed = []
    for side in (before, after):
        rows = [
            row if keep else None
            for row, keep in zip(side.table["choice_logprobs"].to_pylist(), half, strict=True)
        ]
        columns = {name: side.table[name].to_pylist() for name in ("k", "gold", "chosen")}
        mixed.append(
            snapshot(
                side.table["correct"].to_pylist(),
                meta=dict(side.meta),
                choice_logprobs=rows,
                **columns,
            )
        )
    found, of_scored = (compared(*pair).all[NET_ESTIMATE] for pair in (mixed, scored))
    assert found is not None
    assert of_scored is not None
    right = [np.array(side.table["correct"].to_pylist(), float) for side in mixed]
    others = (right[1] - right[0])[np.logical_not(half)].mean()
    assert found.margin_change is not None
    assert of_scored.margin_change is not None
    assert found.margin_change.mean == pytest.approx(of_scored.margin_change.mean)
    assert found.change.mean == pytest.approx((of_scored.change.mean + others) / 2)
    assert (
        found.interval[1] - found.interval[0] > of_scored.interval[1] - of_scored.interval[0] - 0.05
    )


def test_rows_of_a_cluster_widen_the_interval() -> None:
    clustered = [f"p{at // 4}" for at in range(120)]
    rng = np.random.default_rng(3)
    before = np.repeat(rng.normal(0, 2, (30, 3)), 4, axis=0)
    after = before + np.repeat(rng.normal(0, 1, (30, 3)), 4, axis=0)
    alone, together = (
        compared(decided(before, **columns), decided(after, **columns)).all[NET_ESTIMATE]
        for columns in ({}, {"cluster": clustered})
    )
    assert alone is not None
    assert together is not None
    assert together.interval[1] - together.interval[0] > 1.3 * (
        alone.interval[1] - alone.interval[0]
    )


@pytest.mark.parametrize("items", [1, FEWEST - 1])
def test_fewer_than_five_items_have_the_flips_and_no_interval(items: int) -> None:
    few = [
        decided(np.array(side.table["choice_logprobs"].to_pylist())[:items])
        for side in sides(fall=3.0)
    ]
    group = compared(*few).all
    found = group[NET_ESTIMATE]
    assert found is not None
    assert found.change.mean == pytest.approx(group.net_change)
    assert (found.interval, found.margin_change) == (None, None)
    (whole,) = (one for one in comparison_json(compared(*few))["groups"] if one["level"] == "all")
    assert (
        whole["net_change_estimate_interval"] == [None, None]
        or whole["net_change_estimate_interval"] is None
    )


def test_no_item_has_no_estimate() -> None:
    nothing = snapshot([None])
    assert compared(nothing, nothing).all[NET_ESTIMATE] is None


def test_a_group_with_fewer_than_five_margins_counts_by_its_flips() -> None:
    before, after = sides(category=["few" if at < 4 else "many" for at in range(120)])
    found = compared(before, after).by("category")
    assert found["few"][NET_ESTIMATE].margin_change is None  # type: ignore[union-attr]
    assert found["many"][NET_ESTIMATE].margin_change is not None  # type: ignore[union-attr]


def test_one_cluster_has_no_interval() -> None:
    group = compared(*sides(cluster=["p"] * 120)).all
    found = group[NET_ESTIMATE]
    assert found is not None
    assert found.interval is None
    assert found.change.mean == pytest.approx(group.net_change)


def test_equal_sides_did_not_change_and_leave_some_doubt() -> None:
    before, _ = sides()
    found = compared(before, before).all[NET_ESTIMATE]
    assert found is not None
    assert found.change.mean == 0
    assert 0 < found.interval[1] < 0.03


def test_an_option_that_is_ruled_out_does_not_end_it() -> None:
    """A log-likelihood of minus infinity gives an infinite margin, which counts as a whole answer."""
    before, after = (np.array(side.table["choice_logprobs"].to_pylist()) for side in sides())
    plain = compared(decided(before), decided(after)).all[NET_ESTIMATE]
    after[0, 0] = -math.inf
    found = compared(decided(before), decided(after)).all[NET_ESTIMATE]
    assert found is not None
    assert plain is not None
    assert found.rule is not None
    assert found.change.mean == pytest.approx(plain.change.mean, abs=0.02)


def test_its_numbers_are_in_json_csv_and_gates() -> None:
    found = compared(*sides(fall=1.5))
    names = ("margin_change", "net_change_estimate", "net_change_estimate_interval_low")
    assert set(names) <= set(QUANTITIES)
    (whole,) = (group for group in comparison_json(found)["groups"] if group["level"] == "all")
    header, first, *_ = comparisons_csv([found]).splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    for name in names[:2]:
        assert float(row[name]) == pytest.approx(whole[name])
    assert whole["net_change_estimate_interval"][1] < -0.02
    assert holds("net_change_estimate<-2%", found)


def test_an_interval_at_a_stricter_level_is_wider_and_the_worst_case_is_lower() -> None:
    before, after = sides()
    gone = after.table["correct"].to_pylist()
    scores = after.table["choice_logprobs"].to_pylist()
    rows = [at for at, right in enumerate(before.table["correct"].to_pylist()) if right][:6]
    for at in rows:
        gone[at], scores[at] = None, None
    columns = {name: after.table[name].to_pylist() for name in ("k", "gold", "category")}
    chosen = [
        None if right is None else one
        for right, one in zip(gone, after.table["chosen"].to_pylist(), strict=True)
    ]
    vanished = snapshot(
        gone, meta=dict(after.meta), choice_logprobs=scores, chosen=chosen, **columns
    )
    for later in (vanished, snapshot(gone, category=columns["category"])):
        found = compared(before, later).all[NET_ESTIMATE]
        assert found is not None
        (low, high), (lower, higher) = found.interval_at(0.95), found.interval_at(0.99)
        assert lower < low < high < higher
        at_worst = found.interval_at(0.95, worst=True)
        # Six of 120 answers were right, and are lost in the worst case.
        assert at_worst[0] < low - 0.04
        assert at_worst[1] <= high
    whole = compared(before, after).all[NET_ESTIMATE]
    assert whole is not None
    assert whole.interval_at(0.95, worst=True) == whole.interval


def test_a_fall_is_tested_by_margins_and_by_the_flips_of_answers_without_scores() -> None:
    before, after = sides(fall=2.0)
    found = compared(before, after).all[NET_ESTIMATE]
    assert found is not None
    assert found.fall is not None
    assert found.fall.p_value < 1e-6
    half = slice(0, 55)
    mixed = []
    for side in (before, after):
        rows = side.table["choice_logprobs"].to_pylist()
        scores = [row if at < half.stop else None for at, row in enumerate(rows)]
        columns = {name: side.table[name].to_pylist() for name in ("k", "gold", "chosen")}
        right = side.table["correct"].to_pylist()
        mixed.append(snapshot(right, meta=dict(side.meta), choice_logprobs=scores, **columns))
    both = compared(*mixed).all[NET_ESTIMATE]
    assert both is not None
    assert both.fall is not None
    assert both.unscored_loss is not None
    alarm = Alarm.test(compared(*mixed).all, step=1, level=0.01)
    assert (alarm.p_value, alarm.raised) == (
        pytest.approx(2 * min(both.fall.p_value, both.unscored_loss)),
        True,
    )
    few = compared(
        *(
            decided(np.array(side.table["choice_logprobs"].to_pylist())[:49])
            for side in (before, after)
        )
    )
    assert few.all[NET_ESTIMATE].fall is None  # type: ignore[union-attr]


def test_margins_that_are_all_equal_leave_the_doubt_of_the_bias_alone() -> None:
    """Every margin falls from 2 to 1 nats: each side's width follows, and nothing changed."""
    before, after = (np.tile([size, 0.0, 0.0], (60, 1)) for size in (2.0, 1.0))
    found = compared(decided(before), decided(after)).all[NET_ESTIMATE]
    assert found is not None
    assert found.margin_change is not None
    assert (found.margin_change.mean, found.margin_change.error) == (pytest.approx(0), 0)
    assert found.interval[0] < 0 < found.interval[1]
    nothing = compared(decided(np.zeros((60, 3))), decided(np.zeros((60, 3)))).all[NET_ESTIMATE]
    assert nothing is not None
    assert (nothing.rule, nothing.change.mean) == (None, 0)


def test_no_interval_leaves_the_changes_that_are_possible() -> None:
    before, after = sides(8, fall=6.0)
    whole = compared(before, after).all
    for level in (0.95, 0.999999):
        low, high = whole[NET_ESTIMATE].interval_at(level)
        assert -1.0 <= low <= high <= 1.0
    assert whole[NET_ESTIMATE].interval_at(0.999999)[0] == -1.0
