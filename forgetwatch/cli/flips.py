"""`forgetwatch flips BEFORE AFTER`: the items whose answer changed, with question, answers and outputs."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgetwatch.cli.options import (
    STDOUT,
    LowerOption,
    RightIfOption,
    ScaleOption,
    UnscoredIfOption,
    check_output,
    item_option,
    outcome_rule,
    output_option,
)
from forgetwatch.cli.output import (
    echo,
    print_text,
    result_console,
)
from forgetwatch.cli.resolve import fitted, questions_of_run, resolve_all, with_questions
from forgetwatch.comparing.flips import Flip, first_forgotten, flips, sort_flips
from forgetwatch.comparing.subset import select
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.files.writing import write_text
from forgetwatch.grading.outcome_rule import OutcomeRule
from forgetwatch.probes.named import load_probe
from forgetwatch.report.flip_list import flip_json, flip_lines
from forgetwatch.run_folder.contents import is_run_folder, run_probe
from forgetwatch.text import one_line

_What = Literal["forgotten", "known_lost", "gained", "churned"]


def flips_command(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="A snapshot, a log, or with --probe a model; or a run folder alone.",
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(metavar="[AFTER]", help="The same, later; left out for a run folder."),
    ] = None,
    probe: Annotated[
        str | None, item_option(help="Probe that gives the questions, and scores models.")
    ] = None,
    what: Annotated[
        _What, item_option(help="Items to show; churned: wrong, and now wrong in another way.")
    ] = "forgotten",
    task: Annotated[
        list[str] | None, item_option(help="Show only this task; may be repeated.")
    ] = None,
    category: Annotated[
        list[str] | None, item_option(help="Show only this category; may be repeated.")
    ] = None,
    metric: Annotated[
        str | None, item_option(help="Metric that decides right or wrong, if a log has several.")
    ] = None,
    right_if: RightIfOption = None,
    scale: ScaleOption = None,
    lower_is_better: LowerOption = False,
    unscored_if: UnscoredIfOption = None,
    sort: Annotated[
        Literal["margin", "first"],
        output_option(
            help="margin: most confident answers first; first: those forgotten first in the run."
        ),
    ] = "margin",
    limit: Annotated[int, output_option(min=0, help="Maximum number of items; 0 for all.")] = 20,
    jsonl: Annotated[
        Path | None, output_option(help="Write JSONL to this file; - for stdout.")
    ] = None,
) -> None:
    """Show the items whose answer changed: question, right answer, and the answers before and after."""
    check_output(jsonl, "a list of items", [before, after, probe])
    rule = outcome_rule(right_if, scale, lower_is_better, unscored_if)
    changed, passages = _flips(before, after, probe, metric, task or [], category or [], rule)
    if what == "known_lost":
        changes = [flip for flip in changed if flip.what == "forgotten" and flip.known]
    else:
        changes = [flip for flip in changed if flip.what == what]
    listed = sort_flips(changes, by=sort)[: limit or None]
    if jsonl is not None:
        lines = "".join(json.dumps(flip_json(flip), ensure_ascii=True) + "\n" for flip in listed)
        if jsonl == STDOUT:
            sys.stdout.write(lines)
            return
        write_text(jsonl, lines)
        echo(f"{len(listed):,} of {len(changes):,} items: {jsonl}")
        return
    console = result_console()
    for flip in listed:
        console.print(flip_lines(flip))
    line = f"{f'{len(listed):,}' if listed else 'none'} {what.replace('_', ' ')}"
    if len(changes) > len(listed):
        line += f", {len(changes) - len(listed):,} more with --limit 0"
    by_luck = [flip.by_luck for flip in changed if flip.by_luck is not None]
    if what == "known_lost" and listed and by_luck:
        line += f"; luck alone makes {sum(by_luck):.1f}".removesuffix(".0")
    if passages:
        of = "the passage has" if passages == 1 else f"the {passages:,} passages have"
        line += f"; {of} no right answer, and none to flip: `forgetwatch compare` shows their bits per byte"
    print_text(line)


def _flips(
    before: str,
    after: str | None,
    probe: str | None,
    metric: str | None,
    tasks: list[str],
    categories: list[str],
    rule: OutcomeRule,
) -> tuple[list[Flip], int]:
    items = None if probe is None else load_probe(probe)
    if after is not None:
        items = None if items is None else fitted(items, before)
        both_sides = resolve_all((before, after), items, metric, rule=rule)
        sides = [select(side, tasks=tasks, categories=categories) for side in both_sides]
        changed = flips(sides[0], sides[1], probe=items or questions_of_run((before, after)))
        return with_questions(changed, before, sides[0], metric), int(sides[0].is_passage.sum())
    folder = Path(before)
    if not is_run_folder(folder):
        raise SnapshotError(f"{before}: not a run folder; pass a run folder, or BEFORE and AFTER")
    if metric is not None:
        raise SnapshotError(
            f"{before}: a run folder, scored by its probe; --metric chooses among those of a "
            "harness's log"
        )
    run = Trajectory.from_run(folder)
    for note in run.notes:  # not on stdout, which may be the JSONL
        typer.echo(f"note: {one_line(note)}", err=True)
    first_step = first_forgotten(run)
    sides = [select(side, tasks=tasks, categories=categories) for side in (run.baseline, run.last)]
    changes = flips(sides[0], sides[1], probe=items or run_probe(folder), first=first_step)
    return changes, int(sides[0].is_passage.sum())
