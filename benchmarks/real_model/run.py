"""One run of a real model with the callback at its defaults, and how long each part took.

    python benchmarks/real_model/run.py MODEL OUT [--texts destroy] [--steps 200] [--rate 3e-4] [--report-to wandb]

With --rate 0 nothing is learned, and every curve has to be flat. About 15 minutes for 200 steps of a 135M model on two
cores. `python tests/real_model/plain.py OUT` counts again from the checkpoints that it saves.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import texts
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback


class Clock(TrainerCallback):
    """Seconds from the start of the training to its first step and to its end."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self.began = time.perf_counter()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Take the time of the first step."""
        self.seconds.setdefault("to the first step", time.perf_counter() - self.began)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Take the time of the end."""
        self.seconds["to the end"] = time.perf_counter() - self.began


def main() -> None:
    """Train, and print the seconds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", default="destroy", choices=("destroy", "narrow"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--report-to", default="tensorboard", help="trackers, separated by commas")
    given = parser.parse_args()
    rows = getattr(texts, given.texts)(400, np.random.default_rng(20261122))
    data = Dataset.from_list(
        [{"prompt": prompt, "completion": completion} for prompt, completion in rows]
    )
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    watch, clock = ForgetWatchCallback(), Clock()
    trainer = SFTTrainer(
        AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32),
        SFTConfig(
            str(given.out),
            max_steps=given.steps,
            per_device_train_batch_size=4,
            learning_rate=given.rate,
            save_steps=max(1, given.steps // 2),
            save_only_model=True,
            logging_steps=10,
            report_to=given.report_to.split(","),
            disable_tqdm=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[clock, watch],
    )
    trainer.train()
    looks = (
        {}
        if watch.watch is None
        else {str(step): round(took, 1) for step, took in watch.watch.run.looks.seconds.items()}
    )
    print(
        json.dumps(
            {**{name: round(took, 1) for name, took in clock.seconds.items()}, "looks": looks}
        )
    )


if __name__ == "__main__":
    main()
