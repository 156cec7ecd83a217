from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import Run
from support import snapshot

from forgetwatch import cache as module
from forgetwatch.cache import CacheEntry, cache_files


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
    shown = command("cache", "list").stdout
    assert "damaged, and never used" in shown
    assert "quick" in shown
    assert f"2 entries, 0.0 MB of at most 2.1 GB, in {folder}" in shown
    assert "2 entries deleted" in command("cache", "clear").stdout
    assert [path.name for path in folder.iterdir()] == ["mine.parquet"]
    assert "0 entries" in command("cache", "list").stdout


def test_what_was_used_least_lately_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CacheEntry.of(["first"]).read() is not None  # used now
    monkeypatch.setattr(module, "LIMIT", sum(file.stat().st_size for file in cache_files(folder)) + 10)
    CacheEntry.of(["third"]).write(snapshot([True, False]))
    kept = {name for name in ("first", "second", "third") if CacheEntry.of([name]).read() is not None}
    assert kept == {"first", "third"}
