"""Regression items with a judge of your own: any outcome per question can be compared.

``forgetwatch demo`` makes two models; ``python examples/own_judge.py`` then runs as it is. Replace `ITEMS` and `judge`,
and name --before and --after (model ids or checkpoint folders). Each model answers every item; `judge` returns right,
wrong, or None where it cannot decide (the item is unscored). The outcomes are two JSONL tables in the output folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import load_probe

ITEMS = [
    {
        "item_id": item.id,
        "category": item.category,
        "question": item.prompt,
        "wanted": item.choices[item.answers[0]],
    }
    for item in load_probe("demo").items[::6]
]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", default="forgetwatch-demo/base")
    parser.add_argument("--after", default="forgetwatch-demo/run/checkpoint-180")
    parser.add_argument("--tokens", type=int, default=4, help="tokens of an answer")
    parser.add_argument("--output", default="runs/judge")
    return parser.parse_args()


def judge(item: dict[str, Any], output: str) -> bool | None:
    """Right, wrong, or None; replace it by your own."""
    return item["wanted"].strip() in output.split() if output.strip() else None


def write_outcomes(name: str, path: Path, *, tokens: int) -> Path:
    """Write a table of one model's outcomes and return its path."""
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(name).eval(),
        AutoTokenizer.from_pretrained(name),
    )
    rows = []
    for item in ITEMS:
        ids = tokenizer(item["question"], return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            answer = model.generate(**ids, max_new_tokens=tokens, do_sample=False)[
                0, ids["input_ids"].shape[1] :
            ]
        output = tokenizer.decode(answer, skip_special_tokens=True)
        rows.append({**item, "correct": judge(item, output), "output": output})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main(given: argparse.Namespace) -> None:
    before = write_outcomes(given.before, Path(given.output, "before.jsonl"), tokens=given.tokens)
    after = write_outcomes(given.after, Path(given.output, "after.jsonl"), tokens=given.tokens)
    subprocess.run([sys.executable, "-m", "forgetwatch", "compare", before, after], check=True)
    subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", before, after, "--limit", "3"], check=True
    )


if __name__ == "__main__":
    main(options())
