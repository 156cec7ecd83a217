"""Three trainings of one model, one after another: what has the last one forgotten of the first base?

``forgetwatch demo`` makes the small model; ``python examples/stages.py`` then runs as it is, in about a minute. Each
stage teaches one category of the demo's world, and begins with the checkpoint of the one before. By that the callback
finds the earlier stages: eval/forget is against the first base, eval/forget_stage against the start of the stage.

OUTPUT/stages.html shows all stages, OUTPUT/stages/stages.png the categories by stage.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback, load_probe

STAGES = ("Weather", "Nature", "Sky")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="forgetwatch-demo/base")
    parser.add_argument("--steps", type=int, default=60, help="steps of each stage")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--output", type=Path, default=Path("runs/stages"))
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    world, model = load_probe("demo"), given.model
    for number, category in enumerate(STAGES, start=1):
        facts = [
            f"{item.prompt}{item.choices[item.answer]} ."
            for item in world
            if item.category == category
        ]
        folder = given.output / f"{number}-{category.lower()}"
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=str(folder),
                max_steps=given.steps,
                learning_rate=given.rate,
                save_steps=given.steps,
                bf16=False,
                report_to="none",
            ),
            train_dataset=Dataset.from_dict({"text": facts}),
            callbacks=[ForgetWatchCallback("demo", max_overhead=None, guard=None)],
        )
        trainer.train()
        model = str(folder / f"checkpoint-{given.steps}")
    folders = [
        str(given.output / f"{number}-{category.lower()}")
        for number, category in enumerate(STAGES, start=1)
    ]
    report = [
        sys.executable,
        "-m",
        "forgetwatch",
        "report",
        *folders,
        "-o",
        str(given.output / "stages.html"),
    ]
    pictures = ["--plots", str(given.output / "stages")]
    subprocess.run([*report, *pictures], check=True)


if __name__ == "__main__":
    main(options())
