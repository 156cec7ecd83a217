from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import Run
from rich.cells import cell_len
from typer.testing import CliRunner

from forgetwatch.cli import COMMANDS, app, main
from forgetwatch.cli.probe import probe_app


def test_every_command_explains_itself_and_each_of_its_options() -> None:
    helped = CliRunner().invoke(app, ["--help"]).stdout
    words = " ".join(helped.replace("│", " ").split())
    files = Path(__file__).parent.parent.parent.joinpath("forgetwatch", "cli").glob("*.py")
    found = {name for file in files for name in re.findall(r"^def (\w+)_command\(", file.read_text(), re.MULTILINE)}
    of_probe = {command.name for command in probe_app.registered_commands}
    assert found - of_probe | {"probe", "cache"} == set(COMMANDS)
    for name, text in {"demo": "Watch a small model forget: train one, fine-tune it,", **COMMANDS}.items():
        assert f"{name} {text}" in words
        own = CliRunner().invoke(app, [name, "--help"])
        assert own.exit_code == 0
        assert text in " ".join(own.stdout.split())


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == f"forgetwatch {version('forgetwatch')}"


def test_an_unexpected_error_is_one_line_unless_its_traceback_is_wanted(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("forgetwatch.cli.app", fail)
    assert command().stderr.startswith("forgetwatch: unexpected ZeroDivisionError: a b (a bug in forgetwatch;")
    monkeypatch.setenv("FORGETWATCH_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_a_package_that_the_base_installation_lacks_is_named_with_the_remedy(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    monkeypatch.setattr("forgetwatch.cli.app", fail)
    done = command()
    assert done.status == 1
    assert done.stderr.startswith("forgetwatch: this command needs the package torch, which is not installed: pip")
    assert "bug" not in done.stderr


def test_an_expected_error_is_one_line_without_a_traceback_and_keeps_its_brackets(command: Run) -> None:
    done = command("compare", "no\nne.csv", "b.csv")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "[red]a[/].csv: no such file or folder" in command("compare", "[red]a[/].csv", "b.csv").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "a.csv"], "Missing argument"),
        (["compare", "a.csv", "b.csv", "--by", "categry"], "did you mean 'category'?"),
        (["compare", "a.csv", "b.csv", "--jsn", "x"], "--json"),
        (["comparee"], "compare"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_two(command: Run, arguments: list[str], says: str) -> None:
    done = command(*arguments)
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("forgetwatch: ")
    assert says in done.stderr


def test_help_without_a_command_is_no_error_message(command: Run) -> None:
    done = command()
    assert done.status == 2
    assert "Usage:" in done.stdout + done.stderr
    assert "forgetwatch: " not in done.stderr


@pytest.mark.parametrize("named", [[], *([name] for name in COMMANDS), ["probe", "build"], ["probe", "check"]])
def test_help_fits_eighty_columns_and_loses_no_brackets(named: list[str]) -> None:
    shown = CliRunner().invoke(app, [*named, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert "[/" not in shown
    assert "[bold" not in shown


def test_the_options_of_compare_are_in_panels() -> None:
    shown = CliRunner().invoke(app, ["compare", "--help"]).stdout
    panels = [line.split()[1] for line in shown.splitlines() if line.startswith("╭─")]
    assert panels == ["Arguments", "Options", "Items", "Chance", "Gates", "Output"]
