"""Folders of checkpoints as a training saves them, and followers of them; made without a trainer.

Events in a training, something done at the end of a step; and what is read of a training afterwards.

Data, a reward and an adapter for tiny trainings by the trainers of TRL.
"""

import errno
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support import WORDS, model, probe, tokenizer
from transformers import TrainerCallback

from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.follow.follower import Follower


def described(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "_forgetwatch" / "run.json").read_text())
    return found


def base(folder: Path) -> Path:
    """A model of random weights with its tokenizer, saved."""
    tok = tokenizer()
    model(tok).save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def save(
    output_dir: Path, step: int, *, max_steps: int = 30, of: int | None = None, **options: Any
) -> Path:
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


class At(TrainerCallback):
    """Does something with the trainer's control, or with another argument of the event, at the end of a step."""

    def __init__(self, step: int, act: Callable[[Any], object], *, to: str = "control") -> None:
        self.step, self.act, self.to = step, act, to

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            self.act({"control": control, **kwargs}[self.to])


def stop(control: Any) -> None:
    """Let the trainer stop after this step."""
    control.should_training_stop = True


def interrupt(control: Any) -> None:
    """Interrupt the training, as a user does."""
    raise KeyboardInterrupt


def weights(run: Any) -> str:
    return hashlib.sha256(
        b"".join(p.detach().numpy().tobytes() for p in run.model.parameters())
    ).hexdigest()


def curve(run: Any) -> dict[int, tuple[int, int]]:
    """Forgotten and gained by step, as the trainer logged them, each step once."""
    rows = [row for row in run.state.log_history if "eval_forget/all/forgotten" in row]
    assert len({row["step"] for row in rows}) == len(rows)
    return {
        row["step"]: (row["eval_forget/all/forgotten"], row["eval_forget/all/gained"])
        for row in rows
    }


def losses(run: Any) -> list[float]:
    return [row["loss"] for row in run.state.log_history if "loss" in row]


def log_lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Our lines on stderr."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("forgetwatch:")]


EXAMPLES = 16
LORA = {"r": 4, "lora_alpha": 32, "lora_dropout": 0.1, "target_modules": "all-linear"}


def examples(kind: str) -> Any:
    """Random words as the examples of one kind of training."""
    from datasets import Dataset

    rng = random.Random(0)

    def words(count: int) -> str:
        return " ".join(rng.choices(WORDS[:40], k=count))

    def example(at: int) -> dict[str, Any]:
        prompt = [{"role": "user", "content": words(4)}]
        answers = [[{"role": "assistant", "content": words(6)}] for _ in range(2)]
        return {
            "text": {"text": words(12)},
            "prompt": {"prompt": prompt},
            "chat": {"messages": prompt + answers[0]},
            "pair": {"prompt": prompt, "chosen": answers[0], "rejected": answers[1]},
            "context": {"prompt": prompt, "privileged_context": words(4)},
            "label": {"prompt": prompt, "completion": answers[0], "label": at % 2 == 0},
        }[kind]

    return Dataset.from_list([example(at) for at in range(EXAMPLES)])


def length(completions: Sequence[Any], **_: Any) -> list[float]:
    """A reward: the characters of what was written."""
    return [float(len(completion[0]["content"])) for completion in completions]
