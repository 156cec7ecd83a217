"""Every error that forgetwatch raises on purpose, drawn as a tree, and the clause that names a close spelling.

    ForgetwatchError            any of these; the command line prints it as one line and exits with status 1
    ├── ProbeError              an item or a probe that cannot be used
    ├── SnapshotError           a file or a table that cannot be read as a snapshot
    ├── MismatchError           two snapshots of unlike questions or prompts
    ├── ScoringError            a model that cannot be scored on a probe
    ├── WatchError              a run folder or a schedule that cannot be used
    │   └── LostBaselineError   a resumed run whose baseline cannot be found
    ├── GateError               a gate that cannot be read
    ├── StudyError              a study that cannot be read
    └── ReportedElsewhereError  a failure of several processes, in those that print nothing

Each message gives what was needed, what was got, where (file, row or item), and the remedy.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path

from forgetwatch.visible_text import visible

__all__ = [
    "ForgetwatchError",
    "GateError",
    "LostBaselineError",
    "MismatchError",
    "ProbeError",
    "ReportedElsewhereError",
    "ScoringError",
    "SnapshotError",
    "StudyError",
    "WatchError",
]


class ForgetwatchError(Exception):
    """Base of every error that forgetwatch raises on purpose; its text is one line with visible control characters."""

    def __str__(self) -> str:
        # Messages quote names and texts of files, and are printed by whatever catches them.
        return " ".join(visible(super().__str__()).splitlines())


class ProbeError(ForgetwatchError):
    """An item or a probe cannot be used."""


class SnapshotError(ForgetwatchError):
    """A file or a table cannot be read as a snapshot."""


class MismatchError(ForgetwatchError):
    """Two snapshots do not have the same questions with the same prompts."""


class ScoringError(ForgetwatchError):
    """A model cannot be scored on a probe."""


class WatchError(ForgetwatchError):
    """A run folder or a schedule cannot be used."""


class LostBaselineError(WatchError):
    """The baseline of a resumed run cannot be found."""


class GateError(ForgetwatchError):
    """A gate expression or a gate file cannot be read."""


class StudyError(ForgetwatchError):
    """The file of a study cannot be read, or is none."""


class ReportedElsewhereError(ForgetwatchError):
    """A failure of a group of processes, in a process that ends without a word: another one reports it.

    Its cause is the error of this process, which decides the exit status.
    """


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Suggest the known name closest to an unknown one.

    Empty where none is close.

    >>> did_you_mean("standrd", ["standard", "quick"])
    ", did you mean 'standard'?"

    Returns:
        ``", did you mean X?"``, or an empty text if no name is close.
    """
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return f", did you mean {folded[near[0]]!r}?" if near else ""


def some_of(names: Iterable[object], most: int) -> str:
    """List the first names, and count the others.

    >>> some_of("abc", 2)
    'a, b and 1 more'
    """
    listed = list(map(str, names))
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def did_you_mean_path(path: Path) -> str:
    """Suggest a file with a name like the path's.

    Returns:
        ``, did you mean 'base'?``, or an empty text.
    """
    try:
        names = [
            path_beside.name
            for path_beside in path.parent.iterdir()
            if path_beside.name != path.name
        ]
    except OSError:
        return ""
    return did_you_mean(path.name, names)
