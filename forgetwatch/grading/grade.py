"""One output, judged: is its answer the right one, was there an answer, and was its form the asked one?

    output ──▶ after_thinking ──▶ the answer in it, by the item's match ──▶ Judged
               (thinking.py)      letter, number, exact, contains, regex,
                                  json, tool_call, boxed, math, instructions,
                                  a trait of the output itself, or a judge of
                                  one's own

A model that is fine-tuned loses the form of an answer before it loses the knowledge. So beside right and wrong stands
whether there was an answer at all (`outcome`) and whether it stood in the asked form (`form`): wrong without an answer,
or not in the form, while the right option still scores highest, is a loss of form. What the prompt asked for is not
known here; every form that prompts commonly ask for counts as asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.errors import ProbeError
from forgetwatch.grading import ifeval, json_values, mathematics, numbers, patterns, traits, verbatim
from forgetwatch.grading.letters import letter, option_text
from forgetwatch.grading.numbers import find_numbers, readable
from forgetwatch.grading.statements import plain, statements
from forgetwatch.grading.text import NOTHING, Found
from forgetwatch.grading.thinking import after_thinking, before_next_question
from forgetwatch.item import TRAITS, Item
from forgetwatch.probe import LETTERS

Judge = Callable[[Item, str], bool | None]
"""A judge of one's own: item and output to right, wrong, or None where it cannot say."""

NoAnswer = Literal["wrong", "unscored"]
"""What an output without a usable answer is."""

_REGEX: Final = "regex:"
_SHOWN: Final = 300
_STATED: Final = ("letter", "number", "boxed", "math")
"""Matches of answers that are stated somewhere in the text; the others compare the text itself."""


@dataclass(frozen=True)
class Judged:
    """What one output is worth.

    Attributes:
        correct: Right or wrong; None = unscored.
        chosen: Index of the option that the output names; None for open answers and where there is no option.
        outcome: ``ok``; ``no answer``; ``ambiguous`` (two different final answers); ``truncated`` or ``truncated in
            thinking`` (the text ends before an answer); or ``unscored: `` and why.
        found: The answer as it was found, at most 300 characters; None where there is none.
        as_text: The option's text stands where its letter was asked for.
        form: The answer stands in a form that prompts ask for; False without an answer.
    """

    correct: bool | None
    chosen: int | None = None
    outcome: str = "ok"
    found: str | None = None
    as_text: bool = False
    form: bool = False


def judge(
    item: Item,
    output: str,
    *,
    truncated: bool = False,
    no_answer: NoAnswer = "wrong",
    judge: Judge | None = None,
) -> Judged:
    """What an output is worth as an answer to an item; the same output always gives the same.

    Args:
        item: The question. With choices it is judged by the option's letter, or its text where no letter is found.
        output: What the model wrote, behind the prompt.
        truncated: Whether the output was cut at a limit of length. A cut output with a complete final answer counts
            (``Answer: B`` with text behind it, a closed box, a closed bracket). Where the cut may have changed the
            answer, such as a number at the very end or the last number of an unfinished calculation, it has none.
        no_answer: Whether an output without a usable answer is wrong or unscored.
        judge: Replaces the item's match; it is handed the output behind its thinking block. Where it raises or
            gives no verdict the output is unscored, with the reason.

    Raises:
        ProbeError: If the item cannot be judged, whatever the output; `check_item` tells that beforehand.
    """
    # Whether it ends by itself is what `stops` asks: an output that does not has its answer.
    missing = False if no_answer == "wrong" or item.match == "stops" else None
    body = after_thinking(output)
    if body is None:
        return Judged(missing, outcome="truncated in thinking")
    if judge is not None:
        return _by(judge, item, body, truncated=truncated, missing=missing)
    if why := cannot_be_judged(item):
        return Judged(None, outcome=f"unscored: {why}")
    found, right = _answer(item, body)
    if truncated and not found.settled:
        return Judged(missing, outcome="truncated")
    if found.ambiguous:
        return Judged(missing, outcome="ambiguous")
    if found == NOTHING:
        return Judged(missing, outcome="no answer")
    shown = None if found.text is None else found.text[:_SHOWN]
    return Judged(right, found.option if item.choices else None, "ok", shown, found.as_text, found.form)


def cannot_be_judged(item: Item) -> str:
    """Why no output to a well-formed item can be judged, so that it need not be asked; empty where it can."""
    return ifeval.unchecked(str(item.answers[0])) if item.match == "instructions" and not item.choices else ""


def check_item(item: Item) -> None:
    """Refuse an item that could not be judged, before any model is asked.

    Raises:
        ProbeError: If it has neither choices nor a match, or if its answer is none that its match can find.
    """
    problem = None
    match item.match:
        case None if not item.choices:
            problem = "an open answer needs a match (or a judge of your own)"
        case "letter" if not item.choices:
            fit = all(str(answer).strip() in tuple(LETTERS) for answer in item.answers)
            problem = None if fit else "match 'letter' needs a capital letter A to Z"
        case "number" if not all(find_numbers(readable(text)) for text in _texts(item)):
            problem = "match 'number' needs a number"
        case "json" | "json:keys" | "tool_call":
            problem = _no_json(item)
        case "math":
            mathematics.check_installed()
        case str() as match if match in TRAITS:
            problem = traits.why_no_trait(match, _texts(item))
        case "instructions" if not ifeval.is_list(_texts(item)[0]):
            problem = "match 'instructions' needs a list of [name, values] in JSON"
        case "regex":
            for text in _texts(item):
                patterns.compiled(text)
        case str() as match if match.startswith(_REGEX):
            patterns.compiled(match.removeprefix(_REGEX))
        case _:
            pass
    if problem:
        raise ProbeError(f"item {item.id!r}: {problem}, got answer {item.answer!r}")


def _answer(item: Item, body: str) -> tuple[Found, bool]:
    """The answer of an output, and whether it is right: what is answered before a next question, if anything is."""
    if item.choices or item.match in _STATED:
        before = before_next_question(body)
        if before is not None:
            found, right = _read(item, before)
            if found.text is not None and (found.form or any(statements(plain(before)))):
                return found, right
    return _read(item, body)


def _read(item: Item, body: str) -> tuple[Found, bool]:
    if item.choices:
        found = letter(body, item.choices)
        found = option_text(body, item.choices) if found == NOTHING else found
        return found, found.option in item.answers
    answers = _texts(item)
    match item.match:
        case "letter":
            return _compared(letter(body, None), answers, lambda one, other: one == other.strip())
        case "number":
            return _compared(numbers.last_number(body), answers, numbers.same_number)
        case "boxed":
            return _compared(mathematics.boxed(body), answers, mathematics.same_box)
        case "math":
            return _compared(mathematics.expression(body), answers, mathematics.same_value)
        case "exact" | "exact:fold":
            return verbatim.exact(body, answers, case=item.match == "exact")
        case "contains":
            return verbatim.contains(body, answers)
        case "json" | "json:keys":
            return json_values.json_value(body, answers, keys=item.match == "json:keys")
        case "tool_call":
            return json_values.tool_call(body, answers)
        case str() as match if match in TRAITS:
            return traits.trait(match, body, answers)
        case "instructions":
            return ifeval.instructions(body, answers[0])
        case "regex":
            return patterns.is_found(body, answers)
        case str() as match if match.startswith(_REGEX):
            return patterns.last_match(body, match.removeprefix(_REGEX), answers)
        case _:
            raise ProbeError(f"item {item.id!r}: an open answer needs a match, or a judge of your own")


def _compared(found: Found, answers: Sequence[str], same: Callable[[str, str], bool]) -> tuple[Found, bool]:
    return found, found.text is not None and any(same(found.text, answer) for answer in answers)


def _by(judge: Judge, item: Item, body: str, *, truncated: bool, missing: bool | None) -> Judged:
    """What a judge of one's own says."""
    try:
        verdict = judge(item, body)
        known = verdict is not None and verdict in (True, False)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_SHOWN]
        return Judged(None, outcome=f"unscored: the judge raised {reason}")
    if not known:
        said = "gave no verdict" if verdict is None else f"needed True, False or None, gave {type(verdict).__name__}"
        return Judged(None, outcome=f"unscored: the judge {said}")
    if truncated and not verdict:
        return Judged(missing, outcome="truncated")
    return Judged(bool(verdict), form=True)


def _texts(item: Item) -> tuple[str, ...]:
    return tuple(str(answer) for answer in item.answers)


def _no_json(item: Item) -> str | None:
    """Why an item's answer is nothing that its match can find in JSON."""
    for text in _texts(item):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return f"match {item.match!r} needs an answer in JSON"
        if item.match == "tool_call" and not list(json_values.read_calls(value)):
            return "match 'tool_call' needs a name with arguments, or a list of them"
        if item.match == "json:keys" and not isinstance(value, (dict, list)):
            return "match 'json:keys' needs a list of names, or an object"
    return None
