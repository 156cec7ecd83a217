"""SFT, SDFT and GRPO on one new task: what has each gained and lost at its best look and at the end?

``python examples/near_on_policy.py`` makes a small model, trains it by each method and prints a table, in about
five minutes on two cores. The model knows 62 % of the demo's world, and can copy an answer from a note before the
question. The new task is the other facts of three categories: SFT reads them, SDFT learns from itself with the fact as
a note, and GRPO is rewarded for the right word.

Gained and lost are questions of all 360. The numbers move with the base that a machine makes, by more than with the
seed, and with the learning rate by more than with the method. The rates here differ, so that the table is no comparison
of the methods.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from trl.experimental.sdft import SDFTConfig, SDFTTrainer

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.demo import KNOWN_SHARE, TAUGHT, make_tokenizer
from forgetwatch.probes.shipped_probes import Fact, facts


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("runs/near-on-policy"))
    parser.add_argument("--base-steps", type=int, default=1500)
    parser.add_argument("--steps", type=int, default=120, help="steps of each method")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def make_base(known: list[Fact], world: list[Fact], folder: Path, *, steps: int) -> None:
    """Train a model on the facts that it is to know, and on copying any answer from a note."""
    torch.manual_seed(1)
    tokenizer = make_tokenizer(world)
    sizes = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    ends = {
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        tie_word_embeddings=True,
        **sizes,
        **ends,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    plain = [f"{fact.text} {fact.value} ." for fact in known]
    for _ in range(steps):
        noted = [world[at] for at in torch.randint(len(world), (32,))]
        values = [
            fact.relation.values[int(torch.randint(len(fact.relation.values), ()))]
            for fact in noted
        ]
        notes = [
            f"{fact.text} {value} . {fact.text} {value} ."
            for fact, value in zip(noted, values, strict=True)
        ]
        rows = [plain[at] for at in torch.randint(len(plain), (32,))] + notes
        batch = tokenizer(rows, padding=True, return_tensors="pt")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
        ).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def right_word(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Return the rewards: 1 if a completion begins with the right word."""
    return [
        float(text.split()[:1] == [word]) for text, word in zip(completions, answer, strict=True)
    ]


def trainers(base: str, new: list[Fact], given: argparse.Namespace) -> dict[str, Any]:
    """Return a function for each method that makes its trainer."""
    texts = [f"{fact.text} {fact.value} ." for fact in new]
    prompts = {"prompt": [fact.text for fact in new]}

    def common(name: str, rate: float) -> dict[str, Any]:
        every = {
            "max_steps": given.steps,
            "logging_steps": 20,
            "save_strategy": "no",
            "report_to": "none",
        }
        return {
            "output_dir": str(given.output / name),
            "learning_rate": rate,
            "seed": given.seed,
            "bf16": False,
            **every,
        }

    def rest() -> dict[str, Any]:
        watcher = ForgetWatchCallback("demo", every=5, max_overhead=None, guard=None, lineage=False)
        model = AutoModelForCausalLM.from_pretrained(base)
        return {
            "model": model,
            "processing_class": AutoTokenizer.from_pretrained(base),
            "callbacks": [watcher],
        }

    samples = {"max_completion_length": 2, "num_generations": 8, "per_device_train_batch_size": 32}
    note = {
        "teacher_model_kind": "base",
        "teacher_prompt_template": "{privileged_context} {prompt}",
    }
    return {
        "SFT": lambda: SFTTrainer(
            args=SFTConfig(**common("SFT", 1e-4), per_device_train_batch_size=16, max_length=32),
            train_dataset=Dataset.from_dict({"text": texts}),
            **rest(),
        ),
        "SDFT": lambda: SDFTTrainer(
            args=SDFTConfig(**common("SDFT", 2e-4), **{**samples, "num_generations": 1}, **note),
            train_dataset=Dataset.from_dict({**prompts, "privileged_context": texts}),
            **rest(),
        ),
        "GRPO": lambda: GRPOTrainer(
            reward_funcs=right_word,
            args=GRPOConfig(**common("GRPO", 1e-4), **samples),
            train_dataset=Dataset.from_dict({**prompts, "answer": [fact.value for fact in new]}),
            **rest(),
        ),
    }


def best_look(run: Trajectory) -> tuple[int, float, float]:
    """Return (step, gained, lost) of the look with the most right answers."""
    looks = zip(run.steps, run.comparisons, strict=True)
    step, look = max(looks, key=lambda one: one[1].all.accuracy_after)
    return step, look.all.gained, look.all.forgotten


def main(given: argparse.Namespace) -> None:
    world = list(facts())
    order = torch.randperm(len(world), generator=torch.Generator().manual_seed(1)).tolist()
    is_known = set(order[: round(KNOWN_SHARE * len(world))])
    known = [fact for at, fact in enumerate(world) if at in is_known]
    new = [
        fact
        for at, fact in enumerate(world)
        if at not in is_known and fact.relation.category in TAUGHT
    ]
    base = given.output / "base"
    if not base.exists():
        print(f"teaching a small model {len(known)} facts, and to copy from notes", flush=True)
        make_base(known, world, base, steps=given.base_steps)
    runs = {}
    for name, make in trainers(str(base), new, given).items():
        make().train()
        runs[name] = Trajectory.from_run(given.output / name)
    print(
        f"\n{len(new)} new facts\n{'method':<8}{'best at':>8}{'gained':>8}{'lost':>6}    at the end: gained, lost"
    )
    for name, run in runs.items():
        step, gained, lost = best_look(run)
        end = run.comparisons[-1].all
        print(f"{name:<8}{step:>8}{gained:>8g}{lost:>6g}{end.gained:>23g}{end.forgotten:>6g}")


if __name__ == "__main__":
    main(options())
