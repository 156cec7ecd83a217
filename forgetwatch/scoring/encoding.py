"""Text to token ids, cut between context and choice the way lm-evaluation-harness cuts it.

Context and choice are tokenized together, and the choice is what follows the context's own tokens: a merge across the
border goes to the choice. White space at the end of the context moves to the choice (behind a chat template only
spaces: the line break that ends its header is not part of the answer). An empty context becomes BOS (or EOS). BOS is
added where the tokenizer would add it, never twice.

A tokenizer alone, for those who ask about a probe and load no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.grading import ungradable_reason
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.scoring.rendering import Rendered, render, render_prompt

Ids = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One item as token ids.

    Attributes:
        context: Ids before the answer.
        texts: Text of each choice, as it was appended.
        choices: Ids of each choice.
        spellings: Single tokens that spell a choice in another way, by choice.
        unscored: Why the item cannot be scored; empty if it can.
    """

    context: Ids
    texts: tuple[str, ...]
    choices: tuple[Ids, ...]
    spellings: tuple[tuple[int, ...], ...]
    unscored: str = ""

    @property
    def prompt_hash(self) -> str:
        """First 16 hex digits of SHA-256 over all token ids that are scored."""
        text = json.dumps([self.context, self.choices])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(probe: Probe, tokenizer: Any, *, max_length: int) -> list[Encoded]:
    """All items of a probe as token ids, in its order.

    Args:
        probe: The items and their rendering.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Tokens that the model can read; longer items are unscored.
    """
    rendered = [render(item, probe, tokenizer) for item in probe]
    contexts, wholes = [], []
    for one in rendered:
        context = one.context.rstrip(" ") if one.templated else one.context.rstrip()
        moved = one.context[len(context) :]
        contexts.append(context)
        wholes += [context + moved + choice for choice in _continuations(one)]
    context_ids = _tokenize(contexts, tokenizer)
    whole_ids = iter(_tokenize(wholes, tokenizer))
    bos = _added_bos(tokenizer)
    return [
        _encode_item(one, ids, [next(whole_ids) for _ in _continuations(one)], bos, tokenizer, max_length)
        for one, ids in zip(rendered, context_ids, strict=True)
    ]


def encode_prompts(probe: Probe, items: Sequence[Item], tokenizer: Any, *, max_length: int) -> list[Encoded]:
    """What the model goes on from when it writes the answers to some items of a probe, as token ids.

    White space at the end of a plain prompt stays: the model goes on from the prompt as it stands.

    Args:
        probe: How they are asked.
        items: The items.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Tokens that the model can read, those that it writes included.
    """
    rendered = [render_prompt(item, probe, tokenizer) for item in items]
    bos = _added_bos(tokenizer)
    room = max_length - Decoding.of(probe.decoding).tokens
    found = []
    tokenized = _tokenize([each.context for each in rendered], tokenizer)
    for item, one, ids in zip(items, rendered, tokenized, strict=True):
        context = (bos + ids if bos and not one.templated and ids[:1] != bos else ids) or _start(tokenizer)
        why = "" if context else "an empty prompt, and the tokenizer has no start token"
        why = why or ("" if item.judge else ungradable_reason(item))
        if len(context) > room:
            written = max_length - room
            why = f"{len(context)} tokens and {written} for the answer, and the model reads {max_length}"
        found.append(Encoded(context=context, texts=(), choices=(), spellings=(), unscored=why))
    return found


def unprompted(encoded: Encoded, tokenizer: Any) -> Encoded:
    """The choices of an item without its prompt: behind BOS (or EOS) alone, as text of their own."""
    start = _start(tokenizer)
    choices = tuple(_tokenize(list(encoded.texts), tokenizer))
    why = encoded.unscored or ("" if start else "the tokenizer has no start token")
    why = why or ("" if all(choices) else "a choice has no tokens of its own")
    return Encoded(
        context=start,
        texts=encoded.texts,
        choices=choices,
        spellings=((),) * len(choices),
        unscored=why,
    )


def _continuations(rendered: Rendered) -> list[str]:
    return [*rendered.choices, *(text for texts in rendered.spellings for text in texts)]


def _encode_item(
    rendered: Rendered, context: Ids, wholes: Sequence[Ids], bos: Ids, tokenizer: Any, max_length: int
) -> Encoded:
    continuations = [whole[len(context) :] for whole in wholes]
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
        spellings=tuple(
            tuple({ids[0] for ids in of_choice if len(ids) == 1} - {choice[0]} if len(choice) == 1 else ())
            for of_choice, choice in zip(spelled, choices, strict=True)
        ),
        unscored=_why_unscored(rendered.choices, context, choices, max_length),
    )


def _why_unscored(texts: Sequence[str], context: Ids, choices: tuple[Ids, ...], max_length: int) -> str:
    if not choices:
        return "its answer was not asked for"
    if not context:
        return "an empty prompt, and the tokenizer has no start token"
    for index, (text, ids) in enumerate(zip(texts, choices, strict=True)):
        if not text.strip():
            return f"choice {index} has no text"
        if not ids:
            return f"choice {index} has no tokens of its own"
    longest = len(context) + max(map(len, choices)) - 1
    return f"{longest} tokens, and the model reads {max_length}" if longest > max_length else ""


def _tokenize(texts: list[str], tokenizer: Any) -> list[Ids]:
    if not texts:
        return []
    return [tuple(ids) for ids in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]


def _start(tokenizer: Any) -> Ids:
    """What stands for an empty context: BOS, else EOS, else nothing."""
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return () if start is None else (start,)


def _added_bos(tokenizer: Any) -> Ids:
    """The BOS that the tokenizer puts before plain text on its own, if it does."""
    bos = tokenizer.bos_token_id
    starts = tuple(tokenizer("a", verbose=False)["input_ids"])[:1]
    return (bos,) if bos is not None and starts == (bos,) else ()


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
