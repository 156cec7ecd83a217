"""A training loop of your own: `Watch.look` at any step, a comparison with the baseline back.

``forgetwatch demo`` makes a small model and data; ``python examples/own_loop.py`` then runs as it is. For a model of
yours name --model, --data (JSONL with a "text" in each line), ``--probe quick`` and ``--rate 1e-5``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Watch


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="forgetwatch-demo/base")
    parser.add_argument("--data", default="forgetwatch-demo/data/texts/train.jsonl")
    parser.add_argument(
        "--probe", default="demo", help="for a pretrained model: standard, or a file of your own"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--rate", type=float, default=3e-4, help="learning rate; for a pretrained model: 1e-5"
    )
    parser.add_argument("--output", default="runs/loop")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(given.model),
        AutoTokenizer.from_pretrained(given.model),
    )
    texts = [
        json.loads(line)["text"]
        for line in Path(given.data).read_text(encoding="utf-8").splitlines()
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate)

    watch = Watch(given.probe, given.output)
    watch.look(model, tokenizer, step=0)  # the baseline
    for step in range(1, given.steps + 1):
        batch = tokenizer(
            texts[step % len(texts)], return_tensors="pt", truncation=True, max_length=512
        )
        model.train()
        model(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step == given.steps:
            print(
                watch.look(model, tokenizer, step=step)
            )  # the model's mode and all random states are restored
    for alarm in watch.trajectory().alarms():
        print(alarm)
    subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", given.output, "--limit", "3"], check=True
    )


if __name__ == "__main__":
    main(options())
