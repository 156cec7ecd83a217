"""Try `first_token_kept` against the truth: the share of a model's own samples that still have the base's form.

    python benchmarks/real_model/beginnings.py MODEL OUT [--seeds 3] [--device cpu]
    python benchmarks/real_model/beginnings.py MODEL OUT --table

Two kinds of change. Noise is added to each matrix, in units of its standard deviation: the form stays. Or the model
learns its own answers in another form, as a JSON record or as numbered sentences, at two rates, and is read after three
numbers of steps; LoRA learns one of them too. The questions that are asked are
none of those that were trained. OUT/cells.jsonl has one line for each model read; a second start does the rest.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from scipy import stats
from texts import NOUNS, QUESTIONS
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch.metrics.divergence import first_tokens
from forgetwatch.run.completions import Reading
from forgetwatch.run.drift import read_under, sample_completions
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.generation import end_tokens, sample, seeds_of

TOKENS: Final = 24
ASKED: Final = 48
"""Questions whose answers are read; as many others are trained."""

SAMPLES: Final = 4
"""Own samples a question, from which the truth is counted."""

NOISE: Final = (0.02, 0.05)
RATES: Final = {1e-5: (10, 20, 40), 5e-5: (3, 6, 12)}
LORA_RATE: Final = 4e-4
BATCH: Final = 8

FORMS: Final[dict[str, tuple[Callable[[str], str], re.Pattern[str]]]] = {
    "JSON": (lambda text: json.dumps({"answer": text}), re.compile(r'\s*\{\s*"')),
    "numbered": (
        lambda text: "\n".join(
            f"{n}. {one}" for n, one in enumerate(re.split(r"(?<=\.) +", text), start=1)
        ),
        re.compile(r"\s*1[.)]"),
    ),
}
"""How an answer is written in each form, and how a text in it begins."""


class Asked:
    """The questions, half of them trained, and what the base answers."""

    def __init__(self, folder: str, device: str) -> None:
        self.folder, self.device = folder, device
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        base = self.fresh()
        rng = np.random.default_rng(0)
        nouns = rng.permutation(NOUNS)
        questions = [QUESTIONS[n % len(QUESTIONS)].format(noun) for n, noun in enumerate(nouns)]
        more = [QUESTIONS[(n + 1) % len(QUESTIONS)].format(noun) for n, noun in enumerate(nouns)]
        prompts = [self._prompt(question) for question in (*questions, *more)]
        half = len(nouns) // 2
        # A noun is either asked or trained.
        self.asked = (prompts[:half] + prompts[len(nouns) : len(nouns) + half])[:ASKED]
        self.trained = (prompts[half : len(nouns)] + prompts[len(nouns) + half :])[:ASKED]
        self.completions = sample_completions(
            base, self.tokenizer, {"asked": self.asked}, tokens=TOKENS
        )
        own = sample_completions(
            base, self.tokenizer, {"trained": self.trained}, tokens=2 * TOKENS, seed=1
        )
        of_prompt = dict(zip(own.prompts, own.tokens, strict=True))
        self.answers = [
            self.tokenizer.decode(of_prompt[one], skip_special_tokens=True).strip()
            for one in self.trained
        ]

    def fresh(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32).to(
            self.device
        )

    def _prompt(self, question: str) -> Ids:
        turns = [{"role": "user", "content": question}]
        text = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def own_samples(self, model: Any, *, seed: int) -> list[str]:
        ends = end_tokens(model, self.tokenizer)
        seeds = seeds_of(self.asked * SAMPLES, 1000 * (seed + 1))
        drawn = sample(
            model, self.asked * SAMPLES, tokens=8, ends=ends, seeds=seeds, token_budget=16_384
        )
        return [self.tokenizer.decode(one.tokens) for one in drawn.values()]


def learn(
    asked: Asked, model: Any, form: str, *, rate: float, reads: tuple[int, ...], seed: int
) -> Iterator[int]:
    """Train on the base's answers in a form, and yield at each number of steps in `reads`."""
    write, _ = FORMS[form]
    rows = [
        (prompt, asked.tokenizer(write(answer), add_special_tokens=False)["input_ids"])
        for prompt, answer in zip(asked.trained, asked.answers, strict=True)
    ]
    optimizer = torch.optim.AdamW(
        [one for one in model.parameters() if one.requires_grad], lr=rate, weight_decay=0.0
    )
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [rng.permutation(len(rows)) for _ in range(-(-max(reads) * BATCH // len(rows)))]
    )
    for step in range(1, max(reads) + 1):
        chosen = [rows[index] for index in order[(step - 1) * BATCH : step * BATCH]]
        width = max(len(prompt) + len(answer) for prompt, answer in chosen)
        ids = torch.zeros(len(chosen), width, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        mask = torch.zeros_like(ids)
        for row, (prompt, answer) in enumerate(chosen):
            ids[row, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
            labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
            mask[row, : len(prompt) + len(answer)] = 1
        model.train()
        moved = {"input_ids": ids, "labels": labels, "attention_mask": mask}
        model(**{name: value.to(asked.device) for name, value in moved.items()}).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step in reads:
            yield step


def read(asked: Asked, model: Any, form: str | None, *, seed: int) -> dict[str, Any]:
    """Return what a look with drift reads of the model, and the truth beside it."""
    model.eval()
    reading = read_under(model, asked.completions)
    found = asked.completions.drift(reading)["asked"]
    own = asked.own_samples(model, seed=seed)
    shapes = {
        name: np.mean([bool(begins.match(text)) for text in own])
        for name, (_, begins) in FORMS.items()
    }
    kept = 1 - (shapes[form] if form else max(shapes.values()))
    gained = first_gained(asked, model)
    return {
        "truth": float(kept),
        "truth_se": float(np.sqrt(kept * (1 - kept) / len(own))),
        "kept": found.first_token_kept,
        "kept_se": found.first_token_kept_se,
        "first_share": found.kl_first_share,
        "even": found.completions / found.tokens,
        "kl": found.kl_summed,
        "overlap": found.overlap,
        "gained": gained,
        "rivals": rivals(asked, reading),
    }


def rivals(asked: Asked, reading: Reading) -> dict[str, float]:
    """Return other quantities of the same first tokens, by name: means over answers."""
    assert asked.completions.top_logprobs is not None
    assert reading.top_logprobs is not None
    tops = list(zip(asked.completions.top_logprobs, reading.top_logprobs, strict=True))
    positions, _ = first_tokens([(base.astype(float), now.astype(float)) for base, now in tops])
    pairs = [
        (np.exp(tops[n][0][at]), np.exp(tops[n][1][at]))
        for n, at in enumerate(positions)
        if at >= 0
    ]
    named = {
        "sum": [q.sum() / p.sum() for p, q in pairs],
        "common": [np.minimum(p, q).sum() / p.sum() for p, q in pairs],  # first_token_kept
        "root": [np.sqrt(p * q).sum() / p.sum() for p, q in pairs],
    }
    return {name: float(np.mean(values)) for name, values in named.items()}


def first_gained(asked: Asked, model: Any) -> list[tuple[str, float]]:
    """Return the tokens outside the base's likeliest 20 that took most probability at the first position, with it."""
    tops = asked.completions.top_ids
    assert tops is not None
    total: dict[int, float] = {}
    with torch.no_grad():
        for prompt, ids in zip(asked.completions.prompts, tops, strict=True):
            logits = (
                model(input_ids=torch.tensor([prompt], device=asked.device)).logits[0, -1].float()
            )
            now = logits.softmax(-1)
            now[torch.tensor(ids[0].astype(np.int64), device=asked.device)] = 0
            values, tokens = now.topk(5)
            for token, value in zip(tokens.tolist(), values.tolist(), strict=True):
                total[token] = total.get(token, 0.0) + value / len(asked.asked)
    most = sorted(total.items(), key=lambda pair: -pair[1])[:4]
    return [(asked.tokenizer.decode([token]), round(value, 4)) for token, value in most]


def cells(asked: Asked, seed: int) -> Iterator[tuple[dict[str, Any], Any, str | None]]:
    """Yield the settings of each cell, its model and the form that it learned."""
    for size in NOISE:
        model, generator = asked.fresh(), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim == 2:
                    noise = torch.randn(weight.shape, generator=generator).to(asked.device)
                    weight += size * weight.std() * noise
        yield {"change": "noise", "rate": size, "steps": 0}, model, None
    for form in FORMS:
        for rate, reads in RATES.items():
            model = asked.fresh()
            for step in learn(asked, model, form, rate=rate, reads=reads, seed=seed):
                yield {"change": form, "rate": rate, "steps": step}, model, form
        model = get_peft_model(
            asked.fresh(), LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
        )
        for step in learn(asked, model, form, rate=LORA_RATE, reads=RATES[1e-5], seed=seed):
            yield {"change": f"{form}, LoRA", "rate": LORA_RATE, "steps": step}, model, form


def run(folder: str, out: Path, *, seeds: int, device: str) -> None:
    """Read all cells that OUT lacks."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "cells.jsonl"
    done = {(row["seed"], row["change"], row["rate"], row["steps"]) for row in rows_of(path)}
    asked = Asked(folder, device)
    with path.open("a") as file, tqdm(total=seeds * 20) as shown:
        for seed in range(seeds):
            for settings, model, form in cells(asked, seed):
                shown.update()
                if (seed, *settings.values()) in done:
                    continue
                started = time.perf_counter()
                found = {"seed": seed, **settings, **read(asked, model, form, seed=seed)}
                file.write(
                    json.dumps({**found, "seconds": round(time.perf_counter() - started, 1)}) + "\n"
                )
                file.flush()


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(out: Path) -> str:
    """Return the means over seeds as Markdown, with rank correlation and error over all cells."""
    rows = rows_of(out / "cells.jsonl")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["change"], row["rate"], row["steps"]), []).append(row)
    lines = [
        "| change | rate | steps | own samples in the old form | first_token_kept | plain sum | KL at the start |",
        f"| --- |{' ---: |' * 6}",
    ]
    for (change, rate, steps), of in groups.items():
        shown = {
            "truth": f"{np.mean([row['truth'] for row in of]):.2f}",
            **{
                name: f"{np.mean([row['rivals'][name] for row in of]):.2f}"
                for name in ("common", "sum")
            },
            "first": f"{100 * np.mean([row['first_share'] for row in of]):.0f} %",
        }
        lines.append(f"| {change} | {rate:g} | {steps or ''} | {' | '.join(shown.values())} |")
    truth, shares = (np.array([row[name] for row in rows]) for name in ("truth", "first_share"))
    trained = np.array([row["change"] != "noise" for row in rows])
    lines.append(
        "\n| over all models | rank correlation | mean error | mean absolute error | largest error |"
    )
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, label in (
        ("common", "first_token_kept"),
        ("sum", "plain sum"),
        ("root", "root of the product"),
    ):
        kept = np.array([row["rivals"][name] for row in rows])
        error = kept - truth
        lines.append(
            f"| {label} | {stats.spearmanr(truth, kept).statistic:+.2f} | {error.mean():+.2f} | "
            f"{np.abs(error).mean():.2f} | {error[np.abs(error).argmax()]:+.2f} |"
        )
    even = np.mean([row["even"] for row in rows])
    lines.append(
        f"\n{len(rows)} models. Share of the KL at the first token (even: {100 * even:.0f} %): noise at most "
        f"{100 * shares[~trained].max():.0f} %, a new form at least {100 * shares[trained].min():.0f} %"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    options = parser.parse_args()
    if not options.table:
        run(options.model, options.out, seeds=options.seeds, device=options.device)
    print(table(options.out))


if __name__ == "__main__":
    main()
