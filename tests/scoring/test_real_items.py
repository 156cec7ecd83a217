"""Real questions by others, scored by forgetwatch and by lm-evaluation-harness's own model class on the same models."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import JAMBA
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from forgetwatch import Item, Probe
from forgetwatch.scoring.scorer import Scorer

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "llama": ("llama", {}, "trie"),
    "qwen3": ("qwen3", {"head_dim": 16}, "trie"),
    "gpt2": ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 4096}, "trie"),
    "gemma3, window 64": ("gemma3_text", {"head_dim": 16, "sliding_window": 64}, "trie"),
    "mistral, window 64": ("mistral", {"sliding_window": 64}, "trie"),
    "jamba": ("jamba", JAMBA, "rows"),
}


def read_csv(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def mmlu(folder: Path, *, shots: int, count: int) -> list[Item]:
    def asked(row: list[str]) -> str:
        options = "".join(
            f"\n{letter}. {text}" for letter, text in zip("ABCD", row[1:5], strict=True)
        )
        return f"{row[0].strip()}{options}\nAnswer:"

    items = []
    for subject in ("anatomy", "marketing"):
        dev = read_csv(folder / f"mmlu/data/dev/{subject}_dev.csv")
        prefix = "".join(f"{asked(row)} {row[5]}\n\n" for row in dev[:shots])
        rows = read_csv(folder / f"mmlu/data/test/{subject}_test.csv")
        items += [
            Item(
                id=f"{subject}{number}",
                task=subject,
                prompt=prefix + asked(row),
                choices=(" A", " B", " C", " D"),
                answer="ABCD".index(row[5]),
            )
            for number, row in zip(range(count), rows, strict=False)
        ]
    return items


def agieval(folder: Path, *, count: int) -> list[Item]:
    lines = (folder / "agieval/lsat-rc.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:count]]
    items = []
    for number, row in enumerate(rows):
        options = row["options"] if isinstance(row["options"], list) else json.loads(row["options"])
        items.append(
            Item(
                id=str(number),
                task="lsat-rc",
                prompt=f"{row['passage']}\nQ: {row['question']}\nA:",
                choices=tuple(f" {option[3:].strip()}" for option in options),
                answer=0,
            )
        )
    return items


def truthfulqa(folder: Path, *, count: int) -> list[Item]:
    rows = json.loads((folder / "truthfulqa/validation_en.json").read_text(encoding="utf-8"))
    by_size = sorted(rows, key=lambda row: len(row["mc1_targets"]["choices"]))  # k from 2 to 13
    return [
        Item(
            id=str(number),
            task="truthfulqa",
            prompt=f"Q: {row['question']}\nA:",
            choices=tuple(f" {choice}" for choice in row["mc1_targets"]["choices"]),
            answer=0,
        )
        for number, row in enumerate([*by_size[:: max(1, len(by_size) // count)], by_size[-1]])
    ]


@pytest.fixture(scope="module")
def items(request: pytest.FixtureRequest) -> dict[str, list[Item]]:
    folder = Path(request.getfixturevalue("real_data")) / "probes"
    return {
        "mmlu, zero-shot": mmlu(folder, shots=0, count=8),
        "mmlu, five-shot": mmlu(folder, shots=5, count=5),
        "agieval, passages": agieval(folder, count=6),
        "truthfulqa": truthfulqa(folder, count=14),
    }


@pytest.fixture(scope="module")
def tok(items: dict[str, list[Item]]) -> Any:
    """A byte-level tokenizer of 3,000 tokens, learned from the items themselves."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    texts = [
        str(item.prompt) + " ".join(item.choices or ())
        for group in items.values()
        for item in group
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<eos>", "<bos>"]
    backend.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=3000, special_tokens=special, initial_alphabet=alphabet),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>"
    )


@pytest.mark.full("jamba", reason="further models")
@pytest.mark.parametrize("name", MODELS)
def test_log_likelihoods_and_choices_are_the_harnesss(
    name: str, items: dict[str, list[Item]], tok: Any
) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    kind, options, layout = MODELS[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SIZES, "vocab_size": len(tok), **options})
    network = AutoModelForCausalLM.from_config(config).eval()
    harness = HFLM(pretrained=network, tokenizer=tok, batch_size=8, max_length=4096)
    sizes = set()
    layouts = {}
    for workload, group in items.items():
        asked = [
            Instance("loglikelihood", {}, (i.prompt, c), n)
            for n, i in enumerate(group)
            for c in i.choices or ()
        ]
        theirs = iter([value for value, _ in harness.loglikelihood(asked, disable_tqdm=True)])
        scorer = Scorer(Probe(group), tok, network)
        rows = scorer.score(network).table.to_pylist()
        layouts[workload] = scorer.engine.layout
        for item, row in zip(group, rows, strict=True):
            expected = np.array([next(theirs) for _ in item.choices or ()])
            found = np.array(row["choice_logprobs"])
            assert found == pytest.approx(expected, abs=1e-4)
            chars = np.array([len(choice) - 1 for choice in item.choices or ()])
            for ours, harnesss in ((found, expected), (found / chars, expected / chars)):
                best = np.sort(harnesss)
                if best[-1] - best[-2] > 1e-4:
                    assert ours.argmax() == harnesss.argmax()
            sizes.add(len(found))
    assert {2, 4, 5, 13} <= sizes
    assert set(layouts.values()) == ({"prefix", "trie"} if layout == "trie" else {"rows"})
    assert layouts["mmlu, five-shot"] == ("prefix" if layout == "trie" else "rows")
