"""A file or folder of outcomes to a Snapshot, whichever tool wrote it: `load_snapshot`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from forgetwatch.errors import SnapshotError
from forgetwatch.files.json_pieces import Progress, begins_json
from forgetwatch.files.reading import file_errors, read_head
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule
from forgetwatch.loading import weights_problem
from forgetwatch.readers import inspect_log, lighteval, lm_eval_logs, table, tools
from forgetwatch.readers.inspect_log import is_inspect_log
from forgetwatch.readers.log import QuestionStore, Reading, refuse_lfs_pointer
from forgetwatch.snapshot import Snapshot, is_snapshot, read_snapshot

SUFFIXES: Final = (".parquet", ".csv", ".jsonl", ".json", ".eval")
"""Suffixes of files of outcomes: a name that has one is a path and never looked up as a model id."""


MODEL_FILES: Final = ("config.json", "adapter_config.json")
"""Files by which a folder is a model, or an adapter."""


class _Reader(NamedTuple):
    """Reader of one tool's logs."""

    tool: str
    folder: str  # pattern of the files in its output folder; empty if only files are read
    recognises: Callable[[Path], bool]  # by the content of a file or folder
    read: Callable[[Path, Reading], Snapshot]


_READERS: Final = (
    _Reader(lm_eval_logs.TOOL, "samples_*.jsonl", lm_eval_logs.recognises, lm_eval_logs.read),
    _Reader("lighteval", "details_*.parquet", lighteval.recognises, lighteval.read),
    _Reader("Inspect", "", is_inspect_log, inspect_log.read),
    _Reader("a further tool", tools.PATTERNS, tools.recognises, tools.read),
)
"""Readers of the logs of other tools, in the order in which errors list them."""


def load_snapshot(
    path: str | Path,
    *,
    metric: str | None = None,
    progress: Progress | None = None,
    kept: QuestionStore | None = None,
    texts: bool = False,
    rule: OutcomeRule = UPPER_HALF,
) -> Snapshot:
    """Read outcomes in a file or folder, in any known format.

    Args:
        path: The file or folder.
        metric: Metric that makes `correct` if a log has several, such as ``acc_norm``.
        progress: Called with the amount read and the total, for files that take a while.
        kept: Receives the questions of a log that it wants.
        texts: True to keep the text of every question in the snapshot.
        rule: How outcomes between wrong and right are read.

    Raises:
        SnapshotError: If the file is missing, empty, cut, of an unknown format, or contains rows
            that cannot be used.
    """
    path = Path(path)
    with file_errors(path, "a file of outcomes"):
        reading = Reading(metric=metric, progress=progress, questions=kept, texts=texts, rule=rule)
        return _load(path, reading)


def is_outcomes(path_given: str) -> bool:
    """Is the path there, and not a model?"""
    path = Path(path_given)
    is_model = path.is_dir() and any((path / name).is_file() for name in MODEL_FILES)
    return path.exists() and not is_model


def _load(path: Path, reading: Reading) -> Snapshot:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise SnapshotError(
            f"{path}: needed a regular file, got a pipe or device; write it to a file first"
        )
    head = read_head(path)
    if not head and path.is_file():
        raise SnapshotError(f"{path}: the file is empty")
    refuse_lfs_pointer(path, head)
    if reader := next((reader for reader in _READERS if reader.recognises(path)), None):
        return reader.read(path, reading)
    if path.is_dir():
        if problem := weights_problem(path):
            raise SnapshotError(f"{path}: {problem}")
        if list(path.glob("results_*.json")):
            raise SnapshotError(
                f"{path}: totals of lm-evaluation-harness (results_*.json) without its samples; "
                "write them with --log_samples"
            )
        raise SnapshotError(
            f"{path}: a folder that contains neither a checkpoint (config.json), nor an adapter "
            "(adapter_config.json), nor a harness's log "
            f"({', '.join(reader.folder for reader in _READERS if reader.folder)}); give a file of "
            "outcomes, a checkpoint, or a model id"
        )
    return check_metric(_read_table(path, head, reading.rule), reading.metric, name=path)


def _read_table(path: Path, head: bytes, rule: OutcomeRule) -> Snapshot:
    # A snapshot of forgetwatch, or outcomes in a plain table.
    if (schema := table.parquet_schema(path)) is not None:
        if is_snapshot(schema):
            return by_rule(read_snapshot(path), rule)
        return table.read_parquet(path, rule)
    if b"\x00" in head or not _is_text(head):
        *tools, last_tool = (reader.tool for reader in _READERS)
        raise SnapshotError(
            f"{path}: neither Parquet nor UTF-8 text; needed a snapshot, a table in CSV, JSONL "
            f"or Parquet, or a log of {', '.join(tools)} or {last_tool}"
        )
    return table.read_jsonl(path, rule) if begins_json(head) else table.read_csv(path, rule)


def by_rule(snapshot: Snapshot, rule: OutcomeRule) -> Snapshot:
    """Decide right and wrong anew, by the scores of a snapshot.

    Raises:
        SnapshotError: If it has none, or they have a scale already.
    """
    if rule == UPPER_HALF:
        return snapshot
    if rule.scale != UPPER_HALF.scale or rule.unscored_if or snapshot.missing("score"):
        needed = "scores of answers" if snapshot.missing("score") else "--right-if alone"
        raise SnapshotError(
            f"{snapshot.meta.get('source')}: needed {needed}: the outcomes of a snapshot of "
            "forgetwatch are settled but for the threshold of its scores"
        )
    low, high = snapshot.meta.get("scale", UPPER_HALF.scale)
    is_lower = bool(snapshot.meta.get("lower_is_better"))
    rule = replace(rule, scale=(low, high), lower_is_better=is_lower)
    right = np.where(snapshot.is_unscored, np.nan, rule.is_right(snapshot.floats("score")))
    position = snapshot.table.column_names.index("correct")
    table = snapshot.table.set_column(
        position, "correct", pa.array(right == 1, mask=np.isnan(right))
    )
    return replace(snapshot, table=table, meta={**snapshot.meta, "right_if": rule.right_if})


def check_metric(snapshot: Snapshot, wanted: str | None, *, name: str | Path) -> Snapshot:
    """Check that a snapshot may have the requested metric.

    Returns:
        The snapshot, unchanged.

    Raises:
        SnapshotError: If its metric is known and is another one, or if forgetwatch scored it;
            `name` is its name there.
    """
    if wanted is None:
        return snapshot
    if "scorer" in snapshot.meta:
        raise SnapshotError(
            f"{name}: no metric {wanted!r} to choose; forgetwatch scored it, and its probe "
            "alone says what is right; "
            "leave out the metric (--metric), which chooses among those of a harness's log"
        )
    held = snapshot.meta.get("metric")
    # The filter in a metric's name may be left out, or be given as `none`, as for a log; see
    # `Log.metric`.
    if held is not None and wanted not in (held, str(held).split(",")[0], f"{held},none"):
        raise SnapshotError(f"{name}: no metric {wanted!r} to choose; the snapshot has only {held}")
    return snapshot


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return (
            error.end == len(head) and error.start > len(head) - 4
        )  # a character cut by the end of the head
    return True
