"""Several engines in real processes, with a stand-in for vLLM, which itself has not been run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forgetwatch.errors import ScoringError
from forgetwatch.scoring import Engines

STAND_IN = """
import os
from types import SimpleNamespace

SamplingParams = dict


class LLM:
    def __init__(self, **options):
        self.gpus = [int(name) for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        assert len(self.gpus) == options["tensor_parallel_size"]

    def generate(self, prompts, *, sampling_params, use_tqdm):
        if isinstance(sampling_params, list):
            return [self.scored(*pair) for pair in zip(prompts, sampling_params, strict=True)]
        if sampling_params.get("fails"):
            os._exit(1)
        rows = [[*prompt["prompt_token_ids"], *self.gpus] for prompt in prompts]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=row, finish_reason="stop")]) for row in rows]

    def scored(self, prompt, settings):
        tokens = [*settings["logprob_token_ids"], self.gpus[0]]
        found = {token: SimpleNamespace(logprob=-float(token)) for token in tokens}
        output = SimpleNamespace(token_ids=[self.gpus[0]], logprobs=[found], finish_reason="length")
        return SimpleNamespace(outputs=[output])
"""


@pytest.fixture(autouse=True)
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")


def two_engines(tensor_parallel: int) -> Engines:
    return Engines("model", tensor_parallel=tensor_parallel, data_parallel=2, trust_remote_code=False, longest=9)


def test_engines_share_the_prompts_and_no_gpu() -> None:
    prompts = [(100 + at,) for at in range(5)]
    with closing(two_engines(2)) as engines:
        found = engines.generate(prompts, {})
        assert [tokens for tokens, _ in found] == [
            (*prompt, *((4, 5) if at % 2 == 0 else (6, 7))) for at, prompt in enumerate(prompts)
        ]
        assert [tokens for tokens, _ in engines.generate(prompts[:1], {})] == [(100, 4, 5)]  # none for the other


def test_engines_share_the_letters() -> None:
    prompts, wanted = [(100 + at,) for at in range(5)], [(10 + at, 20) for at in range(5)]
    with closing(two_engines(2)) as engines:
        assert engines.next_tokens(prompts, wanted) == [
            ({10 + at: -10.0 - at, 20: -20.0}, 4 if at % 2 == 0 else 6) for at in range(5)
        ]


def test_an_engine_that_dies_is_an_error_and_no_hang() -> None:
    dies = pytest.raises(ScoringError, match="ended before it had answered all prompts")
    with closing(two_engines(1)) as engines, dies:
        engines.generate([(1,), (2,)], {"fails": True})


def test_too_few_gpus_are_refused_before_anything_starts() -> None:
    with pytest.raises(ScoringError, match="2 engines of vLLM on 3 GPUs each need 6 GPUs, there are 4"):
        two_engines(3)
