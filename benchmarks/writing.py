"""Generation of answers in batches, against one by one: the same greedy answers, in one run.

    OMP_NUM_THREADS=1 python benchmarks/writing.py [--items 64] [--tokens 32] [--repeats 3]

Process time on the CPU, one thread; both orders, the median of the repeats. A Qwen3 of 8 layers and width 256 with
random weights, and prompts of 20 to 80 words.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import make_model, make_tokenizer
from transformers import GenerationConfig

from forgetwatch.decoding import Decoding
from forgetwatch.scoring.generation import ModelGenerator


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = act()
    return found, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng, model, tokenizer = random.Random(1), make_model(8000), make_tokenizer(8000)
    prompts = [
        tuple(rng.randrange(10, 8000) for _ in range(rng.randint(20, 80)))
        for _ in range(given.items)
    ]
    decoding = Decoding(tokens=given.tokens)

    def batches() -> list[tuple[int, ...]]:
        return [
            one.tokens
            for one in ModelGenerator(model, tokenizer).generate(prompts, decoding, seed=0)
        ]

    def one_by_one() -> list[tuple[int, ...]]:
        config = GenerationConfig(
            do_sample=False, max_new_tokens=given.tokens, pad_token_id=0, eos_token_id=1
        )
        with torch.no_grad():
            written = [
                model.generate(
                    input_ids=torch.tensor([prompt]),
                    attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                    generation_config=config,
                )
                for prompt in prompts
            ]
        return [
            tuple(row[0, len(prompt) :].tolist())
            for row, prompt in zip(written, prompts, strict=True)
        ]

    ratios, seconds = [], []
    for repeat in range(given.repeats):
        order = (one_by_one, batches) if repeat % 2 else (batches, one_by_one)
        found = {act.__name__: timed(act) for act in order}
        same = sum(
            one == other
            for one, other in zip(found["batches"][0], found["one_by_one"][0], strict=True)
        )
        seconds.append((found["one_by_one"][1], found["batches"][1]))
        ratios.append(seconds[-1][0] / seconds[-1][1])
    alone, together = (statistics.median(side) for side in zip(*seconds, strict=True))
    print("| one by one s | batches s | ratio | equal answers |\n|---|---|---|---|")
    print(
        f"| {alone:.1f} | {together:.1f} | {statistics.median(ratios):.1f} | {same} of {given.items} |"
    )


if __name__ == "__main__":
    main()
