"""Supervised fine-tuning: what does the model forget while it learns?

    python examples/sft.py --model Qwen/Qwen3-0.6B --data train.jsonl --output runs/sft

The data is JSONL with a "text", or a "prompt" and a "completion", in each line. Curves are under eval/forget in the
tracker, the looks in runs/sft/_forgetwatch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback

PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--report-to", default="none")
    given = parser.parse_args()
    trainer = SFTTrainer(
        model=given.model,
        args=SFTConfig(output_dir=given.output, max_steps=given.steps, bf16=False, report_to=given.report_to),
        train_dataset=load_dataset("json", data_files=given.data, split="train"),
        callbacks=[ForgetWatchCallback(PROBE)],
    )
    trainer.train()


if __name__ == "__main__":
    main()
