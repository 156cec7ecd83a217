"""Drift of a model from its base: KL and overlap per token on texts that the base generated.

    adapters     the base of a model with adapters, and the start of a run with them
    completions  the texts with their log-probabilities under the base, as a file
    base_texts   samples them from the base, and reads them under a model
    run_drift    the drift of a run's looks, and of saved models

Start with `run_drift`. The estimators are in `metrics.divergence`, the numbers of a look in `measures.drift`.
"""

from forgetwatch.drift.adapters import AdapterStart, adapter_start, adapters_off, holds_its_base
from forgetwatch.drift.base_texts import (
    check_completions,
    read_under,
    sample_completions,
)
from forgetwatch.drift.completions import SCHEMA, Completions, Reading, read_completions, save_completions
from forgetwatch.drift.run_drift import RunDrift, drift_prompts, model_drifts, sample_base
