"""The same items with lm-evaluation-harness's own model class in memory and with ours: agreement and ratio of times.

    OMP_NUM_THREADS=1 python tests/bench/harness.py [--vocabulary 8000,32000] [--items 100] [--repeats 5]

Process time on the CPU, one thread, tokenization included on both sides; both orders, the median of the repeats. A
Qwen3 of 8 layers and width 256 with random weights; items of random words, shaped like the benchmarks that they are
named after.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from forgetwatch import Item, Probe, score

WANTED = {
    "ARC, zero-shot": 2.2,
    "HellaSwag, zero-shot": 2.0,
    "letters, zero-shot": 1.3,
    "letters, five-shot": 4.0,
    "ARC, ten-shot": 15.0,
}


def make_tokenizer(vocabulary: int) -> Any:
    """One token a word, a space before it or not; so that lengths are what they are meant to be."""
    words = ["<pad>", "<eos>", "<unk>", "<bos>", "\n", *"ABCD", ".", ":"]
    words += [f"w{i}" for i in range(vocabulary - len(words))]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>", bos_token="<bos>"
    )


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
        prefix = "".join(f"{question(15, 45)} {options()} w1 : {rng.choice('ABCD')} w2 " for _ in range(number))
        made = [(f"{prefix}{question(15, 45)} {options()} w1 :", tuple(f" {x}" for x in "ABCD")) for _ in range(count)]
    elif shape == "ARC":
        prefix = "".join(f"{question(15, 35)} w1 : {words(2, 8)} w2 " for _ in range(number))
        made = [(f"{prefix}{question(15, 35)} w1 :", tuple(f" {words(2, 8)}" for _ in range(4))) for _ in range(count)]
    else:
        made = [(question(30, 70), tuple(f" {words(15, 35)}" for _ in range(4))) for _ in range(count)]
    return [
        Item(id=str(i), task="t", category="c", prompt=prompt, choices=choices, answer=i % 4)
        for i, (prompt, choices) in enumerate(made)
    ]


def harness(model: Any, tokenizer: Any, items: Sequence[Item]) -> tuple[np.ndarray, float]:
    engine = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16, max_length=8192)
    requests = [
        Instance("loglikelihood", {}, (item.prompt, choice), i)
        for i, item in enumerate(items)
        for choice in item.choices
    ]
    started = time.process_time()
    found = engine.loglikelihood(requests, disable_tqdm=True)
    return np.array([one[0] for one in found]).reshape(len(items), -1), time.process_time() - started


def ours(model: Any, tokenizer: Any, items: Sequence[Item]) -> tuple[np.ndarray, float]:
    started = time.process_time()
    snapshot = score(model, tokenizer, Probe(items))
    seconds = time.process_time() - started
    return np.array(snapshot.table["choice_logprobs"].to_pylist()), seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", default="8000,32000")
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="the workloads whose name contains this")
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("items", "vocabulary", "harness s", "ours s", "ratio", "wanted", "largest difference, nats")
    console = Console(width=120)
    for size in map(int, given.vocabulary.split(",")):
        model, tokenizer = make_model(size), make_tokenizer(size)
        for kind, wanted in WANTED.items():
            if given.only not in kind:
                continue
            items = make_items(kind, given.items, size)
            pairs, differ = [], 0.0
            for repeat in range(given.repeats):
                if repeat % 2:
                    (b, tb), (a, ta) = ours(model, tokenizer, items), harness(model, tokenizer, items)
                else:
                    (a, ta), (b, tb) = harness(model, tokenizer, items), ours(model, tokenizer, items)
                pairs.append((ta, tb))
                differ = max(differ, float(np.abs(a - b).max()))
            ratio = statistics.median(a / b for a, b in pairs)
            seconds = [statistics.median(side) for side in zip(*pairs, strict=True)]
            row = (f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"{ratio:.1f}", f"{wanted}", f"{differ:.0e}")
            table.add_row(kind, f"{size:,}", *row)
            console.print(kind, size, *row)
    console.print(table)


if __name__ == "__main__":
    main()
