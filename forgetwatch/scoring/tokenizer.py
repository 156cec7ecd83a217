"""A tokenizer alone, for those who ask about a probe and load no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformers import AutoConfig, AutoTokenizer

from forgetwatch.errors import ScoringError

_UNBOUNDED = 10**9
"""What transformers gives as the longest text of a tokenizer that knows no bound."""


@dataclass(frozen=True)
class LoadedTokenizer:
    """What a tokenizer does to a text.

    Attributes:
        tokenize: A text to token ids, without special tokens.
        context: How many tokens its model reads; None where that is not known.
        chats: Whether it has a chat template.
    """

    tokenize: Callable[[str], Sequence[int]]
    context: int | None
    chats: bool


def load_tokenizer(given: str, *, trust_remote_code: bool = False) -> LoadedTokenizer:
    """The tokenizer of a checkpoint folder or model id.

    Raises:
        ScoringError: If it cannot be loaded; the cause is named.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: no tokenizer can be loaded from it; needed a folder with its files, or a model id "
            f"({' '.join(str(error).split())})"
        ) from error
    try:
        config = AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code)
        context = getattr(config, "max_position_embeddings", None)
    except Exception:  # a folder with a tokenizer and no model
        context = None
    bound = int(tokenizer.model_max_length) if tokenizer.model_max_length < _UNBOUNDED else None
    known = [length for length in (context, bound) if length]

    def tokenize(text: str) -> Sequence[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return LoadedTokenizer(tokenize, min(known) if known else None, bool(tokenizer.chat_template))
