"""At most one process trains in an output_dir, however the processes end and whatever their ids are."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forgetwatch.errors import WatchError
from forgetwatch.run_folder import claim

HOLDS = """
import sys, time
from pathlib import Path
from forgetwatch.run_folder import claim
claim.claim(Path(sys.argv[1]), patience=0)
print("claimed", flush=True)
time.sleep(60)
"""

LOCK = "_forgetwatch.lock"


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the folder, killed at the end."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "claimed\n"
        yield made
        made.kill()


def test_a_folder_that_another_process_has_is_refused_with_its_name_until_that_ends(tmp_path: Path) -> None:
    waits = list[str]()
    with holder(tmp_path) as other:  # killed at the end, so without a cleanup of its own
        says = rf"needed a folder that no other training uses, and process {other.pid} on "
        with pytest.raises(WatchError, match=says):
            claim.claim(tmp_path, patience=0.3, on_wait=waits.append)
        assert len(waits) == 1
        assert f"is in use by process {other.pid} on " in waits[0]
    claim.claim(tmp_path, patience=0)
    claim.release(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_a_second_training_waits_for_one_that_is_being_stopped(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        killer = threading.Timer(0.5, other.kill)
        killer.start()
        began = time.monotonic()
        claim.claim(tmp_path, patience=20)
        assert time.monotonic() - began > 0.3
        killer.join()
    claim.release(tmp_path)


def test_a_process_may_claim_again_and_a_released_folder_is_free(tmp_path: Path) -> None:
    claim.claim(tmp_path, patience=0)
    claim.claim(tmp_path, patience=0)
    claim.release(tmp_path)
    claim.release(tmp_path)
    with holder(tmp_path):
        pass


FORKS = """
import os, sys
from pathlib import Path
from forgetwatch.run_folder import claim
folder = Path(sys.argv[1])
claim.claim(folder, patience=0)
if os.fork() == 0:
    claim.release(folder)
    os._exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.read()
"""


def test_a_forked_worker_does_not_end_the_claim(tmp_path: Path) -> None:
    given = [sys.executable, "-c", FORKS, str(tmp_path)]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "forked\n"
        with pytest.raises(WatchError, match=f"process {other.pid} "):
            claim.claim(tmp_path, patience=0)
        other.communicate()
    assert not (tmp_path / LOCK).exists()


def test_a_claim_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    claim.claim(tmp_path / "a" / "b", patience=0)
    claim.release(tmp_path / "a" / "b")
    assert not (tmp_path / "a" / "b").exists()


def test_where_there_are_no_locks_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*_: object) -> None:
        raise OSError(37, "No locks available")

    with holder(tmp_path):
        monkeypatch.setattr(fcntl, "lockf", unsupported)
        claim.claim(tmp_path, patience=0)
    (tmp_path / "file").touch()
    claim.claim(tmp_path / "file", patience=0)  # no folder: it fails where it is written to
