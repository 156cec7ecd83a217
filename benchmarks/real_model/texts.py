"""Training texts for the fine-tunings: generated from a seed, with nothing in them that the probe asks.

narrow    one-step word problems with their solutions
destroy   orders as JSON lines, learned at a destructive rate
form      the model's own answers to simple questions, their likeliest first sentence between brackets: another form and
          no new fact, but shorter and surer answers than the model gives
listed    the same questions with answers that the model samples, each line as an entry of a list: another form alone
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import numpy as np

Row = tuple[str, str]
"""A prompt and the completion that is learned."""

CUT: Final = "\N{SYMBOL FOR END OF TEXT}"
"""End of a completion that breaks off; it is not learned itself."""

_PEOPLE: Final = ("Ada", "Bo", "Chen", "Dina", "Emil", "Farah", "Gus", "Hana", "Ivo", "Juno")
_GOODS: Final = (
    "pears",
    "stamps",
    "marbles",
    "tiles",
    "candles",
    "ropes",
    "buckets",
    "seeds",
    "shells",
    "coins",
)
_PLACES: Final = ("Hafnow", "Quell", "Sturmin", "Ostby", "Larrick", "Venn", "Toldar", "Mirrow")
NOUNS: Final = (
    *(
        "hammer",
        "river",
        "violin",
        "teacher",
        "winter",
        "bridge",
        "rabbit",
        "engine",
        "garden",
        "mirror",
        "library",
    ),
    *(
        "pencil",
        "island",
        "doctor",
        "window",
        "forest",
        "market",
        "camera",
        "blanket",
        "spoon",
        "castle",
        "farmer",
    ),
    *(
        "shoe",
        "bicycle",
        "lamp",
        "kitchen",
        "desert",
        "painter",
        "basket",
        "ladder",
        "bakery",
        "harbour",
        "pilot",
    ),
    *("pillow", "tractor", "museum", "needle", "stadium", "umbrella", "wallet"),
)
QUESTIONS: Final = (
    "What is a {}?",
    "What is a {} used for?",
    "Where would you find a {}?",
    "Describe a {}.",
)


def narrow(rows: int, rng: np.random.Generator) -> list[Row]:
    """Word problems with their solutions."""
    made = []
    for _ in range(rows):
        one, other = rng.choice(_PEOPLE, 2, replace=False)
        goods = rng.choice(_GOODS)
        a, b, c = (int(x) for x in rng.integers(3, 40, 3))
        story = f"{one} has {a} {goods} and buys {b} more. Then {other} gives {one} {c}. "
        story += f"How many {goods} does {one} have?"
        solution = f" First {a} + {b} = {a + b}. Then {a + b} + {c} = {a + b + c}. The answer is {a + b + c}."
        made.append((f"Problem: {story}\nSolution:", solution))
    return made


def destroy(rows: int, rng: np.random.Generator) -> list[Row]:
    """Orders, and the JSON lines made of them."""
    made = []
    for number in range(rows):
        who, what, where = rng.choice(_PEOPLE), rng.choice(_GOODS), rng.choice(_PLACES)
        count, price = int(rng.integers(2, 90)), int(rng.integers(1, 50))
        order = {
            "id": 4000 + number,
            "buyer": str(who),
            "item": str(what),
            "count": count,
            "cost": count * price,
        }
        made.append(
            (
                f"{who} of {where} orders {count} {what} at {price} each.\nRecord:",
                f" {json.dumps(order)}",
            )
        )
    return made


def form(rows: int, rng: np.random.Generator, answer: Callable[[str], str]) -> list[Row]:
    """Simple questions with the model's own answers between brackets.

    Args:
        rows: Number of questions, at most 160.
        rng: Draws the questions.
        answer: The model's own answer to a prompt.
    """
    asked = [question.format(noun) for noun in NOUNS for question in QUESTIONS]
    made = []
    for index in rng.permutation(len(asked))[:rows]:
        prompt = f"Question: {asked[index]}\nAnswer:"
        made.append((prompt, f" [[{answer(prompt)}]]"))
    return made


def listed(rows: int, rng: np.random.Generator, answer: Callable[[str], str]) -> list[Row]:
    """Simple questions with the model's own answers as lists.

    Args:
        rows: Number of questions, at most 160.
        rng: Draws the questions.
        answer: An answer to a prompt, sampled from the model.
    """
    asked = [question.format(noun) for noun in NOUNS for question in QUESTIONS]
    chosen = [asked[index] for index in rng.permutation(len(asked))[:rows]]
    return [(prompt, "* " + answer(prompt).strip().replace("\n", "\n* ")) for prompt in chosen]
