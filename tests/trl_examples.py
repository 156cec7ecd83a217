"""Data, a reward and an adapter for tiny trainings by the trainers of TRL."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from support import WORDS

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
