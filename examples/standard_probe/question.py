"""A question before it becomes an item: the prompt, the right answer, and wrong ones of the same kind.

    Question("What is the capital of Chile?", right="Santiago", wrong=("Lima", "Quito", "Bogotá"), ...)

The model never sees the options together: each is appended to the question and its log-likelihood is computed. So the
question must make sense alone, exactly one option may be right, and the options have similar form and length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, kw_only=True)
class Question:
    """Content of an item, without its position, its id and the order of its options.

    Attributes:
        prompt: The question, one line or a few, as a person would ask it; no options, no "Answer:".
        right: The right answer, as it follows "Answer: ".
        wrong: One to four wrong answers of the same kind; none is right under any reading.
        category: One of the paper's nine.
        topic: Topic within the category; becomes the item's task.
        difficulty: 1 if most people know it, 2 for school knowledge, 3 for knowledge of those who studied it.
        uses: Names of the facts that the question states or asks for. No two questions of a probe share one, so that
            none gives another away.
        source: Source of the fact, or ``computed``.
    """

    prompt: str
    right: str
    wrong: tuple[str, ...]
    category: Category
    topic: str
    difficulty: Literal[1, 2, 3]
    uses: frozenset[str]
    source: str

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
