"""Reinforcement learning with TRL's GRPOTrainer: what is forgotten, and between which two looks?

Set MODEL and DATA (JSONL with a "prompt" in each line), then run ``python examples/grpo.py``. Each look is compared
with the baseline and with the look before it; the second comparison is under eval/forget_previous in a tracker.

2 steps of a random two-layer model, 6 tokens per answer, took 3 s on two shared CPU cores, imports not counted.
"""

from __future__ import annotations

from pathlib import Path

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

from forgetwatch import ForgetWatchCallback

MODEL = "Qwen/Qwen3-0.6B"
DATA = "prompts.jsonl"
OUTPUT = "runs/grpo"
STEPS = 100
TOKENS = 64
PROBE = Path(__file__).parent / "probe.jsonl"


def brevity(completions: list[str], **kwargs: object) -> list[float]:
    """Reward for short answers; replace it by your own."""
    return [-len(completion) / 100 for completion in completions]


def main() -> None:
    trainer = GRPOTrainer(
        model=MODEL,
        reward_funcs=brevity,
        args=GRPOConfig(
            output_dir=OUTPUT,
            max_steps=STEPS,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=TOKENS,
            bf16=False,
            report_to="none",
        ),
        train_dataset=load_dataset("json", data_files=DATA, split="train"),
        callbacks=[ForgetWatchCallback(PROBE, against={"previous": "previous"})],
    )
    trainer.train()


if __name__ == "__main__":
    main()
