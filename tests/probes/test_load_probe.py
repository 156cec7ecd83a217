"""A probe is loaded by name or path."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import probe

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.shipped import NAMES


def test_a_probe_is_loaded_by_path(tmp_path: Path) -> None:
    probe().save(tmp_path / "p.jsonl")
    assert load_probe(tmp_path / "p.jsonl").fingerprint == probe().fingerprint
    assert load_probe(str(tmp_path / "p.jsonl")).name == "toy"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("standrd", ", did you mean 'standard'[?]"),
        ("quick+behavior", ", did you mean 'behaviour'[?]"),
        ("helaswag", ", did you mean 'hellaswag'[?]"),
        ("none.jsonl", ""),
        (".", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_closest_one(name: str, near: str) -> None:
    needed = f"needed {', '.join(NAMES)}, demo, a file"
    with pytest.raises(ProbeError, match=f"no such file, and no such shipped probe{near}; {needed}"):
        load_probe(name)


def test_a_number_of_items_is_refused_with_the_command_that_makes_such_a_file() -> None:
    with pytest.raises(ProbeError, match=r"use 60 items .*`forgetwatch probe build standard --limit 60 -o few.jsonl`"):
        load_probe("standard:60")
