"""Turnover of a training's own prompts under GRPO or RLOO: solved, lost, and solved again ("Correct-Set Turnover").

    generation 1: solved     generation 9: not     generation 17: solved
                             lost                  solved again

The trainer of TRL keeps the prompts and rewards of its latest generation; nothing more is generated.
A prompt is solved if the mean of its rewards is at least one half, by the first reward function that
gives 0 to 1. The counts are of this process's training alone, and no part of the verdict.
"""

import hashlib
import json
from typing import Any, Final

import numpy as np

from forgetwatch.text import count

PREFIX: Final = "train_turnover"
"""Beginning of the keys in trackers."""

_SOLVED: Final = 0.5
"""Mean reward from which on a prompt is solved."""


class Turnover:
    """Prompts of a training so far, and what became of those that came again.

    Attributes:
        again: Number of prompts that came again.
        lost: Number of times that a solved prompt was not solved when it came again.
        solved_again: Number of times that a lost prompt was solved again.
    """

    def __init__(self) -> None:
        self.again = self.lost = self.solved_again = 0
        self._states: dict[bytes, list[bool]] = {}  # solved now, was lost, came again
        self._latest: Any = None

    def read(self, trainer: Any, *, is_counted: bool = True) -> None:
        """Read the latest generation of a trainer, once; nothing happens for other trainers.

        Args:
            trainer: The trainer.
            is_counted: False for the answers of an evaluation, which are passed over.
        """
        logs = getattr(trainer, "_logs", None)
        if not isinstance(logs, dict) or not logs.get("prompt") or not logs.get("rewards"):
            return
        prompts = [json.dumps(prompt, default=str) for prompt in logs["prompt"]]
        rewards = {name: np.array(list(values), float) for name, values in logs["rewards"].items()}
        outcome = next(
            (values for values in rewards.values() if _is_share(values)),
            None,
        )
        latest = list(logs["completion"]), prompts
        if outcome is None or len(outcome) != len(prompts) or latest == self._latest:
            return
        self._latest = latest
        if not is_counted:
            return
        by_prompt: dict[str, list[float]] = {}
        for prompt, score in zip(prompts, outcome.tolist(), strict=True):
            by_prompt.setdefault(prompt, []).append(score)
        for prompt, scores in by_prompt.items():
            if np.isfinite(scores).any():
                self._add(prompt, bool(np.nanmean(scores) >= _SOLVED))

    def _add(self, prompt: str, is_solved: bool) -> None:
        key = hashlib.sha256(prompt.encode()).digest()
        if (state := self._states.get(key)) is None:
            self._states[key] = [is_solved, False, False]
            return
        was_solved, was_lost, came_again = state
        self.again += not came_again
        self.lost += was_solved and not is_solved
        self.solved_again += was_lost and is_solved
        self._states[key] = [is_solved, (was_lost or was_solved) and not is_solved, True]

    @property
    def row(self) -> dict[str, float]:
        """Row for trackers; empty before a prompt came again."""
        numbers = {"again": self.again, "lost": self.lost, "solved_again": self.solved_again}
        return (
            {f"{PREFIX}/{key}": float(value) for key, value in numbers.items()}
            if self.again
            else {}
        )

    @property
    def line(self) -> str:
        """Sentence on the training's prompts; empty before any came again."""
        if not self.again:
            return ""
        return (
            f"training prompts: {count(self.again)} came again; solved ones were lost "
            f"{count(self.lost)} times, and lost ones solved again {count(self.solved_again)} times"
        )


def _is_share(values: Any) -> bool:
    there = values[np.isfinite(values)]
    return bool(there.size and there.min() >= 0 and there.max() <= 1)
