"""`forgetwatch theory` prints the laboratory's table and draws its picture."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from forgetwatch.cli import app


def test_the_table_is_printed_and_the_picture_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "theory.svg"
    done = CliRunner().invoke(app, ["theory", "--picture", str(picture)], catch_exceptions=False)
    told = done.stdout.splitlines()
    assert told[0].startswith("old mass at t = 400, from 0.9; drift: how far the old mode moved at most")
    assert "TTT-Discover, broken  mass           0.946        0.915        0.848        0.277        0.004" in told
    assert max(map(len, told[:-1])) <= 100
    assert picture.read_text().startswith("<?xml")


def test_a_picture_of_another_kind_is_refused_before_the_work(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["theory", "--picture", str(tmp_path / "theory.gif")])
    assert done.exit_code == 1
    assert "needed a picture that ends in" in done.output + str(done.exception)
