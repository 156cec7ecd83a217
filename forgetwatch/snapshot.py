"""A snapshot: one model's outcomes on one probe. One row per item and sample, and what made them.

    item_id  content_hash      task      category  k  gold  chosen  correct  ...
    cap-1    9f2c41d07a6be310  capitals  Culture   4  2     2       true
    cap-2    1b77e0c3a95d2f48  capitals  Culture   4  0     3       false
    cap-3    c08a5f6621e9bd74  capitals  Culture   4  1     null    null      unscored, and `outcome` says why

The table is columnar (`pyarrow`); `ints`, `floats` and `texts` hand its columns out as numpy arrays. A null means that
the quantity does not exist for that row. On disk a snapshot is one Parquet file whose metadata stands as JSON under the
schema key ``forgetwatch``, with a checksum over the columns.
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

from forgetwatch.errors import SnapshotError
from forgetwatch.files import KEY, read_table, write_table

FORMAT: Final = "forgetwatch/snapshot@1"

SCHEMA: Final = pa.schema(
    [
        ("item_id", pa.string()),  # stable name, unique by (task, item_id, sample)
        ("content_hash", pa.string()),  # what defines the question; the maker's own hash in tables of others
        ("prompt_hash", pa.string()),  # the token ids that were scored; made by forgetwatch only
        ("source_prompt_hash", pa.string()),  # another tool's prompt hash
        ("task", pa.string()),
        ("category", pa.string()),
        ("cluster", pa.string()),  # items that flip together
        ("k", pa.int32()),  # options; null for an open answer
        ("gold", pa.int32()),  # the right option; the first of them where several are right
        ("golds", pa.list_(pa.int32())),  # all right options, where several are right
        ("chosen", pa.int32()),  # the option that the model chose; null = no answer found
        ("correct", pa.bool_()),  # null = unscored
        ("sample", pa.int32()),  # 0 for single answers
        ("outcome", pa.string()),  # ok; "no answer", "truncated", ... of what was written; or "unscored: " and why
        ("choice_logprobs", pa.list_(pa.float64())),  # sum over the tokens of each choice, nats
        ("choice_priors", pa.list_(pa.float64())),  # the same without the prompt, where the probe's norm asks for it
        ("choice_chars", pa.list_(pa.int32())),  # lengths without the leading space
        ("choice_bytes", pa.list_(pa.int32())),
        ("choice_tokens", pa.list_(pa.int32())),
        ("gold_share", pa.float64()),  # gold's share of the option probability, of the score that decides
        ("option_mass", pa.float64()),  # total probability of the options
        ("free_correct", pa.bool_()),  # is the most likely next token the start of a right answer
        ("margin", pa.float64()),  # best minus second, nats, of the score that decides
        ("unstable", pa.bool_()),  # is the margin within measurement noise
        ("output", pa.string()),  # what the model wrote
        ("in_form", pa.bool_()),  # did the written answer stand in the asked form
        ("forced_correct", pa.bool_()),  # beside a written answer: is the right option the likeliest when scored
    ]
)
"""The columns of a snapshot, in their order."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One model's outcomes on one probe.

    Attributes:
        table: One row per item and sample, with the columns of `SCHEMA`.
        meta: What made the rows: model, step, probe, scorer, versions; JSON values only.
        notes: What a reader of the snapshot should be told (values that were dropped on reading, say).
    """

    table: pa.Table
    meta: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], meta: Mapping[str, Any], notes: tuple[str, ...] = ()) -> Self:
        """A snapshot from columns by name; those that are not given are null, `sample` is 0.

        Raises:
            SnapshotError: If a column is unknown, ids repeat, an index is out of range, or there is no row.
        """
        if unknown := sorted(set(columns) - set(SCHEMA.names)):
            raise SnapshotError(f"unknown column {unknown[0]!r}; a snapshot has {', '.join(SCHEMA.names)}")
        rows = len(columns["item_id"])
        if rows == 0:
            raise SnapshotError("the snapshot has no rows; it needs at least one item")
        given: dict[str, Any] = {
            "sample": np.zeros(rows, np.int32),
            "task": [""] * rows,
            "category": [""] * rows,
        }
        given |= {"outcome": ["ok"] * rows, **columns}
        arrays = []
        for spec in SCHEMA:
            try:
                values = given.get(spec.name)
                arrays.append(pa.nulls(rows, spec.type) if values is None else _as(values, spec.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
                raise SnapshotError(f"column {spec.name!r} must be {spec.type}: {error}") from error
        snapshot = cls(pa.Table.from_arrays(arrays, schema=SCHEMA), dict(meta), notes)
        snapshot._check()
        return snapshot

    def _check(self) -> None:
        for name in ("item_id", "sample", "task", "category"):
            if self.table[name].null_count:
                raise SnapshotError(
                    f"column {name!r} has {self.table[name].null_count:,} empty values; none may be empty"
                )
        if (empty := np.flatnonzero(self.texts("item_id") == "")).size:
            raise SnapshotError(f"row {empty[0] + 1}: item_id is empty")
        if (low := np.flatnonzero(self.ints("sample") < 0)).size:
            raise SnapshotError(f"row {low[0] + 1}: sample is {self.ints('sample')[low[0]]}; samples count from 0")
        self._check_unique()
        self._check_options()

    def _check_unique(self) -> None:
        keys = codes(self.table["task"], self.table["item_id"], self.table["sample"])
        first = np.unique(keys, return_index=True)[1]
        if len(first) < len(keys):
            row = int(np.setdiff1d(np.arange(len(keys)), first)[0])
            raise SnapshotError(
                f"item_id {self.texts('item_id')[row]!r} stands twice in task {self.texts('task')[row]!r} "
                f"(again at row {row + 1}); ids must be unique within a task (several answers to one item: the column "
                "sample numbers them)"
            )

    def _check_options(self) -> None:
        k, gold = self.floats("k"), self.floats("gold")  # nan where null: every comparison with it is false
        if (low := np.flatnonzero(k < 1)).size:
            raise SnapshotError(f"row {low[0] + 1}: k is {k[low[0]]:g}; an item has at least one option")
        outside = (gold < 0) | (gold >= k)
        if not self.missing("golds"):
            lists = self.table["golds"].to_pylist()
            bad = [
                golds is not None
                and not (0 <= min(golds, default=-1) <= max(golds) < options and len(set(golds)) == len(golds))
                for golds, options in zip(lists, np.where(np.isnan(k), np.inf, k), strict=True)
            ]
            outside |= np.array(bad)
        if (rows := np.flatnonzero(outside)).size:
            row = int(rows[0])
            given = self.table["golds"][row].as_py() or f"{gold[row]:g}"
            raise SnapshotError(
                f"row {row + 1} (item {self.texts('item_id')[row]!r}): gold is {given}, outside the "
                f"{k[row]:g} options, or twice the same; options count from 0"
            )

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def head(self, items: int) -> Snapshot:
        """The rows of the first so many items, with all their samples."""
        if items >= len(self):
            return self
        code = codes(self.table["task"], self.table["item_id"])
        _, first, of_row = np.unique(code, return_index=True, return_inverse=True)
        if items >= len(first):
            return self
        place = np.argsort(np.argsort(first))[of_row]
        return replace(self, table=self.table.filter(pa.array(place < items)))

    def ints(self, name: str) -> NDArray[np.int64]:
        """A whole-number column as int64 [rows]; -1 where it is null."""
        column = self.table[name]
        return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), NONE).to_numpy())

    def floats(self, name: str) -> NDArray[np.float64]:
        """A number or yes/no column as float64 [rows]; nan where it is null."""
        return np.asarray(pc.cast(self.table[name], pa.float64()).to_numpy(), dtype=np.float64)

    def texts(self, name: str) -> NDArray[np.object_]:
        """A text column as object [rows]; None where it is null."""
        return np.asarray(self.table[name].to_numpy(), dtype=object)

    def missing(self, name: str) -> bool:
        """Whether the column is null in every row."""
        return bool(self.table[name].null_count == len(self))

    @property
    def norms(self) -> dict[str, str]:
        """Norm of the score that decides (see `metrics.choices`) by task; tasks without a known norm are left out.

        The metadata name one norm for all tasks (``probe.norm``), or one for each (``norms``), as logs of several do.
        """
        for_all, by_task = self.meta.get("probe", {}).get("norm"), self.meta.get("norms") or {}
        named = {task: by_task.get(task, for_all) for task in self.table["task"].unique().to_pylist()}
        return {task: norm for task, norm in named.items() if norm is not None}

    @cached_property
    def checksum(self) -> str:
        """First 32 hex digits of SHA-256 over all columns, in a form that no file format changes."""
        digest = hashlib.sha256()
        for name in SCHEMA.names:
            digest.update(name.encode())
            _digest(digest, self.table[name].combine_chunks())
        return digest.hexdigest()[:32]

    @property
    def label(self) -> str:
        """A short name for people: the model and its step, or the file it was read from."""
        if "model" in self.meta:
            name = str(self.meta["model"]).rstrip("/").rsplit("/", maxsplit=1)[-1]
        else:
            name = Path(str(self.meta.get("source", "snapshot"))).stem
        return name if self.meta.get("step") is None else f"{name} at step {self.meta['step']}"


NONE: Final = -1
"""Stands for null in the whole-number arrays that `Snapshot.ints` hands out."""


def codes(*columns: pa.ChunkedArray) -> NDArray[np.int64]:
    """One whole number per row, equal exactly where the rows are equal in all columns; int64 [rows]."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        part = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        part = part.chunk(0) if isinstance(part, pa.ChunkedArray) else part
        code = code * max(len(part.dictionary), 1) + np.asarray(part.indices.to_numpy(zero_copy_only=False), np.int64)
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)  # small again, so that no product overflows
    return code


def _as(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, type=kind)


def _digest(digest: Any, column: pa.Array) -> None:
    """Feed an array's nulls, lengths and values, as fixed-width little-endian bytes."""
    digest.update(np.asarray(column.is_null()).tobytes())
    if pa.types.is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        digest.update(np.asarray(lengths, "<i8").tobytes())
        _digest(digest, column.flatten())
    elif pa.types.is_string(column.type):
        column = pc.fill_null(column, "")
        digest.update(np.asarray(pc.binary_length(column), "<i8").tobytes())
        digest.update("".join(column.to_pylist()).encode())
    else:
        fill = False if pa.types.is_boolean(column.type) else 0
        digest.update(np.asarray(pc.fill_null(column, fill).cast(pa.float64()), "<f8").tobytes())


def save_snapshot(snapshot: Snapshot, path: str | Path) -> None:
    """Write a snapshot as one Parquet file; a reader sees all of it or none."""
    write_table(snapshot.table, {"format": FORMAT, **snapshot.meta, "checksum": snapshot.checksum}, path)


def is_snapshot(schema: pa.Schema) -> bool:
    """Whether a Parquet schema is that of a snapshot written by forgetwatch."""
    return KEY in (schema.metadata or {})


def read_snapshot(path: str | Path) -> Snapshot:
    """The snapshot in a Parquet file that forgetwatch wrote.

    Raises:
        SnapshotError: If the file is no such snapshot, of a newer format, cut, or changed since it was written.
    """
    path = Path(path)
    table, meta = read_table(path, what="a snapshot", made=FORMAT, schema=SCHEMA)
    if not isinstance(meta.get("probe", {}), dict):
        raise SnapshotError(f"{path}: its metadata name a probe that is no object: {meta['probe']!r}")
    written = meta.pop("checksum", None)
    meta.pop("format")
    try:
        snapshot = Snapshot(table.cast(SCHEMA), {**meta, "source": str(path)})
        snapshot._check()
    except (pa.ArrowException, SnapshotError) as error:
        raise SnapshotError(f"{path}: {error}") from error
    if written != snapshot.checksum:
        raise SnapshotError(f"{path}: its rows do not fit its checksum; the file was changed after it was written")
    return snapshot
