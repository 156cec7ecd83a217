"""Folders of points: removed with the process that made them, also if it was killed; never those of a live one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forgetwatch.errors import ScoringError
from forgetwatch.study.merging import check_disk, own_folder, partial_name, remove_abandoned, temporary_name

_WRITING = """
import sys, time
from pathlib import Path
from forgetwatch.study.merging import own_folder, partial_name, temporary_name
path = partial_name(Path(sys.argv[1])) if sys.argv[1:] else temporary_name()
with own_folder(path) as folder:
    (folder / "model.safetensors").write_bytes(b"0" * 1000)
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def _process(folder: Path, *given: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Context of a process that writes a point until it is killed, and of its folder."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", _WRITING, *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        try:
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def test_a_point_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not(temporary: Path) -> None:
    with _process(temporary) as (running, point):
        assert remove_abandoned(None) == []
        assert (point / "model.safetensors").is_file()
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert (point / "model.safetensors").is_file()
        assert remove_abandoned(None) == [point]
    assert os.listdir(temporary) == []


def test_a_half_written_point_that_was_to_be_kept_is_removed_and_others_are_not(
    temporary: Path, tmp_path: Path
) -> None:
    keep = tmp_path / "kept"
    for name in ("linear-0.2", ".linear-0.5.beef.partial", ".other"):
        (keep / name).mkdir(parents=True)
    with _process(temporary, str(keep / "linear-0.8")) as (running, point):
        assert point.parent == keep
        assert remove_abandoned(keep) == []
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert remove_abandoned(None) == []
        assert remove_abandoned(keep) == [point]
    # Without a lock nothing says that its process is gone.
    assert sorted(os.listdir(keep)) == [".linear-0.5.beef.partial", ".other", "linear-0.2"]


def test_a_folder_is_removed_at_the_end_also_after_an_error_and_stays_once_renamed(
    temporary: Path, tmp_path: Path
) -> None:
    def interrupted() -> None:
        with own_folder(temporary_name()) as folder:
            (folder / "model.safetensors").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    kept = tmp_path / "kept" / "linear-0.5"
    with own_folder(partial_name(kept)) as folder:
        folder.rename(kept)
    assert os.listdir(temporary) == []
    assert os.listdir(tmp_path / "kept") == ["linear-0.5"]


def test_others_cannot_read_a_point_among_temporary_files(temporary: Path) -> None:
    with own_folder(temporary_name()) as folder:
        assert folder.stat().st_mode & 0o077 == 0


def test_a_link_in_place_of_a_folder_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept.txt").touch()
    (temporary / "forgetwatch-merge-1").symlink_to(tmp_path / "mine")
    (temporary / "forgetwatch-merge-1.lock").touch()
    assert remove_abandoned(None) == []
    assert (tmp_path / "mine" / "kept.txt").is_file()


def test_a_disk_that_is_too_small_is_told_with_both_sizes(tmp_path: Path) -> None:
    check_disk(tmp_path, 1, models=2)
    with pytest.raises(ScoringError, match=r"needed 2,097,152\.00 GiB for 2 merged models, [\d,.]+ GiB are free"):
        check_disk(tmp_path, 2**50, models=2)
    half = shutil.disk_usage(tmp_path).free // 2
    check_disk(tmp_path, half, models=1)
    with pytest.raises(ScoringError, match="for 4 merged models"):
        check_disk(tmp_path, half, models=4)
