"""Faults of a probe that can be found without a model, with counts and examples.

    repeated          the same question twice in a task          two tasks        the same question under two tasks
    contradictions    the same question, other answers           leaked           only the right option is in the prompt
    own example       the question is in its own examples        in examples      the only option in them is often right
    alike options     two options with the same words            same tokens      two options with the same tokens
    one option        nothing to choose                          too long         longer than the context window
    unlike lengths    one option is much longer than another     no template      the tokenizer has no chat template
    yes or no         such items without a cluster               position         the right one is often the n-th
    negative option   the only "no ..." is often right           longest option   the right one is often the longest

`position`, `longest option`, `negative option` and `in examples` are shortcuts: choosers that do not read the question.
They count as faults if they are right more often than chance by over 4 standard errors (2.8 for the last two, which few
items have), whatever the size of the effect; the sentence gives the numbers.

Options whose texts are scored are of unlike length if the longest has more characters than the shortest by over a third
and by over two: the log-likelihood of a longer text is lower whatever it says, and any division by the length
favours one of them. Items that are answered by yes or no change together when a model comes to prefer one of the words;
with the same `cluster` they are not counted as independent.

`answer_checking` has the checks that need a model.
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
"""Standard errors above which a chooser is better than chance."""

_CLEAR_OF_FEW: Final = 2.8
"""The same for a chooser that only a part of the items has."""

_FEW_LEAKED: Final = 0.01
"""Share of the items up to which a right option in the prompt may be intended."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check.

    Attributes:
        name: Name of the check.
        items: The items that have the fault, as (task, id).
        of: Number of items that were checked.
        wrong: True if the probe should be changed.
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
    """Check a probe and return the result of every check, including those that found nothing.

    Args:
        probe: The probe.
        tokenize: A tokenizer, without special tokens; None leaves out the checks of tokens.
        context: Context window in tokens; None leaves out the check of lengths.
        chats: True if the tokenizer has a chat template; if it has none, items that need one are a fault.
    """
    findings = [*_repetitions(probe), _leaked(probe), _alike(probe), _single(probe)]
    findings += [_unlike_lengths(probe), _yes_or_no(probe)]
    findings += [_position(probe), _longest(probe), _negative(probe), _in_examples(probe)]
    if tokenize is not None:
        findings.append(_same_tokens(probe, tokenize))
        if context is not None:
            findings.append(_too_long(probe, tokenize, context))
    if not chats:
        findings.append(_no_template(probe))
    return findings


def _repetitions(probe: Probe) -> list[Finding]:
    """Questions that occur more than once, compared without case and spacing, their options in any order."""
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
        _finding("own example", [i for i in probe if _is_own_example(i)], len(probe), "a worked example of itself"),
        _finding("contradictions", unlike, len(probe), "the same question with unlike right answers"),
    ]


def _is_own_example(item: Item) -> bool:
    """True if the worked examples contain the question itself, and its right answer after it."""
    shots, question = _folded(item.shots), _folded(_prompt(item))
    _, found, after = shots.partition(question) if question else (shots, "", "")
    return bool(found) and any(text and text in after for text in _right(item))


def _leaked(probe: Probe) -> Finding:
    """Items whose prompt contains the right option and no other option.

    Letters of listed options do not count, nor do numbers, yes and no, which are in many prompts without giving
    anything away. A few leaks may be intended ("What is the plural of sheep?"): they are a fault only above one in a
    hundred.
    """
    checked = [item for item in _with_options(probe) if not _are_letters(item) and not _are_signs(item)]
    found = [item for item in checked if set() < _options_in(_prompt(item), item) <= set(map(int, item.answers))]
    finding = _finding("leaked", found, len(checked), "of the options only the right one is in the prompt")
    return replace(finding, wrong=len(found) > _FEW_LEAKED * len(checked))


def _in_examples(probe: Probe) -> Finding:
    """Result of a chooser of the only option that the worked examples contain; they contain some by chance."""
    inside = {id(item): _options_in(item.shots, item) for item in probe if item.shots and len(item.choices) > 1}
    checked = [item for item in probe if len(inside.get(id(item), ())) == 1 and not _are_letters(item)]
    hits = [item for item in checked if inside[id(item)] <= set(map(int, item.answers))]
    return _chooser("in examples", hits, checked, "the only option in the worked examples", clear=_CLEAR_OF_FEW)


def _options_in(text: str, item: Item) -> set[int]:
    """Indices of the options that a text contains as whole words."""
    options, text = [re.escape(_folded(choice)) for choice in item.choices], _folded(text)
    # \b would demand a letter next to an option such as "+5" or "C++".
    return {index for index, one in enumerate(options) if one and re.search(rf"(?<!\w){one}(?!\w)", text)}


def _alike(probe: Probe) -> Finding:
    checked = _with_options(probe)
    found = [item for item in checked if len(set(map(_folded, item.choices))) < len(item.choices)]
    return _finding("alike options", found, len(checked), "two options are the same but for case and spaces")


def _single(probe: Probe) -> Finding:
    found = [item for item in probe if len(item.choices) == 1 and not item.is_passage]
    return _finding("one option", found, len(probe), "nothing to choose: in the raw counts only")


def _unlike_lengths(probe: Probe) -> Finding:
    """Items whose options differ in length by more than a third of the shortest and by more than two characters."""
    # Of letters only one token is scored, whatever the options say.
    scored = probe.scoring == "loglikelihood"
    checked = [item for item in probe if scored and len(item.choices) > 1 and not _are_letters(item)]
    found = []
    for item in checked:
        lengths = [len(choice.strip()) for choice in item.choices]
        found += [item] if max(lengths) - min(lengths) > max(2, min(lengths) / 3) else []
    return _finding(
        "unlike lengths", found, len(checked), "the longest option is over a third longer than the shortest"
    )


def _yes_or_no(probe: Probe) -> Finding:
    """Items answered by yes or no, or by true or false, that have no cluster; a single one moves with no other."""
    checked = _with_options(probe)
    pairs = {frozenset(pair) for pair in (("yes", "no"), ("true", "false"))}
    answered = [item for item in checked if frozenset(_folded(c).strip(".,!") for c in item.choices) in pairs]
    found = [item for item in answered if item.cluster is None]
    about = "answered by yes or no, which change together, and without a cluster"
    return replace(_finding("yes or no", found, len(checked), about), wrong=len(found) > 1)


def _same_tokens(probe: Probe, tokenize: Tokenize) -> Finding:
    checked = _with_options(probe)
    found = [item for item in checked if len({tuple(tokenize(choice)) for choice in item.choices}) < len(item.choices)]
    return _finding("same tokens", found, len(checked), "the tokenizer makes two options the same")


def _too_long(probe: Probe, tokenize: Tokenize, context: int) -> Finding:
    found, longest = [], 0
    for item in probe:
        tokens = len(tokenize(training_text(item.full_prompt))) + max(
            (len(tokenize(choice)) for choice in item.choices), default=0
        )
        longest = max(longest, tokens)
        found += [item] if tokens > context else []
    about = f"longer than the {context:,} tokens that the model reads; the longest has {longest:,}"
    return _finding("too long", found, len(probe), about)


def _no_template(probe: Probe) -> Finding:
    found = [item for item in probe if probe.rendering_of(item) == "chat"]
    return _finding(
        "no template", found, len(probe), "to be rendered as a chat, and the tokenizer has no chat template"
    )


def _position(probe: Probe) -> Finding:
    """The position at which a constant chooser is furthest above chance, among items with the same k."""
    of_k: dict[int, list[Item]] = {}
    for item in _with_options(probe):
        of_k.setdefault(len(item.choices), []).append(item)
    choosers = [
        (standard_errors(sum(index in item.answers for item in items), items), k, index)
        for k, items in of_k.items()
        for index in range(k)
    ]
    if not choosers:
        return _chooser("position", [], [], "the first option")
    _, k, index = max(choosers)
    hits = [item for item in of_k[k] if index in item.answers]
    return _chooser("position", hits, of_k[k], f"always option {LETTERS[index] if index < 26 else index + 1} of {k}")


def _longest(probe: Probe) -> Finding:
    """Result of a chooser of the longest option, over the items with a single longest one."""
    checked, hits = [], []
    for item in probe:
        lengths = [len(choice.strip()) for choice in item.choices]
        # With several longest options the rule does not choose.
        if len(lengths) > 1 and lengths.count(max(lengths)) == 1:
            checked.append(item)
            hits += [item] if lengths.index(max(lengths)) in item.answers else []
    return _chooser("longest option", hits, checked, "always the longest option")


_NEGATIVE: Final = re.compile(r"(?:no|not|none|nothing|nobody|no one|never)\b")


def _negative(probe: Probe) -> Finding:
    """Result of a chooser of the only option that begins with a negative word; yes/no items are left out."""
    checked, hits = [], []
    for item in probe:
        options = [_folded(choice) for choice in item.choices]
        negative = [index for index, text in enumerate(options) if _NEGATIVE.match(text)]
        if len(options) > 1 and len(negative) == 1 and options[negative[0]].strip(".,!") != "no":
            checked.append(item)
            hits += [item] if negative[0] in item.answers else []
    return _chooser("negative option", hits, checked, "the only option with no or not", clear=_CLEAR_OF_FEW)


def _chooser(name: str, hits: Sequence[Item], checked: Sequence[Item], rule: str, *, clear: float = _CLEAR) -> Finding:
    """Result of a chooser that is right on `hits` of the items it was checked on."""
    if not checked:
        return Finding(name=name, items=(), of=0, wrong=False, about="no items to check")
    chance = sum(map(chance_of, checked)) / len(checked)
    share = len(hits) / len(checked)
    return Finding(
        name=name,
        items=_names(hits),
        of=len(checked),
        wrong=standard_errors(len(hits), checked) > clear,
        about=f"{rule} is right in {100 * share:.1f} % (chance {100 * chance:.1f} %)",
    )


def chance_of(item: Item) -> float:
    """Probability that a guess is right, 0 to 1."""
    return len(item.answers) / len(item.choices)


def standard_errors(right: int, items: Sequence[Item]) -> float:
    """(right answers - expected by chance) in standard errors of independent guesses; 0 where there is no spread."""
    # The sum of independent guesses, each right with its own probability, has the sum of their variances.
    chances = list(map(chance_of, items))
    spread = math.sqrt(sum(chance * (1 - chance) for chance in chances))
    return (right - sum(chances)) / spread if spread else 0.0


def _finding(name: str, items: Sequence[Item], of: int, about: str) -> Finding:
    return Finding(name=name, items=_names(items), of=of, wrong=bool(items), about=about)


def _names(items: Iterable[Item]) -> tuple[tuple[str, str], ...]:
    return tuple((item.task, item.id) for item in items)


def _with_options(probe: Probe) -> list[Item]:
    return [item for item in probe if len(item.choices) > 1]


def _are_signs(item: Item) -> bool:
    """True if the right options are numbers, yes or no."""
    right = [_folded(item.choices[int(answer)]) for answer in item.answers]
    # A number may have a unit: "12", "3.5 km".
    return all(text in ("yes", "no") or re.fullmatch(r"[\d.,]+( \w+)?", text) for text in right)


def _are_letters(item: Item) -> bool:
    """True if the choices name options that are listed in the prompt: A, B, ... or (A), (B), ..."""
    return [choice.strip().strip("().") for choice in item.choices] == list(LETTERS[: len(item.choices)])


def _prompt(item: Item) -> str:
    return training_text(item.prompt)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _right(item: Item) -> frozenset[str]:
    return frozenset(_folded(item.choices[int(one)]) if item.choices else str(one) for one in item.answers)
