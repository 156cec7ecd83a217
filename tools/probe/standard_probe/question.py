"""A question before it becomes an item: the prompt, the right answer, and wrong ones of the same kind.

    Question("What is the capital of Chile?", right="Santiago", wrong=("Lima", "Quito", "Bogotá"), ...)

The model never sees the options together: each is appended to the question and its log-likelihood is computed. So the
question must make sense alone, exactly one option may be right, and the options have similar form and length.
A gap in a sentence is a continuation: the prompt ends where the gap begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Category = Literal[
    "Common Sense",
    "Culture",
    "Knowledge/QA",
    "Language",
    "Liberal Arts",
    "Logic",
    "Math",
    "Safety/Truth",
    "Science/Tech",
]

Level: TypeAlias = Literal[0, 1, 2, 3, 4, 5]
"""Judged difficulty: 0 for one step that a small model can do, 1 for what most people know, 2 for what one learns at
school, 3 for what one has studied, 4 for what few remember who have studied it, 5 for what specialists look up."""

YES_NO: Final = frozenset({"yes", "no"})
"""The only two options that a question with two options may have; all such questions move together."""


def alike_in_length(options: Sequence[str]) -> bool:
    """True if the longest option exceeds the shortest by at most a third of it, or by two characters.

    Options are decided by the sum of their tokens' log-probabilities, which a longer option has more of.

    >>> alike_in_length(("Lima", "Quito", "Bogotá")), alike_in_length(("Lima", "Santiago"))
    (True, False)
    """
    lengths = [len(option) for option in options]
    return max(lengths) - min(lengths) <= max(2, min(lengths) // 3)


def digest(*texts: str) -> str:
    """SHA-256 of the texts, 64 hex digits: a name, and a key for an arbitrary but fixed order."""
    # The separator makes ("ab", "c") and ("a", "bc") differ.
    return hashlib.sha256("\x1f".join(texts).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Question:
    """Content of an item, without its position, its id and the order of its options.

    Attributes:
        prompt: The question, one line or a few, as a person would ask it; no options, no "Answer:". For a continuation,
            the text before it, without a space at its end.
        right: The right answer, as it follows "Answer: ".
        wrong: One to four wrong answers of the same kind; none is right under any reading.
        category: One of the paper's nine.
        topic: Topic within the category; becomes the item's task.
        difficulty: See `Level`.
        uses: Names of the facts that the question states or asks for. No two questions of a probe share one, so that
            none gives another away.
        source: Source of the fact, or ``computed``.
        form: ``question``, or ``continuation`` of the prompt's sentence.
    """

    prompt: str
    right: str
    wrong: tuple[str, ...]
    category: Category
    topic: str
    difficulty: Level
    uses: frozenset[str]
    source: str
    form: Literal["question", "continuation"] = "question"

    @property
    def asked(self) -> str:
        """The prompt as the model reads it, without worked examples."""
        return self.prompt if self.form == "continuation" else f"Question: {self.prompt}\nAnswer:"

    def __post_init__(self) -> None:
        """Check the options and texts.

        Raises:
            ValueError: If there are no or too many wrong answers, an option repeats, or a text is empty.
        """
        options = (self.right, *self.wrong)
        if not 2 <= len(options) <= 5:
            raise ValueError(f"{self.prompt!r}: needed 2 to 5 options, got {len(options)}")
        if len({option.strip().casefold() for option in options}) < len(options) or not all(map(str.strip, options)):
            raise ValueError(f"{self.prompt!r}: options must be different and not empty, got {options}")
        if not self.prompt.strip() or not self.uses:
            raise ValueError(f"{self.prompt!r}: needed a question and the facts that it uses")
