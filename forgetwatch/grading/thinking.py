r"""Text that a model generates around its answer: a thinking block before it, and a next question after it.

    <think>A? No, B.</think> Answer: B                       the answer is in " Answer: B"
    <think>A? No, B. But then                                the text ends inside the block: no answer
    " B\n\nQuestion: Capital of Chile? ... Answer: A"        the answer is B

Reasoning models weigh every option in their thinking, so only the text after it is searched. A closing tag without an
opening one ends a block that the prompt opened, as many chat templates do. Where the prompt opened a block and the
output ends before it is closed, the text alone does not show it: the caller puts `opening_tag` of the prompt before the
output. Base models go on with a question of their own after an answer; the text before it is what counts.
"""

from __future__ import annotations

import re
from typing import Final

# <think>, [THINK], <seed:think>, <|begin_of_thought|>, and the channels of harmony-like templates.
_TAG: Final = re.compile(
    r"[<\[◁](/?)(?:seed:)?(think(?:ing)?|thought|reasoning)[>\]▷]"
    r"|<\|(begin|end)_of_(thought)\|>"
    r"|<\|?channel(?:\|?>)(analysis|commentary|thought|final)\b"
    r"|(<channel\|>)",
    re.IGNORECASE,
)
# Control tokens that are no part of the answer, after the block and at the end.
_HEADER: Final = re.compile(r"\A\s*<\|message\|>")
_CONTROL: Final = re.compile(r"<\|\w{1,30}\|>\s*\Z")
_CHANNEL: Final = frozenset({"<|channel|>", "<|message|>", "<|channel>", "<channel|>"})
_DEEPEST: Final = 1_000
"""Limit of blocks within blocks; beyond it the search for an opening tag would take more than one pass."""

# "Question:", "### Instruction", "User:", "**Problem 2:**" at the start of a line.
_NEXT: Final = re.compile(
    r"\n[^\S\n]{0,20}(?:#{1,6} {0,2}|\*\*)?"
    r"(?:(?:(?:next |new )?(?:question|problem|exercise|q)\b {0,2}\d{0,4}|(?:human|user)\b) {0,2}(?:\*\*)?[:.)]"
    r"|(?:(?<=### )|(?<=###))instruction\b)",
    re.IGNORECASE,
)


def after_thinking(output: str) -> str | None:
    """Text of an output after its last thinking block; all of it if there is none, None if it ends inside a block.

    >>> after_thinking("<think>A or B?</think>B")
    'B'
    """
    opened: list[str] = []
    after = 0
    for tag in _TAG.finditer(output):
        closes, name, edge, thought, channel, channel_end = tag.groups()
        kind = (name or thought or "channel").lower()
        if channel and channel.lower() != "final":
            # A channel replaces the one before it; "final" closes it.
            opened = ["channel"]
            continue
        if closes or channel or channel_end or (edge and edge.lower() == "end"):
            # A block ends those within it; a tag that was never opened here closes the prompt's block, and all.
            opened = opened[: opened.index(kind)] if kind in opened else []
            after = tag.end()
        else:
            opened.append(kind)
        if len(opened) > _DEEPEST:
            return None
    if opened:
        return None
    text = _HEADER.sub("", output[after:]) if after else output
    return _CONTROL.sub("", text) if text.rstrip().endswith("|>") else text


def opening_tag(prompt: str) -> str:
    r"""Tag of the thinking block that a prompt opens at its end; empty if it opens none.

    >>> opening_tag("Capital of Peru?<|assistant|><think>\n")
    '<think>'
    """
    last = max(_TAG.finditer(prompt), key=re.Match.start, default=None)
    return last[0] if last and not prompt[last.end() :].strip() and after_thinking(last[0]) is None else ""


def is_thinking_tag(token: str) -> bool:
    """True for a token that delimits thinking: removed as a special token, it would join thinking and answer."""
    return token in _CHANNEL or _TAG.fullmatch(token) is not None


def before_next_question(body: str) -> str | None:
    """Text before the first question that the model writes itself; None if there is none, or no text before it.

    It is the answer only if it states one: a model may also copy the question before it answers.
    """
    text = body.lstrip()
    found = _NEXT.search(text)
    return text[: found.start() + 1] if found else None
