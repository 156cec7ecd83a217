"""LoRA with TRL: how far does the adapter move the model from its base?

Set MODEL and DATA (JSONL with a "text" in each line), then run ``python examples/lora.py``. ``log="full"`` also
measures the divergence from the base on texts that the base generated itself (eval/forget/all/kl_training in a
tracker). If a resumed run has lost its baseline, the baseline is measured again with the adapter switched off.

300 steps of the demo's model (two layers, width 128) took 16 s on two shared CPU cores.
"""

from __future__ import annotations

from pathlib import Path

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback

MODEL = "Qwen/Qwen3-0.6B"
DATA = "train.jsonl"
OUTPUT = "runs/lora"
STEPS = 300
PROBE = Path(__file__).parent / "probe.jsonl"


def main() -> None:
    trainer = SFTTrainer(
        model=MODEL,
        args=SFTConfig(output_dir=OUTPUT, max_steps=STEPS, bf16=False, report_to="none"),
        train_dataset=load_dataset("json", data_files=DATA, split="train"),
        peft_config=LoraConfig(r=16, target_modules="all-linear"),
        callbacks=[ForgetWatchCallback(PROBE, log="full")],
    )
    trainer.train()


if __name__ == "__main__":
    main()
