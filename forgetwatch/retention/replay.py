"""Texts that the base itself writes, to be mixed into a fine-tuning: replay without the base's own training data.

    prompts ─▶ the base samples ─▶ whole, not repeating, not twice, none of the probe's questions ─▶
    rows

A row of the probe in the training set would hide what the model forgets, so that every text that
holds a question of the probe or of `confirmation`, or shares eight words in a row with one, is
dropped and counted.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from torch import nn

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.grading.traits import loops
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes.overlap import plain, shares_words
from forgetwatch.retention.topics import Prompt
from forgetwatch.scoring.encoding import encode_prompts
from forgetwatch.scoring.generation import ModelGenerator
from forgetwatch.scoring.model import ModelInfo, check_arguments

FEWEST_WORDS: Final = 8
"""Words of the shortest text that is kept."""


TOKENS: Final = 192
"""Tokens of the longest text, in a model that reads at least twice as many."""


_ROUNDS: Final = 12
"""Prompts that are drawn at most, in multiples of those that rows without a loss would need."""


_ROUND: Final = 256
"""Prompts of one round, after which the rows so far are at hand."""


_SURPLUS: Final = 1.25
"""Texts that are sampled for one that is needed."""


_FLOOR: Final = 0.25
"""Share of the rows that all categories share alike, where a run says which ones were lost."""


_SENTENCE: Final = re.compile(r"(?s)(.*(?:[.!?][\"'”’)\]]*(?=\s|$)|[。！？][」』”’]*))")


_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
"""Characters of scripts without spaces, of which two count as a word."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Texts of the base.

    Attributes:
        rows: Rows in TRL's formats: ``prompt`` and ``completion``, of messages in a chat, else of
            text.
        categories: Number of rows by category.
        dropped: Number of texts that were dropped, by the reason.
        overlap: Number of rows that share words with the forbidden probes; 0, counted again at the
            end.
    """

    rows: tuple[dict[str, Any], ...]
    categories: Mapping[str, int]
    dropped: Mapping[str, int]
    overlap: int


@dataclass
class _Kept:
    rows: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    categories: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


def sample_replay(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    rows: int,
    chat: bool,
    forbidden: Sequence[Probe] = (),
    lost: Mapping[str, float] | None = None,
    tokens: int | None = None,
    fewest_words: int = FEWEST_WORDS,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    on_row: Callable[[dict[str, Any]], object] | None = None,
) -> Replay:
    """Sample texts after prompts, and keep those fit for replay.

    The same seed gives the same rows on one machine. The model and all random states come back as
    they were.

    Args:
        model: The base, a causal language model of transformers.
        tokenizer: Its tokenizer; a chat needs its template.
        prompts: The prompts; each may be used several times.
        rows: Number of rows; fewer come back if too few texts are fit.
        chat: True for messages in the tokenizer's template, False for plain text.
        forbidden: Probes whose questions may not be in the rows.
        lost: Weight of each category, such as the number of lost questions; None for equal weights.
        tokens: Maximum number of tokens of a text; by default 192, and at most half of what the
            model reads.
        fewest_words: Number of words of the shortest text that is kept.
        temperature: Temperature of the sampling, above 0.
        seed: Seed of the choice of prompts and of the sampling.
        progress: Called with the number of rows that are kept so far.
        on_row: Called with each row as soon as it is kept.

    Raises:
        ScoringError: If the model cannot generate here, no prompt fits into its context, or a chat
            has no template.
    """
    check_arguments(model, tokenizer)
    longest = ModelInfo.of(model).context_length(tokenizer)
    tokens = min(TOKENS, longest // 2) if tokens is None else tokens
    if rows < 1 or tokens < 1 or temperature <= 0 or not prompts:
        raise ScoringError(
            "needed at least one row, one token and one prompt, and a temperature above 0, got "
            f"{rows} rows, {tokens} tokens, {len(prompts)} prompts, temperature {temperature}"
        )
    rng = np.random.default_rng(seed)
    weights = _weights(prompts, lost)
    decoding = Decoding(tokens=tokens, temperature=temperature, seed=seed)
    kept, generator = _Kept(), ModelGenerator(model, tokenizer)
    most_rounds, number = _ROUNDS * int(np.ceil(rows * _SURPLUS)), -1
    while (
        len(kept.rows) < rows
        and (left := most_rounds - len(kept.rows) - sum(kept.dropped.values())) > 0
    ):
        # In rounds, so that what is kept so far is at hand when the sampling is interrupted.
        number += 1
        needed = min(int(np.ceil((rows - len(kept.rows)) * _SURPLUS)), _ROUND, left)
        drawn = [prompts[index] for index in rng.choice(len(prompts), size=needed, p=weights)]
        items = [
            Item(id=str(at), task="replay", prompt=_asked(tokens, chat=chat), answer=".")
            for at, tokens in enumerate(drawn)
        ]
        probe = Probe(
            items, name="replay", rendering="chat" if chat else "plain", decoding=decoding
        )
        encoded = encode_prompts(probe, items, tokenizer, max_length=longest)
        if number == 0 and all(tokens.unscored for tokens in encoded):
            raise ScoringError(f"no prompt can be generated from: {encoded[0].unscored}")
        fit = [
            (prompt, tokens.context)
            for prompt, tokens in zip(drawn, encoded, strict=True)
            if not tokens.unscored
        ]
        kept.dropped["the prompt is too long"] += len(drawn) - len(fit)
        # A seed of its own for each round: an equal prompt would give an equal text.
        texts = generator.generate(
            [ids for _, ids in fit],
            decoding,
            seed=seed + 1_000_003 * number,
            progress=_within(progress, kept, needed),
        )
        for (prompt, _), answer in zip(fit, texts, strict=True):
            if len(kept.rows) < rows:
                text = answer.text.strip() if chat else answer.text.rstrip()
                if (
                    answer.truncated and not chat
                ):  # plain text has no end of its own; its last whole sentence is one
                    text = sentence[1] if (sentence := _SENTENCE.match(text)) else ""
                reason = (
                    "cut at its length"
                    if answer.truncated and chat
                    else _reason(kept, prompt, text, forbidden)
                )
                if (
                    not reason
                    and len(plain(text).split()) + len(_UNSPACED.findall(text)) // 2 < fewest_words
                ):
                    reason = "shorter than a sentence"
                _keep(kept, prompt, text, reason=reason, chat=chat)
                if on_row is not None and not reason:
                    on_row(kept.rows[-1])
        if progress:
            progress(len(kept.rows))
    overlap = sum(shares_words(probe, text) for text in kept.texts for probe in forbidden)
    return Replay(
        rows=tuple(kept.rows),
        categories=dict(kept.categories),
        dropped={reason: count for reason, count in kept.dropped.items() if count},
        overlap=overlap,
    )


def _within(
    progress: Callable[[int], None] | None, kept: _Kept, needed: int
) -> Callable[[int], None] | None:
    """As many texts of the round count as were kept of earlier ones."""
    if progress is None:
        return None
    report, before, dropped = progress, len(kept.rows), sum(kept.dropped.values())
    share = before / (before + dropped) if before else 1 / _SURPLUS
    return lambda done: report(before + int(share * min(done, needed)))


def _reason(kept: _Kept, prompt: Prompt, text: str, forbidden: Sequence[Probe]) -> str:
    if loops(text):
        return "repeats itself"
    if "<think" in text or "</think" in text:
        return "has a thinking block"
    if plain(f"{prompt.text} {text}") in kept.seen:
        return "the same text again"
    if any(shares_words(probe, f"{prompt.text}\n{text}") for probe in forbidden):
        return "with words of a question of the probe"
    return ""


def _keep(kept: _Kept, prompt: Prompt, text: str, *, reason: str, chat: bool) -> None:
    if reason:
        kept.dropped[reason] += 1
        return
    kept.seen.add(plain(f"{prompt.text} {text}"))
    kept.texts.append(f"{prompt.text}\n{text}")
    kept.categories[prompt.category] += 1
    kept.rows.append(_row(prompt.text, text, chat=chat))


def _row(prompt: str, text: str, *, chat: bool) -> dict[str, Any]:
    if not chat:
        return {"prompt": prompt, "completion": text}
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "completion": [{"role": "assistant", "content": text}],
    }


def _asked(prompt: Prompt, *, chat: bool) -> Any:
    return [{"role": "user", "content": prompt.text}] if chat else prompt.text


def _weights(prompts: Sequence[Prompt], lost: Mapping[str, float] | None) -> Any:
    """Categories weigh by what was lost in them, above a floor."""
    names = list(dict.fromkeys(prompt.category for prompt in prompts))
    total = sum((lost or {}).get(name, 0.0) for name in names)
    floor = _FLOOR if total > 0 else 1.0
    share = {
        name: floor / len(names)
        + ((1 - floor) * (lost or {}).get(name, 0.0) / total if total > 0 else 0.0)
        for name in names
    }
    number = Counter(prompt.category for prompt in prompts)
    weights = np.array([share[prompt.category] / number[prompt.category] for prompt in prompts])
    return weights / weights.sum()
