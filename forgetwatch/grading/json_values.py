r"""JSON values in text.

    '{"city": "Santiago"}'                           the whole output: the asked form
    'Sure!\n```json\n{"city": "Santiago"}\n```'     in a fence, with words around it: found, not in the form
    'In {braces}: {"city": "Santiago"} is it'        the first that is valid JSON, of the answer's kind
    '{"city": "Sant'                                 cut: none

A match ``json`` compares values: the order of keys and white space do not matter, 1 is 1.0, and true is not 1. A match
``json:keys`` asks for an object that has the keys of the answer (a list of names), or its keys and values (an object).

The tools that an output calls, and with which arguments.

    <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>      one or several
    {"name": "weather", "parameters": {"city": "Oslo"}}                            also "args", "input"
    {"function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}     arguments as text, as APIs log them
    [{"name": ...}, {"name": ...}]      {"tool_calls": [...]}      [TOOL_CALLS] [...]
    [weather(city="Oslo"), time()]                                                 calls as Python writes them

Calls are right if they are those of the answer, in any order: parallel calls have none. Arguments are JSON values.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final

from forgetwatch.grading.text import NOTHING, Extracted, tail

_FENCE: Final = re.compile(r"```[^\n`]{0,40}\n(.*?)```", re.DOTALL)
_TRIES: Final = 100
"""Opening brackets from which a value is read; a text with more that lead nowhere holds none."""

_DECODER: Final = json.JSONDecoder()


def match_json(body: str, answers: tuple[str, ...], *, keys: bool) -> tuple[Extracted, bool]:
    """The first JSON value of the answer's kind, and whether it is one of the answers."""
    wanted = [json.loads(answer) for answer in answers]
    kinds: set[type] = {dict} if keys else {_kind(value) for value in wanted}
    read = first_value(body, kinds)
    if read is None:
        return NOTHING, False
    value, found = read
    return found, any(has_keys(value, one) if keys else same_json(value, one) for one in wanted)


def first_value(body: str, kinds: set[type]) -> tuple[Any, Extracted] | None:
    """The first value of the given kinds (dict, list, or object for all others), and where it was found."""
    text = body.strip()
    fences = _FENCE.findall(text) if text.count("```") < _TRIES else []
    for place, whole in enumerate((text, *fences)):
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            continue
        if _kind(value) in kinds:
            alone = place == 0 or _FENCE.sub("", text, count=1).strip() == ""
            # A number that ends a cut text may have more digits; brackets and quotes are closed.
            settled = place > 0 or text[-1:] in '}]"' or body[-1:].isspace()
            return value, Extracted(text=whole.strip(), form=alone, settled=settled)
    return _within(text, ("{" if dict in kinds else "") + ("[" if list in kinds else ""))


def _within(text: str, brackets: str) -> tuple[Any, Extracted] | None:
    """The first value that begins with one of the brackets."""
    place = 0
    for _ in range(_TRIES if brackets else 0):
        opening = re.compile(f"[{re.escape(brackets)}]").search(text, place)
        if opening is None:
            return None
        try:
            value, end = _DECODER.raw_decode(text, opening.start())
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                return None  # cut: what stands inside is not the answer
            place = opening.start() + 1
        except (ValueError, RecursionError):
            return None  # nothing that is nested a thousand deep, or has numbers of thousands of digits, is an answer
        else:
            return value, Extracted(text=text[opening.start() : end], settled=True)
    return None


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers by their value, and no number is true or false."""
    try:
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(same_json, one, other))
        return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
    except RecursionError:
        return False


def has_keys(value: dict[str, Any], wanted: Any) -> bool:
    """Whether an object has the named keys, or the keys and values of another object."""
    if isinstance(wanted, dict):
        return all(key in value and same_json(value[key], one) for key, one in wanted.items())
    return all(key in value for key in wanted)


def _kind(value: Any) -> type:
    return type(value) if isinstance(value, (dict, list)) else object


_TAGGED: Final = re.compile(r"<(tool_call|function_call|tool)>(.*?)</\1>", re.DOTALL)
_MARK: Final = re.compile(r"\A\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<functioncall>|functools)\s*")
_PYTHON: Final = re.compile(r"[\[ ]{0,4}[A-Za-z_][\w.]{0,80}\(")
_MOST: Final = 100
"""Calls that are read from one output."""

Call = tuple[str, Any]
"""Name and arguments."""


def match_tool_calls(body: str, answers: tuple[str, ...]) -> tuple[Extracted, bool]:
    """The calls of the output as JSON, and whether they are those of one of the answers."""
    calls, form = _calls(body)
    if not calls:
        return NOTHING, False
    try:
        text = json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls], ensure_ascii=False)
    except RecursionError:
        return NOTHING, False
    right = any(_same(calls, list(read_calls(json.loads(answer)))) for answer in answers)
    return Extracted(text=text, form=form, settled=True), right


def read_calls(value: Any) -> Iterator[Call]:
    """The calls that a JSON value holds; none if it is something else."""
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
            given: Any = next((value[key] for key in ("arguments", "parameters", "args", "input") if key in value), {})
            yield name, _arguments(given)


def _calls(body: str) -> tuple[list[Call], bool]:
    """The calls of an output, and whether they are all it says, or stand in tags."""
    text = tail(body, 50_000).strip()
    if text.count("<tool") + text.count("<function_call>") <= _MOST and (tagged := _TAGGED.findall(text)):
        read = [first_value(inside, {dict, list}) for _, inside in tagged]
        # One call that cannot be read makes the whole answer one that cannot.
        return ([call for one in read if one for call in read_calls(one[0])] if all(read) else []), True
    text = _MARK.sub("", text)
    read_one = first_value(text, {dict, list})
    calls = list(read_calls(read_one[0])) if read_one else []
    if calls and read_one:
        return calls, read_one[1].form
    return _python(text), True


def _python(text: str) -> list[Call]:
    """Calls as Python writes them, if the text is nothing else; names and literal values only, nothing is run."""
    if len(text) > 2_000 or not _PYTHON.match(text):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in the model's text
            body = ast.parse(text, mode="eval").body
            nodes = body.elts if isinstance(body, (ast.List, ast.Tuple)) else [body]
            return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args or not all(word.arg for word in node.keywords):
        raise ValueError("no call with named arguments")
    arguments = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    return ast.unparse(node.func), json.loads(json.dumps(arguments))


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


def _same(calls: list[Call], wanted: list[Call]) -> bool:
    if len(calls) != len(wanted):
        return False
    left = list(wanted)
    for name, arguments in calls:
        place = next((i for i, one in enumerate(left) if one[0] == name and same_json(one[1], arguments)), None)
        if place is None:
            return False
        del left[place]
    return True
