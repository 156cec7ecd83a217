"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: what became of each answer, on files or on checkpoints."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from forgetwatch.cli.options import check_folder, share
from forgetwatch.cli.output import result_console, write_json
from forgetwatch.compare import Comparison, compare
from forgetwatch.errors import SnapshotError
from forgetwatch.gates import Condition
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.readers import load_snapshot
from forgetwatch.report.as_json import comparisons_json
from forgetwatch.report.numbers import between, count, points
from forgetwatch.report.terminal import comparison_table
from forgetwatch.snapshot import Snapshot

_FILE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".json")
_FEWEST_DRAWS = 100

GATE_FAILED = 3
INCONCLUSIVE = 4


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


def compare_command(
    before: Annotated[
        str, typer.Argument(help="A snapshot, a table, or with --probe a checkpoint, adapter or model id.")
    ],
    after: Annotated[list[str], typer.Argument(help="The same, later; each is compared with BEFORE.")],
    probe: Annotated[str | None, typer.Option(help="The probe with which checkpoints are scored.")] = None,
    by: Annotated[_By, typer.Option(help="The groups that the table lists.")] = _By.CATEGORY,
    json_path: Annotated[str | None, typer.Option("--json", help="Write JSON to this file; - for stdout.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(help="Exit with 3 if it holds, such as category:Math.forgetting>5%; may be repeated."),
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
) -> None:
    """Compare two snapshots question by question: what was forgotten, what was gained, how much of it is chance."""
    conditions = [Condition.parse(text) for text in fail_if or []]
    items = None if probe is None else load_probe(probe)
    tolerance = None if no_worse_than is None else share(no_worse_than, "--no-worse-than")
    if 0 < bootstrap < _FEWEST_DRAWS:
        raise typer.BadParameter(f"--bootstrap: needed 0, or at least {_FEWEST_DRAWS} draws, got {bootstrap}")
    check_folder(json_path)
    again = None if null is None else load_snapshot(null)
    base = _side(before, items)
    comparisons = [
        compare(
            before=base,
            after=_side(path, items),
            on_mismatch=on_mismatch.value,
            allow_prompt_mismatch=allow_prompt_mismatch,
            samples=samples.value,
            null=again,
            chance=chance.value,
            rng=np.random.default_rng(seed) if bootstrap else None,
            replications=bootstrap,
        )
        for path in after
    ]
    for comparison in comparisons:
        if not comparison.items.compared:
            raise SnapshotError(
                f"{' -> '.join(comparison.labels)}: nothing to compare, none of the "
                f"{comparison.items.unscored:,} items was scored on both sides"
            )
    _show(comparisons, by=by, json_path=json_path)
    failed = False
    unclear = False
    for comparison in comparisons:
        which = f" ({' -> '.join(comparison.labels)})" if len(comparisons) > 1 else ""
        for condition in conditions:
            if condition.holds(comparison):
                failed = True
                typer.echo(
                    f"gate failed: {condition.text}, measured {condition.measured(comparison):.6g}{which}", err=True
                )
        if tolerance is not None:
            verdict = _no_worse_than(comparison, tolerance, which, quiet=json_path == "-")
            failed |= verdict == "FAIL"
            unclear |= verdict == "INCONCLUSIVE"
    if failed or unclear:
        raise typer.Exit(GATE_FAILED if failed else INCONCLUSIVE)


def _no_worse_than(comparison: Comparison, tolerance: float, which: str, *, quiet: bool) -> str:
    """Say and return the verdict on "accuracy is no worse than before by more than the tolerance"."""
    found = comparison.all.no_worse_than(tolerance)
    line = (
        f"{found.verdict}: no worse than {100 * tolerance:g} points? net {points(comparison.all.net_change)} "
        f"({between(found.interval, points)})"
    )
    if found.verdict == "INCONCLUSIVE" and math.isfinite(found.items_needed):
        line += f"; about {count(math.ceil(found.items_needed))} items would tell"
    if found.verdict == "INCONCLUSIVE" or found.verdict == "FAIL" or quiet:
        typer.echo(line + which, err=True)
    else:
        typer.echo(line + which)
    return found.verdict


def _show(comparisons: list[Comparison], *, by: _By, json_path: str | None) -> None:
    if json_path is not None:
        write_json(comparisons_json(comparisons), json_path)
    if json_path == "-":
        return
    console = result_console()
    for index, comparison in enumerate(comparisons):
        if index:
            console.print()
        console.print(comparison_table(comparison, by=by.value, explain=True))


def _side(given: str, probe: Probe | None) -> Snapshot:
    """One side of the comparison: a file of outcomes, or a model that is scored, once."""
    path = Path(given)
    if path.exists() and not path.is_dir():
        return load_snapshot(path)
    is_model = path.is_dir() and any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
    if path.is_dir() and not is_model:
        raise SnapshotError(
            f"{given}: a folder that holds neither a checkpoint (config.json) nor an adapter (adapter_config.json); "
            "give a file of outcomes, a checkpoint, or a model id"
        )
    if not is_model and (path.is_symlink() or path.suffix in _FILE_SUFFIXES or given.startswith((".", "/"))):
        raise SnapshotError(f"{given}: no such file or folder")
    if probe is None and is_model:
        raise SnapshotError(f"{given}: a model folder; a model needs --probe to be scored on")
    if probe is None:
        raise SnapshotError(f"{given}: no such file or folder; a model id needs --probe to be scored on")
    from forgetwatch.cli.progress import items_bar
    from forgetwatch.scoring.checkpoints import score_checkpoint, silence_loading

    silence_loading()
    with items_bar(f"scoring {given}") as progress:
        return score_checkpoint(given, probe, progress=progress)
