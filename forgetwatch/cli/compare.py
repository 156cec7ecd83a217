"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: each answer before and after, on files or on checkpoints.

Options ─▶ resolve (snapshots) ─▶ compare, rank ─▶ limits ─▶ show, write ─▶ exit status
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgetwatch.cli.options import (
    STDOUT,
    DeviceMapOption,
    FailIfOption,
    JsonOption,
    NoWorseThanOption,
    ReportOption,
    ToleranceOption,
    chance_option,
    check_device_map,
    check_distinct,
    check_output,
    check_pictures,
    command_of,
    item_option,
    limits,
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
    read_outcomes,
    resolve_all,
    with_questions,
)
from forgetwatch.comparing.checks import OnMismatch, select
from forgetwatch.comparing.comparison import ChanceRule, Comparison, compare, first_samples
from forgetwatch.comparing.document import comparisons_json
from forgetwatch.comparing.flips import ask_again, flips, marked_flips
from forgetwatch.comparing.ranking import (
    ModelComparison,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.errors import SnapshotError
from forgetwatch.loading import Loading
from forgetwatch.policy.policy import Policy, check_groups
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


@dataclass(frozen=True, kw_only=True)
class Options:
    """Arguments and options of one call of `compare`, and what they name.

    Each field is a parameter of the command, with its help; `command_of` makes the command of them.
    """

    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="A snapshot, a table, a log of another tool; with --probe a checkpoint, adapter or model id.",
        ),
    ]
    after: Annotated[
        list[str],
        typer.Argument(
            metavar="AFTER...", help="One or more like BEFORE; each is compared with it."
        ),
    ]
    probe: Annotated[
        str | None, item_option(help="Probe that scores models: a name or a file.")
    ] = None
    device_map: DeviceMapOption = None
    drift: Annotated[
        bool,
        item_option(
            "--drift",
            help="Also measure how far AFTER is from BEFORE (KL in both directions, and overlap) on texts that each "
            "generates after the probe's prompts. Both must be models.",
        ),
    ] = False
    again: Annotated[
        bool,
        item_option(
            "--again",
            help="Also ask what was clearly known and is lost again in other words, beside as many kept ones. Both "
            "must be models.",
        ),
    ] = False
    metric: Annotated[
        str | None,
        item_option(help="Metric that decides right or wrong, if a log has several: acc_norm."),
    ] = None
    task: Annotated[
        list[str] | None, item_option(help="Compare only this task; may be repeated.")
    ] = None
    category: Annotated[
        list[str] | None, item_option(help="Compare only this category; may be repeated.")
    ] = None
    categories: Annotated[
        Path | None,
        item_option(
            help="Use this map of tasks to categories: CSV (task,category) or YAML (task: category)."
        ),
    ] = None
    on_mismatch: Annotated[
        OnMismatch,
        item_option(help="If the two sides have different items: fail, or compare those in both."),
    ] = "error"
    allow_prompt_mismatch: Annotated[
        bool, item_option("--allow-prompt-mismatch", help="Compare even if the prompts differ.")
    ] = False
    samples: Annotated[
        Literal["all", "first"],
        item_option(help="If items have several answers: compare all of them, or the first."),
    ] = "all"
    target: Annotated[
        str | None,
        item_option(
            help="CSV file with the columns AFTER and metric: rank several AFTERs also by it. Less is better if its "
            "name ends in loss."
        ),
    ] = None
    null: Annotated[
        Path | None,
        chance_option(help="Outcomes of BEFORE measured again: flips between the two are noise."),
    ] = None
    chance: Annotated[
        ChanceRule,
        chance_option(
            help="paper-compat adds the paper's numbers as its released code computes them."
        ),
    ] = "own"
    fail_if: FailIfOption = None
    no_worse_than: NoWorseThanOption = None
    tolerance: ToleranceOption = None
    by: Annotated[
        Literal["all", "category", "task", "wording"] | None,
        output_option(help="Groups that --detail lists. Default: category."),
    ] = None
    detail: Annotated[
        bool,
        output_option("--detail", help="Also print every correction, bound, diagnostic and group."),
    ] = False
    json_path: JsonOption = None
    output: ReportOption = None
    plots: Annotated[
        Path | None, output_option(help="Draw pictures into this folder, as PNG and SVG.")
    ] = None

    @cached_property
    def items(self) -> Probe | None:
        """The probe that scores models and gives questions; a ladder at the levels that suit BEFORE."""
        loading = Loading(device_map=self.device_map)
        return None if self.named is None else fitted(self.named, self.before, loading=loading)

    @cached_property
    def named(self) -> Probe | None:
        """The probe as it is named."""
        return None if self.probe is None else load_probe(self.probe)

    @cached_property
    def limits(self) -> Policy | None:
        """The limits of --fail-if and --no-worse-than."""
        return limits(fail_if=self.fail_if, no_worse_than=self.no_worse_than)

    @cached_property
    def tolerated(self) -> Tolerance:
        """Losses that the verdict tolerates."""
        return tolerated(self.tolerance)

    @cached_property
    def labels(self) -> Categories | None:
        """Another map of tasks to categories."""
        return None if self.categories is None else Categories.read(self.categories)

    def flips_of(self, after: str) -> str:
        """Return the command that lists the items whose answer changed between BEFORE and one AFTER."""
        named = {"--probe": self.probe, "--metric": self.metric}
        options = [
            part for name, value in named.items() if value is not None for part in (name, value)
        ]
        options += [part for name in self.task or () for part in ("--task", name)]
        return shlex.join(["forgetwatch", "flips", self.before, after, *options])

    @property
    def json_alone(self) -> bool:
        """True if standard output is for the JSON document alone."""
        return self.json_path == STDOUT

    def check(self) -> None:
        """Read the small files that options name, and check what can be checked before the work."""
        _ = self.named, self.limits, self.tolerated, self.labels
        if self.target is not None and len(self.after) < 2:
            raise typer.BadParameter(
                f"--target: ranks several AFTERs; needed at least two, got {len(self.after)}"
            )
        if twice := next((one for one in self.after if self.after.count(one) > 1), None):
            raise typer.BadParameter(f"AFTER: {twice} is given twice")
        if self.by is not None and not self.detail:
            raise typer.BadParameter("--by: groups that --detail lists; needed --detail")
        sides = (self.before, *self.after)
        if (
            self.limits is not None
            and self.named is not None
            and not self.labels
            and not all(map(is_outcomes, sides))
        ):
            check_groups(self.limits, self.named)
        if self.drift and self.probe is None:
            raise typer.BadParameter(
                "--drift: needed --probe, after whose prompts the model before generates"
            )
        if self.again and (self.probe is None or len(self.after) > 1):
            raise typer.BadParameter(
                "--again: needed --probe, whose questions are asked otherwise, and one AFTER"
            )
        read = (self.before, *self.after, self.null, self.probe, self.categories, self.target)
        check_device_map(self.device_map)
        check_output(self.json_path, "a JSON document", read, kind="comparison")
        check_distinct(self.json_path, self.output)
        check_output(self.output, "a report", read)
        check_pictures(self.plots)


@command_of(Options)
def compare_command(options: Options) -> None:
    """Compare two models question by question: the answers forgotten and gained, and how much of it is chance."""
    is_scored = not all(map(is_outcomes, (options.before, *options.after)))
    if not is_scored and not is_first_process():
        return
    with shared_work() if is_scored else nullcontext():
        options.check()
        status = _execute(options)
    if status:
        raise typer.Exit(status)


def _execute(options: Options) -> int:
    """Read, compare, print and write; the exit status is that of the gate."""
    sides = _resolve(options)
    comparisons = _asked_again(options, sides, _with_drift(options, _compare(options, sides)))
    several = _rank(options, sides, comparisons)
    pairs = zip(comparisons, sides.after, strict=True)
    results = judge(
        options.limits,
        *((one, Sides(before=sides.before, after=after)) for one, after in pairs),
        tolerance=options.tolerated,
    )
    if is_first_process():
        _show(options, comparisons, several, results)
        _write(options, sides, comparisons, several)
    return exit_code_of_limits(results, to_stderr=options.json_alone)


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Snapshots of one call, with the rows that are compared."""

    before: Snapshot
    after: tuple[Snapshot, ...]
    again: Snapshot | None  # the side before, measured again


def _resolve(options: Options) -> _Sides:
    """Return the snapshots that the options name."""

    def part(whole: Snapshot) -> Snapshot:
        # The categories that are asked for are those that the output shows.
        if options.labels is not None and options.category:
            (whole,), _ = options.labels.relabel(whole)
        return select(whole, tasks=options.task or (), categories=options.category or ())

    if options.drift or options.again:
        for given in (options.before, *options.after):
            if is_outcomes(given):
                option = "--drift reads texts under" if options.drift else "--again asks"
                raise SnapshotError(
                    f"{given}: {option} the models themselves; needed a checkpoint, an adapter or a model id on each "
                    "side, got outcomes"
                )
    # Read first: a file that is missing must not wait for two models to be scored.
    again = None if options.null is None else part(read_outcomes(options.null, options.metric))
    loading = Loading(device_map=options.device_map)
    sides = resolve_all(
        (options.before, *options.after), options.items, options.metric, loading=loading
    )
    before, *after = map(part, sides)
    return _Sides(before=before, after=tuple(after), again=again)


def _compare(options: Options, sides: _Sides) -> list[Comparison]:
    """Return the comparison of each side after with the one before.

    No item that was scored on both sides is an error.
    """
    comparisons = [
        compare(
            before=sides.before,
            after=after,
            on_mismatch=options.on_mismatch,
            allow_prompt_mismatch=options.allow_prompt_mismatch,
            samples=options.samples,
            null=sides.again,
            categories=options.labels,
            chance=options.chance,
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
    """Return the comparisons with the drift of each model, if it is wanted."""
    if not options.drift or options.items is None:
        return comparisons
    echo(f"drift: sampling short completions of {options.before} and of each model after", err=True)
    # Not at the top: this imports torch, which comparing files does not need.
    from forgetwatch.run.drift import model_drifts

    drifts = model_drifts(
        options.before, options.after, options.items, loading=Loading(device_map=options.device_map)
    )
    return [replace(one, drift=drift) for one, drift in zip(comparisons, drifts, strict=True)]


def _asked_again(
    options: Options, sides: _Sides, comparisons: list[Comparison]
) -> list[Comparison]:
    """Return the comparison with what became of the lost in other wordings, if it is wanted."""
    if not options.again or options.items is None:
        return comparisons

    def score(asked: Probe) -> tuple[Snapshot, Snapshot]:
        echo(f"again: asking {count(len(asked))} questions in other words", err=True)
        loading = Loading(device_map=options.device_map)
        before, after = resolve_all((options.before, *options.after), asked, None, loading=loading)
        return before, after

    found = ask_again(sides.before, sides.after[0], options.items, score)
    return [replace(one, again=found) for one in comparisons]


def _rank(
    options: Options, sides: _Sides, comparisons: Sequence[Comparison]
) -> ModelComparison | None:
    """Return the ranking and matrix of several sides after.

    None for one, and for passages alone, which have no retention.
    """
    if len(sides.after) < 2 or not any(comparison.all.n for comparison in comparisons):
        return None
    snapshots = [sides.before, *sides.after]
    if options.samples == "first":
        # `compare` cuts the samples of its own two sides only; the matrix must count the same rows.
        snapshots = [first_samples(one) for one in snapshots]
    pairs = list(zip(options.after, sides.after, strict=True))
    target = None if options.target is None else read_target(options.target, pairs)
    return ModelComparison(
        matrix=transition_matrix(snapshots),
        ranking=rank_models(comparisons, target, tolerance=options.tolerated),
        target=target,
    )


def _show(  # noqa: C901
    options: Options,
    comparisons: Sequence[Comparison],
    several: ModelComparison | None,
    results: Sequence[PolicyResult],
) -> None:
    """Print the tables, and write the JSON document."""
    if options.json_path is not None:
        document = comparisons_json(comparisons, several, tolerance=options.tolerated)
        write_json(
            document | ({"gate": [answer_json(one) for one in results]} if results else {}),
            options.json_path,
        )
    if options.json_alone:
        return
    console = result_console(wide=options.detail)
    if several is not None:
        notes = [
            f"no {number}: {note}"
            for number, one in enumerate(comparisons, 1)
            for note in one.notes
        ]
        console.print(several_table(several, notes=notes))
        for number, comparison in enumerate(comparisons, 1):
            for line in drift_line(comparison):
                console.print(f"no {number}: {' '.join(line.plain.split())}", markup=False)
    # Of several models the ranking is the first table, and each comparison is detail.
    judged: Sequence[PolicyResult | None] = results or [None] * len(comparisons)
    each = (
        zip(options.after, comparisons, judged, strict=True)
        if several is None or options.detail
        else ()
    )
    for given, comparison, gate in each:
        if several is not None:
            console.print()
        first = first_table(
            comparison,
            tolerance=options.tolerated,
            flips=options.flips_of(given),
            more=more_command(options.before, given, comparison)
            if options.items is not None
            else "",
            gate=gate,
        )
        console.print(first_lines(first, comparison.notes), soft_wrap=True)
        for line in drift_line(comparison) if several is None else ():
            console.print(line)
        if comparison.again is not None:
            print_hanging(f"asked again   {comparison.again}")
        if options.detail:
            console.print()
            console.print(comparison_detail(comparison, first, by=options.by or "category"))
    if several is not None and options.detail:
        console.print()
        console.print(several_detail(several))


def _write(
    options: Options,
    sides: _Sides,
    comparisons: Sequence[Comparison],
    several: ModelComparison | None,
) -> None:
    """Write the pictures and the report, and print where they are."""
    if options.plots is not None:
        print_pictures(
            save_comparisons(comparisons, options.plots, several=several), err=options.json_alone
        )
    if options.output is None:
        return
    texts = options.items or questions_of_run((options.before, *options.after))
    changed = flips(sides.before, sides.after[-1], probe=texts)
    changed = with_questions(changed, options.before, sides.before, options.metric)
    if comparisons[-1].again is not None:
        changed = marked_flips(comparisons[-1].again, changed)
    write_report(options.output, comparisons, changed, tolerance=options.tolerated, several=several)
    if not options.json_alone:
        echo(f"report: {options.output}")
