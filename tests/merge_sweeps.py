"""Sweeps between two models, of random answers, for tests of their reports."""

from collections.abc import Sequence

import numpy as np

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.ranking import ModelComparison, Target, rank_models, transition_matrix
from forgetwatch.merge.sweep import MergedPoint, MergeSweep, ProbeSweep
from forgetwatch.merge.weights import WeightDistance

ALPHAS = (0.0, 0.2, 0.5, 0.8, 1.0)


def outcomes(n: int, alphas: Sequence[float], *, seed: int) -> list[Snapshot]:
    """Outcomes at each alpha: the further from the first, the more answers are those of the last."""
    rng = np.random.default_rng(seed)
    first, last, at = rng.random(n) < 0.7, rng.random(n) < 0.6, rng.random(n)
    names = {
        "item_id": [f"q{i}" for i in range(n)],
        "content_hash": [f"h{i}" for i in range(n)],
        "task": ["t"] * n,
        "category": ["c"] * n,
    }
    return [
        Snapshot.from_columns(
            {**names, "correct": np.where(at < alpha, last, first).tolist()},
            {"model": f"alpha {alpha:g}"},
        )
        for alpha in alphas
    ]


def made_sweep(
    ends: tuple[str, str] = ("base", "tuned"),
    *,
    probes: tuple[str, str] = ("standard", "confirmation"),
    alphas: Sequence[float] = ALPHAS,
    method: str = "linear",
    overall: float = 0.0046,
    target: str | None = "right on sums",
    notes: Sequence[str] = (),
) -> MergeSweep:
    """A sweep with a second probe, of random answers."""
    sides = {probes[0]: outcomes(100, alphas, seed=1), probes[1]: outcomes(80, alphas, seed=2)}
    sweeps = [
        ProbeSweep(
            probe=name,
            points=tuple(
                MergedPoint(
                    alpha=alpha,
                    from_a=compare(before=at[0], after=one),
                    from_b=compare(before=at[-1], after=one),
                )
                for alpha, one in zip(alphas, at, strict=True)
            ),
        )
        for name, at in sides.items()
    ]
    wanted = (
        None
        if target is None
        else Target(name=target, values=(0.1, 0.3, 0.2, 0.5, *[0.4] * (len(alphas) - 4)))
    )
    own = sides[probes[0]]
    return MergeSweep(
        ends=ends,
        method=method,
        chosen_on=sweeps[0],
        confirmed_on=sweeps[1],
        target_on=None,
        ranking=ModelComparison(
            matrix=transition_matrix([own[0], *own]),
            ranking=rank_models([point.from_a for point in sweeps[0].points], wanted),
            target=wanted,
        ),
        distance=WeightDistance(
            overall=overall,
            layers={"model.layers.0": 0.5, "model.layers.1": overall},
            tensors=20,
            turned=3,
        ),
        notes=tuple(notes),
    )
