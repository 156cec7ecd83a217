"""Probes by name, by file, or from rows of one's own.

standard, quick, confirmation    shipped with the package; shipped/CARD.md tells what they are
behaviour                        short answers, shipped; quick+behaviour asks both
demo                             questions about an invented world, for the demo and the tests
mmlu, arc_easy, paper, ...       benchmarks of the hub: hub/names.py says what a name may be
mine.jsonl                       a probe file
mine.csv, rows, a Dataset        rows of one's own: own.py says which columns are understood
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe, combine, read_probe
from forgetwatch.probes.few_shot import few_shot
from forgetwatch.probes.hub import is_preset, load_preset
from forgetwatch.probes.own import probe_from
from forgetwatch.probes.shipped import NAMES, shipped_probe
from forgetwatch.probes.world import demo_probe

__all__ = ["demo_probe", "few_shot", "load_probe", "probe_from"]


def load_probe(
    name: str | Path | Iterable[Mapping[str, Any]],
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    shots: int | None = None,
    limit: int | None = None,
) -> Probe:
    """The probe of that name, in that file, or that those rows are.

    Args:
        name: A shipped probe, a benchmark of the hub (``mmlu``, ``bbh:navigate:cot``), a file of items or rows, or
            the rows: a list of dicts, a `datasets.Dataset`.
        root: For benchmarks: a folder with copies of the data sets under their ids, in place of the hub.
        revision: For benchmarks: revision of the data sets.
        shots: For benchmarks: worked examples before each question.
        limit: Only so many items; the first, of benchmarks a fair sample of their tasks.

    Raises:
        ProbeError: If there is none of that name, or it cannot be read.
    """
    if limit is not None and limit < 1:
        raise ProbeError(f"{name}: limit must be at least 1 item, got {limit}")
    if isinstance(name, (str, Path)) and not Path(name).is_file() and is_preset(str(name)):
        return load_preset(str(name), root=root, revision=revision, shots=shots, limit=limit)
    if root is not None or revision is not None or shots is not None:
        raise ProbeError(f"{name}: root, revision and shots are for benchmarks of the hub, and this is none")
    probe = _local(name)
    return probe if limit is None else probe.head(limit)


def _local(name: str | Path | Iterable[Mapping[str, Any]]) -> Probe:
    if not isinstance(name, (str, Path)):
        return probe_from(name)
    path = Path(name)
    if path.is_file():
        return read_probe(path) if _is_probe_file(path) else probe_from(path)
    parts = str(name).split("+")
    if all(part in (*NAMES, "demo") for part in parts):
        probes = [demo_probe() if part == "demo" else shipped_probe(part) for part in parts]
        return reduce(combine, probes)
    raise ProbeError(
        f"{name}: no such file, and no such shipped probe; needed {', '.join(NAMES)}, demo, a file of items or rows, "
        "or a benchmark: `forgetwatch probe list` names them"
    )


def _is_probe_file(path: Path) -> bool:
    """Whether a file holds items, with or without a header, and not rows in other columns."""
    if path.suffix in (".csv", ".tsv", ".json", ".parquet"):
        return False
    with path.open("rb") as file:
        line = next((line for line in file if line.strip()), b"")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return True  # whose error says what is wrong with it
    return not isinstance(row, dict) or "forgetwatch_probe" in row or {"id", "task", "prompt", "answer"} <= set(row)
