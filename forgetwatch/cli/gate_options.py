"""The gate of `compare` and of `report`: options become one gate, and its results become the exit status.

--gate FILE, --fail-if CONDITION, --no-worse-than 2%  ─▶ Gate ─▶ one line a comparison, Markdown, exit status
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from forgetwatch.cli.options import gate_option, share
from forgetwatch.cli.output import echo
from forgetwatch.comparing import Word, worst
from forgetwatch.errors import GateError
from forgetwatch.files import write_text
from forgetwatch.gates import Condition, FailIf, Gate, GateResult, Limit, NoWorseThan, read_gate
from forgetwatch.probe import Probe
from forgetwatch.progress import is_first_process
from forgetwatch.report import ci_summary

FailIfOption = Annotated[
    list[str] | None,
    gate_option(help="Exit with status 3 if this holds, such as category:Math.forgetting>5%; may be repeated."),
]
NoWorseThanOption = Annotated[
    str | None,
    gate_option(help="Exit with status 3 if accuracy fell by more than this (2%), with 4 if that is not clear."),
]
GateOption = Annotated[Path | None, gate_option(help="YAML file of limits to check.")]
SummaryOption = Annotated[Path | None, gate_option(help="Write the results of the gates to this Markdown file.")]

_EXIT: Final[dict[Word, int]] = {"PASS": 0, "FAIL": 3, "INCONCLUSIVE": 4}
"""Exit status by verdict."""
_STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def limits_of(*, file: Path | None, fail_if: Sequence[str], no_worse_than: str | None, probe: Probe | None) -> Gate:
    """Gate of --gate, --fail-if and --no-worse-than together.

    Args:
        file: The gate file.
        fail_if: Conditions.
        no_worse_than: A tolerance over all items.
        probe: The probe of which ``must_pass: true`` in the file marks items.

    Raises:
        GateError: If the file or a condition cannot be read.
        typer.BadParameter: If the tolerance is not a share.
    """
    gate = Gate() if file is None else read_gate(file, probe)
    limits: list[Limit] = [FailIf(condition=Condition.parse(text)) for text in fail_if]
    if no_worse_than is not None:
        limits.append(NoWorseThan(tolerance=share(no_worse_than, "--no-worse-than")))
    return replace(gate, limits=(*gate.limits, *limits))


def conclude(results: Sequence[GateResult], *, summary: Path | None, to_stderr: bool) -> int:
    """Print the results of the gate, write its summary, and return the exit status of the worst.

    A result that is not PASS goes to standard error, in one line for each comparison. If the environment names a file
    as GITHUB_STEP_SUMMARY, as GitHub Actions does for each step, the results in Markdown are appended to it.

    Args:
        results: One for each comparison; at least one.
        summary: File for the results in Markdown; None for none.
        to_stderr: True to print a PASS to standard error too, because standard output takes the JSON document.

    Raises:
        GateError: If a summary cannot be written.
    """
    for one in results:
        which = f" ({' -> '.join(one.comparison.labels)})" if len(results) > 1 else ""
        echo(" ".join((one.line + which).split()), err=one.verdict != "PASS" or to_stderr)
    if is_first_process():
        text = ci_summary(results)
        if summary is not None:
            write_text(summary, text)
        if step := os.environ.get(_STEP_SUMMARY):
            path = Path(step)
            try:
                # Appended, since other commands write to it too; a lone surrogate in a name must not fail the gate.
                with path.open("ab") as file:
                    file.write(text.encode("utf-8", "replace"))
            except OSError as error:
                raise GateError(f"{path} (named by {_STEP_SUMMARY}) cannot be written to: {error.strerror}") from error
    return _EXIT[worst(one.verdict for one in results)]
