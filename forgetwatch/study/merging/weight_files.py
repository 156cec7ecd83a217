"""The stored weights of a checkpoint, by the headers of its safetensors files: nothing is loaded.

    model.safetensors                    one file
    model.safetensors.index.json         several, and which tensor is in which

Headers hold the name, shape and dtype of every tensor, so that whatever keeps two models from being merged is found
before the first tensor is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open

from forgetwatch.errors import ScoringError
from forgetwatch.scoring import DECIDING

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"

DTYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""Dtypes in which weights can be averaged, by their names in a header."""
COPIED: Final[Mapping[str, int]] = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Bytes of an element of the dtypes that are copied where both models have the same."""
CHUNK: Final = 2**22
"""Elements of a tensor that are in memory at once."""


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        name: Its name in the checkpoint.
        file: Path of the file.
        shape: Its shape.
        dtype: Its dtype, as the header names it: F32, BF16, I64, ...
    """

    name: str
    file: Path
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A tensor that both models have.

    Attributes:
        a: The tensor of A.
        b: The tensor of B, of the same shape.
    """

    a: StoredTensor
    b: StoredTensor

    @property
    def dtype(self) -> str:
        """Dtype of the merged tensor: that of both, or the wider one."""
        if self.a.dtype == self.b.dtype:
            return self.a.dtype
        wide = torch.promote_types(DTYPES[self.a.dtype], DTYPES[self.b.dtype])
        return next(name for name, dtype in DTYPES.items() if dtype == wide)

    @property
    def is_averaged(self) -> bool:
        """True for weights; False for integers, which are equal in both."""
        return self.a.dtype in DTYPES and self.b.dtype in DTYPES

    @property
    def bytes(self) -> int:
        """Bytes of the merged tensor."""
        return self.a.size * (DTYPES[self.dtype].itemsize if self.is_averaged else COPIED[self.dtype])


def model_folder(given: str) -> Path:
    """Folder with the files of a model; those of a model id are downloaded unless they are on this machine.

    Raises:
        ScoringError: If there is no such model.
    """
    path = Path(given)
    if path.is_dir():
        return path
    try:
        return Path(snapshot_download(given, allow_patterns=[f"*{suffix}" for suffix in DECIDING if suffix != ".bin"]))
    except Exception as error:  # whatever the hub's client raises for a name, the network or a login
        raise ScoringError(f"{given}: no folder here, and as a model id it cannot be downloaded ({error})") from error


def stored_tensors(given: str, folder: Path) -> dict[str, StoredTensor]:
    """Tensors of a checkpoint by name, in the order of its files.

    Args:
        given: The checkpoint as it was named, for errors.
        folder: Its folder.

    Raises:
        ScoringError: If it has no safetensors, or a file is missing or damaged.
    """
    # In the order of transformers' loader: next to a single file, an index is that of an earlier save.
    if (folder / SINGLE).is_file():
        named: dict[str, set[str] | None] = {SINGLE: None}
    elif (folder / INDEX).is_file():
        named = _indexed(folder / INDEX)
    else:
        raise ScoringError(_no_weights(given, folder))
    found: dict[str, StoredTensor] = {}
    # As transformers' loader does: the files by name, and all that is in them, also what the index leaves out.
    for name, wanted in sorted(named.items()):
        header = file_tensors(folder / name)
        if missing := sorted((wanted or set()) - header.keys()):
            raise ScoringError(
                f"{folder / name}: {missing[0]} is not in this file, where {INDEX} has it; copy it again"
            )
        found |= header
    if not found:
        raise ScoringError(f"{given}: its files hold no tensors; needed the weights of a model")
    return found


def file_tensors(path: Path) -> dict[str, StoredTensor]:
    """Tensors of one safetensors file, by name.

    Raises:
        ScoringError: If it is missing or damaged.
    """
    try:
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no mapping
            return {
                name: StoredTensor(name=name, file=path, shape=tuple(one.get_shape()), dtype=one.get_dtype())
                for name, one in slices.items()
            }
    except (OSError, SafetensorError) as error:
        raise ScoringError(f"{path}: cannot be read as safetensors ({error}); copy or save it again") from error


def chunks(pair: Pair) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield parts of both tensors, of at most `CHUNK` elements, in the order in which they are stored."""
    for part in _parts(pair.a.shape):
        # Opened for each part: pages of a file that stays open count as memory of this process.
        with ExitStack() as stack:
            files = [(stack.enter_context(safe_open(one.file, "pt")), one.name) for one in (pair.a, pair.b)]
            a, b = (file.get_slice(name)[part] for file, name in files)
            yield a, b


def _parts(shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield indices of parts of a tensor: several of its rows, or parts of one where a row is larger than a part."""
    if not shape:
        yield ...
        return
    row = math.prod(shape[1:])
    if row > CHUNK:  # such as that of an expert
        yield from ((slice(at, at + 1), *rest) for at in range(shape[0]) for rest in _parts(shape[1:]))
        return
    step = CHUNK // max(1, row)
    yield from ((slice(start, start + step),) for start in range(0, shape[0], step))


def are_equal(pair: Pair) -> bool:
    """True if the two tensors hold the same."""
    return all(torch.equal(a, b) for a, b in chunks(pair))


def _indexed(path: Path) -> dict[str, set[str] | None]:
    """Names of the tensors in each file that an index names."""
    try:
        weights = json.loads(path.read_bytes())["weight_map"].items()
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ScoringError(f"{path}: cannot be read as an index of safetensors ({error!r})") from error
    files: dict[str, set[str] | None] = {}
    for tensor, file in weights:
        names = files.setdefault(str(file), set())
        if names is not None:
            names.add(str(tensor))
    return files


def _no_weights(given: str, folder: Path) -> str:
    """Sentence on a folder without safetensors, with the remedy for the weights that it has."""
    if any(folder.glob("*.bin")):
        return (
            f"{given}: needed safetensors, which can be read tensor by tensor, and it has .bin files; save it again "
            "with AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)"
        )
    if any(folder.glob("*.distcp")) or any(folder.glob("pytorch_model_fsdp_*")):
        return (
            f"{given}: needed safetensors, and it holds the parts of an FSDP training; merge them with "
            "`accelerate merge-weights IN OUT`"
        )
    return f"{given}: needed {SINGLE} or {INDEX}, found neither in {folder}"
