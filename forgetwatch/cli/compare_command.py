"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: what became of each answer, on files or on checkpoints.

The gate options of `compare`: to one gate, and from its judgements to lines, a summary and the exit status.

Where GITHUB_STEP_SUMMARY names a file, as GitHub Actions does for each step, the summary is appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from forgetwatch.cli.documents import check_plots, check_report, say_pictures, write_report
from forgetwatch.cli.options import check_folder, share
from forgetwatch.cli.output import result_console, write_json
from forgetwatch.cli.resolve import only, outcomes, side, with_questions
from forgetwatch.comparing.comparison import Comparison, compare, first_samples
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.ranking import ModelComparison, rank_models, read_target, transition_matrix
from forgetwatch.comparing.verdict import TOLERANCE, Word, worst
from forgetwatch.errors import GateError, SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.gates import Condition, FailIf, Gate, GateResult, NoWorseThan, read_gate
from forgetwatch.gates.gate import Limit
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.probes.categories import Categories
from forgetwatch.report.export import comparisons_json
from forgetwatch.report.markdown import ci_summary
from forgetwatch.report.pictures import save_comparisons
from forgetwatch.report.ranking_table import several_detail, several_table
from forgetwatch.report.terminal import comparison_detail, comparison_table
from forgetwatch.snapshot import Snapshot

_FEWEST_DRAWS = 100


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


def run(
    before: Annotated[
        str,
        typer.Argument(help="A snapshot, a table, a harness's log, or with --probe a checkpoint, adapter or model id."),
    ],
    after: Annotated[list[str], typer.Argument(help="The same, later; each is compared with BEFORE.")],
    probe: Annotated[str | None, typer.Option(help="The probe with which checkpoints are scored.")] = None,
    by: Annotated[_By, typer.Option(help="The groups that the table lists.")] = _By.CATEGORY,
    metric: Annotated[
        str | None, typer.Option(help="What makes an answer right, where a log judges in several ways: acc_norm, say.")
    ] = None,
    detail: Annotated[
        bool, typer.Option("--detail", help="Also print every correction, bound, diagnostic and group.")
    ] = False,
    json_path: Annotated[str | None, typer.Option("--json", help="Write JSON to this file; - for stdout.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(help="Exit with 3 if it holds, such as category:Math.forgetting>5%; may be repeated."),
    ] = None,
    categories: Annotated[
        Path | None,
        typer.Option(help="Another map of tasks to categories: CSV (task,category) or YAML (task: category)."),
    ] = None,
    on_mismatch: Annotated[
        _OnMismatch, typer.Option(help="Unlike items are an error, or left out.")
    ] = _OnMismatch.ERROR,
    allow_prompt_mismatch: Annotated[
        bool, typer.Option("--allow-prompt-mismatch", help="Compare although the prompts differ.")
    ] = False,
    samples: Annotated[
        _Samples, typer.Option(help="Where items were asked several times: all answers, or the first.")
    ] = _Samples.ALL,
    null: Annotated[
        str | None, typer.Option(help="A file of outcomes: BEFORE measured again. What flips between the two is noise.")
    ] = None,
    chance: Annotated[
        _Chance, typer.Option(help="paper-compat adds the paper's numbers as its released code computes them.")
    ] = _Chance.OWN,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Draws for what has no closed form: the tipping ratio, paper-compat. 0: none.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    no_worse_than: Annotated[
        str | None,
        typer.Option(help="Exit with 3 if accuracy fell by more than this (2%), with 4 if that is not clear."),
    ] = None,
    gate: Annotated[Path | None, typer.Option(help="A YAML file of limits, judged in the same way.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write what the gates found, as Markdown.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a report: .html, .md, .csv or .json.")
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option(help="Net loss that the report's verdict tolerates; else the gate's, else 2%.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only this category; may be repeated.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Of several AFTERs, rank also by this metric: a name in each checkpoint's trainer_state.json, such as "
            "eval_accuracy, or FILE.csv with two columns, AFTER and metric. Less is better where it ends in loss."
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Draw the pictures into this folder, as PNG and SVG; it is made.")
    ] = None,
) -> None:
    """Compare two snapshots question by question: what was forgotten, what was gained, how much of it is chance."""
    items = None if probe is None else load_probe(probe)
    asked = asked_gate(file=gate, fail_if=fail_if or [], no_worse_than=no_worse_than, probe=items, summary=summary)
    tolerated = (asked.tolerance or TOLERANCE) if tolerance is None else share(tolerance, "--tolerance")
    if 0 < bootstrap < _FEWEST_DRAWS:
        raise typer.BadParameter(f"--bootstrap: needed 0, or at least {_FEWEST_DRAWS} draws, got {bootstrap}")
    if target is not None and len(after) < 2:
        raise typer.BadParameter(f"--target: ranks several AFTERs; needed at least two, got {len(after)}")
    check_folder(json_path)
    check_folder(None if summary is None else str(summary))
    check_report(output)
    check_plots(plots)
    labels = None if categories is None else Categories.read(categories)

    def part(whole: Snapshot) -> Snapshot:
        named = only(whole, tasks=task or (), categories=category or ())
        return only(named, **vars(asked.subset))

    again = None if null is None else part(outcomes(Path(null), metric))
    base = part(side(before, items, metric))
    wholes = [side(given, items, metric) for given in after]
    others = [part(whole) for whole in wholes]
    comparisons = [
        compare(
            before=base,
            after=other,
            on_mismatch=on_mismatch.value,
            allow_prompt_mismatch=allow_prompt_mismatch,
            samples=samples.value,
            null=again,
            categories=labels,
            chance=chance.value,
            rng=np.random.default_rng(seed) if bootstrap else None,
            replications=bootstrap,
        )
        for other in others
    ]
    for comparison in comparisons:
        if not comparison.items.compared:
            raise SnapshotError(
                f"{' -> '.join(comparison.labels)}: nothing to compare, none of the "
                f"{comparison.items.unscored:,} items was scored on both sides"
            )
    several = None
    if len(others) > 1:
        sides = [first_samples(one) if samples is _Samples.FIRST else one for one in (base, *others)]
        wanted = None if target is None else read_target(target, list(zip(after, others, strict=True)))
        several = ModelComparison(
            matrix=transition_matrix(sides), ranking=rank_models(comparisons, wanted), target=wanted
        )
    _show(comparisons, several, by=by, detail=detail, tolerance=tolerated, json_path=json_path)
    if plots is not None:
        say_pictures(save_comparisons(comparisons, plots, several=several), err=json_path == "-")
    if output is not None:
        changed = with_questions(flips(base, others[-1], probe=items), before, base, metric)
        write_report(output, comparisons, changed, tolerance=tolerated, several=several)
        if json_path != "-":
            typer.echo(f"report: {output}")
    judgements = [] if asked.is_empty else [asked.judge(*pair) for pair in zip(comparisons, wholes, strict=True)]
    settle(judgements, summary=summary, stdout_is_json=json_path == "-")


def _show(
    comparisons: list[Comparison],
    several: ModelComparison | None,
    *,
    by: _By,
    detail: bool,
    tolerance: float,
    json_path: str | None,
) -> None:
    if json_path is not None:
        write_json(comparisons_json(comparisons, several), json_path)
    if json_path == "-":
        return
    console = result_console()
    if several is not None:
        console.print(several_table(several, notes=[note for one in comparisons for note in one.notes]))
    for comparison in comparisons if several is None or detail else ():
        if several is not None:
            console.print()
        console.print(comparison_table(comparison, by=by.value, tolerance=tolerance))
        if detail:
            console.print()
            console.print(comparison_detail(comparison, by=by.value))
    if several is not None and detail:
        console.print()
        console.print(several_detail(several))


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


def settle(judgements: Sequence[GateResult], *, summary: Path | None, stdout_is_json: bool) -> None:
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
