"""Topics of the shipped prompts of `forgetwatch replay`, by the categories of the shipped probes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final


def _read() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("topics.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            found[next(reversed(found))].append(line.strip())
        else:
            found[line] = []
    return {category: tuple(topics) for category, topics in found.items()}


TOPICS: Final = _read()
"""Topics of each category."""


_CHAT: Final = (
    "Explain {} in a few sentences.",
    "What should one know about {}?",
    "Write a short text about {}.",
)


_PLAIN: Final = (
    "A short explanation of {}.\n\n",
    "What one should know about {}:\n\n",
    "Notes on {}.\n\n",
)


@dataclass(frozen=True)
class Prompt:
    """A prompt, and the category that it is about; empty if none is known."""

    text: str
    category: str


def shipped_prompts(*, chat: bool, categories: Iterable[str] = ()) -> list[Prompt]:
    """Write the shipped topics as prompts, each in three wordings.

    Categories without topics are topics themselves.
    """
    topics = {**TOPICS, **{name: (name,) for name in categories if name and name not in TOPICS}}
    wordings = _CHAT if chat else _PLAIN
    return [
        Prompt(wording.format(topic), category)
        for category, of_category in topics.items()
        for topic in of_category
        for wording in wordings
    ]
