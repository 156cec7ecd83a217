"""Text after a question with options: the options as lines A, B, C, ..., and the instruction how to answer.

Models see this text: changing one byte of it changes measurements.
"""

from __future__ import annotations

from typing import Final

from forgetwatch.decoding import Ask
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS

_LETTER: Final = "Answer with the letter of the right option."
_REASONING: Final = "Think step by step. End with one line of the form 'Answer: X', X being the letter."


def options_of(item: Item, *, ask: Ask, chat: bool) -> str:
    """Text that lists an item's options and asks for a letter or for reasoning.

    A plain prompt ends where the answer begins; a chat prompt ends with the instruction.
    """
    options = "".join(f"\n{letter}. {choice.strip()}" for letter, choice in zip(LETTERS, item.choices, strict=False))
    if ask == "letter":
        return f"{options}\n{_LETTER}" if chat else f"{options}\nAnswer:"
    return f"{options}\n{_REASONING}" if chat else f"{options}\n{_REASONING}\n"


def worked_answer(item: Item, *, ask: Ask, chat: bool) -> str:
    """The right answer to such a question in the requested form; `meta["reasoning"]` goes before it."""
    letter = LETTERS[int(item.answers[0])]
    if ask == "letter":
        return letter if chat else f" {letter}"
    reasoning = str(item.meta.get("reasoning", "")).strip()
    return f"{reasoning}\nAnswer: {letter}" if reasoning else f"Answer: {letter}"
