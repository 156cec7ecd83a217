"""Difficulty of the shipped probe as two models find it: a small language model, and the same model untrained.

    PYTHONPATH=tools/probe python -m standard_probe.measured MODEL

writes measured.csv beside this file: one row for each item of `standard`, with whether each model is right and the log
share of the right option among the options, nats. No item is chosen or dropped by it. The card shows the tables of
`tables`.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from forgetwatch.files import write_atomically
from forgetwatch.item import Item
from forgetwatch.probe import Probe

FILE: Final = "measured.csv"

Rows = dict[str, dict[str, float]]
"""Numbers of each item, by its id and the column."""

_COLUMNS: Final = ("trained_right", "trained_log_share", "untrained_right", "untrained_log_share")


def read() -> Rows:
    """The stored numbers."""
    text = files("standard_probe").joinpath(FILE).read_text(encoding="utf-8")
    return {row["id"]: {column: float(row[column]) for column in _COLUMNS} for row in csv.DictReader(text.splitlines())}


def tables(probe: Probe, rows: Rows) -> str:
    """Markdown: accuracy and mean log share by category and level, and by task; chance is the mean of 1/k."""
    levels = sorted({_level(item) for item in probe})
    lines = [
        f"| category | chance | {' | '.join(f'level {level}' for level in levels)} | all | untrained |",
        f"| --- | --- | {' | '.join('---' for _ in levels)} | --- | --- |",
    ]
    for category, items in [*_groups(probe, lambda item: item.category), ("**all**", list(probe))]:
        cells = [_cell([item for item in items if _level(item) == level], rows, "trained") for level in levels]
        lines.append(
            f"| {category} | {_chance(items):.2f} | {' | '.join(cells)} | {_cell(items, rows, 'trained')} | "
            f"{_cell(items, rows, 'untrained')} |"
        )
    lines += ["", "| task | items | chance | SmolLM2-135M-Instruct | untrained |", "| --- | ---: | --- | --- | --- |"]
    for task, items in _groups(probe, lambda item: item.task):
        trained, untrained = (_cell(items, rows, name) for name in ("trained", "untrained"))
        lines.append(f"| {task} | {len(items)} | {_chance(items):.2f} | {trained} | {untrained} |")
    return "\n".join(lines)


def _groups(probe: Probe, key: Callable[[Item], str]) -> Iterator[tuple[str, list[Item]]]:
    found: dict[str, list[Item]] = defaultdict(list)
    for item in probe:
        found[key(item)].append(item)
    yield from sorted(found.items())


def _cell(items: Sequence[Item], rows: Rows, model: str) -> str:
    if not items:
        return ""
    right, share = (
        sum(rows[item.id][f"{model}_{name}"] for item in items) / len(items) for name in ("right", "log_share")
    )
    return f"{right:.2f} ({share:.2f})"


def _chance(items: Sequence[Item]) -> float:
    return sum(1 / len(item.choices) for item in items) / len(items)


def _level(item: Item) -> str:
    return item.tags[0].removeprefix("difficulty:")


def measure(folder: str) -> None:
    """Score the probe with a model and with the same model untrained, and store the numbers.

    Args:
        folder: Folder of the model.
    """
    import numpy as np
    import torch
    from rich.progress import Progress
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from forgetwatch import load_probe, score

    probe, tokenizer = load_probe("standard"), AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    models: dict[str, Callable[[], Any]] = {
        "trained": lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        "untrained": lambda: AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32),
    }
    rows: dict[str, dict[str, Any]] = {item.id: {"id": item.id} for item in probe}
    with Progress() as bar:
        for name, load in models.items():
            task = bar.add_task(name, total=1.0)

            def show(done: int, total: int, task: Any = task) -> None:
                bar.update(task, completed=done / total)

            found = score(load().eval(), tokenizer, probe, progress=show)
            scored = zip(probe, found.floats("correct"), found.table["choice_logprobs"].to_pylist(), strict=True)
            for item, right, scores in scored:
                share = scores[int(item.answers[0])] - np.logaddexp.reduce(scores)
                rows[item.id] |= {f"{name}_right": int(right), f"{name}_log_share": f"{share:.2f}"}

    def write(partial: Path) -> None:
        with partial.open("w", encoding="utf-8", newline="") as out:
            table = csv.DictWriter(out, ["id", *_COLUMNS], lineterminator="\n")
            table.writeheader()
            table.writerows(rows.values())

    write_atomically(Path(__file__).with_name(FILE), write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="standard_probe.measured", description="Measure the difficulty of `standard`."
    )
    parser.add_argument("model", help="folder of a small causal language model")
    measure(parser.parse_args().model)
