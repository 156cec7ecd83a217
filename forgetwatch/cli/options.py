"""Options that commands share: panels of `--help`, gates, device maps, and shares such as 2%.

All are checked before the work. The path ``-`` is standard output; `cli.targets` checks the files that are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from forgetwatch.comparing import Tolerance
from forgetwatch.errors import ScoringError, did_you_mean
from forgetwatch.gates import (
    Condition,
    FailIf,
    Gate,
    Limit,
    NoWorseThan,
    parse_fraction,
    parse_no_worse_than,
    read_gate,
)
from forgetwatch.probe import Probe
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
GateOption = Annotated[Path | None, gate_option(help="YAML file of limits to check.")]
ToleranceOption = Annotated[
    str | None,
    gate_option(
        help="Losses that the verdict tolerates, as for --no-worse-than; default: the gate's, else "
        "2%,known=5%,category=5%."
    ),
]
SummaryOption = Annotated[Path | None, gate_option(help="Write the results of the gates to this Markdown file.")]

STDOUT: Final = Path("-")
DEVICE_MAPS: Final = ("auto",)
_Options = TypeVar("_Options", bound="DataclassInstance")

TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")]


def device_map_option(panel: str | None = None) -> Any:
    """Return the option of typer for `--device-map`, under one of the headings."""
    return typer.Option(
        help="Spread a scored model that is larger than one GPU over all GPUs, then the CPU and the disk: auto.",
        rich_help_panel=panel,
    )


def check_device_map(given: str | None) -> None:
    """Raise ScoringError for another value than `--device-map` has, and for several processes, which share no GPUs."""
    if given is None:
        return
    if given not in DEVICE_MAPS:
        near = did_you_mean(given, DEVICE_MAPS)
        raise ScoringError(f"--device-map {given}: needed {' or '.join(DEVICE_MAPS)}{near}")
    # The launcher's variable: no process group exists yet.
    if (count := launched_count()) > 1:
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


def tolerances(text: str, option: str) -> list[NoWorseThan]:
    """Return the limits of an option such as 2%, or 2%,known=5%,category=5%; another text is wrong usage."""
    try:
        return parse_no_worse_than(text)
    except ValueError:
        raise typer.BadParameter(
            f"{option}: needed a share above 0 and below 1, such as 2% or 0.02, or 2%,known=5%,category=5%, "
            f"got {text!r}"
        ) from None


def tolerated(text: str | None, limits: Gate) -> Tolerance:
    """Return the losses that a verdict tolerates: those of --tolerance; else of the gate, or the default."""
    return limits.tolerance if text is None else Gate(limits=tuple(tolerances(text, "--tolerance"))).tolerance


def limits_of(
    *, file: Path | None, fail_if: Sequence[str] | None, no_worse_than: str | None, probe: Probe | None
) -> Gate:
    """Return the gate of --gate, --fail-if and --no-worse-than together.

    The file may mark items of a probe that must pass.

    Raises:
        GateError: If the file or a condition cannot be read.
        typer.BadParameter: If the tolerance is not a share.
    """
    gate = Gate() if file is None else read_gate(file, probe)
    limits: list[Limit] = [FailIf(condition=Condition.parse(text)) for text in fail_if or ()]
    if no_worse_than is not None:
        limits += tolerances(no_worse_than, "--no-worse-than")
    return replace(gate, limits=(*gate.limits, *limits))


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
