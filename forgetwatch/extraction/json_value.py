r"""JSON values in text.

    '{"city": "Santiago"}'                           the whole output: the asked form
    'Sure!\n```json\n{"city": "Santiago"}\n```'     in a fence, with words around it: found, not in the form
    'In {braces}: {"city": "Santiago"} is it'        the first that is valid JSON, of the answer's kind
    '{"city": "Sant'                                 cut: none

A match ``json`` compares values: the order of keys and white space do not matter, 1 is 1.0, and true is not 1. A match
``json:keys`` asks for an object that has the keys of the answer (a list of names), or its keys and values (an object).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from forgetwatch.extraction.found import NOTHING, Found

_FENCE: Final = re.compile(r"```[^\n`]{0,40}\n(.*?)```", re.DOTALL)
_TRIES: Final = 100
"""Opening brackets from which a value is read; a text with more that lead nowhere holds none."""

_DECODER: Final = json.JSONDecoder()


def json_value(body: str, answers: tuple[str, ...], *, keys: bool) -> tuple[Found, bool]:
    """The first JSON value of the answer's kind, and whether it is one of the answers."""
    wanted = [json.loads(answer) for answer in answers]
    kinds: set[type] = {dict} if keys else {_kind(value) for value in wanted}
    read = first_value(body, kinds)
    if read is None:
        return NOTHING, False
    value, found = read
    return found, any(has_keys(value, one) if keys else same_json(value, one) for one in wanted)


def first_value(body: str, kinds: set[type]) -> tuple[Any, Found] | None:
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
            return value, Found(text=whole.strip(), form=alone, settled=settled)
    return _within(text, ("{" if dict in kinds else "") + ("[" if list in kinds else ""))


def _within(text: str, brackets: str) -> tuple[Any, Found] | None:
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
            return value, Found(text=text[opening.start() : end], settled=True)
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
