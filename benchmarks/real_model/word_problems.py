"""A probe of what the training `narrow` teaches: 150 of its word problems with other numbers, four solutions each.

    python benchmarks/real_model/word_problems.py OUT.jsonl

The wrong solutions are right in form and wrong by one, by ten, or in the first step. The numbers are drawn from another
seed than those of the training.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import texts

from forgetwatch import Item, Probe

ITEMS = 150


def main() -> None:
    """Write the probe."""
    rng = np.random.default_rng(7)
    items = []
    for number, (prompt, solution) in enumerate(texts.narrow(ITEMS, rng)):
        a, b, first, _, c, last = (int(x) for x in re.findall(r"\d+", solution)[:6])
        wrong = [(first, last + 1), (first, last - 10), (first + 1, last + 1)]
        choices = [solution, *(_solution(a, b, c, *sums) for sums in wrong)]
        order = rng.permutation(len(choices))
        items.append(
            Item(
                id=f"w{number}",
                task="word_problems",
                category="Word problems",
                prompt=prompt,
                choices=[choices[at] for at in order],
                answer=int(np.flatnonzero(order == 0)[0]),
            )
        )
    Path(sys.argv[1]).write_text(Probe(items, name="word_problems").to_jsonl(), encoding="utf-8")


def _solution(a: int, b: int, c: int, first: int, last: int) -> str:
    return f" First {a} + {b} = {first}. Then {first} + {c} = {last}. The answer is {last}."


if __name__ == "__main__":
    main()
