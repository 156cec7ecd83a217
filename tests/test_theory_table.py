"""`python -m forgetwatch.theory` prints the laboratory's table."""

from __future__ import annotations

import runpy

import pytest


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("forgetwatch.theory", run_name="__main__")
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("old mass at t = 400, from 0.9; drift: how far the old mode moved at most")
    assert "TTT-Discover, broken  mass           0.946        0.915        0.848        0.277        0.004" in told
    assert max(map(len, told[:-1])) <= 100
