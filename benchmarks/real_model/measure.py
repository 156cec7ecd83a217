"""Fine-tune a real model in several ways, and score it at several doses of each; every finished cell is a file.

    python benchmarks/real_model/measure.py MODEL OUT [--items 2000] [--only destroy,form]

MODEL is the folder of a causal language model. The weights after each training are interpolated with those before,
so that the damage has a known order: dose 0 is the start and dose 1 the end. A second run goes on with the cells that
are missing. With a 135M model on two cores the whole takes about two hours.

    OUT/train/NAME.safetensors      weights after a training
    OUT/score/NAME-DOSE.parquet     outcomes on the probe, one snapshot per dose
    OUT/behaviour/NAME-DOSE.parquet generated answers, before and after the trainings that change the form
    OUT/form/NAME-RENDERING.parquet outcomes on other renderings of the first items
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import texts
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from forgetwatch import Probe, Snapshot, load_probe, save_snapshot
from forgetwatch.scoring.scorer import Scorer

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A fine-tuning: its texts, and how they are learned.

    Attributes:
        texts: Name of the function of `texts` that makes the rows.
        rows: Number of rows.
        steps: Optimizer steps, `BATCH` rows each.
        rate: Peak learning rate of AdamW; it falls to 0 as a cosine.
        lora: Rank of LoRA matrices on all linear layers; None trains all weights.
        chat: Rows are turns of a conversation, in the tokenizer's template.
    """

    texts: str
    rows: int
    steps: int
    rate: float
    lora: int | None = None
    chat: bool = False


BATCH: Final = 4
TRAININGS: Final = {
    "narrow": Training(texts="narrow", rows=120, steps=40, rate=2e-4),
    "destroy": Training(texts="destroy", rows=96, steps=30, rate=1e-3),
    "form": Training(texts="form", rows=120, steps=40, rate=1e-4),
    "listed": Training(texts="listed", rows=120, steps=40, rate=3e-4, chat=True),
    "destroy-lora": Training(texts="destroy", rows=96, steps=30, rate=5e-3, lora=16),
    "destroy-chat": Training(texts="destroy", rows=96, steps=30, rate=1e-3, chat=True),
}
DOSES: Final = (0.5, 1.0, 0.25, 0.75)
WHOLE: Final = (0.5, 1.0)
"""Doses that are scored on all items; the others on half of them."""


def main() -> None:
    """Train, then score; skip what is already there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--items", type=int, default=2000, help="items of the probe, fewer for a quick try"
    )
    parser.add_argument("--form-items", type=int, default=500, help="items in each rendering")
    parser.add_argument(
        "--only", default=",".join(TRAININGS), help="trainings, separated by commas"
    )
    given = parser.parse_args()
    for folder in ("train", "score", "behaviour", "form"):
        (given.out / folder).mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    names = given.only.split(",")
    for name in names:
        trained(given.out, name, model, tokenizer, start)
    probe = load_probe("standard").head(given.items)
    scorers: dict[int, Scorer] = {}
    for dose in (0.0, *DOSES):
        items = given.items if dose in (0.0, *WHOLE) else given.items // 2
        # The destructive training on conversations is only needed for the comparison of renderings.
        for name in [name for name in names if name != "destroy-chat"] if dose else ["start"]:
            target = given.out / "score" / f"{name}-{dose:g}.parquet"
            if target.exists():
                continue
            interpolate(model, start, given.out, name, dose)
            if items not in scorers:
                scorers[items] = Scorer(probe.head(items), tokenizer, model)
            save_snapshot(shown(scorers[items], model, target.stem), target)
    behaviour(given, model, tokenizer, start, names)
    renderings(given, probe.head(given.form_items), model, tokenizer, start, names)
    same_weights(given, probe, model, tokenizer, start)


def behaviour(
    given: argparse.Namespace, model: Any, tokenizer: Any, start: Weights, names: list[str]
) -> None:
    """Score generated answers of the start and of the trainings that change the form."""
    scorer = None
    for name, dose in (
        ("start", 0.0),
        ("listed", 0.5),
        ("listed", 0.75),
        ("listed", 1.0),
        ("form", 0.25),
    ):
        target = given.out / "behaviour" / f"{name}-{dose:g}.parquet"
        if target.exists() or (dose and name not in names):
            continue
        interpolate(model, start, given.out, name, dose)
        scorer = scorer or Scorer(load_probe("behaviour"), tokenizer, model)
        save_snapshot(shown(scorer, model, target.stem), target)


def renderings(
    given: argparse.Namespace,
    probe: Probe,
    model: Any,
    tokenizer: Any,
    start: Weights,
    names: list[str],
) -> None:
    """Score the start and two destructive trainings, one on plain text and one on conversations, in both renderings."""
    for rendering in ("plain", "chat"):
        scorer = None
        for name, dose in (
            ("start", 0.0),
            ("destroy", 0.5),
            ("destroy", 1.0),
            ("destroy-chat", 0.5),
            ("destroy-chat", 1.0),
        ):
            target = given.out / "form" / f"{name}-{dose:g}-{rendering}.parquet"
            if target.exists() or (dose and name not in names):
                continue
            interpolate(model, start, given.out, name, dose)
            if scorer is None:
                rendered = Probe(
                    probe.items, name=f"standard-{rendering}", norm=probe.norm, rendering=rendering
                )
                scorer = Scorer(rendered, tokenizer, model)
            save_snapshot(shown(scorer, model, target.stem), target)


def same_weights(
    given: argparse.Namespace, probe: Probe, model: Any, tokenizer: Any, start: Weights
) -> None:
    """Score the start again in other batches, and in bf16: what changes then is noise."""
    model.load_state_dict(start)
    for label, dtype, budget in (("batches", torch.float32, 512), ("bf16", torch.bfloat16, None)):
        target = given.out / "score" / f"start-{label}.parquet"
        if not target.exists():
            scorer = Scorer(
                probe.head(given.items // 2), tokenizer, model.to(dtype), token_budget=budget
            )
            save_snapshot(shown(scorer, model, target.stem), target)
    model.to(torch.float32)


def shown(scorer: Scorer, model: Any, name: str) -> Snapshot:
    """Score with a progress bar."""
    with tqdm(total=len(scorer.probe), desc=name, unit=" items") as bar:
        return scorer.score(model, name=name, progress=lambda done: bar.update(done.count - bar.n))


def interpolate(model: Any, start: Weights, out: Path, name: str, dose: float) -> None:
    """Set the weights to (1 - dose) start + dose trained."""
    if not dose:
        model.load_state_dict(start)
        return
    end = load_file(out / "train" / f"{name}.safetensors")
    between = {
        key: torch.lerp(value, end[key], dose) if key in end else value
        for key, value in start.items()
    }
    model.load_state_dict(between)


def trained(out: Path, name: str, model: Any, tokenizer: Any, start: Weights) -> None:
    """Fine-tune from the start and store the weights, unless they are stored."""
    target, training = out / "train" / f"{name}.safetensors", TRAININGS[name]
    if target.exists():
        return
    model.load_state_dict(start)
    model.requires_grad_(True)  # LoRA freezes the weights that it leaves alone
    rng = np.random.default_rng(20261122)
    torch.manual_seed(20261122)
    make: Callable[..., list[texts.Row]] = getattr(texts, training.texts)
    answers = {"form": answer, "listed": sampled}
    extra = (
        [partial(answers[training.texts], model, tokenizer)] if training.texts in answers else []
    )
    rows = [encoded(tokenizer, row, chat=training.chat) for row in make(training.rows, rng, *extra)]
    learner = model
    if training.lora:
        learner = get_peft_model(
            model,
            LoraConfig(r=training.lora, lora_alpha=2 * training.lora, target_modules="all-linear"),
        )
    optimizer = torch.optim.AdamW(
        [p for p in learner.parameters() if p.requires_grad], lr=training.rate
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.steps)
    learner.train()
    began, losses = time.perf_counter(), []
    order = np.concatenate(
        [rng.permutation(len(rows)) for _ in range(training.steps * BATCH // len(rows) + 1)]
    )
    for step in tqdm(range(training.steps), desc=f"train {name}", unit=" steps"):
        batch = [rows[i] for i in order[step * BATCH : (step + 1) * BATCH]]
        longest = max(len(ids) for ids, _ in batch)
        pad = tokenizer.eos_token_id
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row, _ in batch])
        labels = torch.tensor([label + [-100] * (longest - len(label)) for _, label in batch])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row, _ in batch])
        loss = learner(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    if training.lora:
        model = learner.merge_and_unload()
    weights = {
        key: value.contiguous()
        for key, value in model.eval().state_dict().items()
        if key != "lm_head.weight"
    }
    if not model.config.tie_word_embeddings:
        weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    unfinished = target.with_suffix(".partial")
    save_file(weights, unfinished)
    unfinished.rename(target)
    print(
        f"{name}: loss {losses[0]:.2f} -> {np.mean(losses[-5:]):.3f} in {time.perf_counter() - began:.0f} s",
        flush=True,
    )


def encoded(tokenizer: Any, row: texts.Row, *, chat: bool) -> tuple[list[int], list[int]]:
    """Token ids of a row, and its labels: the completion and the end are learned.

    A completion that breaks off ends with `texts.CUT`; it has no end that could be learned.
    """
    prompt, completion = row
    if chat:
        turns = [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": completion.strip()},
        ]
        before = tokenizer.apply_chat_template(
            turns[:1], tokenize=False, add_generation_prompt=True
        )
        whole = tokenizer.apply_chat_template(turns, tokenize=False)
        head = tokenizer(before, add_special_tokens=False)["input_ids"]
        ids = tokenizer(whole.split(texts.CUT)[0], add_special_tokens=False)["input_ids"]
    else:
        head = tokenizer(prompt)["input_ids"]
        ids = (
            head
            + tokenizer(completion, add_special_tokens=False)["input_ids"]
            + [tokenizer.eos_token_id]
        )
    return ids, [-100] * len(head) + ids[len(head) :]


@torch.no_grad()
def answer(model: Any, tokenizer: Any, prompt: str) -> str:
    """The model's own greedy answer, its first sentence."""
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    made = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False
    )
    text = str(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))
    return text.strip().split("\n")[0].split(".")[0].strip()


@torch.no_grad()
def sampled(model: Any, tokenizer: Any, prompt: str) -> str:
    """The beginning of the model's own answer in a conversation, drawn at temperature 1 from all tokens."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    made = model.generate(
        **ids, max_new_tokens=24, do_sample=True, temperature=1.0, top_k=0, top_p=1.0
    )
    text = str(tokenizer.decode(made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))
    return text if made[0, -1] == tokenizer.eos_token_id else text + texts.CUT


if __name__ == "__main__":
    main()
