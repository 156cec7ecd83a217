from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forgetwatch.cli import app, main

COMMANDS = ("demo", "compare", "score", "convert", "flips", "report", "plan")


def test_every_command_explains_itself_and_each_of_its_options() -> None:
    helped = CliRunner().invoke(app, ["--help"]).stdout
    for name in COMMANDS:
        assert name in helped
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
    assert {command.name for command in app.registered_commands} == set(COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == f"forgetwatch {version('forgetwatch')}"


def test_a_fault_of_ours_is_one_line_and_shows_more_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("forgetwatch.cli.app", fail)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("forgetwatch: unexpected ZeroDivisionError: a b (a fault of forgetwatch;")
    monkeypatch.setenv("FORGETWATCH_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_an_error_of_ours_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["forgetwatch", "compare", str(tmp_path / "no\nne.csv"), "b.csv"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
