"""Items to token ids, split between context and choice as lm-evaluation-harness splits them.

    context "Q: 2+2? A:" + choice " 4"   ─▶ ids of the whole text, split after the ids of the context alone

A token that spans the border belongs to the choice. White space at the end of the context moves to the choice (after a
chat template only spaces: the line break that ends its header is not part of the answer). An empty context becomes BOS,
else EOS. BOS is added if the tokenizer itself would add it, and never twice.

A passage is a choice after an empty context. Where the tokenizer has neither BOS nor EOS nothing precedes its first
token, which has no probability then: the first token is the context, and the rest of the text is scored.

A context is tokenized once, and of the whole texts only their ends (`tokenization`), in chunks of items. Of several
processes the main one encodes for all (`processes`).

`load_tokenizer` loads a tokenizer without its model, for commands that only inspect a probe.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig, AutoTokenizer

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.grading import ungradable_reason
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.rendering import Rendered, render, render_prompt
from forgetwatch.scoring.tokenization import Ids as Ids
from forgetwatch.scoring.tokenization import tokenize, tokenize_continued
from forgetwatch.snapshot import NOT_GENERATED

_CHUNK: Final = 500
"""Items that are encoded at a time: what a tokenizer returns is much larger than the ids."""

_VOCABULARY: Final = re.compile(r"tokenizer(\.[\d.]+)?\.json|vocab\..+|.+\.(model|tiktoken)|tekken\.json")
"""Files with the words of a tokenizer."""
_SETTINGS: Final = re.compile(r"tokenizer_config\.json|tokenization_.+\.py")
"""Files of a tokenizer that may need none with words, since it reads bytes or has code of its own."""
_NO_TOKENIZER: Final = (
    "it has no tokenizer; copy the files of its base's tokenizer into it (tokenizer.json and tokenizer_config.json)"
)


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One item as token ids.

    Attributes:
        context: Token ids before the answer.
        texts: Text of each choice, as it was appended.
        choices: Token ids of each choice.
        spellings: Other single tokens that spell a choice, by choice.
        unscored: Reason why the item cannot be scored; empty if it can.
    """

    context: Ids
    texts: tuple[str, ...]
    choices: tuple[Ids, ...]
    spellings: tuple[tuple[int, ...], ...]
    unscored: str = ""

    @property
    def prompt_hash(self) -> str:
        """First 16 hex digits of SHA-256 over the JSON of the context's and the choices' token ids."""
        text = json.dumps([self.context, self.choices])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(probe: Probe, tokenizer: Any, *, max_length: int, progress: Progress | None = None) -> list[Encoded]:
    """Token ids of all items of a probe, in its order.

    Args:
        probe: The items and their rendering.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Longest text that the model can read, in tokens; longer items are unscored.
        progress: Called before the first chunk of items and after each, where there are several, with what is done.
    """
    bos, shared = _added_bos(tokenizer), dict[int, int]()
    encoded: list[Encoded] = []

    def report(count: int) -> None:
        if progress and len(probe) > _CHUNK:
            share = count / len(probe)
            progress(
                Done(count=count, total=len(probe), share=share, unit="items encoded", next="scores", repeated=False)
            )

    report(0)
    for chunk in _chunks(probe.items):
        rendered = [render(item, probe, tokenizer) for item in chunk]
        texts = []
        for one in rendered:
            context = one.context.rstrip(" ") if one.templated else one.context.rstrip()
            moved = one.context[len(context) :]  # to the beginning of each choice
            texts.append((context, [moved + choice for choice in _continuations(one)]))
        tokenized = tokenize_continued(texts, tokenizer)
        for item, one, (context_ids, continuations) in zip(chunk, rendered, tokenized, strict=True):
            made = _encode_item(one, context_ids, continuations, bos, tokenizer, max_length)
            if item.is_passage and not made.context:
                made = _from_first_token(made, tokenizer, max_length)
            encoded.append(_with_shared_integers(made, shared))
        report(len(encoded))
    return encoded


def encode_prompts(probe: Probe, items: Sequence[Item], tokenizer: Any, *, max_length: int) -> list[Encoded]:
    """Token ids of the prompts from which the model generates its answers to some items of a probe.

    White space at the end of a plain prompt stays: the model continues the prompt exactly as it is.

    Args:
        probe: The probe, with its rendering.
        items: The items.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Longest text that the model can read, in tokens, its answer included.
    """
    bos, shared = _added_bos(tokenizer), dict[int, int]()
    room = max_length - Decoding.of(probe.decoding).tokens  # for the prompt
    encoded = []
    for chunk in _chunks(items):
        rendered = [render_prompt(item, probe, tokenizer) for item in chunk]
        tokenized = tokenize_continued([(each.context, ()) for each in rendered], tokenizer)
        for item, one, (ids, _) in zip(chunk, rendered, tokenized, strict=True):
            context = (bos + ids if bos and not one.templated and ids[:1] != bos else ids) or _start(tokenizer)
            why = "" if context else "an empty prompt, and the tokenizer has no start token"
            why = why or one.unscored or ("" if item.judge else ungradable_reason(item))
            if len(context) > room:
                why = f"{len(context)} tokens and {max_length - room} for the answer, and the model reads {max_length}"
            made = Encoded(context=context, texts=(), choices=(), spellings=(), unscored=why)
            encoded.append(_with_shared_integers(made, shared))
    return encoded


def encode_unprompted(encoded: Sequence[Encoded], tokenizer: Any) -> list[Encoded]:
    """Choices of each item without its prompt: each after BOS (else EOS) alone, tokenized by itself."""
    start = _start(tokenizer)
    ids: dict[str, Ids] = {}
    for chunk in _chunks(list(dict.fromkeys(text for one in encoded for text in one.texts))):
        ids |= zip(chunk, tokenize(chunk, tokenizer), strict=True)
    made = []
    for one in encoded:
        choices = tuple(ids[text] for text in one.texts)
        why = one.unscored or ("" if start else "the tokenizer has no start token")
        why = why or ("" if all(choices) else "a choice has no tokens of its own")
        spellings = ((),) * len(choices)
        made.append(Encoded(context=start, texts=one.texts, choices=choices, spellings=spellings, unscored=why))
    return made


def tokenizer_settings(tokenizer: Any) -> tuple[str, str] | None:
    """Everything of a tokenizer that decides token ids; None for one written in Python, which has no such text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return None if backend is None else (backend.to_str(), str(getattr(tokenizer, "chat_template", None)))


def _with_shared_integers(encoded: Encoded, shared: dict[int, int]) -> Encoded:
    choices = tuple(share_integers(ids, shared) for ids in encoded.choices)
    return replace(encoded, context=share_integers(encoded.context, shared), choices=choices)


def _chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def share_integers(ids: Sequence[int], shared: dict[int, int]) -> Ids:
    """Token ids as a tuple of objects that all rows share: 8 bytes a token instead of 36.

    Args:
        ids: The token ids.
        shared: The object of each id; new ids are added.
    """
    return tuple(map(shared.setdefault, ids, ids))


def _continuations(rendered: Rendered) -> list[str]:
    """Texts to be appended to the context: the choices, then their other spellings."""
    return [*rendered.choices, *(text for texts in rendered.spellings for text in texts)]


def _encode_item(
    rendered: Rendered, context: Ids, continuations: Sequence[Ids], bos: Ids, tokenizer: Any, max_length: int
) -> Encoded:
    # BOS is added after the split: it is in neither the ids of the context nor in those of the whole text.
    if bos and not rendered.templated and context[:1] != bos:
        context = bos + context
    context = context or _start(tokenizer)
    choices = tuple(continuations[: len(rendered.choices)])
    others = iter(continuations[len(choices) :])
    spelled = tuple(tuple(next(others) for _ in texts) for texts in rendered.spellings)
    return Encoded(
        context=context,
        texts=rendered.choices,
        choices=choices,
        # Single tokens only: a spelling counts by the probability of the token at the answer position.
        spellings=tuple(
            tuple({ids[0] for ids in of_choice if len(ids) == 1} - {choice[0]} if len(choice) == 1 else ())
            for of_choice, choice in zip(spelled, choices, strict=True)
        ),
        unscored=rendered.unscored or _why_unscored(rendered.choices, context, choices, max_length),
    )


def _from_first_token(encoded: Encoded, tokenizer: Any, max_length: int) -> Encoded:
    """A passage whose first token is its context; as it is where no token ends between two characters."""
    (text,), (ids,) = encoded.texts, encoded.choices
    for count in range(1, len(ids)):
        # A token may be a part of a character; the bytes of the rest are those of whole characters.
        start = tokenizer.decode(list(ids[:count]), clean_up_tokenization_spaces=False)
        if start and text.startswith(start):
            context, texts, choices = ids[:count], (text[len(start) :],), (ids[count:],)
            why = _why_unscored(texts, context, choices, max_length)
            return replace(encoded, context=context, texts=texts, choices=choices, unscored=why)
    return encoded


def _why_unscored(texts: Sequence[str], context: Ids, choices: tuple[Ids, ...], max_length: int) -> str:
    """Reason why an item cannot be scored, which is stored in its outcome; empty if it can."""
    if not choices:
        return NOT_GENERATED
    if not context:
        return "an empty prompt, and the tokenizer has no start token"
    for index, (text, ids) in enumerate(zip(texts, choices, strict=True)):
        if not text.strip():
            return f"choice {index} has no text"
        if not ids:
            return f"choice {index} has no tokens of its own"
    longest = len(context) + max(map(len, choices)) - 1  # the last token is predicted and never read
    return f"{longest} tokens, and the model reads {max_length}" if longest > max_length else ""


def _start(tokenizer: Any) -> Ids:
    """Token ids in place of an empty context: BOS, else EOS, else none."""
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return () if start is None else (start,)


def _added_bos(tokenizer: Any) -> Ids:
    """BOS, if the tokenizer itself puts it before a plain text; else no token."""
    # The settings that add BOS differ between tokenizers; the ids of an example show the result of all of them.
    bos = tokenizer.bos_token_id
    starts = tuple(tokenizer("a", verbose=False)["input_ids"])[:1]
    return (bos,) if bos is not None and starts == (bos,) else ()


_UNBOUNDED = 10**9
"""Lengths above this are transformers' value for a tokenizer without a limit."""


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer without its model.

    Attributes:
        tokenize: Function from a text to its token ids, without special tokens.
        context: Longest text that its model can read, in tokens; None if unknown.
        chats: True if it has a chat template.
    """

    tokenize: Callable[[str], Sequence[int]]
    context: int | None
    chats: bool


def has_tokenizer(given: str) -> bool:
    """True if a folder has files of a tokenizer; also for what is no folder here, such as the id of a model."""
    return not Path(given).is_dir() or _has(given, _VOCABULARY) or _has(given, _SETTINGS)


def pretrained_tokenizer(given: str, *, trust_remote_code: bool) -> Any:
    """Tokenizer of a checkpoint folder or model id, with a vocabulary.

    Raises:
        ScoringError: If a folder has no tokenizer. The class of some models, such as Qwen's, would be made without
            words, and Gemma's with an unknown word for every text.
        Exception: Whatever transformers raises.
    """
    if not has_tokenizer(given):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    tokenizer: Any = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
    # The names are those of the class; one that reads bytes has none.
    named = set((getattr(tokenizer, "vocab_files_names", None) or {}).values())
    if named and Path(given).is_dir() and not (_has(given, _VOCABULARY) or named & set(os.listdir(given))):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    return tokenizer


def _has(folder: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(name) for name in os.listdir(folder))


def load_tokenizer(given: str, *, trust_remote_code: bool = False) -> LoadedTokenizer:
    """Tokenizer of a checkpoint folder or model id.

    Raises:
        ScoringError: If it cannot be loaded; the message has the cause.
    """
    try:
        tokenizer = pretrained_tokenizer(given, trust_remote_code=trust_remote_code)
    except ScoringError:
        raise
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
