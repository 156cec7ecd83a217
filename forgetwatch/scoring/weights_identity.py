"""What identifies the weights of a model: a fingerprint in memory, digests of the files on disk.

Two sums over the words of each tensor, each word times an odd number that depends on its place: a
tensor that differs in any bit, or of which two words changed places, has other sums. They are
computed where the tensor is, in the time that reading it takes. Parts that processes hold are each
read by the process that holds it.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
)

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring.adapters import adapter_tensors, changes_its_base
from forgetwatch.scoring.model import (
    base_model,
    is_sharded,
    unwrapped,
)
from forgetwatch.scoring.model_loading import ADAPTER, base_of_adapter, check_path, no_model
from forgetwatch.scoring.processes import all_gather

DECIDING: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken", ".py")
"""Suffixes of files with weights, configuration, tokenizer, templates or code: their contents determine the rows."""


_IRRELEVANT: Final = re.compile(r"(trainer_state|training_args|optimizer|scheduler|rng_state).*")
"""Files of a training run with such a suffix that change no row."""


_OTHER_FOLDERS: Final = re.compile(
    r"\..*|checkpoint-\d+|_?forgetwatch(_follow)?(\.held)?(-\d+)?|__pycache__"
)
"""Folders beside a model that are no part of it: other checkpoints of its run, records, caches."""


def weights_identity(
    given: str, *, loading: Loading = Loading(), adapters: tuple[Path, ...] = ()
) -> list[str]:
    """Identity of a model's weights and tokenizer.

    Hashes of the files, or the hub's commit.

    `adapters` are folders of those that have this model as their base.

    Raises:
        ScoringError: If there is no such model, a file cannot be read, or adapters are each other's
            base.
    """
    path = Path(given)
    if not path.is_dir():
        check_path(given)
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        except (OSError, ValueError) as error:
            raise no_model(given, error) from error
        return [given, str(getattr(config, "_commit_hash", None))]
    digests = file_digests(path)
    if (path / ADAPTER).is_file():
        if path.resolve() in adapters:
            raise ScoringError(
                f"{path / ADAPTER}: this adapter is the base of its own base; needed a model as "
                "base"
            )
        base = base_of_adapter(path)
        digests += weights_identity(base, loading=loading, adapters=(*adapters, path.resolve()))
    return digests


def is_deciding(relative: str) -> bool:
    """Can a file of a model decide the rows?

    By the path in the model's folder, with ``/``.
    """
    *folders, name = relative.split("/")
    return (
        Path(name).suffix in DECIDING
        and not _IRRELEVANT.fullmatch(name)
        and not any(_OTHER_FOLDERS.fullmatch(folder) for folder in folders)
    )


def file_digests(folder: Path) -> list[str]:
    """Relative path and SHA-256 of each deciding file, sorted.

    Those are the files below the folder with weights, configuration, tokenizer, templates or code,
    and those that an index of shards names, wherever they are. One that cannot be read is an error.
    """
    digests = []
    for file in sorted({*deciding_files(folder), *_indexed(folder)}):
        try:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise ScoringError(f"{file}: cannot be read ({error.strerror})") from error
        digests.append(f"{Path(os.path.relpath(file, folder)).as_posix()} {digest}")
    return digests


def deciding_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder whose suffix can decide.

    Links to folders are followed.
    """
    seen: set[str] = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to a folder above.
        if (real := os.path.realpath(path)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not _OTHER_FOLDERS.fullmatch(name)]
        for name in names:
            file = Path(path, name)
            if is_deciding(name) and file.is_file():
                yield file


def _indexed(folder: Path) -> Iterator[Path]:
    for index in folder.glob("*.index.json"):
        try:
            shards = json.loads(index.read_bytes())["weight_map"].values()
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue  # the loader refuses it
        for name in set(map(str, shards)):
            with suppress(OSError, ValueError):  # a name too long, or with a null byte
                if (file := folder / name).is_file():
                    yield file


_CHUNK: Final = 2**20
"""Words of 8 bytes that are read at a time."""


_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


_WRITTEN: Final = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""Settings that loading or saving a model sets, and that change no outcome; each weight has its dtype."""


_OF_FILES: Final = (
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "peft_version",
)
"""Settings of an adapter on its files; a set of modules has another order in each process."""


_WRAP: Final = 2**64


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256 over weights, buffers and configuration.

    64 hex digits.

    An adapter that changes nothing, or is switched off, does not count: the model is its base.

    Raises:
        ScoringError: If weights are on no device of this process, so that they cannot be read.
    """
    model = unwrapped(model)
    is_changed = changes_its_base(model)
    adapter_ids = set[int]() if is_changed else adapter_tensors(model)
    digest = partial(_digest, model if is_changed else base_model(model), without=adapter_ids)
    parts = all_gather(digest) if is_sharded(model) else [digest()]
    # What an adapter does beside its weights is in no setting of the model.
    adapters = _adapters(model) if is_changed else []
    config = getattr(model, "config", None)
    settings: dict[str, Any] = {} if config is None else config.to_dict()
    deciding = {name: value for name, value in settings.items() if name not in _WRITTEN}
    whole = [
        parts,
        adapters,
        str(sorted(deciding.items(), key=str)),
        str(getattr(config, "_attn_implementation", "")),
    ]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _adapters(model: nn.Module) -> list[str]:
    # Adapters that change nothing do not count.
    settings = []
    for name, config in sorted(getattr(model, "peft_config", {}).items()):
        values = config.to_dict() if hasattr(config, "to_dict") else {"config": str(config)}
        kept = {
            key: sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
            for key, value in sorted(values.items())
            if key not in _OF_FILES
        }
        settings.append(json.dumps([name, kept]))
    return [*settings, str(getattr(model, "active_adapters", ""))]


@torch.no_grad()
def _digest(model: nn.Module, *, without: Collection[int]) -> str:
    # This process may hold only parts of the weights.
    digest = hashlib.sha256()
    tensors = dict(_tensors(model, without))
    if any(tensor.is_meta for tensor in tensors.values()):
        raise ScoringError(
            "some weights are on no device of this process; needed all of them for a fingerprint"
        )
    for name, tensor in tensors.items():
        plain = name.replace(".base_layer.", ".").replace(".original_module.", ".")
        digest.update(f"{plain} {tuple(tensor.shape)} {tensor.dtype} {_sums(tensor)}\n".encode())
    return digest.hexdigest()


def _tensors(model: nn.Module, without: Collection[int]) -> Iterator[tuple[str, Tensor]]:
    # A quantised weight keeps further tensors beside itself.
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if id(weight) in without:
            continue
        local = getattr(weight, "ds_tensor", weight)  # ZeRO-3
        yield name, local.to_local() if hasattr(local, "to_local") else local  # FSDP 2
        state = getattr(weight, "quant_state", None)
        while state is not None:
            yield from (
                (f"{name}.{state_name}", value)
                for state_name, value in vars(state).items()
                if isinstance(value, Tensor)
            )
            name, state = (
                f"{name}.state2",
                getattr(state, "state2", None),
            )  # its scales may be quantised too


def _sums(tensor: Tensor) -> tuple[int, ...]:
    data = tensor.detach().contiguous().reshape(-1)
    words = data.view(torch.uint8) if data.numel() else data.to(torch.uint8)
    if rest := -words.numel() % 8:
        words = torch.cat([words, words.new_zeros(rest)])
    if words.storage_offset() % 8:  # a slice of a flat buffer
        words = words.clone()
    as_integers = words.view(torch.int64)
    odd = 2 * torch.arange(min(_CHUNK, len(as_integers)), device=as_integers.device) + 1
    sums = [0] * len(_FACTORS)
    for start in range(0, len(as_integers), _CHUNK):
        chunk = as_integers[start : start + _CHUNK]
        mixed = chunk * odd[: len(chunk)]
        # The two sums see the low and the high bits of a product, and a chunk's place.
        for at, value in enumerate((mixed.sum(), (mixed ^ (mixed >> 29)).sum())):
            sums[at] = ((sums[at] + int(value)) * _FACTORS[at] + 1) % _WRAP
    return tuple(sums)
