"""Six base models and their post-trained versions on MMLU-Pro: the table of statistics_results.md.

    FORGETWATCH_REAL_DATA=... python benchmarks/mmlu_pro.py

Reads the per-question logs of TIGER-AI-Lab/MMLU-Pro (f418b116, Apache-2.0; 12,032 items, 5-shot chain of thought, up to
10 options) in the folder mmlu_pro/ of that path. Percentages of all items; brackets hold 95 %.
"""

from __future__ import annotations

import os
from pathlib import Path

from forgetwatch import compare
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.paper_means import Spread
from forgetwatch.text import between, count, percent, points

PAIRS = {
    "Llama-3.1-8B": ("Meta-Llama-3_1-8B", "Meta-Llama-3_1-8B-Instruct"),
    "Llama-3.1-70B": ("Meta-Llama-3_1-70B", "Meta-Llama-3_1-70B-Instruct"),
    "Mistral-7B v0.1": ("Mistral-7B-v0.1", "Mistral-7B-Instruct-v0.1"),
    "Mistral-7B v0.2": ("Mistral-7B-v0.2-hf", "Mistral-7B-Instruct-v0.2"),
    "Mixtral-8x7B v0.1": ("Mixtral-8x7B-v0.1", "Mixtral-8x7B-Instruct-v0.1"),
    "Yi-6B": ("Yi-6B", "Yi-6b-Chat"),
}


def row(name: str, group: Group, compat: Spread) -> str:
    chance = group.chance
    corrected = chance.guess_corrected
    cells = (
        count(group.n),
        f"{points(group.net_change)} ({between(group.net_change_interval, points)})",
        f"{percent(group.forgetting)} ({between(group.forgetting_interval, percent)})",
        f"{percent(chance.paper.forgetting)} ({between(chance.paper.forgetting_interval, percent)})",
        percent(compat.mean),
        f"{percent(corrected.forgetting)} ({between(corrected.forgetting_band, percent)})",
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    folder = Path(os.environ["FORGETWATCH_REAL_DATA"]) / "mmlu_pro"
    head = ("pair", "items", "net", "raw", "paper", "paper-compat", "guess-corrected")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name, (before, after) in PAIRS.items():
        comparison = compare(
            before=folder / f"{before}.parquet",
            after=folder / f"{after}.parquet",
            on_mismatch="intersect",
            chance="paper-compat",
        )
        print(row(name, comparison.all, comparison.paper_compat.forgetting), flush=True)


if __name__ == "__main__":
    main()
