"""Drift of saved models from their base, on the prompts of a probe; for `forgetwatch compare --drift`.

    base ─▶ completions of the probe's prompts ─┬─▶ read under the first model ─▶ KL, overlap
                                                └─▶ read under the second ...

One model is in memory at a time. The completions are those of a run's drift (`watch.drift`), and so are the estimators.
"""

from __future__ import annotations

from collections.abc import Sequence

from forgetwatch.errors import ScoringError
from forgetwatch.measures import LookDrift
from forgetwatch.probe import Probe
from forgetwatch.scoring import check_completions, generation_obstacle, load_model
from forgetwatch.watch.drift import DriftWatch


def model_drifts(
    base: str, after: Sequence[str], probe: Probe, *, device_map: str | None = None
) -> list[dict[str, LookDrift]]:
    """Drift of each model from the base, by set of prompts: ``probe`` alone.

    Args:
        base: The base: a checkpoint folder, adapter folder or model id.
        after: The models, of the same tokenizer.
        probe: The probe whose prompts the base continues.
        device_map: See `checkpoints.load_model`.

    Raises:
        ScoringError: If a model cannot be loaded, the base cannot generate, or a model has another tokenizer.
    """
    made = _begin(base, probe, device_map=device_map)
    floors = made.completions.floor
    found = []
    for name in after:
        model, tokenizer = load_model(name, device_map=device_map)
        try:
            check_completions(made.completions, model, tokenizer)
        except ScoringError as error:
            raise ScoringError(f"{name}: its drift from {base} cannot be measured: {error}") from error
        found.append({of: LookDrift.of(drift, floors.get(of)) for of, drift in made.look(model).items()})
        del model  # before the next one is loaded
    return found


def _begin(base: str, probe: Probe, *, device_map: str | None) -> DriftWatch:
    """The base's completions; its weights are freed on return."""
    model, tokenizer = load_model(base, device_map=device_map)
    if reason := generation_obstacle(model):
        raise ScoringError(f"{base}: --drift needs a base that can generate: {reason}")
    return DriftWatch.begin(model, tokenizer, probe, None, token_budget=None)
