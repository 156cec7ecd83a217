"""Compare the forms of a probe's prompts on a real model and its fine-tunings: accuracy, stability, power.

    python benchmarks/real_model/forms.py MODEL OUT [--probe standard] [--items 500] [--forms shipped,blank,prior]
    python benchmarks/real_model/forms.py MODEL OUT --table > tables.md

OUT is the folder of `measure.py`, whose trainings are used. Every finished cell is a file, and a second run resumes
with the cells that are missing; `--probe` may be a file, such as the one of an earlier version. ITEMS and FINGERPRINT
are of the probe, so that the cells of another probe or size are never taken for its own. `--table` prints all finished
cells, the accuracy of the shipped form by category, and the difference of t between the labels.

    OUT/forms/LABEL-ITEMS-FINGERPRINT-FORM-MODEL.parquet   outcomes; the processor seconds of the look in .seconds

form       shipped   as the probe has them
           bare      without the worked examples
           examples  with five worked examples of each category, from `--examples` (for a probe that has none)
           blank     as shipped, with an empty line before "Answer:"
           examples+blank  both
           qa        as shipped, with "Q:" and "A:"
           prior     the options without any question

z is the net flips over their standard error, t the calibrated log score's change over its own, both with bootstrap
intervals over the items. "t per root second" divides t by the root of the seconds, since t grows with the root of the
number of items.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from measure import interpolate, shown
from report import Pair, z_of
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Item, Probe, load_probe, load_snapshot, save_snapshot
from forgetwatch.metrics.known import TAU
from forgetwatch.scoring.scorer import Scorer

MODELS: Final = {
    "start": ("start", 0.0),
    "mild": ("narrow", 1.0),
    "faint": ("destroy", 0.25),
    "ruin": ("destroy", 1.0),
}
"""Training and dose of each model: the start, a narrow training, and a destructive one in part and in full."""

DRAWS: Final = 1000
SEED: Final = 20261122


def main() -> None:
    """Score the cells that are missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--probe",
        default="standard",
        help="name or file; the cells carry its name unless --label is given",
    )
    parser.add_argument("--label", help="name of the probe in the cells")
    parser.add_argument(
        "--examples",
        default="confirmation",
        help="probe of the worked examples of the form 'examples'",
    )
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--forms", default="shipped,blank")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument(
        "--table", action="store_true", help="print the table of all finished cells"
    )
    given = parser.parse_args()
    folder = given.out / "forms"
    if given.table:
        print("\n".join([*table(folder), "", *category_table(folder), "", *differences(folder)]))
        return
    folder.mkdir(exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    probe = load_probe(given.probe)
    probe = probe.head(given.items)
    shots = worked_examples(load_probe(given.examples)) if "examples" in given.forms else {}
    label = cell_label(given.label or probe.name, probe)
    for name in given.models.split(","):
        for form in given.forms.split(","):
            target = folder / f"{label}-{form}-{name}.parquet"
            if target.exists():
                continue
            interpolate(model, start, given.out, *MODELS[name])
            scorer = Scorer(in_form(probe, form, shots), tokenizer, model)
            began = time.process_time()
            save_snapshot(shown(scorer, model, target.stem), target)
            target.with_suffix(".seconds").write_text(f"{time.process_time() - began:.1f}\n")


def cell_label(name: str, probe: Probe) -> str:
    """Beginning of the names of a probe's cells: another size, or other items, have other cells."""
    return f"{name}-{len(probe)}-{probe.fingerprint[:8]}"


def worked_examples(probe: Probe) -> dict[str, str]:
    """Five short questions of each category with their answers, as text."""
    of_category: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(probe, key=lambda one: (len(str(one.prompt)), one.id)):
        if {"difficulty:1", "difficulty:2"} & set(item.tags) and len(item.choices) > 2:
            of_category[item.category].append(item)
    return {
        category: "".join(
            f"{one.prompt}{one.choices[int(one.answers[0])]}\n\n" for one in items[:5]
        )
        for category, items in of_category.items()
    }


def in_form(probe: Probe, form: str, shots: dict[str, str]) -> Probe:
    """The probe with its prompts in another form; see the module."""

    def item(one: Item) -> Item:
        if form == "bare":
            return replace(one, shots="")
        if form == "examples":
            return replace(one, shots=shots[one.category])
        if form == "examples+blank":
            return replace(one, shots=blank(shots[one.category]), prompt=blank(str(one.prompt)))
        if form == "prior":
            return replace(
                one, shots="", prompt="Answer:" if str(one.prompt).endswith("Answer:") else "\n"
            )
        if form == "blank":
            return replace(one, shots=blank(one.shots), prompt=blank(str(one.prompt)))
        if form == "qa":
            return replace(one, shots=qa(one.shots), prompt=qa(str(one.prompt)))
        return one

    return replace(probe, items=tuple(map(item, probe)), name=f"{probe.name}-{form}")


def blank(text: str) -> str:
    """The text with an empty line before each answer."""
    return text.replace("\nAnswer:", "\n\nAnswer:")


def qa(text: str) -> str:
    """The text with short labels."""
    return re.sub(
        r"^Answer:", "A:", re.sub(r"^Question:", "Q:", text, flags=re.MULTILINE), flags=re.MULTILINE
    )


def table(folder: Path) -> Iterator[str]:
    """Lines of the table of all finished cells."""
    yield (
        "| probe, form | items | accuracy (chance) | option mass, median | known, of these by luck | changed choices "
        "| seconds | damage | net flips z | log score t | t per root second |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for path in sorted(folder.glob("*-start.parquet")):
        label, form, _ = path.stem.rsplit("-", 2)
        before = load_snapshot(path)
        seconds = float(path.with_suffix(".seconds").read_text())
        correct, k = before.floats("correct"), before.floats("k")
        share = before.floats("gold_share")
        mass = np.array(
            [
                np.exp(np.logaddexp.reduce(row))
                for row in before.table["choice_logprobs"].to_pylist()
            ]
        )
        # A blank line is compared with the same form without it.
        plain = (
            folder
            / f"{label}-{'examples' if form == 'examples+blank' else 'shipped'}-start.parquet"
        )
        moved = "" if plain == path or not plain.exists() else f"{changed(plain, path):.1%}"
        cells = [
            f"{label}, {form}",
            f"{len(before):,}",
            f"{correct.mean():.3f} ({(1 / k).mean():.3f})",
            f"{np.median(mass):.4f}",
        ]
        cells += [lucky(before, share), moved, f"{seconds:.0f}"]
        damages = [
            name
            for name in MODELS
            if name != "start" and (folder / f"{label}-{form}-{name}.parquet").exists()
        ]
        if not damages:
            yield f"| {' | '.join(cells)} | | | | |"
        for number, name in enumerate(damages):
            after = load_snapshot(folder / f"{label}-{form}-{name}.parquet")
            one = Pair.of(before, after, name=name)
            flips = one.pairs.after.astype(float) - one.pairs.before.astype(float)
            scores = one.differences()
            z, t = interval(flips), interval(scores)
            per = z_of(scores) / seconds**0.5
            head = cells if number == 0 else [""] * len(cells)
            yield f"| {' | '.join(head)} | {name} | {z} | {t} | {per:.2f} |"


def category_table(folder: Path) -> Iterator[str]:
    """Lines of a table of the accuracy of the shipped form by category, for each label and model."""
    cells: dict[str, list[str]] = defaultdict(list)
    heads = []
    for path in sorted(folder.glob("*-shipped-start.parquet")):
        label = path.stem.removesuffix("-shipped-start")
        heads.append(f"{label}, chance")
        start = load_snapshot(path)
        kinds = np.array(start.table["category"].to_pylist())
        columns = [1 / start.floats("k")]
        for name in MODELS:
            if (one := path.with_name(f"{label}-shipped-{name}.parquet")).exists():
                heads.append(name)
                columns.append(load_snapshot(one).floats("correct"))
        for kind in np.unique(kinds):
            cells[str(kind)] += [f"{column[kinds == kind].mean():.2f}" for column in columns]
    yield f"| category | {' | '.join(heads)} |"
    yield f"|{'---|' * (len(heads) + 1)}"
    yield from (f"| {kind} | {' | '.join(row)} |" for kind, row in cells.items())


def differences(folder: Path) -> Iterator[str]:
    """Lines of a table of the difference of t between two labels in the shipped form, with bootstrap intervals."""
    yield "| from, to | damage | t | difference of t |"
    yield "|---|---|---|---|"
    labels = [
        path.stem.removesuffix("-shipped-start")
        for path in sorted(folder.glob("*-shipped-start.parquet"))
    ]
    for first, second in combinations(labels, 2):
        for name in MODELS:
            sides = [
                [folder / f"{label}-shipped-{one}.parquet" for one in ("start", name)]
                for label in (first, second)
            ]
            if name == "start" or not all(path.exists() for side in sides for path in side):
                continue
            one, other = (
                Pair.of(*map(load_snapshot, side), name=name).differences() for side in sides
            )
            rng = np.random.default_rng(SEED)
            # Two probes share no item: each is drawn by itself.
            drawn = [
                z_of(rng.choice(other, len(other))) - z_of(rng.choice(one, len(one)))
                for _ in range(DRAWS)
            ]
            low, high = np.quantile(drawn, (0.025, 0.975))
            before, after = z_of(one), z_of(other)
            yield (
                f"| {first}, {second} | {name} | {before:+.1f}, {after:+.1f} "
                f"| {after - before:+.1f} ({low:+.1f} to {high:+.1f}) |"
            )


def lucky(snapshot: Any, share: Any) -> str:
    """Number of clearly known answers and the share of them that guessing makes, as far as wrong answers show it."""
    correct, k = snapshot.floats("correct") == 1, snapshot.floats("k")
    best = np.array(
        [
            np.exp(np.max(row) - np.logaddexp.reduce(row))
            for row in snapshot.table["choice_logprobs"].to_pylist()
        ]
    )
    counted = (k >= 3) & (best >= TAU)
    known, wrong = int((correct & counted).sum()), ~correct & counted
    return f"{known}, {(1 / (k[wrong] - 1)).sum() / max(known, 1):.0%}"


def changed(one: Path, other: Path) -> float:
    """Share of the items whose choice differs."""
    first, second = load_snapshot(one), load_snapshot(other)
    return float(np.mean(first.floats("chosen") != second.floats("chosen")))


def interval(values: Any) -> str:
    """Mean over its standard error, with a bootstrap interval."""
    rng = np.random.default_rng(SEED)
    drawn = [z_of(values[rng.integers(0, len(values), len(values))]) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{z_of(values):+.1f} ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    main()
