"""Engines of vLLM on a checkpoint: one here, or several side by side, each in a process and on GPUs of its own.

    data_parallel=1                  prompts ──▶ engine (tensor_parallel GPUs)
    data_parallel=2              ┌── prompts 0, 2, ... ──▶ engine on GPUs 0, 1
    tensor_parallel=2   prompts ─┤
                                 └── prompts 1, 3, ... ──▶ engine on GPUs 2, 3

vLLM itself refuses `data_parallel_size` in one process. Engines that need not talk with each other are the same thing
for a model without experts, and need nothing of it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

import torch

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Ids

Answer = tuple[Ids, bool]
"""Token ids, and whether they were cut at their length."""


def check_installed() -> None:
    """Refuse to write with vLLM where it is not installed.

    Raises:
        ScoringError: If it is not.
    """
    try:
        found = find_spec("vllm")
    except ValueError:
        found = None
    if found is None:
        raise ScoringError("needed vLLM to write with it: pip install vllm, or let the model write itself")


class Engines:
    """Engines on one checkpoint; they start when they are made.

    Args:
        model: A checkpoint folder or model id.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines, each with the whole model, that share the prompts.
        trust_remote_code: Run code that comes with the model.

    Raises:
        ScoringError: If there are too few GPUs for several engines.
    """

    def __init__(self, model: str, *, tensor_parallel: int, data_parallel: int, trust_remote_code: bool) -> None:
        options = {
            "model": model,
            "seed": 0,
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
            theirs.close()  # else nobody would notice that the other end is gone
            self._others.append((process, ours))

    def write(self, prompts: Sequence[Ids], settings: Mapping[str, Any]) -> list[Answer]:
        """One answer behind each prompt, in their order, by the settings of `vllm.SamplingParams`.

        Raises:
            ScoringError: If an engine's process has ended.
        """
        if self._engine is not None:
            return _answers(self._engine, prompts, settings)
        count = len(self._others)
        found: dict[int, Answer] = {}
        try:
            for place, (_, pipe) in enumerate(self._others):
                pipe.send((list(prompts[place::count]), dict(settings)))
            for place, (_, pipe) in enumerate(self._others):
                found |= zip(range(place, len(prompts), count), pipe.recv(), strict=True)
        except (EOFError, OSError) as error:
            raise ScoringError("an engine of vLLM ended before it had written; its own messages say why") from error
        return [found[at] for at in range(len(prompts))]

    def close(self) -> None:
        """End the engines, and wait for their processes."""
        self._engine = None
        for _, pipe in self._others:
            pipe.close()
        for process, _ in self._others:
            process.join()
        self._others = []


def _shares(tensor_parallel: int, data_parallel: int) -> list[str]:
    """The GPUs of each engine, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = list(map(str, range(torch.cuda.device_count()))) if named is None else list(filter(None, named.split(",")))
    needed = tensor_parallel * data_parallel
    if len(gpus) < needed:
        raise ScoringError(
            f"{data_parallel} engines of vLLM on {tensor_parallel} GPUs each need {needed} GPUs, there are {len(gpus)}"
        )
    return [",".join(gpus[at : at + tensor_parallel]) for at in range(0, needed, tensor_parallel)]


def _serve(pipe: Connection, options: Mapping[str, Any], gpus: str) -> None:
    """Write what is asked through the pipe, until its other end is closed."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    engine = _engine(options)
    while True:
        try:
            prompts, settings = pipe.recv()
        except EOFError:
            return
        pipe.send(_answers(engine, prompts, settings))


def _engine(options: Mapping[str, Any]) -> Any:
    from vllm import LLM

    return LLM(**options)


def _answers(engine: Any, prompts: Sequence[Ids], settings: Mapping[str, Any]) -> list[Answer]:
    from vllm import SamplingParams

    asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
    found = engine.generate(asked, sampling_params=SamplingParams(**settings), use_tqdm=False) if asked else []
    outputs = [one.outputs[0] for one in found]
    return [(tuple(one.token_ids), one.finish_reason == "length") for one in outputs]
