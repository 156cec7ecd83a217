"""Counts of a run, made again from its checkpoints by plain calls of transformers: one text at a time, nothing shared.

    python tests/real_model/plain.py OUTPUT_DIR [--start MODEL] [--items N]

For each look that has a checkpoint, the items of the look are scored by the model at the start and by the checkpoint,
and counted. The counts are printed next to those of forgetwatch's comparison over the same items; the exit status is 1
if one differs. From OUTPUT_DIR/_forgetwatch come the questions, which of them a look evaluated, and forgetwatch's
numbers, nothing else. Items whose margin forgetwatch gives as unstable are left out: rounding may decide them. Needed
is a probe of options with plain prompts, decided by the sum.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import compare, load_snapshot
from forgetwatch.metrics.known import TAU

Key = tuple[str, str]
"""Task and id of an item."""


@dataclass(frozen=True)
class Question:
    """An item of the probe: its text with the worked examples, its options, and the indices of the right ones."""

    prompt: str
    choices: tuple[str, ...]
    golds: frozenset[int]


Scores = Mapping[Key, Sequence[float]]
"""Log-likelihood of each option of each item, nats."""


@dataclass(frozen=True)
class Recount:
    """Numbers of one look, made twice over the same items.

    Attributes:
        items: Number of items that were counted.
        unstable: Items left out because rounding may decide them.
        difference: Largest difference of a log-likelihood, nats.
        plain: Numbers by name, made here.
        stated: The same, of forgetwatch's comparison.
    """

    items: int
    unstable: int
    difference: float
    plain: dict[str, float]
    stated: dict[str, float]


def main() -> int:
    """Print the numbers of each look that has a checkpoint; 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output_dir", type=Path)
    parser.add_argument(
        "--start", help="model before the training; by default the one that the baseline names"
    )
    parser.add_argument("--items", type=int, help="first items of each look; by default all")
    given = parser.parse_args()
    looks = sorted((given.output_dir / "_forgetwatch").glob("step-*.parquet"))
    steps = [int(path.stem.removeprefix("step-")) for path in looks]
    steps = [step for step in steps if (given.output_dir / f"checkpoint-{step}").is_dir()]
    if not steps:
        sys.exit(
            f"{given.output_dir}: needed a look and the checkpoint of the same step, found none"
        )
    differs = False
    for step in steps:
        found = recount(given.output_dir, step=step, start=given.start, items=given.items)
        print(f"step {step}: {found.items} items, {found.unstable} unstable left out,", end=" ")
        print(f"log-likelihoods within {found.difference:.1e} nats")
        for name, value in found.plain.items():
            same = math.isclose(value, found.stated[name], abs_tol=1e-4)
            differs |= not same
            note = "" if same else "   DIFFERS"
            print(
                f"  {name:<28} plain {value:10.4f}   forgetwatch {found.stated[name]:10.4f}{note}"
            )
    return int(differs)


def recount(
    output_dir: Path, *, step: int, start: str | Path | None = None, items: int | None = None
) -> Recount:
    """Numbers of the look at a step, made from the models and by forgetwatch.

    Args:
        output_dir: Folder of the run, with the checkpoint of the step.
        step: Step of the look.
        start: Model before the training; None for the one that the baseline names.
        items: First items of the look; None for all.
    """
    folder = output_dir / "_forgetwatch"
    files = folder / "baseline.parquet", folder / f"step-{step:06}.parquet"
    questions = read_questions(folder / "probe.jsonl")
    tables = [
        pq.read_table(path, columns=["task", "item_id", "unstable", "choice_logprobs"])
        for path in files
    ]
    recorded = [
        {(row["task"], row["item_id"]): row for row in table.to_pylist()} for table in tables
    ]
    evaluated = [key for key in recorded[1] if key in questions][:items]
    keys = [key for key in evaluated if not any(side[key]["unstable"] for side in recorded)]
    asked = {key: questions[key] for key in keys}
    start = start or json.loads(pq.read_schema(files[0]).metadata[b"forgetwatch"])["model"]
    scores = [score(model, asked) for model in (start, output_dir / f"checkpoint-{step}")]
    differences = [
        abs(value - other)
        for own, side in zip(scores, recorded, strict=True)
        for key in keys
        for value, other in zip(own[key], side[key]["choice_logprobs"], strict=True)
    ]
    numbers = count(asked, *scores)
    theirs = stated(*files, set(keys), names=numbers)
    # A comparison of few items gives no change of the log score.
    numbers = {name: value for name, value in numbers.items() if name in theirs}
    return Recount(
        items=len(keys),
        unstable=len(evaluated) - len(keys),
        difference=max(differences, default=0.0),
        plain=numbers,
        stated=theirs,
    )


def read_questions(path: Path) -> dict[Key, Question]:
    """Items with options of a probe."""
    header, *lines = path.read_text(encoding="utf-8").strip().split("\n")
    settings = json.loads(header)["forgetwatch_probe"]
    if (settings["rendering"], settings["norm"]) != ("plain", "sum"):
        sys.exit(f"{path}: needed plain prompts and options decided by the sum, got {settings}")
    found = {}
    for row in map(json.loads, lines):
        if row.get("choices"):
            golds = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
            found[row["task"], row["id"]] = Question(
                row.get("shots", "") + row["prompt"], tuple(row["choices"]), frozenset(golds)
            )
    return found


def score(model: str | Path, questions: Mapping[Key, Question]) -> dict[Key, Sequence[float]]:
    """Log-likelihood of each option after its prompt, each text in a call of its own."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    return {
        key: [log_likelihood(network, tokenizer, one.prompt, choice) for choice in one.choices]
        for key, one in questions.items()
    }


@torch.no_grad()
def log_likelihood(network: Any, tokenizer: Any, prompt: str, choice: str) -> float:
    """Sum over the tokens of a choice of their log-probabilities after the prompt, nats."""
    context, whole = (
        tokenizer(text, add_special_tokens=False).input_ids for text in (prompt, prompt + choice)
    )
    if whole[: len(context)] != context:
        raise ValueError(f"the tokens of {prompt!r} change when {choice!r} follows")
    logits = network(input_ids=torch.tensor([whole])).logits[
        0, len(context) - 1 : -1
    ]  # each predicts the next token
    log_probabilities = logits.double().log_softmax(-1)
    return sum(
        float(row[token])
        for row, token in zip(log_probabilities, whole[len(context) :], strict=True)
    )


def count(questions: Mapping[Key, Question], before: Scores, after: Scores) -> dict[str, float]:
    """Counts and log scores, by their names in a comparison."""
    names = ("forgotten", "gained", "known", "known_lost", "known_by_luck", "known_lost_by_luck")
    found = dict.fromkeys(names, 0.0)
    for key, question in questions.items():
        golds, k = question.golds, len(question.choices)
        was, now = (max(range(k), key=side[key].__getitem__) for side in (before, after))
        lost = was in golds and now not in golds
        found["forgotten"] += lost
        found["gained"] += was not in golds and now in golds
        shares = [math.exp(value) for value in log_softmax(before[key])]
        if k - len(golds) < 2:  # a wrong answer has no other wrong option to go to
            continue
        if was in golds:
            known = sum(shares[gold] for gold in golds) >= TAU
            found["known"] += known
            found["known_lost"] += known and lost
        elif shares[was] >= TAU:
            found["known_by_luck"] += len(golds) / (k - len(golds))
            if now not in golds and now != was:
                found["known_lost_by_luck"] += len(golds) / (k - len(golds) - 1)
    found["known_lost_net"] = found["known_lost"] - found["known_lost_by_luck"]
    found["log_score_before"], found["log_score_after"] = (
        log_score(questions, before),
        log_score(questions, after),
    )
    found["log_score_change"] = found["log_score_after"] - found["log_score_before"]
    return found


def log_softmax(scores: Iterable[float]) -> list[float]:
    """Logarithms of the options' shares."""
    values = [*scores]
    total = math.log(sum(math.exp(value - max(values)) for value in values)) + max(values)
    return [value - total for value in values]


def log_score(questions: Mapping[Key, Question], scores: Scores) -> float:
    """Mean logarithm of the share of the right options, nats an item."""
    logs = [
        math.log(sum(math.exp(log_softmax(scores[key])[gold]) for gold in one.golds))
        for key, one in questions.items()
    ]
    return math.fsum(logs) / len(logs)


def stated(before: Path, after: Path, keys: Set[Key], *, names: Iterable[str]) -> dict[str, float]:
    """Numbers of forgetwatch's own comparison of two snapshots over some items, without those that it does not give."""
    sides = []
    for snapshot in map(load_snapshot, (before, after)):
        rows = zip(snapshot.texts("task"), snapshot.texts("item_id"), strict=True)
        kept = [at for at, key in enumerate(rows) if key in keys]
        # Without its fingerprint: it names the whole probe.
        meta = {**snapshot.meta, "probe": {**snapshot.meta["probe"], "fingerprint": None}}
        sides.append(replace(snapshot, table=snapshot.table.take(kept), meta=meta))
    group = compare(before=sides[0], after=sides[1]).all
    return {name: value for name in names if (value := group[name]) is not None}


if __name__ == "__main__":
    sys.exit(main())
