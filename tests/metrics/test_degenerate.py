"""Every quantity is defined where there is little to count: no item, one item, all right, all wrong, k = 1, k mixed."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch.metrics import (
    Answers,
    Confidence,
    OptionScores,
    as_released,
    count_cells,
    count_known,
    detectable_change,
    effective_items,
    false_discovery,
    flip_interval,
    guess_corrected,
    guesser_history,
    item_history,
    items_needed,
    loss_p_value,
    mcnemar,
    newcombe,
    noise_floor,
    null,
    paper,
    sign_flip,
    smallest_loss,
    wilson,
)
from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.log_score import log_score

CASES = {
    "no item": (0, [], []),
    "one item, lost": (1, [True], [False]),
    "one item, kept": (1, [True], [True]),
    "all right": (5, [True] * 5, [True] * 5),
    "all wrong": (5, [False] * 5, [False] * 5),
    "all lost": (5, [True] * 5, [False] * 5),
}
OPTIONS = {"k = 1": [1], "k = 2": [2], "k = 4": [4], "k mixed": [1, 2, 3, 4, 10], "open answers": [-1]}


def everything(before: np.ndarray, after: np.ndarray, k: np.ndarray, *, clustered: bool) -> list[Any]:
    """Each quantity once."""
    n = len(before)
    cluster = np.arange(n) // 2 if clustered else None
    share = np.linspace(0.05, 0.95, n)
    cells = count_cells(before, after)
    rows = k >= 2
    options = np.maximum(k[rows], 2)
    answers = Answers(
        before=before[rows],
        after=after[rows],
        chosen_before=np.where(before[rows], 0, options - 1),
        chosen_after=np.where(after[rows], 0, 1),
        k=options,
        golds=np.ones(len(options), np.int64),
        task=np.zeros(len(options), np.int64),
        cluster=None if cluster is None else cluster[rows],
    )
    sizes = np.maximum(k, 0)
    scores = OptionScores(sizes, np.linspace(-3, 0, sizes.sum()), np.arange(sizes.sum()) % 3 == 0)
    clear = Confidence(
        before=before,
        after=after,
        share_before=share,
        share_after=share,
        wrong_share=share,
        other_wrong=~before & ~after,
        k=k,
        golds=np.ones(n, np.int64),
        cluster=cluster,
    )
    change = after.astype(np.int64) - before
    lost, won = int(cells.forgotten), int(cells.gained)
    return [
        cells.net_change,
        cells.retention,
        count_known(clear),
        paper(before, after, k, cluster=cluster),
        as_released(before, after, k=4),
        guess_corrected(answers),
        noise_floor(before, after, np.arange(n), samples=1),
        null(before, after.astype(float)),
        wilson(lost, n),
        flip_interval(lost, n),
        newcombe(cells),
        clustered_mean(change.astype(float), cluster),
        effective_items(change.astype(float), np.arange(n) // 2),
        mcnemar(lost, won),
        mcnemar(lost, won, mid=False),
        loss_p_value(lost, won),
        sign_flip(change, np.arange(n) // 2),
        false_discovery(np.array([mcnemar(lost, won)] * min(n, 1))).tolist(),
        newcombe(cells),
        detectable_change(n, (lost + won) / n if n else math.nan),
        items_needed(cells.net_change, (lost + won) / n if n else math.nan),
        smallest_loss(lost + won, 0.001),
        item_history(np.stack([before, after])).temporal_forgetting,
        guesser_history(1 / k[k >= 1], looks=2).temporal_forgetting,
        log_score(scores, scores.take(np.arange(n)[::-1]), cluster=cluster),
    ]


def numbers(value: Any) -> list[float]:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in numbers(part)]
    return [] if value is None or isinstance(value, str) else [float(value)]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("n", "before", "after"), CASES.values(), ids=CASES)
def test_every_quantity_is_a_number_or_says_that_it_is_none(
    n: int, before: list[bool], after: list[bool], options: list[int], clustered: bool
) -> None:
    k = np.resize(np.array(options), n)
    found = everything(np.array(before, bool), np.array(after, bool), k, clustered=clustered)
    for number in numbers(found):
        assert math.isnan(number) or math.isinf(number) or -1e6 < number < 1e6
    if n == 0:  # rates of nothing are nan, never 0
        assert math.isnan(found[0])
        assert math.isnan(found[3].forgetting)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.booleans())
def test_rates_stay_in_their_range_and_intervals_hold_them(seed: int, n: int, clustered: bool) -> None:
    rng = np.random.default_rng(seed)
    before, after, k = rng.random(n) < 0.5, rng.random(n) < 0.5, rng.integers(1, 6, n)
    cluster = rng.integers(0, 5, n) if clustered else None
    found = paper(before, after, k, cluster=cluster)
    if found.n:
        assert -1 <= found.forgetting_unclipped <= 1
        low, high = found.forgetting_interval
        assert math.isnan(low) or low <= found.forgetting_unclipped <= high
