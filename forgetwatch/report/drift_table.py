"""Drift of a model from its base: lines in a terminal, and rows of the tables of Markdown and page.

KL is KL(base||now) in nats per token, on texts that the base generated. Each estimator has its own column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from forgetwatch.comparing import Comparison, Trajectory
from forgetwatch.measures import DRIFT, ESTIMATORS, NOT_THERE, SET_NAMES, LookDrift, best_estimator, kl_text

_WIDTH: Final = 80


def drift_line(comparison: Comparison) -> list[Text]:
    """Line of 80 columns on the drift by the least noisy estimator; none if it was not measured."""
    if not (drift := comparison.drift):
        return []
    best = best_estimator(drift.values())
    parts = [f"{name} {kl_text(found, best)}" for name, found in drift.items()]
    line = f"drift, KL {ESTIMATORS[best]}   {'   '.join(parts)}"
    if cell_len(line) > _WIDTH:
        line = f"drift, {ESTIMATORS[best]}  {'  '.join(parts)}"
    text = Text(line)
    text.truncate(_WIDTH, overflow="ellipsis")
    return [text]


def drift_rows(drift: Mapping[str, LookDrift]) -> list[tuple[str, dict[str, str]]]:
    """(Name of the set, its cells) of each set."""
    return [(SET_NAMES.get(name, name), DRIFT.cells(found)) for name, found in drift.items()]


def drift_detail(comparison: Comparison) -> list[Text]:
    """Lines of all estimators for each set; none where no drift was measured."""
    lines = []
    for name, cells in drift_rows(comparison.drift or {}):
        lines.append(Text(f"drift after {name}, KL(base||now) in nats a token"))
        for one in reversed(ESTIMATORS):
            if cells[one] != NOT_THERE:
                lines.append(Text(f"  {ESTIMATORS[one]:<8} {cells[one]}"))
        lines.append(Text(f"  floor    {cells['floor.kl_sampled']}", "dim"))
        lines.append(Text(f"  overlap  {cells['overlap']} of whole texts", "dim"))
    return lines


def drift_looks(trajectory: Trajectory, shown: Sequence[int]) -> list[Text]:
    """Lines of the drift at some looks of a run, under a heading; none where no look has one.

    Args:
        trajectory: The run.
        shown: Steps of the looks.
    """
    looks = [(step, found) for step, found in trajectory.drift.items() if step in shown]
    if not (sets := list(dict.fromkeys(name for _, found in looks for name in found))):
        return []
    drifts = trajectory.drift.values()
    best = [best_estimator(found[name] for found in drifts if name in found) for name in sets]
    names = [f"drift {name}, {ESTIMATORS[one]}" for name, one in zip(sets, best, strict=True)]
    lines = [Text(f"{'step':>7} " + " ".join(f"{name:>33}" for name in names), "bold")]
    for step, found in looks:
        cells = [kl_text(found[name], one) if name in found else "" for name, one in zip(sets, best, strict=True)]
        lines.append(Text(f"{step:>7} " + " ".join(f"{cell:>33}" for cell in cells)))
    return lines


def spread_looks(steps: Sequence[int], most: int) -> list[int]:
    """Steps of at most about `most` looks: every n-th from the first on, and the last."""
    stride = -(-len(steps) // most)
    return [step for at, step in enumerate(steps) if at % stride == 0 or at == len(steps) - 1]


def is_measured(trajectory: Trajectory) -> bool:
    """True if a look after the baseline has a drift; the baseline's own is 0."""
    return any(comparison.drift for comparison in trajectory.comparisons[1:])
