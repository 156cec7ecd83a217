"""Throughput of a look on a GPU: a randomly initialised model of 7B shape in bf16. Not yet run on one.

    python tests/bench/gpu.py                    needs a CUDA device with 40 GB
    python tests/bench/gpu.py --tiny             the same code on a small model, on any device: a smoke test

Tokens per second, their share of the ceiling that a large matrix product reaches on the same device, peak memory, and
the ratio to the harness's own model class with batch_size="auto".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import make_items, make_tokenizer
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import LlamaConfig, LlamaForCausalLM

from forgetwatch import Probe
from forgetwatch.scoring.scorer import Scorer

LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32}
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}


def timed(act: Callable[[], Any], device: str) -> tuple[Any, float]:
    """The result, and wall seconds with the device idle at both ends."""
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    found = act()
    if device == "cuda":
        torch.cuda.synchronize()
    return found, time.perf_counter() - started


def ceiling(device: str, dtype: torch.dtype, size: int) -> float:
    """Floating-point operations per second of a large matrix product."""
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    timed(lambda: one @ other, device)
    _, seconds = timed(lambda: [one @ other for _ in range(20)], device)
    return 20 * 2 * size**3 / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--items", type=int, default=500)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocabulary = 2000 if given.tiny else 128_000
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    tokenizer = make_tokenizer(vocabulary)
    torch.manual_seed(0)
    shape = TINY if given.tiny else LARGE
    config = LlamaConfig(vocab_size=vocabulary, num_key_value_heads=shape["num_attention_heads"] // 4, **shape)
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype).eval()
    body = sum(p.numel() for name, p in model.named_parameters() if "embed" not in name and "lm_head" not in name)
    most = ceiling(device, dtype, 512 if given.tiny else 8192)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, {dtype}, {body / 1e9:.2f}B weights in layers, matrix product {most / 1e12:.3g} TFLOP/s")
    print(
        "| items | tokens/s | of the ceiling | peak GiB | harness s | ours s | ratio |\n|---|---|---|---|---|---|---|"
    )
    for kind in ("letters, five-shot", "HellaSwag, zero-shot", "ARC, ten-shot"):
        items = make_items(kind, given.items, vocabulary)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        scorer = Scorer(Probe(items), tokenizer, model)
        scorer.score(model)  # the layout is chosen; kernels are warm
        _, seconds = timed(lambda scorer=scorer: scorer.score(model), device)
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
        tokens = scorer.engine.tokens
        asked = [Instance("loglikelihood", {}, (i.prompt, c), n) for n, i in enumerate(items) for c in i.choices]
        harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size="auto", max_length=8192)
        _, theirs = timed(lambda harness=harness, asked=asked: harness.loglikelihood(asked, disable_tqdm=True), device)
        share = 2 * body * tokens / seconds / most
        print(
            f"| {kind} | {tokens / seconds:,.0f} | {100 * share:.0f} % | {peak:.1f} | {theirs:.1f} | {seconds:.1f} | "
            f"{theirs / seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
