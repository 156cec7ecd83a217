from __future__ import annotations

from pathlib import Path

import pytest

from forgetwatch.files import write_atomically


def test_the_folder_is_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "a.txt", lambda path: path.write_text("whole"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]
    assert (tmp_path / "new" / "a.txt").read_text() == "whole"


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
