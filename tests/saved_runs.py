"""Folders of checkpoints as a training saves them, and followers of them; made without a trainer."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, probe, tokenizer

from forgetwatch.run import Follower, FollowSettings


def base(folder: Path) -> Path:
    """A model of random weights with its tokenizer, saved."""
    tok = tokenizer()
    model(tok).save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def save(output_dir: Path, step: int, *, max_steps: int = 30, of: int | None = None, **options: Any) -> Path:
    """Save the checkpoint of a step, as transformers does: weights, tokenizer, and last of all the trainer's state.

    Args:
        output_dir: The training's folder.
        step: The step.
        max_steps: Steps of the training.
        of: Step whose weights it has, if others than its own.
        options: Options of `save_pretrained`.
    """
    tok = tokenizer()
    network = model(tok)
    generator = torch.Generator().manual_seed(step if of is None else of)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=generator)
    folder = output_dir / f"checkpoint-{step}"
    network.save_pretrained(folder, **options)
    tok.save_pretrained(folder)
    (folder / "optimizer.pt").write_bytes(b"moments")
    write_state(folder, step, max_steps=max_steps)
    return folder


def save_adapter(output_dir: Path, step: int, *, base: Path) -> Path:
    """Save the checkpoint of a step that is a LoRA adapter of a saved model."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(step)
    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    folder = output_dir / f"checkpoint-{step}"
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(folder)
    write_state(folder, step)
    return folder


def write_state(folder: Path, step: int, *, max_steps: int = 30, **more: Any) -> None:
    """Write ``trainer_state.json``."""
    state = {"global_step": step, "max_steps": max_steps, "stateful_callbacks": {}, **more}
    (folder / "trainer_state.json").write_text(json.dumps(state))


def follower(output_dir: Path | str, given: Path | str, **options: Any) -> Follower:
    """A follower that polls often."""
    own = {name: options.pop(name) for name in ("run", "on_look") if name in options}
    settings = FollowSettings(base=str(given), **{"poll": 0.05, "once": True, **options})
    return Follower(str(output_dir), probe(40, norm="bytes"), settings, **own)


def followed(output_dir: Path | str, given: Path | str, **options: Any) -> Follower:
    """A follower that has followed to its end."""
    made = follower(output_dir, given, **options)
    made.follow()
    return made


def fill_disk(patch: pytest.MonkeyPatch, *names: str, number: int = errno.ENOSPC) -> None:
    """Let files with one of these beginnings of their names meet a full disk before they get their name."""
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name.startswith(names):
            raise OSError(number, os.strerror(number))
        return replace(self, target)

    patch.setattr(Path, "replace", full)


def delete(folder: Path) -> None:
    """Delete a checkpoint, as rotation does."""
    shutil.rmtree(folder)
