"""A model that answers by sampling: each item has a probability of being right, and a second scoring draws again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.metrics.intervals import effective_items, newcombe
from forgetwatch.metrics.transitions import Cells, count_cells

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def chances(rng: np.random.Generator, items: int) -> Floats:
    """Half of the items known (.97), three in ten guessed (.25), the others anything between: 1 answer in 5 flips."""
    kind = rng.random(items)
    return np.where(kind < 0.5, 0.97, np.where(kind < 0.8, 0.25, rng.random(items)))


def scored(rng: np.random.Generator, chance: Floats, samples: int) -> Bools:
    """Right or wrong, item by item and sample by sample; bool [items * samples]."""
    return (rng.random((len(chance), samples)) < chance[:, None]).ravel()


def forgetful(rng: np.random.Generator, chance: Floats, loss: float) -> Floats:
    """The same model after so much net loss of accuracy: known items, drawn at random, are never right again."""
    known = np.flatnonzero(chance == 0.97)
    after = chance.copy()
    after[rng.choice(known, round(loss * len(chance) / 0.97), replace=False)] = 0.0
    return after


def with_outcomes(comparison: Comparison, before: Bools, after: Bools, samples: int) -> Comparison:
    """The comparison with these cells and this net change in place of its own: compare() without all the rest."""
    cells = count_cells(before, after, samples=samples)
    worth = cells.n
    if samples > 1:
        item = np.repeat(np.arange(len(before) // samples), samples)
        worth = effective_items(after.astype(float) - before, item)
    shares = Cells(**{name: count * worth / cells.n for name, count in vars(cells).items()})
    whole = replace(comparison.all, **vars(cells), net_change_interval=newcombe(shares))
    return replace(comparison, groups=(whole,))
