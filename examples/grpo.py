"""Reinforcement learning: does it forget less than fine-tuning does?

    python examples/grpo.py --model Qwen/Qwen3-0.6B --data prompts.jsonl --output runs/grpo

The data is JSONL with a "prompt" in each line. Each look is also compared with the one before, so that one sees when
something was lost and not only that it was: eval/forget_previous.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

from forgetwatch import ForgetWatchCallback

PROBE = Path(__file__).parent / "probe.jsonl"


def brevity(completions: list[str], **kwargs: object) -> list[float]:
    """A reward for short answers; put your own here."""
    return [-len(completion) / 100 for completion in completions]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    trainer = GRPOTrainer(
        model=given.model,
        reward_funcs=brevity,
        args=GRPOConfig(
            output_dir=given.output,
            max_steps=given.steps,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=given.tokens,
            bf16=False,
            report_to="none",
        ),
        train_dataset=load_dataset("json", data_files=given.data, split="train"),
        callbacks=[ForgetWatchCallback(PROBE, against={"previous": "previous"})],
    )
    trainer.train()


if __name__ == "__main__":
    main()
