"""Texts of one kind, such as letters, from a file of paragraphs and sentences.

    chain      four types of entities:   room ── guest ── dish ── evening
    links      sentences that link two neighbors of the chain; a text has one for each of its five pairs
    outline    paragraphs, each in several versions, with places for links, remarks and slots
    questions  wordings for each ordered pair of types: what is given, what is to be found

A question about neighbors of the chain takes one hop, a question from one end of the chain to the other three. A text
names five entities of each type, and every entity belongs to exactly one of the next type, so each question has one
right answer. No sentence but those of `links` names two entities.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

NAMES: Final = ("article", "diary", "letter", "minutes", "notice", "report", "story", "travel")
"""Kinds of texts; each has a file of that name."""

SIZE: Final = 5
"""Number of entities of each type in a text."""

_LINK: Final = re.compile(r"\{(\w+) (\w+) (\d)\}")
_SLOT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of text, as its file describes it."""

    name: str
    outline: Sequence[Sequence[str]]
    slots: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    chain: Mapping[str, Sequence[str]]
    links: Mapping[str, Sequence[str]]
    questions: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text, and its entities: of each type in the order of the chain, the n-th of all belong together."""

    kind: Kind
    number: int
    text: str
    entities: Mapping[str, Sequence[str]]


def read_kind(name: str) -> Kind:
    """Read the file of a kind."""
    content: dict[str, Any] = tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    return Kind(name=name, **content)


def documents(kind: Kind, count: int, rng: random.Random) -> list[Document]:
    """Texts of a kind; the versions of a paragraph and the fillings of a slot are used equally often."""
    versions = [_cycle(paragraph, count, rng) for paragraph in kind.outline]
    fillings = {name: _cycle(values, count, rng) for name, values in sorted(kind.slots.items())}
    made = []
    for number in range(count):
        entities = {name: rng.sample(list(values), SIZE) for name, values in kind.chain.items()}
        slots = {name: values[number] for name, values in fillings.items()}
        paragraphs = [paragraph[number] for paragraph in versions]
        text = _write(kind, "\n\n".join(paragraphs), entities, slots, rng)
        made.append(Document(kind=kind, number=number, text=text, entities=entities))
    return made


def _cycle(values: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """A number of the values in random order, all equally often but for one."""
    found: list[str] = []
    while len(found) < count:
        found += rng.sample(list(values), len(values))
    return found[:count]


def _write(
    kind: Kind, outline: str, entities: Mapping[str, Sequence[str]], slots: Mapping[str, str], rng: random.Random
) -> str:
    """The text of an outline, with its links, remarks and slots filled in."""
    links = {pair: _link_sentences(pair, phrasings, entities, rng) for pair, phrasings in kind.links.items()}
    (about, phrasings), *_ = kind.remarks.items()
    remarks = rng.sample(list(phrasings), len(phrasings))

    def link(match: re.Match[str]) -> str:
        pair, count = f"{match[1]} {match[2]}", int(match[3])
        taken = [links[pair].pop() for _ in range(count)]
        return " ".join(taken)

    text = _LINK.sub(link, outline)
    if unused := [pair for pair, sentences in links.items() if sentences]:
        raise ValueError(f"{kind.name}: the outline leaves out sentences of {', '.join(unused)}")
    text = re.sub("<remark>", lambda _: remarks.pop().format(**{about: rng.choice(list(entities[about]))}), text)
    text = _SLOT.sub(lambda match: slots[match[1]], text)
    return _with_capitals("\n".join(line.strip() for line in text.splitlines()))


def _link_sentences(
    pair: str, phrasings: Sequence[str], entities: Mapping[str, Sequence[str]], rng: random.Random
) -> list[str]:
    """One sentence for each pair of entities of two types, in random order, each of another phrasing."""
    left, right = pair.split()
    pairs = rng.sample(list(zip(entities[left], entities[right], strict=True)), SIZE)
    chosen = rng.sample(list(phrasings), SIZE)
    return [phrasing.format(**{left: a, right: b}) for phrasing, (a, b) in zip(chosen, pairs, strict=True)]


def _with_capitals(text: str) -> str:
    """The text with a capital at the beginning of each sentence and line."""
    return re.sub(r"(?:^|(?<=[.!?] ))[a-z]", lambda match: match[0].upper(), text, flags=re.MULTILINE)
