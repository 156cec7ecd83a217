"""Comparisons of scores between wrong and right: the mean change decides, and flips are counted by a threshold."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pages import printed
from pages import table as table_of

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.groups import group_values
from forgetwatch.errors import MismatchError
from forgetwatch.measures.base import Quantity
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.graded import GRADED
from forgetwatch.measures.measured_again import RIGHT_LOST


def graded(scores: NDArray[np.float64], **columns: Any) -> Snapshot:
    """Scores [items, samples] as a snapshot; nan is unscored."""
    items, samples = scores.shape
    values = scores.ravel()
    missing = np.isnan(values)
    return Snapshot.from_columns(
        {
            "item_id": np.repeat([f"q{item}" for item in range(items)], samples),
            "sample": np.tile(np.arange(samples), items),
            "category": np.repeat([f"c{item % 3}" for item in range(items)], samples),
            "correct": [
                None if gone else value >= 0.5 for gone, value in zip(missing, values, strict=True)
            ],
            "score": [None if gone else value for gone, value in zip(missing, values, strict=True)],
            **columns,
        },
        {"right_if": "score>=0.5"},
    )


def sides(fall: float, *, items: int = 300, samples: int = 1) -> tuple[Snapshot, Snapshot]:
    rng = np.random.default_rng(items + samples)
    level = rng.uniform(0.2, 1.0, items)[:, None]
    before, after = (
        np.clip(level - shift + rng.normal(0, 0.1, (items, samples)), 0, 1) for shift in (0.0, fall)
    )
    return graded(before), graded(after)


def test_the_mean_change_decides() -> None:
    before, after = sides(0.08)
    comparison = compare(before=before, after=after)
    change = after.floats("score") - before.floats("score")
    estimate = comparison.all[NET_ESTIMATE]
    assert estimate is not None
    assert estimate.change.mean == pytest.approx(change.mean())
    found = decide(comparison)
    assert (found.word, found.deciding) == ("FORGOT", "accuracy")
    assert found.claim.startswith("the mean score fell by about")
    shown = printed(table_of(comparison))
    assert "lost, " in shown
    assert "(right: >=0.5)" in " ".join(shown.split())
    means = [f"{side.floats('score').mean():.2f}" for side in (before, after)]
    assert f"score {' -> '.join(means)}, " in " ".join(shown.split())
    assert decide(compare(before=before, after=before)).answer != "FAIL"


def test_a_loss_below_the_threshold_is_seen_in_the_mean_alone() -> None:
    before = graded(np.full((300, 1), 1.0))
    after = graded(np.full((300, 1), 0.6))
    comparison = compare(before=before, after=after)
    assert comparison.all.forgotten == 0
    assert decide(comparison).word == "FORGOT"


def test_samples_are_averaged_over_items_and_their_part_is_said() -> None:
    before, after = sides(0.0, samples=4)
    comparison = compare(before=before, after=after)
    group = comparison.all
    found, right = group[GRADED], group[RIGHT_LOST]
    assert found is not None
    assert found.change is not None
    means = [side.floats("score").reshape(300, 4).mean(1) for side in (before, after)]
    assert found.change.mean == pytest.approx((means[1] - means[0]).mean())
    # Nothing but sampling differs.
    assert found.sampling_share > 0.9
    assert (
        f"4 samples each (more: up to {min(100 * found.narrower, 95):.0f} % narrower)"
        in " ".join(printed(table_of(comparison)).split())
    )
    assert right is not None
    assert right.less_noise  # by the samples
    assert decide(comparison).leg("knowledge").answer == "PASS"  # type: ignore[union-attr]


def test_unlike_thresholds_are_refused() -> None:
    before, after = sides(0.0)
    with pytest.raises(MismatchError, match=r"counts score>=0.5 as right and .* score>=0.7"):
        compare(before=before, after=replace(after, meta={"right_if": "score>=0.7"}))


def test_the_mean_takes_all_samples_of_each_side() -> None:
    rng = np.random.default_rng(8)
    few, many = rng.random((100, 2)), rng.random((100, 4))
    comparison = compare(before=graded(few), after=graded(many))
    found = comparison.all[GRADED]
    assert found is not None
    assert found.change is not None
    assert found.change.mean == pytest.approx(many.mean() - few.mean())
    assert comparison.samples == 2  # those that pair
    many[0, 2:] = np.nan
    gone = graded(many)
    rows = gone.table.filter(gone.table["correct"].is_valid())
    assert compare(before=graded(few), after=Snapshot(rows, gone.meta)).samples == 2


def test_a_missing_score_counts_in_the_worst_case() -> None:
    before, _ = sides(0.0)
    scores = before.floats("score").copy()[:, None]
    scores[:60] = np.nan
    comparison = compare(before=before, after=graded(scores))
    estimate = comparison.all[NET_ESTIMATE]
    assert estimate is not None
    lost = before.floats("score")[:60].sum() / 300
    assert estimate.change.mean == 0.0
    assert estimate.worst.mean == pytest.approx(-lost)
    assert decide(comparison).word == "NOT CLEAR"


def test_options_keep_their_margins_beside_scores() -> None:
    rng = np.random.default_rng(5)
    rows, half = 400, 200
    logprobs = [rng.normal(0, 1, (rows, 4)) - 3 for _ in range(2)]
    logprobs[1] = logprobs[0] + rng.normal(0, 0.2, (rows, 4))
    made = []
    for side in logprobs:
        chosen = side.argmax(1)
        score = np.where(np.arange(rows) < half, np.nan, rng.random(rows))
        made.append(
            Snapshot.from_columns(
                {
                    "item_id": [f"q{row}" for row in range(rows)],
                    "k": [4 if row < half else None for row in range(rows)],
                    "gold": [0 if row < half else None for row in range(rows)],
                    "chosen": [int(chosen[row]) if row < half else None for row in range(rows)],
                    "choice_logprobs": [
                        list(side[row]) if row < half else None for row in range(rows)
                    ],
                    "correct": [
                        bool(chosen[row] == 0 if row < half else score[row] >= 0.5)
                        for row in range(rows)
                    ],
                    "score": [None if row < half else score[row] for row in range(rows)],
                },
                {"probe": {"norm": "sum"}},
            )
        )
    estimate = compare(before=made[0], after=made[1]).all[NET_ESTIMATE]
    assert estimate is not None
    assert estimate.rule is not None  # of the options
    alone = [side.table.filter(side.table["score"].is_valid()) for side in made]
    of_scores = np.asarray(alone[1]["score"]) - np.asarray(alone[0]["score"])
    margins = compare(
        before=Snapshot(made[0].table.slice(0, half), made[0].meta),
        after=Snapshot(made[1].table.slice(0, half), made[1].meta),
    ).all[NET_ESTIMATE]
    assert margins is not None
    assert estimate.change.mean == pytest.approx((margins.change.mean + of_scores.mean()) / 2)


def test_json_and_trackers_have_the_scores() -> None:
    before, after = sides(0.08)
    group = compare(before=before, after=after).all
    values = json.loads(json.dumps(group_values(group)))
    assert values["score_before"] == pytest.approx(before.floats("score").mean())
    assert values["score_change"] == pytest.approx(values["net_change_estimate"])
    low, high = values["score_change_interval"]
    assert low < values["score_change"] < high
    plain = Snapshot.from_columns({"item_id": ["a"], "correct": [True]}, {})
    assert group_values(compare(before=plain, after=plain).all)["score_before"] is None
    tracked = {
        quantity.name: quantity.tracked
        for quantity in GRADED.quantities
        if isinstance(quantity, Quantity)
    }
    assert tracked["score_after"] == "all"


def test_answers_to_one_question_under_several_ids_are_one_observation() -> None:
    rng = np.random.default_rng(9)
    right = [rng.random((60, 4)) < rng.beta(0.5, 0.5, 60)[:, None] for _ in range(2)]
    hashes = np.repeat([f"h{question}" for question in range(60)], 4)
    by_id, by_sample = (
        [
            Snapshot.from_columns({**columns, "content_hash": hashes, "correct": side.ravel()}, {})
            for side in right
        ]
        for columns in (
            {"item_id": [f"r{row}" for row in range(240)]},
            {"item_id": hashes, "sample": np.tile(np.arange(4), 60)},
        )
    )
    first = compare(before=by_id[0], after=by_id[1])
    second = compare(before=by_sample[0], after=by_sample[1])
    assert first.all.net_change_interval == pytest.approx(second.all.net_change_interval)
    assert first.clusters == 60
