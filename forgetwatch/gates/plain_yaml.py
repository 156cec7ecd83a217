"""YAML as texts, lists and mappings, and nothing else.

Every scalar stays the text that was written: an id 017 is not 15, a category `no` not false, and 2% needs no quotes. No
tag makes an object. A key that stands twice is an error, since the last one would silently count; so are anchors, by
which a few lines can stand for billions.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from forgetwatch.errors import GateError

Plain = str | Sequence["Plain"] | dict[str, "Plain"]


def plain_yaml(text: str, source: str) -> Plain:
    """The one document in a text.

    Args:
        text: YAML.
        source: Name of the file, for messages.

    Raises:
        GateError: If it is no YAML, or uses what is not read here.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            if isinstance(event, yaml.AliasEvent):
                where = "" if event.start_mark is None else f", line {event.start_mark.line + 1}"
                raise GateError(f"{source}{where}: anchors are not read; write it out")
        node = yaml.compose(text, Loader=yaml.BaseLoader)
        return "" if node is None else _plain(node, source)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:  # the last two: \\U99999999
        raise GateError(f"{source}: needed YAML, and it cannot be read: {error or type(error).__name__}") from error


def _plain(node: yaml.Node, source: str) -> Plain:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(one, source) for one in node.value]
    made: dict[str, Plain] = {}
    for key, value in node.value:
        name = _plain(key, source)
        line = f"{source}, line {key.start_mark.line + 1}"
        if not isinstance(name, str):
            raise GateError(f"{line}: needed a text as the key, got a list or a mapping")
        if name in made:
            raise GateError(f"{line}: {name!r} stands twice; only one of the two would count")
        made[name] = _plain(value, source)
    return made
