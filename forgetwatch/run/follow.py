"""Follow a training from another process: score each checkpoint that it saves, once, as soon as it is complete.

    training   checkpoint-200   checkpoint-400   ...         it is neither changed nor slowed by waiting
                     |                |
    follower      loaded, scored, compared with the base ─▶ run folder, page, guard, trackers

A follower needs nothing of the training but its folder. The looks are a `Watch`'s, in a run folder
of the follower's own; they are its memory, so that a follower that was killed scores no checkpoint
twice. In fp32 on a CPU the rows are bitwise those that the callback measures in the training, since
batches are planned alike: where the training is watched, its checkpoints name the batches of its
baseline. For the same reason the base is scored when the first checkpoint is there.

Several processes that a launcher began follow together: the main process decides what is scored,
all score.

**Queue.** Checkpoints of a training in the order in which a follower scores them, and the end of
it.

    the folder is listed every few seconds
        complete, not scored      the next one
        not complete              left for a later listing, and named if nothing is added to it
        in parts, one a process   named once
        gone before it was read   named once
        saved again               named once; its look stays
        cannot be read            named once, and read again at each listing

Only the main process lists the folder.

**Checkpoints** of a training as another process sees them: complete or not, and held while they are
read.

    checkpoint-200         transformers, and with it TRL, axolotl, LLaMA-Factory and unsloth
    global_step200_hf      OpenRLHF
    global_step_200        verl: its model is in actor/huggingface

A checkpoint is complete if all files of its model are there, and ``trainer_state.json``, which
transformers writes after them, is there and no older. Where that file is missing, or older because
a checkpoint is saved again, the same files must have been seen before, unchanged.

A training that rotates its checkpoints deletes them at any time: one that goes while it is read is
named. Files of a remote file system are copied before they are read.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple

import fsspec
import torch
from fsspec.implementations.local import LocalFileSystem

from forgetwatch.errors import (
    ForgetwatchError,
    LostBaselineError,
    MismatchError,
    ScoringError,
    SnapshotError,
    WatchError,
)
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import Failures, cause_of, log
from forgetwatch.run import run_output
from forgetwatch.run.guard import Guard, finding_lines
from forgetwatch.run.run import Look
from forgetwatch.run.trackers import FollowerLogger
from forgetwatch.run.watch import Watch
from forgetwatch.run_folder.description import BASELINE, FOLLOW_FOLDER, RUN_FOLDER
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model_loading import (
    ADAPTER,
    base_of_adapter,
    load_model,
    load_outline,
    missing_base,
)
from forgetwatch.scoring.processes import failed_together, on_all_processes, on_main_process, rank
from forgetwatch.scoring.tokenizer_loading import has_tokenizer
from forgetwatch.scoring.weights_identity import (
    deciding_files,
    file_digests,
    is_deciding,
    weights_identity,
)
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.version import VERSION

NAMES: Final = "checkpoint-N or global_step_N"
"""Names of the folders that are recognised, for messages."""
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
        """Names of folders below the root, and numbered ones in these."""
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
        """Read the checkpoint of a step as it is now.

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
        """Refuse a checkpoint that was written again since it was seen.

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
        "place of that model in "
        "adapter_config.json (base_model_name_or_path)"
    )


def _digest(identity: Sequence[str]) -> str:
    # First 32 hex digits.
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:32]


_ROUND: Final = 20.0
"""Seconds after which processes that wait for the main one hear from it; their backend gives up after minutes."""
_REVISIT: Final = 60.0
"""Seconds after which a finished remote checkpoint is read again: each reading is a request."""

End = Literal["last checkpoint", "idle", "stopped", "once", "guard"]
"""Reason for which a follower ends."""


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event at the first SIGTERM or SIGINT in the block.

    A second signal ends the process.
    """
    earlier: dict[signal.Signals, Any] = {}

    def handle(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, earlier[signal.Signals(number)])

    if threading.current_thread() is threading.main_thread():
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            earlier[signal_number] = signal.signal(signal_number, handle)
    try:
        yield
    finally:
        for signal_number, handler in earlier.items():
            signal.signal(signal_number, handler)


class CheckpointQueue:
    """The checkpoints that are to be scored.

    Attributes:
        latest: The checkpoint of the last step that was seen; None before the first.

    Args:
        store: The folder of the checkpoints.
        looks: Function of the looks taken so far: the signature of the files of each, empty if
            unknown, by step.
        stop: Set to end.
        poll: Seconds between two listings.
        idle: Seconds without a new checkpoint after which it ends; None for no limit.
        once: True to end when all checkpoints that are there were taken.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        looks: Callable[[], Mapping[int, str]],
        stop: threading.Event,
        poll: float,
        idle: float | None,
        once: bool,
    ) -> None:
        self.latest: SavedCheckpoint | None = None
        self._store, self._looks, self._stop = store, looks, stop
        self._poll, self._idle, self._once = poll, idle, once
        self._looks_again = once  # a folder that is still being written is looked at once more
        self._is_new = store.path is not None and not store.path.is_dir()
        self._done: dict[int, str] = {}  # signature of each checkpoint that is scored or left out
        self._pending: dict[int, str] = {}  # signature at the latest listing
        self._seen: dict[int, str] = {}  # names of the folders that were ever there, one a step
        self._failed: dict[int, str] = {}  # names
        self._read: dict[int, float] = {}  # times of the latest reading
        self._has_listed = False
        self._told: set[str] = set()
        self._active = time.monotonic()

    @property
    def failed(self) -> list[str]:
        """Names of the checkpoints without a score, by rising step.

        They could not be scored, or were deleted before.
        """
        return [name for _, name in sorted(self._failed.items())]

    @property
    def unscored(self) -> list[int]:
        """Steps of the checkpoints that have no look, rising."""
        return sorted(self._seen.keys() - self._looks().keys())

    @property
    def last_step(self) -> int:
        """Step of the last checkpoint ever seen; 0 without one."""
        return max(self._seen, default=0)

    @property
    def is_over(self) -> bool:
        """Is the last checkpoint that of the training's last step?"""
        return self.latest is not None and self.latest.is_last

    @property
    def waiting(self) -> list[str]:
        """Names of the checkpoints not taken before the end.

        Or not complete; by rising step.
        """
        return [
            self._seen[step]
            for step in sorted(self._seen.keys() - self._done.keys() - self._looks().keys())
        ]

    def next(self, *, brief: bool = False) -> SavedCheckpoint | End | None:
        """Next checkpoint to score, or a reason to end.

        A WatchError if the folder has no checkpoints, and none is waited for, or it cannot be
        listed at all.

        Returns:
            None after a while, or, if `brief`, after one listing.
        """
        until = time.monotonic() + (0.0 if brief else _ROUND)
        while True:
            if self._stop.is_set():
                return "stopped"
            if (checkpoint := self._scan_safely()) is not None:
                self._looks_again = self._once  # what was being written meanwhile may be complete
                return checkpoint
            if (end := self._end(again=self._looks_again)) is not None:
                return end
            self._looks_again = False
            self._stop.wait(self._poll)
            if time.monotonic() >= until:
                return None

    def deal_with(self, checkpoint: SavedCheckpoint) -> None:
        """Take a checkpoint from the queue, unless its files change."""
        self._done[checkpoint.step] = checkpoint.signature
        self._failed.pop(checkpoint.step, None)  # it may have failed with other files

    def fail(self, checkpoint: SavedCheckpoint) -> None:
        """Take a checkpoint from the queue that could not be scored."""
        self.deal_with(checkpoint)
        self._failed[checkpoint.step] = checkpoint.name

    def restart_clock(self) -> None:
        """Restart the time without a new checkpoint."""
        self._active = time.monotonic()

    def log_once(self, line: str) -> None:
        """Log a line that is not logged twice."""
        if line not in self._told:
            self._told.add(line)
            log(line)

    def _scan_safely(self) -> SavedCheckpoint | None:
        # None where a folder that was listed before cannot be read for now.
        try:
            return self._scan()
        except Exception as error:  # of any kind, as file systems raise
            if self._once or not self._has_listed:
                raise WatchError(f"{self._store.given}: cannot be listed ({error})") from error
            self.log_once(f"{self._store.given} cannot be read now, and is read again: {error}")
            return None

    def _scan(self) -> SavedCheckpoint | None:
        # What is left out is logged once.
        looks, complete = self._looks(), None
        for step, name in self._list(looks).items():
            if (checkpoint := self._read_safely(step, name)) is None:
                continue
            self._read[step] = time.monotonic()
            before, self._pending[step] = self._pending.get(step), checkpoint.signature
            if before != checkpoint.signature:
                self.restart_clock()  # it is being written
            if self.latest is None or step >= self.latest.step:
                self.latest = checkpoint
            if step in looks:
                if looks[step] not in ("", checkpoint.signature):
                    self.log_once(
                        f"{name} was saved again after it was scored; its look stays (--run "
                        "scores anew)"
                    )
                self.deal_with(checkpoint)
            if (
                complete is None
                and self._done.get(step) != checkpoint.signature
                and step not in looks
            ):
                complete = self._judged(checkpoint, is_unchanged=before == checkpoint.signature)
        return complete

    def _read_safely(self, step: int, name: str) -> SavedCheckpoint | None:
        # None if the checkpoint is gone, cannot be read, or is remote and was read just now.
        is_done = step in self._done and self._store.path is None
        if is_done and time.monotonic() - self._read.get(step, 0.0) < _REVISIT:
            return None
        try:
            return self._store.read(step, name)
        except Exception as error:  # of any kind, as file systems raise
            self.log_once(f"{name} cannot be read now, and is read again: {error}")
            return None

    def _judged(self, checkpoint: SavedCheckpoint, *, is_unchanged: bool) -> SavedCheckpoint | None:
        # What is missing is logged once.
        if checkpoint.problem:
            if is_unchanged:  # nothing was added since the listing before
                self.log_once(f"{checkpoint.name} is not complete yet: {checkpoint.problem}")
            return None
        if not (checkpoint.settled or is_unchanged):
            return None
        if not checkpoint.in_parts:
            return checkpoint
        self.log_once(
            f"{checkpoint.name} has its weights in parts, as the processes had them; merge them "
            "into one model"
        )
        self.fail(checkpoint)
        return None

    def _list(self, looks: Mapping[int, str]) -> dict[int, str]:
        # Checkpoints deleted before they were scored are logged.
        names = self._store.names()
        self._has_listed = True
        if names.keys() - self._seen.keys():
            self._active = time.monotonic()
        for step in sorted(self._seen.keys() - names.keys() - self._done.keys() - looks.keys()):
            log(f"{self._seen[step]} was deleted before it could be scored")
            self._failed[step] = self._seen[step]
            self._done[step] = ""
        self._seen |= names
        if not names and not self._once:
            hint = ", nor that folder" if self._is_new else ""
            self.log_once(f"no checkpoint yet{hint}; waiting for {NAMES}{self._hint()}")
        return names

    def _hint(self) -> str:
        # The folder may look like a checkpoint.
        if self._store.is_checkpoint():
            return "; it is itself a checkpoint, give the folder above"
        folders = self._store.others()
        return (
            f"; there are {', '.join(folders)}; --name 'step_{{N}}' gives the form of their names"
            if folders
            else ""
        )

    def _end(self, *, again: bool) -> End | None:
        # None to wait on, also for a folder that is to be seen once `again`.
        if self._once:
            if again and (self._seen.keys() - self._done.keys()):
                return None
            if not self._seen:
                needed = f"checkpoints ({self._store.name or NAMES})"
                raise WatchError(f"{self._store.given}: needed {needed}, found none{self._hint()}")
            return "once"
        last_seen = self.latest
        is_done = last_seen is not None and self._done.get(last_seen.step) == last_seen.signature
        if (
            last_seen is not None
            and last_seen.is_last
            and is_done
            and last_seen.step == max(self._seen)
        ):
            return "last checkpoint"
        if self._idle is not None and time.monotonic() - self._active > self._idle:
            return "idle"
        return None


_PATIENCE: Final = 5.0
"""Seconds that a follower waits for another one of the same run folder, which may be ending."""

_CHECKSUM: Final = "base_checksum"
"""Name under which the baseline's metadata has the checksum of the snapshot that it is."""


@dataclass(frozen=True, kw_only=True)
class FollowSettings:
    """Settings of a follower.

    Attributes:
        base: What checkpoints are compared with: a model id, a checkpoint folder, or a snapshot
            file.
        name: Form of the names of the checkpoints' folders, such as ``step_{N}``; empty for the
            usual ones.
        poll: Seconds between two looks at the folder.
        idle: Seconds without a new checkpoint after which it ends; None for no limit.
        once: True to score the checkpoints that are there, and end.
        guard: Bounds on losses, of which ``stop`` ends the follower; None for none.
        report_to: Names of trackers.
        group: Group of the tracker's run; None for none.
        resume_run: Id of a tracker's run, such as the training's own, that gets the numbers; None
            for a new run.
        full: True to send every number of every group, and to measure the drift from the base.
        loading: How models are loaded.
    """

    base: str
    name: str = ""
    poll: float = 5.0
    idle: float | None = None
    once: bool = False
    guard: Guard | None = None
    report_to: tuple[str, ...] = ()
    group: str | None = None
    resume_run: str | None = None
    full: bool = False
    loading: Loading = Loading()


class _Base:
    """The base: a snapshot, which is read at once, or a model, whose configuration and tokenizer are tried."""

    def __init__(self, base_given: str, *, loading: Loading) -> None:
        path = Path(base_given)
        self.given = base_given
        self.snapshot: Snapshot | None = None
        if path.is_file():
            snapshot = read_snapshot(path)
            metadata = {
                "base": base_given,
                _CHECKSUM: snapshot.checksum,
            }  # by which `check` knows it again
            self.snapshot = replace(snapshot, meta={**snapshot.meta, **metadata})
        elif not (path / ADAPTER).is_file():
            load_outline(base_given, loading=loading)
        elif lost := lost_base(path):
            raise WatchError(f"--base {path} {lost}")

    def check(self, baseline: Snapshot, run: Path) -> None:
        """Refuse a run folder whose looks have another base."""
        base_made = str(baseline.meta.get("base"))
        is_same = base_made == self.given or Path(base_made).resolve() == Path(self.given).resolve()
        if (
            is_same
            and self.snapshot is not None
            and baseline.meta.get(_CHECKSUM) != self.snapshot.checksum
        ):
            base_made, is_same = "other rows", False
        if not is_same:
            raise WatchError(
                f"{run}: its looks are compared with {base_made}, and --base is {self.given}; give "
                "--run another folder"
            )

    def tokenizer_for(self, checkpoint: Path) -> str | None:
        """Folder or id of the tokenizer for a checkpoint without one.

        Returns:
            The base's, or None if the checkpoint has a tokenizer.
        """
        # An adapter has that of its own base, and a snapshot has none to lend.
        if (
            (checkpoint / ADAPTER).is_file()
            or has_tokenizer(str(checkpoint))
            or self.snapshot is not None
        ):
            return None
        is_bare_adapter = (Path(self.given) / ADAPTER).is_file() and not has_tokenizer(self.given)
        return base_of_adapter(Path(self.given)) if is_bare_adapter else self.given


class _FollowError(WatchError):
    """An error that every further checkpoint would meet too."""


class Follower:
    """Follows one training.

    Attributes:
        watch: Measures, compares, stores.
        queue: The checkpoints that are to be scored; it names those that were not.
        scored: Steps that this process has scored.

    Args:
        output_dir: Folder of the checkpoints, a path or a URL.
        probe: The items.
        settings: The settings.
        run: The run folder; None for ``_forgetwatch_follow`` in `output_dir`.
        on_look: Called in the main process with one line for each checkpoint that was scored.

    Raises:
        ForgetwatchError: If something that is named cannot be used.
    """

    def __init__(
        self,
        output_dir: str,
        probe: Probe,
        settings: FollowSettings,
        *,
        run: Path | None = None,
        on_look: Callable[[str], object] = log,
    ) -> None:
        self._store = CheckpointStore(output_dir, settings.name)
        if run is None:
            if self._store.path is None:
                raise WatchError(
                    f"{output_dir}: needed a folder of this machine for the looks; name it with "
                    "--run"
                )
            # As it was given, since the path is shown.
            run = (self._store.path if "://" in output_dir else Path(output_dir)) / FOLLOW_FOLDER
        self.watch = Watch(probe, run.parent, folder=run.name, drift=settings.full)
        self.scored: list[int] = []
        self._settings = settings
        self._on_look = on_look
        self._base = _Base(settings.base, loading=settings.loading)
        self._runs = FollowerLogger(
            settings.report_to,
            title=f"follow {output_dir.rstrip('/').rsplit('/', 1)[-1]}",
            group=settings.group,
            resume_run=settings.resume_run,
            config={
                "base": settings.base,
                **{
                    "probe": probe.name,
                    "fingerprint": probe.fingerprint,
                    "items": len(probe),
                    "version": VERSION,
                },
            },
            full=settings.full,
        )
        self._has_tripped = False
        self._page = run_output.ReportPage()
        self._failures = Failures(strict=False, work="following", is_main_process=rank() == 0)
        self._stop = threading.Event()
        self.queue = CheckpointQueue(
            self._store,
            looks=lambda: {
                step: str(files_scored.get("signature") or "")
                for step, files_scored in self._weights().items()
            },
            stop=self._stop,
            poll=settings.poll,
            idle=settings.idle,
            once=settings.once,
        )
        self._failures_so_far = 0

    def follow(self) -> End:
        """Score checkpoints until the training or the follower ends.

        Returns:
            The reason of the end.

        Raises:
            ForgetwatchError: If no checkpoint can be compared with the base, or another one follows
                into it.
        """
        with set_by_signals(self._stop):
            on_main_process(self._claim)
            try:
                self._resume()
                end = self._until_end()
                self._note_end(end)
                return end
            finally:
                self._finish()

    @property
    def unstored(self) -> list[str]:
        """Names of the looks that could not be stored."""
        baseline = self.watch.run.baseline
        start = None if baseline is None else baseline.meta["step"]
        return ["the base" if step == start else f"step {step}" for step in self.watch.run.pending]

    def _until_end(self) -> End:
        while True:
            if self.watch.run.pending:
                with suppress(ForgetwatchError):
                    self.watch.run.store()
            next_item = on_main_process(lambda: self.queue.next(brief=bool(self.watch.run.pending)))
            if isinstance(next_item, str):
                return next_item
            if next_item is None:
                continue
            self._take(next_item)
            guard = self._settings.guard
            if (
                guard is not None
                and guard.action == "stop"
                and on_main_process(lambda: self._has_tripped)
            ):
                return "guard"

    def _note_end(self, end: End) -> None:
        # Checkpoints after the last look that were not scored are noted too.
        run, queue = self.watch.run, self.queue
        if run.baseline is None:
            return
        last_step, seen, is_over = on_main_process(
            lambda: (queue.unscored, queue.last_step, queue.is_over)
        )
        if end == "guard":
            step = max(run.comparisons)
            run.note_end(last_step=step, delivered=step, is_stopped=True)
            return
        for step in last_step:
            if step > max(run.comparisons) and step not in dict(run.ending.failed):
                run.note_failed(step, "not scored")
        if is_over:
            run.note_end(last_step=seen, delivered=seen, is_stopped=False)

    def _claim(self) -> None:
        # The folder must be writable before anything is scored.
        folder = self.watch.run.folder
        run = folder.path
        there = next(path for path in (run.absolute(), *run.absolute().parents) if path.exists())
        if not (there.is_dir() and os.access(there, os.W_OK)):
            why = f"{there} {'cannot be written to' if there.is_dir() else 'is a file'}"
            raise WatchError(
                f"{run}: the looks cannot be stored there, since {why}; name another folder "
                "with --run"
            )
        try:
            folder.claim(patience=_PATIENCE, on_wait=log)
        except WatchError as error:
            raise WatchError(
                f"{run}: another process follows into this folder; stop it, or name another "
                "folder with --run"
            ) from error

    def _resume(self) -> None:
        # An earlier follower has left the looks; what is done next is logged.
        run = self.watch.run
        path = run.folder.path
        if (why := on_main_process(self._replaced)) is not None:
            self._log(f"the looks in {path} {why}; they are kept aside, and following begins anew")
        elif on_main_process(lambda: run.folder.is_started):
            try:
                self.watch.resume()
            except LostBaselineError as error:
                self._log(f"the baseline in {path} is lost ({error}); following begins anew")
        if run.baseline is not None:
            self._base.check(run.baseline, path)
            for note in run.notes:
                self._log(note)
            self._log(f"{path} has {len(run.comparisons) - 1} checkpoints of this run; they stay")
        self._log(f"following {self._store.given} with {run.probe.name}, {len(run.probe):,} items")

    def _replaced(self) -> str | None:
        # The stored looks are not those of this base and this training.
        folder, loading = self.watch.run.folder, self._settings.loading
        with suppress(SnapshotError, ScoringError):
            base = read_snapshot(folder.path / BASELINE).meta.get("base_weights")
            if isinstance(base, dict) and is_replaced(base, loading=loading):
                return f"are compared with {base['model']}, which has other weights now"
        stored = {}
        for step, path in folder.looks().items():
            with suppress(SnapshotError):
                stored[step] = read_snapshot(path).meta.get("weights") or {}
        for facts in list(stored.values())[-1:]:
            if (base := facts.get("base")) and is_replaced(base, loading=loading):
                return f"are of adapters of {base['model']}, which has other weights now"
        changed = []
        for saved in self._there():
            look = stored.get(saved.step)
            if look is None and saved.replaces(stored, by_step=True):
                return f"are of another training than {saved.name}"
            if look is not None and "digest" in look:
                # All files of the last one are read: a copy may have kept size and time.
                is_same = saved.step != max(stored) and saved.signature == look.get("signature")
                changed.append(not is_same and self._is_changed(saved, look["digest"]))
        return (
            "are of another training, whose checkpoints were here"
            if changed and all(changed)
            else None
        )

    def _there(self) -> list[SavedCheckpoint]:
        # Whole now.
        names = {} if self._store.path is None else self._store.names()
        there = []
        for step, name in names.items():
            with suppress(OSError):
                there.append(self._store.read(step, name))
        return [checkpoint for checkpoint in there if checkpoint is not None]

    def _are_replaced(self) -> bool:
        # All of several checkpoints that were scored and are there have other files now.
        weights = self._weights()
        there = [
            (checkpoint, weights[checkpoint.step])
            for checkpoint in self._there()
            if weights.get(checkpoint.step, {}).get("signature")
        ]
        are_new = len(there) > 1 and all(
            checkpoint.signature != stored["signature"] for checkpoint, stored in there
        )
        return are_new and all(
            self._is_changed(checkpoint, str(stored.get("digest"))) for checkpoint, stored in there
        )

    def _is_stale(self, checkpoint: SavedCheckpoint) -> bool:
        # A later training has saved its checkpoints beside this one.
        facts = {checkpoint.step: checkpoint.facts}
        return any(one.step != checkpoint.step and one.replaces(facts) for one in self._there())

    def _is_other(self, checkpoint: SavedCheckpoint) -> bool:
        # The base is a folder; the checkpoint has other files of weights.
        if not Path(self._base.given).is_dir():
            return False
        with self._store.held(checkpoint) as path:
            return weight_digests(path) != weight_digests(Path(self._base.given))

    def _is_changed(self, saved: SavedCheckpoint, digest: str) -> bool:
        # False if the files cannot be read.
        with self._store.held(saved) as path, suppress(ScoringError):
            return str(weights_of(path, loading=self._settings.loading)["digest"]) != digest
        return False

    def _weights(self) -> dict[int, Mapping[str, Any]]:
        # Keys are steps; empty where a look has no such metadata.
        return {
            step: look.after.get("weights") or {} for step, look in self.watch.comparisons.items()
        }

    def _take(self, checkpoint: SavedCheckpoint) -> None:
        # A checkpoint that cannot be scored is logged, and the next is taken.
        try:
            self._score(checkpoint)
        except (_FollowError, MismatchError):
            raise
        except (ForgetwatchError, OSError) as error:
            self._failures_so_far += 1
            failed_together(error, number=self._failures_so_far)
            # What was copied is there whatever happens to the checkpoint.
            gone = not isinstance(error, CheckpointGoneError) and on_main_process(
                lambda: self._store.path is not None and self._store.is_gone(checkpoint)
            )
            why = f"{checkpoint.name} was deleted while it was read" if gone else str(error)
            self._log(
                why
                if why.startswith(checkpoint.name)
                else f"{checkpoint.name} could not be scored: {why}"
            )
            self.queue.fail(checkpoint)
            with self._failures.tolerate("noting a checkpoint that failed", step=checkpoint.step):
                self.watch.run.note_failed(checkpoint.step, cause_of(error))
        self.queue.restart_clock()

    def _score(self, checkpoint: SavedCheckpoint) -> None:
        run, step = self.watch.run, checkpoint.step
        with ExitStack() as stack:
            path = on_main_process(lambda: stack.enter_context(self._store.held(checkpoint)))
            if lost := lost_base(path):
                raise _FollowError(f"{checkpoint.name} {lost}")
            loading = self._settings.loading
            weights: dict[str, Any] = on_main_process(lambda: weights_of(path, loading=loading))
            weights |= checkpoint.facts
            self._check_base(checkpoint, weights.get("base") or {})
            if on_main_process(lambda: self._is_stale(checkpoint)):
                self._log(f"{checkpoint.name} is of an earlier training, and is left out")
                self.queue.deal_with(checkpoint)
                return
            by_step = checkpoint.name not in self.queue.failed  # a mended one is newer
            if on_main_process(
                lambda: (
                    self._are_replaced() or checkpoint.replaces(self._weights(), by_step=by_step)
                )
            ):
                raise _FollowError(
                    f"the checkpoints that are scored in {run.folder.path} and "
                    f"{checkpoint.name} are of two trainings; "
                    "start again: the looks are moved aside, and the follower begins anew"
                )
            self._score_base(checkpoint)
            if step in run.comparisons:  # that of the base, at step 0
                return
            self._log(f"{checkpoint.name} is complete; it is loaded and scored")
            started = time.perf_counter()
            origin = {
                "model": f"{self._store.given.rstrip('/')}/{checkpoint.name}",
                "weights": weights,
            }
            look = self._look(str(path), step=step, origin=origin, checkpoint=checkpoint)
            took = time.perf_counter() - started
        self.scored.append(step)
        self.queue.deal_with(checkpoint)
        line = run_output.look_line(
            look.comparison.all, step=step, max_steps=checkpoint.max_steps, took=took
        )
        for task, sink in (
            ("printing the look", lambda _: self._on_look(line) if rank() == 0 else None),
            ("sending the row", self._runs.take),
            ("the guard", self._judge),
            ("writing the report", self._page.take),
        ):
            with self._failures.tolerate(task, step=step):
                sink(look)

    def _look(
        self,
        checkpoint_folder: str,
        *,
        step: int,
        origin: Mapping[str, Any],
        checkpoint: SavedCheckpoint | None = None,
    ) -> Look:
        settings, tokenizer_of = self._settings, None
        if checkpoint is not None:
            tokenizer_of = on_main_process(
                lambda: self._base.tokenizer_for(Path(checkpoint_folder))
            )
        if tokenizer_of is not None and rank() == 0:
            self.queue.log_once(
                "the checkpoints are saved without a tokenizer; that of the base is used"
            )
        load = partial(load_model, loading=settings.loading)
        model, tokenizer = on_all_processes(
            lambda: load(checkpoint_folder, tokenizer_of=tokenizer_of)
        )
        try:
            if checkpoint is not None:
                on_main_process(lambda: self._store.check_unchanged(checkpoint))
            self.watch.restart_for(model, tokenizer)
            return self.watch.take(model, tokenizer, step=step, origin=origin)
        except MismatchError as error:
            name, base = (
                checkpoint_folder if checkpoint is None else checkpoint.name,
                f"the base {settings.base}",
            )
            raise _FollowError(
                f"{name} cannot be compared with {base}, which has another tokenizer or "
                f"template: {error}"
            ) from error
        finally:
            del model
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # for the training, which may run on the same GPU

    def _score_base(self, checkpoint: SavedCheckpoint) -> None:
        # In the batches of the watched run that saved this checkpoint, if one did.
        watch, run = self.watch, self.watch.run
        if run.baseline is not None:
            return
        if self._base.snapshot is not None:
            run.adopt(self._base.snapshot)
            return
        watch.use_batches(
            on_main_process(lambda: watched_budget(self._store, checkpoint, run.probe))
        )
        try:
            base_name, loading = self._base.given, self._settings.loading
            origin: dict[str, Any] = {"base": base_name}
            if Path(base_name).is_dir():
                origin["base_weights"] = on_main_process(
                    lambda: identity_of(base_name, loading=loading)
                )
            if checkpoint.step == 0 and on_main_process(lambda: self._is_other(checkpoint)):
                # The base is no look of this training: the first checkpoint has that step.
                scored = score_checkpoint(base_name, run.probe, loading=loading)
                run.adopt(replace(scored, meta={**scored.meta, **origin}))
                return
            look = self._look(base_name, step=0, origin=origin)
        except (ForgetwatchError, OSError) as error:
            raise _FollowError(f"the base cannot be scored: {error}") from error
        with self._failures.tolerate("sending the row of the base", step=0):
            self._runs.take(look)

    def _check_base(self, checkpoint: SavedCheckpoint, base: Mapping[str, str]) -> None:
        # Adapters of one run need the same weights of the base.
        earlier = [look.get("base") or {} for look in self._weights().values()]
        if any(
            metadata.get("model") == base.get("model")
            and metadata.get("digest") != base.get("digest")
            for metadata in earlier
        ):
            raise _FollowError(
                f"{checkpoint.name} is an adapter of {base['model']}, which has other weights "
                "now than under the looks "
                f"in {self.watch.run.folder.path}; start again: they are moved aside, and the "
                "follower begins anew"
            )

    def _judge(self, look: Look) -> None:
        # All processes store the findings together.
        guard, run = self._settings.guard, look.run
        if guard is None:
            return
        new = run.note(guard.findings(run.stage_trajectory(), run.lost_must_pass(look.step)))
        self._has_tripped |= bool(new)
        for line in (lines := finding_lines(new)):
            self._log(line)
        if new and rank() == 0:
            self._runs.alert("\n".join(lines), step=look.step)

    def _finish(self) -> None:
        # Whatever has happened.
        run = self.watch.run
        if rank() == 0 and run.comparisons:
            step = max(run.comparisons)
            with self._failures.tolerate("closing the trackers", step=step):
                self._runs.send(run)
                self._runs.finish(run)
            with self._failures.tolerate("writing the report", step=step):
                self._page.write(run, at_once=True)
            self._failures.log_counts()
        if rank() == 0:  # the others are not waited for: one of them may have failed alone
            run.folder.release()

    def show(self) -> None:
        """Print the table of the last look, if any.

        In the main process.
        """
        if rank() == 0 and len(self.watch.comparisons) > 1:
            of = self.queue.latest.max_steps if self.queue.latest else None
            run_output.show(self.watch.run, page=self._page, max_steps=of)

    def _log(self, line: str) -> None:
        if rank() == 0:
            log(line)
