"""Preference optimization with TRL's DPOTrainer: what do the preferences cost?

``forgetwatch demo`` makes a small model and data; ``python examples/dpo.py`` then runs as it is. For a model of yours:

    python examples/dpo.py --model Qwen/Qwen3-0.6B --data pairs.jsonl --probe standard --steps 300 --rate 1e-6

The data are JSONL with a "prompt", a "chosen" and a "rejected" answer in each line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

from forgetwatch import ForgetWatchCallback


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="forgetwatch-demo/base")
    parser.add_argument("--data", default="forgetwatch-demo/data/preferences/train.jsonl")
    parser.add_argument(
        "--probe", default="demo", help="for a pretrained model: standard, or a file of your own"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--rate", type=float, default=3e-4, help="learning rate; for a pretrained model: 1e-6"
    )
    parser.add_argument("--output", default="runs/dpo")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    trainer = DPOTrainer(
        model=given.model,
        args=DPOConfig(
            output_dir=given.output,
            max_steps=given.steps,
            learning_rate=given.rate,
            save_steps=30,
            bf16=False,
            report_to="none",
        ),
        train_dataset=load_dataset("json", data_files=given.data, split="train"),
        callbacks=[ForgetWatchCallback(given.probe)],
    )
    trainer.train()
    subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", given.output, "--limit", "3"], check=True
    )


if __name__ == "__main__":
    main(options())
