"""Faults of a probe that show without a model, with counts and examples.

    repeated          the same question twice in a task
    contradictions    the same question, other answers           leaked           only the right option is in the prompt
    alike options     two options with the same words            same tokens      two options with the same tokens
    one option        nothing to choose                          too long         longer than the context window
    unlike lengths    one option is much longer than another     no template      the tokenizer has no chat template
    yes or no         such items without a cluster               position         the right one is often the n-th
    own answer        an open answer is graded as wrong          longest option   the right one is often the longest

`position` and `longest option` are shortcuts: choosers that do not read the question. They count as
faults if they are right more often than chance by over 4 standard errors, whatever the size of the
effect; the sentence gives the numbers.

Options whose texts are scored are of unlike length if the longest has more characters than the
shortest by over a third and by over two: the log-likelihood of a longer text is lower whatever it
says, and any division by the length favours one of them. Items that are answered by yes or no
change together when a model comes to prefer one of the words; with the same `cluster` they are not
counted as independent.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from forgetwatch.grading.grader import grade
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe, has_letters
from forgetwatch.probes.overlap import training_text

Tokenize = Callable[[str], Sequence[int]]
"""A text to token ids, without special tokens."""


_CLEAR_SHORTCUT: Final = 4.0
"""Standard errors above which a chooser is better than chance."""


_FEW_LEAKED: Final = 0.01
"""Share of the items up to which a right option in the prompt may be intended."""


_ANSWERED: Final = ("exact", "exact:fold", "contains", "number", "letter", "boxed", "math")
"""Matches whose answer is what an output has to say."""


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
    probe: Probe,
    *,
    tokenize: Tokenize | None = None,
    context: int | None = None,
    chats: bool = True,
) -> list[Finding]:
    """Run all checks of a probe.

    Args:
        probe: The probe.
        tokenize: A tokenizer, without special tokens; None leaves out the checks of tokens.
        context: Context window in tokens; None leaves out the check of lengths.
        chats: True if the tokenizer has a chat template; if it has none, items that need one are a
            fault.

    Returns:
        The result of every check, also of checks without a finding.
    """
    with_options = [item for item in probe if len(item.choices) > 1]
    alike = [
        item for item in with_options if len(set(map(_folded, item.choices))) < len(item.choices)
    ]
    single = [item for item in probe if len(item.choices) == 1 and not item.is_passage]
    findings = [
        *_repetitions(probe),
        _leaked(with_options),
        _finding(
            "alike options",
            alike,
            len(with_options),
            "two options are the same but for case and spaces",
        ),
        _finding("one option", single, len(probe), "nothing to choose: in the raw counts only"),
        _own_answer([item for item in probe if item.match in _ANSWERED]),
        # Of letters only one token is scored, whatever the options say.
        _unlike_lengths(with_options if probe.scoring == "loglikelihood" else []),
        _yes_or_no(with_options),
        _position(with_options),
        _shortcut("longest option", with_options, _longest_option, "always the longest option"),
    ]
    if tokenize is not None:
        same = [
            i
            for i in with_options
            if len({tuple(tokenize(choice)) for choice in i.choices}) < len(i.choices)
        ]
        findings.append(
            _finding(
                "same tokens", same, len(with_options), "the tokenizer makes two options the same"
            )
        )
        if context is not None:
            findings.append(_too_long(probe, tokenize, context))
    if not chats:
        chat = [item for item in probe if probe.rendering_of(item) == "chat"]
        about = "to be rendered as a chat, and the tokenizer has no chat template"
        findings.append(_finding("no template", chat, len(probe), about))
    return findings


def _own_answer(graded: Sequence[Item]) -> Finding:
    about = "an output that is the answer is not graded as right"
    return _finding("own answer", unanswerable(graded), len(graded), about)


def unanswerable(items: Iterable[Item]) -> list[Item]:
    """Open items whose own answer is graded as wrong.

    The answer is written as an output.
    """
    graded = [item for item in items if item.match in _ANSWERED]
    return [
        item for item in graded if not any(grade(item, output).correct for output in _outputs(item))
    ]


def _outputs(item: Item) -> list[str]:
    form = "\\boxed{{{}}}" if item.match in ("boxed", "math") else "{}"
    return [form.format(str(answer).strip("$")) for answer in item.answers]


def _repetitions(probe: Probe) -> list[Finding]:
    # Compared without case and spacing, options in any order.
    groups: dict[Hashable, list[Item]] = {}
    for item in probe:
        options = tuple(sorted(_folded(choice) for choice in item.choices))
        groups.setdefault((_folded(training_text(item.asked_prompt)), options), []).append(item)
    several = [items for items in groups.values() if len(items) > 1]
    within = [
        i
        for items in several
        for i in items
        if sum(same_question.task == i.task for same_question in items) > 1
    ]
    unlike = [
        item
        for items in several
        if len({frozenset(map(_folded, item_of.right_texts)) for item_of in items}) > 1
        for item in items
    ]
    return [
        _finding("repeated", within, len(probe), "the same question twice in a task"),
        _finding(
            "contradictions", unlike, len(probe), "the same question with unlike right answers"
        ),
    ]


def _leaked(with_options: Sequence[Item]) -> Finding:
    # Letters of listed options do not count, nor do numbers, yes and no, which are in many prompts
    # without giving anything away. A few leaks may be intended ("What is the plural of sheep?"):
    # they are a fault only above one in a hundred.
    # A number may have a unit: "12", "3.5 km".
    sign = re.compile(r"yes|no|[\d.,]+( \w+)?")
    checked = [
        i
        for i in with_options
        if not has_letters(i) and not all(sign.fullmatch(_folded(text)) for text in i.right_texts)
    ]
    leaked = [
        i
        for i in checked
        if set() < _options_in(training_text(i.prompt), i) <= set(map(int, i.answers))
    ]
    about = "of the options only the right one is in the prompt"
    return _finding(
        "leaked", leaked, len(checked), about, wrong=len(leaked) > _FEW_LEAKED * len(checked)
    )


def _options_in(text: str, item: Item) -> set[int]:
    # An option counts as whole words.
    options, text = [re.escape(_folded(choice)) for choice in item.choices], _folded(text)
    # \b would demand a letter next to an option such as "+5" or "C++".
    return {
        index
        for index, option in enumerate(options)
        if option and re.search(rf"(?<!\w){option}(?!\w)", text)
    }


def _unlike_lengths(scored: Sequence[Item]) -> Finding:
    # The difference is over a third of the shortest option, and over two characters.
    checked = [item for item in scored if not has_letters(item)]
    items = []
    for item in checked:
        lengths = [len(choice.strip()) for choice in item.choices]
        items += [item] if max(lengths) - min(lengths) > max(2, min(lengths) / 3) else []
    return _finding(
        "unlike lengths",
        items,
        len(checked),
        "the longest option is over a third longer than the shortest",
    )


def _yes_or_no(with_options: Sequence[Item]) -> Finding:
    # Answers are yes or no, or true or false; a single item moves with no other.
    pairs = ({"yes", "no"}, {"true", "false"})
    answered = [
        item
        for item in with_options
        if {_folded(choice).strip(".,!") for choice in item.choices} in pairs
    ]
    single = [item for item in answered if item.cluster is None]
    about = "answered by yes or no, which change together, and without a cluster"
    return _finding("yes or no", single, len(with_options), about, wrong=len(single) > 1)


def _too_long(probe: Probe, tokenize: Tokenize, context: int) -> Finding:
    too_long, longest = [], 0
    for item in probe:
        tokens = len(tokenize(training_text(item.full_prompt))) + max(
            (len(tokenize(choice)) for choice in item.choices), default=0
        )
        longest = max(longest, tokens)
        too_long += [item] if tokens > context else []
    about = f"longer than the {context:,} tokens that the model reads; the longest has {longest:,}"
    return _finding("too long", too_long, len(probe), about)


def _position(with_options: Sequence[Item]) -> Finding:
    # Among items with the same k.
    of_k: dict[int, list[Item]] = {}
    for item in with_options:
        of_k.setdefault(len(item.choices), []).append(item)
    choosers = [
        (_standard_errors(sum(index in item.answers for item in items), items), k, index)
        for k, items in of_k.items()
        for index in range(k)
    ]
    if not choosers:
        return _unchecked("position")
    _, k, index = max(choosers)
    rule = f"always option {LETTERS[index] if index < 26 else index + 1} of {k}"
    return _shortcut("position", of_k[k], lambda item: index, rule)


def _shortcut(
    name: str,
    items: Sequence[Item],
    choose: Callable[[Item], int | None],
    rule: str,
) -> Finding:
    chosen = [(item, index) for item in items if (index := choose(item)) is not None]
    if not chosen:
        return _unchecked(name)
    checked = [item for item, _ in chosen]
    hits = [item for item, index in chosen if index in item.answers]
    chance, share = sum(map(_chance, checked)) / len(checked), len(hits) / len(checked)
    about = f"{rule} is right in {100 * share:.1f} % (chance {100 * chance:.1f} %)"
    return _finding(
        name,
        hits,
        len(checked),
        about,
        wrong=_standard_errors(len(hits), checked) > _CLEAR_SHORTCUT,
    )


def _longest_option(item: Item) -> int | None:
    lengths = [len(choice.strip()) for choice in item.choices]
    return lengths.index(max(lengths)) if lengths.count(max(lengths)) == 1 else None


def _chance(item: Item) -> float:
    return len(item.answers) / len(item.choices)


def _standard_errors(right: int, items: Sequence[Item]) -> float:
    # Right answers less those expected by chance; 0 where there is no spread.
    # The sum of independent guesses, each right with its own probability, has the sum of their
    # variances.
    chances = list(map(_chance, items))
    spread = math.sqrt(sum(chance * (1 - chance) for chance in chances))
    return (right - sum(chances)) / spread if spread else 0.0


def _finding(
    name: str, items: Iterable[Item], of: int, about: str, *, wrong: bool | None = None
) -> Finding:
    # Wrong if any item has the fault, unless `wrong` is given.
    names = tuple((item.task, item.id) for item in items)
    return Finding(
        name=name, items=names, of=of, wrong=bool(names) if wrong is None else wrong, about=about
    )


def _unchecked(name: str) -> Finding:
    return _finding(name, [], 0, "no items to check")


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
