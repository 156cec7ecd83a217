"""The seconds of a few items of a probe, before anything is measured."""

from typing import Any, Final

from torch import nn

from forgetwatch.probe import Probe
from forgetwatch.run.schedule import FEWEST_ITEMS, Trial, evaluated_worth
from forgetwatch.run.state import LookPlan
from forgetwatch.scoring.generation import generation_obstacle
from forgetwatch.scoring.processes import world_size
from forgetwatch.scoring.scorer import Scorer, execution

_ITEMS: Final = 32
"""Items of a trial, two batches on a CPU."""


_ANSWERS: Final = 16


_ON_CPU: Final = 2
"""Generated answers of a trial, on a GPU and on a CPU."""


def time_items(
    model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None
) -> Trial | None:
    """Time a few items and answers before a run.

    Returns:
        The seconds, or None if no item fits into the context. Items are read twice, since the first
        time is slower.
    """
    scored = [item for item in probe if not probe.is_generated(item)]
    answer = _answer_seconds(model, tokenizer, probe, token_budget=token_budget)
    if not scored:
        return Trial(question=0.0, token=0.0, answer=answer)
    few = Scorer(probe.with_items(scored[:_ITEMS]), tokenizer, model, token_budget=token_budget)
    first_seconds, second_seconds = (float(few.score(model).meta["seconds"]) for _ in range(2))
    token = second_seconds / max(few.engine.tokens, 1)
    if not token:
        return None
    # More items share more of their beginnings, and read fewer tokens each.
    more = probe.with_items(scored[:FEWEST_ITEMS])
    engine = Scorer(more, tokenizer, model, token_budget=token_budget).engine
    tokens = engine.planned_tokens(few.engine.layout or "rows", few.engine.attention)
    question = token * tokens / evaluated_worth(more, LookPlan())
    begin = max(0.0, first_seconds - second_seconds)
    return Trial(question=question, token=token * world_size(), answer=answer, begin=begin)


def _answer_seconds(
    model: nn.Module, tokenizer: Any, probe: Probe, *, token_budget: int | None
) -> float:
    # The time is that of one item; 0 without generated answers.
    generated = [item for item in probe if probe.is_generated(item)]
    if not generated or generation_obstacle(model):
        return 0.0
    few = probe.with_items(
        generated[: _ANSWERS if execution(model)["device"] == "cuda" else _ON_CPU]
    )
    timed = Scorer(few, tokenizer, model, token_budget=token_budget).score(model)
    return float(timed.meta["seconds"]) / len(few)
