"""The wordings that are shipped, and probes whose items are asked in them; see `item`.

    one     each item in one of the probe's own wording, `short` and `right`: by the hash of its content alone, so that
            it has the same one in every selection of items. The total is over the wordings, and takes little longer
    each    each item in all of them, ``ID``, ``ID@short`` and ``ID@right``: three times as long

Prompts of text whose options are scored as continuations have wordings. Chat messages, listed letters, generated
answers, passages and items that must pass are asked as they are written, and so is an item that lacks one of the
wordings.

**Prompts.** Text around a question: its listed options, the instruction how to answer, and worked examples before it.

Models see this text: changing one byte of it changes measurements.

The content hash of an item seeds the draw of its examples: they do not change with its position, the number of
processes, or the other items. The prompts are part of the items, and so of the fingerprint.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, get_args

from forgetwatch.decoding import Ask, Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.item import PLACE, SHIPPED, Item, Wording
from forgetwatch.probe import LETTERS, Probe

AskedIn = Literal["one", "each"]
"""Number of wordings in which each item of a probe is asked."""

WORDINGS: Final = (
    Wording(name="short", frame=f"Q: {PLACE}\nA:", beginning="Complete:"),
    Wording(name="right", frame=f"{PLACE}\nThe right answer is:", beginning="Here is a sentence."),
    Wording(name="bare", shots=False, beginning="It says:"),
    Wording(name="chat", frame=PLACE, shots=False, rendering="chat"),
)
"""The wordings that are shipped, beside that of the probe."""

OWN: Final = Wording(name=SHIPPED)
"""The wording of the probe itself, of an item that may be asked in others too."""

OTHERS: Final = ("short", "right")
"""Names of the wordings that a probe gets, and in which lost answers are asked again by default."""


def wordings_of(names: Sequence[str]) -> list[Wording]:
    """Return shipped wordings by their names.

    Raises:
        ProbeError: If a name is unknown, given twice, or none is given.
    """
    known = {one.name: one for one in WORDINGS}
    if unknown := [name for name in names if name not in known]:
        raise ProbeError(f"wording {unknown[0]!r}: needed some of {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise ProbeError(
            f"needed one or more wordings, each once, got {', '.join(names) or 'none'}"
        )
    return [known[name] for name in names]


def reworded(item: Item, wording: Wording) -> Item | None:
    """Return an item in another wording, in place of its own in that of the probe.

    None if it has none, or the wording would ask it as before.
    """
    if item.wording == wording:
        return replace(item, wording=OWN)
    if (
        item.is_passage
        or not item.choices
        or not isinstance(item.prompt, str)
        or item.rendering == "chat"
    ):
        return None
    if wording.asks(item.prompt, item.shots) is None:
        return None
    return replace(item, wording=wording, must_pass=False)


def worded_probe(
    probe: Probe, items: Sequence[Item], wordings: Sequence[Wording]
) -> tuple[Probe | None, list[Item]]:
    """Return the probe of items in each of some wordings, and the items that have all of them, in their order.

    The id of an item in a wording is ``ID@WORDING``, also where that is its own and it is asked in the probe's instead.
    None if no item has all of them.
    """
    asked, kept = [], []
    if _has_wordings(probe):
        for item in items:
            made = [reworded(item, wording) for wording in wordings]
            if all(made):
                kept.append(item)
                asked += [
                    replace(one, id=f"{item.id}@{wording.name}")
                    for one, wording in zip(made, wordings, strict=True)
                    if one is not None
                ]
    name = f"{probe.name} in {len(wordings)} other wording{'' if len(wordings) == 1 else 's'}"
    return (replace(probe, items=tuple(asked), name=name, decoding=None) if asked else None), kept


def worded(probe: Probe, asked: AskedIn, wordings: Sequence[Wording] | None = None) -> Probe:
    """Return a probe whose items are asked in several wordings: its own, and some others.

    Args:
        probe: A probe of which some items are plain prompts of text with options that are scored as continuations.
        asked: ``one`` asks each item in one wording, ``each`` in all of them.
        wordings: The others; by default `OTHERS`.

    Raises:
        ProbeError: If no item has these wordings, an item has a wording already, or two ask alike.
    """
    others = wordings_of(OTHERS) if wordings is None else list(wordings)
    if asked not in get_args(AskedIn):
        raise ProbeError(f"wordings must be one of {', '.join(get_args(AskedIn))}, got {asked!r}")
    if any(item.wording for item in probe):
        raise ProbeError(
            f"probe {probe.name!r}: its items have wordings already; they are asked in these"
        )
    able = [
        item for item in probe if not item.must_pass and all(reworded(item, one) for one in others)
    ]
    if not _has_wordings(probe) or not able:
        raise ProbeError(
            f"probe {probe.name!r}: no item has other wordings; needed plain prompts of text with options that are "
            "scored as continuations, and no items that must pass"
        )
    able_keys = {(item.task, item.id) for item in able}
    wordings, made = (OWN, *others), list[Item]()
    for item in probe:
        if (item.task, item.id) not in able_keys:
            made.append(item)
        elif asked == "one":
            made.append(replace(item, wording=wordings[int(item.content_hash, 16) % len(wordings)]))
        else:
            made += [
                replace(item, wording=OWN),
                *(_named(replace(item, wording=one)) for one in others),
            ]
    return probe.with_items(made)


def _has_wordings(probe: Probe) -> bool:
    return probe.scoring == "loglikelihood" and probe.rendering == "plain"


def _named(worded: Item) -> Item:
    """Return an item in a wording under an id of its own."""
    return replace(
        worded, id=f"{worded.id}@{'' if worded.wording is None else worded.wording.name}"
    )


_LETTER: Final = "Answer with the letter of the right option."
_REASONING: Final = (
    "Think step by step. End with one line of the form 'Answer: X', X being the letter."
)


def options_of(item: Item, *, ask: Ask, chat: bool) -> str:
    """Return the text that lists an item's options and asks for a letter or for reasoning.

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
    """Put worked examples before each question, of its own task if there are enough.

    An example of a scored probe ends in the right option. One of a probe whose answers are generated shows its
    reasoning if it has one (`meta["reasoning"]`), and ends in the requested form. If all plain questions begin
    with the same label, such as ``Question:``, that label becomes a stop text, so that a generated answer ends before
    the next question. Passages stay as they are, and are no examples.

    Args:
        probe: The questions.
        examples: Items of the same kind with their answers; an item is never an example of itself, nor of the same
            question with its options in another order.
        shots: Number of examples before each question.

    Raises:
        ProbeError: If there are not enough examples.
    """
    made = replace(
        probe, items=tuple(_with_examples(item, probe, examples, shots) for item in probe)
    )
    if any(probe.rendering_of(item) == "chat" for item in probe) or not any(
        map(probe.is_generated, probe)
    ):
        return made
    # A set: one label means that every question and example begins with it.
    stops = {one.next_question for one in (*probe, *examples)}
    stop = stops.pop()
    if stops or stop is None:
        return made
    decoding = Decoding.of(probe.decoding)
    return replace(made, decoding=replace(decoding, stop=(*decoding.stop, stop)))


def _with_examples(item: Item, probe: Probe, examples: Sequence[Item], shots: int) -> Item:
    if item.is_passage:
        return item
    question = _question_key(item)
    # Sorted, so that the draw does not depend on the order of the examples.
    others = sorted(
        (one for one in examples if not one.is_passage and _question_key(one) != question),
        key=lambda one: one.content_hash,
    )
    own = [one for one in others if one.task == item.task]
    pool = own if len(own) >= shots else others
    if len(pool) < shots:
        raise ProbeError(
            f"item {item.id!r}: needed {shots} examples other than itself, there are {len(pool)}"
        )
    drawn = random.Random(int(item.content_hash, 16)).sample(pool, shots)
    shown = [_question_and_answer(one, probe) for one in drawn]
    if probe.rendering_of(item) == "plain":
        if not isinstance(item.prompt, str):
            raise ProbeError(f"item {item.id!r}: chat messages need rendering='chat'")
        return replace(
            item, shots="".join(f"{shot}{answer}\n\n" for shot, answer in shown) + item.shots
        )
    before: list[Mapping[str, Any]] = []
    for shot, answer in shown:
        before += [
            {"role": "user", "content": shot},
            {"role": "assistant", "content": answer.strip()},
        ]
    # Examples of the item's own stay next to its question, in one turn.
    last = (
        [{"role": "user", "content": item.full_prompt}]
        if isinstance(item.prompt, str)
        else list(item.prompt)
    )
    return replace(item, prompt=(*before, *last), shots="")


def _question_key(item: Item) -> tuple[str, list[str]]:
    """Return the prompt and options without order, case and spacing.

    Of two items with one key each gives away the other.
    """
    prompt = (
        item.prompt
        if isinstance(item.prompt, str)
        else str([message["content"] for message in item.prompt])
    )
    return " ".join(prompt.casefold().split()), sorted(
        " ".join(choice.casefold().split()) for choice in item.choices
    )


def _question_and_answer(example: Item, probe: Probe) -> tuple[str, str]:
    """Return an example's question as the probe renders it, and its answer with the space between them."""
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
