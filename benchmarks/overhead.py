"""Time that the looks add to a run, with the default budget and with all items at every look.

    OMP_NUM_THREADS=1 python benchmarks/overhead.py [--steps 180] [--items 360] [--repeats 3]

The demo's own model and questions, repeated to as many items; the same training without the callback, with the default
budget and without one, in turn, in one run. Process time of `train()`, one thread; the median of the repeats.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from dataclasses import replace
from typing import Any

import datasets
import torch
from transformers import PrinterCallback, ProgressCallback
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback, Probe, demo
from forgetwatch.probes.shipped_probes import facts


def make_probe(items: int) -> Probe:
    """The demo's questions again and again, in tasks of their own."""
    own = demo.demo_probe()
    made = [
        replace(own[at % len(own)], task=f"{own[at % len(own)].task} {at // len(own)}")
        for at in range(items)
    ]
    return Probe(made, name="demo, repeated", scoring=own.scoring, norm=own.norm)


def train(
    model: Any, tokenizer: Any, texts: list[dict[str, str]], steps: int, callback: Any
) -> tuple[float, list[str]]:
    """Seconds of the run, and what the callback said."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as told:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=16,
                logging_steps=50,
                save_strategy="no",
                max_length=32,
                bf16=False,
                dataloader_pin_memory=False,
                report_to="none",
                seed=1,
            ),
            train_dataset=datasets.Dataset.from_list(texts),
            processing_class=tokenizer,
            callbacks=[callback] if callback else [],
        )
        trainer.remove_callback(ProgressCallback)
        trainer.remove_callback(PrinterCallback)
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()
        seconds = time.process_time() - started
    return seconds, [line for line in told.getvalue().splitlines() if "looks take" in line]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--items", type=int, default=360)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    probe = make_probe(given.items)
    kinds = {
        "without": lambda: None,
        "default budget": lambda: ForgetWatchCallback(probe),
        "every item": lambda: ForgetWatchCallback(probe, max_overhead=None),
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    said: dict[str, list[str]] = {}
    world = facts()
    tokenizer = demo.make_tokenizer(world)
    start = demo.teach_base(world, tokenizer)
    texts = [{"text": f"{fact.text} {fact.value} ."} for fact in world]
    for _ in range(given.repeats):
        for kind, make in kinds.items():
            torch.manual_seed(0)
            model = type(start)(start.config)
            model.load_state_dict(start.state_dict())
            took, said[kind] = train(model, tokenizer, texts, given.steps, make())
            seconds[kind].append(took)
    print("| run | seconds | ratio to the run without |\n|---|---|---|")
    for kind, took in seconds.items():
        ratio = statistics.median(
            one / other for one, other in zip(took, seconds["without"], strict=True)
        )
        print(f"| {kind} | {statistics.median(took):.1f} | {ratio:.3f} |")
    for kind, lines in said.items():
        for line in lines:
            print(f"{kind}: {line}")


if __name__ == "__main__":
    main()
