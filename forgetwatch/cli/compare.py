"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: each answer before and after, on files or on checkpoints."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from forgetwatch.cli.options import (
    STDOUT,
    ConcurrencyOption,
    DeviceMapOption,
    FailIfOption,
    JsonOption,
    LowerOption,
    NoWorseThanOption,
    ReportOption,
    RightIfOption,
    ScaleOption,
    ToleranceOption,
    UnscoredIfOption,
    YesOption,
    chance_option,
    check_device_map,
    check_distinct,
    check_output,
    check_pictures,
    item_option,
    limits,
    outcome_options,
    outcome_rule,
    output_option,
    tolerated,
)
from forgetwatch.cli.output import (
    answer_json,
    echo,
    exit_code_of_limits,
    judge,
    print_hanging,
    print_pictures,
    result_console,
    shared_work,
    write_json,
    write_report,
)
from forgetwatch.cli.resolve import (
    fitted,
    questions_of_run,
    read_repeat,
    resolve_all,
    served_again,
    with_questions,
)
from forgetwatch.comparing.asked_again import ask_again, marked_flips
from forgetwatch.comparing.checks import OnMismatch
from forgetwatch.comparing.comparison import ChanceRule, Comparison, compare, first_samples
from forgetwatch.comparing.document import comparisons_json
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.ranking import (
    ModelComparison,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.comparing.subset import select
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.errors import SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.policy.policy import check_groups
from forgetwatch.policy.ruling import PolicyResult, Sides
from forgetwatch.probe import Probe
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.readers.outcomes import is_outcomes
from forgetwatch.report.advice import more_command
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.pictures import save_comparisons
from forgetwatch.report.several_models import several_detail, several_table
from forgetwatch.report.terminal import comparison_detail, drift_line, first_lines
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import count


def compare_command(  # noqa: C901
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="A snapshot, a table, a log of another tool; with --probe a checkpoint, adapter or model id.",
        ),
    ],
    after: Annotated[
        list[str],
        typer.Argument(
            metavar="AFTER...", help="One or more like BEFORE; each is compared with it."
        ),
    ],
    probe: Annotated[
        str | None, item_option(help="Probe that scores models: a name or a file.")
    ] = None,
    device_map: DeviceMapOption = None,
    concurrency: ConcurrencyOption = 16,
    yes: YesOption = False,
    drift: Annotated[
        bool,
        item_option(
            "--drift",
            help="Also measure how far AFTER is from BEFORE (KL in both directions, and overlap) on texts that each "
            "generates after the probe's prompts. Both must be models.",
        ),
    ] = False,
    again: Annotated[
        bool,
        item_option(
            "--again",
            help="Also ask what was clearly known and is lost again in other words, beside as many kept ones. Both "
            "must be models.",
        ),
    ] = False,
    metric: Annotated[
        str | None,
        item_option(help="Metric that decides right or wrong, if a log has several: acc_norm."),
    ] = None,
    right_if: RightIfOption = None,
    scale: ScaleOption = None,
    lower_is_better: LowerOption = False,
    unscored_if: UnscoredIfOption = None,
    task: Annotated[
        list[str] | None, item_option(help="Compare only this task; may be repeated.")
    ] = None,
    category: Annotated[
        list[str] | None, item_option(help="Compare only this category; may be repeated.")
    ] = None,
    categories: Annotated[
        Path | None,
        item_option(
            help="Use this map of tasks to categories: CSV (task,category) or YAML (task: category)."
        ),
    ] = None,
    on_mismatch: Annotated[
        OnMismatch,
        item_option(help="If the two sides have different items: fail, or compare those in both."),
    ] = "error",
    allow_prompt_mismatch: Annotated[
        bool, item_option("--allow-prompt-mismatch", help="Compare even if the prompts differ.")
    ] = False,
    samples: Annotated[
        Literal["all", "first"],
        item_option(help="If items have several answers: compare all of them, or the first."),
    ] = "all",
    target: Annotated[
        str | None,
        item_option(
            help="CSV file with the columns AFTER and metric: rank several AFTERs also by it. Less is better if its "
            "name ends in loss."
        ),
    ] = None,
    repeat: Annotated[
        Path | None,
        chance_option(help="Outcomes of BEFORE measured again: flips between the two are noise."),
    ] = None,
    chance: Annotated[
        ChanceRule,
        chance_option(
            help="paper-compat adds the paper's numbers as its released code computes them."
        ),
    ] = "own",
    fail_if: FailIfOption = None,
    no_worse_than: NoWorseThanOption = None,
    tolerance: ToleranceOption = None,
    by: Annotated[
        Literal["all", "category", "task", "wording"] | None,
        output_option(help="Groups that --detail lists. Default: category."),
    ] = None,
    detail: Annotated[
        bool,
        output_option("--detail", help="Also print every correction, bound, diagnostic and group."),
    ] = False,
    json_path: JsonOption = None,
    output: ReportOption = None,
    plots: Annotated[
        Path | None, output_option(help="Draw pictures into this folder, as PNG and SVG.")
    ] = None,
) -> None:
    """Compare two models question by question: the answers forgotten and gained, and how much of it is chance."""
    names = (before, *after)
    is_scored = not all(map(is_outcomes, names))
    if not is_scored and not is_first_process():
        return
    with shared_work() if is_scored else nullcontext():
        # Read the small files that options name, and check what can be checked before the work.
        probe_named = None if probe is None else load_probe(probe)
        policy = limits(fail_if=fail_if, no_worse_than=no_worse_than)
        losses = tolerated(tolerance)
        rule = outcome_rule(right_if, scale, lower_is_better, unscored_if)
        labels = None if categories is None else Categories.read(categories)
        _check_names(after, target)
        if by is not None and not detail:
            raise typer.BadParameter("--by: groups that --detail lists; needed --detail")
        if policy is not None and probe_named is not None and is_scored and not labels:
            check_groups(policy, probe_named)
        if drift and probe is None:
            raise typer.BadParameter(
                "--drift: needed --probe, after whose prompts the model before generates"
            )
        if again and (probe is None or len(after) > 1):
            raise typer.BadParameter(
                "--again: needed --probe, whose questions are asked otherwise, and one AFTER"
            )
        check_device_map(device_map)
        read = (*names, repeat, probe, categories, target)
        check_output(json_path, "a JSON document", read, kind="comparison")
        check_distinct(json_path, output)
        check_output(output, "a report", read)
        check_pictures(plots)
        if drift or again:
            _refuse_outcomes(names, "--drift reads texts under" if drift else "--again asks")

        # Read or score the sides. A missing file must not wait for two models to be scored.
        chosen = partial(_select, labels=labels, tasks=task or (), categories=category or ())
        second = read_repeat(repeat, before, metric, rule=rule)
        loading = Loading(device_map=device_map, concurrency=concurrency, may_spend=yes)
        items = None if probe_named is None else fitted(probe_named, before, loading=loading)
        second = second or served_again(before, items, loading=loading)
        again_rows = None if second is None else chosen(second)
        sides = resolve_all(names, items, metric, rule=rule, loading=loading)
        base, *models = map(chosen, sides)

        # Compare, and decide.
        compared = partial(
            compare,
            before=base,
            on_mismatch=on_mismatch,
            allow_prompt_mismatch=allow_prompt_mismatch,
            samples=samples,
            repeat=again_rows,
            categories=labels,
            chance=chance,
        )
        comparisons = [compared(after=model) for model in models]
        _refuse_nothing(comparisons)
        if drift and items is not None:
            comparisons = _with_drift(comparisons, names, items, loading)
        if again and items is not None:
            comparisons = [_asked_again(comparisons[0], base, models[0], names, items, loading)]
        several = None
        if len(models) > 1 and any(comparison.all.n for comparison in comparisons):
            pairs = list(zip(after, models, strict=True))
            ranked_by = None if target is None else read_target(target, pairs)
            # `compare` cuts the samples of its own two sides; the matrix must count the same rows.
            sides = [
                first_samples(side) if samples == "first" else side for side in (base, *models)
            ]
            ranking = rank_models(comparisons, ranked_by, tolerance=losses)
            several = ModelComparison(
                matrix=transition_matrix(sides), ranking=ranking, target=ranked_by
            )
        results = judge(
            policy,
            *(
                (comparison, Sides(before=base, after=model))
                for comparison, model in zip(comparisons, models, strict=True)
            ),
            tolerance=losses,
        )

        # Show and write, in the main process.
        is_document_alone = json_path == STDOUT
        if is_first_process():
            if json_path is not None:
                document = comparisons_json(comparisons, several, tolerance=losses)
                answers = {"gate": [answer_json(result) for result in results]} if results else {}
                write_json(document | answers, json_path)
            if not is_document_alone:
                _print(
                    comparisons,
                    several,
                    results=results,
                    names=names,
                    losses=losses,
                    options=outcome_options(rule, metric, probe=probe, tasks=task or ()),
                    can_measure_more=items is not None and not any(map(is_outcomes, names)),
                    by=by or "category",
                    detail=detail,
                )
            if plots is not None:
                pictures = save_comparisons(comparisons, plots, several=several)
                print_pictures(pictures, err=is_document_alone)
            if output is not None:
                changed = flips(base, models[-1], probe=items or questions_of_run(names))
                changed = with_questions(changed, before, base, metric)
                if comparisons[-1].again is not None:
                    changed = marked_flips(comparisons[-1].again, changed)
                write_report(output, comparisons, changed, tolerance=losses, several=several)
                if not is_document_alone:
                    echo(f"report: {output}")
        status = exit_code_of_limits(results, to_stderr=is_document_alone)
    if status:
        raise typer.Exit(status)


def _check_names(after: Sequence[str], target: str | None) -> None:
    if target is not None and len(after) < 2:
        raise typer.BadParameter(
            f"--target: ranks several AFTERs; needed at least two, got {len(after)}"
        )
    if repeated := next((name for name in after if after.count(name) > 1), None):
        raise typer.BadParameter(f"AFTER: {repeated} is given twice")


def _refuse_outcomes(names: Sequence[str], work: str) -> None:
    for name in names:
        if is_outcomes(name):
            raise SnapshotError(
                f"{name}: {work} the models themselves; needed a checkpoint, an adapter "
                "or a model id on each side, got outcomes"
            )


def _refuse_nothing(comparisons: Sequence[Comparison]) -> None:
    for comparison in comparisons:
        if not comparison.items.compared and not comparison.all.passages:
            raise SnapshotError(
                f"{' -> '.join(comparison.labels)}: nothing to compare, none of the "
                f"{comparison.items.unscored:,} items was scored on both sides"
            )


def _select(
    snapshot: Snapshot,
    *,
    labels: Categories | None,
    tasks: Sequence[str],
    categories: Sequence[str],
) -> Snapshot:
    # The categories that are asked for are those that the output shows.
    if labels is not None and categories:
        (snapshot,), _ = labels.relabel(snapshot)
    return select(snapshot, tasks=tasks, categories=categories)


def _with_drift(
    comparisons: Sequence[Comparison], names: Sequence[str], items: Probe, loading: Loading
) -> list[Comparison]:
    before, *after = names
    echo(f"drift: sampling short completions of {before} and of each model after", err=True)
    # Not at the top: this imports torch, which comparing files does not need.
    from forgetwatch.run.run_drift import model_drifts

    drifts = model_drifts(before, after, items, loading=loading)
    return [
        replace(comparison, drift=drift)
        for comparison, drift in zip(comparisons, drifts, strict=True)
    ]


def _asked_again(
    comparison: Comparison,
    before: Snapshot,
    after: Snapshot,
    names: Sequence[str],
    items: Probe,
    loading: Loading,
) -> Comparison:
    def score(reworded: Probe) -> tuple[Snapshot, Snapshot]:
        echo(f"again: asking {count(len(reworded))} questions in other words", err=True)
        before, after = resolve_all(names, reworded, None, loading=loading)
        return before, after

    return replace(comparison, again=ask_again(before, after, items, score))


def _print(
    comparisons: Sequence[Comparison],
    several: ModelComparison | None,
    *,
    results: Sequence[PolicyResult],
    names: Sequence[str],
    losses: Tolerance,
    options: Sequence[str],
    can_measure_more: bool,
    by: Level,
    detail: bool,
) -> None:
    console = result_console(wide=detail)
    if several is not None:
        _print_ranking(console, several, comparisons)
        # The ranking is the first table, and each comparison is detail.
        if not detail:
            return
    before, *after = names
    gates: Sequence[PolicyResult | None] = results or [None] * len(comparisons)
    for name, comparison, gate in zip(after, comparisons, gates, strict=True):
        if several is not None:
            console.print()
        table = first_table(
            comparison,
            tolerance=losses,
            flips=shlex.join(["forgetwatch", "flips", before, name, *options]),
            more=more_command(before, name, comparison) if can_measure_more else "",
            gate=gate,
        )
        console.print(first_lines(table, comparison.notes), soft_wrap=True)
        for line in drift_line(comparison) if several is None else ():
            console.print(line)
        if comparison.again is not None:
            print_hanging(f"asked again   {comparison.again}")
        if detail:
            console.print()
            console.print(comparison_detail(comparison, table, by=by))
    if several is not None:
        console.print()
        console.print(several_detail(several))


def _print_ranking(
    console: Console, several: ModelComparison, comparisons: Sequence[Comparison]
) -> None:
    notes = [
        f"no {number}: {note}"
        for number, comparison in enumerate(comparisons, 1)
        for note in comparison.notes
    ]
    console.print(several_table(several, notes=notes))
    for number, comparison in enumerate(comparisons, 1):
        for line in drift_line(comparison):
            console.print(f"no {number}: {' '.join(line.plain.split())}", markup=False)
