"""A guard: stop a run that loses too much, and keep the checkpoint that learnt most for what it forgot.

``forgetwatch demo`` makes a small model and data; ``python examples/guard.py`` then runs as it is. For a model of yours
name --model, --data and --held-out (JSONL with a "text" in each line), ``--probe standard`` and ``--rate 2e-5``.

The run stops on an alarm, on a net loss whose whole interval is beyond 2 points at two looks in a row where there are
enough items for a loss of that size, and on any item with "must_pass" that was right and is wrong. The best checkpoint
is chosen by the harmonic mean of what is kept and the token accuracy on the held-out texts: the former alone would
choose the checkpoint that learnt least.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from datasets import load_dataset
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
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument(
        "--rate", type=float, default=1e-3, help="learning rate; for a pretrained model: 2e-5"
    )
    parser.add_argument("--output", default="runs/guard")
    parser.add_argument(
        "--held-out", help="texts that are not trained on; by default a tenth of the data"
    )
    parser.add_argument("--every", type=int, default=20, help="steps between two evaluations")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    data = load_dataset("json", data_files=given.data, split="train")
    if given.held_out is None:
        parts = data.train_test_split(0.1, seed=0)
        data, held_out = parts["train"], parts["test"]
    else:
        held_out = load_dataset("json", data_files=given.held_out, split="train")
    trainer = SFTTrainer(
        model=given.model,
        args=SFTConfig(
            output_dir=given.output,
            max_steps=given.steps,
            learning_rate=given.rate,
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
        train_dataset=data,
        eval_dataset=held_out,
        callbacks=[
            ForgetWatchCallback(
                given.probe, every="save", guard="stop", composite="mean_token_accuracy"
            )
        ],
    )
    trainer.train()
    print("best checkpoint:", trainer.state.best_model_checkpoint)
    subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", given.output, "--limit", "3"], check=True
    )


if __name__ == "__main__":
    main(options())
