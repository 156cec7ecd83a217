r"""What stands behind a thinking block: models that reason aloud weigh every option there, and answer afterwards.

    <think>A? No, B.</think> Answer: B       the answer is looked for in " Answer: B"
    <think>A? No, B. But then                the text ends inside the block: there is no answer

A closing tag without an opening one is read as the end of a block that the prompt opened, which is how many chat
templates begin an answer. Where the prompt opened it and the output ends before it is closed, the text alone cannot
tell: put what `opening_tag` says before the output.

Where an output goes on to a question of its own: base models do, once they have answered.

    " B\n\nQuestion: Capital of Chile? ... Answer: A"        the answer is B

What stands before is the answer only if one is given there: a model may also read the question out first.
"""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(
    r"[<\[◁](/?)(?:seed:)?(think(?:ing)?|thought|reasoning)[>\]▷]"
    r"|<\|(begin|end)_of_(thought)\|>"
    r"|<\|?channel(?:\|?>)(analysis|commentary|thought|final)\b"
    r"|(<channel\|>)",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(r"\A\s*<\|message\|>")
_CONTROL: Final = re.compile(r"<\|\w{1,30}\|>\s*\Z")
_CHANNEL: Final = frozenset({"<|channel|>", "<|message|>", "<|channel>", "<channel|>"})


def after_thinking(output: str) -> str | None:
    """The output behind its last thinking block, all of it where there is none; None if it ends inside a block.

    >>> after_thinking("<think>A or B?</think>B")
    'B'
    """
    opened: list[str] = []
    behind = 0
    for tag in _TAG.finditer(output):
        closes, name, edge, thought, channel, channel_end = tag.groups()
        kind = (name or thought or "channel").lower()
        if channel and channel.lower() != "final":
            opened = ["channel"]
            continue
        if closes or channel or channel_end or (edge and edge.lower() == "end"):
            # What was opened within a block ends with it; so does everything, if the prompt opened it.
            opened = opened[: opened.index(kind)] if kind in opened else []
            behind = tag.end()
        else:
            opened.append(kind)
        if len(opened) > _DEEPEST:
            return None
    if opened:
        return None
    text = _HEADER.sub("", output[behind:]) if behind else output
    return _CONTROL.sub("", text) if text.rstrip().endswith("|>") else text


def opening_tag(prompt: str) -> str:
    r"""The tag of the thinking block that the end of a prompt opens, whatever was asked of its template; else empty.

    >>> opening_tag("Capital of Peru?<|assistant|><think>\n")
    '<think>'
    """
    last = max(_TAG.finditer(prompt), key=re.Match.start, default=None)
    return last[0] if last and not prompt[last.end() :].strip() and after_thinking(last[0]) is None else ""


def is_thinking_tag(token: str) -> bool:
    """Whether a token stands around thinking: without it the answer and what was thought run together."""
    return token in _CHANNEL or _TAG.fullmatch(token) is not None


_DEEPEST: Final = 1_000
"""Blocks within blocks; more is no thinking, and looking them through would cost more than a pass over the text."""


_NEXT: Final = re.compile(
    r"\n[^\S\n]{0,20}(?:#{1,6} {0,2}|\*\*)?"
    r"(?:(?:(?:next |new )?(?:question|problem|exercise|q)\b {0,2}\d{0,4}|(?:human|user)\b) {0,2}(?:\*\*)?[:.)]"
    r"|(?:(?<=### )|(?<=###))instruction\b)",
    re.IGNORECASE,
)


def before_next_question(body: str) -> str | None:
    """The text before the first next question; None where there is none, or nothing before it."""
    text = body.lstrip()
    found = _NEXT.search(text)
    return text[: found.start() + 1] if found else None
