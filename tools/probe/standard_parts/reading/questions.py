"""Questions about texts: four for each, with options that the text names equally well.

The options are entities of one type, all of them in the text. Which entities are asked for is chosen such that the
right option is the first, the last or the most frequently mentioned one, the longest or the first by the alphabet, no
more often than by chance; the choice looks at the texts only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from standard_parts.assembly import Ask, Balance, credits
from standard_parts.reading.documents import SIZE, Document

HOPS: Final = ((1, 1, 2, 3), (1, 2, 2, 3))
"""Numbers of hops of the four questions; texts take one and the other in turn."""

K: Final = 4
"""Number of options."""

_DRAWS: Final = 80
"""Number of questions that are drawn for each that is taken."""


def ask_all(texts: Sequence[Document], rng: random.Random) -> list[list[Ask]]:
    """The questions about each text."""
    balance = Balance()
    return [_ask_about(text, HOPS[index % len(HOPS)], balance, rng) for index, text in enumerate(texts)]


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """A question that may be taken.

    Attributes:
        ask: The question.
        place: Place of its entities in their types.
        pair: The type that is given, and the type to be found.
        credits: Its properties to be balanced, see `assembly.Balance`.
    """

    ask: Ask
    place: int
    pair: tuple[str, str]
    credits: Mapping[str, float]


def _ask_about(text: Document, hops: Sequence[int], balance: Balance, rng: random.Random) -> list[Ask]:
    asks: list[Ask] = []
    # No two questions of a text are about entities that belong together, or about the same two types.
    places, used = set(range(SIZE)), set[frozenset[str]]()
    for count in hops:
        draw = min(
            (_draw(text, count, places, used, rng) for _ in range(_DRAWS)), key=lambda one: balance.cost(one.credits)
        )
        balance.take(draw.credits)
        places.discard(draw.place)
        used.add(frozenset(draw.pair))
        asks.append(draw.ask)
    return asks


def _draw(text: Document, hops: int, places: set[int], used: set[frozenset[str]], rng: random.Random) -> _Draw:
    types = list(text.kind.chain)
    pairs = [
        (given, found)
        for a, given in enumerate(types)
        for b, found in enumerate(types)
        if abs(a - b) == hops and frozenset((given, found)) not in used
    ]
    given, found = pair = rng.choice(pairs)
    place = rng.choice(sorted(places))
    right = text.entities[found][place]
    wrong = rng.sample([entity for entity in text.entities[found] if entity != right], K - 1)
    question = rng.choice(list(text.kind.questions[f"{given} {found}"])).format(**{given: text.entities[given][place]})
    ask = Ask(
        prompt=f"{text.text}\n\nQuestion: {question}\nAnswer:",
        right=right,
        wrong=tuple(wrong),
        task=f"long:{text.kind.name}",
        category="Reading",
        tags=(f"hops:{hops}", f"difficulty:{hops}"),
        cluster=f"{text.kind.name} {text.number + 1}",
    )
    return _Draw(ask=ask, place=place, pair=pair, credits=_credits(text, pair, right, [right, *wrong]))


def _credits(text: Document, pair: tuple[str, str], right: str, options: Sequence[str]) -> dict[str, float]:
    at = {option: [match.start() for match in re.finditer(re.escape(option), text.text, re.I)] for option in options}
    found = credits(
        right,
        options,
        {
            "mentioned first": lambda option: -at[option][0],
            "mentioned last": lambda option: at[option][-1],
            "mentioned most often": lambda option: len(at[option]),
        },
    )
    # One for each question of a pair of types: these are to be equally frequent, too.
    return found | {f"{text.kind.name}: {' '.join(pair)}": 1.0}
