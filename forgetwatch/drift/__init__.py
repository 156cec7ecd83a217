"""Drift of a model from its base: KL and overlap per token on texts that the base generated.

    adapters     the base of a model with adapters, and the start of a run with them
    base_texts   texts of the base: sampled, kept in a file, read under a model; the drift of a run's looks

Start with `RunDrift`. The estimators are in `metrics.divergence`, the numbers of a look in `measures.drift`.
"""

from forgetwatch.drift.adapters import adapter_start, adapters_off, holds_its_base
from forgetwatch.drift.base_texts import (
    SCHEMA,
    Completions,
    Reading,
    RunDrift,
    check_completions,
    drift_prompts,
    model_drifts,
    read_completions,
    read_under,
    sample_base,
    sample_completions,
    save_completions,
)
