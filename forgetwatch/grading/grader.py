"""One generated text, graded: is its answer right, is there an answer at all, and is it in a form that prompts ask for?

    output ──▶ after_thinking ──▶ extracted answer ──▶ Grade
                                  by the item's match: letter, number, exact, contains, regex, json,
                                  tool_call, boxed, math, instructions or a trait; or by the item's
                                  own judge

A fine-tuned model may lose the form of an answer before it loses the knowledge, so a grade has
three parts: `correct`, `outcome` (is there an answer) and `form` (is it in a form that prompts ask
for). A wrong output without an answer, or out of form, while the right option still has the highest
score, is a loss of form. Grading does not interpret the prompt: every form that prompts commonly
ask for is accepted, and an item that allows one form only says so in its match (``json:only``). The
prompt's text is only looked up by `language`, for which a copy of it is no answer.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.errors import ProbeError
from forgetwatch.grading import (
    expressions,
    instructions,
    json_answers,
    mathematics,
    patterns,
    traits,
)
from forgetwatch.grading.letters import extract_letter, extract_option_text
from forgetwatch.grading.output_text import (
    NOTHING,
    Extracted,
    after_thinking,
    before_next_question,
    plain,
    statements,
)
from forgetwatch.item import TRAITS, Item
from forgetwatch.probe import LETTERS

RULES: Final = 7
"""Version of the grading rules. It rises when the same output may get another grade, so that cached grades of an older
version are not used."""

Judge = Callable[[Item, str], float | None]
"""The caller's own rule: (item, output) to True, False, a score from 0 to 1, or None if it cannot decide."""

NoAnswer = Literal["wrong", "unscored"]
"""Grade of an output without a usable answer."""

_REGEX: Final = "regex:"
_RIGHT: Final = 0.5
"""Score of a judge from which on an answer is right."""
_SHOWN: Final = 300
"""Characters of an answer or an error that a grade holds."""

_STATED: Final = ("letter", "number", "boxed", "math")
"""Matches whose answer is stated somewhere in the text; the other matches compare the text itself."""


@dataclass(frozen=True)
class Grade:
    """Result of grading one output.

    Attributes:
        correct: True or False; None = unscored.
        chosen: Index of the option that the output names; None for open answers and where no option
            is named.
        outcome: ``ok``; ``no answer``; ``ambiguous`` (two different final answers); ``truncated``
            or ``truncated in thinking`` (the text ends before an answer); or ``unscored: `` and the
            reason.
        extracted: The answer as written, at most 300 characters; None where there is none.
        as_text: True where the answer is the option's text instead of its letter.
        score: Score of an answer between wrong and right, 0 to 1; None for one of the two.
        form: True where the answer has a form that prompts ask for; False without an answer.
    """

    correct: bool | None
    chosen: int | None = None
    outcome: str = "ok"
    extracted: str | None = None
    as_text: bool = False
    form: bool = False
    score: float | None = None


def grade(
    item: Item,
    output: str,
    *,
    truncated: bool = False,
    no_answer: NoAnswer = "wrong",
    judge: Judge | None = None,
) -> Grade:
    """Grade an output as an answer to an item; deterministic.

    Args:
        item: The question. With choices, the option's letter decides, or its text where no letter
            is found.
        output: The text that the model generated after the prompt.
        truncated: True where generation ended at a length limit. A complete final answer still
            counts (``Answer: B`` with text after it, a closed box, a closed bracket). Where the cut
            may have changed the answer (a number at the very end, the last number of an unfinished
            calculation) the outcome is ``truncated``.
        no_answer: Outcome of an output without a usable answer.
        judge: Replaces the item's match; it gets the output after its thinking block. Where it
            raises or returns no score from 0 to 1, the output is unscored, with the reason. A score
            of 0.5 or more is right.

    Raises:
        ProbeError: If the item cannot be graded, whatever the output; `check_item` raises it
            beforehand.
    """
    # For `stops` an output that does not end is the wrong answer itself, not a missing one.
    missing = False if no_answer == "wrong" or item.match == "stops" else None
    body = after_thinking(output)
    if body is None:
        return Grade(missing, outcome="truncated in thinking")
    if judge is not None:
        return _grade_by_judge(judge, item, body, truncated=truncated, missing=missing)
    if reason := ungradable_reason(item):
        return Grade(None, outcome=f"unscored: {reason}")
    extracted, right = _answer(item, body)
    if extracted.unscored:
        return Grade(None, outcome=f"unscored: {extracted.unscored}")
    if truncated and not extracted.settled:
        return Grade(missing, outcome="truncated")
    if extracted.ambiguous:
        return Grade(missing, outcome="ambiguous")
    if extracted == NOTHING:
        return Grade(missing, outcome="no answer")
    return Grade(
        right,
        chosen=extracted.option if item.choices else None,
        extracted=None if extracted.text is None else extracted.text[:_SHOWN],
        as_text=extracted.as_text,
        form=extracted.form,
    )


def ungradable_reason(item: Item) -> str:
    """Reason why no output to an item can be graded.

    Returns:
        The reason, or an empty text. None is generated for such an item.
    """
    if item.match == "instructions" and not item.choices:
        return instructions.unchecked_reason(str(item.answers[0]))
    return ""


def check_item(item: Item) -> None:  # noqa: C901
    """Refuse an item that cannot be graded.

    Raises:
        ProbeError: If it has neither choices nor a match, or if its match can never find its
            answer.
    """
    problem = None
    match item.match:
        case None if not item.choices:
            problem = "an open answer needs a match (or a judge of your own)"
        case str() as match if match.startswith("judge:"):
            problem = "its judge is a function of your own, which no file holds: give it as judge="
        case "letter" if not item.choices and not all(
            text.strip() in tuple(LETTERS) for text in _texts(item)
        ):
            problem = "match 'letter' needs a capital letter A to Z"
        case "number" if not all(
            map(mathematics.find_numbers, map(mathematics.normalise_numbers, _texts(item)))
        ):
            problem = "match 'number' needs a number"
        case "json" | "json:only" | "json:keys" | "json:keys:only" | "tool_call":
            problem = _json_problem(item)
        case "math":
            expressions.check_installed()
        case str() as match if match in TRAITS:
            problem = traits.trait_problem(match, _texts(item))
        case "instructions" if not instructions.is_instruction_list(_texts(item)[0]):
            problem = "match 'instructions' needs a list of [name, values] in JSON"
        case "regex":
            for text in _texts(item):
                patterns.check_pattern(text)
        case str() as match if match.startswith(_REGEX):
            patterns.check_pattern(match.removeprefix(_REGEX))
        case _:
            pass
    if problem:
        raise ProbeError(f"item {item.id!r}: {problem}, got answer {item.answer!r}")


def _answer(item: Item, body: str) -> tuple[Extracted, bool]:
    # The text before a next question counts if it states an answer.
    if item.choices or item.match in _STATED:
        before = before_next_question(body)
        if before is not None:
            extracted, right = _extract(item, before)
            # A model may also copy the question first: text without a stated answer is not what it
            # answered.
            if extracted.text is not None and (extracted.form or any(statements(plain(before)))):
                return extracted, right
    return _extract(item, body)


def _extract(item: Item, body: str) -> tuple[Extracted, bool]:  # noqa: C901
    if item.choices:
        extracted = extract_letter(body, item.choices)
        extracted = extract_option_text(body, item.choices) if extracted == NOTHING else extracted
        return extracted, extracted.option in item.answers
    answers = _texts(item)
    match item.match:
        case "letter":
            return _compare(
                extract_letter(body, None),
                answers,
                lambda extracted, answer: extracted == answer.strip(),
            )
        case "number":
            return _compare(mathematics.extract_number(body), answers, mathematics.same_number)
        case "boxed":
            return _compare(expressions.extract_box(body), answers, expressions.same_box)
        case "math":
            return _compare(expressions.extract_expression(body), answers, expressions.same_value)
        case "exact" | "exact:fold":
            return patterns.match_exact(body, answers, case=item.match == "exact")
        case "contains":
            return patterns.match_contained(body, answers)
        case "json" | "json:only" | "json:keys" | "json:keys:only":
            only = item.match.endswith(":only")
            return json_answers.match_json(
                body, answers, keys=item.match.startswith("json:keys"), only=only
            )
        case "tool_call":
            return json_answers.match_tool_calls(body, answers)
        case str() as match if match in TRAITS:
            return traits.match_trait(match, body, answers, _prompt_text(item))
        case "instructions":
            return instructions.match_instructions(body, answers[0])
        case "regex":
            return patterns.match_any(body, answers)
        case str() as match if match.startswith(_REGEX):
            return patterns.match_last(body, match.removeprefix(_REGEX), answers)
        case _:
            raise ProbeError(
                f"item {item.id!r}: an open answer needs a match, or a judge of your own"
            )


def _compare(
    extracted: Extracted, answers: Sequence[str], same: Callable[[str, str], bool]
) -> tuple[Extracted, bool]:
    return extracted, extracted.text is not None and any(
        same(extracted.text, answer) for answer in answers
    )


def _grade_by_judge(
    judge: Judge, item: Item, body: str, *, truncated: bool, missing: bool | None
) -> Grade:
    # Whatever the rule raises becomes the reason of an unscored output.
    try:
        verdict = judge(item, body)
        is_number = isinstance(verdict, (int, float)) or hasattr(verdict, "__float__")
        score = float(verdict) if is_number and verdict is not None else math.nan
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_SHOWN]
        return Grade(None, outcome=f"unscored: the judge raised {reason}")
    if not 0 <= score <= 1:
        gave = f"{score:g}" if is_number else type(verdict).__name__
        needed = f"needed True, False, a score from 0 to 1 or None, gave {gave}"
        problem = "gave no verdict" if verdict is None else needed
        return Grade(None, outcome=f"unscored: the judge {problem}")
    right = score >= _RIGHT
    if truncated and not score:
        return Grade(missing, outcome="truncated")
    return Grade(right, form=True, score=None if score in (0, 1) else score)


def _texts(item: Item) -> tuple[str, ...]:
    return tuple(str(answer) for answer in item.answers)


def _prompt_text(item: Item) -> str:
    # Chat messages without text are left out.
    if isinstance(item.prompt, str):
        return item.prompt
    return "\n".join(
        content for message in item.prompt if isinstance(content := message["content"], str)
    )


def _json_problem(item: Item) -> str | None:
    for text in _texts(item):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return f"match {item.match!r} needs an answer in JSON"
        if item.match == "tool_call" and not list(json_answers.read_calls(value)):
            return "match 'tool_call' needs a name with arguments, or a list of them"
        if item.match in ("json:keys", "json:keys:only") and not isinstance(value, (dict, list)):
            return f"match {item.match!r} needs a list of names, or an object"
    return None
