from __future__ import annotations

import math

import numpy as np
import pytest
from support import snapshot

from forgetwatch import compare


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
    columns = {
        "item_id": ["1", "1", "2", "2"],
        "content_hash": ["A", "A", "B", "B"],
        "sample": [0, 1, 0, 1],
        "k": [2] * 4,
    }
    before, after = snapshot([True] * 4, **columns), snapshot([False, True, False, True], **columns)
    macro = compare(before=before, after=after).macro
    rates = [1.0, 0.0]  # sample 0 lost both items, sample 1 none; nothing was wrong before, so chance is 0
    assert macro.forgetting.mean == pytest.approx(np.mean(rates))
    assert macro.forgetting.sd == pytest.approx(np.std(rates, ddof=1))
