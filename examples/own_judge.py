"""Regression items with a judge of your own: any outcome per question can be compared.

Set BEFORE and AFTER (model ids or checkpoint folders), then run ``python examples/own_judge.py``. Each model
answers every item; `judge` returns right, wrong, or None where it cannot decide (the item is unscored). The
outcomes are two JSONL tables in OUTPUT; ``forgetwatch compare before.jsonl after.jsonl`` shows the same comparison
in a shell.

Two scorings with the demo's model (two layers, width 128) took 34 s on two shared CPU cores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import compare

BEFORE = "Qwen/Qwen3-0.6B"
AFTER = "runs/sft/checkpoint-300"
OUTPUT = "runs/regression"
TOKENS = 64
ITEMS = [
    {"item_id": "refund", "task": "support", "prompt": "How many days does a customer have to return a jacket?"},
    {"item_id": "greeting", "task": "tone", "prompt": "Greet a customer whose order came late."},
    {"item_id": "json", "task": "format", "prompt": 'Answer with JSON only: {"city": ...} for the capital of Chile.'},
]


def judge(item: dict[str, Any], output: str) -> bool | None:
    """Right, wrong, or None; replace it by your own."""
    if not output.strip():
        return None
    if item["task"] == "format":
        try:
            return bool(json.loads(output).get("city") == "Santiago")
        except (ValueError, AttributeError):
            return False
    return ("30" in output) if item["task"] == "support" else ("sorry" in output.lower())


def write_outcomes(name: str, path: Path) -> Path:
    """Write a table of one model's outcomes and return its path."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name)
    rows = []
    for item in ITEMS:
        ids = tokenizer(item["prompt"], return_tensors="pt")
        with torch.no_grad():
            answer = model.generate(**ids, max_new_tokens=TOKENS, do_sample=False)[0, ids["input_ids"].shape[1] :]
        output = tokenizer.decode(answer, skip_special_tokens=True)
        rows.append(
            {"item_id": item["item_id"], "task": item["task"], "correct": judge(item, output), "output": output}
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main() -> None:
    before = write_outcomes(BEFORE, Path(OUTPUT, "before.jsonl"))
    after = write_outcomes(AFTER, Path(OUTPUT, "after.jsonl"))
    comparison = compare(before=before, after=after)
    print(comparison)
    for name, group in comparison.by("task").items():
        print(f"  {name}: {group.forgotten:g} forgotten, {group.gained:g} gained of {group.n:g}")


if __name__ == "__main__":
    main()
