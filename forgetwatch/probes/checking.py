"""What is wrong with a probe, before a model is asked: findings with counts and examples.

    repeated          the same question twice in a task            two tasks      under two tasks
    contradictions    the same question with unlike answers        leaked         only the right option is in the prompt
    alike options     two options with the same words, or tokens   too long       longer than the model reads
    one option        nothing to choose                            position       the right option is often n-th
    longest option    the right option is often the longest        no template    the tokenizer knows no chat

The last two are shortcuts: choosers that read no question. They count as findings where they hit more often than
chance by more than luck (4 standard errors), whatever the size of the effect; the numbers stand in the sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe
from forgetwatch.probes.overlap import training_text

Tokenize = Callable[[str], Sequence[int]]
"""A text to token ids, without special tokens."""

_CLEAR: Final = 4.0
"""Standard errors beyond which a chooser is no luck."""


_FEW_LEAKED: Final = 0.01
"""Share of the items up to which a right option in the prompt may be meant."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: What was looked for.
        items: The items that have it, as (task, id).
        of: Items that could have had it.
        wrong: Whether it speaks against the probe.
        about: The finding in a few words, with its numbers.
    """

    name: str
    items: tuple[tuple[str, str], ...]
    of: int
    wrong: bool
    about: str


def check_probe(
    probe: Probe, *, tokenize: Tokenize | None = None, context: int | None = None, chats: bool = True
) -> list[Finding]:
    """Everything that was looked for in a probe, found or not.

    Args:
        probe: What to check.
        tokenize: A tokenizer, without special tokens; without one nothing is said of tokens.
        context: Tokens that the model reads; without it, or without a tokenizer, nothing is said of lengths.
        chats: Whether the tokenizer has a chat template; items that need one are a finding where it has none.
    """
    findings = [*_repetitions(probe), _leaked(probe), _alike(probe), _single(probe)]
    findings += [_position(probe), _longest(probe)]
    if tokenize is not None:
        findings.append(_same_tokens(probe, tokenize))
        if context is not None:
            findings.append(_too_long(probe, tokenize, context))
    if not chats:
        findings.append(_no_template(probe))
    return findings


def _repetitions(probe: Probe) -> list[Finding]:
    """Questions that stand twice, compared without case and spaces, with their options in any order."""
    groups: dict[Hashable, list[Item]] = {}
    for item in probe:
        options = tuple(sorted(_folded(choice) for choice in item.choices))
        groups.setdefault((_folded(_prompt(item)), options), []).append(item)
    several = [items for items in groups.values() if len(items) > 1]
    within = [i for items in several for i in items if sum(other.task == i.task for other in items) > 1]
    across = [item for items in several if len({one.task for one in items}) > 1 for item in items]
    unlike = [item for items in several if len({_right(one) for one in items}) > 1 for item in items]
    return [
        _finding("repeated", within, len(probe), "the same question twice in a task"),
        _finding("two tasks", across, len(probe), "the same question under two tasks"),
        _finding("contradictions", unlike, len(probe), "the same question with unlike right answers"),
    ]


def _leaked(probe: Probe) -> Finding:
    """Items whose prompt holds the right option and no other; letters and options listed in the prompt are none.

    Numbers, yes and no stand in many prompts without giving anything away. A few among many may be meant ("What is the
    plural of sheep?"): only above one in a hundred does it speak against the probe.
    """
    asked = [item for item in probe if len(item.choices) > 1 and not _are_letters(item) and not _are_signs(item)]
    found = []
    for item in asked:
        prompt = _folded(_prompt(item))
        options = [re.escape(_folded(choice)) for choice in item.choices]
        inside = {place for place, text in enumerate(options) if text and re.search(rf"(?<!\w){text}(?!\w)", prompt)}
        if inside and inside <= set(map(int, item.answers)):
            found.append(item)
    finding = _finding("leaked", found, len(asked), "of the options only the right one stands in the prompt")
    return replace(finding, wrong=len(found) > _FEW_LEAKED * len(asked))


def _alike(probe: Probe) -> Finding:
    asked = [item for item in probe if len(item.choices) > 1]
    found = [item for item in asked if len(set(map(_folded, item.choices))) < len(item.choices)]
    return _finding("alike options", found, len(asked), "two options are the same but for case and spaces")


def _single(probe: Probe) -> Finding:
    found = [item for item in probe if len(item.choices) == 1]
    return _finding("one option", found, len(probe), "nothing to choose: in the raw counts only")


def _same_tokens(probe: Probe, tokenize: Tokenize) -> Finding:
    asked = [item for item in probe if len(item.choices) > 1]
    found = [item for item in asked if len({tuple(tokenize(choice)) for choice in item.choices}) < len(item.choices)]
    return _finding("same tokens", found, len(asked), "the tokenizer makes two options the same")


def _too_long(probe: Probe, tokenize: Tokenize, context: int) -> Finding:
    found, longest = [], 0
    for item in probe:
        tokens = len(tokenize(_prompt(item))) + max((len(tokenize(choice)) for choice in item.choices), default=0)
        longest = max(longest, tokens)
        found += [item] if tokens > context else []
    about = f"longer than the {context:,} tokens that the model reads; the longest has {longest:,}"
    return _finding("too long", found, len(probe), about)


def _no_template(probe: Probe) -> Finding:
    found = [item for item in probe if probe.rendering_of(item) == "chat"]
    return _finding("no template", found, len(probe), "to be asked in a chat, and the tokenizer has no chat template")


def _position(probe: Probe) -> Finding:
    """The place that the right option has most often, among items with as many options."""
    of_k: dict[int, list[Item]] = {}
    for item in probe:
        if len(item.choices) > 1:
            of_k.setdefault(len(item.choices), []).append(item)
    choosers = [
        (_clear([item for item in asked if place in item.answers], asked), k, place)
        for k, asked in of_k.items()
        for place in range(k)
    ]
    if not choosers:
        return _chooser("position", [], [], "the first option")
    _, k, place = max(choosers)
    hits = [item for item in of_k[k] if place in item.answers]
    return _chooser("position", hits, of_k[k], f"always option {LETTERS[place] if place < 26 else place + 1} of {k}")


def _longest(probe: Probe) -> Finding:
    """What a chooser of the longest option gets, where there is a single longest one."""
    asked, hits = [], []
    for item in probe:
        lengths = [len(choice.strip()) for choice in item.choices]
        if len(lengths) > 1 and lengths.count(max(lengths)) == 1:
            asked.append(item)
            hits += [item] if lengths.index(max(lengths)) in item.answers else []
    return _chooser("longest option", hits, asked, "always the longest option")


def _chooser(name: str, hits: Sequence[Item], asked: Sequence[Item], what: str) -> Finding:
    if not asked:
        return Finding(name=name, items=(), of=0, wrong=False, about="no items to judge it by")
    chance = sum(len(item.answers) / len(item.choices) for item in asked) / len(asked)
    share = len(hits) / len(asked)
    return Finding(
        name=name,
        items=_names(hits),
        of=len(asked),
        wrong=_clear(hits, asked) > _CLEAR,
        about=f"{what} is right in {100 * share:.1f} % (chance {100 * chance:.1f} %)",
    )


def _clear(hits: Sequence[Item], asked: Sequence[Item]) -> float:
    """By how many standard errors a chooser hits more often than chance."""
    chances = [len(item.answers) / len(item.choices) for item in asked]
    spread = math.sqrt(sum(chance * (1 - chance) for chance in chances))
    return (len(hits) - sum(chances)) / spread if spread else 0.0


def _finding(name: str, items: Sequence[Item], of: int, about: str) -> Finding:
    return Finding(name=name, items=_names(items), of=of, wrong=bool(items), about=about)


def _names(items: Iterable[Item]) -> tuple[tuple[str, str], ...]:
    return tuple((item.task, item.id) for item in items)


def _are_signs(item: Item) -> bool:
    """Whether the right options are numbers, yes or no."""
    right = [_folded(item.choices[int(answer)]) for answer in item.answers]
    return all(text in ("yes", "no") or re.fullmatch(r"[\d.,]+( \w+)?", text) for text in right)


def _are_letters(item: Item) -> bool:
    """Whether the choices are the names of options that stand in the prompt: A, B, ... or (A), (B), ..."""
    return [choice.strip().strip("().") for choice in item.choices] == list(LETTERS[: len(item.choices)])


def _prompt(item: Item) -> str:
    return training_text(item.prompt)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _right(item: Item) -> frozenset[str]:
    return frozenset(_folded(item.choices[int(one)]) if item.choices else str(one) for one in item.answers)
