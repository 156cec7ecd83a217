"""`forgetwatch demo`: the main job, offline, with a picture at the end."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from forgetwatch.cli.output import print_line
from forgetwatch.errors import ForgetwatchError
from forgetwatch.run_folder import PROBE, RUN_FOLDER

_NEEDS = ("torch", "transformers", "trl", "datasets")


def run(
    output: Annotated[Path, typer.Option(help="Folder that everything is written to.")] = Path("forgetwatch-demo"),
    report_to: Annotated[str, typer.Option(help="Tracker of the Trainer: wandb, tensorboard, ..., or none.")] = "none",
) -> None:
    """Watch a small model forget: train one, fine-tune it, and see question by question what it loses."""
    if lacking := [name for name in _NEEDS if find_spec(name) is None]:
        raise ForgetwatchError(
            f"the demo trains a model and needs {', '.join(lacking)}: pip install 'forgetwatch[train]'"
        )
    # Before transformers is imported, which reads these variables once.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    console = Console(highlight=False)
    # The imports take seconds, in which a silent command would seem to hang.
    Console(stderr=True).print("loading torch, transformers and trl ...", style="dim")
    from forgetwatch.demo import TUNE_STEPS, run_demo

    written = run_demo(output, report_to=report_to)
    probe = written.run / RUN_FOLDER / PROBE
    print_line(console, f"\npictures: {', '.join(map(str, written.pictures))}")
    print_line(console, f"models:   {written.base}, {written.run}/checkpoint-*")
    print_line(console, "the same comparison from the saved checkpoints:")
    last = written.run / f"checkpoint-{TUNE_STEPS}"
    print_line(console, f"  forgetwatch compare {written.base} {last} --probe {probe}")
