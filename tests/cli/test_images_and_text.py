"""Models that take images and text, put to a text probe: scored, watched in a training, compared and followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from commands import Run
from support import log_likelihood, probe, tokenizer
from torch.utils.data import Dataset
from transformers import AutoConfig, AutoModelForImageTextToText, Trainer, TrainingArguments

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.errors import ScoringError
from forgetwatch.run import Follower, FollowSettings
from forgetwatch.scoring import Scorer, encode, load_model

TOK = tokenizer()
TEXT: dict[str, Any] = {
    **{"vocab_size": len(TOK), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
    **{"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 1},
}
VISION: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
    **{"image_size": 28, "patch_size": 14},
}
MROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10_000.0}
KINDS: dict[str, dict[str, Any]] = {
    "llava": {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {"model_type": "clip_vision_model", **VISION},
    },
    "qwen2_5_vl": {
        "text_config": {**TEXT, "rope_parameters": MROPE, "rope_scaling": MROPE},
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "out_hidden_size": 32,
        },
    },
    "gemma3": {"text_config": {**TEXT, "head_dim": 8, "sliding_window": 8}, "vision_config": VISION},
    "idefics3": {"text_config": {"model_type": "llama", **TEXT}, "vision_config": VISION, "image_token_id": 9},
}

PARTS: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
SMALL: dict[str, dict[str, Any]] = {
    "blip": {"text_config": {**PARTS, "encoder_hidden_size": 32, "vocab_size": len(TOK)}, "vision_config": VISION},
    "kosmos-2": {
        "text_config": {"embed_dim": 32, "ffn_dim": 64, "layers": 1, "attention_heads": 4, "vocab_size": len(TOK)},
        "vision_config": VISION,
    },
}
"""Models that need an image with every text."""


def made(kind: str, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **KINDS[kind])).float().eval()
    with torch.no_grad():
        for weight in model.parameters():  # large enough for a wrong mask to show
            if weight.ndim == 2 and 0 < (scale := float(weight.std())) < 0.15:
                weight.mul_(min(8.0, 0.15 / scale))
    return model


def saved(folder: Path, kind: str, seed: int = 0) -> Path:
    made(kind, seed).save_pretrained(folder)
    TOK.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_whole_and_scored_as_by_plain_forwards(kind: str, tmp_path: Path) -> None:
    model, tok = load_model(str(saved(tmp_path / kind, kind)))
    assert type(model).__name__ == type(made(kind)).__name__
    items = probe(24)
    snapshot = Scorer(items, tok, model).score(model)
    rows = snapshot.table["choice_logprobs"].to_pylist()
    for encoded, found in zip(encode(items, tok, max_length=128), rows, strict=True):
        for choice, value in zip(encoded.choices, found, strict=True):
            assert value == pytest.approx(log_likelihood(model, encoded.context, choice), abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("blip", "BlipForConditionalGeneration cannot read a short text (.*pixel_values"),
        ("kosmos-2", "Kosmos2ForConditionalGeneration cannot read a short text (You have to specify"),
    ],
)
def test_a_model_that_reads_no_text_alone_is_refused_in_one_sentence(kind: str, reason: str) -> None:
    model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **SMALL[kind])).float().eval()
    with pytest.raises(ScoringError, match=reason.replace("(", r"\(")):
        Scorer(probe(4), TOK, model).score(model)


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Rows of token ids, each its own label."""

    def __init__(self) -> None:
        self.rows = torch.randint(20, len(TOK), (16, 12), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def test_callback_compare_and_follow_count_the_same(tmp_path: Path, command: Run) -> None:
    items, base, out = probe(30), saved(tmp_path / "base", "qwen2_5_vl"), tmp_path / "out"
    watch = ForgetWatchCallback(items, every="save", max_overhead=None)
    settings: dict[str, Any] = {
        "max_steps": 4,
        "save_steps": 2,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": "none",
    }
    arguments = TrainingArguments(str(out), disable_tqdm=True, per_device_train_batch_size=4, **settings)
    model = transformers.AutoModelForImageTextToText.from_pretrained(base)
    Trainer(model, arguments, train_dataset=Texts(), processing_class=TOK, callbacks=[watch]).train()
    looks = {step: one.all for step, one in zip((0, 2, 4), Trajectory.from_run(out).comparisons, strict=True)}
    assert looks[4].forgotten + looks[4].gained > 0
    file = tmp_path / "p.jsonl"
    items.save(file)
    done = command("compare", str(base), str(out / "checkpoint-4"), "--probe", str(file), "--json", "-")
    (whole,) = [group for group in json.loads(done.stdout)["groups"] if group["level"] == "all"]
    assert (whole["forgotten"], whole["gained"]) == (looks[4].forgotten, looks[4].gained)
    follower = Follower(str(out), items, FollowSettings(base=str(base), once=True, poll=0.05))
    follower.follow()
    followed = {step: one.all for step, one in follower.watch.comparisons.items() if step > 0}
    assert {step: (one.forgotten, one.gained) for step, one in followed.items()} == {
        step: (looks[step].forgotten, looks[step].gained) for step in (2, 4)
    }
