"""Peak memory of a look with a vocabulary of 150,000 tokens, by token budget, and of the harness by batch size.

    python benchmarks/memory.py

Each figure is measured in a process of its own: the highest resident memory minus what was resident before the look.
A Qwen3 of 2 layers and width 256, 100 HellaSwag-shaped items.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

VOCABULARY = 150_000
CASES = [("ours", budget) for budget in (512, 1024, 2048, 4096, 8192)] + [
    ("harness", size) for size in (4, 16, 64)
]


def measure(engine: str, size: int) -> None:
    from harness import make_items, make_model, make_tokenizer
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from forgetwatch import Probe
    from forgetwatch.scoring.scorer import Scorer

    model, tokenizer = make_model(VOCABULARY, layers=2), make_tokenizer(VOCABULARY)
    items = make_items("HellaSwag, zero-shot", 100, VOCABULARY)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    if engine == "ours":
        Scorer(Probe(items), tokenizer, model, token_budget=size).score(model)
    else:
        asked = [
            Instance("loglikelihood", {}, (item.prompt, c), i)
            for i, item in enumerate(items)
            for c in item.choices
        ]
        HFLM(pretrained=model, tokenizer=tokenizer, batch_size=size, max_length=8192).loglikelihood(
            asked, True
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{(peak - before) / 2**20:.0f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        print("| engine | token budget / batch size | peak above the model, MiB |\n|---|---|---|")
        for engine, size in CASES:
            command = [sys.executable, __file__, engine, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"| {engine} | {size} | {done.stdout.split()[-1]} |", flush=True)
