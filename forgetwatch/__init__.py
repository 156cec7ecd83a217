"""See, question by question, what a language model forgets while it is fine-tuned.

    from forgetwatch import ForgetWatchCallback, Watch, compare, score

Each name is loaded on its first use, and what `compare` needs does not load torch.
`forgetwatch.errors` has the errors that are raised on purpose.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgetwatch.extras import missing as _missing

if TYPE_CHECKING:
    from forgetwatch.comparing.comparison import Comparison, compare
    from forgetwatch.comparing.decision import Decision, decide
    from forgetwatch.comparing.trajectory import Trajectory
    from forgetwatch.item import Item
    from forgetwatch.probe import Probe
    from forgetwatch.probes.named import load_probe
    from forgetwatch.readers.outcomes import load_snapshot
    from forgetwatch.run.callback import ForgetWatchCallback
    from forgetwatch.run.guard import Guard
    from forgetwatch.run.watch import Watch
    from forgetwatch.scoring.scorer import score
    from forgetwatch.snapshot import Snapshot, save_snapshot

__all__ = [
    "Comparison",
    "Decision",
    "ForgetWatchCallback",
    "Guard",
    "Item",
    "Probe",
    "Snapshot",
    "Trajectory",
    "Watch",
    "compare",
    "decide",
    "load_probe",
    "load_snapshot",
    "save_snapshot",
    "score",
]

_MODULES = {
    "Comparison": "comparing.comparison",
    "Decision": "comparing.decision",
    "ForgetWatchCallback": "run.callback",
    "Guard": "run.guard",
    "Item": "item",
    "Probe": "probe",
    "Snapshot": "snapshot",
    "Trajectory": "comparing.trajectory",
    "Watch": "run.watch",
    "compare": "comparing.comparison",
    "decide": "comparing.decision",
    "load_probe": "probes.named",
    "load_snapshot": "readers.outcomes",
    "save_snapshot": "snapshot",
    "score": "scoring.scorer",
}
_PARTS = {"errors", *(module.partition(".")[0] for module in _MODULES.values())}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name, name)
    if name in _MODULES or module in _PARTS:
        try:
            module_object = import_module(f"forgetwatch.{module}")
        except ModuleNotFoundError as error:
            sentence = _missing(
                error, needed_by=f"forgetwatch.{name}", training=module.startswith("run")
            )
            if sentence is None:
                raise
            raise ModuleNotFoundError(sentence) from error
        return getattr(module_object, name) if name in _MODULES else module_object
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
