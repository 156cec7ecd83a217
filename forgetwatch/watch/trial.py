"""A trial: the seconds of a few items of a probe, before anything is measured."""

from __future__ import annotations

from typing import Any, Final

from torch import nn

from forgetwatch.probe import Probe
from forgetwatch.progress import log
from forgetwatch.scoring import Scorer, execution, generation_obstacle, rank, world_size
from forgetwatch.watch.schedule import FEWEST_ITEMS, Decision, Trial, evaluated_worth

_ITEMS: Final = 32
"""Items of a trial, two batches on a CPU."""
_ANSWERS: Final = 16
_ON_CPU: Final = 2
"""Generated answers of a trial, on a GPU and on a CPU."""


def time_items(model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> Trial | None:
    """Time the first items that are scored, read twice, since the first time is slower, and a few answers.

    None if no item fits into the context.
    """
    if rank() == 0:
        log(f"timing a few of the {len(probe):,} items of {probe.name}, to decide how many are measured")
    scored = [item for item in probe if not probe.is_generated(item)]
    answer = _answer_seconds(model, tokenizer, probe, token_budget=token_budget)
    if not scored:
        return Trial(question=0.0, token=0.0, answer=answer)
    few = Scorer(probe.with_items(scored[:_ITEMS]), tokenizer, model, token_budget=token_budget)
    first, again = (float(few.score(model).meta["seconds"]) for _ in range(2))
    token = again / max(few.engine.tokens, 1)
    if not token:
        return None
    # More items share more of their beginnings, and read fewer tokens each.
    more = probe.with_items(scored[:FEWEST_ITEMS])
    engine = Scorer(more, tokenizer, model, token_budget=token_budget).engine
    tokens = engine.planned_tokens(few.engine.layout or "rows", few.engine.attention)
    question = token * tokens / evaluated_worth(more, Decision())
    begin = max(0.0, first - again)
    return Trial(question=question, token=token * world_size(), answer=answer, begin=begin)


def _answer_seconds(model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> float:
    """Time the first items whose answers are generated, and return the seconds of one; 0 if there are none."""
    generated = [item for item in probe if probe.is_generated(item)]
    if not generated or generation_obstacle(model):
        return 0.0
    few = probe.with_items(generated[: _ANSWERS if execution(model)["device"] == "cuda" else _ON_CPU])
    timed = Scorer(few, tokenizer, model, token_budget=token_budget).score(model)
    return float(timed.meta["seconds"]) / len(few)
