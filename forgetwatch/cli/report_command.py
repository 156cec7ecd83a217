"""`forgetwatch report RUN_DIR [RUN_DIR ...]`: a whole run, look by look; several folders are its stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.documents import check_plots, check_report, say_pictures, write_report
from forgetwatch.cli.options import check_folder, share
from forgetwatch.cli.output import result_console, write_json
from forgetwatch.comparing.flips import first_forgotten, flips
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.report.export import trajectory_json
from forgetwatch.report.pictures import save_run
from forgetwatch.report.run_table import run_detail, run_table
from forgetwatch.run_folder import REPORT, find_run_folder, run_probe


def run(
    runs: Annotated[
        list[Path],
        typer.Argument(help="A run folder (_forgetwatch), or the output_dir that holds one; several are its stages."),
    ],
    json_path: Annotated[str | None, typer.Option("--json", help="Write JSON to this file; - for stdout.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write a report: .html, .md, .csv or .json. Default: report.html in the run folder."
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Draw the pictures into this folder, as PNG and SVG; it is made.")
    ] = None,
    detail: Annotated[
        bool, typer.Option("--detail", help="Also print every look, correction, diagnostic and alarm.")
    ] = False,
    tolerance: Annotated[str, typer.Option(help="Net loss of accuracy that the report's verdict tolerates.")] = "2%",
) -> None:
    """Show a run: what each look forgot and gained, what was ever forgotten, and which losses are more than luck."""
    check_folder(json_path)
    check_report(output)
    check_plots(plots)
    tolerated = share(tolerance, "--tolerance")
    trajectory = read_stages(runs)
    title = " → ".join(map(str, runs))
    if json_path is not None:
        write_json(trajectory_json(trajectory), json_path)
    if plots is not None:
        say_pictures(save_run(trajectory, plots), err=json_path == "-")
    if json_path == "-":
        if output is not None:
            _write(trajectory, runs, output, tolerance=tolerated, title=title)
        return
    console = result_console()
    console.print(run_table(trajectory, tolerance=tolerated))
    if detail:
        console.print()
        console.print(run_detail(trajectory))
    console.print(_write(trajectory, runs, output, tolerance=tolerated, title=title), soft_wrap=True, markup=False)


def _write(trajectory: Trajectory, runs: list[Path], output: Path | None, *, tolerance: float, title: str) -> str:
    """Write the report; where it is, or why the page in the run folder could not be written, in words."""
    changed = flips(trajectory.baseline, trajectory.last, probe=run_probe(runs[0]), first=first_forgotten(trajectory))
    path = output or find_run_folder(runs[-1]) / REPORT
    last = trajectory.comparisons[-1]
    try:
        write_report(path, [last], changed, tolerance=tolerance, trajectory=trajectory, title=title)
    except OSError as error:
        if output is not None:
            raise
        return f"no page is written ({error.strerror}: {path}); -o names another place"
    return f"report: {path}"
