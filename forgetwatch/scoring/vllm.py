"""Answers generated, and letters scored, by vLLM. Tested with stand-ins: vLLM itself has not been run.

    VllmGenerator      engines of its own on a checkpoint, which also score choices that are single tokens
    TrainerGenerator   the engine of a trainer that already generates with vLLM

Engines of a checkpoint are in this process, or several next to each other, each in a process and on GPUs of its own:

    data_parallel=1                  prompts ──▶ engine (tensor_parallel GPUs)
    data_parallel=2              ┌── prompts 0, 2, ... ──▶ engine on GPUs 0, 1
    tensor_parallel=2   prompts ─┤
                                 └── prompts 1, 3, ... ──▶ engine on GPUs 2, 3

vLLM itself refuses `data_parallel_size` in one process. Engines that do not communicate give the same for a model
without experts. They start when the first answers are needed, and vLLM is imported then. They reserve memory for texts
as long as the longest prompt with its answer, not for the longest text that the model can read.

The log-probabilities of letters are those of vLLM's own kernels, from logits in the model's dtype: its snapshots are
compared with each other only.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

import numpy as np
import torch

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.generation import Generated, engine_answer
from forgetwatch.scoring.processes import all_gather, rank, world_size
from forgetwatch.scoring.readout import Scores

A = TypeVar("A")
T = TypeVar("T")

Answer = tuple[Ids, bool]
"""Token ids, and True if they were cut at their length."""

NextToken = tuple[dict[int, float], int]
"""Log-probability of each wanted token, nats, and the most likely token."""

MOST_LOGPROBS: Final = 128
"""Tokens whose log-probabilities vLLM 0.33 returns for one position."""


class VllmGenerator:
    """Engines of its own on a checkpoint without adapters; they start when the first answers are needed.

    Scores are of choices that are single tokens, such as letters. Each item takes one step after its prompt, for all
    choices and spellings; prompts share their beginnings in vLLM's cache.

    As many engines as `data_parallel` share the prompts, and as many GPUs as `tensor_parallel` one engine's weights.
    `make_room` is called before they start: they take nearly all memory of their GPUs.

    Raises:
        ScoringError: If vLLM is not installed; later, if there are too few GPUs for several engines, or one has ended.
    """

    name = "vllm"
    scorer = "vllm letters/1"
    """Name and version, for the metadata: scores are compared with each other only."""

    def __init__(
        self,
        model: str,
        tokenizer: Any,
        *,
        tensor_parallel: int = 1,
        data_parallel: int = 1,
        trust_remote_code: bool = False,
        make_room: Callable[[], None] | None = None,
    ) -> None:
        check_installed()
        self._tokenizer, self._make_room = tokenizer, make_room
        self._start = partial(
            Engines,
            model,
            tensor_parallel=tensor_parallel,
            data_parallel=data_parallel,
            trust_remote_code=trust_remote_code,
        )
        self._engines: Engines | None = None

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer to each prompt, in their order."""
        settings = {
            "n": 1,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.tokens,
            "stop": list(decoding.stop) or None,
            "seed": seed if decoding.temperature else None,
        }
        answers = self._started(prompts, tokens=decoding.tokens).generate(prompts, settings)
        if progress:
            progress(len(prompts))
        return [engine_answer(self._tokenizer, tokens, decoding, cut=cut) for tokens, cut in answers]

    def prepared(self, encoded: Sequence[Encoded], *, max_length: int) -> list[Encoded]:
        """The same items; those with a choice of several tokens, or without room for an answer, are unscored.

        If none is left, that is an error.
        """
        made = [one if one.unscored else replace(one, unscored=_letters_obstacle(one, max_length)) for one in encoded]
        if all(one.unscored for one in made):
            raise ScoringError(
                f"vLLM generates answers, and scores choices that are single tokens; of the {len(made):,} items here "
                f"none is either ({made[0].unscored}); score the probe without vLLM"
            )
        return made

    def score(self, encoded: Sequence[Encoded], progress: Progress | None = None) -> dict[int, Scores]:
        """Scores of all items that can be scored, by index; they are from `prepared`."""
        indices = [index for index, one in enumerate(encoded) if not one.unscored]

        def report(count: int) -> None:
            if progress:
                progress(Done(count=count, total=len(indices), share=count / len(indices)))

        report(0)
        prompts = [encoded[index].context for index in indices]
        wanted = [_letters_of(encoded[index]) for index in indices]
        tokens = self._started(prompts, tokens=1).next_tokens(prompts, wanted)
        report(len(indices))
        return {index: _scores(encoded[index], *found) for index, found in zip(indices, tokens, strict=True)}

    def _started(self, prompts: Sequence[Ids], *, tokens: int) -> Engines:
        """The engines, with room for the longest prompt and its answer."""
        longest = max(map(len, prompts), default=0) + tokens
        if self._engines is None or longest > self._engines.longest:
            self.close()
            if self._make_room:
                self._make_room()
            self._engines = self._start(longest=longest)
        return self._engines

    def close(self) -> None:
        """End the engines."""
        if self._engines is not None:
            self._engines.close()
            self._engines = None


def _letters_of(encoded: Encoded) -> Ids:
    """The tokens of an item's choices and spellings, each once."""
    spelled = (token for tokens in encoded.spellings for token in tokens)
    return tuple(dict.fromkeys([*(ids[0] for ids in encoded.choices), *spelled]))


def _letters_obstacle(encoded: Encoded, max_length: int) -> str:
    """Reason why vLLM cannot score an item; empty if it can."""
    for index, ids in enumerate(encoded.choices):
        if len(ids) != 1:
            return f"choice {index} has {len(ids)} tokens, and vLLM scores single ones"
    if (tokens := len(_letters_of(encoded))) > MOST_LOGPROBS:
        return f"{tokens} tokens, and vLLM scores {MOST_LOGPROBS} at a position"
    # vLLM generates the token that it scores, and refuses to start with more tokens than the model reads.
    if (tokens := len(encoded.context)) >= max_length:
        return f"{tokens} tokens and 1 for the answer, and the model reads {max_length}"
    return ""


def _scores(encoded: Encoded, logprobs: Mapping[int, float], top: int) -> Scores:
    own = np.array([logprobs[ids[0]] for ids in encoded.choices])
    # A token that spells two choices counts once.
    spelled = {token for tokens in encoded.spellings for token in tokens}
    return Scores(
        logprobs=own,
        tokens=[own[index : index + 1] for index in range(len(own))],
        greedy=np.array([ids[0] == top for ids in encoded.choices]),
        spelled=sum(math.exp(logprobs[token]) for token in sorted(spelled)),
        top=top,
        order=0,
    )


def check_installed() -> None:
    """Raise a `ScoringError` if vLLM is not installed."""
    with suppress(ValueError):  # a stand-in without a spec
        if find_spec("vllm") is not None:
            return
    raise ScoringError(
        "needed vLLM to generate answers or score letters with it: pip install vllm, or leave both to transformers"
    )


class Engines:
    """Engines of vLLM on one checkpoint, started at once, for prompts with their answers of up to `longest` tokens."""

    def __init__(
        self, model: str, *, tensor_parallel: int, data_parallel: int, trust_remote_code: bool, longest: int
    ) -> None:
        options = {
            "model": model,
            "seed": 0,
            # By default the longest text that the model can read: keys and values of 131,072 tokens fill a GPU.
            "max_model_len": longest,
            "tensor_parallel_size": tensor_parallel,
            "trust_remote_code": trust_remote_code,
        }
        self.longest = longest
        self._engine = _engine(options) if data_parallel == 1 else None
        self._others: list[tuple[Any, Connection]] = []
        spawning = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
        for gpus in _shares(tensor_parallel, data_parallel) if data_parallel > 1 else ():
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=_serve, args=(theirs, options, gpus))
            process.start()
            theirs.close()  # an end that stays open here would hide that the process is gone
            self._others.append((process, ours))

    def generate(self, prompts: Sequence[Ids], settings: Mapping[str, Any]) -> list[Answer]:
        """One answer to each prompt, in their order, with the settings of `vllm.SamplingParams`."""
        return self._run(_answers, prompts, [settings] * len(prompts))

    def next_tokens(self, prompts: Sequence[Ids], wanted: Sequence[Ids]) -> list[NextToken]:
        """Log-probabilities of the wanted tokens after each prompt, distinct and at most `MOST_LOGPROBS`, in order."""
        return self._run(_next_tokens, prompts, wanted)

    def _run(
        self, function: Callable[[Any, Sequence[Ids], Sequence[A]], list[T]], prompts: Sequence[Ids], given: Sequence[A]
    ) -> list[T]:
        """Results of a function of an engine, prompts, and what is given with each prompt."""
        if self._engine is not None:
            return function(self._engine, prompts, given)
        count = len(self._others)
        found: dict[int, T] = {}
        try:
            # All are sent before any is received, so that the engines work at the same time.
            for number, (_, pipe) in enumerate(self._others):
                pipe.send((function, list(prompts[number::count]), list(given[number::count])))
            for number, (_, pipe) in enumerate(self._others):
                found |= zip(range(number, len(prompts), count), pipe.recv(), strict=True)
        except (EOFError, OSError) as error:
            raise ScoringError(
                "an engine of vLLM ended before it had answered all prompts; its own messages give the reason"
            ) from error
        return [found[index] for index in range(len(prompts))]

    def close(self) -> None:
        """End the engines, and wait for their processes."""
        self._engine = None
        for _, pipe in self._others:
            pipe.close()
        for process, _ in self._others:
            process.join()
        self._others = []


def _shares(tensor_parallel: int, data_parallel: int) -> list[str]:
    """GPUs of each engine, as the value of CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = (
        list(map(str, range(torch.cuda.device_count()))) if visible is None else list(filter(None, visible.split(",")))
    )
    needed = tensor_parallel * data_parallel
    if len(gpus) < needed:
        raise ScoringError(
            f"{data_parallel} engines of vLLM on {tensor_parallel} GPUs each need {needed} GPUs, there are {len(gpus)}"
        )
    return [",".join(gpus[first : first + tensor_parallel]) for first in range(0, needed, tensor_parallel)]


def _serve(pipe: Connection, options: Mapping[str, Any], gpus: str) -> None:
    """Answer the prompts that come through the pipe, until its other end is closed."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    engine = _engine(options)
    while True:
        try:
            function, prompts, given = pipe.recv()
        except EOFError:
            return
        pipe.send(function(engine, prompts, given))


def _engine(options: Mapping[str, Any]) -> Any:
    from vllm import LLM

    return LLM(**options)


def _answers(engine: Any, prompts: Sequence[Ids], settings: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """One answer to each prompt; the settings of all are those of the first."""
    from vllm import SamplingParams

    if not prompts:
        return []
    found = engine.generate(_inputs(prompts), sampling_params=SamplingParams(**settings[0]), use_tqdm=False)
    outputs = [request.outputs[0] for request in found]
    return [(tuple(output.token_ids), output.finish_reason == "length") for output in outputs]


def _next_tokens(engine: Any, prompts: Sequence[Ids], wanted: Sequence[Ids]) -> list[NextToken]:
    from vllm import SamplingParams

    if not prompts:
        return []
    # At temperature 0 the one token that is generated is the most likely; its log-probability is returned as well.
    settings = [
        SamplingParams(n=1, temperature=0.0, max_tokens=1, logprob_token_ids=list(tokens), detokenize=False)
        for tokens in wanted
    ]
    found = engine.generate(_inputs(prompts), sampling_params=settings, use_tqdm=False)
    rows = []
    for request, tokens in zip(found, wanted, strict=True):
        output = request.outputs[0]
        at_answer = output.logprobs[0]
        rows.append(({token: float(at_answer[token].logprob) for token in tokens}, int(output.token_ids[0])))
    return rows


def _inputs(prompts: Sequence[Ids]) -> list[dict[str, list[int]]]:
    return [{"prompt_token_ids": list(prompt)} for prompt in prompts]


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
        """One answer to each prompt, in their order."""
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
        """The trainer's step, and that of the weights that it handed over last."""
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
    """Context after which adapters are unmerged and the weights below them have the bits that they had.

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
    """Values of a parameter in this process, which holds a part of it under FSDP."""
    data = parameter.detach()
    return getattr(data, "_local_tensor", data)
