"""Events in a training: something done at the end of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback


class At(TrainerCallback):
    """Does something at the end of a step."""

    def __init__(self, step: int, act: Callable[[Any], object]) -> None:
        self.step, self.act = step, act

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            self.act(control)


def stop(control: Any) -> None:
    """Let the trainer stop after this step."""
    control.should_training_stop = True


def interrupt(control: Any) -> None:
    """Interrupt the training, as a user does."""
    raise KeyboardInterrupt
