"""The command line, a module for each command; `demo` is here.

The module of a command is imported when that command runs, and torch when it scores: help and
version take little time.

Processes of a launcher (torchrun, accelerate) share the work of the commands that score; of any
other command, the first process does all. That one prints and writes; an error is printed once.

Exit status: 0 fine, 1 an error in the input, 2 wrong usage, 3 a gate failed, 4 inconclusive. An
error is one line on standard error.
"""

import io
import os
import re
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from forgetwatch.errors import ForgetwatchError, ReportedElsewhereError, did_you_mean
from forgetwatch.extras import install, missing
from forgetwatch.progress import is_first_process
from forgetwatch.version import VERSION
from forgetwatch.visible_text import visible

_TRACEBACK: Final = "FORGETWATCH_TRACEBACK"
_STOPPED: Final = 130
"""Exit status after Ctrl-C."""
_USAGE_ERROR: Final = typer.BadParameter.__mro__[1]
"""Base of all errors of wrong usage; typer exports only this child of it."""

COMMANDS: Final = {
    "compare": (
        "Compare two models question by question: the answers forgotten and gained, and how "
        "much of it is chance."
    ),
    "gate": "Judge two models by a policy: limits in three tiers, with one error for all of them together.",
    "flips": "Show the items whose answer changed: question, right answer, and the answers before and after.",
    "score": "Score a model on a probe, and write a snapshot with one row for each item.",
    "follow": "Score each checkpoint of a training once, as soon as it is saved, from a process of its own.",
    "convert": "Write one snapshot from the logs of other tools, or from any table by naming its columns.",
    "report": "Show a run: the last look against the start, its alarms, what to do, and the path of its page.",
    "study": "Compare many pairs of models: what each training step forgot and gained, by category, size and data.",
    "merge": "Average the weights of two models at several shares, and show what each point has lost of either.",
    "replay": "Write texts of a base model for replay: whole, each once, without any question of the probe.",
    "probe": "List, show, build and check probes.",
    "cache": "List or clear the cache of baselines and scored checkpoints.",
}
"""Commands in modules of their own, and the first sentence of their help."""


class _Commands(TyperGroup):
    """Commands that are imported when they run; until then each has its first sentence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update(
            {name: TyperCommand(name, help=help_text) for name, help_text in COMMANDS.items()}
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is named."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _imported(args[0])
        return super().resolve_command(ctx, args)


def _imported(name: str) -> Any:
    module = import_module(f"forgetwatch.cli.{name}")
    command_app = getattr(module, f"{name}_app", None)
    if command_app is None:
        command_app = typer.Typer(
            add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
        )
        command_app.command(name)(getattr(module, f"{name}_command"))
    command = typer.main.get_command(command_app)
    command.name = name
    return command


app = typer.Typer(
    name="forgetwatch",
    cls=_Commands,
    help="See, question by question, what a language model forgets while it is fine-tuned.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
_NEEDED_BY_DEMO: Final = ("torch", "transformers", "trl", "datasets")


@app.command("demo")
def _demo(
    output: Annotated[Path, typer.Option(help="Folder that everything is written to.")] = Path(
        "forgetwatch-demo"
    ),
    report_to: Annotated[
        str, typer.Option(help="Tracker of the Trainer: wandb, tensorboard, ..., or none.")
    ] = "none",
) -> None:
    """Watch a small model forget: train one, fine-tune it, and see question by question what it loses."""
    if lacking := [name for name in _NEEDED_BY_DEMO if find_spec(name) is None]:
        raise ForgetwatchError(
            f"the demo trains a model and needs {', '.join(lacking)}: {install('trl')}"
        )
    # Before transformers is imported, which reads these variables once.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # The imports take seconds, in which a silent command would seem to hang.
    Console(stderr=True).print("loading torch, transformers and trl ...", style="dim")
    from forgetwatch.cli.output import echo
    from forgetwatch.demo import TUNE_STEPS, run_demo
    from forgetwatch.run_folder.description import PROBE, RUN_FOLDER

    written = run_demo(output, report_to=report_to)
    probe = written.run / RUN_FOLDER / PROBE
    echo(f"\npictures: {', '.join(map(str, written.pictures))}")
    echo(f"models:   {written.base}, {written.run}/checkpoint-*")
    echo("the same comparison from the saved checkpoints:")
    last_checkpoint = written.run / f"checkpoint-{TUNE_STEPS}"
    echo(f"  forgetwatch compare {written.base} {last_checkpoint} --probe {probe}")


_SHARED: Final = ("demo", "score", "compare", "gate", "follow", "study", "merge")
"""Commands whose work several processes share, and which begin the group, or a trainer that does.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forgetwatch {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if not is_first_process() and ctx.invoked_subcommand not in _SHARED:
        raise typer.Exit


def main() -> None:  # noqa: C901
    """Run the command line.

    An error becomes one line on standard error, and the exit status.
    """
    formatted = warnings.formatwarning
    # Warnings quote names and paths as errors do.
    warnings.formatwarning = lambda *arguments, **options: visible(formatted(*arguments, **options))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # an output may hold what the terminal's encoding has not
            stream.reconfigure(errors="backslashreplace")
    if "" in sys.argv[1:]:
        _fail("an argument is empty; a variable of the shell may be unset", status=2)
    if not is_first_process():  # the first process of the launcher prints results and warnings
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        warnings.simplefilter("ignore")
        os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    try:
        status = app(standalone_mode=False)
    except typer.Abort:
        _fail("stopped", status=_STOPPED)
    except ReportedElsewhereError as error:
        sys.exit(2 if isinstance(error.__cause__, _USAGE_ERROR) else 1)
    except OSError as error:
        has_file = error.strerror and error.filename is not None
        _fail(f"{error.filename!s:.100}: {error.strerror}" if has_file else str(error), status=1)
    except ForgetwatchError as error:
        _fail(str(error), status=1)
    except Exception as error:
        if isinstance(error, _USAGE_ERROR):
            message = (
                cast(typer.BadParameter, error)
                .format_message()
                .replace("Value error, ", "")
                .removeprefix("Invalid value: ")
                .rstrip(".")
            )
            if choice := re.search(r"'([^']*)' is not one of (.*)", message):
                message += did_you_mean(choice[1], re.findall(r"'([^']*)'", choice[2]))
            if message.endswith("No such option: --policy"):
                message += "; `forgetwatch gate` and `report` judge by a policy"
            _fail(message, status=2)
        if os.environ.get(_TRACEBACK):
            raise
        _fail(_unexpected(error), status=1)
    finally:
        warnings.formatwarning = formatted
    sys.exit(status if isinstance(status, int) else 0)


def _unexpected(error: Exception) -> str:
    if sentence := missing(error, needed_by="this command", training="follow" in sys.argv[1:2]):
        return sentence
    if (package := type(error).__module__.partition(".")[0]) in ("wandb", "trackio", "mlflow"):
        return f"{package}: {error}"
    return f"unexpected {type(error).__name__}: {error} (a bug in forgetwatch; {_TRACEBACK}=1 shows where)"


def _fail(message: str, *, status: int) -> None:
    from forgetwatch.cli.output import reports_errors

    # The help that a command without arguments prints is no error message.
    if message and reports_errors():
        typer.echo(f"forgetwatch: {visible(' '.join(message.split()))}", err=True)
    sys.exit(status)
