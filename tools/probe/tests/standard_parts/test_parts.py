"""Every probe next to `standard` is made again from its generator, and has a card with its figures."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from standard_parts.make import PARTS, write_parts
from standard_probe.card import with_figures

from forgetwatch import load_probe
from forgetwatch.probes.shipped import CANARY, FILES

ROOT = Path(__file__).parents[4]
SHIPPED = files("forgetwatch.probes.shipped")


@pytest.mark.parametrize("name", PARTS)
def test_make_reproduces_the_frozen_file_and_the_card(name: str, tmp_path: Path) -> None:
    write_parts(tmp_path, [name])
    made = gzip.decompress((tmp_path / FILES[name]).read_bytes())
    assert made == gzip.decompress(SHIPPED.joinpath(FILES[name]).read_bytes())
    card = f"cards/{name}.md"
    assert (tmp_path / card).read_text("utf-8") == SHIPPED.joinpath(card).read_text("utf-8")


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_the_canary_in_its_file_and_its_card(name: str) -> None:
    probe, card = load_probe(name), SHIPPED.joinpath(f"cards/{name}.md").read_text("utf-8")
    assert (probe.name, probe.canary) == (name, CANARY)
    assert CANARY in card
    assert with_figures(card, [probe]) == card


def test_the_command_runs_from_the_root_of_the_repository() -> None:
    command = [sys.executable, "-m", "standard_parts.make", "--help"]
    helped = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"tools/probe:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "folder for the files" in helped.stdout
