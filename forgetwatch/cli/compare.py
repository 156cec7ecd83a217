"""`forgetwatch compare BEFORE AFTER [AFTER ...]`: what became of each answer, on files or on checkpoints."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from forgetwatch.compare import Comparison, compare
from forgetwatch.errors import SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.gates import Condition
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.readers import load_snapshot
from forgetwatch.report.as_json import comparisons_json
from forgetwatch.report.terminal import WIDTH, comparison_table
from forgetwatch.snapshot import Snapshot

GATE_FAILED = 3


class _By(StrEnum):
    ALL = "all"
    CATEGORY = "category"
    TASK = "task"


class _OnMismatch(StrEnum):
    ERROR = "error"
    INTERSECT = "intersect"


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
        typer.Option(help="Exit with 3 if it holds: category:Math.forgetting>0.05 or the like."),
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
) -> None:
    """Compare two snapshots question by question: what was forgotten, what was gained, how much of it is chance."""
    conditions = [Condition.parse(text) for text in fail_if or []]
    items = None if probe is None else load_probe(probe)
    if json_path not in (None, "-") and not Path(json_path).absolute().parent.is_dir():
        raise SnapshotError(f"{json_path}: needed a folder that is there, and {Path(json_path).parent} is none")
    base = _side(before, items)
    comparisons = [
        compare(
            before=base,
            after=_side(path, items),
            on_mismatch=on_mismatch.value,
            allow_prompt_mismatch=allow_prompt_mismatch,
            samples=samples.value,
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
    for comparison in comparisons:
        which = f" ({' -> '.join(comparison.labels)})" if len(comparisons) > 1 else ""
        for condition in conditions:
            if condition.holds(comparison):
                failed = True
                typer.echo(
                    f"gate failed: {condition.text}, measured {condition.measured(comparison):.6g}{which}", err=True
                )
    if failed:
        raise typer.Exit(GATE_FAILED)


def _show(comparisons: list[Comparison], *, by: _By, json_path: str | None) -> None:
    document = json.dumps(comparisons_json(comparisons), indent=1, ensure_ascii=False, allow_nan=False)
    if json_path == "-":
        sys.stdout.write(document + "\n")
        return
    if json_path:
        write_atomically(Path(json_path), lambda partial: partial.write_text(document + "\n", encoding="utf-8"))
    console = Console(highlight=False)
    console.width = WIDTH if not console.is_terminal else min(console.width, 120)
    for index, comparison in enumerate(comparisons):
        if index:
            console.print()
        console.print(comparison_table(comparison, by=by.value))


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
    from forgetwatch.scoring.checkpoints import score_checkpoint

    return score_checkpoint(given, probe)


_FILE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".json")
