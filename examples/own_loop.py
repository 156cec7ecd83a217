"""A training loop of your own: look whenever you like.

python examples/own_loop.py --model Qwen/Qwen3-0.6B --data train.jsonl --output runs/loop
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Watch

PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    model, tokenizer = AutoModelForCausalLM.from_pretrained(given.model), AutoTokenizer.from_pretrained(given.model)
    texts = [json.loads(line)["text"] for line in Path(given.data).read_text(encoding="utf-8").splitlines()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    watch = Watch(PROBE, given.output)
    watch.look(model, tokenizer, step=0)  # the baseline
    for step in range(1, given.steps + 1):
        batch = tokenizer(texts[step % len(texts)], return_tensors="pt", truncation=True, max_length=512)
        model.train()
        model(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == given.steps:
            print(watch.look(model, tokenizer, step=step))  # the model comes back as it was
    for alarm in watch.trajectory().alarms():
        print(alarm)


if __name__ == "__main__":
    main()
