"""Answers that the engine of a trainer generates which already has vLLM. Experimental: tested with stand-ins only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.generation import Generated, engine_answer
from forgetwatch.scoring.processes import all_gather, rank, world_size


class TrainerGenerator:
    """The engine of a trainer that already generates with vLLM (TRL's GRPO, RLOO and their like).

    It generates with the weights of the trainer's current step. After each call it has its own settings again and
    sleeps if it slept before, also after an exception. To hand over its weights the trainer merges adapters and
    unmerges them, which changes the weights below them by rounding. Here these get their bits back, and the trainer
    hands over and merges at the steps at which it would without this: a run with looks has, bit by bit, the weights of
    one without.

    Memory: while weights are handed over and answers generated, each process has a copy of its weights below adapters
    on the CPU, in their dtype (14 GB for 7B weights in bf16 with adapters on all layers; under FSDP those of its own
    part). Nothing is copied where the engine has the weights of the step already.

    Raises:
        ScoringError: If the trainer has no such engine (`use_vllm=True`); later, if a prompt is too long for it.
    """

    name = "vllm in the trainer"

    def __init__(self, trainer: Any, tokenizer: Any) -> None:
        self._engine: Any = getattr(trainer, "vllm_generation", None)
        if self._engine is None:
            raise ScoringError(f"{type(trainer).__name__} has no engine of vLLM; needed a trainer with use_vllm=True")
        self._trainer, self._tokenizer = trainer, tokenizer
        self._handed_over: tuple[int, Any] | None = None

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """Return one answer to each prompt, in their order."""
        longest = max(map(len, prompts), default=0) + decoding.tokens
        room = getattr(self._engine, "max_model_length", None)
        if room is not None and longest > room:
            raise ScoringError(
                f"a prompt and its answer take {longest} tokens, and the engine reads {room}; "
                f"set vllm_max_model_length to at least {longest}, or decoding.tokens lower"
            )
        # A server needs the same number of prompts from each process: the shares are filled up with the first prompt.
        count = world_size()
        indices = range(rank(), len(prompts), count)
        own = [list(prompts[index]) for index in indices]
        own += [list(prompts[0])] * (-(-len(prompts) // count) - len(own))
        with self._borrowed(decoding, seed):
            _, completions, *_ = self._engine.generate(prompts=own, images=None, num_generations=1)
        mine = dict(zip(indices, completions, strict=False))  # without the prompts that filled up
        answers: dict[int, Sequence[int]] = dict(pair for part in all_gather(lambda: mine) for pair in part.items())
        if progress:
            progress(len(prompts))
        return [
            engine_answer(self._tokenizer, answers[index], decoding, cut=len(answers[index]) >= decoding.tokens)
            for index in range(len(prompts))
        ]

    def _steps(self) -> tuple[int, Any]:
        """Return the trainer's step, and that of the weights that it handed over last."""
        return self._trainer.state.global_step, getattr(self._trainer, "_last_loaded_step", None)

    @contextmanager
    def _borrowed(self, decoding: Decoding, seed: int) -> Iterator[None]:
        """Give the engine our settings and the trainer's weights; afterwards its own settings and its sleep."""
        engine, trainer = self._engine, self._trainer
        # What TRL's engine reads at each call.
        ours: dict[str, Any] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": -1,
            "min_p": None,
            "repetition_penalty": 1.0,
            "max_completion_length": decoding.tokens,
            "logprobs": 0,
            "structured_outputs_regex": None,
            "generation_kwargs": {
                **({"stop": list(decoding.stop)} if decoding.stop else {}),
                **({"seed": seed} if decoding.temperature else {}),
            },
        }
        # Metadata are collected in a pass of its own, and so with a merge, by the first hand-over: the trainer's is to
        # be the first.
        own = {name: getattr(engine, name) for name in (*ours, "_weight_metadata") if hasattr(engine, name)}
        slept = bool(getattr(engine, "_llm_weights_sleeping", False))
        step, loaded = self._steps()
        # The second condition is for adapters: the trainer does not know that their weights were handed over.
        needs_weights = step != loaded and (step, loaded) != self._handed_over
        try:
            for name in ours.keys() & own:
                setattr(engine, name, ours[name])
            # An engine that sleeps gets the weights when it generates.
            with _kept_weights(trainer.model) if needs_weights or slept else nullcontext(False) as has_adapters:
                if needs_weights:
                    engine.sync_weights()
                if needs_weights and has_adapters:
                    # Not told to the trainer: it would merge at fewer steps, and so have other rounding errors.
                    self._handed_over = self._steps()
                elif needs_weights:
                    trainer._last_loaded_step = trainer.state.global_step
                yield
        finally:
            for name, value in own.items():
                setattr(engine, name, value)
            llm, awake = getattr(engine, "llm", None), not getattr(engine, "_llm_weights_sleeping", True)
            if slept and awake and llm is not None:
                llm.sleep(level=2)
                engine._llm_weights_sleeping = True


@contextmanager
def _kept_weights(model: Any) -> Iterator[bool]:
    """Provide a context after which adapters are unmerged and the weights below them have the bits that they had.

    Yields True if the model has adapters. PEFT's unmerging subtracts what merging added, which is exact for none of the
    floating-point types. Copies are on the CPU, one of the weights below adapters; parameters that a merge replaces
    (quantized ones) come back as the objects that they were.
    """
    layers = [layer for layer in model.modules() if hasattr(layer, "get_base_layer") and hasattr(layer, "merged")]
    # Adapters of several kinds may have one layer below them.
    bases = list({id(base): base for base in (layer.get_base_layer() for layer in layers)}.values())
    kept = [
        (base, name, parameter, _local(parameter).to("cpu", copy=True))
        for base in bases
        for name, parameter in base._parameters.items()
        if parameter is not None
    ]
    try:
        yield bool(layers)
    finally:
        for layer in layers:
            if layer.merged is True:
                layer.unmerge()
        for base, name, parameter, copy in kept:
            _local(parameter).copy_(copy)
            base._parameters[name] = parameter


def _local(parameter: torch.Tensor) -> Any:
    """Return the values of a parameter in this process, which holds a part of it under FSDP."""
    data = parameter.detach()
    return getattr(data, "_local_tensor", data)
