"""One row of a data set as a question, in the two forms in which a preset can be evaluated.

    scored       `prompt` and `choices` as lm-evaluation-harness 0.4 renders them; the space between the two belongs to
                 the choice
    other forms  `question` and `options` without any rendering: letters, cot and base list the options themselves

A row function (multiple_choice.py, reasoning.py, selections.py) takes a row and its `Source` and returns a `Question`.
It reads the row through the helpers below, which raise `BadRowError` for a row that is not a question: such rows are
left out and counted. Any other error means that the data set has changed its shape, and stops the load.
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
    """A row of a data set that is not a question; it is left out and counted."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """The content of one item, before a form is chosen.

    Attributes:
        header: Text that comes once before everything, worked examples included, as in the harness.
        prompt: The text before the choices, as in the harness.
        choices: The choices as they are appended to it; empty for an open answer.
        answer: Index of the right option, or several indices; the text or texts of an open answer.
        question: The question alone, without its options.
        options: The options' texts, in the order of `choices`.
        task: The task, where the row decides it; empty for the source's.
        category: The category, where the row decides it; empty for that of the paper's tasks.
        key: The data set's own id of the row; empty for its row number in the split.
        match: Rule by which an open answer is graded.
        cluster: Id of the passage that several rows share.
        reasoning: Worked steps to the right option, where the data set has them.
        worked: The answer that a worked example of an open question shows; empty for `answer`.
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


def field_of(row: Row, name: str) -> Any:
    """Return a field of a row.

    Raises:
        BadRowError: If the field is missing or empty: the labels of some test splits are empty.
    """
    value = row.get(name)
    if value is None or value == "":
        raise BadRowError(f"needed {name!r}, and it is {'not there' if value is None else 'empty'}")
    return value


def label_of(row: Row, name: str, labels: Sequence[Any]) -> int:
    """Return the index of a field's label among the labels, compared as text: ``"2"`` and 2 are the same.

    Raises:
        BadRowError: If the field holds none of the labels.
    """
    value = str(field_of(row, name)).strip()
    known = [str(label).strip() for label in labels]
    if value not in known:
        raise BadRowError(f"needed {name!r} to be one of {', '.join(known)}, and it is {value!r}")
    return known.index(value)


def option_index(answer: object, options: int) -> int:
    """Return the index of the option that an answer names by its index from 0 or by its letter.

    Raises:
        BadRowError: If there is no such option.
    """
    text = str(answer).strip()
    index = LETTERS.index(text) if text in tuple(LETTERS) else int(text) if text.isdecimal() else -1
    if not 0 <= index < options:
        raise BadRowError(f"needed the index or the letter of one of {options} options, and the answer is {answer!r}")
    return index


def spaced(options: Sequence[str]) -> tuple[str, ...]:
    """Options as choices: each after one space, as the harness appends them."""
    return tuple(f" {option}" for option in options)


def letters(count: int) -> tuple[str, ...]:
    """Choices of a question whose options are listed in its prompt: ``" A"``, ``" B"``, ..."""
    return spaced(tuple(LETTERS[:count]))


def lettered(options: Sequence[str]) -> str:
    """Options as lines ``A. ...``, each after a line break."""
    return "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def permuted(options: Sequence[str], gold: int, *, key: str) -> tuple[tuple[str, ...], int]:
    """Options in an order that the key decides, and the index of the right one in that order.

    For data sets whose right option always comes first. The seed is a hash of the question's own text, so that the
    order is the same in every process and does not change with the row's position.
    """
    order = list(range(len(options)))
    seed = hashlib.sha256("\n".join([key, *options]).encode()).digest()
    random.Random(int.from_bytes(seed[:8], "big")).shuffle(order)
    return tuple(options[old] for old in order), order.index(gold)


def cluster_of(passage: str) -> str:
    """Cluster id of a passage, 12 hex digits: rows that share the passage share the id."""
    return hashlib.sha256(passage.encode()).hexdigest()[:12]
