"""A snapshot: the outcomes of one model on one probe, one row per item and sample.

    item_id  content_hash      task      category  k  gold  chosen  correct  ...
    cap-1    9f2c41d07a6be310  capitals  Culture   4  2     2       true
    cap-2    1b77e0c3a95d2f48  capitals  Culture   4  0     3       false
    cap-3    c08a5f6621e9bd74  capitals  Culture   4  1     null    null      unscored; `outcome` gives the reason
    news-1   51c0be7a8d24f913  news      News      -  -     null    null      a passage: `choice_logprobs` of its text

`SCHEMA` describes the columns; a null means that the quantity does not exist for that row. The
table is columnar (`pyarrow`); `Snapshot.ints`, `floats` and `texts` return a column as a numpy
array.

On disk a snapshot is one Parquet file. Its metadata hold a checksum of the rows and of all other
metadata: SHA-256 over each column's name, nulls, list and text lengths, and values (numbers as
little-endian float64, text as UTF-8), then over the metadata as JSON. It depends on the values
alone: a file that another program rewrote with another compression or wider text columns is read,
and one with a changed value is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError, did_you_mean
from forgetwatch.files.reading import DAMAGE, file_errors
from forgetwatch.files.table_files import KEY, checksum_with, read_table, write_table
from forgetwatch.ranges import check_ranges

FORMAT: Final = "forgetwatch/snapshot@5"
"""Value of ``format`` in the metadata; its number rises whenever a stored field changes."""

SAMPLED: Final = "sampled"
"""Metadata of outcomes of a training's own validation, whose answers may be sampled."""

SCHEMA: Final = pa.schema(
    [
        ("item_id", pa.string()),  # stable name; unique by (task, item_id, sample)
        (
            "content_hash",
            pa.string(),
        ),  # of what defines the question; in other tools' tables their own hash
        ("prompt_hash", pa.string()),  # of the token ids that were scored; forgetwatch's own only
        ("source_prompt_hash", pa.string()),  # another tool's prompt hash
        ("task", pa.string()),  # the benchmark
        ("category", pa.string()),  # the coarser label
        ("cluster", pa.string()),  # items that flip together, such as those of one passage
        ("k", pa.int32()),  # number of options; null for an open answer and for a passage
        ("gold", pa.int32()),  # index of the right option; of the first where several are right
        ("golds", pa.list_(pa.int32())),  # indices of all right options, where several are right
        ("chosen", pa.int32()),  # index of the option that the model chose; null = no answer found
        ("correct", pa.bool_()),  # null = unscored, or a passage
        ("score", pa.float64()),  # 0 to 1, where an answer is more than right or wrong
        ("sample", pa.int32()),  # number of the answer to the item, from 0
        (
            "outcome",
            pa.string(),
        ),  # ok, `NOT_FINITE`, "no answer", "truncated", ...; "unscored: " and reason
        (
            "choice_logprobs",
            pa.list_(pa.float64()),
        ),  # log-likelihood of each choice, summed over its tokens, nats
        (
            "choice_priors",
            pa.list_(pa.float64()),
        ),  # the same without the prompt, where the probe's norm needs it; nats
        (
            "choice_chars",
            pa.list_(pa.int32()),
        ),  # length of each choice without its leading space; of a passage in full
        ("choice_bytes", pa.list_(pa.int32())),  # the same in UTF-8
        ("choice_tokens", pa.list_(pa.int32())),  # number of tokens of each choice
        (
            "gold_share",
            pa.float64(),
        ),  # gold's share of the options' probability, 0 to 1, by the score that decides
        ("option_mass", pa.float64()),  # total probability of the options, 0 to 1
        ("free_correct", pa.bool_()),  # true if the most likely next token begins a right answer
        ("margin", pa.float64()),  # best minus second option, nats, by the score that decides
        ("unstable", pa.bool_()),  # true if the margin is within measurement noise
        ("output", pa.string()),  # text that the model generated
        ("in_form", pa.bool_()),  # true if the generated answer has a form that prompts ask for
        (
            "forced_correct",
            pa.bool_(),
        ),  # next to a generated answer: true if the right option scores highest
        (
            "question",
            pa.string(),
        ),  # text of the question, where another tool's file has it; else the probe has it
        (
            "wording",
            pa.string(),
        ),  # name of the wording in which it was asked; null for that of the probe
    ]
)
"""The columns of a snapshot, in their order."""

_OPTIONAL: Final = ("score",)
"""Columns that a file has only where they hold values: without them it is as an earlier version wrote it."""

NOT_GENERATED: Final = "its answer was not asked for"
"""Reason in the outcome of an item whose answer a look did not generate; it is stored in files."""

LEFT_OUT: Final = f"unscored: {NOT_GENERATED}"
"""Outcome of such an item."""

NOT_FINITE: Final = "not_finite"
"""Outcome of an item whose logits were NaN or infinite: wrong, and in a base without an answer."""

MOST_NOT_FINITE: Final = 0.01
"""Share of the items of a look up to which outputs that are not finite may be an exception."""

_OBJECTS: Final = (
    "probe",
    "norms",
    "metrics",
    "seeds",
    "batch",
    "task_versions",
    "num_fewshot",
    "drift",
    "again",
)
"""Metadata whose values are objects."""
_PROBE_TEXTS: Final = ("name", "fingerprint", "scoring", "norm", "rendering")
"""Metadata of the probe whose values are texts."""

NONE: Final = -1
"""Value of a null in the arrays that `Snapshot.ints` returns."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Outcomes of one model on one probe.

    Attributes:
        table: One row per item and sample, with the columns of `SCHEMA`.
        meta: Origin of the rows: model, step, probe, scorer, versions; JSON values only.
        notes: Sentences for the reader of a comparison, such as values that were dropped when a log
            was read.
    """

    table: pa.Table
    meta: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], meta: Mapping[str, Any], notes: tuple[str, ...] = ()
    ) -> Self:
        """Make a snapshot from columns by name.

        Args:
            columns: ``item_id`` and any other columns of `SCHEMA`, each a sequence or an array
                [rows]. Absent columns are null, except ``sample`` (0), ``task`` and ``category``
                (empty) and ``outcome`` (``ok``).
            meta: See `Snapshot`.
            notes: See `Snapshot`.

        Raises:
            SnapshotError: If a column is unknown or has a wrong type, an id repeats within a task,
                an index is out of range, or there is no row.
        """
        if unknown := sorted(set(columns) - set(SCHEMA.names)):
            near = did_you_mean(unknown[0], SCHEMA.names)
            raise SnapshotError(
                f"unknown column {unknown[0]!r}{near}; a snapshot has {', '.join(SCHEMA.names)}"
            )
        rows = len(columns["item_id"])
        if rows == 0:
            raise SnapshotError("the snapshot has no rows; it needs at least one item")
        defaults: dict[str, Any] = {
            "sample": np.zeros(rows, np.int32),
            "task": [""] * rows,
            "category": [""] * rows,
            "outcome": ["ok"] * rows,
        }
        given = defaults | dict(columns)
        arrays = []
        for spec in SCHEMA:
            try:
                values = given.get(spec.name)
                arrays.append(
                    pa.nulls(rows, spec.type) if values is None else as_array(values, spec.type)
                )
            except DAMAGE as error:
                raise SnapshotError(f"column {spec.name!r} must be {spec.type}: {error}") from error
        snapshot = cls(pa.Table.from_arrays(arrays, schema=SCHEMA), dict(meta), notes)
        snapshot._check()
        return snapshot

    def _check(self) -> None:
        if not len(self):
            raise SnapshotError("the snapshot has no rows; it needs at least one item")
        for name in ("item_id", "sample", "task", "category"):
            if self.table[name].null_count:
                raise SnapshotError(
                    f"column {name!r} has {self.table[name].null_count:,} empty values; none "
                    "may be empty"
                )
        if (empty := np.flatnonzero(self.texts("item_id") == "")).size:
            raise SnapshotError(f"row {empty[0] + 1}: item_id is empty")
        keys = codes(self.table["task"], self.table["item_id"], self.table["sample"])
        first_rows = np.unique(keys, return_index=True)[
            1
        ]  # row of the first occurrence of each key
        if len(first_rows) < len(keys):
            row = int(np.setdiff1d(np.arange(len(keys)), first_rows)[0])
            raise SnapshotError(
                f"item_id {self.texts('item_id')[row]!r} is twice in task "
                f"{self.texts('task')[row]!r} (again in row {row + 1}); ids must be unique within "
                "a task (number several answers to one item in the column sample)"
            )
        check_ranges(self.table, logprobs=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def head(self, items: int) -> Snapshot:
        """Rows of the first items, with all their samples.

        Returns:
            The snapshot itself if it has no more items.
        """
        if items >= len(self):
            return self
        code = codes(self.table["task"], self.table["item_id"])
        _, first_rows, of_row = np.unique(code, return_index=True, return_inverse=True)
        if items >= len(first_rows):
            return self
        # np.unique sorts the codes by value, so the items are ranked by the row of their first
        # occurrence.
        rank = np.argsort(np.argsort(first_rows))[of_row]
        return replace(self, table=self.table.filter(pa.array(rank < items)))

    def ints(self, name: str) -> NDArray[np.int64]:
        """Integer column, int64 [rows]; `NONE` (-1) where null."""
        column = self.table[name]
        return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), NONE).to_numpy())

    def floats(self, name: str) -> NDArray[np.float64]:
        """Numeric or boolean column, float64 [rows]; nan where null."""
        return np.asarray(pc.cast(self.table[name], pa.float64()).to_numpy(), dtype=np.float64)

    def texts(self, name: str) -> NDArray[np.object_]:
        """Text column, object [rows] of str; None where null."""
        return np.asarray(self.table[name].to_numpy(), dtype=object)

    @property
    def item_keys(self) -> list[tuple[str, str]]:
        """Task and item id of each row."""
        return list(zip(self.texts("task").tolist(), self.texts("item_id").tolist(), strict=True))

    @cached_property
    def is_passage(self) -> NDArray[np.bool_]:
        """Is the row a scored passage, bool [rows]?"""
        norm_columns = {
            name: np.asarray(self.table[name].is_valid()) for name in ("k", "correct", "output")
        }
        is_passage: NDArray[np.bool_] = (self.texts("outcome") == "ok") & ~np.logical_or.reduce(
            [*norm_columns.values()]
        )
        for name in ("choice_logprobs", "choice_bytes"):
            is_passage &= np.asarray(
                pc.fill_null(pc.equal(pc.list_value_length(self.table[name]), 1), False)
            )
        return is_passage

    @cached_property
    def is_not_finite(self) -> NDArray[np.bool_]:
        """Are the outputs of the row not finite, bool [rows]?"""
        return np.asarray(self.texts("outcome") == NOT_FINITE, bool)

    @property
    def right_as_base(self) -> NDArray[np.float64]:
        """Correctness of a base model, float64 [rows].

        nan also where its outputs were not finite.
        """
        return np.where(self.is_not_finite, np.nan, self.floats("correct"))

    @property
    def not_finite_line(self) -> str:
        """Clause on the number of outputs that are not finite.

        Returns:
            The clause, or an empty text for at most `MOST_NOT_FINITE` of the rows.
        """
        number = int(self.is_not_finite.sum())
        if number <= MOST_NOT_FINITE * len(self):
            return ""
        return f"the model's outputs are not finite ({number:,} of {len(self):,} answers)"

    @property
    def is_unscored(self) -> NDArray[np.bool_]:
        """Does the row lack an outcome, bool [rows]?"""
        return np.asarray(self.table["correct"].is_null()) & ~self.is_passage

    def missing(self, name: str) -> bool:
        """Is the column null in every row?"""
        return bool(self.table[name].null_count == len(self))

    @property
    def norms(self) -> dict[str, str]:
        """Norm of the deciding score by task.

        Tasks without a known norm are left out. See `metrics.choices`.

        The metadata name one norm for all tasks (``probe.norm``), or one for each (``norms``), as
        logs of several do.
        """
        for_all, by_task = (self.meta.get("probe") or {}).get("norm"), self.meta.get("norms") or {}
        norms = {
            task: by_task.get(task, for_all) for task in self.table["task"].unique().to_pylist()
        }
        return {task: norm for task, norm in norms.items() if norm is not None}

    @cached_property
    def checksum(self) -> str:
        """Hash of the values of all columns.

        First 32 hex digits of SHA-256, whatever the file format.
        """
        digest = hashlib.sha256()
        for name in SCHEMA.names:
            if name in _OPTIONAL and self.missing(name):
                continue
            digest.update(name.encode())
            _digest(digest, self.table[name].combine_chunks())
        return digest.hexdigest()[:32]

    @property
    def full_checksum(self) -> str:
        """Hash of all columns, and of all metadata but ``source``."""
        return checksum_with(self.checksum, _stored(self.meta))

    @property
    def label(self) -> str:
        """Short name for output: model and step, else the file."""
        if "model" in self.meta:
            name = str(self.meta["model"]).rstrip("/").rsplit("/", maxsplit=1)[-1]
        else:
            name = Path(str(self.meta.get("source", "snapshot"))).stem
        return name if self.meta.get("step") is None else f"{name} at step {self.meta['step']}"


def save_snapshot(snapshot: Snapshot, path: str | Path) -> None:
    """Write a snapshot as a Parquet file, atomically."""
    meta = {"format": FORMAT, **_stored(snapshot.meta), "checksum": snapshot.full_checksum}
    empty = [name for name in _OPTIONAL if snapshot.missing(name)]
    write_table(snapshot.table.drop_columns(empty), meta, path)


def read_snapshot(path: str | Path) -> Snapshot:
    """Read a snapshot from a Parquet file.

    Raises:
        SnapshotError: If there is no such file, if it is no snapshot, damaged, of another format,
            or changed since it was written.
    """
    path = Path(path)
    table, meta = read_table(
        path, what="a snapshot", format=FORMAT, schema=SCHEMA, optional=_OPTIONAL
    )
    _check_metadata(path, meta)
    written, _ = meta.pop("checksum", None), meta.pop("format")
    with file_errors(path, "a snapshot"):
        snapshot = Snapshot(table.cast(SCHEMA), {**meta, "source": str(path)})
        try:
            snapshot._check()
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}") from error
    if written != snapshot.full_checksum:
        raise SnapshotError(
            f"{path}: its rows and metadata do not match its checksum; the file was changed "
            "after it was written"
        )
    return snapshot


def _check_metadata(path: Path, meta: Mapping[str, Any]) -> None:
    kinds = dict.fromkeys(_OBJECTS, (dict, "an object")) | {"noise": ((int, float), "a number")}
    for name, (kind, needed) in kinds.items():
        if (
            name in meta
            and not isinstance(meta[name], kind)
            and (meta[name] is not None or name == "probe")
        ):
            raise SnapshotError(
                f"{path}: needed {needed} under {name!r} in its metadata, got {meta[name]!r:.80}"
            )
    texts = [("probe", name, (meta.get("probe") or {}).get(name)) for name in _PROBE_TEXTS]
    texts += [("norms", task, norm) for task, norm in (meta.get("norms") or {}).items()]
    for name, part, value in texts:
        if value is not None and not isinstance(value, str):
            raise SnapshotError(
                f"{path}: needed text under {name}.{part} in its metadata, got {value!r:.80}"
            )


def is_snapshot(schema: pa.Schema) -> bool:
    """Is this the schema of a file that forgetwatch wrote?

    Also if the key of the metadata is damaged.
    """
    metadata = schema.metadata or {}
    # Without its key a snapshot would pass for a plain table, and lose step, probe and checksum
    # without a word.
    return KEY in metadata or any(
        value.startswith(b'{"format": "forgetwatch/') for value in metadata.values()
    )


def _stored(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if name != "source"}


def codes(*columns: pa.ChunkedArray) -> NDArray[np.int64]:
    """Code each row by its columns, int64 [rows].

    Codes are equal exactly where rows are equal in all columns, nulls too.
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        code = code * max(len(encoded.dictionary), 1) + np.asarray(
            encoded.indices.to_numpy(zero_copy_only=False), np.int64
        )
        code = np.unique(code, return_inverse=True)[1].astype(
            np.int64
        )  # dense again, so that no product overflows
    return code


def as_array(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert a sequence to an Arrow array of a type."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, type=kind)


def _digest(digest: Any, column: pa.Array) -> None:
    """Hash nulls, lengths and values as fixed-width little-endian bytes."""
    digest.update(np.asarray(column.is_null()).tobytes())
    if pa.types.is_list(column.type):
        # The lengths tell [[1, 2], [3]] from [[1], [2, 3]].
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        digest.update(np.asarray(lengths, "<i8").tobytes())
        _digest(digest, column.flatten())
    elif pa.types.is_string(column.type):
        column = pc.fill_null(column, "")
        digest.update(np.asarray(pc.binary_length(column), "<i8").tobytes())
        # The values and not Arrow's buffers, which may contain more than the column: slices, and
        # bytes under nulls.
        digest.update("".join(column.to_pylist()).encode())
    else:
        fill = False if pa.types.is_boolean(column.type) else 0
        digest.update(np.asarray(pc.fill_null(column, fill).cast(pa.float64()), "<f8").tobytes())
