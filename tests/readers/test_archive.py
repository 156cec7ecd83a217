"""Members of ZIP files: every packing that logs use, and nothing that breaks or fills the machine."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zips import DEFLATED, STORED, ZSTANDARD, write_zip

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import Archive

TEXT = b"what a log says, and says again. " * 50_000


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_members_are_read_unchanged(tmp_path: Path, method: int) -> None:
    members = {"header.json": b"{}", "samples/ü_1.json": "ä".encode() * 9, "empty": b"", "large": TEXT}
    with Archive(
        write_zip(tmp_path / "a", {k: v for k, v in members.items() if k.isascii()}, method=method)
    ) as archive:
        for name in archive.names:
            assert archive.read(name) == members[name]
    assert len(archive.names) == 3


def test_archives_of_pythons_zipfile_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("samples/ü_1.json", TEXT)
    with Archive(tmp_path / "a") as archive:
        assert archive.read("samples/ü_1.json") == TEXT


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_member_above_the_limit_is_refused_before_it_fills_memory(tmp_path: Path, method: int) -> None:
    path = write_zip(tmp_path / "bomb", {"summaries.json": bytes(150 * 2**20)}, method=method)
    tracemalloc.start()
    with Archive(path) as archive, pytest.raises(SnapshotError, match=r"'summaries\.json' grows from .* no log does"):
        archive.read("summaries.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 145 * 2**20


def test_the_limit_counts_all_members_together(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "bombs", {f"{i}": bytes(40 * 2**20) for i in range(2)}, method=ZSTANDARD)
    with Archive(path) as archive:
        archive.read("0")
        with pytest.raises(SnapshotError, match="'1' grows from"):
            archive.read("1")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    for method in (DEFLATED, ZSTANDARD):
        path = write_zip(tmp_path / "a", {"x": TEXT}, method=method, flags=1)
        with Archive(path) as archive, pytest.raises(SnapshotError, match="'x' is encrypted"):
            archive.read("x")


def test_an_unknown_packing_is_refused_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x", TEXT)
    with Archive(tmp_path / "a") as archive, pytest.raises(SnapshotError, match="ZIP method 14"):
        archive.read("x")


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_a_wrong_size_in_the_directory_is_refused(tmp_path: Path, method: int) -> None:
    path = write_zip(tmp_path / "a", {"x": TEXT}, method=method, size=3)
    with Archive(path) as archive, pytest.raises(SnapshotError, match="its member 'x', and it cannot be read"):
        archive.read("x")


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_huge_size_in_the_directory_reserves_no_memory(tmp_path: Path, method: int) -> None:
    with Archive(write_zip(tmp_path / "a", {"x": TEXT}, method=method, size=2**31)) as archive:
        assert archive.read("x") == TEXT


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_damaged_archive_gives_the_content_or_one_sentence(tmp_path: Path, method: int, data: st.DataObject) -> None:
    path = write_zip(tmp_path / "a", {"header.json": b"{}", "x": TEXT[:999]}, method=method)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    assert error_start(path) in ("", f"{path}: ...")


def error_start(path: Path) -> str:
    """Beginning of the error about a file; empty where all of it is read."""
    try:
        with Archive(path) as archive:
            for name in archive.names:
                archive.read(name)
    except SnapshotError as error:
        return f"{path}: ..." if str(error).startswith(f"{path}: ") else str(error)
    return ""
