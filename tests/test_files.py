from __future__ import annotations

import os
from pathlib import Path

import pytest

from forgetwatch.files import write_atomically, write_text


def test_missing_folders_are_made_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "a.txt", lambda path: path.write_text("whole"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]
    assert (tmp_path / "new" / "a.txt").read_text() == "whole"


def test_a_link_is_followed_and_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomically(tmp_path / "link.txt", lambda path: path.write_text("new"))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)) as reader:
        write_atomically(tmp_path / "pipe", lambda path: path.write_text("through"))
        assert reader.read() == "through"
    assert (tmp_path / "pipe").is_fifo()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(target, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "old"


def test_any_text_is_written_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "t.txt", "a\ud800b\né")
    assert (tmp_path / "t.txt").read_bytes() == "a?b\né".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]
