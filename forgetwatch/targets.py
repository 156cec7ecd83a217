"""The target metric of several models: from what their trainers logged, or from a table.

    eval_accuracy    a name: read from each checkpoint's trainer_state.json, as it was logged at that checkpoint's step
    results.csv      a table of two columns: the model as it was given or its short name, and the metric, named on top

Values are never given by their order alone: one that slips by a place would crown the wrong model, and nothing would
tell.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.several import Target
from forgetwatch.snapshot import Snapshot

STATE: Final = "trainer_state.json"


def read_target(given: str, models: Sequence[tuple[str, Snapshot]]) -> Target:
    """The values of a target metric, one for each model.

    Args:
        given: A metric's name, or the path of a table that ends in ``.csv``.
        models: Each model as it was named, and its outcomes.

    Raises:
        SnapshotError: If a model has no value.
    """
    if given.endswith(".csv"):
        return _from_table(Path(given), models)
    return Target(name=given, values=tuple(_logged(given, named, outcomes) for named, outcomes in models))


def _from_table(path: Path, models: Sequence[tuple[str, Snapshot]]) -> Target:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SnapshotError(f"{path}: the table of the target cannot be read ({error})") from error
    if not rows or any(len(row) != 2 for row in rows):
        line, got = next(((at, len(row)) for at, row in enumerate(rows, 1) if len(row) != 2), (1, 0))
        raise SnapshotError(
            f"{path}, row {line}: needed two columns, the model and its metric, got {got}; the first row names them"
        )
    values: dict[str, float] = {}
    for at, (name, text) in enumerate(rows[1:], 2):
        if name in values:
            raise SnapshotError(f"{path}, row {at}: {name!r} stands there twice; give each model one row")
        values[name] = _number(text, f"{path}, row {at} ({name})")
    found = []
    for named, outcomes in models:
        keys = [key for key in (named, named.rstrip("/"), outcomes.label) if key in values]
        if not keys:
            raise SnapshotError(f"{path}: no row for {named}; add one whose first column is {named!r}")
        found.append(values[keys[0]])
    return Target(name=rows[0][1], values=tuple(found))


def _logged(metric: str, named: str, outcomes: Snapshot) -> float:
    """A metric as the trainer logged it at a checkpoint's step."""
    path = _state(named, outcomes)
    try:
        state: Any = json.loads(path.read_text(encoding="utf-8"))
        step, history = state["global_step"], [entry for entry in state["log_history"] if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SnapshotError(f"{path}: needed global_step and log_history, and they cannot be read ({error})") from error
    logged = {entry["step"]: entry[metric] for entry in history if metric in entry and "step" in entry}
    if step in logged:
        return _number(logged[step], f"{path}: {metric} at step {step}")
    if logged:
        raise SnapshotError(
            f"{path}: {metric} was not logged at step {step}, that of the checkpoint, but at "
            f"{', '.join(map(str, list(logged)[-5:]))}; evaluate where you save, or give --target FILE.csv"
        )
    names = sorted({name for entry in history for name in entry} - {"step", "epoch"})
    raise SnapshotError(
        f"{path}: no {metric} was ever logged; there are {', '.join(names[:20]) or 'no metrics'}; or give --target "
        "FILE.csv"
    )


def _state(named: str, outcomes: Snapshot) -> Path:
    """Where the trainer's state of a model lies: in its folder, in the one its metadata name, beside a run's look."""
    places = [Path(named)]
    if isinstance(outcomes.meta.get("model"), str):
        places.append(Path(outcomes.meta["model"]))
    if isinstance(outcomes.meta.get("step"), int):
        places.append(Path(named).absolute().parent.parent / f"checkpoint-{outcomes.meta['step']}")
    for place in places:
        if (place / STATE).is_file():
            return place / STATE
    raise SnapshotError(
        f"{named}: needed the {STATE} of its checkpoint, found none in {' or '.join(map(str, places))}; give the "
        "checkpoint's folder, or --target FILE.csv"
    )


def _number(value: Any, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SnapshotError(f"{where}: needed a number, got {value!r}")
    return number
