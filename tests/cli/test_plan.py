"""`forgetwatch plan`: numbers of the published table, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import probe
from typer.testing import CliRunner

from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError


def plan(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", *arguments])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_items_for_a_change_and_the_change_that_items_see() -> None:
    lines = [line.split()[-3:] for line in plan("--items", "2000", "--change", "2%").splitlines()]
    assert lines[2] == ["979", "1,960", "3,923"]  # Connor, two-sided 5 %, 80 % power
    assert lines[5] == ["1.4", "2.0", "2.8"]
    looks = [float(cell) for cell in lines[7]]  # an alarm needs more: .05 over twenty looks, one-sided
    assert looks == pytest.approx([1.8, 2.6, 3.7], abs=0.15)


def test_each_category_of_a_probe_has_a_line(tmp_path: Path) -> None:
    probe(60).save(tmp_path / "p.jsonl")
    lines = [line.split() for line in plan("--probe", str(tmp_path / "p.jsonl"), "--flips", "30%").splitlines()]
    assert ["toy", "60"] in [line[:2] for line in lines]
    assert {"a", "b"} <= {line[0] for line in lines if line}


def test_a_change_larger_than_the_flips_is_said_to_be_impossible() -> None:
    assert "impossible" in plan("--change", "10%", "--flips", "0.05")
    assert "too few flips" in plan("--items", "20")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--change", "much"], "--change: needed a share above 0 and below 1, such as 2% or 0.02, got 'much'"),
        (["--change", "0"], "--change"),
        (["--flips", "120%"], "--flips"),
        (["--items", "0"], "--items: needed at least one item"),
        (["--power", "100%"], "--power"),
        (["--power", "2%"], "--power: needed at least 50%"),
        (["--looks", "0"], "--looks"),
        (["--items", "5", "--probe", "demo"], "exclude each other"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "300", "TERM": "dumb"})
    assert done.exit_code == 2
    assert says in done.output


def test_a_probe_that_is_not_there_is_one_clear_error() -> None:
    error = CliRunner().invoke(app, ["plan", "--probe", "nowhere.jsonl"]).exception
    assert isinstance(error, ForgetwatchError)
    assert "no such file" in str(error)
