"""See, question by question, what a language model forgets while it is fine-tuned.

    from forgetwatch import ForgetWatchCallback, Watch, compare, score

Each name is loaded on its first use, and what `compare` needs does not load torch. `forgetwatch.errors` has the errors
that are raised on purpose.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgetwatch.extras import missing as _missing

if TYPE_CHECKING:
    from forgetwatch.comparing import Comparison, Trajectory, compare
    from forgetwatch.item import Item
    from forgetwatch.probe import Probe
    from forgetwatch.probes import load_probe
    from forgetwatch.readers import load_snapshot
    from forgetwatch.run import ForgetWatchCallback, Guard, Watch
    from forgetwatch.scoring import score
    from forgetwatch.snapshot import Snapshot, save_snapshot

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
    "ForgetWatchCallback": "run",
    "Guard": "run",
    "Item": "item",
    "Probe": "probe",
    "Snapshot": "snapshot",
    "Trajectory": "comparing",
    "Watch": "run",
    "compare": "comparing",
    "load_probe": "probes",
    "load_snapshot": "readers",
    "save_snapshot": "snapshot",
    "score": "scoring",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name, name)
    if module in {"errors", *_MODULES.values()}:
        try:
            found = import_module(f"forgetwatch.{module}")
            if module == "comparing":
                import_module("forgetwatch.report")  # which makes the documents of what was compared
        except ModuleNotFoundError as error:
            sentence = _missing(error, what=f"forgetwatch.{name}", training=module == "run")
            if sentence is None:
                raise
            raise ModuleNotFoundError(sentence) from error
        return getattr(found, name) if name in _MODULES else found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
