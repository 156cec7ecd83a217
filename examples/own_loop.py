"""A training loop of your own: `Watch.look` at any step, a comparison with the baseline back.

Set MODEL and DATA (JSONL with a "text" in each line), then run ``python examples/own_loop.py``.

100 steps of the demo's model (two layers, width 128) took 9 s on two shared CPU cores.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Watch

MODEL = "Qwen/Qwen3-0.6B"
DATA = "train.jsonl"
OUTPUT = "runs/loop"
STEPS = 100
PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)
    texts = [json.loads(line)["text"] for line in Path(DATA).read_text(encoding="utf-8").splitlines()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    watch = Watch(PROBE, OUTPUT)
    watch.look(model, tokenizer, step=0)  # the baseline
    for step in range(1, STEPS + 1):
        batch = tokenizer(texts[step % len(texts)], return_tensors="pt", truncation=True, max_length=512)
        model.train()
        model(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == STEPS:
            print(watch.look(model, tokenizer, step=step))  # the model's mode and all random states are restored
    for alarm in watch.trajectory().alarms():
        print(alarm)


if __name__ == "__main__":
    main()
