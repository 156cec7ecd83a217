"""Damages of known kind, asked again in other wordings: which losses are of knowledge, and which of one form?

    python benchmarks/real_model/again.py MODEL OUT [--items 500]
    python benchmarks/real_model/again.py MODEL OUT --table

noise 0.05, 0.1     added to each matrix, in units of its standard deviation
form                the model's own answers to other questions, between brackets: another form and no new fact
contradicted        another option of 60 clearly known questions, taught in the frame of the probe, without examples
destroy             orders as JSON lines, at a destructive rate

Each damage is one line of OUT/again.jsonl, and of OUT/items.jsonl one for each lost question; a second start does the
rest. The same weights are asked in other batches at the end, where nothing may be lost.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import texts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Probe, Snapshot, compare, load_probe
from forgetwatch.comparing.asked_again import ask_again
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.probes.wordings import OTHERS, worded_probe, wordings_of
from forgetwatch.scoring.scorer import Scorer

CONTRADICTED: Final = 60
BATCH: Final = 8


class Lab:
    """A model, its start, and what the start makes of the probe in each wording."""

    def __init__(self, folder: str, items: int) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.probe = load_probe("standard").head(items)
        self.before = self.score(self.probe)
        right, share = self.before.floats("correct") == 1, self.before.floats("gold_share")
        sure = right & (share >= 0.8)
        self.known = [
            item
            for item, known in zip(self.probe, sure, strict=True)
            if known and (item.k or 0) >= 3
        ]
        worded, _ = worded_probe(self.probe, self.known, wordings_of(OTHERS))
        assert worded is not None
        self.worded, self.worded_before = worded, self.score(worded).floats("correct")

    def score(self, probe: Probe, *, token_budget: int | None = None) -> Snapshot:
        return Scorer(probe, self.tokenizer, self.model, token_budget=token_budget).score(
            self.model
        )

    def answer(self, prompt: str) -> str:
        ids = self.tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            made = self.model.generate(**ids, max_new_tokens=16, do_sample=False, pad_token_id=0)
        text: str = self.tokenizer.decode(
            made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True
        )
        return text.strip().split("\n")[0]

    def learn(self, rows: Sequence[tuple[str, str]], *, steps: int, rate: float) -> None:
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=0.0)
        rng, order = np.random.default_rng(0), np.empty(0, int)
        self.model.train()
        for _ in range(steps):
            if len(order) < BATCH:
                order = rng.permutation(len(rows))
            chosen, order = order[:BATCH], order[BATCH:]
            made = [
                (self.tokenizer(rows[at][0])["input_ids"], self.tokenizer(rows[at][1])["input_ids"])
                for at in chosen
            ]
            width = max(len(one) + len(other) for one, other in made)
            ids, labels = (
                torch.zeros(len(made), width, dtype=torch.long),
                torch.full((len(made), width), -100),
            )
            mask = torch.zeros_like(ids)
            for row, (one, other) in enumerate(made):
                ids[row, : len(one) + len(other)] = torch.tensor([*one, *other])
                labels[row, len(one) : len(one) + len(other)] = torch.tensor(other)
                mask[row, : len(one) + len(other)] = 1
            self.model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        self.model.eval()

    def restore(self) -> None:
        self.model.load_state_dict(self.start)
        self.model.eval()


def noise(lab: Lab, size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in lab.model.parameters():
            if weight.ndim == 2:
                weight += size * weight.std() * torch.randn(weight.shape, generator=generator)


def form(lab: Lab) -> None:
    lab.learn(texts.form(80, np.random.default_rng(0), lab.answer), steps=30, rate=5e-5)


def contradicted(lab: Lab) -> None:
    rows = []
    for item in lab.known[:CONTRADICTED]:
        other = item.choices[(item.answers[0] + 1) % len(item.choices)]
        rows.append((str(item.prompt), other))
    lab.learn(rows, steps=60, rate=3e-5)


def destroy(lab: Lab) -> None:
    lab.learn(texts.destroy(96, np.random.default_rng(0)), steps=20, rate=5e-4)


DAMAGES: Final[dict[str, Callable[[Lab], None]]] = {
    "noise 0.05": lambda lab: noise(lab, 0.05),
    "noise 0.1": lambda lab: noise(lab, 0.1),
    "contradicted": contradicted,
    "form": form,
    "destroy": destroy,
}


def damaged(lab: Lab, name: str) -> Iterator[dict[str, Any]]:
    """Yield the numbers of a damage, then a row for each lost question."""
    lab.restore()
    started = time.perf_counter()
    DAMAGES[name](lab)
    trained = time.perf_counter() - started
    after = lab.score(lab.probe)
    looked = time.perf_counter() - started - trained
    weights = {key: value.clone() for key, value in lab.model.state_dict().items()}

    def both(asked: Probe) -> tuple[Snapshot, Snapshot]:
        now = lab.score(asked)
        lab.restore()
        base = lab.score(asked)
        lab.model.load_state_dict(weights)
        return base, now

    begun = time.perf_counter()
    found = ask_again(lab.before, after, lab.probe, both)
    asked_in = time.perf_counter() - begun
    # Of the clearly known, asked in each other wording.
    moved = lab.score(lab.worded).floats("correct") - lab.worded_before
    change = {name: float(moved[at :: len(OTHERS)].mean()) for at, name in enumerate(OTHERS)}
    whole = compare(before=lab.before, after=after).all
    counts, net = found.counts, whole[KNOWN]
    taught = (
        {(item.task, item.id) for item in lab.known[:CONTRADICTED]}
        if name == "contradicted"
        else set()
    )
    everywhere = {key for key, status in found.status.items() if status == "lost in every wording"}
    yield {
        "damage": name,
        "known": len(lab.known),
        "lost": counts.lost,
        "lost_elsewhere": counts.lost_elsewhere,
        "kept": counts.kept,
        "kept_elsewhere": counts.kept_elsewhere,
        "excess": counts.excess,
        "interval": counts.interval,
        "shipped": whole.accuracy_after - whole.accuracy_before,
        "change": change,
        "known_lost_net": None if net is None else net.lost_net,
        "taught_lost": len(taught & set(found.status)),
        "taught_everywhere": len(taught & everywhere),
        "seconds": {"training": trained, "look": looked, "again": asked_in},
    }
    for (task, one), status in found.status.items():
        yield {"damage": name, "task": task, "item_id": one, "status": status}


def table(out: Path) -> str:
    """Return the damages as Markdown."""
    rows = [json.loads(line) for line in (out / "again.jsonl").read_text().splitlines()]
    lines = [
        "| damage | change: shipped; of the known in short, right | lost | everywhere | of kept | excess | seconds |",
        f"|---|{'---|' * 6}",
    ]
    for row in rows:
        low, high = (100 * end for end in row["interval"])
        excess = "" if math.isnan(low) else f"{100 * row['excess']:.0f} % ({low:.0f} to {high:.0f})"
        change = ", ".join(f"{100 * value:+.1f}" for value in row["change"].values())
        cells = [
            row["damage"],
            f"{100 * row['shipped']:+.1f}; {change}",
            f"{row['lost']} of {row['known']}",
        ]
        cells += [str(row["lost_elsewhere"]), f"{row['kept_elsewhere']} of {row['kept']}", excess]
        cells.append(f"look {row['seconds']['look']:.0f}, again {row['seconds']['again']:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
        if row["taught_lost"]:
            found, lost, all_lost = (
                row["taught_everywhere"],
                row["taught_lost"],
                row["lost_elsewhere"],
            )
            lines.append(
                f"| | of {CONTRADICTED} taught {lost} lost, {found} everywhere; {all_lost} in all | | | | | |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "again.jsonl"
    done = (
        {json.loads(line)["damage"] for line in path.read_text().splitlines()}
        if path.exists()
        else set()
    )
    if not options.table:
        lab = Lab(options.model, options.items)
        print(f"{len(lab.known)} of {len(lab.probe)} clearly known", flush=True)
        for name in DAMAGES:
            if name in done:
                continue
            numbers, *items = damaged(lab, name)
            with (options.out / "items.jsonl").open("a") as file:
                file.writelines(json.dumps(item) + "\n" for item in items)
            with path.open("a") as file:
                file.write(json.dumps(numbers) + "\n")
            print(numbers, flush=True)
        lab.restore()
        again = compare(before=lab.before, after=lab.score(lab.probe, token_budget=512)).all
        print(
            f"the same weights in other batches: {again.forgotten:g} lost, {again.gained:g} gained"
        )
    print(table(options.out))


if __name__ == "__main__":
    main()
