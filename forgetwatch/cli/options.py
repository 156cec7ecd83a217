"""Options that commands share: panels of `--help`, gates, device maps, and shares such as 2%.

All are checked before the work. The path ``-`` is standard output; `cli.targets` checks the files that are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_type_hints

import typer

from forgetwatch.comparing import TOLERANCE, Tolerance
from forgetwatch.errors import GateError, ScoringError
from forgetwatch.policy import READY, Policy, limits_of, parse_fraction, parse_no_worse_than
from forgetwatch.progress import launched_count

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ITEMS: Final = "Items"
item_option = partial(typer.Option, rich_help_panel=ITEMS)
chance_option = partial(typer.Option, rich_help_panel="Chance (the tables show it with --detail)")
gate_option = partial(typer.Option, rich_help_panel="Gates")
output_option = partial(typer.Option, rich_help_panel="Output")
"""Options under the headings by which `--help` lists those of a command with many."""

JsonOption = Annotated[
    Path | None, output_option("--json", help="Write all numbers as JSON to this file; - for stdout.")
]
ReportOption = Annotated[
    Path | None, output_option("--output", "-o", help="Write a report: .html, .md, .csv or .json.")
]
FailIfOption = Annotated[
    list[str] | None,
    gate_option(help="Exit with status 3 if this holds, such as category:Math.forgetting>5%; may be repeated."),
]
NoWorseThanOption = Annotated[
    str | None,
    gate_option(
        help="Exit with status 3 if accuracy fell by more than this (2%), with 4 if that is not clear; "
        "2%,known=5%,category=5% also limits what is lost of the clearly known, and in each category."
    ),
]
PolicyOption = Annotated[str | None, gate_option(help=f"Policy: a YAML file, or a shipped one: {', '.join(READY)}.")]
ToleranceOption = Annotated[
    str | None,
    gate_option(
        help="Losses that the verdict tolerates, as for --no-worse-than; default: the limits', else "
        "2%,known=5%,category=5%."
    ),
]

STDOUT: Final = Path("-")
_Options = TypeVar("_Options", bound="DataclassInstance")

TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")]
DeviceMapOption = Annotated[
    Literal["auto"] | None,
    typer.Option(help="Spread a scored model that is larger than one GPU over all GPUs, then the CPU and the disk."),
]


def check_device_map(given: str | None) -> None:
    """Raise ScoringError for a device map in several processes, which share no GPUs."""
    # The launcher's variable: no process group exists yet.
    if given is not None and (count := launched_count()) > 1:
        raise ScoringError(f"--device-map spreads one model over all GPUs; needed one process, got {count}")


def share(text: str, option: str) -> float:
    """Return the share between 0 and 1 that an option gives as 2% or 0.02; another text is wrong usage."""
    try:
        value = parse_fraction(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise typer.BadParameter(f"{option}: needed a share above 0 and below 1, such as 2% or 0.02, got {text!r}")
    return value


def limits(*, fail_if: Sequence[str] | None, no_worse_than: str | None, policy: Policy | None = None) -> Policy | None:
    """Return the limits of --fail-if and --no-worse-than, and of a policy; None for none.

    Raises:
        GateError: If a condition cannot be read.
        typer.BadParameter: If the tolerance is not a share.
    """
    if no_worse_than is not None:
        _check_tolerance(no_worse_than, "--no-worse-than")
    if not fail_if and no_worse_than is None:
        return policy
    return limits_of(fail_if=fail_if or (), no_worse_than=no_worse_than, policy=policy)


def tolerated(text: str | None, limited: Policy | None = None) -> Tolerance:
    """Return the losses that a verdict tolerates: those of --tolerance; else of the limits, or the default."""
    if text is not None:
        _check_tolerance(text, "--tolerance")
        return limits_of(no_worse_than=text).tolerance
    return TOLERANCE if limited is None else limited.tolerance


def _check_tolerance(text: str, option: str) -> None:
    try:
        parse_no_worse_than(text)
    except GateError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


def command_of(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Make a command of a function of one dataclass, whose fields are the command's parameters.

    A field is annotated as a parameter of typer is: `Annotated[type, typer.Option(...)]`.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]

    def decorated(run: Callable[[_Options], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**given: Any) -> None:
            run(options(**given))

        vars(command)["__signature__"] = Signature(parameters)  # which typer reads
        return command

    return decorated
