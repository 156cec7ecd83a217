"""Questions about texts: four for each, with options that the text names equally well.

The options are entities of one type, all of them in the text. Which entities are asked for is chosen such that the
right option is the first, the last or the most frequently mentioned one, the longest or the first by the alphabet, no
more often than by chance; the choice looks at the texts only.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    balance = _Balance()
    return [_ask_about(text, HOPS[index % len(HOPS)], balance, rng) for index, text in enumerate(texts)]


class _Balance:
    """Counts over the questions taken so far: the credits of each chooser, and the questions of each pair of types."""

    def __init__(self) -> None:
        self.excess: defaultdict[str, float] = defaultdict(float)
        self.asked: Counter[tuple[str, str]] = Counter()

    def cost(self, draw: _Draw) -> float:
        """Growth of the sum of squares that taking a question causes."""
        excess = sum(
            (self.excess[name] + credit) ** 2 - self.excess[name] ** 2 for name, credit in draw.credits.items()
        )
        return excess + 2 * self.asked[draw.pair] + 1

    def take(self, draw: _Draw) -> None:
        for name, credit in draw.credits.items():
            self.excess[name] += credit
        self.asked[draw.pair] += 1


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """A question that may be taken.

    Attributes:
        ask: The question.
        place: Place of its entities in their types.
        pair: The type that is given, and the type to be found.
        credits: Right answers of each chooser that does not read, less those of a guess.
    """

    ask: Ask
    place: int
    pair: tuple[str, str]
    credits: Mapping[str, float]


def _ask_about(text: Document, hops: Sequence[int], balance: _Balance, rng: random.Random) -> list[Ask]:
    asks: list[Ask] = []
    # No two questions of a text are about entities that belong together, or about the same two types.
    places, used = set(range(SIZE)), set[frozenset[str]]()
    for count in hops:
        draw = min((_draw(text, count, places, used, rng) for _ in range(_DRAWS)), key=balance.cost)
        balance.take(draw)
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
    return _Draw(ask=ask, place=place, pair=pair, credits=_credits(text, right, [right, *wrong]))


def _credits(text: Document, right: str, options: Sequence[str]) -> dict[str, float]:
    at = {option: [match.start() for match in re.finditer(re.escape(option), text.text, re.I)] for option in options}
    keys: dict[str, dict[str, float]] = {
        "mentioned first": {option: -at[option][0] for option in options},
        "mentioned last": {option: at[option][-1] for option in options},
        "mentioned most often": {option: len(at[option]) for option in options},
        "longest": {option: len(option) for option in options},
        "shortest": {option: -len(option) for option in options},
        "first by the alphabet": {option: -place for place, option in enumerate(sorted(options))},
        "last by the alphabet": {option: place for place, option in enumerate(sorted(options))},
    }
    credits = {}
    for name, values in keys.items():
        best = [option for option in options if values[option] == max(values.values())]
        credits[name] = (right in best) / len(best) - 1 / len(options)
    return credits
