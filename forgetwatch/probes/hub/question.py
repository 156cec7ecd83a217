"""One row of a data set, in the two forms in which it can be asked.

    scored    `prompt` and `choices` as lm-evaluation-harness 0.4 renders them; the space between the two belongs to
              the choice
    written   `question` and `options` as they are, for letters and for answers in the model's own words

Where a data set has no fixed order of its options (its right one always comes first, say), they are permuted by the
question's own text: the same in every process, at every place, in every year.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forgetwatch.errors import ProbeError
from forgetwatch.probe import LETTERS

Row = Mapping[str, Any]


class BadRowError(ProbeError):
    """A row of a data set that is no question; it is left out and counted."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What becomes an item.

    Attributes:
        header: What stands once before everything, worked examples included, as the harness has it.
        prompt: The text before the choices, as the harness has it.
        choices: The choices as they are appended to it; empty for an open answer.
        answer: Index of the right one, or several indices; the text or texts of an open answer.
        question: The question alone, without its options.
        options: The options' texts, in the order of `choices`.
        task: The task, where the row decides it; empty for the source's.
        category: The category, where the row decides it; empty for that of the paper's tasks.
        key: The data set's own name of the row; empty for its place in the split.
        match: How an open answer is judged.
        cluster: Rows that share a passage.
        reasoning: Worked steps to the right option, where the data set has them.
        worked: What an example shows as the answer to an open question; empty for the answer.
    """

    prompt: str
    header: str = ""
    choices: tuple[str, ...] = ()
    answer: int | tuple[int, ...] | str | tuple[str, ...]
    question: str
    options: tuple[str, ...] = ()
    task: str = ""
    category: str = ""
    key: str = ""
    match: str | None = None
    cluster: str | None = None
    reasoning: str = ""
    worked: str = ""


def behind(options: Sequence[str]) -> tuple[str, ...]:
    """Options as the harness appends them: behind one space."""
    return tuple(f" {option}" for option in options)


def letters(count: int) -> tuple[str, ...]:
    """The choices of a question whose options are listed in its prompt."""
    return behind(tuple(LETTERS[:count]))


def listed(options: Sequence[str]) -> str:
    """Options as lines ``A. ...``."""
    return "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def permuted(options: Sequence[str], gold: int, *, key: str) -> tuple[tuple[str, ...], int]:
    """The options in an order that the key decides, and where the right one went."""
    order = list(range(len(options)))
    seed = hashlib.sha256("\n".join([key, *options]).encode()).digest()
    random.Random(int.from_bytes(seed[:8], "big")).shuffle(order)
    return tuple(options[place] for place in order), order.index(gold)


def field_of(row: Row, name: str) -> Any:
    """A field of a row.

    Raises:
        BadRowError: If there is none, or nothing in it: the labels of some test splits are empty.
    """
    value = row.get(name)
    if value is None or value == "":
        raise BadRowError(f"needed {name!r}, and it is {'not there' if value is None else 'empty'}")
    return value


def label_of(row: Row, name: str, labels: Sequence[Any]) -> int:
    """The place of a label among its labels, as text: ``"2"`` and 2 are the same.

    Raises:
        BadRowError: If it is none of them.
    """
    value = str(field_of(row, name)).strip()
    known = [str(label).strip() for label in labels]
    if value not in known:
        raise BadRowError(f"needed {name!r} to be one of {', '.join(known)}, and it is {value!r}")
    return known.index(value)


def place_of(answer: object, options: int) -> int:
    """The place of the option that an answer names: its index from 0, or its letter.

    Raises:
        BadRowError: If there is no such option.
    """
    text = str(answer).strip()
    place = LETTERS.index(text) if text in tuple(LETTERS) else int(text) if text.isdecimal() else -1
    if not 0 <= place < options:
        raise BadRowError(f"needed the index or the letter of one of {options} options, and the answer is {answer!r}")
    return place


def cluster_of(passage: str) -> str:
    """What stands for a passage: rows that share it are a cluster."""
    return hashlib.sha256(passage.encode()).hexdigest()[:12]
