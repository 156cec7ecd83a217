"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: each answer before and after, on files or on checkpoints.

    parameters ─▶ Options ─▶ resolve (snapshots) ─▶ run (comparisons, ranking) ─▶ show ─▶ gates (exit status)

`gate_options` turns the gate options into one gate, and its results into the exit status.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from forgetwatch.cli.documents import (
    STDOUT,
    check_file,
    check_pictures,
    check_report,
    print_pictures,
    write_json,
    write_report,
)
from forgetwatch.cli.gate_options import conclude, gate_of
from forgetwatch.cli.options import CHANCE, GATES, ITEMS, OUTPUT, check_device_map, device_map_option, share
from forgetwatch.cli.output import echo, result_console, shared_work
from forgetwatch.cli.resolve import read_outcomes, resolve, select, with_questions
from forgetwatch.comparing import (
    TOLERANCE,
    Comparison,
    ModelComparison,
    compare,
    first_samples,
    in_common_norm,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import SnapshotError
from forgetwatch.gates import Gate
from forgetwatch.probe import Probe
from forgetwatch.probes import Categories, load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.readers import is_outcomes
from forgetwatch.report import (
    comparison_detail,
    comparison_table,
    comparisons_json,
    drift_line,
    other_lines,
    save_comparisons,
    several_detail,
    several_table,
)
from forgetwatch.snapshot import Snapshot

_FEWEST_DRAWS: Final = 100


class _By(StrEnum):
    ALL = "all"
    CATEGORY = "category"
    TASK = "task"


class _OnMismatch(StrEnum):
    ERROR = "error"
    INTERSECT = "intersect"


class _Chance(StrEnum):
    OWN = "own"
    PAPER_COMPAT = "paper-compat"


class _Samples(StrEnum):
    ALL = "all"
    FIRST = "first"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one call of `compare`, checked as far as they can be before anything is read.

    Attributes:
        before: The side before, as it was named.
        after: The sides after, as they were named; at least one.
        probe: The probe that scores models and gives questions.
        device_map: Map by which a scored model is spread over devices.
        drift: Measure the drift of each side after from the one before, which are models.
        metric: The metric of a log that decides.
        tasks: Tasks to compare; empty for all.
        categories: Categories to compare; empty for all.
        labels: Another map of tasks to categories.
        on_mismatch: ``error`` or ``intersect``.
        allow_prompt_mismatch: Compare although prompts differ.
        samples: ``all`` or ``first``.
        target: Metric by which several models are also ranked.
        null: File of BEFORE measured again.
        chance: ``own`` or ``paper-compat``.
        bootstrap: Number of draws; 0 for none.
        seed: Seed of the draws.
        gate: The gate of all gate options.
        summary: File for the summary of the gate.
        tolerance: Net loss of accuracy that the verdict tolerates, 0 to 1.
        by: Level of the groups in tables.
        detail: Print the detail too.
        json_path: File for the JSON document.
        report: File for a report.
        plots: Folder for pictures.
    """

    before: str
    after: tuple[str, ...]
    probe: Probe | None
    device_map: str | None
    drift: bool
    metric: str | None
    tasks: tuple[str, ...]
    categories: tuple[str, ...]
    labels: Categories | None
    on_mismatch: _OnMismatch
    allow_prompt_mismatch: bool
    samples: _Samples
    target: str | None
    null: Path | None
    chance: _Chance
    bootstrap: int
    seed: int
    gate: Gate
    summary: Path | None
    tolerance: float
    by: _By
    detail: bool
    json_path: Path | None
    report: Path | None
    plots: Path | None

    def __post_init__(self) -> None:
        """Check what can be checked before the work.

        Raises:
            typer.BadParameter: If options do not go together.
            SnapshotError: If a file could not be written.
        """
        if 0 < self.bootstrap < _FEWEST_DRAWS:
            raise typer.BadParameter(f"--bootstrap: needed 0, or at least {_FEWEST_DRAWS} draws, got {self.bootstrap}")
        if self.target is not None and len(self.after) < 2:
            raise typer.BadParameter(f"--target: ranks several AFTERs; needed at least two, got {len(self.after)}")
        if self.summary is not None and self.gate.is_empty:
            raise typer.BadParameter("--summary: needed a gate: --gate, --no-worse-than or --fail-if")
        if self.drift and self.probe is None:
            raise typer.BadParameter("--drift: needed --probe, after whose prompts the model before generates")
        check_device_map(self.device_map)
        check_file(self.json_path)
        check_file(self.summary)
        check_report(self.report)
        check_pictures(self.plots)

    @property
    def json_alone(self) -> bool:
        """True if standard output is for the JSON document alone."""
        return self.json_path == STDOUT


_Before = Annotated[
    str,
    typer.Argument(
        metavar="BEFORE",
        help="A snapshot, a table, a log of another tool; with --probe a checkpoint, adapter or model id.",
    ),
]
_After = Annotated[
    list[str], typer.Argument(metavar="AFTER...", help="One or more like BEFORE; each is compared with it.")
]
_ProbeName = Annotated[
    str | None, typer.Option("--probe", help="Probe that scores models: a name or a file.", rich_help_panel=ITEMS)
]
_Drift = Annotated[
    bool,
    typer.Option(
        "--drift",
        help="Also measure how far AFTER is from BEFORE on texts that BEFORE writes after the probe's prompts: "
        "KL and overlap. Both are models.",
        rich_help_panel=ITEMS,
    ),
]
_Metric = Annotated[
    str | None,
    typer.Option(help="Metric that decides right or wrong, if a log has several: acc_norm.", rich_help_panel=ITEMS),
]
_Task = Annotated[
    list[str] | None, typer.Option(help="Compare only this task; may be repeated.", rich_help_panel=ITEMS)
]
_Category = Annotated[
    list[str] | None, typer.Option(help="Compare only this category; may be repeated.", rich_help_panel=ITEMS)
]
_CategoryFile = Annotated[
    Path | None,
    typer.Option(
        help="Use this map of tasks to categories: CSV (task,category) or YAML (task: category).", rich_help_panel=ITEMS
    ),
]
_Mismatch = Annotated[
    _OnMismatch,
    typer.Option(help="If the two sides have different items: fail, or compare those in both.", rich_help_panel=ITEMS),
]
_AllowPrompts = Annotated[
    bool,
    typer.Option("--allow-prompt-mismatch", help="Compare even if the prompts differ.", rich_help_panel=ITEMS),
]
_SampleRule = Annotated[
    _Samples,
    typer.Option(help="If items have several answers: compare all of them, or the first.", rich_help_panel=ITEMS),
]
_Target = Annotated[
    str | None,
    typer.Option(
        help="Rank several AFTERs also by this metric: a name in each checkpoint's trainer_state.json, such as "
        "eval_accuracy, or FILE.csv with the columns AFTER and metric. Less is better if the name ends in loss.",
        rich_help_panel=ITEMS,
    ),
]
_Null = Annotated[
    Path | None,
    typer.Option(help="Outcomes of BEFORE measured again: flips between the two are noise.", rich_help_panel=CHANCE),
]
_ChanceRule = Annotated[
    _Chance,
    typer.Option(
        help="paper-compat adds the paper's numbers as its released code computes them.", rich_help_panel=CHANCE
    ),
]
_Draws = Annotated[
    int,
    typer.Option(
        min=0,
        help="Bootstrap draws for the intervals of the tipping ratio and of paper-compat; 0 for none.",
        rich_help_panel=CHANCE,
    ),
]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of the bootstrap draws.", rich_help_panel=CHANCE)]
_FailIf = Annotated[
    list[str] | None,
    typer.Option(
        help="Exit with status 3 if this holds, such as category:Math.forgetting>5%; may be repeated.",
        rich_help_panel=GATES,
    ),
]
_NoWorseThan = Annotated[
    str | None,
    typer.Option(
        help="Exit with status 3 if accuracy fell by more than this (2%), with 4 if that is not clear.",
        rich_help_panel=GATES,
    ),
]
_GateFile = Annotated[Path | None, typer.Option(help="YAML file of limits to check.", rich_help_panel=GATES)]
_Summary = Annotated[
    Path | None, typer.Option(help="Write the results of the gates to this Markdown file.", rich_help_panel=GATES)
]
_Tolerance = Annotated[
    str | None,
    typer.Option(
        help="Net loss of accuracy that the verdict tolerates; default: the gate's, else 2%.", rich_help_panel=GATES
    ),
]
_Level = Annotated[_By, typer.Option(help="Groups that the tables list.", rich_help_panel=OUTPUT)]
_Detail = Annotated[
    bool,
    typer.Option("--detail", help="Also print every correction, bound, diagnostic and group.", rich_help_panel=OUTPUT),
]
_Json = Annotated[
    Path | None,
    typer.Option("--json", help="Write all numbers as JSON to this file; - for stdout.", rich_help_panel=OUTPUT),
]
_Report = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write a report: .html, .md, .csv or .json.", rich_help_panel=OUTPUT),
]
_Plots = Annotated[
    Path | None, typer.Option(help="Draw pictures into this folder, as PNG and SVG.", rich_help_panel=OUTPUT)
]


def run(
    before: _Before,
    after: _After,
    probe: _ProbeName = None,
    device_map: Annotated[str | None, device_map_option(ITEMS)] = None,
    drift: _Drift = False,
    metric: _Metric = None,
    task: _Task = None,
    category: _Category = None,
    categories: _CategoryFile = None,
    on_mismatch: _Mismatch = _OnMismatch.ERROR,
    allow_prompt_mismatch: _AllowPrompts = False,
    samples: _SampleRule = _Samples.ALL,
    target: _Target = None,
    null: _Null = None,
    chance: _ChanceRule = _Chance.OWN,
    bootstrap: _Draws = 0,
    seed: _Seed = 0,
    fail_if: _FailIf = None,
    no_worse_than: _NoWorseThan = None,
    gate: _GateFile = None,
    summary: _Summary = None,
    tolerance: _Tolerance = None,
    by: _Level = _By.CATEGORY,
    detail: _Detail = False,
    json_path: _Json = None,
    output: _Report = None,
    plots: _Plots = None,
) -> None:
    """Compare two models question by question: the answers forgotten and gained, and how much of it is chance."""
    is_scored = not all(map(is_outcomes, (before, *after)))
    if not is_scored and not is_first_process():
        return
    with shared_work() if is_scored else nullcontext():
        items = None if probe is None else load_probe(probe)
        limits = gate_of(file=gate, fail_if=fail_if or [], no_worse_than=no_worse_than, probe=items)
        tolerated = (limits.tolerance or TOLERANCE) if tolerance is None else share(tolerance, "--tolerance")
        options = Options(
            before=before,
            after=tuple(after),
            probe=items,
            device_map=device_map,
            drift=drift,
            metric=metric,
            tasks=tuple(task or ()),
            categories=tuple(category or ()),
            labels=None if categories is None else Categories.read(categories),
            on_mismatch=on_mismatch,
            allow_prompt_mismatch=allow_prompt_mismatch,
            samples=samples,
            target=target,
            null=null,
            chance=chance,
            bootstrap=bootstrap,
            seed=seed,
            gate=limits,
            summary=summary,
            tolerance=tolerated,
            by=by,
            detail=detail,
            json_path=json_path,
            report=output,
            plots=plots,
        )
        status = _execute(options)
    if status:
        raise typer.Exit(status)


def _execute(options: Options) -> int:
    """Read, compare, print and write; the exit status is that of the gate."""
    sides = _resolve(options)
    comparisons = _with_drift(options, _compare(options, sides))
    several = _rank(options, sides, comparisons)
    if is_first_process():
        _show(options, comparisons, several)
        _write(options, sides, comparisons, several)
    if options.gate.is_empty:
        return 0
    pairs = zip(comparisons, sides.whole, strict=True)
    results = [options.gate.judge(*pair) for pair in pairs]
    return conclude(results, summary=options.summary, to_stderr=options.json_alone)


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Snapshots of one call.

    Attributes:
        before: Rows of the side before that are compared.
        after: The same of each side after.
        whole: All rows of each side after, for items that must be right.
        again: Rows of the side before, measured again; None if it was not.
    """

    before: Snapshot
    after: tuple[Snapshot, ...]
    whole: tuple[Snapshot, ...]
    again: Snapshot | None


def _resolve(options: Options) -> _Sides:
    """Snapshots that the options name.

    Raises:
        SnapshotError: If one cannot be read, or lacks a task, category or item that is named.
    """

    def part(whole: Snapshot) -> Snapshot:
        named = select(whole, tasks=options.tasks, categories=options.categories)
        return select(named, **vars(options.gate.subset))

    if options.drift:
        for given in (options.before, *options.after):
            if is_outcomes(given):
                raise SnapshotError(
                    f"{given}: --drift reads texts under the models themselves; needed a checkpoint, an adapter or a "
                    "model id on each side, got outcomes"
                )
    # Read first: a file that is missing must not wait for two models to be scored.
    again = None if options.null is None else part(read_outcomes(options.null, options.metric))
    sides = [
        resolve(given, options.probe, options.metric, device_map=options.device_map)
        for given in (options.before, *options.after)
    ]
    # All at once: of several sides after, each comparison and the ranking count answers by one norm.
    before, *whole = in_common_norm(sides)
    return _Sides(before=part(before), after=tuple(map(part, whole)), whole=tuple(whole), again=again)


def _compare(options: Options, sides: _Sides) -> list[Comparison]:
    """Comparison of each side after with the one before.

    Raises:
        MismatchError: If two sides do not contain the same questions.
        SnapshotError: If no item was scored on both sides.
    """
    comparisons = [
        compare(
            before=sides.before,
            after=after,
            on_mismatch=options.on_mismatch.value,
            allow_prompt_mismatch=options.allow_prompt_mismatch,
            samples=options.samples.value,
            null=sides.again,
            categories=options.labels,
            chance=options.chance.value,
            # Each comparison draws from the same seed, so that it does not depend on the others.
            rng=np.random.default_rng(options.seed) if options.bootstrap else None,
            replications=options.bootstrap,
        )
        for after in sides.after
    ]
    for comparison in comparisons:
        if not comparison.items.compared and not comparison.all.passages:
            raise SnapshotError(
                f"{' -> '.join(comparison.labels)}: nothing to compare, none of the "
                f"{comparison.items.unscored:,} items was scored on both sides"
            )
    return comparisons


def _with_drift(options: Options, comparisons: list[Comparison]) -> list[Comparison]:
    """The comparisons with the drift of each model, if it is wanted.

    Raises:
        ScoringError: If the base cannot generate, or a model has another tokenizer.
    """
    if not options.drift or options.probe is None:
        return comparisons
    echo(f"drift: sampling short completions of {options.before}, to be read under each model after", err=True)
    # Not at the top: this imports torch, which comparing files does not need.
    from forgetwatch.drift import model_drifts

    drifts = model_drifts(options.before, options.after, options.probe, device_map=options.device_map)
    return [replace(one, drift=drift) for one, drift in zip(comparisons, drifts, strict=True)]


def _rank(options: Options, sides: _Sides, comparisons: Sequence[Comparison]) -> ModelComparison | None:
    """Ranking and matrix of several sides after; None for one, and for passages alone, which have no retention."""
    if len(sides.after) < 2 or not any(comparison.all.n for comparison in comparisons):
        return None
    snapshots = [sides.before, *sides.after]
    if options.samples is _Samples.FIRST:
        # `compare` cuts the samples of its own two sides only; the matrix must count the same rows.
        snapshots = [first_samples(one) for one in snapshots]
    pairs = list(zip(options.after, sides.after, strict=True))
    target = None if options.target is None else read_target(options.target, pairs)
    return ModelComparison(matrix=transition_matrix(snapshots), ranking=rank_models(comparisons, target), target=target)


def _show(options: Options, comparisons: Sequence[Comparison], several: ModelComparison | None) -> None:
    """Print the tables, and write the JSON document."""
    if options.json_path is not None:
        write_json(comparisons_json(comparisons, several, tolerance=options.tolerance), options.json_path)
    if options.json_alone:
        return
    console = result_console()
    if several is not None:
        notes = [f"no {number}: {note}" for number, one in enumerate(comparisons, 1) for note in one.notes]
        console.print(several_table(several, notes=notes))
        for number, comparison in enumerate(comparisons, 1):
            for line in (*other_lines(comparison.all), *drift_line(comparison)):
                console.print(f"no {number}: {line.plain}", markup=False)
    # Of several models the ranking is the first table, and each comparison is detail.
    for comparison in comparisons if several is None or options.detail else ():
        if several is not None:
            console.print()
        console.print(comparison_table(comparison, by=options.by.value, tolerance=options.tolerance))
        if options.detail:
            console.print()
            console.print(comparison_detail(comparison, by=options.by.value))
    if several is not None and options.detail:
        console.print()
        console.print(several_detail(several))


def _write(options: Options, sides: _Sides, comparisons: Sequence[Comparison], several: ModelComparison | None) -> None:
    """Write the pictures and the report, and print where they are."""
    if options.plots is not None:
        print_pictures(save_comparisons(comparisons, options.plots, several=several), err=options.json_alone)
    if options.report is None:
        return
    changed = flips(sides.before, sides.after[-1], probe=options.probe)
    changed = with_questions(changed, options.before, sides.before, options.metric)
    write_report(options.report, comparisons, changed, tolerance=options.tolerance, several=several)
    if not options.json_alone:
        echo(f"report: {options.report}")
