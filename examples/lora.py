"""LoRA: the base stays in the model, beneath the adapter; how far has the adapter moved it?

    python examples/lora.py --model Qwen/Qwen3-0.6B --data train.jsonl --output runs/lora

log="full" also measures the drift from the base, on texts that the base wrote itself: eval/forget/all/kl_training is an
early warning. Should a resumed run have lost its baseline, it is measured again with the adapter switched off.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback

PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    trainer = SFTTrainer(
        model=given.model,
        args=SFTConfig(output_dir=given.output, max_steps=given.steps, bf16=False, report_to="none"),
        train_dataset=load_dataset("json", data_files=given.data, split="train"),
        peft_config=LoraConfig(r=16, target_modules="all-linear"),
        callbacks=[ForgetWatchCallback(PROBE, log="full")],
    )
    trainer.train()


if __name__ == "__main__":
    main()
