"""Inputs of the golden outputs: snapshots, tables, logs and run folders from fixed generators and hand-set columns.

Nothing here is trained or scored by a model. `write_inputs` writes all into one folder; `capture` names its files.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetwatch import Item, Probe, Snapshot, save_snapshot
from forgetwatch.run_folder.description import GuardFinding
from forgetwatch.run_folder.folder import RunFolder

Floats = NDArray[np.float64]
Rng = np.random.Generator

SUBJECTS = ("Math", "Law", "Arts")
LEFT_OUT = "unscored: its answer was not asked for"
COLOURS = (" red", " green", " blue", " dark grey")


def write_inputs(folder: Path) -> None:
    """Write all inputs into a folder."""
    for write in (
        _choices,
        _letters,
        _written,
        _passages,
        _clusters,
        _samples,
        _harness,
        _vanished,
        _several,
        _tables,
    ):
        write(folder)
    _budget_run(folder / "budget")
    _plain_run(folder / "plain")
    _second_stage(folder / "stage2")
    (folder / "labels.csv").write_text("task,category\nreading,Texts\nlogic-*,Logic\nunused,None\n")
    (folder / "target.csv").write_text(
        "after,pass@1\nmild.parquet,0.52\nstrong.parquet,0.71\nruined.parquet,0.64\n"
    )


# Choices with scores


@dataclass(frozen=True)
class Model:
    """Scores of the options of each item, nats; what a snapshot of choices is made of."""

    items: Sequence[Item]
    scores: tuple[Floats, ...]

    @classmethod
    def of(cls, rng: Rng, items: Sequence[Item], *, lift: float = 1.8) -> Model:
        """A model that prefers the right options by `lift` nats."""
        scores = []
        for item in items:
            one = rng.normal(0, 1.2, len(item.choices))
            one[list(item.answers)] += lift
            scores.append(one)
        return cls(items, tuple(scores))

    def moved(
        self, rng: Rng, *, noise: float, fall: Callable[[Item], float] = lambda _: 0.0
    ) -> Model:
        """The model with noise on every score, and right options that fell by some nats."""
        scores = []
        for item, old in zip(self.items, self.scores, strict=True):
            one = old + rng.normal(0, noise, len(old))
            one[list(item.answers)] -= fall(item)
            scores.append(one)
        return Model(self.items, tuple(scores))

    def rows(self, rng: Rng, *, mass: float = 0.8) -> list[dict[str, Any]]:
        """Rows of a snapshot; the options have about `mass` of the probability together."""
        return [
            self._row(rng, item, one, mass)
            for item, one in zip(self.items, self.scores, strict=True)
        ]

    def _row(self, rng: Rng, item: Item, scores: Floats, mass: float) -> dict[str, Any]:
        total = min(0.999, mass * rng.uniform(0.7, 1.2))
        shares = np.exp(scores) / np.exp(scores).sum()
        chosen, ranked = int(scores.argmax()), np.sort(scores)
        texts = [choice.removeprefix(" ") for choice in item.choices]
        right = chosen in item.answers
        return {
            **_names(item),
            "k": len(texts),
            "gold": item.answers[0],
            "golds": list(item.answers) if len(item.answers) > 1 else None,
            "chosen": chosen,
            "correct": right,
            "choice_logprobs": np.log(total * shares).tolist(),
            "choice_chars": [len(text) for text in texts],
            "choice_bytes": [len(text.encode()) for text in texts],
            "choice_tokens": [len(text.split()) for text in texts],
            "gold_share": float(shares[list(item.answers)].sum()),
            "option_mass": total,
            "free_correct": right and bool(rng.random() < total),
            "margin": float(ranked[-1] - ranked[-2]),
            "unstable": bool(ranked[-1] - ranked[-2] < 0.02),
        }


def _names(item: Item) -> dict[str, Any]:
    return {
        "item_id": item.id,
        "content_hash": item.content_hash,
        "prompt_hash": f"p-{item.id}",
        "task": item.task,
        "category": item.category,
        "cluster": item.cluster,
    }


def _question(i: int, *, k: int | None = None) -> Item:
    subject = SUBJECTS[i % len(SUBJECTS)]
    number = k or (2 if i % 8 == 5 else 3 if i % 8 == 1 else 4)
    return Item(
        id=f"q{i}",
        task=f"math-{i // 3 % 2}" if subject == "Math" else subject.lower(),
        category=subject,
        prompt=f"Question {i}: which colour has {'kite' if i % 2 else 'boat'} number {i}?",
        choices=tuple(f"{colour} {i}" for colour in COLOURS[:number]),
        answer=i % number,
        must_pass=i in (3, 9),
    )


def _meta(probe: Probe, model: str, **more: Any) -> dict[str, Any]:
    of = {
        "name": probe.name,
        "fingerprint": probe.fingerprint,
        "items": len(probe),
        **probe.settings,
    }
    return {
        "model": model,
        "probe": of,
        "scorer": "loglikelihood/4",
        "engine": "transformers",
        "noise": 0.01,
        **more,
    }


def _snapshot(rows: Sequence[dict[str, Any]], meta: dict[str, Any]) -> Snapshot:
    rows = [{"outcome": "ok", **row} for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return Snapshot.from_columns({name: [row.get(name) for row in rows] for name in names}, meta)


def _without(
    rows: list[dict[str, Any]], which: Sequence[int], outcome: str
) -> list[dict[str, Any]]:
    """The rows, some of them without an outcome."""
    lost = (
        "chosen",
        "correct",
        "choice_logprobs",
        "gold_share",
        "option_mass",
        "free_correct",
        "margin",
        "unstable",
    )
    lost += ("output", "in_form")
    return [
        {**row, **dict.fromkeys(lost), "outcome": outcome} if i in which else row
        for i, row in enumerate(rows)
    ]


def _save(folder: Path, **snapshots: Snapshot) -> None:
    for name, one in snapshots.items():
        save_snapshot(one, folder / f"{name}.parquet")


def _choices(folder: Path) -> None:
    """Choices of k from 2 to 4 with all scores, some unscored, beside written answers; a null measurement."""
    rng = np.random.default_rng(11)
    questions = [_question(i) for i in range(180)]
    sums = _sums(24)
    probe = Probe([*questions, *sums], name="colours")
    probe.save(folder / "colours.jsonl")
    base = Model.of(rng, questions)
    tuned = base.moved(rng, noise=0.7, fall=lambda item: 1.6 if item.category == "Math" else -0.3)
    for name, model, right in (
        ("base", base, 0.8),
        ("again", base.moved(rng, noise=0.08), 0.78),
        ("tuned", tuned, 0.5),
    ):
        rows = model.rows(rng, mass=0.6 if name == "tuned" else 0.85)
        if name == "tuned":
            rows = _without(
                rows, (4, 70), "unscored: longer than the 512 tokens that the model reads"
            )
        rows += _answers(rng, sums, right)
        _save(
            folder,
            **{
                name: _snapshot(
                    rows, _meta(probe, "org/base" if name == "again" else f"org/{name}", step=0)
                )
            },
        )


def _letters(folder: Path) -> None:
    """Letters of listed options; some questions have two right ones."""
    rng = np.random.default_rng(12)
    items = [_question(i, k=4) for i in range(120)]
    items = [
        replace(item, answer=(i % 4, (i + 1) % 4)) if i % 10 == 0 else item
        for i, item in enumerate(items)
    ]
    probe = Probe(items, name="lettered", scoring="letters")
    base = Model.of(rng, items, lift=1.5)
    tuned = base.moved(rng, noise=0.5, fall=lambda item: 1.0 if item.category == "Law" else 0.0)
    for name, model, mass in (("letters-base", base, 0.9), ("letters-tuned", tuned, 0.4)):
        ones = [[1] * 4] * len(items)
        rows = [
            {**row, "choice_chars": one, "choice_bytes": one, "choice_tokens": one}
            for row, one in zip(model.rows(rng, mass=mass), ones, strict=True)
        ]
        _save(folder, **{name: _snapshot(rows, _meta(probe, name))})


# Generated answers


def _sums(number: int) -> list[Item]:
    return [
        Item(
            id=f"sum{i}",
            task="sums",
            category="Sums",
            prompt=f"What is {i} + 7?",
            answer=str(i + 7),
            match="number",
        )
        for i in range(number)
    ]


def _answers(
    rng: Rng, items: Sequence[Item], right: float, *, form: float = 0.9
) -> list[dict[str, Any]]:
    """Rows of generated answers, right with one probability and in their form with another."""
    rows = []
    for i, item in enumerate(items):
        is_right, in_form = bool(rng.random() < right), bool(rng.random() < form)
        text = (
            f"It is {i + 7 if is_right else i + 9}."
            if in_form
            else f"Well: {'so ' * (i % 3)}who knows {i}"
        )
        graded = is_right and in_form
        rows.append({**_names(item), "correct": graded, "output": text, "in_form": in_form})
    return rows


def _written(folder: Path) -> None:
    """Generated answers to open questions and to choices, which were also scored; a null measurement."""
    rng = np.random.default_rng(13)
    choices, sums = [_question(i, k=4) for i in range(60)], _sums(40)
    probe = Probe([*choices, *sums], name="written", scoring="generate")
    probe.save(folder / "written.jsonl")
    for name, right, form in (
        ("written-base", 0.8, 0.95),
        ("written-again", 0.78, 0.95),
        ("written-tuned", 0.55, 0.7),
    ):
        rows = _answers(rng, [*choices, *sums], right, form=form)
        for row, item in zip(rows, choices, strict=False):
            chosen = item.answers[0] if row["correct"] else (item.answers[0] + 1) % 4
            row |= {"k": 4, "gold": item.answers[0], "chosen": chosen if row["in_form"] else None}
            row |= {"forced_correct": row["correct"] or bool(rng.random() < 0.5)}
            row |= {
                "output": f"So the answer is {'ABCD'[chosen]}."
                if row["in_form"]
                else "I cannot say"
            }
            row |= {"outcome": "ok" if row["in_form"] else "no answer"}
        if name == "written-tuned":
            rows = _without(rows, (7, 77), "unscored: the model cannot generate here")
            rows[80] |= {"outcome": "truncated"}
        model = "org/base" if name == "written-again" else name
        _save(folder, **{name: _snapshot(rows, _meta(probe, model, rules=2))})


# Passages


def _passage(i: int) -> Item:
    subject = ("News", "Code")[i % 2]
    text = " ".join(f"word{(i * 7 + j) % 41}" for j in range(20 + i % 5))
    return Item(
        id=f"text{i}",
        task=f"passages:{subject.lower()}",
        category=subject,
        prompt="",
        choices=(text,),
    )


def _read(items: Sequence[Item], bits: Floats) -> list[dict[str, Any]]:
    """Rows of passages at some bits per byte."""
    rows = []
    for item, value in zip(items, bits.tolist(), strict=True):
        size = len(item.choices[0].encode())
        scores = {
            "choice_logprobs": [-value * size * float(np.log(2))],
            "choice_bytes": [size],
            "choice_chars": [size],
        }
        rows.append({**_names(item), **scores, "choice_tokens": [len(item.choices[0].split())]})
    return rows


def _passages(folder: Path) -> None:
    """Questions and passages together, and passages alone; one passage is unscored after."""
    rng = np.random.default_rng(14)
    questions, texts = [_question(i) for i in range(48)], [_passage(i) for i in range(30)]
    base = Model.of(rng, questions)
    tuned = base.moved(rng, noise=0.5, fall=lambda item: 0.6)
    bits = rng.uniform(0.8, 1.6, len(texts))
    worse = bits + rng.normal(0.06, 0.03, len(texts)) * (np.arange(len(texts)) % 2)
    both, alone = (
        Probe([*questions, *texts], name="texts and questions"),
        Probe(texts, name="texts"),
    )
    for name, model, now in (("base", base, bits), ("tuned", tuned, worse)):
        read = _read(texts, now)
        if name == "tuned":
            read = _without(read, (5,), "unscored: longer than the 512 tokens that the model reads")
        mixed = _snapshot(model.rows(rng) + read, _meta(both, f"mixed-{name}"))
        _save(
            folder,
            **{
                f"mixed-{name}": mixed,
                f"texts-{name}": _snapshot(read, _meta(alone, f"texts-{name}")),
            },
        )


# Bare outcomes


def _bare(n: int, right: Sequence[bool | None], model: str, **columns: Any) -> Snapshot:
    names = {"item_id": [f"i{j}" for j in range(n)], "content_hash": [f"h{j}" for j in range(n)]}
    return Snapshot.from_columns({**names, "correct": list(right), **columns}, {"model": model})


def _clusters(folder: Path) -> None:
    """Items in groups of five that flip together, and some alone."""
    rng = np.random.default_rng(15)
    n = 100
    labels = {
        "task": ["reading" if j < 60 else f"logic-{j % 2}" for j in range(n)],
        "category": ["Texts" if j < 60 else "" for j in range(n)],
        "cluster": [f"passage {j // 5}" if j < 60 else None for j in range(n)],
        "k": [4] * n,
    }
    for name, share in (("base", 0.75), ("tuned", 0.5)):
        right = np.r_[np.repeat(rng.random(12) < share, 5), rng.random(40) < share].tolist()
        _save(folder, **{f"clusters-{name}": _bare(n, right, f"clusters-{name}", **labels)})


def _samples(folder: Path) -> None:
    """Fifty items with four sampled answers each."""
    rng = np.random.default_rng(16)
    item, chance = [j // 4 for j in range(200)], np.repeat(rng.random(50), 4)
    labels = {
        "item_id": [f"i{j}" for j in item],
        "content_hash": [f"h{j}" for j in item],
        "sample": [j % 4 for j in range(200)],
        "task": [f"t{j % 3}" for j in item],
        "category": ["AB"[j % 2] for j in item],
    }
    for name, factor in (("base", 1.0), ("tuned", 0.75)):
        right = (rng.random(200) < factor * chance).tolist()
        _save(folder, **{f"samples-{name}": _bare(200, right, f"samples-{name}", **labels)})


def _vanished(folder: Path) -> None:
    """More than a twentieth of the answers are missing after, all of one category among them."""
    rng = np.random.default_rng(17)
    items = [_question(i, k=4) for i in range(100)]
    items += [replace(_question(i, k=4), category="Rare", task="rare") for i in range(100, 106)]
    probe = Probe(items, name="vanishing")
    base = Model.of(rng, items)
    tuned = base.moved(rng, noise=0.5)
    rows = _without(
        tuned.rows(rng),
        [*range(0, 40, 3), *range(100, 106)],
        "unscored: the model cannot generate here",
    )
    for name, some in (("gone-base", base.rows(rng)), ("gone-tuned", rows)):
        _save(folder, **{name: _snapshot(some, _meta(probe, name))})


def _several(folder: Path) -> None:
    """One base and three models after it."""
    rng = np.random.default_rng(18)
    items = [_question(i) for i in range(90)]
    probe = Probe(items, name="ranked")
    base = Model.of(rng, items)
    _save(folder, start=_snapshot(base.rows(rng), _meta(probe, "start")))
    for name, fall in (("mild", 0.1), ("strong", 0.9), ("ruined", 2.5)):
        moved = base.moved(
            rng, noise=0.4, fall=lambda item, fall=fall: fall if item.category != "Arts" else 0.0
        )
        _save(folder, **{name: _snapshot(moved.rows(rng), _meta(probe, name))})


def _tables(folder: Path) -> None:
    """Two tables of right and wrong, of items that are not all the same."""
    rng = np.random.default_rng(19)
    for name, items, share in (("one", range(50), 0.7), ("two", range(4, 53), 0.6)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["item_id", "correct", "task"])
            writer.writerows([f"i{i}", int(rng.random() < share), f"t{i % 2}"] for i in items)


# A log of lm-evaluation-harness


def _harness(folder: Path) -> None:
    """Logs of two tasks, graded by the sum and per character, which disagree on some items."""
    rng = np.random.default_rng(20)
    words = ("a", "bright red", "the colour of the sea at noon", "grau wie Fluß und Nebel")
    for run in ("base", "tuned"):
        at = folder / f"harness-{run}"
        at.mkdir()
        for task in ("colours_easy", "colours_hard"):
            rows = []
            for i in range(40):
                choices = [f"{word} {i}" for word in words]
                lengths = np.array([len(choice) for choice in choices])
                scores = (
                    -1.1 * lengths
                    + rng.normal(0, 9, 4)
                    + np.eye(4)[i % 4] * (12 if run == "base" else 7)
                )
                rows.append(_harness_row(i, task, scores, choices, lengths))
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (at / f"samples_{task}_2026-01-02T03-04-05.000006.jsonl").write_text(
                text, encoding="utf-8"
            )


def _harness_row(
    i: int, task: str, scores: Floats, choices: list[str], lengths: NDArray[np.int64]
) -> dict[str, Any]:
    gold, question = i % 4, f"{task}: what is seen in picture {i}?"
    graded = {
        "acc": float(scores.argmax() == gold),
        "acc_norm": float((scores / lengths).argmax() == gold),
    }
    answers = [[str(float(score)), "False"] for score in scores]
    return {
        "doc_id": i,
        "doc": {"question": question, "choices": choices, "answer": gold},
        "target": str(gold),
        "arguments": {
            f"gen_args_{n}": {"arg_0": f"{question}\nAnswer:", "arg_1": f" {c}"}
            for n, c in enumerate(choices)
        },
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": list(graded),
        "doc_hash": f"d{task}{i}",
        "prompt_hash": f"p{task}{i}",
        "target_hash": f"t{gold}",
        **graded,
    }


# Runs


def _write_run(
    folder: Path, probe: Probe, looks: Sequence[Snapshot], *, run: str, **described: Any
) -> None:
    """Write a run folder; the first look is the baseline.

    Args:
        folder: The output_dir.
        probe: The probe of the run.
        looks: The looks, by rising step.
        run: Id of the run.
        described: ``null``, a snapshot; ``planned`` looks; ``findings`` of the guard.
    """
    out = RunFolder(folder)
    out.run = run
    null = described.get("null")
    null = None if null is None else out.stamped(null, "null")
    baseline, *later = looks
    baseline = out.stamped(baseline, "baseline")
    out.start(probe, baseline, null)
    later = [out.stamped(look, "step") for look in later]
    for look in later:
        out.add(look, step=look.meta["step"])
    out.describe(
        {
            "null": null is not None,
            "looks": [{"step": look.meta["step"]} for look in later],
            "planned_looks": described.get("planned"),
            "guard": [vars(one) for one in described.get("findings", ())],
        }
    )


def _drift(step: int) -> dict[str, Any]:
    """Drift that grows with the step; more after prompts of the training than of the probe."""

    def of(scale: float) -> dict[str, Any]:
        kl = scale * step / 1000
        return {
            **{
                "completions": 24,
                "tokens": 711,
                "kl_sampled": 1.1 * kl,
                "kl_sampled_se": 0.2 * kl + 1e-4,
            },
            **{
                "overlap": float(np.exp(-4 * kl)),
                "overlap_se": 0.01,
                "kl_summed": kl,
                "kl_summed_se": 0.1 * kl,
            },
            "floor": {"kl_sampled": 2e-7, "kl_summed": 3e-8},
        }

    return {"probe": of(0.05), "training": of(0.4)}


def _budget_run(folder: Path) -> None:
    """A run with a budget: a prefix of the probe without generated answers, drift, a null, a resume and findings."""
    rng = np.random.default_rng(21)
    questions, texts, sums = (
        [_question(i) for i in range(200)],
        [_passage(i) for i in range(16)],
        _sums(12),
    )
    mixed = [
        *questions[:70],
        *texts[:8],
        *sums[:6],
        *questions[70:150],
        *texts[8:12],
        *questions[150:],
        *texts[12:],
    ]
    probe = Probe([*mixed, *sums[6:]], name="budgeted")
    prefix = 168
    base = Model.of(rng, questions)
    bits, slope = rng.uniform(0.8, 1.6, len(texts)), rng.uniform(0, 0.05, len(texts))

    def look(step: int, *, noise: float, whole: bool = False) -> Snapshot:
        fallen = base.moved(
            rng,
            noise=noise,
            fall=lambda item: step / 150 if item.category == "Math" else step / 900,
        )
        rows = {row["item_id"]: row for row in fallen.rows(rng, mass=0.9 - step / 1500)}
        rows |= {row["item_id"]: row for row in _read(texts, bits + slope * step / 100)}
        written = _answers(rng, sums, 0.8)
        if not whole:
            written = _without(written, range(len(sums)), LEFT_OUT)
        rows |= {row["item_id"]: row for row in written}
        meta = _meta(probe, "org/tiny", step=step, rules=2, drift=_drift(step))
        if not whole:
            meta["probe"] |= {"items": prefix, "of": len(probe), "missing_categories": ["Sums"]}
        return _snapshot([rows[item.id] for item in probe.items[: None if whole else prefix]], meta)

    looks = [
        look(0, noise=0.0, whole=True),
        *(look(step, noise=0.3) for step in (100, 200, 300, 400, 500, 600)),
    ]
    findings = [
        GuardFinding("alarm", "category:Math", 300, "ALARM net Math, step 300"),
        GuardFinding("policy", "all accuracy", 400, "all accuracy, step 400: beyond the limit"),
        GuardFinding("must_pass", "q3", 500, "q3, step 500: wrong, and it must be right"),
    ]
    null = look(0, noise=0.05, whole=True)
    kept = {"planned": 7, "findings": findings, "null": null}
    _write_run(folder, probe, looks, run="00000000000000b1", **kept)


def _plain_looks(steps: Sequence[int], *, seed: int, begin: float) -> tuple[Probe, list[Snapshot]]:
    rng = np.random.default_rng(22)
    items = [_question(i, k=4) for i in range(150)]
    probe = Probe(items, name="plain")
    base = Model.of(rng, items)
    rng = np.random.default_rng(seed)
    fall = {"Math": 0.015, "Law": 0.004, "Arts": -0.004}
    looks = []
    for step in steps:
        model = base.moved(
            rng, noise=0.3, fall=lambda item, by=step + begin: fall[item.category] * by
        )
        looks.append(_snapshot(model.rows(rng), _meta(probe, "org/plain", step=step)))
    return probe, looks


def _plain_run(folder: Path) -> None:
    """A run of choices with four looks and no plan."""
    probe, looks = _plain_looks((0, 40, 80, 120, 160), seed=23, begin=0)
    _write_run(folder, probe, looks, run="00000000000000c2")


def _second_stage(folder: Path) -> None:
    """A run that goes on where the plain one ended."""
    probe, looks = _plain_looks((0, 50), seed=24, begin=160)
    _write_run(folder, probe, looks, run="00000000000000d3", planned=1)
