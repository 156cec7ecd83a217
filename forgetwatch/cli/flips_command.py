"""`forgetwatch flips BEFORE AFTER`: the items whose answer changed, one by one."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.options import check_folder
from forgetwatch.cli.output import result_console
from forgetwatch.cli.resolve import only, side, with_questions
from forgetwatch.comparing.flips import Flip, first_forgotten, flips, sort_flips
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.probes import load_probe
from forgetwatch.report.flip_list import flip_json, flip_lines
from forgetwatch.run_folder import is_run_folder, run_probe


class _What(StrEnum):
    FORGOTTEN = "forgotten"
    KNOWN_LOST = "known_lost"
    GAINED = "gained"
    CHURNED = "churned"


class _Order(StrEnum):
    MARGIN = "margin"
    FIRST = "first"


def run(
    before: Annotated[str, typer.Argument(help="A snapshot, a log, or with --probe a model; or a run folder alone.")],
    after: Annotated[str | None, typer.Argument(help="The same, later; left out for a run folder.")] = None,
    probe: Annotated[str | None, typer.Option(help="The probe: it gives the questions, and scores models.")] = None,
    what: Annotated[
        _What, typer.Option(help="Which items; churned: wrong, and now wrong otherwise.")
    ] = _What.FORGOTTEN,
    sort: Annotated[_Order, typer.Option(help="margin: surest first; first: first forgotten first.")] = _Order.MARGIN,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only this category; may be repeated.")] = None,
    metric: Annotated[str | None, typer.Option(help="Which of a log's metrics makes right and wrong.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Most items; 0: all.")] = 20,
    jsonl: Annotated[str | None, typer.Option("--jsonl", help="Write JSONL to this file; - for stdout.")] = None,
) -> None:
    """Show the items whose answer changed, with question, right answer, and what was answered before and after."""
    check_folder(jsonl)
    found = [flip for flip in _flips(before, after, probe, metric, task or [], category or []) if _is(flip, what)]
    shown = sort_flips(found, by=sort.value)[: limit or None]
    if jsonl is not None:
        text = "".join(json.dumps(flip_json(flip), ensure_ascii=True) + "\n" for flip in shown)
        if jsonl == "-":
            sys.stdout.write(text)
            return
        write_atomically(Path(jsonl), lambda partial: partial.write_text(text, encoding="utf-8"))
        typer.echo(f"{len(shown):,} of {len(found):,} items: {jsonl}")
        return
    console = result_console()
    for flip in shown:
        console.print(flip_lines(flip))
    named = what.value.replace("_", " ")
    more = f", {len(found) - len(shown):,} more with --limit 0" if len(found) > len(shown) else ""
    console.print(f"{len(shown):,} {named}{more}" if shown else f"none {named}", markup=False)


def _flips(
    before: str, after: str | None, probe: str | None, metric: str | None, tasks: list[str], categories: list[str]
) -> list[Flip]:
    items = None if probe is None else load_probe(probe)
    if after is not None:
        sides = [only(side(given, items, metric), tasks=tasks, categories=categories) for given in (before, after)]
        return with_questions(flips(sides[0], sides[1], probe=items), before, sides[0], metric)
    folder = Path(before)
    if not is_run_folder(folder):
        raise SnapshotError(f"{before}: one argument is a run folder, and this is none; give BEFORE and AFTER")
    run = Trajectory.from_run(folder)
    first = first_forgotten(run)
    sides = [only(one, tasks=tasks, categories=categories) for one in (run.baseline, run.last)]
    return flips(sides[0], sides[1], probe=items or run_probe(folder), first=first)


def _is(flip: Flip, what: _What) -> bool:
    if what is _What.KNOWN_LOST:
        return flip.what == "forgotten" and flip.known
    return flip.what == what.value
