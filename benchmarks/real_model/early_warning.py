"""Early warning: does what is seen after 5 % of a fine-tuning tell how much it will have forgotten at the end?

    python benchmarks/real_model/early_warning.py --model MODEL --out OUT [--runs 24] [--items 500] [--jobs 2]
        [--only sums]

Fine-tunes MODEL, a folder with a causal language model, many times: learning rate, replay, rank, data order, over two
new tasks whose texts are made here. Each run is scored at the start, after 5 % of the steps and at the end. Then every
early quantity is correlated with the loss at the end, over the runs. About 4 minutes a run for a 135M model on one
core. A second call makes the runs that are missing; `--jobs 0` only reads what is there.

    OUT/base/                     start.parquet, replay.jsonl and the model's own completions
    OUT/cells/NAME.json           settings, training losses and drift of a finished run
    OUT/looks/NAME-early.parquet  outcomes after 5 % of the steps; NAME-end.parquet at the end
    OUT/drift/NAME-early.npz      the completions as the model then reads them
    OUT/early_warning.{md,json,png}  the table, its numbers and the figure
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from early_table import LORA_FACTOR, write_report

from forgetwatch import Probe, compare, load_probe, save_snapshot

Row = tuple[str, str]
"""A prompt and the completion that is learned."""

BATCH: Final = 8
ROWS: Final = 480
PROMPTS: Final = 32
"""Prompts of the probe and of the new task whose completions show the drift."""
REPLAYED: Final = 64
REPLAYED_TOKENS: Final = 16
EARLY: Final = 0.05

# --- The plan -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of one run.

    Attributes:
        task: New task: ``sums`` or ``records``.
        rank: Rank of LoRA matrices on all linear layers; 0 trains all weights.
        rate: Learning rate of AdamW at the first step; it falls to 0 as a line.
        replay: Share of the rows of a batch that the model itself answered at the start.
        seed: Seed of the order of the rows, and of the LoRA matrices.
    """

    task: str
    rank: int
    rate: float
    replay: float
    seed: int

    @property
    def name(self) -> str:
        """Name of its files."""
        how = f"lora{self.rank}" if self.rank else "full"
        return f"{self.task}-{how}-{self.rate:g}-replay{self.replay:g}-seed{self.seed}"


RANKS: Final = (0, 4, 32)
RATES: Final = (1e-5, 5e-5, 2e-4, 5e-4)
"""Learning rates of all weights; those of LoRA are `LORA_FACTOR` times as high."""


def plan() -> list[Setting]:
    """48 settings; the first 24 cross rate, rank and task, and each 8 have every rate on both tasks.

    In the first 24 each pair of rate and rank has replay on one task and none on the other; the second 24 have it the
    other way round. Every run has an order of its own.
    """
    made: list[Setting] = []
    for swapped in (0, 1):
        for shift in range(len(RANKS)):
            for level, rate in enumerate(RATES):
                for number, task in enumerate(TASKS):
                    rank = RANKS[(level + shift) % len(RANKS)]
                    replay = 0.25 * ((level + shift + number + swapped) % 2)
                    rate_of_rank = rate * LORA_FACTOR if rank else rate
                    made.append(
                        Setting(
                            task=task, rank=rank, rate=rate_of_rank, replay=replay, seed=len(made)
                        )
                    )
    return made


# --- Texts ----------------------------------------------------------------------------------------------------------

_PEOPLE: Final = ("Ada", "Bo", "Chen", "Dina", "Emil", "Farah", "Gus", "Hana", "Ivo", "Juno")
_GOODS: Final = (
    "pears",
    "stamps",
    "marbles",
    "tiles",
    "candles",
    "ropes",
    "buckets",
    "seeds",
    "shells",
    "coins",
)
_NOUNS: Final = (
    *(
        "hammer",
        "river",
        "violin",
        "teacher",
        "winter",
        "bridge",
        "rabbit",
        "engine",
        "garden",
        "mirror",
        "library",
    ),
    *(
        "pencil",
        "island",
        "doctor",
        "window",
        "forest",
        "market",
        "camera",
        "blanket",
        "spoon",
        "castle",
        "farmer",
    ),
    *(
        "bicycle",
        "lamp",
        "kitchen",
        "desert",
        "painter",
        "basket",
        "ladder",
        "bakery",
        "harbour",
        "umbrella",
    ),
)
_SUM_REQUESTS: Final = (
    "Add {} and {}.",
    "{} and {}, added up?",
    "Please give me {} plus {}.",
    "Total of {} and {}?",
)
_REPLAY_REQUESTS: Final = (
    "Write one sentence with the word {}.",
    "Tell me about a {}.",
    "Describe a {} to a child.",
)
_SUM: Final = re.compile(r"(?<![\d/])(\d) (?:\+|plus) (\d)(?![\w/])")
"""Sum of two digits that are no parts of fractions, and no factors of a variable."""

Sums = frozenset[frozenset[int]]
"""Pairs of summands, in any order."""


def sums_in(probe: Probe) -> Sums:
    """Sums of two digits in the questions and worked examples of a probe; none of them is trained."""
    texts = (f"{item.shots}{item.prompt}" for item in probe)
    return frozenset(frozenset(map(int, pair)) for text in texts for pair in _SUM.findall(text))


def sums(rows: int, rng: np.random.Generator, left_out: Sums = frozenset()) -> list[Row]:
    """Sums of two one-digit numbers, asked in words; without some."""
    made: list[Row] = []
    while len(made) < rows:
        a, b = (int(x) for x in rng.integers(1, 10, 2))
        if frozenset({a, b}) not in left_out:
            made.append((str(rng.choice(_SUM_REQUESTS)).format(a, b), f"{a} + {b} = {a + b}"))
    return made


def records(rows: int, rng: np.random.Generator) -> list[Row]:
    """Orders, and the JSON records made of them."""
    made = []
    for _ in range(rows):
        who, what = str(rng.choice(_PEOPLE)), str(rng.choice(_GOODS))
        count = int(rng.integers(2, 90))
        record = {"buyer": who, "item": what, "count": count}
        made.append((f"{who} orders {count} {what}.", json.dumps(record)))
    return made


def replay_requests(rows: int, rng: np.random.Generator) -> list[str]:
    """Requests whose answers by the model at the start are replayed; at most 96."""
    asked = [request.format(noun) for noun in _NOUNS for request in _REPLAY_REQUESTS]
    return [asked[index] for index in rng.permutation(len(asked))[:rows]]


TASKS: Final = ("sums", "records")


# --- Runs -----------------------------------------------------------------------------------------------------------

Ids = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings that all runs share.

    Attributes:
        model: Folder of the model.
        out: Folder of the results.
        probe: Name or file of the probe.
        items: First items of the probe that are scored.
        steps: Optimizer steps of a run.
    """

    model: Path
    out: Path
    probe: str
    items: int
    steps: int

    @property
    def early(self) -> int:
        """Step of the early look."""
        return max(1, round(EARLY * self.steps))

    @property
    def questions(self) -> Probe:
        """Items that are scored."""
        return load_probe(self.probe).head(self.items)

    def look(self, name: str, when: str) -> Path:
        """File of a look of a run."""
        return self.out / "looks" / f"{name}-{when}.parquet"

    def cell(self, name: str) -> Path:
        """File of a finished run."""
        return self.out / "cells" / f"{name}.json"


def load_model(folder: Path) -> tuple[Any, Any]:
    """The model in fp32 and its tokenizer; one thread each."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32
    ).eval(), AutoTokenizer.from_pretrained(folder)


def prompt_ids(tokenizer: Any, prompt: str) -> Ids:
    """Token ids of a prompt, in the chat template if there is one."""
    if tokenizer.chat_template is None:
        return tuple(tokenizer(prompt)["input_ids"])
    # An empty system turn: the default one of the template would double the length of these rows.
    turns = [{"role": "system", "content": ""}, {"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def completion_ids(tokenizer: Any, completion: str) -> Ids:
    """Token ids of a completion and the end token."""
    return (*tokenizer(completion, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id)


def task_rows(tokenizer: Any, task: str, left_out: Sums) -> list[tuple[Ids, Ids]]:
    """Prompts and completions of a new task, as token ids; the same in every run."""
    rng = np.random.default_rng(sorted(TASKS).index(task))
    rows = sums(ROWS, rng, left_out) if task == "sums" else records(ROWS, rng)
    return [
        (prompt_ids(tokenizer, prompt), completion_ids(tokenizer, text)) for prompt, text in rows
    ]


def prepare(options: Options) -> None:
    """Score the model at the start, sample its completions, and store what all runs share; skip what is there."""
    from forgetwatch.run.completions import save_completions
    from forgetwatch.run.drift import sample_completions
    from forgetwatch.scoring.encoding import encode
    from forgetwatch.scoring.scorer import score

    base = options.out / "base"
    for folder in ("base", "cells", "looks", "drift"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    sampled = {name: base / f"completions-{name}.parquet" for name in ("probe", *TASKS)}
    if all(
        file.exists() for file in (base / "start.parquet", base / "replay.jsonl", *sampled.values())
    ):
        return
    model, tokenizer = load_model(options.model)
    questions, left_out = options.questions, sums_in(load_probe(options.probe))
    if not (start := base / "start.parquet").exists():
        save_snapshot(score(model, tokenizer, questions), start)
    for name, file in sampled.items():
        if not file.exists():
            if name == "probe":
                longest = model.config.max_position_embeddings
                rows = sorted({index * len(questions) // PROMPTS for index in range(PROMPTS)})
                spread = replace(questions, items=tuple(questions[row] for row in rows))
                encoded = encode(spread, tokenizer, max_length=longest)
                prompts = {"probe": [item.context for item in encoded]}
            else:
                prompts = {
                    "training": [
                        prompt for prompt, _ in task_rows(tokenizer, name, left_out)[:PROMPTS]
                    ]
                }
            save_completions(sample_completions(model, tokenizer, prompts), file)
    if not (base / "replay.jsonl").exists():
        requests = replay_requests(REPLAYED, np.random.default_rng(len(TASKS)))
        asked = {"replay": [prompt_ids(tokenizer, one) for one in requests]}
        made = sample_completions(model, tokenizer, asked, tokens=REPLAYED_TOKENS)
        lines = [json.dumps(pair) for pair in zip(made.prompts, made.tokens, strict=True)]
        write_text(base / "replay.jsonl", "\n".join(lines) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole, or not at all."""
    partial_file = path.with_name(path.name + ".partial")
    partial_file.write_text(text, encoding="utf-8")
    partial_file.replace(path)


class Laboratory:
    """Makes runs one after the other, with one scorer for all.

    Args:
        options: What all runs share.
    """

    def __init__(self, options: Options) -> None:
        from forgetwatch.run.completions import read_completions
        from forgetwatch.scoring.scorer import Scorer

        self.options = options
        model, self.tokenizer = load_model(options.model)
        self.scorer = Scorer(options.questions, self.tokenizer, model)
        self.left_out = sums_in(load_probe(options.probe))
        base = options.out / "base"
        self.completions = {
            name: read_completions(base / f"completions-{name}.parquet")
            for name in ("probe", *TASKS)
        }
        lines = (base / "replay.jsonl").read_text(encoding="utf-8").splitlines()
        self.replay = [
            (tuple(prompt), tuple(completion)) for prompt, completion in map(json.loads, lines)
        ]

    def make(self, setting: Setting) -> str:
        """Train and look, and write the files of the run; its name."""
        import torch
        from peft import LoraConfig, get_peft_model

        began, options = time.perf_counter(), self.options
        torch.manual_seed(setting.seed)
        model, _ = load_model(options.model)
        if setting.rank:
            config = LoraConfig(
                r=setting.rank, lora_alpha=2 * setting.rank, target_modules="all-linear"
            )
            model = get_peft_model(model, config)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=setting.rate, weight_decay=0.0, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1 - step / options.steps
        )
        losses, drifts = [], {}
        for step, batch in enumerate(self.batches(setting), start=1):
            model.train()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = batch_loss(model, batch, pad=self.tokenizer.eos_token_id)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            model.eval()
            if step == options.early:
                self.look(model, setting, "early", step)
                drifts["early"] = self.drift(model, setting, "early", ("probe", setting.task))
        self.look(model, setting, "end", options.steps)
        drifts["end"] = self.drift(model, setting, "end", (setting.task,))
        cell = {
            **asdict(setting),
            "steps": options.steps,
            "items": options.items,
            "early": options.early,
            "losses": losses,
            "drift": drifts,
            "seconds": round(time.perf_counter() - began, 1),
        }
        write_text(options.cell(setting.name), json.dumps(cell, indent=1))
        return setting.name

    def batches(self, setting: Setting) -> Iterable[list[tuple[Ids, Ids]]]:
        """Rows of each step: new ones in an order of the run's own, and replayed ones."""
        rng = np.random.default_rng(setting.seed)
        rows, replayed = (
            task_rows(self.tokenizer, setting.task, self.left_out),
            round(setting.replay * BATCH),
        )
        new = BATCH - replayed
        order, of_replay = rng.permutation(len(rows)), rng.permutation(len(self.replay))
        for step in range(self.options.steps):
            yield [
                *(rows[order[(step * new + n) % len(order)]] for n in range(new)),
                *(
                    self.replay[of_replay[(step * replayed + n) % len(of_replay)]]
                    for n in range(replayed)
                ),
            ]

    def look(self, model: Any, setting: Setting, when: str, step: int) -> None:
        """Score the probe, in fp32."""
        snapshot = self.scorer.score(model, step=step, name=setting.name)
        save_snapshot(snapshot, self.options.look(setting.name, when))

    def drift(
        self, model: Any, setting: Setting, when: str, names: Sequence[str]
    ) -> dict[str, Any]:
        """Drift on completions, by set; what the model read is stored, so that it can be estimated otherwise too."""
        from forgetwatch.run.drift import read_under

        found: dict[str, Any] = {}
        read: dict[str, Any] = {}
        for name in names:
            reading = read_under(model, self.completions[name])
            found |= {
                of_set: asdict(one) for of_set, one in self.completions[name].drift(reading).items()
            }
            read[f"{name}_logprobs"] = np.concatenate(reading.logprobs)
            read[f"{name}_top_logprobs"] = np.concatenate(reading.top_logprobs or [])
        np.savez_compressed(self.options.out / "drift" / f"{setting.name}-{when}.npz", **read)
        return found


def batch_loss(model: Any, batch: Sequence[tuple[Ids, Ids]], *, pad: int) -> Any:
    """Mean cross-entropy of the completions' tokens, nats; rows end together, so that few logits are needed."""
    import torch

    longest, last = max(len(p) + len(c) for p, c in batch), max(len(c) for _, c in batch)
    ids = torch.full((len(batch), longest), pad)
    mask, labels = torch.zeros_like(ids), torch.full((len(batch), last), -100)
    for row, (prompt, completion) in enumerate(batch):
        length = len(prompt) + len(completion)
        ids[row, longest - length :] = torch.tensor(prompt + completion)
        mask[row, longest - length :] = 1
        labels[row, last - len(completion) :] = torch.tensor(completion)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    found = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=last + 1
    ).logits
    return torch.nn.functional.cross_entropy(found[:, :-1].float().flatten(0, 1), labels.flatten())


_laboratory: list[Laboratory] = []
"""The laboratory of a worker process, made at its first run."""


def make_run(options: Options, setting: Setting) -> str:
    """Make one run in this process; its name."""
    if not _laboratory or _laboratory[0].options != options:
        _laboratory[:] = [Laboratory(options)]
    return _laboratory[0].make(setting)


def is_finished(options: Options, setting: Setting) -> bool:
    """True if the run is there; the script ends if it was made with other steps or items."""
    if not (file := options.cell(setting.name)).exists():
        return False
    cell = json.loads(file.read_text(encoding="utf-8"))
    for name in ("steps", "items"):
        if cell[name] != (needed := getattr(options, name)):
            sys.exit(
                f"{file}: needed a run of {needed} {name}, got one of {cell[name]}; give another --out"
            )
    return True


def make_runs(options: Options, settings: Sequence[Setting], jobs: int) -> None:
    """Make the runs that are missing, `jobs` at once, and print each that is done."""
    missing = [one for one in settings if not is_finished(options, one)]
    began, job = time.perf_counter(), partial(make_run, options)
    if jobs == 1 or len(missing) < 2:
        print_progress(map(job, missing), options, len(missing), began)
    else:
        # A fresh interpreter for each: torch's threads do not survive a fork.
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            print_progress(
                pool.imap_unordered(job, missing, chunksize=1), options, len(missing), began
            )


def print_progress(names: Iterable[str], options: Options, total: int, began: float) -> None:
    """Print a line for each run as it ends."""
    for done, name in enumerate(names, start=1):
        cell = json.loads(options.cell(name).read_text(encoding="utf-8"))
        whole = compare(
            before=options.out / "base" / "start.parquet", after=options.look(name, "end")
        ).all
        left = (time.perf_counter() - began) / done * (total - done) / 60
        print(
            f"{done} of {total}  {name}: loss {cell['losses'][0]:.2f} to {cell['losses'][-1]:.2f}, retention "
            f"{whole.retention:.3f}, {cell['seconds']:.0f} s; {left:.0f} minutes left",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the runs that are missing, then the table and the figure of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=24, help="first runs of the plan, up to 48")
    parser.add_argument("--only", default="", help="only runs whose names contain this")
    parser.add_argument("--items", type=int, default=500, help="first items of the probe")
    parser.add_argument("--probe", default="standard", help="name or file of the probe")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--jobs", type=int, default=2, help="runs at once; 0 only reads what is there"
    )
    given = parser.parse_args(arguments)
    options = Options(
        model=given.model, out=given.out, probe=given.probe, items=given.items, steps=given.steps
    )
    settings = [one for one in plan()[: given.runs] if given.only in one.name]
    if given.jobs:
        prepare(options)
        make_runs(options, settings, given.jobs)
    print(write_report(options.out, [one.name for one in settings]))


if __name__ == "__main__":
    main()
