"""Items to text: the context before the answer, and the texts of the choices.

    loglikelihood, plain    prompt                                  + each choice unchanged
    letters, plain          prompt, A. ..., B. ..., "Answer:"       + " A", " B", ...
    letters, chat           template(prompt, A. ..., B. ..., ask)   + "A", "B", ...
    generated, plain/chat   prompt (, A. ..., B. ..., ask), which the model continues

After a chat header no space precedes the answer: " A" and "A" are different tokens. A chat template that has no place
for tools, for the system message, for an earlier turn or for the question leaves it out without a word, and the model
would answer something else: such items are unscored, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe
from forgetwatch.probes import options_of

NO_TOOLS: Final = "the chat template has no place for tools"
"""Reason of an item whose tools the model never sees."""

DROPPED: Final = "the chat template leaves out"
"""Beginning of the reason of an item of which the model never sees another part."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """One item as text.

    Attributes:
        context: Everything before the answer.
        choices: Continuations that are scored, one per choice.
        spellings: Other spellings of each choice; they count in `option_mass` and `free_correct` only.
        templated: True if the context is from a chat template, which has its own special tokens.
        unscored: Reason why the text is not what the item is about; empty if it is.
    """

    context: str
    choices: tuple[str, ...]
    spellings: tuple[tuple[str, ...], ...]
    templated: bool
    unscored: str = ""


def render(item: Item, probe: Probe, tokenizer: Any) -> Rendered:
    """Text of one item by the probe's settings.

    Raises:
        ScoringError: If the rendering is chat and the tokenizer has no chat template, or the template refuses the item.
    """
    chat = probe.rendering_of(item) == "chat"
    choices, prompt = tuple(item.choices), item.full_prompt
    if not choices and not probe.is_generated(item):
        choices = tuple(map(str, item.answers))
    spellings: tuple[tuple[str, ...], ...] = ((),) * len(choices)
    if probe.scoring != "loglikelihood" and item.choices:
        letters = tuple(LETTERS[: len(choices)])
        # A prompt whose choices are the letters already lists the options itself.
        listed = tuple(choice.strip() for choice in choices) == letters
        if not listed:
            prompt = _append(prompt, options_of(item, ask="letter", chat=chat))
            choices = letters if chat else tuple(f" {letter}" for letter in letters)
        spellings = tuple(
            tuple({letter, f" {letter}"} - {choice}) for letter, choice in zip(letters, choices, strict=True)
        )
    context, why = _chat(item, prompt, tokenizer) if chat else (str(prompt), "")
    return Rendered(context=context, choices=choices, spellings=spellings, templated=chat, unscored=why)


def render_prompt(item: Item, probe: Probe, tokenizer: Any) -> Rendered:
    """Text of one item from which the model generates its answer.

    Choices are listed as A, B, C, ...; the instruction is for the letter, alone or after reasoning step by step.

    Raises:
        ScoringError: If the rendering is chat and the tokenizer has no chat template, or the template refuses the item.
    """
    chat, prompt = probe.rendering_of(item) == "chat", item.full_prompt
    decoding = Decoding.of(probe.decoding)
    if item.choices:
        prompt = _append(prompt, options_of(item, ask=decoding.ask, chat=chat))
    context, why = _chat(item, prompt, tokenizer, thinking=decoding.thinking) if chat else (str(prompt), "")
    return Rendered(context=context, choices=(), spellings=(), templated=chat, unscored=why)


def _append(prompt: Any, text: str) -> Any:
    """Prompt with a text appended; in chat messages, to the last one."""
    if isinstance(prompt, str):
        return prompt + text
    *first, last = prompt
    content = last["content"]
    # Content in parts (text, images) gets one more part.
    content = content + text if isinstance(content, str) else [*content, {"type": "text", "text": text}]
    return (*first, {**last, "content": content})


def _chat(item: Item, prompt: Any, tokenizer: Any, *, thinking: bool = False) -> tuple[str, str]:
    """Text of an item by the chat template, and the reason to leave it unscored; empty if nothing is missing."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
    if item.system is not None:
        messages.insert(0, {"role": "system", "content": item.system})
    context = _apply(item, messages, tokenizer, thinking=thinking)
    if item.tools and _apply(replace(item, tools=None), messages, tokenizer, thinking=thinking) == context:
        return context, NO_TOOLS
    return context, _dropped(item, messages, tokenizer, context, thinking=thinking)


def _dropped(item: Item, messages: Sequence[dict[str, Any]], tokenizer: Any, context: str, *, thinking: bool) -> str:
    """Reason to leave an item unscored: the template drops the text of a message; empty if it drops none."""
    marks = [f"zq{number}qz" for number in range(len(messages))]
    marked = [_with_text(message, mark) for message, mark in zip(messages, marks, strict=True)]
    try:
        text = _apply(item, marked, tokenizer, thinking=thinking)
    except ScoringError:  # a template may ask for something of a text: then each message is tried by itself
        text = ""
    for number, mark in enumerate(marks):
        # A mark may be missing for another reason, such as a template in capitals; a change of this text alone is sure.
        if mark not in text and _is_dropped(item, messages, number, mark, tokenizer, context, thinking=thinking):
            role = messages[number]["role"]
            if number == len(messages) - 1 and role == "user":
                return f"{DROPPED} the question"
            return f"{DROPPED} " + (
                "the system message" if role == "system" else f"message {number + 1}, of the {role}"
            )
    return ""


def _is_dropped(
    item: Item,
    messages: Sequence[dict[str, Any]],
    number: int,
    mark: str,
    tokenizer: Any,
    context: str,
    *,
    thinking: bool,
) -> bool:
    """True if the template gives the same context whatever the text of one message is."""
    message = messages[number]
    if _with_text(message, mark) == message or message.get("tool_calls"):  # calls may take the place of a text
        return False
    content = message["content"]
    # A template that refuses the mark may accept the text with the mark after it.
    for text in (mark, f"{content} {mark}" if isinstance(content, str) else mark):
        changed = [*messages[:number], _with_text(message, text), *messages[number + 1 :]]
        try:
            return _apply(item, changed, tokenizer, thinking=thinking) == context
        except ScoringError:
            continue
    return False


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    """A message with another text; the message itself if it has none."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": text} if content.strip() else message
    if isinstance(content, Sequence):
        parts = [{**part, "text": text} if isinstance(part, Mapping) and "text" in part else part for part in content]
        return {**message, "content": parts}
    return message


def _apply(item: Item, messages: Sequence[dict[str, Any]], tokenizer: Any, *, thinking: bool) -> str:
    """Text of messages by the tokenizer's chat template."""
    if not tokenizer.chat_template:
        raise ScoringError(
            f"item {item.id!r} is to be rendered as chat, and the tokenizer has no chat template; "
            "use rendering='plain' or a tokenizer with a template"
        )
    try:
        return str(
            tokenizer.apply_chat_template(
                messages,
                tools=None if item.tools is None else [dict(tool) for tool in item.tools],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=thinking,  # a template that does not know the name ignores it
            )
        )
    except Exception as error:  # a template is code that comes with the model
        raise ScoringError(f"item {item.id!r}: the tokenizer's chat template refuses it ({error})") from error
