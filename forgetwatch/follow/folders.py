"""Checkpoints of a training as another process sees them: complete or not, and held while they are read.

    checkpoint-200         transformers, and with it TRL, axolotl, LLaMA-Factory and unsloth
    global_step200_hf      OpenRLHF
    global_step_200        verl: its model is in actor/huggingface

A checkpoint is complete if all files of its model are there, and ``trainer_state.json``, which
transformers writes after them, is there and no older. Where that file is missing, or older because
a checkpoint is saved again, the same files must have been seen before, unchanged.

A training that rotates its checkpoints deletes them at any time: one that goes while it is read is
named. Files of a remote file system are copied before they are read.
"""

import hashlib
import json
import math
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

from forgetwatch.errors import (
    ScoringError,
    SnapshotError,
    WatchError,
)
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.run_folder.description import BASELINE, RUN_FOLDER
from forgetwatch.scoring.model_loading import (
    ADAPTER,
    base_of_adapter,
    missing_base,
)
from forgetwatch.scoring.weights_identity import (
    deciding_files,
    file_digests,
    is_deciding,
    weights_identity,
)
from forgetwatch.snapshot import read_snapshot

_LOGGED: Final = 20
"""Entries of a trainer's log by which its checkpoints are known again."""


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
        token_budget: Tokens of a batch of the watched run that saved it; None if it was not
            watched.
        fingerprint: Fingerprint of that run's probe; None if it was not watched.
        log: Digests of the first entries of the trainer's log; empty without one.
        save_steps: Steps between saves; None if the trainer stores no state.
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
    log: tuple[str, ...] = ()
    save_steps: float | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What a look keeps of the training and the files.

        Among them the time of the last change.
        """
        times = [file.changed for file in self.files.values() if isinstance(file.changed, float)]
        changed = max(times, default=0.0)
        return {
            "signature": self.signature,
            "changed": changed,
            "log": self.log,
            "save_steps": self.save_steps,
        }

    def replaces(self, rest: Mapping[int, Mapping[str, Any]], *, by_step: bool = False) -> bool:
        """Is the checkpoint of a later training than others?

        It is newer, with another log; or, without logs, of a lower step, and it was saved at other
        intervals.

        Args:
            rest: Their `facts`, by step.
            by_step: True if a lower step alone is enough.
        """
        for step, facts in rest.items():
            pairs = list(zip(self.log, facts.get("log") or (), strict=False))
            is_before = step > self.step and (by_step or facts.get("save_steps") != self.save_steps)
            is_other = any(of_this != of_that for of_this, of_that in pairs) or (
                is_before and not pairs
            )
            if is_other and self.facts["changed"] > facts.get("changed", math.inf):
                return True
        return False

    @property
    def signature(self) -> str:
        """Hash of the names, sizes and times of the files.

        Equal for files that were not written again.
        """
        facts = [(name, file.size, str(file.changed)) for name, file in sorted(self.files.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@dataclass
class CheckpointStore:
    """The folder in which a training saves its checkpoints, a path, or a URL of any file system of fsspec.

    Raises:
        WatchError: If its protocol is unknown, or needs a package that is not installed, or it is a
            file.
    """

    given: str
    name: str = ""  # form of the folders' names, with {N} for the step; empty for those of the trainers that are known
    _fs: Any = field(init=False, repr=False)
    _root: str = field(init=False, repr=False)
    _checked: dict[str, tuple[str, str]] = field(init=False, repr=False, default_factory=dict)
    _states: dict[str, tuple[FileFacts, dict[str, Any]]] = field(
        init=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.given)
        except (ImportError, ValueError) as error:
            raise WatchError(
                f"{self.given}: this kind of address cannot be read here ({error})"
            ) from error
        self._root = self._root.rstrip("/")
        if self.name and (
            self.name.count("{N}") != 1 or ".." in self.name or self.name.startswith("/")
        ):
            raise WatchError(
                f"--name {self.name!r}: needed a name with {{N}} for the step, such as 'step_{{N}}'"
            )
        if self.path is not None and self.path.is_file():
            raise WatchError(f"{self.given}: needed the folder of a training, got a file")

    @property
    def path(self) -> Path | None:
        """The folder.

        Returns:
            The path, or None if the folder is not on this machine.
        """
        return Path(self._root) if isinstance(self._fs, LocalFileSystem) else None

    def names(self) -> dict[int, str]:
        """Names of the checkpoint folders, by rising step.

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
        names: dict[int, str] = {}
        for path in listed:
            name = path["name"].rstrip("/").rsplit("/", 1)[-1]
            if (match := _FOLDER.fullmatch(name)) and self._is_folder(path):
                # OpenRLHF has its own format beside that of transformers.
                names[int(match[1])] = max(
                    name, names.get(int(match[1]), ""), key=lambda name: name.endswith("_hf")
                )
        return dict(sorted(names.items()))

    def _named(self) -> dict[int, str]:
        # ``*`` stands for a part of one name.
        parts = (re.escape(word).replace(r"\*", "[^/]*") for word in self.name.split("{N}"))
        form, named_paths = re.compile("(0|[1-9][0-9]{0,17})".join(parts)), dict[int, str]()
        paths = filter(
            self._fs.isdir, sorted(self._fs.glob(f"{self._root}/{self.name.replace('{N}', '*')}"))
        )
        for name in (path.rstrip("/").removeprefix(f"{self._root}/") for path in paths):
            if (match := form.fullmatch(name)) and (
                earlier := named_paths.setdefault(int(match[1]), name)
            ) != name:
                raise WatchError(
                    f"{self.given}: {earlier} and {name} have one step; follow one training at "
                    "a time"
                )
        return dict(sorted(named_paths.items()))

    def others(self) -> list[str]:
        """Names of folders below the root, and of numbered folders in these."""
        try:
            below = [
                folder["name"].rstrip("/")
                for folder in self._fs.ls(self._root, detail=True)
                if self._is_folder(folder)
            ]
            below = [path for path in below if path.rsplit("/", 1)[-1][0] not in "._"]
            inner = [one for path in below[:3] for one in self._fs.glob(f"{path}/*[0-9]")]
        except (OSError, ValueError):
            return []
        return [path.removeprefix(f"{self._root}/") for path in (*below[:5], *inner[:3])]

    def _is_folder(self, listed: Mapping[str, Any]) -> bool:
        # Links are "other" in a local listing and "link" in one of SFTP; files and folders need no
        # further request.
        entry_type = listed["type"]
        return entry_type == "directory" or (
            entry_type in ("other", "link") and bool(self._fs.isdir(listed["name"]))
        )

    def is_checkpoint(self) -> bool:
        """Is the folder itself a checkpoint?

        The training's folder is then the one above.
        """
        return any(self._fs.exists(f"{self._root}/{name}") for name in ("config.json", ADAPTER))

    def read(self, step: int, name: str) -> SavedCheckpoint | None:
        """Read the present checkpoint of a step.

        Returns:
            The checkpoint, or None if it is gone.
        """
        root = f"{self._root}/{name}"
        try:
            listed = self._fs.find(root, detail=True)
            facts = {
                path.removeprefix(f"{root}/"): _facts(facts_of_file)
                for path, facts_of_file in listed.items()
            }
            state = self._state(root, facts[_STATE]) if _STATE in facts else {}
            return self._made(step, name, root, facts, state) if facts else None
        except FileNotFoundError:
            return None

    def _made(
        self, step: int, name: str, root: str, facts: dict[str, FileFacts], state: dict[str, Any]
    ) -> SavedCheckpoint:
        model = next((at for at in _MODEL_FOLDERS if _weights(facts, at)), "")
        files = {
            path: file
            for path, file in facts.items()
            if path.startswith(model) and is_deciding(path[len(model) :])
        }
        parts = (
            []
            if _weights(facts, model)
            else [file for path, file in facts.items() if _PART.fullmatch(path)]
        )
        watched = _within(state, "stateful_callbacks", "forgetwatch", "attributes")
        checkpoint = SavedCheckpoint(
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
            log=tuple(state.get("log") or ()),
            save_steps=state.get("save_steps"),
        )
        # The files are read again only when they have changed.
        if self._checked.get(root, ("", ""))[0] != checkpoint.signature:
            self._checked[root] = checkpoint.signature, "" if parts else self._problem(checkpoint)
        return replace(checkpoint, problem=self._checked[root][1])

    def _state(self, root: str, facts: FileFacts) -> dict[str, Any]:
        # The state has digests of the log's first entries; empty if the file is not whole yet.
        if (state_known := self._states.get(root)) is not None and state_known[0] == facts:
            return state_known[1]
        try:
            state = json.loads(self._fs.cat_file(f"{root}/{_STATE}"))
        except (ValueError, RecursionError):
            return {}
        if not isinstance(state, dict) or type(state.get("global_step")) is not int:
            return {}
        kept = {
            name: state.get(name)
            for name in ("global_step", "max_steps", "save_steps", "stateful_callbacks")
        }
        log = state.get("log_history")
        entries = log[:_LOGGED] if isinstance(log, list) else []
        kept["log"] = [
            hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:8]
            for entry in entries
        ]
        self._states[root] = facts, kept
        return kept

    def _problem(self, checkpoint: SavedCheckpoint) -> str:
        # The reason why the model is not complete.
        own_files = {
            path[len(checkpoint.model) :]: file
            for path, file in checkpoint.files.items()
            if path.startswith(checkpoint.model)
        }
        if not _weights(checkpoint.files, checkpoint.model):
            return "it has no weights"
        if "config.json" not in own_files and ADAPTER not in own_files:
            return "config.json is missing"
        base = f"{checkpoint.root}/{checkpoint.model}"
        for index in (
            name for name in own_files if name.endswith(".index.json") and "/" not in name
        ):
            try:
                shards = set(
                    map(str, json.loads(self._fs.cat_file(base + index))["weight_map"].values())
                )
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return f"{index} cannot be read"
            if missing := sorted(shards - own_files.keys()):
                return f"{missing[0]}, which {index} names, is missing"
        return ""

    @contextmanager
    def held(self, checkpoint: SavedCheckpoint) -> Iterator[Path]:
        """Read a complete checkpoint within the block.

        Yields the folder of the model, or of a copy.

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
        """Refuse a checkpoint that was written again meanwhile.

        Raises:
            CheckpointGoneError: If its files are of both times.
        """
        now = self._read_anew(checkpoint)  # of one that was deleted since, what was copied is whole
        if now is not None and now.signature != checkpoint.signature:
            raise CheckpointGoneError(f"{checkpoint.name} is being written again")

    def _copy(self, checkpoint: SavedCheckpoint, target: Path) -> None:
        for path in checkpoint.files:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            try:
                self._fs.get_file(f"{checkpoint.root}/{path}", str(target / path))
            except FileNotFoundError as error:
                raise CheckpointGoneError(
                    f"{checkpoint.name} was deleted while it was copied"
                ) from error
            except Exception as error:  # of any kind, as file systems raise
                raise WatchError(f"{path} cannot be copied ({error})") from error

    def _read_anew(self, checkpoint: SavedCheckpoint) -> SavedCheckpoint | None:
        self._fs.invalidate_cache()  # remote file systems keep listings
        return self.read(checkpoint.step, checkpoint.name)

    def is_gone(self, checkpoint: SavedCheckpoint) -> bool:
        """Has a file of the checkpoint been deleted?"""
        now = self._read_anew(checkpoint)
        return now is None or not checkpoint.files.keys() <= now.files.keys()


def _facts(listed: Mapping[str, Any]) -> FileFacts:
    changed = next((listed[key] for key in _CHANGED if listed.get(key) is not None), None)
    changed = changed.timestamp() if isinstance(changed, datetime) else changed
    return FileFacts(int(listed["size"] or 0), changed)


def _weights(facts: Mapping[str, FileFacts], model: str) -> list[str]:
    own_names = (path[len(model) :] for path in facts if path.startswith(model))
    return [name for name in own_names if "/" not in name and _WEIGHTS.fullmatch(name)]


def _is_newest(state: FileFacts, rest: list[FileFacts]) -> bool:
    # transformers writes ``trainer_state.json`` after the other files.
    times = [file.changed for file in rest]
    if not isinstance(state.changed, (int, float)):
        return all(time is None for time in times)
    return all(isinstance(time, (int, float)) and time <= state.changed for time in times)


def _is_last(state: Mapping[str, Any]) -> bool:
    # The last step of a training, or an early stop.
    stopped = _within(state, "stateful_callbacks", "TrainerControl", "args").get(
        "should_training_stop"
    )
    planned = state.get("max_steps")
    return bool(stopped) or (isinstance(planned, int) and 0 < planned <= state["global_step"])


def _within(values: Any, *names: str) -> dict[str, Any]:
    # One name in the other.
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def weights_of(path: Path, *, loading: Loading) -> dict[str, Any]:
    """Metadata on the files that determine a model's rows.

    That is ``digest``, and for an adapter, whose digest covers its base, also ``base``: ``model``
    and ``digest``. A `ScoringError` if a file cannot be read, or the base cannot be found.
    """
    digests = file_digests(path)
    if not (path / ADAPTER).is_file():
        return {"digest": _digest(digests)}
    model = base_of_adapter(path)
    base = _base_identity(model, loading=loading, adapters=(path.resolve(),))
    of_base = {"model": model, "digest": _digest(base)}
    return {"digest": _digest([*digests, *base]), "base": of_base}


def identity_of(model: str, *, loading: Loading) -> dict[str, str]:
    """Model and digest of a base, for `is_replaced`."""
    return {"model": model, "digest": _digest(_base_identity(model, loading=loading))}


def weight_digests(path: Path) -> list[str]:
    """Name and digest of each file of weights."""
    return [
        digest
        for digest in file_digests(path)
        if digest.rsplit(" ", 1)[0].endswith((".safetensors", ".bin"))
    ]


def _base_identity(
    model: str, *, loading: Loading, adapters: tuple[Path, ...] = ()
) -> Sequence[str]:
    # See `model_loading.weights_identity`.
    if Path(model).is_dir() and not (Path(model) / ADAPTER).is_file():
        # Path, size and time of change of each file that can decide its rows.
        states = [(file, file.stat()) for file in sorted(deciding_files(Path(model)))]
        return _folder_identity(
            model, tuple((str(file), state.st_size, state.st_mtime_ns) for file, state in states)
        )
    return weights_identity(model, loading=loading, adapters=adapters)


@lru_cache(maxsize=1)
def _folder_identity(model: str, states: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    # Kept while the states of the files stay the same.
    # What is put beside a model, such as the results of an evaluation or an adapter below it, is no
    # part of it.
    return tuple(
        digest
        for digest in weights_identity(model)
        if _OF_MODEL.fullmatch(digest.rsplit(" ", 1)[0])
    )


def is_replaced(base: Mapping[str, str], *, loading: Loading) -> bool:
    """Has the base of an adapter other weights now?

    False if it cannot be read.
    """
    with suppress(ScoringError):  # that it is gone is an error where the next adapter needs it
        return _digest(_base_identity(base["model"], loading=loading)) != base["digest"]
    return False


def watched_budget(store: CheckpointStore, checkpoint: SavedCheckpoint, probe: Probe) -> int | None:
    """Tokens of a batch of the run that watched this training.

    Returns:
        The tokens, or None if there is no such run with this probe.
    """
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
    """Clause on the missing base of an adapter, with the remedy.

    Empty if nothing is missing.
    """
    if not (missing := missing_base(path)):
        return ""
    return (
        f"is an adapter of {missing}, which is not there; put it back, or name the present "
        "place of that model in adapter_config.json (base_model_name_or_path)"
    )


def _digest(identity: Sequence[str]) -> str:
    # First 32 hex digits.
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:32]
