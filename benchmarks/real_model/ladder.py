"""Ask a real model what it lost in `standard` and in `ladder`, in one run, after damage of three seeds each.

    python benchmarks/real_model/ladder.py MODEL OUT [--items 1000]

MODEL is the folder of a causal language model. The ladder is fitted to it first. Every damaged model is scored once on
the questions of both probes, and every finished cell is a file: a second run goes on with those that are missing.

    noise 0.05, 0.1     added to each matrix, in units of its standard deviation
    narrow 0.5, 1       40 steps on word problems, interpolated with the start

Four groups of questions: the first items of `standard`, the ladder's, those of the pool alone, and the planted ceiling:
of `standard` the questions that the start answers most surely, as a stronger model answers nearly all of them.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import texts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Snapshot, compare, load_probe, save_snapshot
from forgetwatch.probe import Probe
from forgetwatch.probes import at_levels
from forgetwatch.probes.ladder import KINDS
from forgetwatch.probes.shipped import interleave
from forgetwatch.scoring import Scorer
from forgetwatch.snapshot import read_snapshot

SEEDS: Final = range(3)
SURE: Final = 2 / 5
"""Share of the right answers with the largest margins that are the planted ceiling."""


def learned(model: Any, tokenizer: Any, seed: int) -> None:
    """Train 40 steps of 4 word problems."""
    rng = np.random.default_rng(seed)
    rows = texts.narrow(120, rng)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for _ in range(40):
        made = [tokenizer("".join(rows[at]) + tokenizer.eos_token)["input_ids"] for at in rng.choice(len(rows), 4)]
        width = max(map(len, made))
        ids = torch.tensor([one + [0] * (width - len(one)) for one in made])
        labels = torch.tensor([one + [-100] * (width - len(one)) for one in made])
        model(input_ids=ids, attention_mask=(labels != -100).long(), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def damaged(model: Any, tokenizer: Any, start: dict[str, torch.Tensor], kind: str, dose: float, seed: int) -> None:
    model.load_state_dict(start)
    torch.manual_seed(seed)
    if kind == "noise":
        with torch.no_grad():
            for weight in model.parameters():
                weight += dose * weight.std() * torch.randn_like(weight) if weight.ndim == 2 else 0
    elif kind == "narrow":
        learned(model, tokenizer, seed)
        end = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict({name: torch.lerp(value, end[name], dose) for name, value in start.items()})


def groups(probe: Probe, ladder: Probe, start: Snapshot) -> dict[str, list[bool]]:
    """Places of the questions of each group in the probe of both."""
    of_ladder = {item.content_hash for item in ladder}
    in_pool = [item.task.split(":")[0] in KINDS for item in probe]
    standard = {item.content_hash for item in load_probe("standard").items[: len(ladder)]}
    in_standard = [item.content_hash in standard for item in probe]
    margins = start.floats("margin")
    right = (start.floats("correct") == 1) & np.array(in_standard)
    least = np.nanquantile(margins[right], 1 - SURE)
    return {
        "standard": in_standard,
        "ladder": [item.content_hash in of_ladder for item in probe],
        "pool": in_pool,
        "sure": list(right & (margins >= least)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, default=1000)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    named = given.out / "ladder.txt"
    if not named.exists():
        fitted = at_levels(load_probe("ladder"), lambda tried: Scorer(tried, tokenizer, model).score(model))
        named.write_text(fitted.name)
    ladder, standard = load_probe(named.read_text()).head(given.items), load_probe("standard").head(given.items)
    print(named.read_text(), flush=True)
    both = {item.content_hash: item for item in (*standard, *ladder)}
    probe = standard.with_items(interleave(list(both.values())))
    scorer = None
    damages = (("noise", 0.05), ("noise", 0.1), ("narrow", 1.0), ("narrow", 0.5))
    cells = [("start", 0.0, 0), *((kind, dose, seed) for seed in SEEDS for kind, dose in damages)]
    for kind, dose, seed in cells:
        target = given.out / f"{kind}-{dose:g}-{seed}.parquet"
        if not target.exists():
            damaged(model, tokenizer, start, kind, dose, seed)
            scorer = scorer or Scorer(probe, tokenizer, model)
            save_snapshot(scorer.score(model, name=target.stem), target)
            print(target.stem, flush=True)
    before = read_snapshot(given.out / "start-0-0.parquet")
    kept = groups(probe, ladder, before)
    print("| damage, seed | questions | n | accuracy | E, points | t | t over root n | clearly known, lost |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind, dose, seed in cells[1:]:
        after = read_snapshot(given.out / f"{kind}-{dose:g}-{seed}.parquet")
        for name, places in kept.items():
            sides = [replace(side, table=side.table.filter(pa.array(places))) for side in (before, after)]
            found = compare(before=sides[0], after=sides[1]).all
            net, known = found.found["net_estimate"].change, found.found["known"]
            t = net.mean / net.error
            accuracy = f"{100 * found.accuracy_before:.1f} -> {100 * found.accuracy_after:.1f}"
            row = [f"{kind} {dose:g}, {seed}", name, found.n, accuracy, f"{100 * net.mean:+.1f}", f"{t:+.1f}"]
            lost = f"{known.known}, {known.known_lost}"
            print("|", " | ".join(map(str, [*row, f"{t / found.n**0.5:+.3f}", lost])), "|")


if __name__ == "__main__":
    main()
