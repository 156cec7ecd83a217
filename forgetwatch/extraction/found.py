"""What a search for the answer of one output brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer that an output gives, before it is compared with the right one.

    Attributes:
        text: The answer as it was found; None where there is none.
        option: Index of the option that it names; None for open answers.
        as_text: The option's text stands where its letter was asked for.
        form: It stands in a form that prompts ask for (``Answer: B``, a boxed answer, nothing but the answer), not
            within prose.
        settled: Text that was cut off behind it could not have changed it.
        ambiguous: Two different answers are given as final.
    """

    text: str | None = None
    option: int | None = None
    as_text: bool = False
    form: bool = False
    settled: bool = False
    ambiguous: bool = False


NOTHING: Final = Found()
AMBIGUOUS: Final = Found(ambiguous=True)
