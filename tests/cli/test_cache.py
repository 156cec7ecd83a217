from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from commands import Run
from support import snapshot

from forgetwatch import cache as module
from forgetwatch.cache import CacheEntry, MeasuredParts, cache_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    for number, model in enumerate(("first", "second")):
        entry = CacheEntry.of([model])
        entry.write(snapshot([True, False], meta={"model": model, "probe": {"name": "quick"}}))
        os.utime(entry.path, (1e9 + number, 1e9 + number))
    (tmp_path / "cache" / "mine.parquet").write_bytes(b"not ours")
    return tmp_path / "cache"


def test_the_entries_are_listed_and_cleared_and_other_files_stay(folder: Path, command: Run) -> None:
    cache_files(folder)[0].write_bytes(b"damaged")
    (folder / f"{'0' * 32}-0of1.parts").write_bytes(b"parts")
    shown = command("cache", "list").stdout
    assert "damaged, and never used" in shown
    assert "quick" in shown
    assert "(measured in part; a new start continues)" in shown
    assert f"3 entries, 0.0 MB of at most 2.1 GB, in {folder}" in shown
    assert "3 entries deleted" in command("cache", "clear").stdout
    assert [path.name for path in folder.iterdir()] == ["mine.parquet"]
    assert "0 entries" in command("cache", "list").stdout


def test_what_was_used_least_lately_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CacheEntry.of(["first"]).read() is not None  # used now
    monkeypatch.setattr(module, "LIMIT", sum(file.stat().st_size for file in cache_files(folder)) + 10)
    CacheEntry.of(["third"]).write(snapshot([True, False]))
    kept = {name for name in ("first", "second", "third") if CacheEntry.of([name]).read() is not None}
    assert kept == {"first", "third"}


def test_parts_that_a_full_disk_tore_hide_none_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    path, keys = tmp_path / "a.parts", range(5)
    parts = MeasuredParts(path)
    parts.write(b"0" * 100, 0)
    unlimited, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, unlimited[1]))
        parts.write(b"1" * 100, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        signal.signal(signal.SIGXFSZ, before)
    for key in keys[2:]:
        parts.write(str(key).encode() * 100, key)
    again = MeasuredParts(path)
    assert [again.peek(key) for key in keys] == [str(key).encode() * 100 for key in keys]


def test_any_flipped_bit_ends_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    path = tmp_path / "a.parts"
    parts = MeasuredParts(path)
    for key in range(2):
        parts.write(b"part", key)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        assert len(MeasuredParts(path)) == (0 if bit < 4 * len(whole) else 1)
