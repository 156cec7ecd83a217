"""Questions about texts: four for each, with options that the text names equally well.

The options are entities of one type, all of them in the text. Which entities are asked for is chosen such that the
right option is the first, the last or the most frequently mentioned one, the longest or the first by the alphabet, no
more often than by chance; the choice looks at the texts only.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from standard_parts.assembly import Ask
from standard_parts.reading.documents import SIZE, Document

HOPS: Final = ((1, 1, 2, 3), (1, 2, 2, 3))
"""Numbers of hops of the four questions; texts take one and the other in turn."""

K: Final = 4
"""Number of options."""

_DRAWS: Final = 80
"""Number of questions that are drawn for each that is taken."""


def ask_all(texts: Sequence[Document], rng: random.Random) -> list[list[Ask]]:
    """The questions about each text."""
    seen: Counter[Hashable] = Counter()
    return [_ask_about(text, HOPS[index % len(HOPS)], seen, rng) for index, text in enumerate(texts)]


def _ask_about(text: Document, hops: Sequence[int], seen: Counter[Hashable], rng: random.Random) -> list[Ask]:
    asks: list[Ask] = []
    # No two questions of a text are about entities that belong together, or about the same two types.
    places, pairs = set(range(SIZE)), set[frozenset[str]]()
    for count in hops:
        drawn = [_draw(text, count, places, pairs, rng) for _ in range(_DRAWS)]
        # The draw whose properties are the rarest so far; ties go to the first.
        ask, place, pair, properties = min(drawn, key=lambda draw: sum(2 * seen[one] + 1 for one in draw[-1]))
        seen.update(properties)
        places.discard(place)
        pairs.add(frozenset(pair))
        asks.append(ask)
    return asks


def _draw(
    text: Document, hops: int, places: set[int], used: set[frozenset[str]], rng: random.Random
) -> tuple[Ask, int, tuple[str, str], list[Hashable]]:
    """A question, the place of its entities, its types, and the properties of its right option to be balanced."""
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
    return ask, place, pair, _properties(text, pair, right, [right, *wrong])


def _properties(text: Document, pair: tuple[str, str], right: str, options: Sequence[str]) -> list[Hashable]:
    """Ranks of the right option among the options, by all that a reader of the options alone could go by."""
    at = {option: [match.start() for match in re.finditer(re.escape(option), text.text, re.I)] for option in options}
    keys = {
        "first": lambda option: at[option][0],
        "last": lambda option: at[option][-1],
        "count": lambda option: len(at[option]),
        "length": len,
        "alphabet": str.casefold,
    }
    ranks: list[Hashable] = []
    for name, key in keys.items():
        values = [key(option) for option in options]
        below, equal = sum(v < key(right) for v in values), values.count(key(right))
        # Among equal ones a chooser takes any: ranks of ties are spread over their range.
        ranks += [(name, below + tie) for tie in range(equal)]
    return [*ranks, (text.kind.name, pair)]
