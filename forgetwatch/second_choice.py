"""Which option came second: how attractive gold is to a model that answers wrongly.

Read off the stored log-likelihoods of the options; what `metrics.guessing.guess_corrected_calibrated` needs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.snapshot import Snapshot

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def second_choice(snapshot: Snapshot, rows: Ints) -> Floats | None:
    """1 where a right option has the second highest score behind the wrong one chosen, 0 where another has, at `rows`.

    nan where the answer is right, no option has a score, or the option chosen is not the one with the highest score
    (so that the scores at hand are not those that decided). None where no row has scores. The score is the one that
    decides: `choice_logprobs` over the choice's length in the unit that the probe names.
    """
    if snapshot.missing("choice_logprobs") or snapshot.missing("chosen") or snapshot.missing("gold"):
        return None
    lists = snapshot.table["choice_logprobs"].combine_chunks()
    length = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    scores = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)
    norm = snapshot.meta.get("probe", {}).get("norm", "sum")
    if norm == "unconditional":
        priors = snapshot.table["choice_priors"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        if len(priors) != len(scores):
            return None
        scores = scores - priors
    elif norm != "sum":
        units = snapshot.table[f"choice_{norm}"].combine_chunks()
        unit = np.asarray(units.flatten().to_numpy(zero_copy_only=False), np.float64)
        if len(unit) != len(scores):
            return None
        scores = scores / unit
    row = np.repeat(np.arange(len(length)), length)
    option = np.arange(len(scores)) - np.repeat(np.cumsum(length) - length, length)
    chosen, gold = snapshot.ints("chosen"), snapshot.ints("gold")
    is_chosen, is_gold = option == chosen[row], option == gold[row]
    if not snapshot.missing("golds"):
        several = snapshot.table["golds"].combine_chunks()
        golds = pa.array(several).flatten().to_numpy(zero_copy_only=False).astype(np.int64)
        of_row = np.repeat(np.arange(len(snapshot)), np.asarray(pc.fill_null(pc.list_value_length(several), 0)))
        starts, inside = np.cumsum(length) - length, golds < length[of_row]
        is_gold[starts[of_row[inside]] + golds[inside]] = True
    best = np.full(len(length), -np.inf)
    best_wrong, best_gold = best.copy(), best.copy()
    np.maximum.at(best, row[is_chosen], scores[is_chosen])
    np.maximum.at(best_wrong, row[~is_chosen & ~is_gold], scores[~is_chosen & ~is_gold])
    np.maximum.at(best_gold, row[~is_chosen & is_gold], scores[~is_chosen & is_gold])
    right = np.zeros(len(length), bool)
    right[row[is_chosen & is_gold]] = True
    decided = np.isfinite(best) & (best >= np.maximum(best_wrong, best_gold)) & ~right & np.isfinite(best_gold)
    return np.where(decided, (best_gold > best_wrong).astype(float), np.nan)[rows]
