"""`forgetwatch plan`: numbers of the published table, and refusals."""

from __future__ import annotations

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
    shown = plan("--items", "2000", "--change", "2%")
    assert shown.splitlines()[1].split()[-3:] == ["979", "1,960", "3,923"]
    assert shown.splitlines()[3].split()[-3:] == ["1.4", "2.0", "2.8"]


def test_each_category_of_a_probe_has_a_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    probe(60).save(tmp_path / "p.jsonl")
    lines = [line.split() for line in plan("--probe", str(tmp_path / "p.jsonl"), "--flips", "30%").splitlines()]
    assert ["toy", "60"] in [line[:2] for line in lines]
    assert {"a", "b"} <= {line[0] for line in lines if line}


def test_a_change_larger_than_the_flips_is_said_to_be_impossible() -> None:
    assert "more than flip" in plan("--change", "10%", "--flips", "0.05")
    assert "too few flips" in plan("--items", "20")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--change", "much"], "--change: needed a share such as 2% or 0.02, got 'much'"),
        (["--change", "0"], "--change"),
        (["--flips", "120%"], "--flips"),
        (["--items", "0"], "--items: needed at least one item"),
        (["--power", "1"], "--power"),
        (["--looks", "0"], "--looks"),
        (["--items", "5", "--probe", "demo"], "not both"),
        (["--probe", "nowhere.jsonl"], "no such file"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: list[str], says: str) -> None:
    error = CliRunner().invoke(app, ["plan", *arguments]).exception
    assert isinstance(error, ForgetwatchError)
    assert says in str(error)
