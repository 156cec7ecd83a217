"""The command line: one file a command. A command that scores imports torch when it runs, not before.

Exit status: 0 fine, 1 an error in what was given, 2 wrong usage, 3 a gate failed, 4 inconclusive.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from forgetwatch.cli import (
    compare_command,
    convert_command,
    demo_command,
    flips_command,
    plan_command,
    probe_command,
    report_command,
    score_command,
)
from forgetwatch.errors import ForgetwatchError

app = typer.Typer(
    name="forgetwatch",
    help="See, question by question, what a language model forgets while it is fine-tuned.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo_command.run)
app.command("compare")(compare_command.run)
app.command("flips")(flips_command.run)
app.command("score")(score_command.run)
app.command("convert")(convert_command.run)
app.command("report")(report_command.run)
app.command("plan")(plan_command.run)
app.add_typer(probe_command.probe_app, name="probe")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forgetwatch {version('forgetwatch')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input becomes one line on stderr and exit status 1."""
    try:
        app()
    except (ForgetwatchError, OSError) as error:
        _fail(str(error))
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        _fail(f"unexpected {type(error).__name__}: {error} (a fault of forgetwatch; {_TRACEBACK}=1 shows where)")


_TRACEBACK = "FORGETWATCH_TRACEBACK"


def _fail(message: str) -> None:
    typer.echo(f"forgetwatch: {' '.join(message.split())}", err=True)
    sys.exit(1)
