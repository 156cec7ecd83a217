"""A guard: stop a run that loses too much, and keep the checkpoint that learnt most for what it forgot.

Set MODEL, DATA and HELD_OUT (JSONL with a "text" in each line), then run ``python examples/guard.py``. The run
stops on an alarm, on a net loss whose whole interval is beyond 2 points at two looks in a row where there are enough
items for a loss of that size, and on any item with "must_pass" that was right and is wrong. The
best checkpoint is chosen by the harmonic mean of retention and the token accuracy on HELD_OUT: retention alone would
choose the checkpoint that learnt least.

300 steps of the demo's model (two layers, width 128) took 150 s on two shared CPU cores.
"""

from __future__ import annotations

from pathlib import Path

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback

MODEL = "Qwen/Qwen3-0.6B"
DATA = "train.jsonl"
HELD_OUT = "held_out.jsonl"
OUTPUT = "runs/guard"
STEPS = 300
EVERY = 50
PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    trainer = SFTTrainer(
        model=MODEL,
        args=SFTConfig(
            output_dir=OUTPUT,
            max_steps=STEPS,
            eval_strategy="steps",
            eval_steps=EVERY,
            save_strategy="steps",
            save_steps=EVERY,
            metric_for_best_model="forget/all/composite",
            greater_is_better=True,
            load_best_model_at_end=True,
            bf16=False,
            report_to="none",
        ),
        train_dataset=load_dataset("json", data_files=DATA, split="train"),
        eval_dataset=load_dataset("json", data_files=HELD_OUT, split="train"),
        callbacks=[ForgetWatchCallback(PROBE, guard="stop", composite="mean_token_accuracy")],
    )
    trainer.train()
    print("best checkpoint:", trainer.state.best_model_checkpoint)


if __name__ == "__main__":
    main()
