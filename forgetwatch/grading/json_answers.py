r"""JSON values and tool calls in an output.

Match ``json`` compares values: the order of keys and white space do not matter, 1 is 1.0, and true
is not 1. Match ``json:keys`` requires an object with the keys of the answer (a list of names), or
with its keys and values (an object). Text around the value is ignored. For prompts such as "output
the JSON only" there are ``json:only`` and ``json:keys:only``, for which text around the value is
wrong; a fence is allowed.

    '{"city": "Santiago"}'                           the whole output: the asked form
    'Sure!\n```json\n{"city": "Santiago"}\n```'     in a fence, with words around it: read, but no asked form
    'In {braces}: {"city": "Santiago"} is it'        the first that is valid JSON, of the answer's kind
    '{"city": "Sant'                                 cut: none

Match ``tool_call`` compares the calls of an output, in any order (parallel calls have none);
arguments are JSON values.

    <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>      one or several
    {"name": "weather", "parameters": {"city": "Oslo"}}                            also "args", "input"
    {"function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}     arguments as text, as APIs log them
    [{"name": ...}, {"name": ...}]      {"tool_calls": [...]}      [TOOL_CALLS] [...]
    [weather(city="Oslo"), time()]                                                 as Python code, never run
    [TOOL_CALLS]weather[ARGS]{"city": "Oslo"}      to=functions.weather ... {"city": "Oslo"}      a name, then JSON
    <function=weather><parameter=city>Oslo</parameter></function>      <arg_key>city</arg_key>    a name, then tags

The text of a tag may stand for a number. An output with the name of a wanted tool and a mark of a
template, of which no call can be read, is unscored.
"""

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final

from forgetwatch.grading.output_text import (
    NOTHING,
    Extracted,
    tail,
)

_FENCE: Final = re.compile(r"```[^\n`]{0,40}\n(.*?)```", re.DOTALL)


_TRIES: Final = 100
"""Number of opening brackets from which a value is tried; each failure may read the rest of the text."""


_DECODER: Final = json.JSONDecoder()


# Calls in tags; the marks that some models write before their calls.
_TAGGED: Final = re.compile(r"<(tool_call|function_call|tool)>(.*?)</\1>", re.DOTALL)


_MARK: Final = re.compile(r"\A\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<functioncall>|functools)\s*")


# A name after a mark of a template, and what stands before its arguments in JSON.
_NAMED: Final = re.compile(
    r"(?:\[TOOL_CALLS\]|\bto=functions\.|<function=|<[|｜]tool[_▁]call[_▁]begin[|｜]>"
    r"(?:function<[|｜]tool[_▁]sep[|｜]>)?(?:functions\.)?)\s*([\w.-]+)[^{}\n]{0,80}\s*"
    r"(?:```json\s*)?(?=\{)"
)


# A name, and its arguments in tags.
_FUNCTION: Final = re.compile(
    r"<(?:function=|invoke name=\"|tool_call>\s*)([\w.-]+)\"?>?(.*?)</(?:function|invoke|tool_call)>",
    re.DOTALL,
)
_PARAMETER: Final = re.compile(
    r"<(?:parameter(?:=| name=\")|arg_key>)([\w.-]+)\"?(?:>|</arg_key>\s*<arg_value>)(.*?)</(?:parameter|arg_value)>",
    re.DOTALL,
)


# A mark of a template, and those of the templates that are read.
_TEMPLATE: Final = re.compile(r"<[|｜/]?[A-Za-z_]\w*[^<>\n]{0,40}>|\[[A-Z_]{4,}\]")


_READ: Final = re.compile(
    r"<tool_call>|<function[=_]|<invoke|TOOL_CALLS|to=functions|call[_▁]begin|python_tag|functools"
)


class _Untyped(str):
    """Text of a tag, which may stand for another value."""


# The start of a call in Python: a name and a parenthesis.
_PYTHON: Final = re.compile(r"[\[ ]{0,4}[A-Za-z_][\w.]{0,80}\(")


_MOST: Final = 100
"""Limit of the calls that are read from one output."""


_UNKNOWN: Final = "its tool calls are written in a template that is not known"


Call = tuple[str, Any]
"""(Name, arguments) of one call of a tool."""


def match_json(
    body: str, answers: tuple[str, ...], *, keys: bool, only: bool = False
) -> tuple[Extracted, bool]:
    """Is the first JSON value of a kind one of the answers?

    With `keys`, an object with the keys of an answer is right; with `only`, words around the value
    are wrong.

    Returns:
        The value and the result.
    """
    wanted = [json.loads(answer) for answer in answers]
    read = _first_value(body, {dict} if keys else {_kind(value) for value in wanted})
    if read is None:
        return NOTHING, False
    value, extracted = read
    right = any(
        _has_keys(value, answer) if keys else _same_json(value, answer) for answer in wanted
    )
    return extracted, right and (extracted.form or not only)


def match_tool_calls(body: str, answers: tuple[str, ...]) -> tuple[Extracted, bool]:
    """Are the calls of an output those of an answer?

    Returns:
        The calls as JSON, and the result.
    """
    calls, form = _calls(body)
    if not calls:
        names = {name for answer in answers for name, _ in read_calls(json.loads(answer))}
        is_unknown = _TEMPLATE.search(body) and not _READ.search(body)
        is_unknown = is_unknown and any(name in body for name in names)
        return (Extracted(unscored=_UNKNOWN) if is_unknown else NOTHING), False
    try:
        calls_text = json.dumps(
            [{"name": name, "arguments": arguments} for name, arguments in calls],
            ensure_ascii=False,
        )
    except RecursionError:
        return NOTHING, False
    right = any(_same(calls, list(read_calls(json.loads(answer)))) for answer in answers)
    return Extracted(text=calls_text, form=form, settled=True), right


def read_calls(value: Any) -> Iterator[Call]:
    """Yield the calls of a JSON value, if any."""
    if isinstance(value, list):
        for element in value[:_MOST]:
            if isinstance(element, dict):
                yield from read_calls(element)
    elif isinstance(value, dict):
        if isinstance(value.get("tool_calls"), list):
            yield from read_calls(value["tool_calls"])
        elif isinstance(value.get("function"), dict):
            yield from read_calls(value["function"])
        elif isinstance(name := value.get("name", value.get("function")), str):
            argument_keys = ("arguments", "parameters", "args", "input")
            arguments: Any = next((value[key] for key in argument_keys if key in value), {})
            if isinstance(arguments, str):
                with contextlib.suppress(ValueError, RecursionError):
                    arguments = json.loads(arguments)
            yield name, arguments


def _first_value(body: str, kinds: set[type]) -> tuple[Any, Extracted] | None:
    # A kind is dict, list, or object for all others.
    stripped = body.strip()
    fences = _FENCE.findall(stripped) if stripped.count("```") < _TRIES else []
    for index, source in enumerate((stripped, *fences)):
        try:
            value = json.loads(source)
        except (ValueError, RecursionError):
            continue
        if _kind(value) in kinds:
            alone = index == 0 or _FENCE.sub("", stripped, count=1).strip() == ""
            # A number at the end of a cut text may have more digits; after a bracket or a quote
            # nothing can follow.
            settled = index > 0 or stripped[-1:] in '}]"' or body[-1:].isspace()
            return value, Extracted(text=source.strip(), form=alone, settled=settled)
    return _within(stripped, ("{" if dict in kinds else "") + ("[" if list in kinds else ""))


def _same_json(left: Any, right: Any) -> bool:
    # No number equals true or false.
    try:
        if isinstance(left, _Untyped) and not isinstance(right, str):
            return _same_json(json.loads(left), right)
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(
                _same_json(value, right[key]) for key, value in left.items()
            )
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(_same_json, left, right))
        return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
    except (RecursionError, ValueError):
        return False


def _has_keys(value: dict[str, Any], wanted: Any) -> bool:
    # `wanted` is keys, or an object with keys and values.
    if isinstance(wanted, dict):
        return all(
            key in value and _same_json(value[key], expected) for key, expected in wanted.items()
        )
    return all(key in value for key in wanted)


def _within(text: str, brackets: str) -> tuple[Any, Extracted] | None:
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
    # In the expected form: in tags, or nothing else in the output.
    ending = tail(body, 50_000).strip()
    if called := _by_name(ending):
        return called, True
    if ending.count("<tool") + ending.count("<function_call>") <= _MOST and (
        tagged := _TAGGED.findall(ending)
    ):
        read = [_first_value(inside, {dict, list}) for _, inside in tagged]
        # One unreadable call makes the whole answer unreadable: a part of the calls is not what was
        # called.
        return (
            [call for value_read in read if value_read for call in read_calls(value_read[0])]
            if all(read)
            else []
        ), True
    ending = _MARK.sub("", ending)
    read_one = _first_value(ending, {dict, list})
    calls = list(read_calls(read_one[0])) if read_one else []
    if calls and read_one:
        return calls, read_one[1].form
    return _python(ending), True


def _by_name(text: str) -> list[Call]:
    # In templates that write the name before the arguments; empty if one call cannot be read.
    called = list[Call]()
    for match in list(_NAMED.finditer(text))[:_MOST]:
        try:
            called.append((match[1], _DECODER.raw_decode(text, match.end())[0]))
        except (ValueError, RecursionError):
            return []
    for name, inside in () if called else _FUNCTION.findall(text)[:_MOST]:
        parameters = {key: _Untyped(value.strip()) for key, value in _PARAMETER.findall(inside)}
        if inside.strip() and not parameters:
            return []
        called.append((name, parameters))
    return called


def _python(text: str) -> list[Call]:
    # Nothing is run.
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
                if call[0] == name and _same_json(arguments, call[1])
            ),
            None,
        )
        if index is None:
            return False
        del left[index]
    return not left
