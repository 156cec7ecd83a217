"""See, question by question, what a language model forgets while it is fine-tuned.

    from forgetwatch import ForgetWatchCallback, Watch, compare, score

Each name is loaded on its first use. Comparing files needs numpy and pyarrow only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forgetwatch.comparing import Comparison, Tolerance, Trajectory, compare
    from forgetwatch.item import Item
    from forgetwatch.probe import Probe
    from forgetwatch.probes import load_probe
    from forgetwatch.readers import load_snapshot
    from forgetwatch.scoring import score
    from forgetwatch.snapshot import Snapshot, save_snapshot
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

_MODULES = {
    "Comparison": "comparing",
    "ForgetWatchCallback": "watch",
    "Guard": "watch",
    "Item": "item",
    "Probe": "probe",
    "Snapshot": "snapshot",
    "Trajectory": "comparing",
    "Watch": "watch",
    "compare": "comparing",
    "load_probe": "probes",
    "load_snapshot": "readers",
    "save_snapshot": "snapshot",
    "score": "scoring",
}


def _to_dict(shown: "Comparison | Trajectory", *, tolerance: "Tolerance | None" = None) -> dict[str, Any]:
    """JSON document of a comparison or a run as a dict.

    Args:
        shown: The comparison, or the run.
        tolerance: Losses that its verdict tolerates; by default those of the command line.
    """
    from forgetwatch.comparing import TOLERANCE, Trajectory
    from forgetwatch.report import comparison_json, trajectory_json

    if isinstance(shown, Trajectory):
        return trajectory_json(shown, tolerance=tolerance or TOLERANCE)
    return comparison_json(shown, tolerance=tolerance or TOLERANCE)


def _repr_html(shown: "Comparison | Trajectory") -> str:
    """HTML of a comparison or a run for a notebook."""
    from forgetwatch.comparing import Trajectory
    from forgetwatch.report import comparison_fragment, trajectory_fragment

    return trajectory_fragment(shown) if isinstance(shown, Trajectory) else comparison_fragment(shown)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"forgetwatch.{_MODULES[name]}"), name)
    if _MODULES[name] in ("comparing", "watch"):
        from forgetwatch.comparing import Comparison, Trajectory

        # report/ stands above comparing/, and is imported when one of these is called.
        Comparison.to_dict = Trajectory.to_dict = _to_dict
        Comparison._repr_html_ = Trajectory._repr_html_ = _repr_html
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
