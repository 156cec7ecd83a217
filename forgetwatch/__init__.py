"""See, question by question, what a language model forgets while it is fine-tuned.

    from forgetwatch import ForgetWatchCallback, Watch, compare, score

Comparing files needs numpy and pyarrow only: the names that need torch are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgetwatch.comparing import TOLERANCE, Comparison, Tolerance, Trajectory, compare
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.readers import load_snapshot
from forgetwatch.snapshot import Snapshot, save_snapshot

if TYPE_CHECKING:
    from forgetwatch.scoring import score
    from forgetwatch.watch import ForgetWatchCallback, Guard, Watch

__all__ = [
    "Comparison",
    "ForgetWatchCallback",
    "Guard",
    "Item",
    "Probe",
    "Snapshot",
    "Trajectory",
    "Watch",
    "compare",
    "load_probe",
    "load_snapshot",
    "save_snapshot",
    "score",
]

_NEEDS_TORCH = {
    "ForgetWatchCallback": "forgetwatch.watch",
    "Guard": "forgetwatch.watch",
    "Watch": "forgetwatch.watch",
    "score": "forgetwatch.scoring",
}


def _to_dict(shown: Comparison | Trajectory, *, tolerance: Tolerance = TOLERANCE) -> dict[str, Any]:
    """JSON document of a comparison or a run as a dict.

    Args:
        shown: The comparison, or the run.
        tolerance: Losses that its verdict tolerates.
    """
    from forgetwatch.report import comparison_json, trajectory_json

    if isinstance(shown, Trajectory):
        return trajectory_json(shown, tolerance=tolerance)
    return comparison_json(shown, tolerance=tolerance)


def _repr_html(shown: Comparison | Trajectory) -> str:
    """HTML of a comparison or a run for a notebook."""
    from forgetwatch.report import comparison_fragment, trajectory_fragment

    return trajectory_fragment(shown) if isinstance(shown, Trajectory) else comparison_fragment(shown)


# report/ stands above comparing/, and is imported when one of these is called.
Comparison.to_dict = Trajectory.to_dict = _to_dict
Comparison._repr_html_ = Trajectory._repr_html_ = _repr_html


def __getattr__(name: str) -> Any:
    if name in _NEEDS_TORCH:
        return getattr(import_module(_NEEDS_TORCH[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
