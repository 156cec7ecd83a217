"""Regression items of your own with a judge of your own: any outcome per question can be compared.

    python examples/own_judge.py --before Qwen/Qwen3-0.6B --after runs/sft/checkpoint-300 --output runs/regression

Each model answers every item; the judge says right, wrong, or None where it cannot say (the item is then unscored, and
counted as such). The tables are JSONL; `forgetwatch compare before.jsonl after.jsonl` shows the same from the shell.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import compare

ITEMS = [
    {"item_id": "refund", "task": "support", "prompt": "How many days does a customer have to return a jacket?"},
    {"item_id": "greeting", "task": "tone", "prompt": "Greet a customer whose order came late."},
    {"item_id": "json", "task": "format", "prompt": 'Answer with JSON only: {"city": ...} for the capital of Chile.'},
]


def judge(item: dict[str, Any], output: str) -> bool | None:
    """Right, wrong, or None: put your own here."""
    if not output.strip():
        return None
    if item["task"] == "format":
        try:
            return bool(json.loads(output).get("city") == "Santiago")
        except (ValueError, AttributeError):
            return False
    return ("30" in output) if item["task"] == "support" else ("sorry" in output.lower())


def answers(name: str, path: Path, tokens: int) -> Path:
    """A table of one model's outcomes."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name)
    rows = []
    for item in ITEMS:
        ids = tokenizer(item["prompt"], return_tensors="pt")
        with torch.no_grad():
            written = model.generate(**ids, max_new_tokens=tokens, do_sample=False)[0, ids["input_ids"].shape[1] :]
        output = tokenizer.decode(written, skip_special_tokens=True)
        rows.append(
            {"item_id": item["item_id"], "task": item["task"], "correct": judge(item, output), "output": output}
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    folder = Path(given.output)
    tables = [answers(getattr(given, side), folder / f"{side}.jsonl", given.tokens) for side in ("before", "after")]
    comparison = compare(before=tables[0], after=tables[1])
    print(comparison)
    for name, group in comparison.by("task").items():
        print(f"  {name}: {group.forgotten:g} forgotten, {group.gained:g} gained of {group.n:g}")


if __name__ == "__main__":
    main()
