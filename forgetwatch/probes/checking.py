"""Faults of a probe that show without a model, with counts and examples.

    repeated          the same question twice in a task          two tasks        the same question under two tasks
    contradictions    the same question, other answers           leaked           only the right option is in the prompt
    own example       the question is in its own examples        in examples      the only option in them is often right
    alike options     two options with the same words            same tokens      two options with the same tokens
    one option        nothing to choose                          too long         longer than the context window
    unlike lengths    one option is much longer than another     no template      the tokenizer has no chat template
    yes or no         such items without a cluster               position         the right one is often the n-th
    negative option   the only "no ..." is often right           longest option   the right one is often the longest
    own answer        an open answer is graded as wrong

`position`, `longest option`, `negative option` and `in examples` are shortcuts: choosers that do not read the question.
They count as faults if they are right more often than chance by over 4 standard errors (2.8 for the last two, which few
items have), whatever the size of the effect; the sentence gives the numbers.

Options whose texts are scored are of unlike length if the longest has more characters than the shortest by over a third
and by over two: the log-likelihood of a longer text is lower whatever it says, and any division by the length
favours one of them. Items that are answered by yes or no change together when a model comes to prefer one of the words;
with the same `cluster` they are not counted as independent.

**Overlap** of a probe with a training set: whole questions, and runs of 13 or 8 words.

A question that was trained on measures memory instead of knowledge. Texts are compared as lower-case words, whatever
stands between them, and each item can be found in two ways:

    exact       a row contains the whole question; one of up to three words counts only with its answer after it
    13, 8       a row contains that many consecutive words of the question; 13 is the usual sign of contamination, 8 a
                weaker one

The words that all prompts of a task begin and end with (``Question:``, ``Answer:``) are not part of a question, and a
run of words that occurs in many items of the probe is a template and does not count. Rows are read once, whatever
their number.

Runs are compared by their 64-bit hashes, in sets. A collision would count an item that shares no words, so the error is
upwards; for natural text it is about (runs in the probe) * (runs in the rows) / 2^64.

**Nearness.** How near the questions of a probe are to the rows of a training set: the best BM25 score of each.

BM25 counts the words of a question that a row has, the rare ones more, with long rows discounted (Robertson and
Zaragoza 2009; the package bm25s). A question with its right answer is compared with all rows, and the score is that of
the nearest one. It knows no synonyms, and scores of questions of unlike lengths are not on one scale: divided by the
score of a row that has all of the question's words, they are from 0 to about 1.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetwatch.grading.grader import grade
from forgetwatch.item import PRIVATE, Item
from forgetwatch.probe import LETTERS, Probe

Words = list[bytes]
"""Words of a text, in UTF-8."""

GRAMS: Final = (13, 8)
"""Lengths of runs, in words."""

_ANCHOR: Final = 8
"""Words at the beginning of a question by which it is first looked up."""

_SHORT: Final = 3
"""Maximum number of words of a question that is searched together with its answer: "7 + 15" says too little alone."""

_TRIES: Final = 1_000
"""Maximum number of rows with a whole question in which its answer is searched."""

_TEMPLATE: Final = 5
"""A run of words in more items than this is a template."""

_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Items of a probe that were found in a training set.

    Attributes:
        items: Number of items of the probe.
        rows: Number of rows that were searched.
        of_rows: Number of rows of the set; None if it is not known.
        exact: Items whose whole question is in a row, as (task, id).
        answered: Those of them whose right answer, of two characters or more, is in the same row.
        grams: Items that share a run of words with a row, by the length of the run.
        examples: (task, id, row) of the first exact hits.
    """

    items: int
    rows: int
    of_rows: int | None
    exact: tuple[tuple[str, str], ...]
    answered: tuple[tuple[str, str], ...]
    grams: Mapping[int, tuple[tuple[str, str], ...]]
    examples: tuple[tuple[str, str, int], ...]

    @property
    def sentence(self) -> str:
        """One line for people."""
        parts = [f"{len(self.exact):,} of {self.items:,} questions are in them word for word"]
        parts += [f"{len(self.answered):,} with their answer"] if self.exact else []
        parts += [f"{len(found):,} share {n} words in a row" for n, found in self.grams.items()]
        return f"{self.searched}: {', '.join(parts)}"

    @property
    def searched(self) -> str:
        """Number of the rows that were searched, as text."""
        if self.of_rows is None or self.rows >= self.of_rows:
            return f"{self.rows:,} training rows"
        return f"{self.rows:,} of {self.of_rows:,} training rows ({100 * self.rows / self.of_rows:.1f} %)"


def exact_overlap(
    probe: Probe, texts: Iterable[str], *, seconds: float | None = None, of_rows: int | None = None
) -> Overlap:
    """Find the questions of a probe that some texts hold word for word; arguments as in `overlap`."""
    return overlap(probe, texts, grams=(), seconds=seconds, of_rows=of_rows)


def overlap(
    probe: Probe,
    texts: Iterable[str],
    *,
    grams: Sequence[int] = GRAMS,
    seconds: float | None = None,
    of_rows: int | None = None,
) -> Overlap:
    """Find the questions of a probe in some texts, whole and by runs of words.

    Args:
        probe: The questions.
        texts: The training set, one text a row; see `training_text`.
        grams: Lengths of the runs, in words.
        seconds: Time after which the search stops; `Overlap.rows` gives how far it came.
        of_rows: Number of rows of the set, if it is known.
    """
    began = time.monotonic()
    search = _Search(probe, grams)
    rows = 0
    for rows, text in enumerate(texts, start=1):
        search.add(_words(text), row=rows - 1)
        if seconds is not None and time.monotonic() - began > seconds:
            break
    return Overlap(
        items=len(probe),
        rows=rows,
        of_rows=of_rows,
        exact=search.names(search.exact),
        answered=search.names(search.answered),
        grams={n: search.names(found) for n, found in search.shared.items()},
        examples=tuple(search.examples[:_EXAMPLES]),
    )


@lru_cache(maxsize=4)
def _search_of(probe: Probe) -> _Search:
    return _Search(probe, (min(GRAMS),))


def shares_words(probe: Probe, text: str) -> bool:
    """Return True if a text holds a whole question of a probe, or eight words in a row of one."""
    return _search_of(probe).finds(_words(text))


def training_text(row: Any) -> str:
    """Return all text of a training row as one: the row itself, its messages, or every text in it but the roles."""
    if isinstance(row, str):
        return row
    if isinstance(row, Mapping):
        return " ".join(
            training_text(value) for key, value in row.items() if key not in ("role", "from")
        )
    if isinstance(row, (list, tuple)):
        return " ".join(map(training_text, row))
    return ""


def plain(text: str) -> str:
    """Return a text as lower-case words with one space between them."""
    return b" ".join(_words(text)).decode("utf-8", errors="replace")


class _Search:
    """The questions of a probe, and which of them have been found so far."""

    def __init__(self, probe: Probe, grams: Sequence[int]) -> None:
        self._names = [(item.task, item.id) for item in probe]
        self._answers = [_answers(item) for item in probe]
        questions = _questions(probe.items)
        # A short question is found only together with an answer after it.
        self._targets = [
            [words + answer for answer in answers] if 0 < len(words) <= _SHORT else [words]
            for words, answers in zip(questions, self._answers, strict=True)
        ]
        # Items by the hash of their first words: an index for each number of these words.
        self._anchors: dict[int, dict[int, list[int]]] = {}
        for item, targets in enumerate(self._targets):
            for target in filter(None, targets):
                n = min(len(target), _ANCHOR)
                self._anchors.setdefault(n, {}).setdefault(next(_runs(target, n)), []).append(item)
        self._grams = {n: _distinct_runs(questions, n) for n in grams}
        self._tries: Counter[int] = Counter()
        self.exact: set[int] = set()
        self.answered: set[int] = set()
        self.shared: dict[int, set[int]] = {n: set() for n in grams}
        self.examples: list[tuple[str, str, int]] = []

    def finds(self, words: Words) -> bool:
        """Return True if a row has a whole question or a run of words; nothing is counted."""
        for n, index in self._anchors.items():
            for start, run in enumerate(_runs(words, n)):
                targets = (target for item in index.get(run, ()) for target in self._targets[item])
                if any(words[start : start + len(target)] == target for target in targets):
                    return True
        return any(not runs.keys().isdisjoint(_runs(words, n)) for n, runs in self._grams.items())

    def names(self, items: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """Return (task, id) of some items, in the order of the probe."""
        return tuple(self._names[item] for item in sorted(items))

    def add(self, words: Words, *, row: int) -> None:
        """Search a row of the set."""
        for n, index in self._anchors.items():
            if index.keys().isdisjoint(_runs(words, n)):
                continue
            for start, run in enumerate(_runs(words, n)):
                for item in index.get(run, ()):
                    is_open = item not in self.answered and self._tries[item] < _TRIES
                    if is_open and any(
                        words[start : start + len(target)] == target
                        for target in self._targets[item]
                    ):
                        self._hit(item, row, words)
        for n, runs in self._grams.items():
            if not runs.keys().isdisjoint(_runs(words, n)):
                self.shared[n].update(*(runs.get(run, ()) for run in _runs(words, n)))

    def _hit(self, item: int, row: int, words: Words) -> None:
        if item not in self.exact:
            self.examples.append((*self._names[item], row))
        self.exact.add(item)
        self._tries[item] += 1
        text, answers = _spaced(words), map(_spaced, self._answers[item])
        if any(answer in text for answer in answers if len(answer.strip()) > 1):
            self.answered.add(item)


_FRAME: Final = re.compile(r"\A\s*(?:question|q)\s*:\s*|\s+(?:answer|a)\s*:\s*\Z", re.IGNORECASE)


def _questions(items: Sequence[Item]) -> list[Words]:
    """Return the words of each item's question, without labels and the frame of its task's prompts."""
    found = [_words(_FRAME.sub("", _last_message(item))) for item in items]
    by_task: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_task.setdefault(item.task, []).append(index)
    for indices in by_task.values():
        # Two questions may begin alike by chance; three or more share a frame.
        if len(indices) > 2:
            words = [found[index] for index in indices]
            start, end = _common_prefix(words), _common_prefix([own[::-1] for own in words])
            for index, own in zip(indices, words, strict=True):
                found[index] = own[start : len(own) - end] or own
    return found


def _last_message(item: Item) -> str:
    """Return the text of a question: its prompt, the last user message of a chat, or the passage."""
    if isinstance(item.prompt, str):
        return item.choices[0] if item.is_passage else item.prompt
    of_user = [message for message in item.prompt if message.get("role") == "user"]
    return training_text((of_user or list(item.prompt))[-1].get("content"))


def _common_prefix(words: Sequence[Words]) -> int:
    """Return the number of words that all lists begin with; at least one word of the shortest is left."""
    count = 0
    for column in zip(*words, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return min(count, min(map(len, words)) - 1) if count else 0


def _answers(item: Item) -> list[Words]:
    texts = [item.choices[int(answer)] if item.choices else str(answer) for answer in item.answers]
    return [words for text in texts if (words := _words(text))]


def _distinct_runs(questions: Sequence[Words], n: int) -> dict[int, tuple[int, ...]]:
    """Return the items by the hash of each run of n words, without those of templates."""
    found: dict[int, tuple[int, ...]] = {}
    for item, words in enumerate(questions):
        alone = (item,)
        for run in set(_runs(words, n)):
            items = found.get(run, ())
            found[run] = items if len(items) > _TEMPLATE else items + alone
    return {run: items for run, items in found.items() if len(items) <= _TEMPLATE}


def _runs(words: Words, n: int) -> Iterator[int]:
    """Return the hashes of the n words that begin at each word."""
    return map(hash, zip(*(words[start:] for start in range(n)), strict=False))


_TABLE: Final = bytes(
    byte if byte >= 128 or chr(byte).isalnum() else ord(" ") for byte in range(256)
)
"""Byte to byte: ASCII letters and digits, and all bytes of other characters, unchanged; everything else to a space."""


def _words(text: str) -> Words:
    return text.casefold().encode("utf-8", errors="replace").translate(_TABLE).split()


def _spaced(words: Words) -> bytes:
    """Return the words as one text with a space at each end, in which only whole words are found."""
    return b" " + b" ".join(words) + b" "


Tokenize = Callable[[str], Sequence[int]]
"""A text to token ids, without special tokens."""

_CLEAR_SHORTCUT: Final = 4.0
"""Standard errors above which a chooser is better than chance."""

CLEAR: Final = 2.8
"""Standard errors from chance that are a fault: about 1 in 200 by accident. The same for a chooser that only a part of
the items has."""

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
    """Check a probe and return the result of every check, including those that found nothing.

    Args:
        probe: The probe.
        tokenize: A tokenizer, without special tokens; None leaves out the checks of tokens.
        context: Context window in tokens; None leaves out the check of lengths.
        chats: True if the tokenizer has a chat template; if it has none, items that need one are a fault.
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
        _shortcut(
            "negative option",
            with_options,
            _negative_option,
            "the only option with no or not",
            clear=CLEAR,
        ),
        _shortcut(
            "in examples",
            with_options,
            _option_in_examples,
            "the only option in the worked examples",
            clear=CLEAR,
        ),
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
    """Return the open items whose own answer, written as an output, is graded as wrong."""
    graded = [item for item in items if item.match in _ANSWERED]
    return [
        item for item in graded if not any(grade(item, text).correct for text in _outputs(item))
    ]


def _outputs(item: Item) -> list[str]:
    form = "\\boxed{{{}}}" if item.match in ("boxed", "math") else "{}"
    return [form.format(str(answer).strip("$")) for answer in item.answers]


def _repetitions(probe: Probe) -> list[Finding]:
    """Return the questions that occur more than once, compared without case and spacing, their options in any order."""
    groups: dict[Hashable, list[Item]] = {}
    for item in probe:
        options = tuple(sorted(_folded(choice) for choice in item.choices))
        groups.setdefault((_folded(training_text(item.asked_prompt)), options), []).append(item)
    several = [items for items in groups.values() if len(items) > 1]
    within = [
        i for items in several for i in items if sum(other.task == i.task for other in items) > 1
    ]
    across = [item for items in several if len({one.task for one in items}) > 1 for item in items]
    unlike = [
        item for items in several if len({_right_texts(one) for one in items}) > 1 for item in items
    ]
    return [
        _finding("repeated", within, len(probe), "the same question twice in a task"),
        _finding("two tasks", across, len(probe), "the same question under two tasks"),
        _finding(
            "own example",
            [i for i in probe if _is_own_example(i)],
            len(probe),
            "a worked example of itself",
        ),
        _finding(
            "contradictions", unlike, len(probe), "the same question with unlike right answers"
        ),
    ]


def _is_own_example(item: Item) -> bool:
    """Return True if the worked examples contain the question itself, and its right answer after it."""
    shots, question = _folded(item.shots), _folded(training_text(item.prompt))
    _, found, after = shots.partition(question) if question else (shots, "", "")
    return bool(found) and any(text and text in after for text in _right_texts(item))


def _right_texts(item: Item) -> frozenset[str]:
    return frozenset(
        _folded(item.choices[int(one)]) if item.choices else str(one) for one in item.answers
    )


def _leaked(with_options: Sequence[Item]) -> Finding:
    """Return the items whose prompt contains the right option and no other option.

    Letters of listed options do not count, nor do numbers, yes and no, which are in many prompts without giving
    anything away. A few leaks may be intended ("What is the plural of sheep?"): they are a fault only above one in a
    hundred.
    """
    # A number may have a unit: "12", "3.5 km".
    sign = re.compile(r"yes|no|[\d.,]+( \w+)?")
    checked = [
        i
        for i in with_options
        if not _are_letters(i) and not all(map(sign.fullmatch, _right_texts(i)))
    ]
    found = [
        i
        for i in checked
        if set() < _options_in(training_text(i.prompt), i) <= set(map(int, i.answers))
    ]
    about = "of the options only the right one is in the prompt"
    return _finding(
        "leaked", found, len(checked), about, wrong=len(found) > _FEW_LEAKED * len(checked)
    )


def _options_in(text: str, item: Item) -> set[int]:
    """Return the indices of the options that a text contains as whole words."""
    options, text = [re.escape(_folded(choice)) for choice in item.choices], _folded(text)
    # \b would demand a letter next to an option such as "+5" or "C++".
    return {
        index
        for index, one in enumerate(options)
        if one and re.search(rf"(?<!\w){one}(?!\w)", text)
    }


def _unlike_lengths(scored: Sequence[Item]) -> Finding:
    """Find items whose options differ in length by over a third of the shortest and over two characters."""
    checked = [item for item in scored if not _are_letters(item)]
    found = []
    for item in checked:
        lengths = [len(choice.strip()) for choice in item.choices]
        found += [item] if max(lengths) - min(lengths) > max(2, min(lengths) / 3) else []
    return _finding(
        "unlike lengths",
        found,
        len(checked),
        "the longest option is over a third longer than the shortest",
    )


def _yes_or_no(with_options: Sequence[Item]) -> Finding:
    """Return the items answered by yes or no, or by true or false, that have no cluster.

    A single one moves with no other.
    """
    pairs = ({"yes", "no"}, {"true", "false"})
    answered = [
        item
        for item in with_options
        if {_folded(choice).strip(".,!") for choice in item.choices} in pairs
    ]
    found = [item for item in answered if item.cluster is None]
    about = "answered by yes or no, which change together, and without a cluster"
    return _finding("yes or no", found, len(with_options), about, wrong=len(found) > 1)


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


def _position(with_options: Sequence[Item]) -> Finding:
    """Return the position at which a constant chooser is furthest above chance, among items with the same k."""
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
    *,
    clear: float = _CLEAR_SHORTCUT,
) -> Finding:
    """Return the result of a chooser of an option's index, over the items for which it gives one."""
    chosen = [(item, index) for item in items if (index := choose(item)) is not None]
    if not chosen:
        return _unchecked(name)
    checked = [item for item, _ in chosen]
    hits = [item for item, index in chosen if index in item.answers]
    chance, share = sum(map(_chance, checked)) / len(checked), len(hits) / len(checked)
    about = f"{rule} is right in {100 * share:.1f} % (chance {100 * chance:.1f} %)"
    return _finding(
        name, hits, len(checked), about, wrong=_standard_errors(len(hits), checked) > clear
    )


def _longest_option(item: Item) -> int | None:
    lengths = [len(choice.strip()) for choice in item.choices]
    return lengths.index(max(lengths)) if lengths.count(max(lengths)) == 1 else None


_NEGATIVE: Final = re.compile(r"(?:no|not|none|nothing|nobody|no one|never)\b")


def _negative_option(item: Item) -> int | None:
    """Return the only option that begins with a negative word, if it is not the word no alone."""
    options = [_folded(choice) for choice in item.choices]
    negative = [index for index, text in enumerate(options) if _NEGATIVE.match(text)]
    return negative[0] if len(negative) == 1 and options[negative[0]].strip(".,!") != "no" else None


def _option_in_examples(item: Item) -> int | None:
    """Return the only option that the worked examples contain; they contain some by chance."""
    inside = set() if _are_letters(item) else _options_in(item.shots, item)
    return inside.pop() if len(inside) == 1 else None


def _chance(item: Item) -> float:
    return len(item.answers) / len(item.choices)


def _standard_errors(right: int, items: Sequence[Item]) -> float:
    """Return (right answers - expected by chance) in standard errors of independent guesses.

    0 where there is no spread.
    """
    # The sum of independent guesses, each right with its own probability, has the sum of their variances.
    chances = list(map(_chance, items))
    spread = math.sqrt(sum(chance * (1 - chance) for chance in chances))
    return (right - sum(chances)) / spread if spread else 0.0


def _finding(
    name: str, items: Iterable[Item], of: int, about: str, *, wrong: bool | None = None
) -> Finding:
    """Return a finding; wrong if any item has the fault, unless it is given."""
    names = tuple((item.task, item.id) for item in items)
    return Finding(
        name=name, items=names, of=of, wrong=bool(names) if wrong is None else wrong, about=about
    )


def _unchecked(name: str) -> Finding:
    return _finding(name, [], 0, "no items to check")


def _are_letters(item: Item) -> bool:
    """Return True if the choices name options that are listed in the prompt: A, B, ... or (A), (B), ..."""
    return [choice.strip().strip("().") for choice in item.choices] == list(
        LETTERS[: len(item.choices)]
    )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


Floats = NDArray[np.float64]

_K1: Final = 1.5
"""Saturation of repeated words, the usual one."""


def right_text(item: Item) -> str:
    """Return the right answers of a question as one text."""
    answers = [item.choices[int(at)] for at in item.answers] if item.choices else item.answers
    return " ".join(str(one).strip() for one in answers)


def question_text(item: Item) -> str:
    """Return a question with its right answers, without its worked examples."""
    return f"{training_text(item.prompt)} {right_text(item)}"


class RightAnswer(NamedTuple):
    """The right answer of a question as text, and whether it must not be shown."""

    text: str
    is_private: bool = False


def answers_of(items: Iterable[Item]) -> dict[tuple[str, str], RightAnswer]:
    """Return the right answer of each question, by (task, id): questions with one answer are lost together."""
    return {
        (one.task, one.id): RightAnswer(right_text(one).lower(), PRIVATE in one.tags)
        for one in items
    }


def words_of(item: Item) -> list[str]:
    """Return the words of a question and its right answers."""
    return plain(question_text(item)).split()


def nearness_to(items: Sequence[Item], texts: Iterable[str]) -> Floats:
    """Return how near each item is to the nearest of some texts, float64 [items]; 0 for no word in common.

    Raises:
        ValueError: If there is no text with a word.
    """
    import bm25s

    rows = [words for words in (plain(text).split() for text in texts) if words]
    if not rows:
        raise ValueError("needed training rows with words, found none")
    index = bm25s.BM25(k1=_K1, method="lucene")
    index.index(rows, show_progress=False)
    documents = Counter(word for words in rows for word in set(words))
    found = np.zeros(len(items))
    for at, item in enumerate(items):
        words = words_of(item)
        # A row of mean length that has each word once.
        own = sum(
            math.log1p((len(rows) - documents[word] + 0.5) / (documents[word] + 0.5))
            for word in words
        )
        found[at] = float(index.get_scores(words).max()) * (1 + _K1) / own if words else 0.0
    return found


def category_words(
    items: Sequence[Item], texts: Iterable[str], *, fewest: int = 2
) -> Mapping[str, float]:
    """Return how often the words of each category occur in some texts, per 1,000 words; nan without such words.

    The words of a category are those that occur in it at least `fewest` times, and mostly in it.
    """
    of_category: dict[str, Counter[str]] = {}
    for item in items:
        of_category.setdefault(item.category, Counter()).update(set(words_of(item)))
    everywhere = sum(of_category.values(), Counter[str]())
    in_texts: Counter[str] = Counter()
    for text in texts:
        in_texts.update(plain(text).split())
    whole = sum(in_texts.values())
    found = {}
    for category, counts in of_category.items():
        own = [
            word
            for word, count in counts.items()
            if count >= fewest and 2 * count > everywhere[word]
        ]
        found[category] = (
            1000 * sum(in_texts[word] for word in own) / whole if own and whole else float("nan")
        )
    return found
