"""Pools are drawn with a seed for each category, and the command runs as it is documented."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from pools import pool
from standard_probe.assemble import NAMES
from standard_probe.make import GENERATORS, pools
from standard_probe.question import Category, Question

ROOT = Path(__file__).parents[4]


def invented(category: Category) -> Callable[[random.Random], list[Question]]:
    """Questions that depend on the generator."""

    def questions(rng: random.Random) -> list[Question]:
        return pool(category, size=400, seed=rng.randrange(10**6))

    return questions


def test_the_draws_of_a_category_do_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    generators = {name: invented(category) for name, category in zip(GENERATORS, sorted(NAMES), strict=True)}  # type: ignore[arg-type]
    monkeypatch.setattr("standard_probe.make.GENERATORS", generators)
    before = pools()
    monkeypatch.setattr("standard_probe.make.GENERATORS", {name: generators[name] for name in [*generators][::-2]})
    fewer = pools()
    assert len(fewer) == 5
    assert all(before[category] == own for category, own in fewer.items())


def test_the_command_runs_from_the_root_of_the_repository() -> None:
    command = [sys.executable, "-m", "standard_probe.make", "--help"]
    helped = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"tools/probe:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "folder for the three files" in helped.stdout


def test_the_generators_are_in_the_source_distribution_and_not_in_the_wheel() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["packages"] == ["forgetwatch"]
    assert "tools" in targets["sdist"]["include"]
