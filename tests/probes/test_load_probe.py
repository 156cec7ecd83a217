from __future__ import annotations

from pathlib import Path

import pytest
from support import probe

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError


def test_a_probe_is_loaded_by_path(tmp_path: Path) -> None:
    probe().save(tmp_path / "p.jsonl")
    assert load_probe(tmp_path / "p.jsonl").fingerprint == probe().fingerprint
    assert load_probe(str(tmp_path / "p.jsonl")).name == "toy"


@pytest.mark.parametrize("name", ["standart", "none.jsonl", "."])
def test_what_is_no_probe_is_refused(name: str) -> None:
    with pytest.raises(
        ProbeError,
        match=r"no such file, and no such shipped probe; needed standard, quick, confirmation, behaviour, demo, a file",
    ):
        load_probe(name)
