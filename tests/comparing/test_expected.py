"""Verdicts to expect: simulated ends read as the same ends would that were compared as snapshots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr
from support import decided, snapshot

from forgetwatch import compare
from forgetwatch.comparing import decide, expected_verdicts
from forgetwatch.comparing import decision as expected
from forgetwatch.metrics import boundary


def base(items: int = 300, *, seed: int = 0) -> np.ndarray:
    """Scores of four options, the first right; most answers are right, and some clearly known."""
    scores = np.random.default_rng(seed).normal(0, 1, (items, 4))
    scores[:, 0] += 1.5
    return scores


def categories(items: int) -> dict[str, list[str]]:
    return {"category": [f"c{n % 5}" for n in range(items)]}


@pytest.mark.parametrize("seed", [0, 1])
def test_simulated_ends_read_as_compared_snapshots_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "_ENDS", 20)
    scores = base(seed=seed)
    before = decided(scores, **categories(300))
    found = expected_verdicts(compare(before=before, after=before), before)
    margins = scores[:, 0] - scores[:, 1:].max(axis=1)
    width = boundary(margins, margins)
    assert width is not None
    draws = np.random.default_rng(0).normal(size=(20, 300))
    shifts, target = np.linspace(-2, 2, 4_001), float((margins > 0).mean()) - 0.04
    accuracies = ndtr((margins - shifts[:, None]) / (0.3 * width.h)).mean(axis=1)
    shift = shifts[np.argmin(np.abs(accuracies - target))]

    def share(word: str, by: float) -> float:
        words = Counter[str]()
        for draw in draws:
            moved = scores.copy()
            moved[:, 0] += 0.3 * width.h * draw - by
            words[decide(compare(before=before, after=decided(moved, **categories(300)))).word] += 1
        return words[word] / 20

    assert found is not None
    assert found.kept == share("KEPT", 0.0)
    assert found.forgot == pytest.approx(share("FORGOT", shift), abs=0.051)


def test_more_questions_decide_more_often() -> None:
    kept, forgot = [], []
    for items in (100, 1000):
        before = decided(base(items), **categories(items))
        found = expected_verdicts(compare(before=before, after=before), before)
        assert found is not None
        assert found.forgot is not None
        kept.append(found.kept)
        forgot.append(found.forgot)
    assert kept[0] < kept[1]
    assert forgot[0] < forgot[1]


def test_nothing_is_expected_without_margins_or_with_nothing_to_lose() -> None:
    bare = snapshot([True] * 60)
    assert expected_verdicts(compare(before=bare, after=bare), bare) is None
    scores = base(100)
    scores[:, 0] -= 20
    scores[:2, 0] += 40
    wrong = decided(scores)
    found = expected_verdicts(compare(before=wrong, after=wrong), wrong)
    assert found is not None
    assert found.forgot is None
