from __future__ import annotations

import math

import numpy as np
import pytest
from support import snapshot

from forgetwatch import compare
from forgetwatch.probes import PaperTasks

TWICE = {"item_id": [*"1122"], "content_hash": [*"AABB"], "sample": [0, 1] * 2, "task": ["piqa"] * 4}


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
    before, after = (snapshot(right, **TWICE, k=[2] * 4) for right in ([True] * 4, [False, True, False, True]))
    macro = compare(before=before, after=after).macro
    rates = [1.0, 0.0]  # sample 0 lost both items, sample 1 none; nothing was wrong before, so chance is 0
    assert macro.forgetting.mean == pytest.approx(np.mean(rates))
    assert macro.forgetting.sd == pytest.approx(np.std(rates, ddof=1))


TASKS = ["mmlu:anatomy"] * 4 + ["community|bbh:snarks|0"] * 4 + ["own task"] * 4 + ["bbh:word_sorting"] * 4


def test_the_released_codes_numbers_on_its_own_tasks() -> None:
    before = snapshot([True, True, False, False] * 4, task=TASKS, k=[10] * 16)
    after = snapshot([True, False, False, False] * 4, task=TASKS, k=[10] * 16)
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    four, two = 1 / 4 - 0.5 * 0.75 / 3, 0.0  # k = 4; k = 2: 1/4 - .375 is clipped at once
    assert set(compat.by_category) == {"Science/Tech", "Language", "Missing"}  # word sorting is ignored
    assert compat.by_category["Science/Tech"][0].mean == pytest.approx(four)
    assert compat.by_category["Language"][0].mean == two
    assert compat.forgetting.mean == pytest.approx((four + two + four) / 3)  # Missing counts as much as any
    assert compare(before=before, after=after).paper_compat is None


def test_clipping_comes_before_the_mean_over_seeds_and_tasks() -> None:
    before, after = snapshot([False, True, True, True], **TWICE), snapshot([True, False, True, True], **TWICE)
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    # seed 0: nothing forgotten, clipped at 0; seed 1: one of two, nothing was wrong before
    assert compat.forgetting.mean == pytest.approx((0.0 + 0.5) / 2)
    assert compat.forgetting.sd == pytest.approx(np.std([0.0, 0.5], ddof=1))


def test_the_papers_tasks_in_any_spelling() -> None:
    tasks = PaperTasks.released()
    for name in ("mmlu:anatomy", "mmlu_anatomy", "community|mmlu:anatomy|0", "community|mmlu_custom:anatomy|0"):
        assert (tasks.category(name), tasks.k(name), tasks.ignored(name)) == ("Science/Tech", 4, False)
    assert (tasks.category("piqa"), tasks.category("commonsense_qa:main")) == ("Common Sense", "Common Sense")
    assert tasks.k("bbh:geometric_shapes") == 11
    assert tasks.ignored("truthfulqa:mc2")
    assert tasks.ignored("community|global_mmlu:fra|0")
    assert (tasks.category("unheard of"), tasks.k("unheard of")) == ("", 4)
    assert len({category for category, _, _ in tasks.rows.values() if category}) == 10
    assert len(tasks.rows) == 99


def test_an_unscored_answer_leaves_its_seed_only_as_in_the_released_code() -> None:
    before, after = snapshot([True, True, None, False], **TWICE), snapshot([True, False, True, False], **TWICE)
    compat = compare(before=before, after=after, chance="paper-compat").paper_compat
    assert compat is not None
    seed0, seed1 = 0.0, 1 / 2 - 0.5 * 1.0 / 3  # seed 0: one item, kept; seed 1: two, one lost and one missed
    assert compat.forgetting.mean == pytest.approx((seed0 + seed1) / 2)


def test_nothing_has_no_rate() -> None:
    nothing = compare(before=snapshot([True]), after=snapshot([True])).macro  # an open answer
    assert math.isnan(nothing.forgetting.mean)
    assert math.isnan(nothing.backward_transfer.sd)
    assert nothing.by_category == {}
