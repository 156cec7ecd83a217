"""Events in a training, something done at the end of a step; and what is read of a training afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from transformers import TrainerCallback


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
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in run.model.parameters())).hexdigest()


def curve(run: Any) -> dict[int, tuple[int, int]]:
    """Forgotten and gained by step, as the trainer logged them, each step once."""
    rows = [row for row in run.state.log_history if "eval_forget/all/forgotten" in row]
    assert len({row["step"] for row in rows}) == len(rows)
    return {row["step"]: (row["eval_forget/all/forgotten"], row["eval_forget/all/gained"]) for row in rows}


def losses(run: Any) -> list[float]:
    return [row["loss"] for row in run.state.log_history if "loss" in row]


def log_lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Our lines on stderr."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("forgetwatch:")]
