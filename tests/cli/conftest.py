"""The command line in this process: `command("compare", "a.csv", "b.csv")` gives its exit status and output."""

import sys
from pathlib import Path

import pytest
from commands import Done, Run
from stub_server import stub

from forgetwatch.cli import main

__all__ = ["command", "stub"]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in a folder of its own; whatever was printed before belongs to no command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["forgetwatch", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(int(left.value.code or 0), said.out, said.err)

    return call
