"""LoRA with TRL: what is forgotten, and how far does the adapter move the model from its base?

``forgetwatch demo`` makes a small model and data; ``python examples/lora.py`` then runs as it is. For a model of yours:

    python examples/lora.py --model Qwen/Qwen3-0.6B --data train.jsonl --probe standard --steps 300 --rate 2e-4

The data are JSONL with a "text" in each line. ``drift=True`` also measures the divergence from the base on texts that
the base generated itself (eval/forget/all/kl_training in a tracker).
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="forgetwatch-demo/base")
    parser.add_argument("--data", default="forgetwatch-demo/data/texts/train.jsonl")
    parser.add_argument(
        "--probe", default="demo", help="for a pretrained model: standard, or a file of your own"
    )
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument(
        "--rate", type=float, default=1e-2, help="learning rate; for a pretrained model: 2e-4"
    )
    parser.add_argument("--output", default="runs/lora")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    trainer = SFTTrainer(
        model=given.model,
        args=SFTConfig(
            output_dir=given.output,
            max_steps=given.steps,
            learning_rate=given.rate,
            save_steps=30,
            bf16=False,
            report_to="none",
        ),
        train_dataset=load_dataset("json", data_files=given.data, split="train"),
        peft_config=LoraConfig(r=16, target_modules="all-linear"),
        callbacks=[ForgetWatchCallback(given.probe, log="full", drift=True)],
    )
    trainer.train()
    subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", given.output, "--limit", "3"], check=True
    )


if __name__ == "__main__":
    main(options())
