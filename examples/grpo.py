"""Reinforcement learning with TRL's GRPOTrainer: what is forgotten, and what the reward gains?

``forgetwatch demo`` makes a small model and data; ``python examples/grpo.py`` then runs as it is. For a model of yours:

    python examples/grpo.py --model Qwen/Qwen3-0.6B --data prompts.jsonl --probe standard --rate 1e-6 --tokens 64

The data are JSONL with "prompt" and "chosen", the right answer, in each line. The reward for the right word rises in a
few seconds, since the demo's model has learned other words. It stands beside the losses, in the table and in a tracker
(eval/forget/new_task_reward).
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

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
    parser.add_argument("--output", default="runs/grpo")
    parser.add_argument("--tokens", type=int, default=2, help="tokens of an answer")
    return parser.parse_args()


def right_word(completions: list[str], chosen: list[str], **kwargs: object) -> list[float]:
    """Reward for answers that begin with the right word; replace it by your own."""
    return [
        float(own.split()[:1] == right.split()[:1])
        for own, right in zip(completions, chosen, strict=True)
    ]


def main(given: argparse.Namespace) -> None:
    trainer = GRPOTrainer(
        model=given.model,
        reward_funcs=right_word,
        args=GRPOConfig(
            output_dir=given.output,
            max_steps=given.steps,
            learning_rate=given.rate,
            num_generations=8,
            per_device_train_batch_size=64,
            temperature=2.0,  # the demo's model is sure of its answers; 1.0 for a pretrained one
            logging_steps=10,
            max_completion_length=given.tokens,
            save_steps=10,
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
