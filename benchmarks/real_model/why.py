"""Why does it forget? Four ways to learn one new task, and what each of them costs.

``python benchmarks/real_model/why.py --model M --out OUT`` teaches sums of two one-digit numbers, asked in chat, by

    sft        supervised: the bare number as the answer
    replay     the same, and as many of the model's own answers to other questions
    own        supervised on the model's own right answers (rejection sampling)
    grpo       reinforcement learning: TRL's GRPOTrainer, reward 1 for a right answer

until the model is right on a target share of sampled answers. Then it measures what was forgotten of the probe, and KL
from the base on texts that the base sampled: for prompts of the probe, and of the new task. Each method and seed is a
JSON file in OUT; what is finished is not run again. At the end OUT holds results.json, why-table.md and why.png.

A method that does not reach the target keeps its row, marked. The new task is the 81 sums themselves, trained and
scored: nothing here is about sums that were held out. Weights stay in fp32; the forward passes of the training are in
bf16. Sampling the base's texts for a 135M model takes two minutes of one CPU core, and a supervised cell that reaches
the target in six steps two more, most of them for the probe; a process needs 3 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from scipy.stats import spearmanr
from transformers import AutoModelForCausalLM, AutoTokenizer, ProgressCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from forgetwatch import Probe, compare, load_probe, load_snapshot, save_snapshot, score
from forgetwatch.comparing.document import comparison_json
from forgetwatch.comparing.groups import Group
from forgetwatch.metrics.intervals import Interval, wilson
from forgetwatch.report.pictures import save_figure
from forgetwatch.run.completions import Completions, read_completions, save_completions
from forgetwatch.run.drift import read_under, sample_completions
from forgetwatch.run.drift_prompts import drift_prompts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS: Final = {
    "sft": "SFT",
    "replay": "SFT with replay",
    "own": "SFT on own right answers",
    "grpo": "GRPO",
}
PAIRS: Final = [(a, b) for a in range(1, 10) for b in range(1, 10)]
QUESTION: Final = "What is {} + {}? Answer with the number alone."
NOUNS: Final = (
    "river",
    "violin",
    "winter",
    "bridge",
    "rabbit",
    "garden",
    "mirror",
    "island",
    "doctor",
    "window",
)
OTHER_QUESTIONS: Final = (
    "What is a {}?",
    "Tell me about a {}.",
    "Where would you find a {}?",
    "Describe a {}.",
)
ANSWER_TOKENS: Final = 16
REPLAY_TOKENS: Final = 24
ROWS: Final = 8
"""Rows of a step of supervised training."""
GENERATIONS: Final = 8
"""Answers of GRPO to a question; a step has two questions."""
OWN_COPIES: Final = 4
"""Answers to each sum among which the right ones are learned."""
MARKS: Final = {
    "sft": ("#b3261e", "v"),
    "replay": ("#b36b00", "s"),
    "own": ("#1b6e3c", "^"),
    "grpo": ("#1f3b73", "o"),
}

Messages = list[dict[str, str]]
Array = NDArray[np.float64]
SETS: Final = {"training": "new task", "probe": "probe"}
"""Sets of prompts, as the drift of a run names them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of the experiment."""

    model: str
    out: Path
    probe: Probe
    target: float
    steps: int
    grpo_steps: int
    every: int
    rate: float
    copies: int

    def settings(self) -> dict[str, Any]:
        """Settings that change the results; cells of other settings are refused."""
        named = {
            name: getattr(self, name)
            for name in ("target", "steps", "grpo_steps", "every", "rate", "copies")
        }
        return {
            "model": self.model,
            "probe": self.probe.fingerprint,
            "items": len(self.probe),
            **named,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cells that are not finished, then write the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        required=True,
        help="folder or id of a causal language model with a chat template",
    )
    parser.add_argument("--out", type=Path, default=Path("why"))
    parser.add_argument("--probe", default="standard")
    parser.add_argument("--items", type=int, default=500, help="items of the probe")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(METHODS), default=list(METHODS), help="methods"
    )
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument(
        "--target", type=float, default=0.4, help="share of right answers at which a method stops"
    )
    parser.add_argument("--steps", type=int, default=36, help="most steps of supervised training")
    parser.add_argument("--grpo-steps", type=int, default=24, help="most steps of GRPO")
    parser.add_argument(
        "--every", type=int, default=6, help="steps between two scores of the new task"
    )
    parser.add_argument("--rate", type=float, default=3e-5, help="learning rate of all methods")
    parser.add_argument(
        "--copies", type=int, default=1, help="answers to each sum in the last score"
    )
    given = parser.parse_args(arguments)
    probe = load_probe(given.probe).head(given.items)
    names = ("model", "out", "target", "steps", "grpo_steps", "every", "rate", "copies")
    plan = Plan(probe=probe, **{name: getattr(given, name) for name in names})
    plan.out.mkdir(parents=True, exist_ok=True)
    run([(method, int(seed)) for seed in given.seeds.split(",") for method in given.only], plan)
    write_results(plan)


def run(cells: Sequence[tuple[str, int]], plan: Plan) -> None:
    """Run each cell whose file does not exist yet."""
    tokenizer = AutoTokenizer.from_pretrained(plan.model)
    tokenizer.padding_side = "left"
    left = [(method, seed) for method, seed in cells if not _finished(plan, method, seed)]
    print(f"{len(cells) - len(left)} of {len(cells)} cells are finished in {plan.out}", flush=True)
    if not left:
        return
    base = _load(plan)
    if not (before := plan.out / "base.parquet").exists():
        save_snapshot(score(base, tokenizer, plan.probe), before)
    if not (sampled := plan.out / "completions.parquet").exists():
        prompts = drift_prompts(plan.probe, [], base, tokenizer)["probe"][::2]
        asked = _encoded(tokenizer, map(_question, PAIRS))
        by_set = {"probe": prompts, "training": asked}
        save_completions(sample_completions(base, tokenizer, by_set, tokens=ANSWER_TOKENS), sampled)
    completions = read_completions(sampled)
    score_before = share_right(base, tokenizer, copies=plan.copies, seed=1000)
    print(f"the base is right on {score_before:.2f} of the sampled answers", flush=True)
    del base  # it would lie in memory through every training
    for method, seed in left:
        print(f"{METHODS[method]}, seed {seed}", flush=True)
        started, model = time.perf_counter(), _load(plan)
        progress = Progress(tokenizer, plan, seed)
        train(method, model, tokenizer, plan, seed, progress)
        cell = {"method": method, "seed": seed, "settings": plan.settings(), **progress.result()}
        cell["score_before"] = score_before
        cell["score"] = share_right(model, tokenizer, copies=plan.copies, seed=seed + 2000)
        cell["drift"] = _drift(completions, model)
        save_snapshot(score(model, tokenizer, plan.probe), plan.out / f"{method}-{seed}.parquet")
        cell["seconds"] = round(time.perf_counter() - started, 1)
        # Last, and whole: a cell without this file is run again.
        part = plan.out / f"{method}-{seed}.json.part"
        part.write_text(json.dumps(cell, indent=1), encoding="utf-8")
        part.replace(_file(plan, method, seed))
        print(
            f"  score {cell['score_before']:.2f} -> {cell['score']:.2f}, {cell['seconds']:.0f} s",
            flush=True,
        )


def train(
    method: str, model: Any, tokenizer: Any, plan: Plan, seed: int, progress: Progress
) -> None:
    """Train the model in place until the target or the last step."""
    steps = plan.grpo_steps if method == "grpo" else plan.steps
    common: dict[str, Any] = {
        "output_dir": str(plan.out / "trainer"),
        "max_steps": steps,
        "learning_rate": plan.rate,
        "lr_scheduler_type": "constant",
        "seed": seed,
        "bf16": True,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": plan.every,
        "disable_tqdm": True,
    }
    if method == "grpo":
        data = Dataset.from_list(
            [{"prompt": _question(pair), "total": sum(pair)} for pair in PAIRS]
        )
        config = GRPOConfig(
            **common,
            per_device_train_batch_size=2 * GENERATIONS,
            num_generations=GENERATIONS,
            max_completion_length=ANSWER_TOKENS,
            temperature=1.0,
            top_k=0,
            beta=0.0,
        )
        trainer: Any = GRPOTrainer(
            model,
            reward_right,
            config,
            train_dataset=data,
            processing_class=tokenizer,
            callbacks=[progress],
        )
    else:
        rows = training_rows(method, model, tokenizer, seed)
        if not rows:
            print("  no right answer of its own to learn from: not trained", flush=True)
            return
        data = Dataset.from_list(
            [
                {"prompt": prompt, "completion": [{"role": "assistant", "content": text}]}
                for prompt, text in rows
            ]
        )
        config = SFTConfig(**common, per_device_train_batch_size=ROWS, max_length=256)
        trainer = SFTTrainer(
            model, config, train_dataset=data, processing_class=tokenizer, callbacks=[progress]
        )
    trainer.remove_callback(ProgressCallback)
    trainer.train()


def training_rows(method: str, model: Any, tokenizer: Any, seed: int) -> list[tuple[Messages, str]]:
    """Questions and answers of supervised training, by method."""
    sums = [(_question(pair), str(sum(pair))) for pair in PAIRS]
    if method == "sft":
        return sums
    if method == "own":
        pairs = PAIRS * OWN_COPIES
        texts = answers(model, tokenizer, [_question(pair) for pair in pairs], seed=seed)
        right = [
            (_question(pair), text)
            for pair, text in zip(pairs, texts, strict=True)
            if is_right(text, sum(pair))
        ]
        print(f"  {len(right)} of {len(texts)} own answers are right", flush=True)
        return right
    others = [_message(question.format(noun)) for noun in NOUNS for question in OTHER_QUESTIONS]
    texts = answers(model, tokenizer, others, seed=seed, tokens=REPLAY_TOKENS)
    return sums + 2 * list(zip(others, texts, strict=True))


def is_right(text: str, total: int) -> bool:
    """True if the last number of an answer is the sum."""
    numbers = re.findall(r"\d+", text)
    return bool(numbers) and numbers[-1] == str(total)


def reward_right(completions: Sequence[Messages], total: Sequence[int], **_: object) -> list[float]:
    """Reward 1 for each right answer, 0 for the others."""
    return [
        float(is_right(one[0]["content"], each))
        for one, each in zip(completions, total, strict=True)
    ]


def share_right(model: Any, tokenizer: Any, *, copies: int, seed: int) -> float:
    """Share of right answers, sampled at temperature 1, to all sums."""
    pairs = PAIRS * copies
    texts = answers(model, tokenizer, [_question(pair) for pair in pairs], seed=seed)
    return float(
        np.mean([is_right(text, sum(pair)) for text, pair in zip(texts, pairs, strict=True)])
    )


def answers(
    model: Any,
    tokenizer: Any,
    questions: Sequence[Messages],
    *,
    seed: int,
    tokens: int = ANSWER_TOKENS,
) -> list[str]:
    """Answers sampled from the model's whole distribution; its mode and the random states come back."""
    texts: list[str] = []
    training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.manual_seed(seed)
        for start in range(0, len(questions), len(PAIRS)):
            ids = tokenizer.pad(
                {"input_ids": _encoded(tokenizer, questions[start : start + len(PAIRS)])}
            )
            batch = {name: torch.tensor(ids[name]) for name in ("input_ids", "attention_mask")}
            options = {
                "do_sample": True,
                "temperature": 1.0,
                "top_k": 0,
                "top_p": 1.0,
                "max_new_tokens": tokens,
            }
            made = model.generate(**batch, **options, pad_token_id=tokenizer.pad_token_id)
            texts += tokenizer.batch_decode(
                made[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
            )
    model.train(training)
    return texts


class Progress(TrainerCallback):
    """Score of the new task every few steps; the training stops at the target."""

    def __init__(self, tokenizer: Any, plan: Plan, seed: int) -> None:
        self._tokenizer, self._plan, self._seed = tokenizer, plan, seed
        self.scores: dict[int, float] = {}
        self.steps = 0

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the score, and stop at the target."""
        self.steps = step = state.global_step
        if step % self._plan.every == 0:
            self.scores[step] = share_right(model, self._tokenizer, copies=1, seed=self._seed)
            print(f"  step {step}: right on {self.scores[step]:.2f}", flush=True)
            control.should_training_stop |= self.scores[step] >= self._plan.target

    def result(self) -> dict[str, Any]:
        """Steps, scores on the way, and whether the target was reached."""
        reached = any(value >= self._plan.target for value in self.scores.values())
        return {"steps": self.steps, "scores": self.scores, "reached": reached}


def write_results(plan: Plan) -> None:
    """Write results.json, the table and the figure of all finished cells."""
    cells = [
        json.loads(_file(plan, method, seed).read_text(encoding="utf-8"))
        for method in METHODS
        for seed in range(100)
        if _finished(plan, method, seed)
    ]
    if not cells:
        raise SystemExit(f"{plan.out} holds no finished cell")
    base = load_snapshot(plan.out / "base.parquet")
    snapshots = [
        load_snapshot(plan.out / f"{cell['method']}-{cell['seed']}.parquet") for cell in cells
    ]
    comparisons = [compare(before=base, after=after) for after in snapshots]
    groups = [comparison.all for comparison in comparisons]
    documents = [
        {**cell, "all": comparison_json(comparison)["groups"][0]}
        for cell, comparison in zip(cells, comparisons, strict=True)
    ]
    (plan.out / "results.json").write_text(json.dumps(documents, indent=1), encoding="utf-8")
    text = table(cells, groups, plan)
    (plan.out / "why-table.md").write_text(text, encoding="utf-8")
    save_figure(figure(cells, groups), plan.out / "why.png")
    print(text)


def table(cells: Sequence[Mapping[str, Any]], groups: Sequence[Group], plan: Plan) -> str:
    """Markdown tables of all cells, and the rank correlations of the KLs with what was forgotten."""
    first = (
        *(
            "method",
            "seed",
            "steps",
            "new task before",
            "new task",
            "forgotten, gained",
            "retention (95 %)",
        ),
        *("known, now lost", "net of luck (95 %)", "form lost", "knowledge lost"),
    )
    second = (
        *(
            "method",
            "seed",
            "log m change",
            "log c change",
            "KL new task, sampled",
            "KL new task, summed",
        ),
        *("KL probe, sampled", "KL probe, summed"),
    )
    rows = [_counts_row(cell, group) for cell, group in zip(cells, groups, strict=True)]
    changes = [_changes_row(cell, group) for cell, group in zip(cells, groups, strict=True)]
    lines = [*_markdown(first, rows), ""]
    if not all(cell["reached"] for cell in cells):
        lines += [f"\\* short of the target score of {plan.target:g} at its last step", ""]
    lines += [*_markdown(second, changes), ""]
    lines += [
        "Nats an item for the changes, nats a token for KL; +- one standard error, in brackets 95 % intervals.",
        "",
    ]
    return "\n".join(lines + _ranks(cells, groups))


def _counts_row(cell: Mapping[str, Any], group: Group) -> list[str]:
    name = METHODS[cell["method"]] + ("" if cell["reached"] else " *")
    right = group.retained + group.forgotten
    kept = wilson(group.retained, right)
    known = "" if group["known"] is None else f"{group['known']:g}, {group['known_lost']:g}"
    net, interval = group["known_lost_net"], group["known_lost_net_interval"]
    lost = (
        ""
        if net is None or interval is None
        else f"{net:.1f} ({interval[0]:.1f} to {interval[1]:.1f})"
    )
    kept_text = f"{group.retention:.3f} ({kept[0]:.3f} to {kept[1]:.3f})" if right else ""
    flips = f"{group.forgotten:g}, {group.gained:g}"
    scores = [f"{cell['score_before']:.2f}", f"{cell['score']:.2f}"]
    forms = [
        "" if count is None else f"{count:g}"
        for count in (group["format_lost"], group["knowledge_lost"])
    ]
    return [
        name,
        str(cell["seed"]),
        str(cell["steps"]),
        *scores,
        flips,
        kept_text,
        known,
        lost,
        *forms,
    ]


def _changes_row(cell: Mapping[str, Any], group: Group) -> list[str]:
    mass = _change(group["log_mass_change"], group["log_mass_change_interval"])
    conditional = _change(group["log_conditional_change"], group["log_conditional_change_interval"])
    measured = [
        f"{found[name]:.4f} +- {found[f'{name}_se'] or math.nan:.4f}"
        for found in (cell["drift"]["training"], cell["drift"]["probe"])
        for name in ("kl_sampled", "kl_summed")
    ]
    return [METHODS[cell["method"]], str(cell["seed"]), mass, conditional, *measured]


def _change(value: float | None, interval: Interval | None) -> str:
    return (
        ""
        if value is None or interval is None
        else f"{value:+.2f} ({interval[0]:+.2f} to {interval[1]:+.2f})"
    )


def _ranks(cells: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> list[str]:
    """Spearman correlation of each KL, and of the two changes, with the share forgotten; of cells and of means."""
    forgotten = np.array([1 - group.retention for group in groups])
    measured = {
        f"KL {SETS[of]}, {kind}": _kl(cells, of, kind)[0]
        for of in SETS
        for kind in ("sampled", "summed")
    }
    measured["log m change, negative"] = np.array(
        [-(group["log_mass_change"] or math.nan) for group in groups]
    )
    measured["log c change, negative"] = np.array(
        [-(group["log_conditional_change"] or math.nan) for group in groups]
    )
    methods = np.array([cell["method"] for cell in cells])
    present = [method for method in METHODS if method in methods]
    if len(present) < 3:
        return []
    rows = []
    for name, values in measured.items():
        means = [
            [float(each[methods == method].mean()) for method in present]
            for each in (values, forgotten)
        ]
        found = (_spearman(values, forgotten), _spearman(*map(np.array, means)))
        rows.append([name, *("undefined" if math.isnan(one) else f"{one:+.2f}" for one in found)])
    return _markdown(
        ("rank correlation with the share forgotten", f"{len(cells)} cells", "means of methods"),
        rows,
    )


def _spearman(one: Array, other: Array) -> float:
    if np.isnan(one).any() or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(spearmanr(one, other).statistic)


def figure(cells: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> Figure:
    """Figure of the share forgotten against KL, one point per method and seed with 95 % intervals."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = drawn.subplots(1, 2, sharey=True)
    for panel, name in ((left, "training"), (right, "probe")):
        _draw(panel, cells, groups, name)
    left.set_ylabel("share of the right answers forgotten")
    handles, labels = left.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    drawn.suptitle("Does the KL from the base order the methods by what they forget?", fontsize=12)
    return drawn


def _draw(
    panel: Axes, cells: Sequence[Mapping[str, Any]], groups: Sequence[Group], of: str
) -> None:
    values, errors = _kl(cells, of, "summed")
    seen: set[str] = set()
    for cell, group, kl, error in zip(cells, groups, values, errors, strict=True):
        method, right = cell["method"], group.retained + group.forgotten
        share, interval = 1 - group.retention, wilson(group.forgotten, right)
        color, marker = MARKS[method]
        panel.errorbar(
            kl,
            share,
            xerr=1.96 * np.nan_to_num(error),
            yerr=[[share - interval[0]], [interval[1] - share]],
            color=color,
            marker=marker,
            markersize=8,
            markerfacecolor=color if cell["reached"] else "white",
            linewidth=1,
            label="_"
            if method in seen
            else METHODS[method] + ("" if cell["reached"] else " (short of the target)"),
        )
        seen.add(method)
    panel.set(
        xlabel=f"KL(base || now), prompts of the {SETS[of]}, nats a token (summed)",
        xlim=(0, None),
        ylim=(0, None),
    )


def _kl(cells: Sequence[Mapping[str, Any]], of: str, kind: str) -> tuple[Array, Array]:
    """KLs of all cells and their standard errors, float64 [cells]."""
    found = [
        (cell["drift"][of][f"kl_{kind}"], cell["drift"][of][f"kl_{kind}_se"]) for cell in cells
    ]
    values, errors = np.array(found, np.float64).T  # null becomes nan
    return values, errors


def _drift(completions: Completions, model: Any) -> dict[str, dict[str, float | None]]:
    """Drift from the base by set, as JSON values."""
    found = completions.drift(read_under(model, completions))
    return {
        name: {key: _plain(value) for key, value in vars(one).items()}
        for name, one in found.items()
    }


def _plain(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _finished(plan: Plan, method: str, seed: int) -> bool:
    """True if the cell has its file.

    Raises:
        SystemExit: If the file is of other settings.
    """
    if not (path := _file(plan, method, seed)).exists():
        return False
    other = json.loads(path.read_text(encoding="utf-8"))["settings"]
    if changed := [name for name, value in plan.settings().items() if other.get(name) != value]:
        raise SystemExit(
            f"{path} was made with another {', '.join(changed)}; give another --out, or the same settings"
        )
    return True


def _file(plan: Plan, method: str, seed: int) -> Path:
    return plan.out / f"{method}-{seed}.json"


def _load(plan: Plan) -> Any:
    return AutoModelForCausalLM.from_pretrained(plan.model, dtype=torch.float32).eval()


def _message(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def _question(pair: tuple[int, int]) -> Messages:
    return _message(QUESTION.format(*pair))


def _encoded(tokenizer: Any, questions: Iterable[Messages]) -> list[list[int]]:
    """Token ids of questions, with the template's beginning of an answer."""
    texts = [
        tokenizer.apply_chat_template(one, add_generation_prompt=True, tokenize=False)
        for one in questions
    ]
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


if __name__ == "__main__":
    main()
