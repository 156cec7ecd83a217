"""A checkpoint's snapshot where vLLM writes the answers, and never two copies of the model on a GPU.

open answers only        outline (no weights) ─▶ prompts ─▶ vLLM ─▶ snapshot
also choices to score    model ─▶ scores ─▶ model let go ─▶ vLLM ─▶ snapshot
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import torch

from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.scoring.checkpoints import load_model, load_outline
from forgetwatch.scoring.forward import Progress
from forgetwatch.scoring.processes import world_size
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.scoring.vllm import VllmGenerator, check_installed
from forgetwatch.snapshot import Snapshot


def score_with_vllm(
    given: str,
    probe: Probe,
    *,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """The outcomes of a checkpoint folder or model id.

    Args:
        given: The checkpoint.
        probe: The items; some of them with answers to write.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines that share the prompts.
        trust_remote_code: Run code that comes with the model.
        progress: Called with the items done and the items in all.

    Raises:
        ScoringError: If vLLM is not installed, cannot write for this probe or checkpoint, or has too few GPUs.
    """
    check_installed()
    _check(given, probe)
    scored = any(item.choices or not probe.is_generated(item) for item in probe)
    load = load_model if scored else load_outline
    model, tokenizer = load(given, trust_remote_code=trust_remote_code)

    def make_room() -> None:
        model.to("meta")
        torch.cuda.empty_cache()

    with closing(
        VllmGenerator(
            given,
            tokenizer,
            tensor_parallel=tensor_parallel,
            data_parallel=data_parallel,
            trust_remote_code=trust_remote_code,
            make_room=make_room,
        )
    ) as generator:
        return Scorer(probe, tokenizer, model).score(model, name=given, progress=progress, generator=generator)


def _check(given: str, probe: Probe) -> None:
    """Refuse what vLLM could only be started for in vain."""
    if (Path(given) / "adapter_config.json").is_file():
        raise ScoringError(
            f"{given} is an adapter, and vLLM writes with whole models here; merge it into its base first"
        )
    if not any(probe.is_generated(item) for item in probe):
        raise ScoringError(f"vLLM writes answers, and probe {probe.name!r} has none to write; score it without vLLM")
    if world_size() > 1:
        raise ScoringError(
            f"needed one process to start vLLM from, got {world_size()}; --data-parallel starts several engines"
        )
