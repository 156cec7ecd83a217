"""Tokenizers of checkpoint folders and model ids; a folder without a vocabulary is refused."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transformers import (
    AutoConfig,
    AutoTokenizer,
)

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring.model import (
    UNLIMITED,
)

_VOCABULARY: Final = re.compile(
    r"tokenizer(\.[\d.]+)?\.json|vocab\..+|.+\.(model|tiktoken)|tekken\.json"
)
"""Files with the words of a tokenizer."""


_SETTINGS: Final = re.compile(r"tokenizer_config\.json|tokenization_.+\.py")
"""Files of a tokenizer that may need none with words, since it reads bytes or has code of its own."""


_NO_TOKENIZER: Final = (
    "it has no tokenizer; copy the files of its base's tokenizer into it (tokenizer.json and "
    "tokenizer_config.json)"
)


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer without its model."""

    tokenize: Callable[[str], Sequence[int]]  # from a text to its token ids, without special tokens
    context: int | None  # longest text that its model can read, in tokens; None if unknown
    chats: bool  # True if it has a chat template


def has_tokenizer(name_or_path: str) -> bool:
    """Does a folder have files of a tokenizer?

    True also for a model id.
    """
    return (
        not Path(name_or_path).is_dir()
        or _has(name_or_path, _VOCABULARY)
        or _has(name_or_path, _SETTINGS)
    )


def pretrained_tokenizer(name_or_path: str, *, loading: Loading) -> Any:
    """Load the tokenizer of a folder or model id.

    A folder without a vocabulary is refused.

    The class of some models, such as Qwen's, would be made without words, and Gemma's with an
    unknown word for every text. Whatever transformers raises is passed on.
    """
    if not has_tokenizer(name_or_path):
        raise ScoringError(f"{name_or_path}: {_NO_TOKENIZER}")
    tokenizer: Any = AutoTokenizer.from_pretrained(
        name_or_path, trust_remote_code=loading.trust_remote_code
    )
    # The names are those of the class; one that reads bytes has none.
    vocabulary_files = set((getattr(tokenizer, "vocab_files_names", None) or {}).values())
    if (
        vocabulary_files
        and Path(name_or_path).is_dir()
        and not (
            _has(name_or_path, _VOCABULARY) or vocabulary_files & set(os.listdir(name_or_path))
        )
    ):
        raise ScoringError(f"{name_or_path}: {_NO_TOKENIZER}")
    return tokenizer


def load_tokenizer(name_or_path: str, *, loading: Loading = Loading()) -> LoadedTokenizer:
    """Load a tokenizer, with what bounds its texts.

    Raises:
        ScoringError: With the cause, if it cannot be loaded.
    """
    try:
        tokenizer = pretrained_tokenizer(name_or_path, loading=loading)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{name_or_path}: no tokenizer can be loaded from it; needed a folder with its "
            f"files, or a model id ({' '.join(str(error).split())})"
        ) from error
    try:
        config = AutoConfig.from_pretrained(
            name_or_path, trust_remote_code=loading.trust_remote_code
        )
        context = getattr(config, "max_position_embeddings", None)
    except Exception:  # a folder with a tokenizer and no model
        context = None
    # Larger numbers are transformers' value for a tokenizer without a limit.
    bound = int(tokenizer.model_max_length) if tokenizer.model_max_length < UNLIMITED else None
    lengths = [length for length in (context, bound) if length]

    def tokenize(text: str) -> Sequence[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return LoadedTokenizer(
        tokenize, min(lengths) if lengths else None, bool(tokenizer.chat_template)
    )


def _has(folder: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(name) for name in os.listdir(folder))
