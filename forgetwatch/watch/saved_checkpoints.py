"""Checkpoints of a training as another process sees them: complete or not, and held while they are read.

    checkpoint-200         transformers, and with it TRL, axolotl, LLaMA-Factory and unsloth
    global_step200_hf      OpenRLHF
    global_step_200        verl: its model is in actor/huggingface

A checkpoint is complete if all files of its model are there, and ``trainer_state.json``, which transformers writes
after them, is there and no older. Where that file is missing, or older because a checkpoint is saved again, the same
files must have been seen before, unchanged.

A training that rotates its checkpoints deletes them at any time: one that goes while it is read is named. Files of a
remote file system are copied before they are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from forgetwatch.errors import ScoringError, SnapshotError, WatchError
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.run_folder import BASELINE, RUN_FOLDER
from forgetwatch.scoring import (
    ADAPTER,
    base_of_adapter,
    deciding_files,
    file_digests,
    is_deciding,
    missing_base,
    weights_identity,
)
from forgetwatch.snapshot import read_snapshot

NAMES: Final = "checkpoint-N or global_step_N"
"""Names of the folders that are recognised, for messages."""
_FOLDER: Final = re.compile(r"(?:checkpoint-|global_step_?)(0|[1-9][0-9]{0,17})(?:_hf)?")
_MODEL_FOLDERS: Final = ("", "actor/huggingface/")
"""Places of a checkpoint's model: the folder itself, or that in which verl saves it."""
_PART: Final = re.compile(r"(?!.*optim).*(\.distcp|pytorch_model_fsdp.*|_rank_\d+.*\.pt)")
"""Files with the weights that one process of a training had."""

_WEIGHTS: Final = re.compile(r".+\.safetensors|(pytorch_model|adapter_model).*\.bin")
_STATE: Final = "trainer_state.json"
_CHANGED: Final = ("mtime", "LastModified", "last_modified", "updated", "created")
"""Keys under which the file systems of fsspec give the time of the last change."""

_OF_MODEL: Final = re.compile(
    r"[^/]+\.(safetensors|bin|model|tiktoken|jinja|py)|(merges|vocab)\.txt|"
    r"(config|generation_config|tokenizer.*|special_tokens_map|added_tokens|vocab|chat_template|.+\.index)\.json"
)
"""Files in the folder of a model that loading it reads, or may read."""


class CheckpointGoneError(WatchError):
    """A checkpoint was deleted, or is written again, while it was read."""


class FileFacts(NamedTuple):
    """Bytes of a file, and the time of its last change, None if the file system does not give it."""

    size: int
    changed: float | str | None


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """One checkpoint folder at one moment.

    Attributes:
        step: Optimizer steps, from the folder's name.
        name: Name of the folder.
        root: Path of the folder, in its file system.
        model: Path of the model's files below it; empty, or ending in ``/``.
        files: The files that determine the model's outcomes, by path below `root`.
        problem: Reason why it is not complete; empty if nothing is missing.
        in_parts: True if its weights are in files of the training's processes, and in no model.
        settled: True if ``trainer_state.json`` shows that the files are final.
        max_steps: Steps of the whole training; None if unknown.
        is_last: True if the training ended here.
        token_budget: Tokens of a batch of the watched run that saved it; None if it was not watched.
        fingerprint: Fingerprint of that run's probe; None if it was not watched.
    """

    step: int
    name: str
    root: str
    model: str
    files: Mapping[str, FileFacts]
    problem: str = ""
    in_parts: bool = False
    settled: bool = False
    max_steps: int | None = None
    is_last: bool = False
    token_budget: int | None = None
    fingerprint: str | None = None

    @property
    def signature(self) -> str:
        """Digest of the names, sizes and times of the files; equal for files that were not written again."""
        facts = [(name, one.size, str(one.changed)) for name, one in sorted(self.files.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@dataclass
class CheckpointStore:
    """The folder in which a training saves its checkpoints, a path, or a URL of any file system of fsspec.

    Raises:
        WatchError: If its protocol is unknown, or needs a package that is not installed, or it is a file.
    """

    given: str
    name: str = ""  # form of the folders' names, with {N} for the step; empty for those of the trainers that are known
    _fs: Any = field(init=False, repr=False)
    _root: str = field(init=False, repr=False)
    _checked: dict[str, tuple[str, str]] = field(init=False, repr=False, default_factory=dict)
    _states: dict[str, tuple[FileFacts, dict[str, Any]]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find the file system."""
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.given)
        except (ImportError, ValueError) as error:
            raise WatchError(f"{self.given}: this kind of address cannot be read here ({error})") from error
        self._root = self._root.rstrip("/")
        if self.name and (self.name.count("{N}") != 1 or ".." in self.name or self.name.startswith("/")):
            raise WatchError(f"--name {self.name!r}: needed a name with {{N}} for the step, such as 'step_{{N}}'")
        if self.path is not None and self.path.is_file():
            raise WatchError(f"{self.given}: needed the folder of a training, got a file")

    @property
    def path(self) -> Path | None:
        """The folder; None if it is not on this machine."""
        return Path(self._root) if isinstance(self._fs, LocalFileSystem) else None

    def names(self) -> dict[int, str]:
        """Names of the checkpoint folders, by rising step; empty if there is none.

        Raises:
            OSError: If a folder that is there cannot be read.
        """
        self._fs.invalidate_cache()
        if self.name:
            return self._named()
        try:
            listed = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            return {}
        found: dict[int, str] = {}
        for one in listed:
            name = one["name"].rstrip("/").rsplit("/", 1)[-1]
            if (match := _FOLDER.fullmatch(name)) and self._is_folder(one):
                # OpenRLHF has its own format beside that of transformers.
                found[int(match[1])] = max(name, found.get(int(match[1]), ""), key=lambda name: name.endswith("_hf"))
        return dict(sorted(found.items()))

    def _named(self) -> dict[int, str]:
        """Return the folders whose path below the root has the given form; ``*`` stands for a part of one name."""
        parts = (re.escape(part).replace(r"\*", "[^/]*") for part in self.name.split("{N}"))
        form, found = re.compile("(0|[1-9][0-9]{0,17})".join(parts)), dict[int, str]()
        paths = filter(self._fs.isdir, sorted(self._fs.glob(f"{self._root}/{self.name.replace('{N}', '*')}")))
        for name in (path.rstrip("/").removeprefix(f"{self._root}/") for path in paths):
            if (match := form.fullmatch(name)) and (other := found.setdefault(int(match[1]), name)) != name:
                raise WatchError(f"{self.given}: {other} and {name} have one step; follow one training at a time")
        return dict(sorted(found.items()))

    def others(self) -> list[str]:
        """Names of folders that are there: below the root, and with a number at its end below one of these."""
        try:
            below = [one["name"].rstrip("/") for one in self._fs.ls(self._root, detail=True) if self._is_folder(one)]
            below = [path for path in below if path.rsplit("/", 1)[-1][0] not in "._"]
            inner = [one for path in below[:3] for one in self._fs.glob(f"{path}/*[0-9]")]
        except (OSError, ValueError):
            return []
        return [path.removeprefix(f"{self._root}/") for path in (*below[:5], *inner[:3])]

    def _is_folder(self, listed: Mapping[str, Any]) -> bool:
        # Links are "other" in a local listing and "link" in one of SFTP; files and folders need no further request.
        kind = listed["type"]
        return kind == "directory" or (kind in ("other", "link") and bool(self._fs.isdir(listed["name"])))

    def is_checkpoint(self) -> bool:
        """Return True if the folder is itself a checkpoint: the training's folder is the one above."""
        return any(self._fs.exists(f"{self._root}/{name}") for name in ("config.json", ADAPTER))

    def read(self, step: int, name: str) -> SavedCheckpoint | None:
        """Return the checkpoint of a step as it is now; None if it is gone."""
        root = f"{self._root}/{name}"
        try:
            listed = self._fs.find(root, detail=True)
            facts = {path.removeprefix(f"{root}/"): _facts(one) for path, one in listed.items()}
            state = self._state(root, facts[_STATE]) if _STATE in facts else {}
            return self._made(step, name, root, facts, state) if facts else None
        except FileNotFoundError:
            return None

    def _made(
        self, step: int, name: str, root: str, facts: dict[str, FileFacts], state: dict[str, Any]
    ) -> SavedCheckpoint:
        model = next((at for at in _MODEL_FOLDERS if _weights(facts, at)), "")
        files = {path: one for path, one in facts.items() if path.startswith(model) and is_deciding(path[len(model) :])}
        parts = [] if _weights(facts, model) else [one for path, one in facts.items() if _PART.fullmatch(path)]
        watched = _within(state, "stateful_callbacks", "forgetwatch", "attributes")
        made = SavedCheckpoint(
            step=step,
            name=name,
            root=root,
            model=model,
            files=files or dict(facts),
            in_parts=bool(parts),
            settled=bool(state) and _is_newest(facts[_STATE], [*files.values(), *parts]),
            max_steps=state.get("max_steps"),
            is_last=_is_last(state),
            token_budget=_within(watched, "made", "batch").get("tokens"),
            fingerprint=watched.get("fingerprint"),
        )
        # The files are read again only when they have changed.
        if self._checked.get(root, ("", ""))[0] != made.signature:
            self._checked[root] = made.signature, "" if parts else self._problem(made)
        return replace(made, problem=self._checked[root][1])

    def _state(self, root: str, facts: FileFacts) -> dict[str, Any]:
        """Return ``trainer_state.json`` without the log, which may be long; empty if it is not whole yet."""
        if (known := self._states.get(root)) is not None and known[0] == facts:
            return known[1]
        try:
            state = json.loads(self._fs.cat_file(f"{root}/{_STATE}"))
        except (ValueError, RecursionError):
            return {}
        if not isinstance(state, dict) or type(state.get("global_step")) is not int:
            return {}
        kept = {name: state.get(name) for name in ("global_step", "max_steps", "stateful_callbacks")}
        self._states[root] = facts, kept
        return kept

    def _problem(self, made: SavedCheckpoint) -> str:
        """Return the reason why the model of a checkpoint is not complete; empty if it is."""
        own = {path[len(made.model) :]: one for path, one in made.files.items() if path.startswith(made.model)}
        if not _weights(made.files, made.model):
            return "it has no weights"
        if "config.json" not in own and ADAPTER not in own:
            return "config.json is missing"
        base = f"{made.root}/{made.model}"
        for index in (name for name in own if name.endswith(".index.json") and "/" not in name):
            try:
                named = set(map(str, json.loads(self._fs.cat_file(base + index))["weight_map"].values()))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return f"{index} cannot be read"
            if missing := sorted(named - own.keys()):
                return f"{missing[0]}, which {index} names, is missing"
        return ""

    @contextmanager
    def held(self, checkpoint: SavedCheckpoint) -> Iterator[Path]:
        """Provide a context in which a complete checkpoint is read; yields the folder of its model, or of a copy of it.

        Raises:
            CheckpointGoneError: If it was deleted, or written again, since it was seen.
            WatchError: If a remote file cannot be copied.
        """
        if self.path is not None:
            if self.is_gone(checkpoint):
                raise CheckpointGoneError(f"{checkpoint.name} was deleted before it could be read")
            self.check_unchanged(checkpoint)
            yield Path(checkpoint.root) / checkpoint.model
            return
        with TemporaryDirectory(prefix="forgetwatch-") as copies:
            self._copy(checkpoint, Path(copies))
            self.check_unchanged(checkpoint)
            yield Path(copies) / checkpoint.model

    def check_unchanged(self, checkpoint: SavedCheckpoint) -> None:
        """Raise `CheckpointGoneError` if a checkpoint was written again since it was seen: files of both times."""
        now = self._read_anew(checkpoint)  # of one that was deleted since, what was copied is whole
        if now is not None and now.signature != checkpoint.signature:
            raise CheckpointGoneError(f"{checkpoint.name} is being written again")

    def _copy(self, checkpoint: SavedCheckpoint, target: Path) -> None:
        for path in checkpoint.files:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            try:
                self._fs.get_file(f"{checkpoint.root}/{path}", str(target / path))
            except FileNotFoundError as error:
                raise CheckpointGoneError(f"{checkpoint.name} was deleted while it was copied") from error
            except Exception as error:  # of any kind, as file systems raise
                raise WatchError(f"{path} cannot be copied ({error})") from error

    def _read_anew(self, checkpoint: SavedCheckpoint) -> SavedCheckpoint | None:
        self._fs.invalidate_cache()  # remote file systems keep listings
        return self.read(checkpoint.step, checkpoint.name)

    def is_gone(self, checkpoint: SavedCheckpoint) -> bool:
        """Return True if a file of the checkpoint has been deleted since it was seen."""
        now = self._read_anew(checkpoint)
        return now is None or not checkpoint.files.keys() <= now.files.keys()


def _facts(listed: Mapping[str, Any]) -> FileFacts:
    changed = next((listed[key] for key in _CHANGED if listed.get(key) is not None), None)
    changed = changed.timestamp() if isinstance(changed, datetime) else changed
    return FileFacts(int(listed["size"] or 0), changed)


def _weights(facts: Mapping[str, FileFacts], model: str) -> list[str]:
    own = (path[len(model) :] for path in facts if path.startswith(model))
    return [name for name in own if "/" not in name and _WEIGHTS.fullmatch(name)]


def _is_newest(state: FileFacts, others: list[FileFacts]) -> bool:
    """Return True if ``trainer_state.json`` was written after the other files, as transformers does."""
    times = [one.changed for one in others]
    if not isinstance(state.changed, (int, float)):
        return all(time is None for time in times)
    return all(isinstance(time, (int, float)) and time <= state.changed for time in times)


def _is_last(state: Mapping[str, Any]) -> bool:
    """Return True if a training took its last step here, or was stopped early."""
    stopped = _within(state, "stateful_callbacks", "TrainerControl", "args").get("should_training_stop")
    planned = state.get("max_steps")
    return bool(stopped) or (isinstance(planned, int) and 0 < planned <= state["global_step"])


def _within(values: Any, *names: str) -> dict[str, Any]:
    """Return the object under some names, one in the other; empty if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def weights_of(path: Path, *, loading: Loading) -> dict[str, Any]:
    """Return the metadata on the files in a model's folder that determine its rows.

    That is ``digest``, and for an adapter, whose digest covers its base, also ``base``: ``model`` and ``digest``. A
    `ScoringError` if a file cannot be read, or the base cannot be found.
    """
    own = file_digests(path)
    if not (path / ADAPTER).is_file():
        return {"digest": _digest(own)}
    model = base_of_adapter(path)
    base = _base_identity(model, loading=loading, adapters=(path.resolve(),))
    of_base = {"model": model, "digest": _digest(base)}
    return {"digest": _digest([*own, *base]), "base": of_base}


def identity_of(model: str, *, loading: Loading) -> dict[str, str]:
    """Return ``model`` and ``digest`` of a base, by which `is_replaced` knows it again."""
    return {"model": model, "digest": _digest(_base_identity(model, loading=loading))}


def weight_digests(path: Path) -> list[str]:
    """Return name and digest of each file of weights in a model's folder."""
    return [one for one in file_digests(path) if one.rsplit(" ", 1)[0].endswith((".safetensors", ".bin"))]


def _base_identity(model: str, *, loading: Loading, adapters: tuple[Path, ...] = ()) -> Sequence[str]:
    """Return the identity of the weights of an adapter's base; see `checkpoints.weights_identity`."""
    if Path(model).is_dir() and not (Path(model) / ADAPTER).is_file():
        # Path, size and time of change of each file that can decide its rows.
        found = [(file, file.stat()) for file in sorted(deciding_files(Path(model)))]
        return _folder_identity(model, tuple((str(file), state.st_size, state.st_mtime_ns) for file, state in found))
    return weights_identity(model, loading=loading, adapters=adapters)


@lru_cache(maxsize=1)
def _folder_identity(model: str, states: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    """Return the identity of the weights in a folder, kept while the states of its files stay the same."""
    # What is put beside a model, such as the results of an evaluation or an adapter below it, is no part of it.
    return tuple(digest for digest in weights_identity(model) if _OF_MODEL.fullmatch(digest.rsplit(" ", 1)[0]))


def is_replaced(base: Mapping[str, str], *, loading: Loading) -> bool:
    """Return True if the base of an adapter, as `weights_of` names it, has other weights now.

    False if it cannot be read.
    """
    with suppress(ScoringError):  # that it is gone is an error where the next adapter needs it
        return _digest(_base_identity(base["model"], loading=loading)) != base["digest"]
    return False


def watched_budget(store: CheckpointStore, checkpoint: SavedCheckpoint, probe: Probe) -> int | None:
    """Return the tokens of a batch of the run that watched this training; None if there is none with this probe."""
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


def lost_base(path: Path) -> str:
    """Return the clause on the base of an adapter that is gone, with the remedy; empty if nothing is missing."""
    if not (missing := missing_base(path)):
        return ""
    return (
        f"is an adapter of {missing}, which is not there; put it back, or name the present place of that model in "
        "adapter_config.json (base_model_name_or_path)"
    )


def _digest(identity: Sequence[str]) -> str:
    """Return the first 32 hex digits of a digest of what identifies weights."""
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:32]
