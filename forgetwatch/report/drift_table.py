"""Drift of a model from its base in words and in cells, for terminal, Markdown and page.

    prompts     KL sampled                KL summed                  KL exact  overlap  floor
    probe       0.0059 (0.0024 to 0.0094) 0.0028 (0.0022 to 0.0034)  –         .97      1e-7

KL is KL(base||now) in nats per token, on texts that the base generated. Each estimator has its own column. Brackets
hold 95 % intervals. A KL is at least 0: so are the intervals of the summed and the exact one, and only the sampled
estimate may fall below by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from forgetwatch.comparing import Comparison, LookDrift, Trajectory
from forgetwatch.measures import NOT_THERE
from forgetwatch.metrics import Drift, Interval, mean_interval

ESTIMATORS: Final = {"kl_exact": "exact", "kl_summed": "summed", "kl_sampled": "sampled"}
"""Estimators of KL(base||now) by the attribute of `Drift`, the least noisy first."""

HEADINGS: Final = {
    "kl_sampled": "KL sampled",
    "kl_summed": "KL summed",
    "kl_exact": "KL exact",
    "overlap": "overlap",
    "floor": "floor",
}
"""Heading of each cell of one set."""

SET_NAMES: Final = {"probe": "probe prompts", "training": "training prompts"}
"""Name of each set for people; another set has its own name."""

_WIDTH: Final = 80


def drift_line(comparison: Comparison) -> list[Text]:
    """Line of 80 columns on the drift, by the least noisy estimator that there is; none where it was not measured."""
    if not (drift := comparison.drift):
        return []
    best = next(name for name in ESTIMATORS if all(getattr(found, name) is not None for found in drift.values()))
    parts = [f"{name} {_interval(found, best)}" for name, found in drift.items()]
    line = f"drift, KL {ESTIMATORS[best]}   {'   '.join(parts)}"
    if cell_len(line) > _WIDTH:
        line = f"drift, {ESTIMATORS[best]}  {'  '.join(parts)}"
    text = Text(line)
    text.truncate(_WIDTH, overflow="ellipsis")
    return [text]


def drift_cells(found: LookDrift) -> dict[str, str]:
    """Text of each quantity in `HEADINGS` for one set of prompts."""
    floors = [] if found.floor is None else [found.floor.kl_sampled, found.floor.kl_summed]
    return {
        **{name: _interval(found, name) for name in ("kl_sampled", "kl_summed", "kl_exact")},
        "overlap": NOT_THERE if math.isnan(found.overlap) else f"{found.overlap:.2f}",
        # Each floor is that of the estimator in the same place.
        "floor": ", ".join(number(one) for one in floors if one is not None) or NOT_THERE,
    }


def drift_rows(drift: Mapping[str, LookDrift]) -> list[tuple[str, dict[str, str]]]:
    """(Name of the set, its cells) of each set."""
    return [(SET_NAMES.get(name, name), drift_cells(found)) for name, found in drift.items()]


def drift_detail(comparison: Comparison) -> list[Text]:
    """Lines of all estimators for each set; none where no drift was measured."""
    lines = []
    for name, cells in drift_rows(comparison.drift or {}):
        lines.append(Text(f"drift after {name}, KL(base||now) in nats a token"))
        for one in ("kl_sampled", "kl_summed", "kl_exact"):
            if cells[one] != NOT_THERE:
                lines.append(Text(f"  {ESTIMATORS[one]:<8} {cells[one]}"))
        lines.append(Text(f"  floor    {cells['floor']}", "dim"))
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
    best = [_best(trajectory, name) for name in sets]
    names = [f"drift {name}, {ESTIMATORS[one]}" for name, one in zip(sets, best, strict=True)]
    lines = [Text(f"{'step':>7} " + " ".join(f"{name:>33}" for name in names), "bold")]
    for step, found in looks:
        cells = [_interval(found[name], one) if name in found else "" for name, one in zip(sets, best, strict=True)]
        lines.append(Text(f"{step:>7} " + " ".join(f"{cell:>33}" for cell in cells)))
    return lines


def spread_looks(steps: Sequence[int], most: int) -> list[int]:
    """Steps of at most about `most` looks: every n-th from the first on, and the last."""
    stride = -(-len(steps) // most)
    return [step for at, step in enumerate(steps) if at % stride == 0 or at == len(steps) - 1]


def is_measured(trajectory: Trajectory) -> bool:
    """True if a look after the baseline has a drift; the baseline's own is 0."""
    return any(comparison.drift for comparison in trajectory.comparisons[1:])


def _best(trajectory: Trajectory, name: str) -> str:
    """Attribute of the least noisy estimator that all looks of a run have for a set."""
    drifts = [found[name] for found in trajectory.drift.values() if name in found]
    return next(one for one in ESTIMATORS if all(getattr(drift, one) is not None for drift in drifts))


def drift_interval(found: Drift, name: str) -> Interval:
    """95 % interval of the KL by one estimator, by its attribute; (nan, nan) without a standard error."""
    value, error = getattr(found, name), getattr(found, f"{name}_se")
    if value is None or error is None:
        return math.nan, math.nan
    return mean_interval(value, error, low=-math.inf if name == "kl_sampled" else 0.0, high=math.inf)


def _interval(found: LookDrift, name: str) -> str:
    """KL with its 95 % interval, such as ``0.0028 (0.0022 to 0.0034)``, or a dash."""
    value, (low, high) = getattr(found, name), drift_interval(found, name)
    if value is None or math.isnan(value):
        return NOT_THERE
    return number(value) if math.isnan(low) else f"{number(value)} ({number(low)} to {number(high)})"


def number(value: float) -> str:
    """A number of nats in two digits.

    >>> number(0.00281), number(0.4), number(1.23e-7), number(0.0), number(2e-17)
    ('0.0028', '0.40', '1.2e-7', '0', '<1e-9')
    """
    if 0 < abs(value) < 1e-9:
        return "<1e-9"
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-")
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"
