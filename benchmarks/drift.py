"""Time of a look without drift, and with drift by each of its estimates.

    OMP_NUM_THREADS=1 python benchmarks/drift.py MODEL [--items 300] [--prompts 64] [--repeats 3] [--bf16]

MODEL is a checkpoint folder; it gets adapters, which are all that would be trained. Items of `standard` at equal
distances; as many prompts of them, and of sums, each with a completion of 32 tokens. The kinds of looks take turns in
one run; process time, one thread, the median of the repeats. The floor, KL(base||base) in other batches, comes last.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from peft import LoraConfig, get_peft_model

from forgetwatch.probes.named import load_probe
from forgetwatch.run.drift import read_under, sample_completions
from forgetwatch.run.drift_prompts import drift_prompts
from forgetwatch.scoring.model_loading import load_model
from forgetwatch.scoring.scorer import Scorer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--bf16", action="store_true", help="weights in bf16 instead of the checkpoint's dtype"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain, tokenizer = load_model(given.model)
    plain = plain.to(torch.bfloat16) if given.bf16 else plain
    model = get_peft_model(plain, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    whole = load_probe("standard")
    probe = replace(
        whole, items=tuple(whole[at * len(whole) // given.items] for at in range(given.items))
    )
    sums = [{"prompt": f"What is {n % 10} + {n // 10}?"} for n in range(given.prompts)]
    prompts = {
        name: some[: given.prompts]
        for name, some in drift_prompts(probe, sums, model, tokenizer).items()
    }
    scorer = Scorer(probe, tokenizer, model)
    scorer.score(model)  # decides the layout
    made = sample_completions(model, tokenizer, prompts)
    sampled_only = replace(made, top_ids=None, top_logprobs=None)
    kinds: dict[str, Callable[[], object]] = {
        "look without drift": lambda: scorer.score(model),
        "drift, sampled": lambda: read_under(
            plain, sampled_only
        ),  # without the switch of its adapters
        "drift, summed": lambda: read_under(plain, made),
        "drift, exact": lambda: read_under(model, made),
    }
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(given.repeats):
        for name, act in kinds.items():
            started = time.process_time()
            act()
            seconds[name].append(time.process_time() - started)
    look, *drifts = (statistics.median(times) for times in seconds.values())
    tokens = sum(
        len(prompt) + len(ids) - 1 for prompt, ids in zip(made.prompts, made.tokens, strict=True)
    )
    print(f"{given.items} items; {len(made)} completions, {tokens} tokens with their prompts")
    print(f"look without drift   {look:6.1f} s   1.00")
    for name, time_of in zip(list(kinds)[1:], drifts, strict=True):
        print(f"look with {name:17} {look + time_of:6.1f} s   {(look + time_of) / look:.2f}")
    for name, floor in made.floor.items():
        print(
            f"floor, {name}: sampled {floor.kl_sampled:.1e}, summed {floor.kl_summed:.1e} nats per token"
        )


if __name__ == "__main__":
    main()
