"""Checkpoints of a training as another process sees them: complete or not, and held while they are read.

    checkpoint-200             transformers, and with it TRL, axolotl, LLaMA-Factory and unsloth
    global_step_200            verl: its model is in actor/huggingface
    global_step200_hf          OpenRLHF
    step_200, step-200         others

A checkpoint is complete if all files of its model are there, safetensors as long as their headers say, and
``trainer_state.json``, which transformers writes after them, is there and no older. Where that file is missing, or
older because a checkpoint is saved again, the same files must have been seen before, unchanged.

Of several folders of one step, links to folders among them, one is taken by `RULE`.

A training that rotates its checkpoints deletes them at any time. So the files that determine a model's outcomes are
hard-linked before they are read: a link keeps the contents, costs no space, and is removed after reading. Files of
another file system are read in place, those of a remote one are copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
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

NAMES: Final = "checkpoint-N, global_step_N or step_N"
"""Names of the folders that are recognised, for messages."""
RULE: Final = (
    "first comes the one that is scored already, then checkpoint-N, a name that ends in _hf, the first by name"
)
"""Rule by which one of several folders of a step is taken, for messages."""

_FOLDER: Final = re.compile(r"(?:checkpoint|global_step|step)[-_]?([0-9]{1,18})(?:_hf)?")
_MODEL_FOLDERS: Final = ("", "actor/huggingface/", "huggingface/")
"""Places of a checkpoint's model: the folder itself, or those in which verl saves it."""

_WEIGHTS: Final = re.compile(r".+\.safetensors|(pytorch_model|adapter_model).*\.bin")
_STATE: Final = "trainer_state.json"
_CHANGED: Final = ("mtime", "LastModified", "last_modified", "updated", "created")
"""Keys under which the file systems of fsspec give the time of the last change."""

_LONGEST_HEADER: Final = 10**8
"""Bytes of the longest header of a safetensors file, a limit of that format."""

_VERL: Final = "python -m verl.model_merger merge"
_MERGES: Final = (
    # (a file of the checkpoint, the command that makes a model of it, its condition)
    (re.compile(r"(.*pytorch_model_fsdp_\d+)/.+"), "accelerate merge-weights {root}/{0} {root}", ""),
    (
        re.compile(r"(actor/)?model_world_size_\d+_rank_\d+\.pt"),
        _VERL + " --backend fsdp --local_dir {root}/{0} --target_dir {root}/{0}huggingface",
        "",
    ),
    (
        re.compile(r"(actor/)dist_ckpt/.+\.distcp"),
        _VERL + " --backend megatron --local_dir {root}/{0} --target_dir {root}/{0}huggingface",
        "",
    ),
    (re.compile(r"(zero_to_fp32\.py)"), "python {root}/zero_to_fp32.py {root} {root} --safe_serialization", ""),
    (
        re.compile(r"((?:(?!optim)[^/]+/)*)[^/]+\.distcp"),
        "python -m torch.distributed.checkpoint.format_utils dcp_to_torch {root}/{0} {root}/pytorch_model.bin",
        "if nothing but the model is in them, under the names of transformers; else the trainer's own converter does",
    ),
)
"""Formats of checkpoints whose weights are in parts of the processes of a training."""

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
        merge: Command that makes a model of parts; empty if the weights are there.
        merge_if: Condition under which it does; empty if always.
        has_config: True if ``config.json`` is among the files.
        settled: True if ``trainer_state.json`` shows that the files are final.
        max_steps: Steps of the whole training; None if unknown.
        save_steps: Steps between two saves as the training's state names them; None if unknown.
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
    merge: str = ""
    merge_if: str = ""
    has_config: bool = False
    settled: bool = False
    max_steps: int | None = None
    save_steps: int | None = None
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
        if self.path is not None and self.path.is_file():
            raise WatchError(f"{self.given}: needed the folder of a training, got a file")

    @property
    def path(self) -> Path | None:
        """The folder; None if it is not on this machine."""
        return Path(self._root) if isinstance(self._fs, LocalFileSystem) else None

    def names(self) -> dict[int, tuple[str, ...]]:
        """Names of the checkpoint folders of each step, by rising step; empty if there is none.

        The first one of a step is taken unless another one is scored already (`RULE`).

        Raises:
            OSError: If a folder that is there cannot be read.
        """
        self._fs.invalidate_cache()
        try:
            listed = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            return {}
        found: dict[int, list[str]] = {}
        for one in listed:
            name = one["name"].rstrip("/").rsplit("/", 1)[-1]
            if (match := _FOLDER.fullmatch(name)) and self._is_folder(one):
                found.setdefault(int(match[1]), []).append(name)
        return {step: tuple(sorted(names, key=partial(_rank, step))) for step, names in sorted(found.items())}

    def _is_folder(self, listed: Mapping[str, Any]) -> bool:
        # Links are "other" in a local listing and "link" in one of SFTP; files and folders need no further request.
        kind = listed["type"]
        return kind == "directory" or (kind in ("other", "link") and bool(self._fs.isdir(listed["name"])))

    def is_checkpoint(self) -> bool:
        """True if the folder is itself a checkpoint: the training's folder is the one above."""
        return any(self._fs.exists(f"{self._root}/{name}") for name in ("config.json", ADAPTER))

    def read(self, step: int, name: str) -> SavedCheckpoint | None:
        """The checkpoint of a step as it is now; None if it is gone."""
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
        merge, merge_if = ("", "") if _weights(facts, model) else _merge_command(root, facts)
        weights = list(files.values())
        if merge:
            weights += [one for path, one in facts.items() if "/" in path or path.endswith((".pt", ".distcp"))]
        watched = _within(state, "stateful_callbacks", "forgetwatch", "attributes")
        every = state.get("save_steps")
        made = SavedCheckpoint(
            step=step,
            name=name,
            root=root,
            model=model,
            files=files or dict(facts),
            merge=merge,
            merge_if=merge_if,
            has_config=any(path.rsplit("/", 1)[-1] == "config.json" for path in facts),
            settled=bool(state) and _is_newest(facts[_STATE], weights),
            max_steps=state.get("max_steps"),
            save_steps=every if type(every) is int and every > 0 else None,
            is_last=_is_last(state),
            token_budget=_within(watched, "made", "batch").get("tokens"),
            fingerprint=watched.get("fingerprint"),
        )
        # The files are read again only when they have changed.
        if self._checked.get(root, ("", ""))[0] != made.signature:
            self._checked[root] = made.signature, "" if merge else self._problem(made)
        return replace(made, problem=self._checked[root][1])

    def _state(self, root: str, facts: FileFacts) -> dict[str, Any]:
        """``trainer_state.json`` without the log, which may be long; empty if it is not whole yet."""
        if (known := self._states.get(root)) is not None and known[0] == facts:
            return known[1]
        try:
            state = json.loads(self._fs.cat_file(f"{root}/{_STATE}"))
        except (ValueError, RecursionError):
            return {}
        if not isinstance(state, dict) or type(state.get("global_step")) is not int:
            return {}
        kept = {name: state.get(name) for name in ("global_step", "max_steps", "save_steps", "stateful_callbacks")}
        self._states[root] = facts, kept
        return kept

    def _problem(self, made: SavedCheckpoint) -> str:
        """Reason why the model of a checkpoint is not complete; empty if it is."""
        own = {path[len(made.model) :]: one for path, one in made.files.items() if path.startswith(made.model)}
        if not (weights := _weights(made.files, made.model)):
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
        for name in weights:
            if name.endswith(".safetensors") and (problem := self._shortfall(base + name, own[name].size)):
                return f"{name} {problem}"
        return ""

    def _shortfall(self, path: str, size: int) -> str:
        """Reason why a safetensors file is not whole: its header names more bytes than it has."""
        if size < 8:
            return f"has {size} bytes, fewer than the length of its header"
        (length,) = struct.unpack("<Q", self._fs.cat_file(path, start=0, end=8))
        if length > min(size - 8, _LONGEST_HEADER):
            return "ends before its header does"
        try:
            header = json.loads(self._fs.cat_file(path, start=8, end=8 + length))
            ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return "has a header that cannot be read"
        needed = 8 + length + max(ends, default=0)
        return f"has {size:,} of {needed:,} bytes" if size < needed else ""

    @contextmanager
    def held(self, checkpoint: SavedCheckpoint, folder: Path, on_in_place: Callable[[str], object]) -> Iterator[Path]:
        """Context in which the files of a complete checkpoint stay readable; yields the folder of its model.

        `folder` is for links, and removed afterwards; `on_in_place` is called with the reason if there can be none.

        Raises:
            CheckpointGoneError: If it was deleted, or written again, since it was seen.
            WatchError: If a remote file cannot be copied.
        """
        if self.path is None:
            with TemporaryDirectory(prefix="forgetwatch-") as copies:
                self._copy(checkpoint, Path(copies))
                self.check_unchanged(checkpoint)
                yield Path(copies) / checkpoint.model
            return
        target = folder / checkpoint.name
        try:
            try:
                _link(checkpoint, target)
            except OSError as error:  # another file system, or one without hard links
                if self.is_gone(checkpoint):
                    raise CheckpointGoneError(f"{checkpoint.name} was deleted before it could be read") from error
                on_in_place(error.strerror or str(error))
                yield Path(checkpoint.root) / checkpoint.model
                return
            self.check_unchanged(checkpoint)
            yield target / checkpoint.model
        finally:
            shutil.rmtree(target, ignore_errors=True)
            with suppress(OSError):  # unless another checkpoint is held in it
                folder.rmdir()

    def check_unchanged(self, checkpoint: SavedCheckpoint) -> None:
        """Raise `CheckpointGoneError` if a checkpoint was written again since it was seen: files of both times."""
        now = self._read_anew(checkpoint)  # of one that was deleted since, what was linked or copied is whole
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
        """True if a file of the checkpoint has been deleted since it was seen."""
        now = self._read_anew(checkpoint)
        return now is None or not checkpoint.files.keys() <= now.files.keys()


def _rank(step: int, name: str) -> tuple[bool, bool, str]:
    """Key by which the folders of a step are sorted, see `RULE`."""
    return name != f"checkpoint-{step}", not name.endswith("_hf"), name


def _facts(listed: Mapping[str, Any]) -> FileFacts:
    changed = next((listed[key] for key in _CHANGED if listed.get(key) is not None), None)
    changed = changed.timestamp() if isinstance(changed, datetime) else changed
    return FileFacts(int(listed["size"] or 0), changed)


def _weights(facts: Mapping[str, FileFacts], model: str) -> list[str]:
    """Files with weights directly in the folder of a model."""
    own = (path[len(model) :] for path in facts if path.startswith(model))
    return [name for name in own if "/" not in name and _WEIGHTS.fullmatch(name)]


def _merge_command(root: str, facts: Mapping[str, FileFacts]) -> tuple[str, str]:
    """The command that makes a model of the parts, and its condition; both empty if there are no parts."""
    for pattern, command, condition in _MERGES:
        for path in sorted(facts):
            if found := pattern.fullmatch(path):
                return command.format(found[1] or "", root=root), condition
    return "", ""


def _is_newest(state: FileFacts, others: list[FileFacts]) -> bool:
    """True if ``trainer_state.json`` was written after the other files, as transformers does."""
    times = [one.changed for one in others]
    if not isinstance(state.changed, (int, float)):
        return all(time is None for time in times)
    return all(isinstance(time, (int, float)) and time <= state.changed for time in times)


def _is_last(state: Mapping[str, Any]) -> bool:
    """True if a training took its last step here, or was stopped early."""
    stopped = _within(state, "stateful_callbacks", "TrainerControl", "args").get("should_training_stop")
    planned = state.get("max_steps")
    return bool(stopped) or (isinstance(planned, int) and 0 < planned <= state["global_step"])


def _within(values: Any, *names: str) -> dict[str, Any]:
    """The object under some names, one in the other; empty if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _link(checkpoint: SavedCheckpoint, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)  # of a process that was killed
    for path in checkpoint.files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        # The file itself: a link to a symbolic link would follow it to a file that may be gone.
        os.link(os.path.realpath(Path(checkpoint.root) / path), target / path)


def weights_of(path: Path, *, loading: Loading) -> dict[str, Any]:
    """Metadata on the files in a model's folder that determine its rows.

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


def is_resaved(weights: Mapping[str, Any], *, before: Mapping[str, Any]) -> bool:
    """True if weights, as `weights_of` names them, are others than those that the look of their step had before."""
    return bool(before) and before.get("digest") != weights["digest"]


def _base_identity(model: str, *, loading: Loading, adapters: tuple[Path, ...] = ()) -> Sequence[str]:
    """Identity of the weights of an adapter's base; see `checkpoints.weights_identity`."""
    if Path(model).is_dir() and not (Path(model) / ADAPTER).is_file():
        # Path, size and time of change of each file that can decide its rows.
        found = [(file, file.stat()) for file in sorted(deciding_files(Path(model)))]
        return _folder_identity(model, tuple((str(file), state.st_size, state.st_mtime_ns) for file, state in found))
    return weights_identity(model, loading=loading, adapters=adapters)


@lru_cache(maxsize=1)
def _folder_identity(model: str, states: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    """Identity of the weights in a folder, kept while the states of its files stay the same."""
    # What is put beside a model, such as the results of an evaluation or an adapter below it, is no part of it.
    return tuple(digest for digest in weights_identity(model) if _OF_MODEL.fullmatch(digest.rsplit(" ", 1)[0]))


def is_replaced(base: Mapping[str, str], *, loading: Loading) -> bool:
    """True if the base of an adapter, as `weights_of` names it, has other weights now; False if it cannot be read."""
    with suppress(ScoringError):  # that it is gone is an error where the next adapter needs it
        return _digest(_base_identity(base["model"], loading=loading)) != base["digest"]
    return False


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


def lost_base(path: Path) -> str:
    """Clause on the base of an adapter that is gone, with the remedy; empty if nothing is missing."""
    if not (missing := missing_base(path)):
        return ""
    return (
        f"is an adapter of {missing}, which is not there; put it back, or name the present place of that model in "
        "adapter_config.json (base_model_name_or_path)"
    )


def _digest(identity: Sequence[str]) -> str:
    """First 32 hex digits of a digest of what identifies weights."""
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:32]
