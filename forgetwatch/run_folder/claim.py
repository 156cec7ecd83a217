"""A claim: at most one process at a time runs a training in an output_dir.

    with the lock      a second training waits a little for the first to end, and is then refused
    without locks      the second training renames the folder of the first, which notices and follows it

The lock is the kernel's record lock on ``_forgetwatch.lock`` in the output_dir: it ends with its process, however that
dies, and holds between containers with equal process ids and, on network disks that pass locks on, between machines. It
is not inherited by workers that the process forks. A process that opens and closes that file itself, such as for a copy
of the folder, loses it: that is how record locks work. Without the lock nothing is refused, and the run's id alone,
which is checked before each write, keeps two trainings apart (see `folder`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forgetwatch.errors import WatchError
from forgetwatch.files import LocksUnsupportedError, is_file_at, lock_again, lock_file, unlock_file
from forgetwatch.run_folder.description import RUN_FOLDER

LOCK: Final = f"{RUN_FOLDER}.lock"
"""Name of the locked file in the output_dir of a training; a run folder of another name has a lock of its own."""

PATIENCE: Final = 30.0
"""Seconds that a second training waits: one that is being stopped needs some to end."""


@dataclass
class _Held:
    file: int  # descriptor
    process: int
    made_folder: bool
    owners: set[int]  # ids of the objects that claim it


# Record locks belong to the process: closing any descriptor of the file would end them, so there is one for each path.
_held: dict[Path, _Held] = {}


def claim(
    output_dir: Path,
    owner: object,
    *,
    folder: str = RUN_FOLDER,
    patience: float | None = None,
    on_wait: Callable[[str], object] = lambda _: None,
) -> None:
    """Claim an output_dir for this process, until `release` or the end of the process.

    Args:
        output_dir: Folder of the run; it is made if it is missing.
        owner: The object that claims it; several in one process may. The end of an object ends its claim.
        folder: Name of the run folder in it; claims of different folders do not exclude each other.
        patience: Seconds to wait for another process; None for `PATIENCE`.
        on_wait: Called once with a sentence if that is necessary.

    Raises:
        WatchError: If another process has it.
    """
    path = _lock(output_dir, folder)
    patience = PATIENCE if patience is None else patience
    own = _held.get(path)
    if own is not None and own.process == os.getpid() and is_file_at(path, own.file) and lock_again(own.file):
        _add(path, owner)
        return
    made_folder = not path.parent.exists()

    def waits() -> None:
        on_wait(f"{output_dir} is in use by {_holder(path)}; waiting up to {patience:.0f} s for it to end")

    try:
        file = lock_file(path, patience=patience, on_wait=waits, by_process=True)
    except LocksUnsupportedError:  # a folder without write access fails where it is written to, with a better message
        return
    if file is None:
        raise WatchError(
            f"{output_dir}: needed a folder that no other training uses, and {_holder(path)} trains here; give each "
            "run an output_dir of its own, or stop the other one"
        )
    with suppress(OSError):
        os.truncate(file, 0)
        os.write(file, json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())
    _held[path] = _Held(file, os.getpid(), made_folder, set())
    _add(path, owner)


def release(output_dir: Path, owner: object, *, folder: str = RUN_FOLDER) -> None:
    """End the claim of an object on an output_dir, if it has one; with the last of them the folder is free."""
    _drop(_lock(output_dir, folder), id(owner))


def _lock(output_dir: Path, folder: str) -> Path:
    return output_dir.absolute() / f"{folder}.lock"


def _add(path: Path, owner: object) -> None:
    if id(owner) not in _held[path].owners:
        _held[path].owners.add(id(owner))
        weakref.finalize(owner, _drop, path, id(owner))


def _drop(path: Path, owner: int) -> None:
    held = _held.get(path)
    if held is None or held.process != os.getpid():  # a fork inherits the dict, and not the lock
        return
    held.owners.discard(owner)
    if not held.owners:
        _free(path)


def _free(path: Path) -> None:
    held = _held.pop(path)
    unlock_file(path, held.file)
    if held.made_folder:
        with suppress(OSError):  # unless something is in it by now
            path.parent.rmdir()


def _holder(path: Path) -> str:
    """Words for the process that has the lock."""
    try:
        found = json.loads(path.read_bytes()[:1000])
        return f"process {int(found['process'])} on {str(found['host'])[:100]}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"


@atexit.register
def _free_all() -> None:
    for path in [path for path, held in _held.items() if held.process == os.getpid()]:
        _free(path)
