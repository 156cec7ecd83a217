"""`forgetwatch study STUDY.yaml`: many pairs of models in stages, as tables and one page."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from forgetwatch.cli.options import (
    STDOUT,
    DeviceMapOption,
    JsonOption,
    TrustOption,
    check_device_map,
    check_output,
    check_study,
)
from forgetwatch.cli.output import (
    announce_import,
    echo,
    result_console,
    scoring_unless_cached,
    shared_work,
    write_json,
)
from forgetwatch.cli.resolve import resolve
from forgetwatch.errors import StudyError, some_of
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import is_first_process, launched_count
from forgetwatch.snapshot import Snapshot
from forgetwatch.study.pairs import Sources, Study, is_model, run_study
from forgetwatch.study.plan import Pair, Source, read_plan
from forgetwatch.study.publication import PAGE, study_json, study_table, write_numbers

_FORMATS: Final = (".html", ".md", ".csv", ".json", ".tex")
"""Suffixes of a report in one file, as other commands write it."""
_NAMED: Final = 5
"""Maximum number of pairs that the last message names."""


def study_command(  # noqa: C901
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.yaml",
            help="The pairs, in stages; configs/paper.yaml of the repository is one.",
        ),
    ],
    probe: Annotated[
        str | None,
        typer.Option("--probe", help="Probe that scores models, in place of the file's own."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for all files; default: the study's name, next to the file.",
        ),
    ] = None,
    json_path: JsonOption = None,
    with_findings: Annotated[
        bool,
        typer.Option("--findings", help="Ask the findings of arXiv 2510.17776 of these pairs."),
    ] = False,
    with_latex: Annotated[
        bool,
        typer.Option(
            "--latex",
            help="Write the paper's tables as study.tex too, for the LaTeX package booktabs.",
        ),
    ] = False,
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Compare many pairs of models: what each training step forgot and gained, by category, size and data.

    Each side is a model, a snapshot, a table or a log, or a list with one for
    each seed:

    \b
    stages:
      - name: instruction tuning
        pairs:
          - name: llama 8B
            family: llama
            size: 8B
            covariates: {method: SFT}
            before: logs/base.parquet
            after: logs/tuned.parquet

    Size, data and covariates are what forgetting may go with.
    forgetwatch.study.plan describes every key.
    """  # noqa: D301 - the control character itself keeps the lines apart
    check_device_map(device_map)
    check_output(json_path, "a JSON document", [study, probe], kind="study")
    plan = read_plan(study, probe=probe)
    if with_findings and not plan.asks_for_findings:
        raise StudyError(
            f"{study}: --findings needs what a stage does (kind: continual-pretraining, "
            "from-base or from-instruct), or a merge as a side"
        )
    folder = output or study.parent / (re.sub(r"[^\w.-]+", "-", plan.name).strip("-.") or "study")
    if folder.suffix in _FORMATS:
        raise StudyError(
            f"{folder}: needed a folder, which holds the page and tables, and this is "
            "the name of a file; name a folder with --output"
        )
    check_study(folder)
    is_scored = any(map(is_model, plan.sources))
    if not is_scored and not is_first_process():
        return

    loading = Loading(trust_remote_code=trust_remote_code, device_map=device_map)

    def read(source: Source, items: Probe | None) -> Snapshot:
        if source.merge is None or items is None:
            return resolve(source.location, items, source.metric, loading=loading)
        announce_import()
        # Not at the top: this imports torch, which files of outcomes do not need.
        from forgetwatch.merge.sweep import score_point
        from forgetwatch.merge.weights import ModelPair
        from forgetwatch.scoring.model_loading import silence_loading

        silence_loading()
        a, b = source.merge
        ends = ModelPair(a=a, b=b, method="linear", alphas=(source.alpha,), loading=loading)
        return score_point(ends, source.alpha, items, progress_of=scoring_unless_cached)

    def announce(number: int, pair: Pair) -> None:
        seeds = max(len(pair.before), len(pair.after))
        sides = f"{pair.before[0].given} -> {pair.after[0].given}{f', {seeds} seeds' if seeds > 1 else ''}"
        echo(f"forgetwatch: pair {number} of {len(plan.pairs)}, {pair.name}: {sides}", err=True)

    with shared_work() if is_scored else nullcontext():
        sources = Sources(folder, read, is_first=is_first_process(), is_alone=launched_count() == 1)
        study_result = run_study(plan, sources, on_pair=announce)
        if is_first_process():
            _show(
                study_result, folder, json_path, with_findings=with_findings, with_latex=with_latex
            )
    if is_first_process():
        for failure in study_result.failed:
            echo(f"forgetwatch: not compared: {failure.reason}", err=True)
        if names := [failure.pair.name for failure in study_result.failed]:
            rest = "; all others are in the report" if study_result.compared else ""
            raise StudyError(
                f"{len(names)} of {len(study_result.results)} pairs could not be compared: "
                f"{some_of(names, _NAMED)}{rest}"
            )


def _show(
    study: Study, folder: Path, json_path: Path | None, *, with_findings: bool, with_latex: bool
) -> None:
    """Show the tables, and write the files."""
    write_numbers(study, folder, with_latex=with_latex)
    if json_path is not None:
        write_json(study_json(study), json_path)
    if json_path != STDOUT:
        result_console().print(study_table(study, with_findings=with_findings))
    if json_path != STDOUT:
        echo(f"report: {folder / PAGE}")
