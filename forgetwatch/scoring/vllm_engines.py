"""Engines of vLLM on a checkpoint.

They are in this process, or several next to each other, each in a process and on GPUs of its own:

    data_parallel=1                  prompts ──▶ engine (tensor_parallel GPUs)
    data_parallel=2              ┌── prompts 0, 2, ... ──▶ engine on GPUs 0, 1
    tensor_parallel=2   prompts ─┤
                                 └── prompts 1, 3, ... ──▶ engine on GPUs 2, 3

vLLM itself refuses `data_parallel_size` in one process. Engines that do not communicate give the same for a model
without experts. vLLM is imported when an engine starts.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

import torch

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Ids

A = TypeVar("A")
T = TypeVar("T")

Answer = tuple[Ids, bool]
"""Token ids, and True if they were cut at their length."""

NextToken = tuple[dict[int, float], int]
"""Log-probability of each wanted token, nats, and the most likely token."""

MOST_LOGPROBS: Final = 128
"""Tokens whose log-probabilities vLLM 0.33 returns for one position."""


def check_installed() -> None:
    """Raise an error if vLLM is not installed.

    Raises:
        ScoringError: If it is not.
    """
    try:
        found = find_spec("vllm")
    except ValueError:  # a stand-in without a spec
        found = None
    if found is None:
        raise ScoringError(
            "needed vLLM to generate answers or score letters with it: pip install vllm, or leave both to transformers"
        )


class Engines:
    """Engines of vLLM on one checkpoint, started at once.

    Args:
        model: A checkpoint folder or model id.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines, each with the whole model, that share the prompts.
        trust_remote_code: Run code that comes with the model.
        longest: Tokens of the longest prompt with its answer.

    Raises:
        ScoringError: If there are too few GPUs for several engines.
    """

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
        """One answer to each prompt, in their order, with the settings of `vllm.SamplingParams`.

        Raises:
            ScoringError: If an engine's process has ended.
        """
        return self._run(_answers, prompts, [settings] * len(prompts))

    def next_tokens(self, prompts: Sequence[Ids], wanted: Sequence[Ids]) -> list[NextToken]:
        """Log-probabilities of the wanted tokens after each prompt, in their order.

        Raises:
            ScoringError: If an engine's process has ended.
        """
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
