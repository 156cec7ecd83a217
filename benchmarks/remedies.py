"""What helps against forgetting, and at what price: replay, a lower rate, LoRA, RetentionLoss, early stop, merging.

    python benchmarks/remedies.py OUT [--seeds 3]                  the demo's world: four minutes on two cores
    python benchmarks/remedies.py OUT --model FOLDER [--seeds 3]   a language model: at most three minutes a cell
    python benchmarks/remedies.py OUT --table                      the table, from OUT/cells.jsonl
    python benchmarks/remedies.py OUT --figure F.png --beside OUT2 a picture of the tables of both

The demo's base knows 62 % of the facts of its world. A training teaches it the other facts of three categories, the new
task. What the base knows is divided into halves: remedies may use one, and the other is watched. A language model is
taught facts of the same invented world; the halves are of questions of `standard` that it clearly knows, and its replay
is text that it writes after the prompts that the package ships. Each cell is one training with one seed; it is written
as soon as it is finished, and a second start does the rest.

Replay adds rows: at a share of r there are 1 / (1 - r) times as many steps, so that each row of the new task is seen as
often as without. The control has as many steps as the replay of the largest share, with rows of the new task alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from matplotlib.figure import Figure
from numpy.typing import NDArray
from peft import LoraConfig
from scipy import stats
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from trl import SFTConfig, SFTTrainer

from forgetwatch import ForgetWatchCallback, Probe, Snapshot
from forgetwatch.demo import KNOWN_SHARE, SEED, TAUGHT, make_tokenizer, teach_base
from forgetwatch.item import Item
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.shipped_probes import demo_probe, facts, split_halves
from forgetwatch.report.pictures import save_figure
from forgetwatch.retention.loss import Retention, RetentionLoss
from forgetwatch.retention.replay import sample_replay
from forgetwatch.retention.topics import Prompt, shipped_prompts
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import read_snapshot

LEARNED = 0.9
"""Share of the new task at which trainings are compared."""

DEMO: dict[str, dict[str, Any]] = {
    "nothing": {},
    "replay 1 %": {"replay": 0.01},
    "replay 5 %": {"replay": 0.05},
    "replay 25 %": {"replay": 0.25},
    "new task again, 25 %": {"again": 0.25},
    "rate / 4": {"rate": 1 / 4},
    "LoRA": {"lora": True, "rate": 5},
    "RetentionLoss": {"weight": 0.5},
}
REAL: dict[str, dict[str, Any]] = {
    "nothing": {},
    "replay 5 %": {"replay": 0.05},
    "new task again, 5 %": {"again": 0.05},
    "rate / 4": {"rate": 1 / 4},
    "LoRA": {"lora": True, "rate": 2.5},
    "RetentionLoss": {"weight": 0.5},
}
"""Trainings by the name of the remedy, rates as multiples; early stop and merging are of those without a remedy."""


class Trainer(RetentionLoss, SFTTrainer):
    pass


class World:
    """The base of the demo, the rows of the new task, and the two halves of what the base knows."""

    remedies = DEMO
    steps, rate, batch, every, kept = 180, 1e-3, 16, 15, 8
    """Steps and rate of a training, rows of a batch, steps between looks, questions of a batch of RetentionLoss."""

    def __init__(self) -> None:
        world = facts()
        known = np.random.default_rng(SEED).permutation(len(world)) < round(
            KNOWN_SHARE * len(world)
        )
        self.tokenizer: Any = make_tokenizer(world)
        items = dict(zip((fact.text for fact in world), demo_probe(), strict=True))
        taught = [fact for fact, is_known in zip(world, known, strict=True) if is_known]
        new = [fact for fact, is_known in zip(world, known, strict=True) if not is_known]
        new = [fact for fact in new if fact.relation.category in TAUGHT]
        self.base: Any = teach_base(taught, self.tokenizer)
        self.rows = [f"{fact.text} {fact.value} ." for fact in new]
        usable, watched = split_halves([items[fact.text] for fact in taught])
        self.usable, self.watched = Probe(usable, name="usable"), Probe(watched, name="watched")
        self.new = Probe([items[fact.text] for fact in new], name="new")

    def fresh(self) -> Any:
        model = type(self.base)(self.base.config)
        model.load_state_dict(self.base.state_dict())
        return model

    def replay(self, count: int, *, seed: int) -> list[str]:
        """Texts of the base after questions of the usable half, without the watched questions."""
        prompts = [Prompt(str(item.prompt), item.category) for item in self.usable]
        found = sample_replay(
            self.base,
            self.tokenizer,
            prompts,
            rows=min(count, 200),
            chat=False,
            forbidden=[self.watched],
            tokens=2,
            fewest_words=1,
            temperature=0.5,
            seed=seed,
        )
        return [f"{row['prompt']} {row['completion'].strip()}" for row in found.rows]


class LanguageModel(World):
    """A language model, invented facts as its new task, and the two halves of what it clearly knows of `standard`."""

    remedies = REAL
    steps, rate, batch, every, kept = 36, 4e-4, 16, 12, 2
    facts, watches, tokens = 60, 120, 48
    """Facts to learn, questions of each half, and tokens of a replayed text."""

    def __init__(self, model: str, out: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self.pool = out / "replay.jsonl"
        new = [
            pair
            for pair in zip(facts(), demo_probe(), strict=True)
            if pair[0].relation.category in TAUGHT
        ]
        new = [new[at] for at in np.random.default_rng(SEED).permutation(len(new))[: self.facts]]
        self.rows = [f"{fact.text} {fact.value}." for fact, _ in new]
        self.new = Probe([item for _, item in new], name="new")
        # Without their worked examples, which are most of the text that a look and RetentionLoss read.
        items = [replace(item, shots="") for item in load_probe("standard")]
        self.usable, self.watched = map(self._known, split_halves(items), ("usable", "watched"))

    def _known(self, items: Sequence[Item], name: str) -> Probe:
        """The first questions of a half that the base clearly knows, of those with up to 40 tokens."""
        short = [item for item in items if len(self.tokenizer(str(item.prompt))["input_ids"]) <= 40]
        probe = Probe(short[: 4 * self.watches], name=name)
        found = Scorer(probe, self.tokenizer, self.base).score(self.base)
        known = clearly_known(found)
        return Probe(
            [item for item, is_known in zip(probe, known, strict=True) if is_known][: self.watches],
            name=name,
        )

    def replay(self, count: int, *, seed: int) -> list[str]:
        """Texts of the base after the shipped prompts, drawn from one pool for all seeds."""
        if not self.pool.exists():
            found = sample_replay(
                self.base,
                self.tokenizer,
                shipped_prompts(chat=False),
                rows=2 * count,
                chat=False,
                forbidden=[load_probe("standard"), load_probe("confirmation")],
                tokens=self.tokens,
            )
            self.pool.write_text(
                "".join(json.dumps(row) + "\n" for row in found.rows), encoding="utf-8"
            )
        rows = [json.loads(line) for line in self.pool.read_text(encoding="utf-8").splitlines()]
        texts = [f"{row['prompt']}{row['completion']}" for row in rows]
        return [str(text) for text in np.random.default_rng(seed).permutation(texts)[:count]]


def cell(world: World, remedy: str, seed: int, folder: Path) -> dict[str, Any]:
    """One training: share of the new task, and of what was clearly known and is lost, at each look."""
    given = world.remedies[remedy]
    rng = np.random.default_rng(seed)
    extra = given.get("replay", 0.0) + given.get("again", 0.0)
    steps = round(world.steps / (1 - extra))
    rows = list(rng.permutation(np.resize(world.rows, world.steps * world.batch)))
    more = steps * world.batch - len(rows)
    if "replay" in given and more:
        rows += list(np.resize(world.replay(more, seed=seed), more))
    elif more:
        rows += list(np.resize(world.rows, more))
    rows = [str(row) for row in rng.permutation(rows)]
    weight = given.get("weight", 0.0)
    probe = Probe([*world.watched, *world.new], name="watched and new")
    watcher = ForgetWatchCallback(
        probe, every=world.every, max_overhead=None, lineage=False, guard=None
    )
    torch.manual_seed(seed)
    run = folder / f"{remedy.replace(' ', '-').replace('/', '')}-{seed}"
    trainer = Trainer(
        model=world.fresh(),
        args=SFTConfig(
            output_dir=str(run),
            max_steps=steps,
            per_device_train_batch_size=world.batch,
            learning_rate=world.rate * given.get("rate", 1),
            warmup_steps=world.steps // 4,
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
        peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
        if given.get("lora")
        else None,
        callbacks=[watcher],
        retention=Retention(probe=world.usable, weight=weight, batch=world.kept)
        if weight
        else None,
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    base = read_snapshot(run / "_forgetwatch" / "baseline.parquet")
    looks = [
        {"step": int(path.stem.removeprefix("step-")), **measured(world, base, read_snapshot(path))}
        for path in sorted((run / "_forgetwatch").glob("step-*.parquet"))
    ]
    found = {"remedy": remedy, "seed": seed, "looks": looks}
    if remedy == "nothing":
        merged = world.fresh()
        tuned = trainer.model.state_dict()
        merged.load_state_dict(
            {name: (value + tuned[name]) / 2 for name, value in world.base.state_dict().items()}
        )
        found["merged"] = measured(
            world, base, Scorer(probe, world.tokenizer, merged).score(merged)
        )
    return found


def clearly_known(base: Snapshot) -> NDArray[np.bool_]:
    """Which questions the base clearly knows: right, of three options or more, with 80 % of their probability."""
    k = np.array([len(scores) for scores in base.table["choice_logprobs"].to_pylist()])
    known: NDArray[np.bool_] = (
        (base.floats("correct") == 1) & (base.floats("gold_share") >= 0.8) & (k >= 3)
    )
    return known


def measured(world: World, base: Snapshot, look: Snapshot) -> dict[str, float]:
    """Share of the new task that is right, and of the watched questions that were clearly known and are wrong."""
    new = np.isin(base.texts("item_id"), [item.id for item in world.new])
    now, known = look.floats("correct"), ~new & clearly_known(base)
    return {
        "new": float(now[new].mean()),
        "lost": float((now[known] == 0).mean()),
        "known": int(known.sum()),
    }


def points(
    cells: Sequence[dict[str, Any]], learned: float = LEARNED
) -> dict[str, dict[int, dict[str, float]]]:
    """By remedy and seed: the end of the training, and its first look at which enough of the new task is right."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for one in cells:
        looks = one["looks"]
        reached = next((look for look in looks if look["new"] >= learned), None)
        end = looks[-1]
        row = {"new": end["new"], "lost": end["lost"]}
        row |= (
            {"at": math.nan, "step": math.nan}
            if reached is None
            else {"at": reached["lost"], "step": reached["step"]}
        )
        found.setdefault(one["remedy"], {})[one["seed"]] = row
        if "merged" in one:
            merged = one["merged"]
            found.setdefault("merged by half", {})[one["seed"]] = {**merged, "at": math.nan}
            if reached is not None:
                early = {"new": reached["new"], "lost": reached["lost"], "at": reached["lost"]}
                found.setdefault("early stop", {})[one["seed"]] = early
    return found


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over the seeds with its 95 % interval (t); nan for fewer than two."""
    kept = np.array([value for value in values if math.isfinite(value)])
    if len(kept) < 2:
        return (float(kept.mean()) if len(kept) else math.nan), math.nan, math.nan
    half = stats.t.ppf(0.975, len(kept) - 1) * kept.std(ddof=1) / math.sqrt(len(kept))
    return float(kept.mean()), float(kept.mean() - half), float(kept.mean() + half)


def table(out: Path, learned: float = LEARNED) -> None:
    cells = [
        json.loads(line) for line in (out / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    by_remedy = points(cells, learned)
    nothing = by_remedy["nothing"]
    rows = []
    for remedy, by_seed in by_remedy.items():
        pairs = [(one, nothing[seed]) for seed, one in by_seed.items() if seed in nothing]
        row: dict[str, Any] = {"remedy": remedy, "seeds": len(pairs)}
        for name in ("new", "lost", "at"):
            row[name], _, _ = interval([one[name] for one, _ in pairs])
            row[f"{name} less nothing"], row[f"{name} low"], row[f"{name} high"] = interval(
                [one[name] - other[name] for one, other in pairs]
            )
        rows.append(row)
    with (out / "remedies.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(
        "| remedy | new task right | lost of the clearly known | change against nothing | "
        f"lost when {100 * learned:g} % is learned |"
    )
    print("|---|---|---|---|---|")
    for row in rows:
        change, low, high = (100 * row[f"lost {name}"] for name in ("less nothing", "low", "high"))
        at = "" if math.isnan(row["at"]) else f"{100 * row['at']:.1f} %"
        print(
            f"| {row['remedy']} | {100 * row['new']:.1f} % | {100 * row['lost']:.1f} % | "
            f"{change:+.1f} ({low:+.1f} to {high:+.1f}) | {at} |"
        )


def figure(tables: dict[str, Path], path: Path) -> None:
    """A panel for each table: what was lost with each remedy, its interval against none, and the new task."""
    drawn = Figure(figsize=(11, 3.9), layout="constrained")
    for panel, (title, out) in zip(
        drawn.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True
    ):
        with (out / "remedies.csv").open(encoding="utf-8") as file:
            rows = [
                {key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)
            ]
        nothing = next(row["lost"] for row in rows if row["remedy"] == "nothing")
        rows.sort(key=lambda row: -row["lost"])
        for at, row in enumerate(rows):
            low, high = (100 * (nothing + row[f"lost {end}"]) for end in ("low", "high"))
            panel.hlines(at, max(low, 0.0), high, color="#1f3b73", linewidth=1.5)
            panel.plot(
                100 * row["lost"],
                at,
                "o",
                color="#b3261e" if row["remedy"] == "nothing" else "#1f3b73",
            )
            panel.annotate(
                f"{100 * row['new']:.0f} %",
                (1.02, at),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
            )
        panel.axvline(100 * nothing, color="#b3261e", linewidth=0.8, linestyle=":")
        panel.set_yticks(range(len(rows)), [row["remedy"] for row in rows], fontsize=9)
        panel.set_xlim(left=0)
        panel.set_xlabel("lost of the clearly known, %", fontsize=9)
        panel.set_title(title, fontsize=10)
        panel.annotate("new task", (1.02, 1.02), xycoords="axes fraction", fontsize=8)
    save_figure(drawn, path)


def _number(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", default="", help="A language model; without it, the demo's.")
    parser.add_argument(
        "--learned", type=float, default=LEARNED, help="Share of the new task for the last column."
    )
    parser.add_argument("--table", action="store_true")
    parser.add_argument(
        "--figure", type=Path, help="Draw the tables of OUT and --beside into this file."
    )
    parser.add_argument(
        "--beside", type=Path, help="Folder of the language model's cells, for the figure."
    )
    given = parser.parse_args()
    if given.figure:
        tables = {"two layers, six seeds": given.out}
        tables |= (
            {} if given.beside is None else {"SmolLM2-135M-Instruct, three seeds": given.beside}
        )
        figure(tables, given.figure)
        return
    if given.table:
        table(given.out, given.learned)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    path = given.out / "cells.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = {(one["remedy"], one["seed"]) for one in map(json.loads, lines)}
    world = LanguageModel(given.model, given.out) if given.model else World()
    for seed in range(given.seeds):
        for remedy in world.remedies:
            if (remedy, seed) in done:
                continue
            started = time.perf_counter()
            found = cell(world, remedy, seed, given.out / "runs")
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(
                f"{remedy}, seed {seed}: {time.perf_counter() - started:.0f} s, {found['looks'][-1]}",
                flush=True,
            )
    table(given.out, given.learned)


if __name__ == "__main__":
    main()
