"""A saved model, its cache, and the models that are loaded from it."""

from pathlib import Path
from typing import Any

import pytest
from support import model, tokenizer

from forgetwatch.scoring import cached_score as loading
from forgetwatch.scoring.model_loading import load_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the cache, which is not there yet."""
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def saved(tmp_path: Path, cache: Path) -> Path:
    """Folder of a small model with its tokenizer."""
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were loaded so far."""
    seen: list[str] = []

    def counted(given: str, **options: Any) -> Any:
        seen.append(given)
        return load_model(given, **options)

    monkeypatch.setattr(loading, "load_model", counted)
    return seen
