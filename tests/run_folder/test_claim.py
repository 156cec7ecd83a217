"""At most one process trains in an output_dir, however the processes end and whatever their ids are."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import PATIENCE

from forgetwatch.errors import WatchError
from forgetwatch.run_folder import RunFolder

HOLDS = """
import sys, time
from forgetwatch.run_folder import RunFolder
owner = RunFolder(sys.argv[1])
owner.claim(patience=0)
print("claimed", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the folder, killed at the end."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "claimed\n"
        try:
            yield made
        finally:
            made.kill()


def test_a_folder_that_another_process_has_is_refused_with_its_name_until_that_ends(
    tmp_path: Path, owner: RunFolder
) -> None:
    waits = list[str]()
    with holder(tmp_path) as other:
        with pytest.raises(WatchError, match="needed a folder that no other training uses, and another process"):
            owner.claim(patience=0.3, on_wait=waits.append)
        assert len(waits) == 1
        assert "is in use by another process; waiting" in waits[0]
        other.kill()
    owner.claim(patience=PATIENCE)


def test_a_second_training_waits_for_one_that_is_being_stopped(tmp_path: Path, owner: RunFolder) -> None:
    waits = list[str]()

    def stop(sentence: str) -> None:
        waits.append(sentence)
        other.kill()

    with holder(tmp_path) as other:
        owner.claim(patience=PATIENCE, on_wait=stop)
        assert len(waits) == 1
    owner.release()


def test_a_process_may_claim_again_and_a_released_folder_is_free(tmp_path: Path, owner: RunFolder) -> None:
    owner.claim(patience=0)
    owner.claim(patience=0)
    owner.release()
    owner.release()
    with holder(tmp_path):
        pass


FORKS = """
import os, sys
from forgetwatch.run_folder import RunFolder
owner = RunFolder(sys.argv[1])
owner.claim(patience=0)
if os.fork() == 0:
    owner.release()
    os._exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.read()
"""


def test_a_forked_worker_does_not_end_the_claim(tmp_path: Path, owner: RunFolder) -> None:
    given = [sys.executable, "-c", FORKS, str(tmp_path)]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "forked\n"
        with pytest.raises(WatchError, match="another process"):
            owner.claim(patience=0)
        other.communicate()


def test_where_there_are_no_locks_nothing_is_refused(
    tmp_path: Path, owner: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def unsupported(*_: object) -> None:
        raise OSError(37, "No locks available")

    with holder(tmp_path):
        monkeypatch.setattr(fcntl, "flock", unsupported)
        owner.claim(patience=0)
    (tmp_path / "file").touch()
    RunFolder(tmp_path / "file").claim(patience=0)  # no folder: it fails where it is written to


def test_two_owners_in_one_process_and_the_end_of_the_last_frees_the_folder(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    for one in (first, second):
        one.claim(patience=0)
    first.release()
    assert is_taken(tmp_path)
    del second, one  # a training that an exception has ended
    gc.collect()
    assert not is_taken(tmp_path)


def is_taken(folder: Path) -> bool:
    """Whether another process cannot claim a folder."""
    claim = "import sys; from forgetwatch.run_folder import RunFolder; RunFolder(sys.argv[1]).claim(patience=0)"
    return subprocess.run([sys.executable, "-c", claim, str(folder)], capture_output=True, check=False).returncode != 0
