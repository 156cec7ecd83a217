"""The gate options of `compare`: to one gate, and from its judgements to lines, a summary and the exit status.

Where GITHUB_STEP_SUMMARY names a file, as GitHub Actions does for each step, the summary is appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer

from forgetwatch.cli.options import share
from forgetwatch.errors import GateError
from forgetwatch.files import write_atomically
from forgetwatch.gates import Condition, FailIf, Gate, Judgement, NoWorseThan, read_gate
from forgetwatch.gates.ci_summary import ci_summary
from forgetwatch.gates.finding import worst
from forgetwatch.gates.gate import Limit
from forgetwatch.probe import Probe
from forgetwatch.report.verdict import Word

EXIT: Final[dict[Word, int]] = {"PASS": 0, "FAIL": 3, "INCONCLUSIVE": 4}
"""Exit status by verdict."""

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def asked_gate(
    *, file: Path | None, fail_if: Sequence[str], no_worse_than: str | None, probe: Probe | None, summary: Path | None
) -> Gate:
    """What --gate, --fail-if and --no-worse-than ask together.

    Args:
        file: The gate file.
        fail_if: Conditions.
        no_worse_than: A tolerance over all items.
        probe: What ``must_pass: true`` in the file speaks of.
        summary: Where a summary is wanted.

    Raises:
        GateError: If the file or a condition cannot be read.
        typer.BadParameter: If the tolerance is none, or a summary is wanted and no gate is given.
    """
    gate = Gate() if file is None else read_gate(file, probe)
    limits: list[Limit] = [FailIf(condition=Condition.parse(text)) for text in fail_if]
    if no_worse_than is not None:
        limits.append(NoWorseThan(tolerance=share(no_worse_than, "--no-worse-than")))
    gate = replace(gate, limits=(*gate.limits, *limits))
    if summary is not None and gate.is_empty:
        raise typer.BadParameter("--summary: needed a gate: --gate, --no-worse-than or --fail-if")
    return gate


def settle(judgements: Sequence[Judgement], *, summary: Path | None, stdout_is_json: bool) -> None:
    """Tell the judgements, write the summary, and leave with the exit status of the worst; nothing for none.

    What did not pass is told in one line a comparison on standard error, what passed on standard output.

    Raises:
        typer.Exit: If the verdict is not PASS.
        GateError: If the summary cannot be written.
    """
    if not judgements:
        return
    for one in judgements:
        which = f" ({' -> '.join(one.comparison.labels)})" if len(judgements) > 1 else ""
        typer.echo(" ".join((one.line + which).split()), err=one.verdict != "PASS" or stdout_is_json)
    # A lone half of a surrogate pair, as logs hold them, is no UTF-8.
    data = ci_summary(judgements).encode("utf-8", "replace")
    if summary is not None:
        write_atomically(summary, lambda partial: partial.write_bytes(data))
    if step := os.environ.get(STEP_SUMMARY):
        _append(data, Path(step))
    if status := EXIT[worst(one.verdict for one in judgements)]:
        raise typer.Exit(status)


def _append(data: bytes, path: Path) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise GateError(f"{path} (named by {STEP_SUMMARY}) cannot be written to: {error.strerror}") from error
