"""The same items with lm-evaluation-harness's own model class in memory and with ours: agreement and ratio of times.

    OMP_NUM_THREADS=1 python benchmarks/harness.py [--vocabulary 8000,32000] [--items 100] [--repeats 5]
        [--against CHECKOUT]

Process time on the CPU, one thread, tokenization included on both sides; in changing order, the median of the repeats.
`--against` names another checkout of this repository, whose scorer is timed in the same run. Each side has a process of
its own, and one works at a time. A Qwen3 of 8 layers and width 256 with random weights; items of random words, shaped
like the benchmarks that they are named after.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from workloads import word_tokenizer as make_tokenizer

from forgetwatch import Item, Probe, score

WANTED = {
    "ARC, zero-shot": 2.2,
    "HellaSwag, zero-shot": 2.0,
    "letters, zero-shot": 1.3,
    "letters, five-shot": 4.0,
    "ARC, ten-shot": 15.0,
}


def make_model(vocabulary: int, *, dtype: torch.dtype = torch.float32, layers: int = 8) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=8192,
    )
    return Qwen3ForCausalLM(config).to(dtype).eval()


def make_items(kind: str, count: int, vocabulary: int) -> list[Item]:
    rng = random.Random(1)

    def words(low: int, high: int) -> str:
        return " ".join(f"w{rng.randrange(vocabulary - 20)}" for _ in range(rng.randint(low, high)))

    def question(low: int, high: int) -> str:
        return f"w0 : {words(low, high)}"

    def options() -> str:
        return " ".join(f"{letter} . {words(3, 12)}" for letter in "ABCD")

    shape, shots = kind.split(", ")
    number = {"zero-shot": 0, "five-shot": 5, "ten-shot": 10}[shots]
    if shape == "letters":
        prefix = "".join(
            f"{question(15, 45)} {options()} w1 : {rng.choice('ABCD')} w2 " for _ in range(number)
        )
        made = [
            (f"{prefix}{question(15, 45)} {options()} w1 :", tuple(f" {x}" for x in "ABCD"))
            for _ in range(count)
        ]
    elif shape == "ARC":
        prefix = "".join(f"{question(15, 35)} w1 : {words(2, 8)} w2 " for _ in range(number))
        made = [
            (f"{prefix}{question(15, 35)} w1 :", tuple(f" {words(2, 8)}" for _ in range(4)))
            for _ in range(count)
        ]
    else:
        made = [
            (question(30, 70), tuple(f" {words(15, 35)}" for _ in range(4))) for _ in range(count)
        ]
    return [
        Item(id=str(i), task="t", category="c", prompt=prompt, choices=choices, answer=i % 4)
        for i, (prompt, choices) in enumerate(made)
    ]


def harness(model: Any, tokenizer: Any, items: Sequence[Item]) -> tuple[np.ndarray, float]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    engine = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16, max_length=8192)
    requests = [
        Instance("loglikelihood", {}, (item.prompt, choice), i)
        for i, item in enumerate(items)
        for choice in item.choices
    ]
    started = time.process_time()
    found = engine.loglikelihood(requests, disable_tqdm=True)
    return np.array([one[0] for one in found]).reshape(
        len(items), -1
    ), time.process_time() - started


def ours(model: Any, tokenizer: Any, items: Sequence[Item]) -> tuple[np.ndarray, float]:
    started = time.process_time()
    snapshot = score(model, tokenizer, Probe(items))
    seconds = time.process_time() - started
    return np.array(snapshot.table["choice_logprobs"].to_pylist()), seconds


def work() -> None:
    """Answer each line on stdin (side, workload, items, vocabulary) by a line with log-likelihoods and seconds."""
    torch.set_num_threads(1)
    made: tuple[Any, ...] = ()
    for line in sys.stdin:
        side, kind, count, size = json.loads(line)
        if made[:1] != (size,):
            made = (size, make_model(size), make_tokenizer(size))
        found, seconds = (harness if side == "harness" else ours)(
            *made[1:], make_items(kind, count, size)
        )
        print(json.dumps([found.tolist(), seconds]), flush=True)


class Side:
    """A process that scores with the package of one checkout, or with the harness."""

    def __init__(self, name: str, checkout: Path) -> None:
        self.name = name
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, "--worker"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def score(self, kind: str, count: int, size: int) -> tuple[np.ndarray, float]:
        """Log-likelihoods [items, choices] and seconds of process time."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([self.name, kind, count, size]) + "\n")
        self._process.stdin.flush()
        # A library may print lines of its own.
        line = next(line for line in self._process.stdout if line.startswith("[["))
        found, seconds = json.loads(line)
        return np.array(found), seconds

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", default="8000,32000")
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--harness-repeats", type=int, help="of the slower side; by default --repeats"
    )
    parser.add_argument("--only", default="", help="the workloads whose name contains this")
    parser.add_argument("--against", type=Path, help="another checkout, timed too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return
    here = Path(__file__).resolve().parents[1]
    sides = [
        Side("harness", here),
        *([Side("before", given.against)] if given.against else []),
        Side("ours", here),
    ]
    names = [side.name for side in sides]
    columns = [f"{name} s" for name in names] + [f"ratio {name}" for name in names[1:]]
    table = Table("items", "vocabulary", *columns, "wanted", "largest difference, nats")
    console = Console(width=140, highlight=False)
    for size in map(int, given.vocabulary.split(",")):
        for kind, wanted in WANTED.items():
            if given.only not in kind:
                continue
            seconds: dict[str, list[float]] = {name: [] for name in names}
            scored: dict[str, np.ndarray] = {}
            for repeat in range(given.repeats):
                # Reversed in every second repeat: a machine that slows down must not favour a side.
                for side in sides[:: -1 if repeat % 2 else 1]:
                    if side.name != "harness" or repeat < (given.harness_repeats or given.repeats):
                        scored[side.name], took = side.score(kind, given.items, size)
                        seconds[side.name].append(took)
            differ = float(np.abs(scored["harness"] - scored["ours"]).max())
            middle = {name: statistics.median(seconds[name]) for name in names}
            row = [f"{middle[name]:.2f}" for name in names]
            row += [f"{middle['harness'] / middle[name]:.1f}" for name in names[1:]]
            table.add_row(kind, f"{size:,}", *row, f"{wanted}", f"{differ:.0e}")
            console.print(kind, size, *row, f"{differ:.0e}")
    console.print(table)
    for side in sides:
        side.close()


if __name__ == "__main__":
    main()
