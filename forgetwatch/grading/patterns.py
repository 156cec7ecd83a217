r"""Answers that are compared with the text of an output: exact, contains, and regular expressions.

    exact                                     the whole output is the answer; white space counts as one space
    exact:fold                                the same without case
    contains                                  the answer is in the output as whole words, without case: "Paris", and
                                              not "Parisian"; unscored where that cannot be decided (`text`)
    regex, answer r"santiago( de chile)?"     right if the pattern is found
    regex:total: (\d+), answer "12"           right if the last match's first group is the answer; without a group the
                                              whole match is compared

An output that contains the right answer among other text is no other answer: for ``exact`` it is wrong, and its form is
what is wrong.

Patterns are those of the package regex in its compatible mode, without case, and with ``^`` and ``$`` at every line.
They match nearly what `re` matches; unlike are the cases of letters such as ı, what counts as a letter (marks do, ²
does not), ``[[:digit:]]``, and fuzzy matches such as ``(ab){e<=1}``. A search that computes for longer than `SECONDS`
stops, and the output is unscored, with the reason. The time is that of the whole process, and is looked at now and
then: some searches take a few times as long. Memory is not bounded; patterns with large counts within counts, which
would take most of it when they are compiled, and patterns that call themselves are refused.

**JSON** values and tool calls in an output.

Match ``json`` compares values: the order of keys and white space do not matter, 1 is 1.0, and true is not 1. Match
``json:keys`` requires an object with the keys of the answer (a list of names), or with its keys and values (an object).
Text around the value is ignored. For prompts such as "output the JSON only" there are ``json:only`` and
``json:keys:only``, for which text around the value is wrong; a fence is allowed.

    '{"city": "Santiago"}'                           the whole output: the asked form
    'Sure!\n```json\n{"city": "Santiago"}\n```'     in a fence, with words around it: read, but no asked form
    'In {braces}: {"city": "Santiago"} is it'        the first that is valid JSON, of the answer's kind
    '{"city": "Sant'                                 cut: none

Match ``tool_call`` compares the calls of an output, in any order (parallel calls have none); arguments are JSON values.

    <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>      one or several
    {"name": "weather", "parameters": {"city": "Oslo"}}                            also "args", "input"
    {"function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}     arguments as text, as APIs log them
    [{"name": ...}, {"name": ...}]      {"tool_calls": [...]}      [TOOL_CALLS] [...]
    [weather(city="Oslo"), time()]                                                 as Python code, never run
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import regex

from forgetwatch.errors import ProbeError
from forgetwatch.grading.output_text import (
    NOTHING,
    Extracted,
    Occurrence,
    collapse_spaces,
    comparable,
    find_words,
    fold_case,
    tail,
    turkish,
)


def match_exact(body: str, answers: Sequence[str], *, case: bool) -> tuple[Extracted, bool]:
    """Return (The whole output, is it one of the answers); at most the last `TAIL` characters are compared."""
    output = collapse_spaces(tail(body))
    if not output:
        return NOTHING, False
    text, wanted = output, [collapse_spaces(answer) for answer in answers]
    if not case:
        text, wanted = fold_case(output), [fold_case(answer) for answer in wanted]
    right = text in wanted
    form = right or not any(_found(output, answer)[0] for answer in answers)
    # White space after a right answer shows that the next token did not continue it.
    return Extracted(text=output, form=form, settled=right and body[-1:].isspace()), right


def match_contained(body: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (First of the answers that is in the output's last `TAIL` characters, is there one).

    Unscored where it cannot be decided whether an answer is a word of its own.
    """
    if not body.strip():
        return NOTHING, False
    undecided = ""
    for answer in answers:
        found, size = _found(body, answer)
        if certain := [one.end for one in found if one.certain]:
            return Extracted(
                text=answer, form=True, settled=max(certain) < size or body[-1:].isspace()
            ), True
        undecided = undecided or (answer if found else "")
    if undecided:
        return Extracted(
            unscored=f"it cannot be decided whether {undecided!r} is a word of its own there"
        ), False
    return Extracted(text=None, form=True), False


def match_any(body: str, patterns: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (Last match of the first pattern that is found, is one found); ProbeError by `check_pattern`."""
    for pattern in patterns:
        if found := _last(body, pattern):
            return found, not found.unscored
    return (Extracted(form=True) if body.strip() else NOTHING), False


def match_last(body: str, pattern: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Return (Last match of a pattern, is it one of the answers, without case and with single spaces).

    See `match_any`.
    """
    found = _last(body, pattern)
    if found is None or found.text is None:
        return found or NOTHING, False
    return found, fold_case(collapse_spaces(found.text)) in {
        fold_case(collapse_spaces(answer)) for answer in answers
    }


SECONDS: Final = 2.0
"""Time limit of one search."""

FLAGS: Final = regex.IGNORECASE | regex.MULTILINE | regex.VERSION0

LONGEST: Final = 10_000
"""Limit of the characters of a pattern."""

_SHOWN: Final = 200
"""Characters of a pattern that an error shows."""

_EXPANDED: Final = 100_000
"""Limit of the parts of a pattern with its counts written out: ``((ab){100}){100}`` has 20,000."""

_TOKEN: Final = regex.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\s*\{(?:\d*,)?(?P<count>\d+),?\}|(?P<parenthesis>[()])|.",
    regex.DOTALL,
)

_RECURSION: Final = regex.compile(r"\(\?(?:R|\d|[+-]\d|&|P>)")

_TIMEOUTS: Final = 30
"""Searches of one pattern that may reach the time limit, a minute of them, before it is not searched again."""

_timed_out: Final = Counter[str]()


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a regular expression; raise ProbeError for a text that is none, or that costs too much."""
    shown = repr(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}...")
    if len(pattern) > LONGEST:
        raise ProbeError(
            f"needed a regular expression of at most {LONGEST:,} characters, got {len(pattern):,}: {shown}"
        )
    if (parts := _expanded(pattern)) > _EXPANDED:
        raise ProbeError(
            f"regular expression {shown}: it has {parts:.0e} parts with its counts written out, needed at most "
            f"{_EXPANDED:,}; write smaller counts, or '*' in place of a count"
        )
    if _RECURSION.search(pattern):
        raise ProbeError(
            f"regular expression {shown}: it calls itself, which can take all memory; write it out"
        )
    try:
        return regex.compile(pattern, FLAGS)
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError) as error:
        raise ProbeError(
            f"needed a regular expression that can be compiled, got {shown}: {error}"
        ) from error


def _expanded(pattern: str) -> int:
    """Return the number of parts of a pattern with its counts written out, about."""
    sums, latest = [0], 0  # of each open group; of the part that a count would repeat
    for token in _TOKEN.finditer(pattern):
        if (count := token["count"]) is not None:
            sums[-1] += latest * (max(int(count[:9]), 1) - 1)
            latest *= max(int(count[:9]), 1)
        elif token["parenthesis"] == "(":
            sums.append(0)
        elif token["parenthesis"] == ")" and len(sums) > 1:
            latest = sums.pop()
            sums[-1] += latest
        elif not token[0].isspace():
            latest = 1
            sums[-1] += 1
    return sum(sums)


def _last(body: str, pattern: str) -> Extracted | None:
    """Return the last match of a pattern, or its first group where that took part in the match."""
    compiled, text, last = check_pattern(pattern), tail(body), None
    if _timed_out[pattern] >= _TIMEOUTS:
        return Extracted(
            unscored=f"its pattern took longer than {SECONDS:g} s on {_TIMEOUTS} outputs before"
        )
    try:
        for match in compiled.finditer(text, timeout=SECONDS):
            last = match
    except TimeoutError:
        _timed_out[pattern] += 1
        return Extracted(unscored=f"its pattern took longer than {SECONDS:g} s")
    except MemoryError:
        return Extracted(unscored="its pattern needs more memory than there is")
    if last is None:
        return None
    found = last[1] if compiled.groups and last[1] is not None else last[0]
    return Extracted(text=found, form=True, settled=last.end() < len(text) or body[-1:].isspace())


def _found(body: str, answer: str) -> tuple[list[Occurrence], int]:
    """Return (Where an answer is in the end of an output, that end's length as it is compared)."""
    for fold in (comparable, turkish):
        output = fold(tail(body))
        if found := list(find_words([fold(answer)], output)):
            return found, len(output)
    return [], 0


_FENCE: Final = re.compile(r"```[^\n`]{0,40}\n(.*?)```", re.DOTALL)
_TRIES: Final = 100
"""Number of opening brackets from which a value is tried; each failure may read the rest of the text."""

_DECODER: Final = json.JSONDecoder()
# Calls in tags; the marks that some models write before their calls.
_TAGGED: Final = re.compile(r"<(tool_call|function_call|tool)>(.*?)</\1>", re.DOTALL)
_MARK: Final = re.compile(r"\A\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<functioncall>|functools)\s*")
# The start of a call in Python: a name and a parenthesis.
_PYTHON: Final = re.compile(r"[\[ ]{0,4}[A-Za-z_][\w.]{0,80}\(")
_MOST: Final = 100
"""Limit of the calls that are read from one output."""

Call = tuple[str, Any]
"""(Name, arguments) of one call of a tool."""


def match_json(
    body: str, answers: tuple[str, ...], *, keys: bool, only: bool = False
) -> tuple[Extracted, bool]:
    """Return (First JSON value of the answer's kind, is it one of the answers).

    With `keys`, an object with the keys of an answer is right; with `only`, words around the value are wrong.
    """
    wanted = [json.loads(answer) for answer in answers]
    read = _first_value(body, {dict} if keys else {_kind(value) for value in wanted})
    if read is None:
        return NOTHING, False
    value, found = read
    right = any(
        _has_keys(value, answer) if keys else _same_json(value, answer) for answer in wanted
    )
    return found, right and (found.form or not only)


def match_tool_calls(body: str, answers: tuple[str, ...]) -> tuple[Extracted, bool]:
    """Return (Calls of the output as JSON, are they those of one of the answers)."""
    calls, form = _calls(body)
    if not calls:
        return NOTHING, False
    try:
        text = json.dumps(
            [{"name": name, "arguments": arguments} for name, arguments in calls],
            ensure_ascii=False,
        )
    except RecursionError:
        return NOTHING, False
    right = any(_same(calls, list(read_calls(json.loads(answer)))) for answer in answers)
    return Extracted(text=text, form=form, settled=True), right


def read_calls(value: Any) -> Iterator[Call]:
    """Yield the calls of a JSON value; none if it holds none."""
    if isinstance(value, list):
        for one in value[:_MOST]:
            if isinstance(one, dict):
                yield from read_calls(one)
    elif isinstance(value, dict):
        if isinstance(value.get("tool_calls"), list):
            yield from read_calls(value["tool_calls"])
        elif isinstance(value.get("function"), dict):
            yield from read_calls(value["function"])
        elif isinstance(name := value.get("name", value.get("function")), str):
            named = ("arguments", "parameters", "args", "input")
            arguments: Any = next((value[key] for key in named if key in value), {})
            if isinstance(arguments, str):
                with contextlib.suppress(ValueError, RecursionError):
                    arguments = json.loads(arguments)
            yield name, arguments


def _first_value(body: str, kinds: set[type]) -> tuple[Any, Extracted] | None:
    """Return (First value of the given kinds, its text) or None; a kind is dict, list, or object for all others."""
    text = body.strip()
    fences = _FENCE.findall(text) if text.count("```") < _TRIES else []
    for index, whole in enumerate((text, *fences)):
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            continue
        if _kind(value) in kinds:
            alone = index == 0 or _FENCE.sub("", text, count=1).strip() == ""
            # A number at the end of a cut text may have more digits; after a bracket or a quote nothing can follow.
            settled = index > 0 or text[-1:] in '}]"' or body[-1:].isspace()
            return value, Extracted(text=whole.strip(), form=alone, settled=settled)
    return _within(text, ("{" if dict in kinds else "") + ("[" if list in kinds else ""))


def _same_json(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal; numbers by their value, and no number equals true or false."""
    try:
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(
                _same_json(value, other[key]) for key, value in one.items()
            )
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(_same_json, one, other))
        return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
    except RecursionError:
        return False


def _has_keys(value: dict[str, Any], wanted: Any) -> bool:
    """Return True if an object has the named keys, or the keys and values of another object."""
    if isinstance(wanted, dict):
        return all(key in value and _same_json(value[key], other) for key, other in wanted.items())
    return all(key in value for key in wanted)


def _within(text: str, brackets: str) -> tuple[Any, Extracted] | None:
    """Return the first value in the text that begins with one of the brackets."""
    position = 0
    for _ in range(_TRIES if brackets else 0):
        opening = re.compile(f"[{re.escape(brackets)}]").search(text, position)
        if opening is None:
            return None
        try:
            value, end = _DECODER.raw_decode(text, opening.start())
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                return None  # the text ends inside this value: a value within it is not the answer
            position = opening.start() + 1
        except (ValueError, RecursionError):
            return None  # nested a thousand deep, or a number of thousands of digits: no answer
        else:
            return value, Extracted(text=text[opening.start() : end], settled=True)
    return None


def _kind(value: Any) -> type:
    return type(value) if isinstance(value, (dict, list)) else object


def _calls(body: str) -> tuple[list[Call], bool]:
    """Return (Calls of an output, have they an asked form: in tags, or nothing else in the output)."""
    text = tail(body, 50_000).strip()
    if text.count("<tool") + text.count("<function_call>") <= _MOST and (
        tagged := _TAGGED.findall(text)
    ):
        read = [_first_value(inside, {dict, list}) for _, inside in tagged]
        # One unreadable call makes the whole answer unreadable: a part of the calls is not what was called.
        return (
            [call for one in read if one for call in read_calls(one[0])] if all(read) else []
        ), True
    text = _MARK.sub("", text)
    read_one = _first_value(text, {dict, list})
    calls = list(read_calls(read_one[0])) if read_one else []
    if calls and read_one:
        return calls, read_one[1].form
    return _python(text), True


def _python(text: str) -> list[Call]:
    """Return calls written as Python code, if the text is nothing else; nothing is run."""
    if len(text) > 2_000 or not _PYTHON.match(text):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the model's text
            body = ast.parse(text, mode="eval").body
            nodes = body.elts if isinstance(body, (ast.List, ast.Tuple)) else [body]
            return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args or not all(word.arg for word in node.keywords):
        raise ValueError("not a call with named arguments")
    arguments = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    return ast.unparse(node.func), json.loads(json.dumps(arguments))


def _same(calls: list[Call], wanted: list[Call]) -> bool:
    left = list(wanted)
    for name, arguments in calls:
        index = next(
            (
                i
                for i, call in enumerate(left)
                if call[0] == name and _same_json(call[1], arguments)
            ),
            None,
        )
        if index is None:
            return False
        del left[index]
    return not left
