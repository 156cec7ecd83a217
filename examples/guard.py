"""A guard: stop the run when it loses more than it may, and keep the checkpoint that retained most.

    python examples/guard.py --model Qwen/Qwen3-0.6B --data train.jsonl --held-out held_out.jsonl --output runs/guard

The run stops on an alarm of falling accuracy, on a net loss whose whole interval lies beyond 2 points at two looks in a
row, and on any item with "must_pass" that was right and is wrong. The best checkpoint is chosen by the harmonic mean of
retention and the accuracy on the new task: retention alone would choose the one that learnt least.
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
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=50)
    given = parser.parse_args()
    train, held_out = (load_dataset("json", data_files=path, split="train") for path in (given.data, given.held_out))
    trainer = SFTTrainer(
        model=given.model,
        args=SFTConfig(
            output_dir=given.output,
            max_steps=given.steps,
            eval_strategy="steps",
            eval_steps=given.every,
            save_strategy="steps",
            save_steps=given.every,
            metric_for_best_model="forget/all/composite",
            greater_is_better=True,
            load_best_model_at_end=True,
            bf16=False,
            report_to="none",
        ),
        train_dataset=train,
        eval_dataset=held_out,
        callbacks=[ForgetWatchCallback(PROBE, guard="stop", composite="mean_token_accuracy")],
    )
    trainer.train()
    print("best checkpoint:", trainer.state.best_model_checkpoint)


if __name__ == "__main__":
    main()
