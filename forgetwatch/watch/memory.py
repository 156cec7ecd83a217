"""How large a look's batches may be, so that it needs no more memory than a training step."""

from __future__ import annotations

from typing import Any, Final

from transformers import TrainingArguments

from forgetwatch.scoring.engine import CPU_TOKENS, CUDA_TOKENS

_EXAMPLES: Final = 64
_FEWEST_TOKENS: Final = 512
"""Tokens of a batch that are less than any training step needs memory for."""


def token_budget(args: TrainingArguments, examples: Any) -> int | None:
    """Tokens of a micro-batch, so that a look needs no more memory than a training step; None where nothing says.

    Args:
        args: Their `max_length` (SFT, DPO and others of TRL) or `max_completion_length` (RL) says how long texts get.
        examples: The training examples: where the arguments say nothing, the longest of the first few.
    """
    named = (getattr(args, name, None) for name in ("max_length", "max_completion_length"))
    length = next((value for value in named if isinstance(value, int) and value > 0), 0) or _longest(examples)
    if not length:
        return None
    device_tokens = CPU_TOKENS if args.device.type == "cpu" else CUDA_TOKENS
    return min(device_tokens, max(_FEWEST_TOKENS, args.per_device_train_batch_size * length))


def _longest(examples: Any) -> int:
    """Tokens of the longest of the first examples; 0 where they cannot be looked at without going through them."""
    try:
        count = min(len(examples), _EXAMPLES)
        return max((len(examples[at]["input_ids"]) for at in range(count)), default=0)
    except (LookupError, TypeError, NotImplementedError):  # no length, or examples of another kind
        return 0
