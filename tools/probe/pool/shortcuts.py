"""What the options alone, and some shortcuts, tell of the right answers in the pool.

    python tools/probe/pool/shortcuts.py [--items 400] [--seed 1]

A line for each kind, as shares of right answers; a guess is right in .25:

    options     a linear classifier that sees the options alone: their words, digits, rank, place and length; it learns
                from one half of the questions, and answers the other
    last digit  a guess among the options that end in the digit of the right number
    count       the option that the question names most often, or least often, whichever is more often right
    longest     the longest option, or the shortest, whichever is more often right
"""

from __future__ import annotations

import argparse
import re
import runpy
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

_WORDS: Final = 512
_PENALTY: Final = 1.0
_COMPUTED: Final = ("program", "chain", "units")


def features(item: dict[str, Any]) -> NDArray[np.float64]:
    """Features of each option that need no question, [4, features]."""
    options = [choice.strip() for choice in item["choices"]]
    is_number = all(re.fullmatch(r"-?\d+", option) for option in options)
    order = sorted(options, key=int) if is_number else sorted(options)
    lengths = sorted(map(len, options))
    rows = np.zeros((4, _WORDS + 40))
    for place, option in enumerate(options):
        for word in re.findall(r"\w+", option) if not is_number else [option]:
            rows[place, zlib.crc32(word.lower().encode()) % _WORDS] = 1
        plain = _WORDS + np.array(
            [order.index(option), 4 + place, 8 + lengths.index(len(option)), 12 + len(option) % 8]
        )
        rows[place, plain] = 1
        if is_number:
            rows[place, _WORDS + 20 + int(option) % 10] = 1
            rows[place, _WORDS + 30 + int(option) % 9] = 1
    return rows


def of_options(items: list[dict[str, Any]]) -> float:
    """Share of one half that a classifier of the options answers, after learning from the other."""
    rows = np.array([features(item) for item in items])
    right = np.array([item["answer"] for item in items])
    half = np.array([zlib.crc32(item["id"].encode()) % 2 for item in items])
    shares = []
    for learnt in (0, 1):
        x, y = rows[half == learnt], right[half == learnt]

        def cost(weights: NDArray[np.float64], x: Any = x, y: Any = y) -> Any:
            scores = x @ weights
            scores -= scores.max(axis=1, keepdims=True)
            chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            each = np.arange(len(y))
            slope = chances.copy()
            slope[each, y] -= 1
            gradient = np.einsum("nof,no->f", x, slope) + _PENALTY * weights
            return -np.log(chances[each, y]).sum() + _PENALTY * weights @ weights / 2, gradient

        weights = minimize(cost, np.zeros(x.shape[2]), jac=True, method="L-BFGS-B").x
        shares.append((rows[half != learnt] @ weights).argmax(axis=1) == right[half != learnt])
    return float(np.concatenate(shares).mean())


def _chosen(values: list[float], answer: int) -> float:
    best = [place for place, value in enumerate(values) if value == max(values)]
    return (answer in best) / len(best)


def of_shortcuts(items: list[dict[str, Any]]) -> dict[str, float]:
    """Share that each shortcut answers."""
    shares: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for item in items:
        options, answer = [choice.strip() for choice in item["choices"]], item["answer"]
        named = [
            float(len(re.findall(rf"(?<!\w){re.escape(option)}(?!\w)", item["prompt"])))
            if item["prompt"].isascii()
            else float(item["prompt"].count(option))
            for option in options
        ]
        lengths = [float(len(option)) for option in options]
        for name, values in (("count", named), ("longest", lengths)):
            least = [-value for value in values]
            shares[name].append((_chosen(values, answer), _chosen(least, answer)))
        if item["task"].split(":")[0] in _COMPUTED:
            digits = [float(int(option) % 10 == int(options[answer]) % 10) for option in options]
            shares["last digit"].append((_chosen(digits, answer),))
    return {name: float(np.mean(values, axis=0).max()) for name, values in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=400, help="items of each kind and level")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    make = runpy.run_path(str(Path(__file__).parent / "make.py"))
    pool = list(make["items"](given.items, given.seed))
    print("kind        items  options  last digit  count  longest")
    for kind in make["KINDS"]:
        of_kind = [item for item in pool if item["task"].split(":")[0] == kind]
        shares = of_shortcuts(of_kind)
        cells = [f"{shares.get(name, np.nan):.2f}" for name in ("last digit", "count", "longest")]
        digit, count, longest = (cell.replace("nan", "") for cell in cells)
        alone = f"{of_options(of_kind):.3f}"
        print(
            f"{kind:10}  {len(of_kind):>5}  {alone:>7}  {digit:>10}  {count:>5}  {longest:>7}",
            flush=True,
        )


if __name__ == "__main__":
    main()
