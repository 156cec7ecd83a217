"""Rate of choices in bf16 that differ from fp32: the harness's model class and ours, on the same model and items.

    OMP_NUM_THREADS=2 python benchmarks/precision.py [--items 300]

A Qwen3 of 8 layers and width 256 with random weights. "unlike": four endings of about twelve tokens that differ in
several. "one apart": four endings of twelve tokens that differ in one, in the middle.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import numpy as np
from harness import harness, make_model, make_tokenizer, ours
from rich.console import Console

from forgetwatch import Item

VOCABULARY = 8000


def endings(kind: str, count: int) -> list[Item]:
    rng = random.Random(4)

    def words(number: int) -> list[str]:
        return [f"w{rng.randrange(VOCABULARY - 20)}" for _ in range(number)]

    made = []
    for i in range(count):
        first = words(rng.randint(11, 13))
        if kind == "one apart":
            choices = [[*first[:6], *words(1), *first[7:]] for _ in range(4)]
        else:
            choices = [words(rng.randint(11, 13)) for _ in range(4)]
        made.append(
            Item(
                id=str(i),
                task="t",
                prompt="w0 : " + " ".join(words(rng.randint(30, 60))),
                choices=[" " + " ".join(choice) for choice in choices],
                answer=0,
            )
        )
    return made


def choices(logprobs: np.ndarray) -> np.ndarray:
    """The first of the largest, as both sides decide."""
    return logprobs.argmax(axis=1)


def ties(logprobs: np.ndarray) -> float:
    ordered = np.sort(logprobs, axis=1)
    return float(np.mean(ordered[:, -1] == ordered[:, -2]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=300)
    count = parser.parse_args(arguments).items
    import torch

    full, tokenizer = make_model(VOCABULARY), make_tokenizer(VOCABULARY)
    half = make_model(VOCABULARY, dtype=torch.bfloat16)
    full.load_state_dict(
        {name: weight.float() for name, weight in half.state_dict().items()}
    )  # the same weights
    console = Console(width=110)
    console.print(
        "| endings | engine | choices of bf16 that are not those of fp32 | ties at the top |"
    )
    console.print("|---|---|---|---|")
    for kind in ("unlike", "one apart"):
        items = endings(kind, count)
        exact = choices(ours(full, tokenizer, items)[0])
        for name, engine in (("harness", harness), ("ours", ours)):
            found = engine(half, tokenizer, items)[0]
            other = 100 * np.mean(choices(found) != exact)
            console.print(f"| {kind} | {name} | {other:.1f} % | {100 * ties(found):.1f} % |")


if __name__ == "__main__":
    main()
