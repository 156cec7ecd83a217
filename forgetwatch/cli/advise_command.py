"""`forgetwatch advise RUN`: what to do about what a run has lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.options import STDOUT, ToleranceOption, limits_of, tolerated
from forgetwatch.cli.output import echo, print_hanging, write_json
from forgetwatch.cli.targets import check_json
from forgetwatch.comparing import Trajectory
from forgetwatch.pairing import one_line
from forgetwatch.report.advice import advise


def run(
    run_of: Annotated[Path, typer.Argument(metavar="RUN", help="A watched run: its folder, or the output_dir.")],
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write it as JSON to this file; - for stdout.")
    ] = None,
    tolerance: ToleranceOption = None,
) -> None:
    """Say what to do about what a run has lost: each proposal with its command and with what was measured."""
    check_json(json_path)
    limits = limits_of(file=None, fail_if=None, no_worse_than=None, probe=None)
    trajectory = Trajectory.from_run(run_of)
    found = advise(trajectory, run_of, tolerance=tolerated(tolerance, limits))
    if json_path is not None:
        write_json({"schema": "forgetwatch/advice@1", "advice": [vars(one) for one in found]}, json_path)
    if json_path == STDOUT:
        return
    for note in trajectory.notes:
        echo(f"note: {one_line(note)}")
    for number, one in enumerate(found, start=1):
        print_hanging(f"{number}. {one_line(one.text)}" if len(found) > 1 else one_line(one.text))
        if one.command:
            echo(f"   {one.command}")
    if len(found) > 1:
        echo("The demo's model has two layers: take the order of the figures, not their size, and compare with a run")
        echo("without the remedy.")
