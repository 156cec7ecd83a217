"""`forgetwatch report RUN_DIR [RUN_DIR ...]`: a whole run, look by look; several folders are its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.options import (
    STDOUT,
    FailIfOption,
    GateOption,
    JsonOption,
    NoWorseThanOption,
    SummaryOption,
    ToleranceOption,
    limits_of,
    tolerated,
)
from forgetwatch.cli.output import (
    echo,
    exit_code_of_gates,
    judge,
    print_pictures,
    result_console,
    write_json,
    write_report,
)
from forgetwatch.cli.targets import check_distinct, check_json, check_pictures, check_report, check_summary
from forgetwatch.cli.why_command import TrainOption, run_causes
from forgetwatch.comparing import Causes, Tolerance, Trajectory, first_forgotten, read_stages
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import WatchError
from forgetwatch.pairing import one_line, run_name
from forgetwatch.report import CARD, comparison_detail, save_run, trajectory_json, write_card
from forgetwatch.report.stage_tables import paths_sentence, stage_lines
from forgetwatch.report.terminal import run_table
from forgetwatch.run_folder import REPORT, RUN_FOLDER, find_run_folder, run_probe


def run(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="A run folder (_forgetwatch), or the output_dir that contains one; several are its stages."
        ),
    ],
    detail: Annotated[
        bool, typer.Option("--detail", help="Also print every look, correction, diagnostic and alarm.")
    ] = False,
    json_path: JsonOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write a report: .html, .md, .csv or .json. Default: report.html in the run folder."
        ),
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw pictures into this folder, as PNG and SVG.")] = None,
    model_card: Annotated[
        bool, typer.Option("--model-card", help="Write the result into README.md, the model card in the output_dir.")
    ] = False,
    taught: Annotated[
        str | None,
        typer.Option(help="Category that each stage teaches, with commas, as A,B,-: for the averages of --detail."),
    ] = None,
    train: TrainOption = None,
    tolerance: ToleranceOption = None,
    fail_if: FailIfOption = None,
    no_worse_than: NoWorseThanOption = None,
    gate: GateOption = None,
    summary: SummaryOption = None,
) -> None:
    """Show a run: the last look against the start, its alarms, and the path of its page."""
    limits = limits_of(file=gate, fail_if=fail_if, no_worse_than=no_worse_than, probe=None)
    if any(vars(limits.subset).values()):
        raise typer.BadParameter("--gate: a run is compared as a whole; needed a file without tasks, categories, items")
    check_summary(summary, limits, [gate])
    check_json(json_path, kind="trajectory")
    check_distinct(json_path, output, summary)
    check_report(output)
    check_pictures(plots)
    tolerances = tolerated(tolerance, limits)
    trajectory = read_stages(runs)
    if taught is not None:
        trajectory = _teaching(trajectory, taught)
    if train and len(runs) > 1:
        raise typer.BadParameter("--train: needed one run, whose training rows the questions are compared with")
    if train and len(trajectory) < 2:
        raise WatchError(f"{runs[0]}: --train needs a look after the start, found none; nothing is lost yet")
    causes = run_causes(runs[0], trajectory, train=train) if train else None
    json_alone = json_path == STDOUT
    results, broken = judge(limits, (trajectory.comparisons[-1], trajectory.last, trajectory))
    if json_path is not None:
        write_json(trajectory_json(trajectory, tolerance=tolerances), json_path)
    if plots is not None:
        print_pictures(save_run(trajectory, plots), err=json_alone)
    if not json_alone:
        console = result_console()
        run_of = runs[0] if len(runs) == 1 else ""
        gate_result = results[0] if results else None
        console.print(run_table(trajectory, run=run_of, tolerance=tolerances, gate=gate_result), soft_wrap=True)
        if trajectory.matrix is not None:
            console.print()
            console.print(stage_lines(trajectory.matrix))
            echo(f"paths: {paths_sentence(trajectory.matrix)}")
        for note in trajectory.notes:  # on files of the run: each in one whole line
            echo(f"note: {one_line(note)}")
        if detail:
            console.print()
            console.print(comparison_detail(trajectory.comparisons[-1], trajectory=trajectory, tolerance=tolerances))
        echo(_write(trajectory, runs, output, tolerance=tolerances, causes=causes))
    elif output is not None:
        _write(trajectory, runs, output, tolerance=tolerances, causes=causes)
    if model_card:
        folder = find_run_folder(runs[-1]).resolve()
        if folder.name != RUN_FOLDER:
            raise WatchError(f"--model-card: needed the output_dir of a training or its {RUN_FOLDER}, got {folder}")
        card = folder.parent / CARD
        write_card(card, trajectory, tolerance=tolerances)
        echo(f"model card: {card}", err=json_alone)
    if broken is not None:
        raise broken
    if status := exit_code_of_gates(results, summary=summary, to_stderr=json_alone):
        raise typer.Exit(status)


def _teaching(trajectory: Trajectory, taught: str) -> Trajectory:
    """Return the run with what its stages teach."""
    if trajectory.matrix is None:
        raise WatchError("--taught: needed several run folders, the stages of one model, got one")
    names = [name.strip() for name in taught.split(",")]
    return replace(trajectory, matrix=trajectory.matrix.teaching([None if name == "-" else name for name in names]))


def _write(
    trajectory: Trajectory, runs: Sequence[Path], output: Path | None, *, tolerance: Tolerance, causes: Causes | None
) -> str:
    """Write the report, and return a line with its path, or with the reason why the page could not be written."""
    changed = flips(trajectory.baseline, trajectory.last, probe=run_probe(runs[0]), first=first_forgotten(trajectory))
    path = output or find_run_folder(runs[-1]) / REPORT
    last = trajectory.comparisons[-1]
    title = " → ".join(map(run_name, runs))
    try:
        write_report(
            path,
            [last],
            changed,
            tolerance=tolerance,
            trajectory=trajectory,
            title=title,
            folder=runs[0] if len(runs) == 1 else None,
            causes=causes,
        )
    except OSError as error:
        # The page is by default written into the run folder, which may be read-only: the table is shown all the same.
        if output is not None:
            raise
        return f"no page was written to {path} ({error.strerror}); -o names another file"
    return f"report: {path}"
