"""Demo of the callback, offline, on a small model that it trains itself; every number is measured.

1. A language model of 380,000 parameters is taught two thirds of the facts of an invented world.
2. TRL's SFTTrainer teaches it facts of three categories that it did not know, with the callback
attached.
3. The other categories are not trained on: losses there come from interference alone.
"""

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import datasets
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    PrinterCallback,
    ProgressCallback,
)
from transformers.integrations.integration_utils import get_available_reporting_integrations
from transformers.utils import logging as transformers_logging
from trl import SFTConfig, SFTTrainer

from forgetwatch.errors import ForgetwatchError
from forgetwatch.files.writing import write_text
from forgetwatch.probes.shipped_probes import Fact, demo_probe, facts
from forgetwatch.progress import Done, Progress, log, shown
from forgetwatch.report.pictures import save_figure
from forgetwatch.report.plots import trajectory_figure
from forgetwatch.run.callback import ForgetWatchCallback
from forgetwatch.run_folder.description import RUN_FOLDER

SEED: Final = 1
KNOWN_SHARE: Final = 0.62
BASE_STEPS: Final = 300
TUNE_STEPS: Final = 180
TUNE_RATE: Final = 1e-3
LOOK_EVERY: Final = 15
_FIRST: Final = Path("texts", "train.jsonl")
"""File in the folder of the data that is written first."""
TAUGHT: Final = ("Weather", "Nature", "Sky")
"""The categories of which the fine-tuning teaches what the base model did not know."""


@dataclass(frozen=True, kw_only=True)
class DemoFiles:
    """Files that the demo has written: the base model, the trainer's output with the run folder, and the curves."""

    base: Path
    run: Path
    pictures: tuple[Path, ...]


def run_demo(output: Path, *, report_to: str = "none") -> DemoFiles:
    """Train, fine-tune under watch, and draw the curves, in a minute.

    Args:
        output: The folder under which everything is written.
        report_to: A tracker that the Trainer supports (wandb, tensorboard, ...), or ``none``.

    Raises:
        ForgetwatchError: If the tracker is not installed, or the folder contains files that no demo
            wrote.
    """
    if report_to != "none" and report_to not in (
        installed := get_available_reporting_integrations()
    ):
        raise ForgetwatchError(
            f"--report-to {report_to}: not installed, or no tracker; needed one of none, "
            f"{', '.join(installed)}"
        )
    if output.exists() and not output.is_dir():
        raise ForgetwatchError(f"{output}: needed a folder to write to, and this is a file")
    # The data are written first, so that a demo that was stopped can be run again.
    is_ours = (output / "data" / _FIRST).is_file() or (output / "run" / RUN_FOLDER).is_dir()
    if output.exists() and any(output.iterdir()) and not is_ours:
        raise ForgetwatchError(
            f"{output} contains files that no demo wrote; give an empty or new folder with --output"
        )
    _quiet()
    # Threads of a model this small mostly wait for each other, on a busy machine for minutes.
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WANDB_DIR", str(output))
    world = facts()
    # A permutation and not draws: exactly this share of the facts is taught.
    is_taught = np.random.default_rng(SEED).permutation(len(world)) < round(
        KNOWN_SHARE * len(world)
    )
    taught_before = [fact for fact, is_known in zip(world, is_taught, strict=True) if is_known]
    untaught = [fact for fact, is_known in zip(world, is_taught, strict=True) if not is_known]
    taught_now = [fact for fact in untaught if fact.relation.category in TAUGHT]
    tokenizer = make_tokenizer(world)
    write_data(output / "data", taught_now)
    opening = f"teaching a small model {len(taught_before)} of {len(world)} facts"
    with shown("teaching", opening=opening) as progress:
        model = teach_base(taught_before, tokenizer, progress=progress)
    model.save_pretrained(output / "base")
    tokenizer.save_pretrained(output / "base")
    model.config.name_or_path = str(output / "base")  # as if it were loaded from there
    log(f"fine-tuning it on {len(taught_now)} others")
    watcher = fine_tune(model, tokenizer, taught_now, output / "run", report_to)
    if watcher.watch is None:
        raise RuntimeError("the fine-tuning ended without a look")
    pictures = (output / "forgetting.png", output / "forgetting.svg")
    figure = trajectory_figure(watcher.watch.trajectory())
    for picture in pictures:
        save_figure(figure, picture)
    return DemoFiles(base=output / "base", run=output / "run", pictures=pictures)


def write_data(folder: Path, taught: Sequence[Fact]) -> None:
    """Write the training texts and preferences of the fine-tuning as files."""
    wrong_values = [
        next(value for value in fact.relation.values if value != fact.value) for fact in taught
    ]
    rows = {
        _FIRST.parts[0]: [{"text": _sentence(fact)} for fact in taught],
        "preferences": [
            {"prompt": fact.text, "chosen": f" {fact.value} .", "rejected": f" {wrong} ."}
            for fact, wrong in zip(taught, wrong_values, strict=True)
        ],
    }
    for name, rows_of_file in rows.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows_of_file)
        write_text(folder / name / _FIRST.name, lines)


def make_tokenizer(world: Sequence[Fact]) -> PreTrainedTokenizerFast:
    """Make a tokenizer with one word per token."""
    words = {
        word
        for fact in world
        for word in f"{_sentence(fact)} {' '.join(fact.relation.values)}".split()
    }
    vocabulary = {
        word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>", *sorted(words)])
    }
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>"
    )


def teach_base(
    taught: Sequence[Fact], tokenizer: PreTrainedTokenizerFast, *, progress: Progress | None = None
) -> LlamaForCausalLM:
    """Train a small Llama until it knows the facts."""
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    # In float64: rounding differs between processors, and a training magnifies it to other answers.
    model = model.double()
    batch = tokenizer(
        [f"{_sentence(fact)} <eos>" for fact in taught], padding=True, return_tensors="pt"
    )
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(BASE_STEPS):
        if progress is not None:
            progress(Done(count=step, total=BASE_STEPS, share=step / BASE_STEPS, unit="steps"))
        rows = torch.randint(0, len(taught), (64,))
        loss = model(
            input_ids=batch["input_ids"][rows],
            attention_mask=batch["attention_mask"][rows],
            labels=labels[rows],
        ).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def fine_tune(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    taught: Sequence[Fact],
    output: Path,
    report_to: str,
) -> ForgetWatchCallback:
    """Fine-tune on some facts under watch.

    Returns:
        The callback, which has every look.
    """
    watcher = ForgetWatchCallback(demo_probe(), every=LOOK_EVERY)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(output),
            max_steps=TUNE_STEPS,
            per_device_train_batch_size=16,
            learning_rate=TUNE_RATE,
            lr_scheduler_type="linear",
            warmup_steps=TUNE_STEPS // 4,
            logging_steps=LOOK_EVERY,
            save_steps=TUNE_STEPS // 6,
            save_only_model=True,
            max_length=32,
            bf16=False,
            dataloader_pin_memory=False,
            report_to=report_to,
            run_name="forgetwatch-demo",
            seed=SEED,
        ),
        train_dataset=datasets.Dataset.from_list([{"text": _sentence(fact)} for fact in taught]),
        processing_class=tokenizer,
        callbacks=[watcher],
    )
    # The lines of the looks show the progress.
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return watcher


def _sentence(fact: Fact) -> str:
    return f"{fact.text} {fact.value} ."


def _quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
