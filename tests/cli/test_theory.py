"""`forgetwatch theory` prints the laboratory's table."""

from __future__ import annotations

from typer.testing import CliRunner

from forgetwatch.cli import app


def test_the_table_is_printed() -> None:
    told = CliRunner().invoke(app, ["theory"], catch_exceptions=False).stdout.splitlines()
    assert told[0].startswith("old mass at t = 400, from 0.9; drift: how far the old mode moved at most")
    assert "TTT-Discover, broken  mass           0.946        0.915        0.848        0.277        0.004" in told
    assert max(map(len, told[:-1])) <= 100
