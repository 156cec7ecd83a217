"""`forgetwatch advise RUN`, or BEFORE AFTER: what to do about what a model has lost, and whether a choice held."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from forgetwatch.cli.options import STDOUT, JsonOption, ToleranceOption, item_option, limits_of, tolerated
from forgetwatch.cli.output import echo, print_hanging, shared_work, write_json
from forgetwatch.cli.resolve import resolve_all
from forgetwatch.cli.targets import check_json
from forgetwatch.comparing import Tolerance, Trajectory, compare, in_common_norm
from forgetwatch.pairing import one_line
from forgetwatch.probes import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.report.advice import PAGE, Advice, advise, advise_pair
from forgetwatch.report.confirm import Confirmation, candidates_of, confirm, confirmation_json

_ONE_MODEL = (
    f"Another model may differ in size and in order. The table, and how replay and RetentionLoss are used: {PAGE}"
)


def run(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | BEFORE AFTER",
            help="A watched run: its folder, or the output_dir. Or two snapshots, logs or models, as in compare.",
        ),
    ],
    probe: Annotated[str | None, item_option(help="Probe that scores two models: a name or a file.")] = None,
    confirm_it: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Score the checkpoint to keep on questions that chose nothing, beside the last one."
        ),
    ] = False,
    confirmation: Annotated[
        str, item_option(help="Probe of --confirm, with none of the questions of the run.")
    ] = "confirmation",
    json_path: JsonOption = None,
    tolerance: ToleranceOption = None,
) -> None:
    """Say what to do about what a model has lost: each proposal with its command and with what was measured."""
    check_json(json_path, given, kind="advice")
    tolerates = tolerated(tolerance, limits_of(file=None, fail_if=None, no_worse_than=None, probe=None))
    if len(given) > 2:
        raise typer.BadParameter(f"needed a run, or BEFORE and AFTER; got {len(given)} arguments")
    if len(given) == 2:
        if confirm_it:
            raise typer.BadParameter("--confirm: needed a run, among whose checkpoints one is chosen")
        found = _of_pair(given[0], given[1], probe=probe, tolerance=tolerates)
        notes: tuple[str, ...] = ()
        confirmed = None
    else:
        path = Path(given[0])
        trajectory = Trajectory.from_run(path)
        found, notes = advise(trajectory, path, tolerance=tolerates), trajectory.notes
        confirmed = _confirmed(trajectory, path, confirmation) if confirm_it else None
    if not is_first_process():
        return
    if json_path is not None:
        document: dict[str, Any] = {"schema": "forgetwatch/advice@1", "advice": [vars(one) for one in found]}
        if confirmed is not None:
            document["confirmed"] = confirmation_json(confirmed)
        write_json(document, json_path)
    if json_path == STDOUT:
        return
    for note in notes:
        echo(f"note: {one_line(note)}")
    if confirmed is not None:
        for line in confirmed.lines():
            print_hanging(line)
        return
    _show(found)


def _of_pair(before: str, after: str, *, probe: str | None, tolerance: Tolerance) -> list[Advice]:
    items = None if probe is None else load_probe(probe)
    sides = in_common_norm(resolve_all((before, after), items, None))
    comparison = compare(before=sides[0], after=sides[1])
    return advise_pair(comparison, before, after, probe=probe, tolerance=tolerance)


def _confirmed(trajectory: Trajectory, path: Path, name: str) -> Confirmation:
    probe = load_probe(name)
    candidates = candidates_of(trajectory, path, probe)
    with shared_work():
        start, kept, end = resolve_all(candidates.names, probe)
    return confirm(candidates, start, kept, end)


def _show(found: list[Advice]) -> None:
    said, proposed = (
        [one for one in found if (one.kind in ("verdict", "earlier")) == is_said] for is_said in (True, False)
    )
    for one in said:
        print_hanging(one_line(one.text))
    if len(proposed) > 1:
        print_hanging("What can be tried, the least work first; measure again after each:")
    for number, one in enumerate(proposed, start=1):
        print_hanging(f"{f'{number}. ' if len(proposed) > 1 else ''}{one_line(one.text)}")
        if one.measured:
            echo(f"   measured elsewhere: {one.measured}")
        if one.command:
            echo(f"   {one.command}")
    if any(one.measured for one in proposed):
        print_hanging(_ONE_MODEL)
