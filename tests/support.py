"""Fixtures that several tests share, made in memory: snapshots, a probe, a tokenizer, a model and a trainer."""

import csv
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.policy.condition import Condition

PATIENCE = 300
"""Seconds to wait for another process or thread, on a machine that is busy with other work."""

WORDS = [f"w{i}" for i in range(120)]


def snapshot(
    correct: Sequence[bool | None], *, meta: dict[str, Any] | None = None, **columns: Any
) -> Snapshot:
    """Snapshot of items "0", "1", ... of one task; any column can be replaced."""
    rows = len(correct)
    given: dict[str, Any] = {
        "item_id": [str(i) for i in range(rows)],
        "content_hash": [f"h{i}" for i in range(rows)],
        "task": ["t"] * rows,
        "category": ["c"] * rows,
        "correct": list(correct),
    }
    return Snapshot.from_columns({**given, **columns}, meta or {})


def decided(
    logprobs: Any,
    *,
    norm: str = "sum",
    lengths: Any = None,
    meta: dict[str, Any] | None = None,
    **columns: Any,
) -> Snapshot:
    """Snapshot decided by log-likelihoods, float64 [items, k]; the first option is right."""
    rows, k = logprobs.shape
    chosen = (logprobs / (lengths if norm == "bytes" else 1)).argmax(axis=1)
    given = {
        "k": [k] * rows,
        "gold": [0] * rows,
        "chosen": chosen.tolist(),
        "choice_logprobs": logprobs.tolist(),
    }
    given |= {} if lengths is None else {"choice_bytes": lengths.tolist()}
    return snapshot(
        (chosen == 0).tolist(),
        meta={"probe": {"norm": norm}, **(meta or {})},
        **{**given, **columns},
    )


def probe(items: int = 30, **settings: Any) -> Probe:
    """Probe of items in three tasks and two categories, k from 2 to 4, choices of one to three tokens."""
    rng = random.Random(5)
    made = []
    for index in range(items):
        k = 2 + index % 3
        choices = [" " + " ".join(rng.sample(WORDS, 1 + rng.randrange(3))) for _ in range(k)]
        made.append(
            Item(
                id=f"i{index}",
                task=f"t{index % 3}",
                category="ab"[index % 2],
                prompt="Q : " + " ".join(rng.choices(WORDS, k=4 + index % 5)) + " Answer :",
                choices=choices,
                answer=index % k,
            )
        )
    return Probe(made, **{"name": "toy", **settings})


def facts(count: int = 24, *, ending: str = "") -> list[Item]:
    """Questions of three words each; the right one of four options of a word stands anywhere."""
    rng = random.Random(4)
    return [
        Item(
            id=str(n),
            task="facts",
            category="ab"[n % 2],
            prompt=f"Q : {' '.join(rng.sample(WORDS[:60], 3))}{ending}",
            choices=[" " + word for word in rng.sample(WORDS[60:], 4)],
            answer=n % 4,
        )
        for n in range(count)
    ]


def tokenizer(*, bos: bool = False, template: bool = True, words_of: Sequence[str] = ()) -> Any:
    """Tokenizer with one token per word, also of some texts; with `bos` it puts <bos> before every text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [
        "<pad>",
        "<eos>",
        "<unk>",
        "<bos>",
        *"ABCDEFG",
        "Q",
        ":",
        "Answer",
        "user",
        "system",
        "assistant",
        *WORDS,
    ]
    words += sorted({word for text in words_of for word in text.split()} - set(words))
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", 3)]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
    )
    if template:
        made.chat_template = (
            "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}"
            "{% if add_generation_prompt %}assistant :{% endif %}"
        )
    return made


def model(tok: Any, *, seed: int = 0, positions: int = 128, dropout: float = 0.1) -> Any:
    """Qwen3 of two layers with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tok),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=positions,
            pad_token_id=tok.pad_token_id,
            eos_token_id=tok.eos_token_id,
            attention_dropout=dropout,
        )
    )


def teach(network: Any, tok: Any, texts: Sequence[str], steps: int) -> Any:
    """Return a model after so many steps on some texts, all in one batch."""
    import torch

    batch = tok(list(texts), return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    for _ in range(steps):
        network(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return network


def log_likelihood(network: Any, context: tuple[int, ...], choice: tuple[int, ...]) -> float:
    """Log-likelihood of a choice after a context, in nats, by a forward pass of its own."""
    import torch

    with torch.no_grad():
        logits = (
            network(input_ids=torch.tensor([context + choice])).logits[0].double().log_softmax(-1)
        )
    return sum(float(logits[len(context) - 1 + j, token]) for j, token in enumerate(choice))


def trained(output_dir: Path, *, resume: bool = False, **options: Any) -> Any:
    """A trainer after its training, which may resume from the last checkpoint."""
    made = trainer(output_dir, **options)
    made.train(resume_from_checkpoint=resume or None)
    return made


def trainer(
    output_dir: Path,
    *,
    callbacks: Sequence[Any] = (),
    steps: int = 6,
    tok: Any = None,
    network: Any = None,
    texts: Sequence[str] = (),
    peft_config: Any = None,
    **options: Any,
) -> Any:
    """TRL's SFTTrainer on the CPU; by default of the random model with dropout, on 32 random texts."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    tok = tok or tokenizer()
    rng = random.Random(0)
    texts = texts or [" ".join(rng.choices(WORDS[:40], k=12)) for _ in range(32)]
    data = Dataset.from_list([{"text": text} for text in texts])
    settings: dict[str, Any] = {
        "max_steps": steps,
        "per_device_train_batch_size": 2,
        "logging_steps": 2,
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "max_length": 32,
        "report_to": "none",
        "disable_tqdm": True,
        "learning_rate": 1e-2,
        "seed": 3,
        **options,
    }
    return SFTTrainer(
        model=network or model(tok),
        args=SFTConfig(output_dir=str(output_dir), **settings),
        train_dataset=data,
        eval_dataset=data if "eval_strategy" in options else None,
        processing_class=tok,
        callbacks=list(callbacks),
        peft_config=peft_config,
    )


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write one JSON object per line and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows as JSONL, JSON, Parquet or CSV, by the suffix of the path, and return the path."""
    if path.suffix == ".jsonl":
        return write_jsonl(path, rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([rows[0], *(row.values() for row in rows)])
    return path


def growth(call: Callable[[int], object], *, to: int, runs: int = 3) -> float:
    """CPU time of a call on an input of size `to`, over that of 100 calls on inputs a hundredth as large.

    At most about 1 if the time grows with the size, and up to 100 if it grows with its square. Both are measured here,
    and the least time of some runs counts, so that a slow or busy machine changes little.
    """
    times = 100

    def least(size: int, calls: int) -> float:
        took = []
        for _ in range(runs):
            began = time.thread_time()
            for _ in range(calls):
                call(size)
            took.append(time.thread_time() - began)
        return min(took)

    return least(to, 1) / least(to // times, times)


def wait_until(is_there: Callable[[], object], what: str) -> None:
    """Wait until a condition holds.

    Args:
        is_there: The condition.
        what: What is waited for, for the failure.
    """
    until = time.monotonic() + PATIENCE
    while not is_there():
        assert time.monotonic() < until, f"waited {PATIENCE} s for {what}"
        time.sleep(0.02)


def holds(text: str, comparison: Comparison) -> bool:
    """Whether a condition holds of a comparison."""
    condition = Condition.parse(text)
    return condition.is_met_by(condition.measure(comparison))
