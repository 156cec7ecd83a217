"""Real per-question logs by others, against counts that were made independently of this package."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgetwatch import compare
from forgetwatch.errors import MismatchError

PAIRS = [
    ("Meta-Llama-3_1-8B", "Meta-Llama-3_1-8B-Instruct", (12032, 1127, 2053, 12032), 0.050102005631871),
    ("Mistral-7B-v0.1", "Mistral-7B-Instruct-v0.1", (12032, 1832, 1156, 12027), 0.08686453735831563),
]


@pytest.mark.parametrize(("before", "after", "counts", "rate"), PAIRS)
def test_mmlu_pro_pairs(real_data: Path, before: str, after: str, counts: tuple[int, ...], rate: float) -> None:
    folder = real_data / "mmlu_pro"
    whole = compare(before=folder / f"{before}.parquet", after=folder / f"{after}.parquet").all
    assert (whole.n, whole.forgotten, whole.gained, whole.chance.n) == counts
    assert whole.chance.paper is not None
    assert whole.chance.paper.forgetting == pytest.approx(rate, abs=1e-12)


def test_changed_questions_are_refused_or_left_out(real_data: Path) -> None:
    before, after = (real_data / "mmlu_pro" / f"{name}.parquet" for name in ("Mistral-7B-v0.1", "mathstral-7B"))
    with pytest.raises(MismatchError, match="13 items before and 13 after have no partner"):
        compare(before=before, after=after)
    shared = compare(before=before, after=after, on_mismatch="intersect")
    assert (shared.all.n, shared.all.forgotten, shared.all.gained) == (12019, 1018, 2487)
    assert shared.items.content_differs == 13
    assert shared.all.chance.paper is not None
    assert shared.all.chance.paper.forgetting == pytest.approx(0.03458723474396295, abs=1e-12)


def test_row_order_and_repeated_questions_do_not_change_the_counts(real_data: Path) -> None:
    from dataclasses import replace

    import numpy as np

    from forgetwatch import load_snapshot

    before, after = (load_snapshot(real_data / "mmlu_pro" / f"{name}.parquet") for name in PAIRS[0][:2])
    shuffled = replace(after, table=after.table.take(np.random.default_rng(0).permutation(len(after))))
    whole = compare(before=before, after=shuffled).all
    assert (whole.n, whole.forgotten, whole.gained) == PAIRS[0][2][:3]
