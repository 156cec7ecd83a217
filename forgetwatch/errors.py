"""Every error that forgetwatch raises on purpose, drawn as a tree.

    ForgetwatchError            anything below; the command line prints it as one line and exits with 1
    ├── ProbeError              items or a probe that cannot be asked
    ├── SnapshotError           a file or table that is no usable snapshot
    ├── MismatchError           two snapshots that do not hold the same questions, asked the same way
    ├── ScoringError            a model that cannot be scored on a probe
    ├── WatchError              a run folder or a schedule that cannot be used
    │   └── LostBaselineError   a run that goes on without the baseline it began with
    └── GateError               a gate that cannot be read

Each message says what was needed, what was got, where, and what to do about it.
"""

import difflib
from collections.abc import Iterable


class ForgetwatchError(Exception):
    """Base of every error that forgetwatch raises on purpose."""


class ProbeError(ForgetwatchError):
    """An item or a probe that cannot be asked."""


class SnapshotError(ForgetwatchError):
    """A file or a table that is no usable snapshot."""


class MismatchError(ForgetwatchError):
    """Two snapshots that do not hold the same questions, asked in the same way."""


class ScoringError(ForgetwatchError):
    """A model that cannot be scored on a probe."""


class WatchError(ForgetwatchError):
    """A run folder or a schedule that cannot be used."""


class LostBaselineError(WatchError):
    """A run that goes on, and whose baseline is nowhere to be found."""


class GateError(ForgetwatchError):
    """A gate expression that cannot be read."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The clause ``", did you mean X?"`` for the known name closest to an unknown one; empty where none is close.

    >>> did_you_mean("standrd", ["standard", "quick"])
    ", did you mean 'standard'?"
    """
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.7)
    return f", did you mean {near[0]!r}?" if near else ""
