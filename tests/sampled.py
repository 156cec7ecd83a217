"""Simulated sampling model: each item has a probability of a right answer, and each scoring draws anew."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.measures.flip_counts import VANISHED
from forgetwatch.metrics.intervals import effective_items, newcombe
from forgetwatch.metrics.transitions import Cells, count_cells

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def chances(rng: np.random.Generator, items: int) -> Floats:
    """Probabilities [items]: half known (.97), three in ten guessed (.25), the others uniform; 1 answer in 5 flips."""
    kind = rng.random(items)
    return np.where(kind < 0.5, 0.97, np.where(kind < 0.8, 0.25, rng.random(items)))


def scored(rng: np.random.Generator, chance: Floats, samples: int) -> Bools:
    """Outcomes by item and sample; bool [items * samples]."""
    return (rng.random((len(chance), samples)) < chance[:, None]).ravel()


def forgetful(rng: np.random.Generator, chance: Floats, loss: float) -> Floats:
    """Probabilities after a net loss of accuracy: known items, drawn at random, are never right again."""
    known = np.flatnonzero(chance == 0.97)
    after = chance.copy()
    after[rng.choice(known, round(loss * len(chance) / 0.97), replace=False)] = 0.0
    return after


def with_outcomes(comparison: Comparison, before: Bools, after: Bools, samples: int) -> Comparison:
    """The comparison with cells and net change of these outcomes: the part of `compare` that a gate reads, fast."""
    cells = count_cells(before, after, samples=samples)
    worth = cells.n
    if samples > 1:
        item = np.repeat(np.arange(len(before) // samples), samples)
        worth = effective_items(after.astype(float) - before, item)
    shares = Cells(**{name: count * worth / cells.n for name, count in vars(cells).items()})
    interval = newcombe(shares)
    whole = replace(comparison.all, **vars(cells), net_change_interval=interval)
    whole = whole.having(VANISHED, replace(whole[VANISHED], net_change_interval_worst=interval))
    return replace(comparison, groups=(whole,))
