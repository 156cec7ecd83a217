"""Passages, and snapshots of passages, that several tests share."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from support import WORDS

from forgetwatch import Item, Snapshot


def passages(number: int = 12) -> list[Item]:
    """Passages of 20 to 42 random words, in two categories."""
    return [
        Item(
            id=f"text-{index}",
            task=f"passages:{'code' if index % 3 else 'news'}",
            category="Code" if index % 3 else "News",
            prompt="",
            choices=(" ".join(random.Random(index).choices(WORDS, k=20 + 2 * (index % 12))),),
        )
        for index in range(number)
    ]


def read(
    *,
    bits: Sequence[float],
    questions: Sequence[bool] = (),
    unscored: Sequence[int] = (),
    step: int = 0,
) -> Snapshot:
    """Snapshot of some questions of category Math, then of passages of 1,000 bytes at these bits per byte.

    Args:
        bits: Bits per byte of each passage; the first half is of category News, the second of Code.
        questions: Right or wrong of each question.
        unscored: Indices of the passages that were too long.
        step: Step in the metadata.
    """
    n, of = len(questions), len(bits)
    scored = [index not in unscored for index in range(of)]
    nats = [
        [-1000 * value * float(np.log(2))] if has else None
        for value, has in zip(bits, scored, strict=True)
    ]
    columns: dict[str, Any] = {
        "item_id": [f"q{index}" for index in range(n)] + [f"p{index}" for index in range(of)],
        "content_hash": [f"h{index}" for index in range(n + of)],
        "task": ["sums"] * n
        + ["passages:news" if 2 * index < of else "passages:code" for index in range(of)],
        "category": ["Math"] * n + ["News" if 2 * index < of else "Code" for index in range(of)],
        "k": [4] * n + [None] * of,
        "gold": [0] * n + [None] * of,
        "chosen": [0 if right else 1 for right in questions] + [None] * of,
        "correct": [*questions, *[None] * of],
        "outcome": ["ok"] * n
        + [
            "ok" if has else "unscored: longer than the 512 tokens that the model reads"
            for has in scored
        ],
        "choice_logprobs": [None] * n + nats,
        "choice_bytes": [None] * n + [[1000] if has else None for has in scored],
    }
    probe = {"name": "texts", "scoring": "loglikelihood", "norm": "sum", "rendering": "plain"}
    return Snapshot.from_columns(columns, {"model": "m", "step": step, "probe": probe})
