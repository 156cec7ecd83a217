"""Which knowledge recorded runs lost: barely known, or near the new data? And do halves of the questions agree?

    python benchmarks/causes.py OUT [--seeds 2]           the demo's world at four rates: four minutes on two cores
    python benchmarks/causes.py OUT --doses FILE          also a table of option scores, with a column for each dose

Each run is asked with all of its questions and with each half of them, and with the lost answers permuted within
categories. OUT/causes.jsonl has one line for each, written when its run is finished; a second start does the rest.
FILE is a Parquet file with the columns item_id, task, category, gold and dose_0, dose_..., log-likelihoods of the
options; it has no training rows, so that only how sure the base was is asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from remedies import World
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback, Probe, Snapshot, Trajectory
from forgetwatch.comparing.causes import Causes, why_lost
from forgetwatch.probes.nearness import answers_of, category_words, nearness_to

RATES: Final = (2.5e-4, 5e-4, 1e-3, 2e-3)
STEPS: Final = 120


def trained(world: World, rate: float, seed: int, folder: Path) -> tuple[Snapshot, Snapshot, Probe]:
    """Baseline and last look of a training of the demo's new task, and the probe of all that the base was taught."""
    probe = Probe([*world.usable, *world.watched], name="taught")
    torch.manual_seed(seed)
    rows = [
        str(row)
        for row in np.random.default_rng(seed).permutation(
            np.resize(world.rows, STEPS * world.batch)
        )
    ]
    trainer = SFTTrainer(
        model=world.fresh(),
        args=SFTConfig(
            output_dir=str(folder),
            max_steps=STEPS,
            per_device_train_batch_size=world.batch,
            learning_rate=rate,
            max_length=128,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            report_to="none",
            disable_tqdm=True,
            seed=seed,
        ),
        train_dataset=Dataset.from_dict({"text": rows}),
        processing_class=world.tokenizer,
        callbacks=[
            ForgetWatchCallback(
                probe, every=STEPS, max_overhead=None, lineage=False, guard=None, drift=False
            )
        ],
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    run = Trajectory.from_run(folder)
    return run.baseline, run.last, probe


def halves(
    before: Snapshot, after: Snapshot, rng: np.random.Generator
) -> Iterator[tuple[str, Snapshot, Snapshot]]:
    """All questions, each random half of them, and all with what is lost permuted within categories."""
    yield "all", before, after
    side = rng.permutation(len(before)) % 2
    for half in (0, 1):
        mask = side == half
        yield (
            f"half {half + 1}",
            *(replace(one, table=one.table.filter(mask)) for one in (before, after)),
        )
    right, category = before.floats("correct") == 1, before.texts("category").astype(str)
    now = after.floats("correct").copy()
    for one in np.unique(category):
        inside = np.flatnonzero(right & (category == one))
        now[inside] = rng.permutation(now[inside])
    names = {
        name: before.texts(name).tolist()
        for name in ("item_id", "content_hash", "task", "category")
    }
    yield "permuted", before, Snapshot.from_columns({**names, "correct": (now == 1).tolist()}, {})


def told(found: Causes) -> dict[str, Any]:
    columns = {
        one.column: None
        if one.separation is None or one.explained is None
        else {
            "p": one.p_value,
            "explained": one.explained.share,
            "chance": one.explained.permuted,
            "explains": one.explains,
        }
        for one in found.causes
    }
    return {
        "items": found.items,
        "lost": found.lost,
        "answer": str(found),
        "columns": columns,
        "between": found.between,
    }


def demo_runs(out: Path, *, seeds: int, done: set[str]) -> Iterator[dict[str, Any]]:
    world = World()
    for rate in RATES:
        for seed in range(seeds):
            name = f"demo, rate {rate:g}, seed {seed}"
            if name in done:
                continue
            before, after, probe = trained(world, rate, seed, out / f"{rate:g}-{seed}")
            near = nearness_to(probe.items, world.rows)
            keys = [(item.task, item.id) for item in probe]
            by = {
                "near": dict(zip(keys, near.tolist(), strict=True)),
            }
            more = {"words": category_words(probe.items, world.rows), "answers": answers_of(probe)}
            for part, *sides in halves(before, after, np.random.default_rng(seed)):
                yield {
                    "run": name,
                    "part": part,
                    **told(why_lost(*sides, **by, **more)),
                }


def doses(path: Path, *, done: set[str]) -> Iterator[dict[str, Any]]:
    table = pq.read_table(path)
    gold = np.array(table["gold"].to_pylist())
    names = {name: table[name].to_pylist() for name in ("item_id", "task", "category")}
    names["content_hash"] = names["item_id"]
    columns = [name for name in table.column_names if name.startswith("dose_")]
    sides = []
    for column in columns:
        scores = [np.array(row) for row in table[column].to_pylist()]
        share = [
            float(np.exp(row[at] - np.logaddexp.reduce(row)))
            for row, at in zip(scores, gold, strict=True)
        ]
        correct = [bool(row.argmax() == at) for row, at in zip(scores, gold, strict=True)]
        sides.append(Snapshot.from_columns({**names, "correct": correct, "gold_share": share}, {}))
    for column, after in zip(columns[1:], sides[1:], strict=True):
        name = f"{path.stem}, {column}"
        for part, *pair in (
            halves(sides[0], after, np.random.default_rng(0)) if name not in done else ()
        ):
            yield {"run": name, "part": part, **told(why_lost(*pair))}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the runs as Markdown: what each column explains, by chance in brackets, and what the halves say."""
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault(row["run"], {})[row["part"]] = row

    def cell(row: dict[str, Any], column: str) -> str:
        found = row["columns"].get(column)
        if found is None:
            return "-"
        return f"{100 * found['explained']:.1f} ({100 * found['chance']:.1f}){' *' if found['explains'] else ''}"

    lines = [
        "| run | lost | sure | near | answer | halves agree | permuted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, parts in runs.items():
        whole = parts["all"]
        agree = sum(parts[half]["answer"] == whole["answer"] for half in ("half 1", "half 2"))
        cells = " | ".join(cell(whole, column) for column in ("sure", "near"))
        lines.append(
            f"| {name} | {whole['lost']} of {whole['items']} | {cells} | {whole['answer']} | {agree} of 2 | "
            f"{parts['permuted']['answer']} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--doses", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "causes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {row["run"] for row in rows if row["part"] == "permuted"}
    found = demo_runs(options.out, seeds=options.seeds, done=done)
    more = doses(options.doses, done=done) if options.doses else iter(())
    with path.open("a") as file:
        for one in chain(more, found):
            file.write(json.dumps(one) + "\n")
            file.flush()
            rows.append(one)
    print(table(rows))


if __name__ == "__main__":
    main()
