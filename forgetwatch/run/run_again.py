"""The lost of a run asked again at its last look, where the model has its base in it.

A model with adapters is its base once they are switched off. At the last look what was clearly
known at the start and is lost now is asked in other wordings, of both, beside as many kept
questions (`comparing.flips`). That takes at most `SHARE` of the questions of a look.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from torch import nn

from forgetwatch.comparing.asked_again import ask_again
from forgetwatch.measures.other_wordings import AGAIN_KEY, stored_again
from forgetwatch.probe import Probe
from forgetwatch.probes.wordings import OTHERS
from forgetwatch.progress import log
from forgetwatch.scoring.adapters import adapters_off, holds_its_base
from forgetwatch.scoring.processes import rank
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import Snapshot

SHARE: Final = 0.5
"""Questions that are asked again, over all wordings and both models, as a share of those of a look."""

_CHECKED: Final = 8
"""Questions in which the model without its adapters is compared with the baseline."""

_TOLERANCE: Final = 0.05
"""Nats by which an option may differ there: other batches round otherwise."""


def with_again(
    snapshot: Snapshot,
    baseline: Snapshot,
    model: nn.Module,
    tokenizer: Any,
    probe: Probe,
    *,
    token_budget: int | None,
) -> Snapshot:
    """Add the lost answers in other wordings to the last look.

    Nothing is added unless the model without adapters is that of the baseline.

    It is returned as it is if the model is not its base without adapters, or that is not the model
    of the baseline.
    """
    if not holds_its_base(model) or not _is_baseline(
        baseline, model, tokenizer, probe, token_budget=token_budget
    ):
        return snapshot
    seconds = 0.0

    def score(reworded: Probe) -> tuple[Snapshot, Snapshot]:
        nonlocal seconds
        if rank() == 0:
            log(
                f"asking {len(reworded):,} questions in other words, of the model with and without "
                "its adapters"
            )
        scorer = Scorer(reworded, tokenizer, model, token_budget=token_budget)
        now = scorer.score(model)
        with adapters_off(model):
            before = scorer.score(model)
        seconds = float(now.meta["seconds"]) + float(before.meta["seconds"])
        return before, now

    # Each lost question brings a kept one, and both are asked in all wordings of both models.
    maximum = int(SHARE * len(snapshot) / (4 * len(OTHERS)))
    again = ask_again(baseline, snapshot, probe, score, maximum=maximum)
    stored = {**stored_again(again), "seconds": round(seconds, 3)}
    return replace(snapshot, meta={**snapshot.meta, AGAIN_KEY: stored})


def _is_baseline(
    baseline: Snapshot, model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None
) -> bool:
    # The log-likelihoods of a few questions are those of the baseline.
    stored = dict(
        zip(baseline.item_keys, baseline.table["choice_logprobs"].to_pylist(), strict=True)
    )
    few = [
        item for item in probe if not probe.is_generated(item) and stored.get((item.task, item.id))
    ][:_CHECKED]
    if not few:
        return False
    few_items = probe.with_items(few)
    with adapters_off(model):
        read = Scorer(few_items, tokenizer, model, token_budget=token_budget).score(model)
    pairs = [
        (stored[item.task, item.id], now)
        for item, now in zip(few, read.table["choice_logprobs"].to_pylist(), strict=True)
        if now is not None
    ]
    return bool(pairs) and all(np.allclose(was, now, rtol=0, atol=_TOLERANCE) for was, now in pairs)
