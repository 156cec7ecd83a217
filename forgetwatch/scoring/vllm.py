"""vLLM as what writes answers. Never run yet on vLLM itself: tested with stand-ins that record how it is called.

    VllmWriter       an engine of its own on a checkpoint: tensor and data parallel as vLLM has them
    TrainerWriter    the engine that a GRPO or RLOO trainer already has, through `trainer.vllm_generation`

Nothing here is imported until it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.processes import gathered, rank, world
from forgetwatch.scoring.writing import Written, until

_SETTINGS: Final = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length", "generation_kwargs"),
    *("logprobs", "structured_outputs_regex"),
)
"""What TRL's engine reads at each call, and what is put back after ours."""


class VllmWriter:
    """An engine of vLLM on a checkpoint, adapter-free, offline.

    Args:
        model: A checkpoint folder or model id.
        tokenizer: Its tokenizer.
        options: Of `vllm.LLM`: tensor_parallel_size, data_parallel_size, dtype, gpu_memory_utilization, ...

    Raises:
        ScoringError: If vLLM is not installed.
    """

    name = "vllm"

    def __init__(self, model: str, tokenizer: Any, **options: Any) -> None:
        try:
            from vllm import LLM
        except ImportError as error:
            raise ScoringError(
                "needed vLLM to write with it: pip install vllm, or let the model write itself"
            ) from error
        self._tokenizer = tokenizer
        self._engine = LLM(model=model, seed=0, **options)

    def write(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Written]:
        """One answer behind each prompt, in their order."""
        from vllm import SamplingParams

        drawn = SamplingParams(
            n=1,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            max_tokens=decoding.tokens,
            stop=list(decoding.stop) or None,
            seed=seed if decoding.temperature else None,
        )
        found = self._engine.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts], sampling_params=drawn, use_tqdm=False
        )
        if progress:
            progress(len(prompts))
        outputs = [one.outputs[0] for one in found]
        return [_written(self._tokenizer, one.token_ids, one.finish_reason == "length", decoding) for one in outputs]


class TrainerWriter:
    """The engine of a trainer that already generates with vLLM (TRL's GRPO, RLOO and their like).

    Its settings are put back after each call; its weights are those of the trainer's current step; and it sleeps again
    where it slept, also after an exception.

    Args:
        trainer: With `use_vllm=True`.
        tokenizer: Its tokenizer.

    Raises:
        ScoringError: If the trainer has no such engine.
    """

    name = "vllm in the trainer"

    def __init__(self, trainer: Any, tokenizer: Any) -> None:
        self._engine: Any = getattr(trainer, "vllm_generation", None)
        if self._engine is None:
            raise ScoringError(f"{type(trainer).__name__} has no engine of vLLM; needed one with use_vllm=True")
        self._trainer, self._tokenizer = trainer, tokenizer

    def check(self, prompts: Sequence[Ids], decoding: Decoding) -> None:
        """Refuse prompts that the engine cannot read with their answers, before the first step.

        Raises:
            ScoringError: If one is too long.
        """
        longest = max(map(len, prompts), default=0) + decoding.tokens
        room = getattr(self._engine, "max_model_length", None)
        if room is not None and longest > room:
            raise ScoringError(
                f"a prompt and its answer take {longest} tokens, and the engine reads {room}; "
                f"set vllm_max_model_length to at least {longest}, or decoding.tokens lower"
            )

    def write(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Written]:
        """One answer behind each prompt, in their order.

        Raises:
            ScoringError: If a prompt is too long for the engine.
        """
        self.check(prompts, decoding)
        # A server wants equally many prompts of each process: all hand in all of their own share, padded.
        count = world()
        own = [list(prompts[at]) for at in range(rank(), len(prompts), count)]
        share = -(-len(prompts) // count)
        own += [list(prompts[0])] * (share - len(own))
        with self._borrowed(decoding, seed):
            _, completions, *_ = self._engine.generate(prompts=own, images=None, num_generations=1)
        mine = {at: completions[place] for place, at in enumerate(range(rank(), len(prompts), count))}
        everyone: dict[int, Sequence[int]] = {}
        for part in gathered(lambda: mine):
            everyone |= part
        if progress:
            progress(len(prompts))
        return [
            _written(self._tokenizer, everyone[at], len(everyone[at]) >= decoding.tokens, decoding)
            for at in range(len(prompts))
        ]

    @contextmanager
    def _borrowed(self, decoding: Decoding, seed: int) -> Iterator[None]:
        """The engine with our settings and the trainer's weights; then with its own, asleep where it was."""
        engine = self._engine
        trainer = self._trainer
        own = {name: getattr(engine, name) for name in _SETTINGS if hasattr(engine, name)}
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
        slept = bool(getattr(engine, "_llm_weights_sleeping", False))
        try:
            for name in own:
                setattr(engine, name, ours[name])
            if trainer.state.global_step != getattr(trainer, "_last_loaded_step", None):
                engine.sync_weights()
                trainer._last_loaded_step = trainer.state.global_step
            yield
        finally:
            for name, value in own.items():
                setattr(engine, name, value)
            llm, awake = getattr(engine, "llm", None), not getattr(engine, "_llm_weights_sleeping", True)
            if slept and awake and llm is not None:
                llm.sleep(level=2)
                engine._llm_weights_sleeping = True


def _written(tokenizer: Any, tokens: Sequence[int], cut: bool, decoding: Decoding) -> Written:
    text = str(tokenizer.decode(list(tokens), skip_special_tokens=True))
    ended = until(text, decoding.stop)
    ends = tokenizer.eos_token_id
    by_itself = bool(tokens) and tokens[-1] == ends
    return Written(ended, cut and not by_itself and ended == text, tuple(tokens))
