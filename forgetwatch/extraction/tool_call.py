r"""The tools that an output calls, and with which arguments.

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

from forgetwatch.extraction.found import NOTHING, Found
from forgetwatch.extraction.json_value import first_value, same_json
from forgetwatch.extraction.text import tail

_TAGGED: Final = re.compile(r"<(tool_call|function_call|tool)>(.*?)</\1>", re.DOTALL)
_MARK: Final = re.compile(r"\A\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<functioncall>|functools)\s*")
_PYTHON: Final = re.compile(r"[\[ ]{0,4}[A-Za-z_][\w.]{0,80}\(")
_MOST: Final = 100
"""Calls that are read from one output."""

Call = tuple[str, Any]
"""Name and arguments."""


def tool_call(body: str, answers: tuple[str, ...]) -> tuple[Found, bool]:
    """The calls of the output as JSON, and whether they are those of one of the answers."""
    calls, form = _calls(body)
    if not calls:
        return NOTHING, False
    try:
        text = json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls], ensure_ascii=False)
    except RecursionError:
        return NOTHING, False
    right = any(_same(calls, list(read_calls(json.loads(answer)))) for answer in answers)
    return Found(text=text, form=form, settled=True), right


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
