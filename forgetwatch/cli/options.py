"""Options that commands share: panels of `--help`, gates, device maps, shares such as 2%, files, and sides to compare.

All are checked before the work. The suffix of a report decides its format: .html, .md, .csv or .json. The path ``-`` is
standard output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import typer

from forgetwatch.cli.output import announce_import, bytes_bar, scoring_unless_cached
from forgetwatch.comparing import Flip, What, sort_flips
from forgetwatch.errors import ScoringError, SnapshotError, did_you_mean, did_you_mean_path
from forgetwatch.gates import Condition, FailIf, Gate, Limit, NoWorseThan, parse_fraction, read_gate
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.probes import SUFFIXES
from forgetwatch.progress import launched_count
from forgetwatch.readers import QuestionStore, QuestionText, is_outcomes, load_snapshot
from forgetwatch.snapshot import Snapshot

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ITEMS: Final = "Items"
item_option = partial(typer.Option, rich_help_panel=ITEMS)
chance_option = partial(typer.Option, rich_help_panel="Chance (the tables show it with --detail)")
gate_option = partial(typer.Option, rich_help_panel="Gates")
output_option = partial(typer.Option, rich_help_panel="Output")
"""Options under the headings by which `--help` lists those of a command with many."""

JsonOption = Annotated[
    Path | None, output_option("--json", help="Write all numbers as JSON to this file; - for stdout.")
]
ReportOption = Annotated[
    Path | None, output_option("--output", "-o", help="Write a report: .html, .md, .csv or .json.")
]
FailIfOption = Annotated[
    list[str] | None,
    gate_option(help="Exit with status 3 if this holds, such as category:Math.forgetting>5%; may be repeated."),
]
NoWorseThanOption = Annotated[
    str | None,
    gate_option(help="Exit with status 3 if accuracy fell by more than this (2%), with 4 if that is not clear."),
]
GateOption = Annotated[Path | None, gate_option(help="YAML file of limits to check.")]
SummaryOption = Annotated[Path | None, gate_option(help="Write the results of the gates to this Markdown file.")]

STDOUT: Final = Path("-")
DEVICE_MAPS: Final = ("auto",)
_FORMATS: Final = (".html", ".md", ".csv", ".json")
_Options = TypeVar("_Options", bound="DataclassInstance")


def device_map_option(panel: str | None = None) -> Any:
    """Option of typer for `--device-map`, under one of the headings."""
    return typer.Option(
        help="Spread a scored model that is larger than one GPU over all GPUs, then the CPU and the disk: auto.",
        rich_help_panel=panel,
    )


def check_device_map(given: str | None) -> None:
    """Raise ScoringError for another value than `--device-map` has, and for several processes, which share no GPUs."""
    if given is None:
        return
    if given not in DEVICE_MAPS:
        near = did_you_mean(given, DEVICE_MAPS)
        raise ScoringError(f"--device-map {given}: needed {' or '.join(DEVICE_MAPS)}{near}")
    # The launcher's variable: no process group exists yet.
    if (count := launched_count()) > 1:
        raise ScoringError(f"--device-map spreads one model over all GPUs; needed one process, got {count}")


def share(text: str, option: str) -> float:
    """Share between 0 and 1 that an option gives as 2% or 0.02; another text is wrong usage."""
    try:
        value = parse_fraction(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise typer.BadParameter(f"{option}: needed a share above 0 and below 1, such as 2% or 0.02, got {text!r}")
    return value


def limits_of(
    *, file: Path | None, fail_if: Sequence[str] | None, no_worse_than: str | None, probe: Probe | None
) -> Gate:
    """Gate of --gate, --fail-if and --no-worse-than together; the file may mark items of a probe that must pass.

    Raises:
        GateError: If the file or a condition cannot be read.
        typer.BadParameter: If the tolerance is not a share.
    """
    gate = Gate() if file is None else read_gate(file, probe)
    limits: list[Limit] = [FailIf(condition=Condition.parse(text)) for text in fail_if or ()]
    if no_worse_than is not None:
        limits.append(NoWorseThan(tolerance=share(no_worse_than, "--no-worse-than")))
    return replace(gate, limits=(*gate.limits, *limits))


def check_summary(path: Path | None, limits: Gate) -> None:
    """Raise for a summary without a gate, or for one whose folder is missing; None is fine."""
    if path is not None and limits.is_empty:
        raise typer.BadParameter("--summary: needed a gate: --gate, --no-worse-than or --fail-if")
    check_file(path)


def check_file(path: Path | None) -> None:
    """Raise SnapshotError if the path is a folder, or its folder is missing; standard output and None are fine."""
    if path is None or path == STDOUT:
        return
    if path.is_dir():
        raise SnapshotError(f"{path}: needed a file to write to, and this is a folder")
    if not path.absolute().parent.is_dir():
        raise SnapshotError(f"{path}: needed a folder that exists, and {path.parent} does not; make it first")


def check_report(path: Path | None) -> None:
    """Raise SnapshotError if a report's suffix is not that of a format, or its folder is missing; None is fine."""
    if path is not None and path.suffix not in _FORMATS:
        raise SnapshotError(f"{path}: a report is {', '.join(_FORMATS)}; its name decides which")
    check_file(path)


def check_pictures(folder: Path | None) -> None:
    """Raise SnapshotError if a folder of pictures is a file, or lies below one; None is fine."""
    if folder is None:
        return
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not above.is_dir():
        raise SnapshotError(f"{folder}: needed a folder for the pictures, and {above} is a file")


def check_snapshot(path: Path) -> None:
    """Raise SnapshotError if the path of a snapshot does not end in .parquet, or its folder is missing."""
    if path.suffix != ".parquet":
        raise SnapshotError(f"{path}: a snapshot is a Parquet file; give it a name that ends in .parquet")
    check_file(path)


def command_of(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Decorator that makes a command of a function of one dataclass, whose fields are the command's parameters.

    A field is annotated as a parameter of typer is: `Annotated[type, typer.Option(...)]`.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]

    def decorated(run: Callable[[_Options], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**given: Any) -> None:
            run(options(**given))

        vars(command)["__signature__"] = Signature(parameters)  # which typer reads
        return command

    return decorated


_QUESTIONS = 2000
"""Items of each kind whose questions are read; no report lists more."""


def read_outcomes(path: Path, metric: str | None = None) -> Snapshot:
    """Snapshot of a file or a folder of outcomes, read with a progress bar; see `readers.load_snapshot`."""
    with bytes_bar(f"reading {path}") as progress:
        return load_snapshot(path, metric=metric, progress=progress)


def resolve(
    given: str,
    probe: Probe | None,
    metric: str | None = None,
    *,
    loading: Loading = Loading(),
) -> Snapshot:
    """Snapshot of a file or folder of outcomes, or of a model, which is scored once and then cached.

    What is given is a path, or the id of a model; `metric` decides, if a log has several.

    Raises:
        SnapshotError: If it is none of these, or a model and there is no probe.
    """
    path = Path(given)
    if is_outcomes(given):
        return read_outcomes(path, metric)
    is_model = path.exists()
    # A name in the form of a path is never looked up as a model id.
    if not is_model and (path.is_symlink() or path.suffix in SUFFIXES or given.startswith((".", "/"))):
        raise SnapshotError(f"{given}: no such file or folder{did_you_mean_path(path)}")
    if probe is None and is_model:
        raise SnapshotError(f"{given}: a model folder, which needs --probe to be scored")
    if probe is None:
        near = did_you_mean_path(path)
        raise SnapshotError(f"{given}: no such file or folder{near or ';'} a model id needs --probe to be scored")
    if metric is not None:
        raise SnapshotError(
            f"{given}: a model, scored by the probe alone; --metric chooses among those of a harness's log"
        )
    announce_import()
    with scoring_unless_cached(given, probe) as progress:
        # Not at the top: this imports torch, which comparing files does not need.
        from forgetwatch.scoring import score_checkpoint, silence_loading

        silence_loading()
        return score_checkpoint(given, probe, loading=loading, progress=progress)


def with_questions(changed: list[Flip], given: str, snapshot: Snapshot, metric: str | None) -> list[Flip]:
    """Flips with the text of their questions, taken in a second pass from another tool's log.

    The log is that of the side before: as it was given, the snapshot that was read from it, and by which metric.
    """
    if "tool" not in snapshot.meta or not Path(given).exists() or all(flip.item for flip in changed):
        return changed
    listed = {what: [flip for flip in sort_flips(changed) if flip.what == what][:_QUESTIONS] for what in get_args(What)}
    store = QuestionStore(flip.content_hash for some in listed.values() for flip in some if flip.content_hash)
    with bytes_bar(f"reading questions in {given}") as progress:
        load_snapshot(given, metric=metric, progress=progress, kept=store)

    def text_of(flip: Flip) -> QuestionText | None:
        text = store.texts.get(flip.content_hash or "")
        # A log may list options that the model was not offered: an open answer has none.
        return replace(text, choices=()) if text is not None and flip.k is None else text

    return [replace(flip, item=flip.item or text_of(flip)) for flip in changed]


def select(
    snapshot: Snapshot, *, tasks: Sequence[str] = (), categories: Sequence[str] = (), items: Sequence[str] = ()
) -> Snapshot:
    """Rows of the named tasks, categories and item ids; an empty list selects all, a name without rows is an error."""
    kept = np.ones(len(snapshot), bool)
    for name, wanted in (("task", tasks), ("category", categories), ("item_id", items)):
        if not wanted:
            continue
        values = snapshot.texts(name)
        known = set(values)
        if unknown := [one for one in wanted if one not in known]:
            listed = ", ".join(sorted(filter(None, known))[:20]) or "none"
            near = did_you_mean(unknown[0], filter(None, known))
            raise SnapshotError(f"{snapshot.label}: no {name} {unknown[0]!r}{near or ';'} there are {listed}")
        kept &= np.isin(values, list(wanted))
    if not kept.any():
        raise SnapshotError(f"{snapshot.label}: no item meets all that was named (task, category, id)")
    return snapshot if kept.all() else replace(snapshot, table=snapshot.table.filter(pa.array(kept)))
