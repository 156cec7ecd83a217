"""Items to token ids: rendered as text, and split between context and choice as lm-evaluation-harness splits them.

    loglikelihood, plain    prompt                                  + each choice unchanged
    letters, plain          prompt, A. ..., B. ..., "Answer:"       + " A", " B", ...
    letters, chat           template(prompt, A. ..., B. ..., ask)   + "A", "B", ...
    generated, plain/chat   prompt (, A. ..., B. ..., ask), which the model continues

After a chat header no space precedes the answer: " A" and "A" are different tokens. A chat template
that has no place for tools, for the system message, for an earlier turn or for the question leaves
it out without a word, and the model would answer something else: such items are unscored, with the
reason.

    context "Q: 2+2? A:" + choice " 4"   ─▶ ids of the whole text, split after the ids of the context alone

A token that spans the border belongs to the choice. White space at the end of the context moves to
the choice (after a chat template only spaces: the line break that ends its header is not part of
the answer). An empty context becomes BOS, else EOS. BOS is added if the tokenizer itself would add
it, and never twice.

A passage is a choice after an empty context. Where the tokenizer has neither BOS nor EOS nothing
precedes its first token, which has no probability then: the first token is the context, and the
rest of the text is scored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.grading.grader import ungradable_reason
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe
from forgetwatch.probes.worked_examples import options_of
from forgetwatch.progress import Done, Progress
from forgetwatch.snapshot import NOT_GENERATED

_CHUNK: Final = 500
"""Items that are encoded at a time: what a tokenizer returns is much larger than the ids."""

Ids = tuple[int, ...]
_TAIL: Final = 96
"""Characters of a context that are tokenized again at least, for white space and `_ANCHORS` in any script."""

_ANCHORS: Final = 6
"""Tokens after the cut that have to be the same in all ends."""
_WORDED: Final = 8
"""Items of each wording whose options are compared with those of the probe's own wording."""

_FEW: Final = 4
"""Questions from which on they are compared."""

NO_TOOLS: Final = "the chat template has no place for tools"
"""Reason of an item whose tools the model never sees."""

DROPPED: Final = "the chat template leaves out"
"""Beginning of the reason of an item of which the model never sees another part."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One item as token ids."""

    context: Ids  # before the answer
    texts: tuple[str, ...]  # text of each choice, as it was appended
    choices: tuple[Ids, ...]
    spellings: tuple[tuple[int, ...], ...]  # other single tokens that spell a choice, by choice
    unscored: str = ""  # reason why the item cannot be scored; empty if it can

    @property
    def prompt_hash(self) -> str:
        """Hash of the token ids of context and choices.

        First 16 hex digits of SHA-256 over their JSON.
        """
        ids_json = json.dumps([self.context, self.choices])
        return hashlib.sha256(ids_json.encode()).hexdigest()[:16]


def longest_row(encoded: Iterable[Encoded]) -> int:
    """Tokens of the longest item with its longest choice."""
    rows = (len(item.context) + max(map(len, item.choices), default=0) for item in encoded)
    return max(rows, default=0)


def encode(
    probe: Probe, tokenizer: Any, *, max_length: int, progress: Progress | None = None
) -> list[Encoded]:
    """Encode all items of a probe, in order.

    Args:
        probe: The items and their rendering.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Longest text that the model can read, in tokens; longer items are unscored.
        progress: Called before the first chunk of items and after each, where there are several,
            with what is done.
    """
    bos, shared = _added_bos(tokenizer), dict[int, int]()
    encoded: list[Encoded] = []

    def report(count: int) -> None:
        if progress and len(probe) > _CHUNK:
            share = count / len(probe)
            progress(
                Done(
                    count=count,
                    total=len(probe),
                    share=share,
                    unit="items encoded",
                    next="scores",
                    repeated=False,
                )
            )

    report(0)
    for chunk in _chunks(probe.items):
        rendered = [render(item, probe, tokenizer) for item in chunk]
        texts = []
        for one in rendered:
            context = one.context.rstrip(" ") if one.templated else one.context.rstrip()
            moved = one.context[len(context) :]  # to the beginning of each choice
            texts.append(
                (context, [moved + choice for choice in chain(one.choices, *one.spellings)])
            )
        tokenized = tokenize_continued(texts, tokenizer)
        for item, one, (context_ids, continuations) in zip(chunk, rendered, tokenized, strict=True):
            encoded_item = _encode_item(one, context_ids, continuations, bos, tokenizer, max_length)
            if item.is_passage and not encoded_item.context:
                encoded_item = _from_first_token(encoded_item, tokenizer, max_length)
            encoded.append(_with_shared_integers(encoded_item, shared))
        report(len(encoded))
    return encoded


def check_wordings(
    probe: Probe, encoded: Sequence[Encoded], tokenizer: Any, *, max_length: int
) -> None:
    """Refuse wordings in which options have other tokens.

    They would be other options.

    The first items of each wording are compared.

    Raises:
        ScoringError: If a wording changes the tokens of an option.
    """
    by_wording: dict[str, list[int]] = {}
    for index, item in enumerate(probe):
        if item.wording is not None:
            by_wording.setdefault(item.wording.name, []).append(index)
    for name, rows in by_wording.items():
        chosen = rows[:_WORDED]
        plain = encode(
            probe.with_items(replace(probe[index], wording=None) for index in chosen),
            tokenizer,
            max_length=max_length,
        )
        for index, encoded_plain in zip(chosen, plain, strict=True):
            if not encoded_plain.unscored and encoded[index].choices != encoded_plain.choices:
                raise ScoringError(
                    f"the wording {name!r} changes the tokens of the options of item "
                    f"{probe[index].id!r}: its frame "
                    "and an option are read as one word; end the frame in a colon or another mark"
                )


def encode_prompts(
    probe: Probe, items: Sequence[Item], tokenizer: Any, *, max_length: int
) -> list[Encoded]:
    """Encode the prompts from which answers are generated.

    White space at the end of a plain prompt stays: the model continues the prompt exactly as it is.
    With its answer it may have `max_length` tokens.
    """
    bos, shared = _added_bos(tokenizer), dict[int, int]()
    room = max_length - Decoding.of(probe.decoding).tokens  # for the prompt
    encoded = []
    for chunk in _chunks(items):
        rendered = [render_prompt(item, probe, tokenizer) for item in chunk]
        tokenized = tokenize_continued([(text.context, ()) for text in rendered], tokenizer)
        for item, text, (ids, _) in zip(chunk, rendered, tokenized, strict=True):
            context = (
                bos + ids if bos and not text.templated and ids[:1] != bos else ids
            ) or _start(tokenizer)
            why = "" if context else "an empty prompt, and the tokenizer has no start token"
            why = why or text.unscored or ("" if item.judge else ungradable_reason(item))
            if len(context) > room:
                why = (
                    f"no room for {max_length - room} tokens of an answer in the {max_length} "
                    "that the model reads"
                )
            encoded_prompt = Encoded(
                context=context, texts=(), choices=(), spellings=(), unscored=why
            )
            encoded.append(_with_shared_integers(encoded_prompt, shared))
    return encoded


def check_distinct(probe: Probe, items: Sequence[Item], encoded: Sequence[Encoded]) -> None:
    """Refuse token ids that are the same for most questions.

    Raises:
        ScoringError: If more than half of the unlike questions have the token ids of another one: a
            chat template renders a part of the prompt alone, or the tokenizer does not know its
            characters. Fewer get a note.
    """
    for has_options in (True, False):  # a template may leave out the question, and no option
        questions_of: dict[Any, set[Any]] = {}
        for item, encoded_item in zip(items, encoded, strict=True):
            if not encoded_item.unscored and (has_options or probe.rendering_of(item) == "chat"):
                texts = encoded_item.texts if has_options else ()
                key = (str(item.prompt), texts, item.system, item.wording)
                questions_of.setdefault(
                    encoded_item.prompt_hash if has_options else encoded_item.context, set()
                ).add(key)
        collapsed = [questions for questions in questions_of.values() if len(questions) > 1]
        alike, number = sum(map(len, collapsed)), sum(map(len, questions_of.values()))
        if number < _FEW or 2 * alike <= number:
            continue
        raise ScoringError(
            f"probe {probe.name!r}: {alike:,} of {number:,} questions have the token ids of "
            "another one, so that the model cannot tell them apart, such as "
            f"{sorted(map(str, collapsed[0]))[0]!r:.60}; needed a chat template that renders the "
            "whole prompt, and a tokenizer that knows its characters"
        )


def encode_unprompted(encoded: Sequence[Encoded], tokenizer: Any) -> list[Encoded]:
    """Encode the choices of each item without the prompt.

    Each choice comes after BOS (else EOS) alone, tokenized by itself.
    """
    start = _start(tokenizer)
    ids: dict[str, Ids] = {}
    for chunk in _chunks(
        list(dict.fromkeys(text for encoded_item in encoded for text in encoded_item.texts))
    ):
        ids |= zip(chunk, tokenize(chunk, tokenizer), strict=True)
    unprompted = []
    for encoded_item in encoded:
        choices = tuple(ids[text] for text in encoded_item.texts)
        why = encoded_item.unscored or ("" if start else "the tokenizer has no start token")
        why = why or ("" if all(choices) else "a choice has no tokens of its own")
        spellings = ((),) * len(choices)
        unprompted.append(
            Encoded(
                context=start,
                texts=encoded_item.texts,
                choices=choices,
                spellings=spellings,
                unscored=why,
            )
        )
    return unprompted


def tokenizer_settings(tokenizer: Any) -> tuple[str, str] | None:
    """Settings of a tokenizer that decide token ids.

    Returns:
        The settings, or None for a tokenizer written in Python, which has no such text.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    # Padding and truncation come first, and change with every call that pads.
    _, _, settings = backend.to_str().partition('"added_tokens"')
    return settings, str(getattr(tokenizer, "chat_template", None))


def tokenizer_state(tokenizer: Any) -> tuple[Any, ...]:
    """State that shows whether a tokenizer was changed in place.

    The settings, or the vocabulary if there are none.
    """
    settings = tokenizer_settings(tokenizer)
    if settings is not None:
        return settings
    added = getattr(tokenizer, "added_tokens_encoder", {})
    return (
        type(tokenizer),
        len(tokenizer),
        sorted(added.items()),
        str(getattr(tokenizer, "chat_template", None)),
    )


def _with_shared_integers(encoded: Encoded, shared: dict[int, int]) -> Encoded:
    choices = tuple(share_integers(ids, shared) for ids in encoded.choices)
    return replace(encoded, context=share_integers(encoded.context, shared), choices=choices)


def _chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def share_integers(ids: Sequence[int], shared: dict[int, int]) -> Ids:
    """Share equal token ids: 8 bytes a token instead of 36."""
    return tuple(map(shared.setdefault, ids, ids))


def _encode_item(
    rendered: Rendered,
    context: Ids,
    continuations: Sequence[Ids],
    bos: Ids,
    tokenizer: Any,
    max_length: int,
) -> Encoded:
    # BOS is added after the split: it is in neither the ids of the context nor in those of the
    # whole text.
    if bos and not rendered.templated and context[:1] != bos:
        context = bos + context
    context = context or _start(tokenizer)
    choices = tuple(continuations[: len(rendered.choices)])
    others = iter(continuations[len(choices) :])
    spelled = tuple(tuple(next(others) for _ in texts) for texts in rendered.spellings)
    return Encoded(
        context=context,
        texts=rendered.choices,
        choices=choices,
        # Single tokens only: a spelling counts by the probability of the token at the answer
        # position.
        spellings=tuple(
            tuple(
                {ids[0] for ids in of_choice if len(ids) == 1} - {choice[0]}
                if len(choice) == 1
                else ()
            )
            for of_choice, choice in zip(spelled, choices, strict=True)
        ),
        unscored=rendered.unscored or _why_unscored(rendered.choices, context, choices, max_length),
    )


def _from_first_token(encoded: Encoded, tokenizer: Any, max_length: int) -> Encoded:
    # Unchanged if no token ends between two characters.
    (text,), (ids,) = encoded.texts, encoded.choices
    for count in range(1, len(ids)):
        # A token may be a part of a character; the bytes of the rest are those of whole characters.
        start = tokenizer.decode(list(ids[:count]), clean_up_tokenization_spaces=False)
        if start and text.startswith(start):
            context, texts, choices = ids[:count], (text[len(start) :],), (ids[count:],)
            why = _why_unscored(texts, context, choices, max_length)
            return replace(encoded, context=context, texts=texts, choices=choices, unscored=why)
    return encoded


def _why_unscored(
    texts: Sequence[str], context: Ids, choices: tuple[Ids, ...], max_length: int
) -> str:
    # Stored in the outcome; empty if the item can be scored.
    if not choices:
        return NOT_GENERATED
    if not context:
        return "an empty prompt, and the tokenizer has no start token"
    for index, (text, ids) in enumerate(zip(texts, choices, strict=True)):
        if not text.strip():
            return f"choice {index} has no text"
        if not ids:
            return f"choice {index} has no tokens of its own"
    longest = (
        len(context) + max(map(len, choices)) - 1
    )  # the last token is predicted and never read
    fits = longest <= max_length
    return "" if fits else f"longer than the {max_length} tokens that the model reads"


def _start(tokenizer: Any) -> Ids:
    # BOS, else EOS, else none.
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return () if start is None else (start,)


def _added_bos(tokenizer: Any) -> Ids:
    # Some tokenizers put BOS before a plain text. The settings that add BOS differ between
    # tokenizers; the ids of an example show the result of all of them.
    bos = tokenizer.bos_token_id
    starts = tuple(tokenizer("a", verbose=False)["input_ids"])[:1]
    return (bos,) if bos is not None and starts == (bos,) else ()


def tokenize(texts: Sequence[str], tokenizer: Any) -> list[Ids]:
    """Tokenize each text by itself, without special tokens."""
    if not texts:
        return []
    # Masks of every token take longer than the ids.
    without = {
        "add_special_tokens": False,
        "return_attention_mask": False,
        "return_token_type_ids": False,
    }
    return [tuple(ids) for ids in tokenizer(list(texts), **without, verbose=False)["input_ids"]]


def tokenize_continued(
    texts: Sequence[tuple[str, Sequence[str]]], tokenizer: Any
) -> list[tuple[Ids, list[Ids]]]:
    """Tokenize contexts, and what is appended to them.

    The token ids of an appended text are those of the whole text after as many ids as the context
    has alone.

    The texts are each context with what is appended to it, some hundreds at a time. Of a whole text
    only the end is tokenized, from a white space on: exact for BPE where the context's ids end as
    those of its end, and `_ANCHORS` of these begin the whole text's end, since ids are those of a
    text if every two neighbours are. Else it is read whole.
    """
    ends = {context: context[_cut(context) :] for context, _ in texts}
    wanted = [
        text
        for context, added in texts
        for text in (context, *(ends[context] + x for x in ("", *added)))
    ]
    ids = dict(zip(wanted, tokenize(wanted, tokenizer), strict=True))
    whole_texts = [
        context + x
        for context, added in texts
        for x in added
        if not _continues(ids[context], ids[ends[context]], ids[ends[context] + x])
    ]
    ids_of_whole = dict(zip(whole_texts, tokenize(whole_texts, tokenizer), strict=True))

    def continuation(context: str, text: str) -> Ids:
        of_whole, end = ids_of_whole.get(context + text), ends[context]
        return (
            ids[end + text][len(ids[end]) :] if of_whole is None else of_whole[len(ids[context]) :]
        )

    return [
        (ids[context], [continuation(context, text) for text in added]) for context, added in texts
    ]


def _continues(context: Ids, end: Ids, continued: Ids) -> bool:
    # A context must end with the ids of its end, and these begin those of the end with a
    # continuation.
    kept = common_length(context[: -len(end) - 1 : -1], end[::-1])
    return kept >= _ANCHORS and common_length(continued, end) >= len(end) - kept + _ANCHORS


def _cut(text: str) -> int:
    # A word at least `_TAIL` characters before the end; 0 if there is none.
    index = len(text) - _TAIL
    while index > 0 and not (text[index].isspace() and not text[index + 1].isspace()):
        index -= 1
    return max(index, 0)


_Text = TypeVar("_Text", Ids, bytes, str)


def common_length(left: _Text, right: _Text) -> int:
    """Number of leading elements that two sequences share."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # bisection: comparing slices is fast, and a loop over elements is not
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[low:middle] == right[low:middle] else (low, middle - 1)
    return low


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """One item as text."""

    context: str  # everything before the answer
    choices: tuple[str, ...]  # continuations that are scored
    spellings: tuple[
        tuple[str, ...], ...
    ]  # others of each choice; for `option_mass` and `free_correct` only
    templated: bool  # True if the context is from a chat template, which has its own special tokens
    unscored: str = ""  # reason why the text is not what the item is about; empty if it is


def render(item: Item, probe: Probe, tokenizer: Any) -> Rendered:
    """Render the text of an item by the probe's settings.

    Raises:
        ProbeError or ScoringError: If there is no chat template, or the template refuses the item.
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
            tuple({letter, f" {letter}"} - {choice})
            for letter, choice in zip(letters, choices, strict=True)
        )
    context, why = _chat(item, prompt, tokenizer) if chat else (str(prompt), "")
    return Rendered(
        context=context, choices=choices, spellings=spellings, templated=chat, unscored=why
    )


def render_prompt(item: Item, probe: Probe, tokenizer: Any) -> Rendered:
    """Render the prompt from which the model generates an answer.

    Choices are listed as A, B, C, ...; the instruction is for the letter, alone or after reasoning
    step by step.
    """
    chat, prompt = probe.rendering_of(item) == "chat", item.full_prompt
    decoding = Decoding.of(probe.decoding)
    if item.choices:
        prompt = _append(prompt, options_of(item, ask=decoding.ask, chat=chat))
    context, why = (
        _chat(item, prompt, tokenizer, thinking=decoding.thinking) if chat else (str(prompt), "")
    )
    return Rendered(context=context, choices=(), spellings=(), templated=chat, unscored=why)


_Template = Callable[[Sequence[dict[str, Any]]], str]
"""Function from messages to their text by a chat template."""


def _append(prompt: Any, text: str) -> Any:
    # In chat messages, to the last one.
    if isinstance(prompt, str):
        return prompt + text
    *earlier, last_message = prompt
    content = last_message["content"]
    # Content in parts (text, images) gets one more part.
    content = (
        content + text if isinstance(content, str) else [*content, {"type": "text", "text": text}]
    )
    return (*earlier, {**last_message, "content": content})


def _chat(item: Item, prompt: Any, tokenizer: Any, *, thinking: bool = False) -> tuple[str, str]:
    # The second text is the reason to leave the item unscored, empty if nothing is missing.
    messages = (
        [{"role": "user", "content": prompt}]
        if isinstance(prompt, str)
        else [dict(m) for m in prompt]
    )
    if item.system is not None:
        messages.insert(0, {"role": "system", "content": item.system})
    template: _Template = partial(_apply, item, tokenizer=tokenizer, thinking=thinking)
    context = template(messages)
    if (
        item.tools
        and _apply(replace(item, tools=None), messages, tokenizer=tokenizer, thinking=thinking)
        == context
    ):
        return context, NO_TOOLS
    return context, _dropped(messages, template, context)


def _dropped(messages: Sequence[dict[str, Any]], template: _Template, context: str) -> str:
    # The template drops the text of a message.
    marks = [f"zq{number}qz" for number in range(len(messages))]
    marked = [_with_text(message, mark) for message, mark in zip(messages, marks, strict=True)]
    try:
        rendered = template(marked)
    except (
        ScoringError
    ):  # a template may ask for something of a text: then each message is tried by itself
        rendered = ""
    for number, mark in enumerate(marks):
        # A mark may be missing for another reason, such as a template in capitals; a change of this
        # text alone is sure.
        if mark not in rendered and _is_dropped(messages, number, mark, template, context):
            role = messages[number]["role"]
            if number == len(messages) - 1 and role == "user":
                return f"{DROPPED} the question"
            dropped = (
                "the system message" if role == "system" else f"message {number + 1}, of the {role}"
            )
            return f"{DROPPED} {dropped}"
    return ""


def _is_dropped(
    messages: Sequence[dict[str, Any]], number: int, mark: str, template: _Template, context: str
) -> bool:
    # The context is the same whatever the text of the message is.
    message = messages[number]
    if _with_text(message, mark) == message or message.get(
        "tool_calls"
    ):  # calls may take the place of a text
        return False
    content = message["content"]
    # A template that refuses the mark may accept the text with the mark after it.
    for marked_text in (mark, f"{content} {mark}" if isinstance(content, str) else mark):
        changed = [*messages[:number], _with_text(message, marked_text), *messages[number + 1 :]]
        try:
            return template(changed) == context
        except ScoringError:
            continue
    return False


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    # A message without text stays as it is.
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": text} if content.strip() else message
    if isinstance(content, Sequence):
        parts = [
            {**part, "text": text} if isinstance(part, Mapping) and "text" in part else part
            for part in content
        ]
        return {**message, "content": parts}
    return message


def _apply(
    item: Item, messages: Sequence[dict[str, Any]], *, tokenizer: Any, thinking: bool
) -> str:
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
        raise ScoringError(
            f"item {item.id!r}: the tokenizer's chat template refuses it ({error})"
        ) from error
