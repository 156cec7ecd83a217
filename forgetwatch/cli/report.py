"""`forgetwatch report RUN_DIR`: a whole run, look by look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.options import check_folder
from forgetwatch.cli.output import result_console, write_json
from forgetwatch.report.as_json import trajectory_json
from forgetwatch.report.course import trajectory_table
from forgetwatch.report.terminal import comparison_table
from forgetwatch.trajectory import Trajectory


def report_command(
    run: Annotated[Path, typer.Argument(help="A run folder (_forgetwatch), or the output_dir that holds one.")],
    json_path: Annotated[str | None, typer.Option("--json", help="Write JSON to this file; - for stdout.")] = None,
) -> None:
    """Show a run: what each look forgot and gained, what was ever forgotten, and which losses are more than luck."""
    check_folder(json_path)
    trajectory = Trajectory.from_run(run)
    if json_path is not None:
        write_json(trajectory_json(trajectory), json_path)
    if json_path == "-":
        return
    console = result_console()
    console.print(trajectory_table(trajectory, title=str(run)))
    if len(trajectory) > 1:
        console.print()
        title = f"step {trajectory.steps[-1]}, against step {trajectory.steps[0]}"
        console.print(comparison_table(trajectory.comparisons[-1], title=title, explain=True))
