"""Text around a question: listed options, the instruction how to answer, and worked examples.

Models see this text: changing one byte of it changes measurements.

The content hash of an item seeds the draw of its examples: they do not change with its position,
the number of processes, or the other items. The prompts are part of the items, and so of the
fingerprint.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from forgetwatch.decoding import Ask, Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe

_LETTER: Final = "Answer with the letter of the right option."


_REASONING: Final = (
    "Think step by step. End with one line of the form 'Answer: X', X being the letter."
)


def options_of(item: Item, *, ask: Ask, chat: bool) -> str:
    """List an item's options, and ask for a letter or reasoning.

    A plain prompt ends where the answer begins; a chat prompt ends with the instruction.
    """
    options = "".join(
        f"\n{letter}. {choice.strip()}"
        for letter, choice in zip(LETTERS, item.choices, strict=False)
    )
    if ask == "letter":
        return f"{options}\n{_LETTER}" if chat else f"{options}\nAnswer:"
    return f"{options}\n{_REASONING}" if chat else f"{options}\n{_REASONING}\n"


def few_shot(probe: Probe, examples: Sequence[Item], *, shots: int = 5) -> Probe:
    """Put worked examples before each question.

    An example of a scored probe ends in the right option. One of a probe whose answers are
    generated shows its reasoning if it has one (`meta["reasoning"]`), and ends in the requested
    form. If all plain questions begin with the same label, such as ``Question:``, that label
    becomes a stop text, so that a generated answer ends before the next question. Passages stay as
    they are, and are no examples.

    Args:
        probe: The questions.
        examples: Items of the same kind with their answers; an item is never an example of itself,
            nor of the same question with its options in another order.
        shots: Number of examples before each question.

    Raises:
        ProbeError: If there are not enough examples.
    """
    with_examples = replace(
        probe, items=tuple(_with_examples(item, probe, examples, shots) for item in probe)
    )
    if any(probe.rendering_of(item) == "chat" for item in probe) or not any(
        map(probe.is_generated, probe)
    ):
        return with_examples
    # A set: one label means that every question and example begins with it.
    stops = {item.next_question for item in (*probe, *examples)}
    stop = stops.pop()
    if stops or stop is None:
        return with_examples
    decoding = Decoding.of(probe.decoding)
    return replace(with_examples, decoding=replace(decoding, stop=(*decoding.stop, stop)))


def _with_examples(item: Item, probe: Probe, examples: Sequence[Item], shots: int) -> Item:
    if item.is_passage:
        return item
    question = _question_key(item)
    # Sorted, so that the draw does not depend on the order of the examples.
    candidates = sorted(
        (
            example
            for example in examples
            if not example.is_passage and _question_key(example) != question
        ),
        key=lambda example: example.content_hash,
    )
    same_task = [example for example in candidates if example.task == item.task]
    pool = same_task if len(same_task) >= shots else candidates
    if len(pool) < shots:
        raise ProbeError(
            f"item {item.id!r}: needed {shots} examples other than itself, there are {len(pool)}"
        )
    drawn = random.Random(int(item.content_hash, 16)).sample(pool, shots)
    texts = [_question_and_answer(example, probe) for example in drawn]
    if probe.rendering_of(item) == "plain":
        if not isinstance(item.prompt, str):
            raise ProbeError(f"item {item.id!r}: chat messages need rendering='chat'")
        return replace(
            item, shots="".join(f"{shot}{answer}\n\n" for shot, answer in texts) + item.shots
        )
    before: list[Mapping[str, Any]] = []
    for shot, answer in texts:
        before += [
            {"role": "user", "content": shot},
            {"role": "assistant", "content": answer.strip()},
        ]
    # Examples of the item's own stay next to its question, in one turn.
    last_example = (
        [{"role": "user", "content": item.full_prompt}]
        if isinstance(item.prompt, str)
        else list(item.prompt)
    )
    return replace(item, prompt=(*before, *last_example), shots="")


def _question_key(item: Item) -> tuple[str, list[str]]:
    # Without order, case and spacing. Of two items with one key each gives away the other.
    prompt = (
        item.prompt
        if isinstance(item.prompt, str)
        else str([message["content"] for message in item.prompt])
    )
    return " ".join(prompt.casefold().split()), sorted(
        " ".join(choice.casefold().split()) for choice in item.choices
    )


def _question_and_answer(example: Item, probe: Probe) -> tuple[str, str]:
    # The question is as the probe renders it; the answer begins with the space between them.
    if not isinstance(example.prompt, str):
        raise ProbeError(f"example {example.id!r}: needed a prompt of text, got chat messages")
    chat = probe.rendering_of(example) == "chat"
    if not example.choices:
        answer = str(example.answers[0])
        is_spaced = answer.startswith((" ", "\n")) or example.prompt.endswith((" ", "\n"))
        return example.prompt, answer if is_spaced else f" {answer}"
    if probe.scoring == "loglikelihood":
        return example.prompt, example.choices[int(example.answers[0])]
    ask = Decoding.of(probe.decoding).ask if probe.scoring == "generate" else "letter"
    question, letter = (
        example.prompt + options_of(example, ask=ask, chat=chat),
        LETTERS[int(example.answers[0])],
    )
    if ask == "letter":
        return question, letter if chat else f" {letter}"
    reasoning = str(example.meta.get("reasoning", "")).strip()
    return question, f"{reasoning}\nAnswer: {letter}" if reasoning else f"Answer: {letter}"
