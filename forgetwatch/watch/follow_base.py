"""The base of a follower: the model, or the snapshot of one, that checkpoints are compared with.

checked before any waiting     it can be loaded; the looks in the run folder were compared with it
scored with the first          in the batches of the watched run that saved the checkpoint, if one did
lends its tokenizer            to the checkpoints of a training that saves none

The base of an adapter, which is often the same model, is part of the adapter's weights: `weights_of` names both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ScoringError, SnapshotError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.run_folder import BASELINE, RUN_FOLDER
from forgetwatch.scoring import (
    ADAPTER,
    base_of_adapter,
    deciding_files,
    file_digests,
    has_tokenizer,
    load_outline,
    missing_base,
    weights_identity,
)
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.watch.saved_checkpoints import CheckpointStore, SavedCheckpoint

_OF_MODEL: Final = re.compile(
    r"[^/]+\.(safetensors|bin|model|tiktoken|jinja|py)|(merges|vocab)\.txt|"
    r"(config|generation_config|tokenizer.*|special_tokens_map|added_tokens|vocab|chat_template|.+\.index)\.json"
)
"""Files in the folder of a model that loading it reads, or may read."""

_CHECKSUM: Final = "base_checksum"
"""Name under which the baseline's metadata has the checksum of the snapshot that it is."""


@dataclass(frozen=True)
class FollowBase:
    """The base of a follower.

    Attributes:
        given: A model id, a checkpoint folder, or a snapshot file.
        snapshot: The snapshot, if it is one.
    """

    given: str
    snapshot: Snapshot | None

    @classmethod
    def named(cls, given: str, *, trust_remote_code: bool) -> FollowBase:
        """The base of a name: a snapshot is read, a model's configuration and tokenizer are loaded.

        Raises:
            ForgetwatchError: If it cannot be used.
        """
        path = Path(given)
        if path.is_file():
            return cls(given, read_snapshot(path))
        if not (path / ADAPTER).is_file():
            load_outline(given, trust_remote_code=trust_remote_code)
        elif lost := lost_base(path):
            raise WatchError(f"--base {path} {lost}")
        return cls(given, None)

    def check(self, baseline: Snapshot, run: Path) -> None:
        """Refuse a run folder whose looks were compared with another base.

        Args:
            baseline: The baseline in it.
            run: The run folder.

        Raises:
            WatchError: If they were.
        """
        made = str(baseline.meta.get("base"))
        is_same = made == self.given or Path(made).resolve() == Path(self.given).resolve()
        if is_same and self.snapshot is not None and baseline.meta.get(_CHECKSUM) != self.snapshot.checksum:
            made, is_same = "other rows", False
        if not is_same:
            raise WatchError(
                f"{run}: its looks are compared with {made}, and --base is {self.given}; give --run another folder"
            )

    def baseline(self) -> Snapshot | None:
        """The snapshot, with the metadata by which `check` knows it again; None where a model is to be scored."""
        if self.snapshot is None:
            return None
        named = {"base": self.given, _CHECKSUM: self.snapshot.checksum}
        return replace(self.snapshot, meta={**self.snapshot.meta, **named})

    def tokenizer_for(self, checkpoint: Path) -> str | None:
        """Folder or id of this base's tokenizer, for a checkpoint that is saved without one; None if it has one.

        An adapter has that of its own base. A snapshot has none to lend.
        """
        if (checkpoint / ADAPTER).is_file() or has_tokenizer(str(checkpoint)) or self.snapshot is not None:
            return None
        is_bare_adapter = (Path(self.given) / ADAPTER).is_file() and not has_tokenizer(self.given)
        return base_of_adapter(Path(self.given)) if is_bare_adapter else self.given


def lost_base(path: Path) -> str:
    """Clause on the base of an adapter that is gone, with the remedy; empty if nothing is missing.

    Raises:
        ScoringError: If the adapter's configuration cannot be read.
    """
    if not (missing := missing_base(path)):
        return ""
    return (
        f"is an adapter of {missing}, which is not there; put it back, or name the present place of that model in "
        "adapter_config.json (base_model_name_or_path)"
    )


def weights_of(path: Path, *, trust_remote_code: bool) -> dict[str, Any]:
    """Metadata on the files that determine a model's rows.

    That is ``digest``, and for an adapter, whose digest covers its base, also ``own``, the digest of its own files, and
    ``base``: ``model`` and ``digest``.

    Args:
        path: Folder of the model.
        trust_remote_code: Run code that comes with the base.

    Raises:
        ScoringError: If a file cannot be read, or the base cannot be found.
    """
    own = file_digests(path)
    if not (path / ADAPTER).is_file():
        return {"digest": _digest(own)}
    model = base_of_adapter(path)
    base = _base_identity(model, trust_remote_code=trust_remote_code, adapters=(path.resolve(),))
    of_base = {"model": model, "digest": _digest(base)}
    return {"digest": _digest([*own, *base]), "own": _digest(own), "base": of_base}


def _base_identity(model: str, *, trust_remote_code: bool, adapters: tuple[Path, ...] = ()) -> Sequence[str]:
    """Identity of the weights of an adapter's base; see `checkpoints.weights_identity`."""
    if Path(model).is_dir() and not (Path(model) / ADAPTER).is_file():
        return _folder_identity(model, _file_states(Path(model)))
    return weights_identity(model, trust_remote_code=trust_remote_code, adapters=adapters)


@lru_cache(maxsize=1)
def _folder_identity(model: str, states: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    """Identity of the weights in a folder, kept while the states of its files stay the same.

    Files that are put beside a model, such as the results of an evaluation or an adapter below it, are no part of it.
    """
    return tuple(digest for digest in weights_identity(model) if _OF_MODEL.fullmatch(digest.rsplit(" ", 1)[0]))


def _file_states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of change of each file of a model's folder that can decide its rows."""
    found = [(file, file.stat()) for file in sorted(deciding_files(folder))]
    return tuple((str(file), state.st_size, state.st_mtime_ns) for file, state in found)


def is_replaced(base: Mapping[str, str], *, trust_remote_code: bool) -> bool:
    """True if the base of an adapter, as `weights_of` names it, has other weights now; False if it cannot be read."""
    with suppress(ScoringError):  # that it is gone is an error where the next adapter needs it
        return _digest(_base_identity(base["model"], trust_remote_code=trust_remote_code)) != base["digest"]
    return False


def _digest(identity: Sequence[str]) -> str:
    """First 32 hex digits of a digest of what identifies weights."""
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:32]


def watched_budget(store: CheckpointStore, checkpoint: SavedCheckpoint, probe: Probe) -> int | None:
    """Tokens of a batch of the run that watched this training; None if there is none with this probe."""
    if checkpoint.fingerprint == probe.fingerprint:
        return checkpoint.token_budget
    if store.path is None:
        return None
    try:  # the checkpoint may be scored before the trainer has written its state
        meta = read_snapshot(store.path / RUN_FOLDER / BASELINE).meta
    except SnapshotError:
        return None
    is_same = (meta.get("probe") or {}).get("fingerprint") == probe.fingerprint
    return (meta.get("batch") or {}).get("tokens") if is_same else None
