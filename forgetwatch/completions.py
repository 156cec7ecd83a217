"""What a base model wrote, kept for measuring how far a model moves from it: token ids and their log-probabilities.

    set       prompt        tokens          logprobs
    probe     [84, 17, 9]   [205, 12, 1]    [-0.9, -0.1, -0.2]
    training  [84, 3]       [77, 1]         [-2.3, -0.4]

No text is stored. On disk it is one Parquet file whose metadata stands as JSON under the schema key ``forgetwatch``,
with a checksum over the columns, as a snapshot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.files import read_table, write_table
from forgetwatch.metrics.divergence import Drift, drift

FORMAT: Final = "forgetwatch/completions@1"

SCHEMA: Final = pa.schema(
    [
        ("set", pa.string()),  # what the prompt is from: the probe, the training data
        ("prompt", pa.list_(pa.int32())),
        ("tokens", pa.list_(pa.int32())),  # what the base wrote, its end token included
        ("logprobs", pa.list_(pa.float64())),  # of each token under the base, nats, temperature 1
    ]
)
"""The columns of a file of completions, in their order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completions:
    """One completion by the base for each prompt.

    Attributes:
        sets: The set that each prompt belongs to, such as ``probe`` or ``training``.
        prompts: Token ids of each prompt.
        tokens: Token ids of each completion, the end token included where it ended by itself.
        logprobs: Log-probability of each token under the base, nats, float64 [tokens] by completion.
        left_out: Prompts of each set that were too long for the model.
        meta: What made them: seed, length, dtype, versions; JSON values only.

    Raises:
        SnapshotError: If the columns do not belong together.
    """

    sets: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[NDArray[np.float64], ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = [len(column) for column in (self.sets, self.prompts, self.tokens, self.logprobs)]
        if len(set(counts)) > 1:
            raise SnapshotError(
                f"needed a set, a prompt, tokens and log-probabilities for each completion, got {counts} of them"
            )
        for number, (prompt, tokens, logprobs) in enumerate(
            zip(self.prompts, self.tokens, self.logprobs, strict=True), start=1
        ):
            if not prompt or not tokens:
                raise SnapshotError(f"completion {number} lacks its {'tokens' if prompt else 'prompt'}")
            if logprobs.shape != (len(tokens),) or not np.isfinite(logprobs).all():
                raise SnapshotError(
                    f"completion {number} has {len(tokens)} tokens, and needs as many finite log-probabilities; got "
                    f"{logprobs.tolist()}"
                )

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def checksum(self) -> str:
        """First 32 hex digits of SHA-256 over all columns, in a form that no file format changes."""
        digest = hashlib.sha256(json.dumps([self.sets, self.prompts, self.tokens]).encode())
        for logprobs in self.logprobs:
            digest.update(logprobs.astype("<f8").tobytes())
        return digest.hexdigest()[:32]

    def drift(self, now: Sequence[NDArray[np.float64]]) -> dict[str, Drift]:
        """How far a model is from the base, by set, in the order of the sets' names.

        Args:
            now: Log-probability of each token under the model now, nats, float64 [tokens] by completion.

        Raises:
            ValueError: If these are not the log-probabilities of the tokens of all completions.
        """
        if len(now) != len(self):
            raise ValueError(f"needed log-probabilities of {len(self)} completions, got those of {len(now)}")
        found = {}
        for name in sorted(set(self.sets)):
            rows = [row for row, other in enumerate(self.sets) if other == name]
            found[name] = drift([self.logprobs[row] for row in rows], [now[row] for row in rows])
        return found


def save_completions(completions: Completions, path: str | Path) -> None:
    """Write completions as one Parquet file; a reader sees all of it or none."""
    columns = [completions.sets, completions.prompts, completions.tokens, completions.logprobs]
    arrays = [pa.array(list(column), type=spec.type) for column, spec in zip(columns, SCHEMA, strict=True)]
    meta = {
        "format": FORMAT,
        "left_out": dict(completions.left_out),
        "meta": dict(completions.meta),
        "checksum": completions.checksum,
    }
    write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), meta, path)


def read_completions(path: str | Path) -> Completions:
    """The completions in a Parquet file that forgetwatch wrote.

    Raises:
        SnapshotError: If the file is none of these, of a newer format, cut, or changed since it was written.
    """
    path = Path(path)
    table, meta = read_table(path, what="completions", file_format=FORMAT, schema=SCHEMA)
    try:
        columns = table.cast(SCHEMA).to_pydict()
        completions = Completions(
            sets=tuple(columns["set"]),
            prompts=tuple(tuple(ids or ()) for ids in columns["prompt"]),
            tokens=tuple(tuple(ids or ()) for ids in columns["tokens"]),
            logprobs=tuple(np.array(values or (), np.float64) for values in columns["logprobs"]),
            left_out=meta.get("left_out", {}),
            meta=meta.get("meta", {}),
        )
    except (pa.ArrowException, SnapshotError) as error:
        raise SnapshotError(f"{path}: {error}") from error
    if meta.get("checksum") != completions.checksum:
        raise SnapshotError(f"{path}: its rows do not match its checksum; the file was changed after it was written")
    return completions
