"""The stored weights of two checkpoints, by the headers of their safetensors files, and whether they can be merged.

    model.safetensors                    one file
    model.safetensors.index.json         several, and which tensor is in which

Two models of which a mean can be made compute alike, cut text alike, and store tensors of the same shapes. Each check
names the first difference before a weight is read, from configurations, tokenizers and headers alone.
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
from transformers import AutoConfig

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring import DECIDING, pretrained_tokenizer

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

_SETTINGS: Final = frozenset(
    (
        *("_name_or_path", "transformers_version", "_commit_hash", "auto_map", "dtype", "torch_dtype", "use_cache"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings", "initializer_range"),
        *("attn_implementation", "_attn_implementation_autoset", "attention_dropout", "hidden_dropout"),
        *("output_attentions", "output_hidden_states", "return_dict", "pretraining_tp"),
        *("id2label", "label2id", "problem_type", "model_name", "unsloth_version", "unsloth_fixed"),
    )
)
"""Keys of a configuration that change nothing in what the weights compute."""
_IGNORED: Final = ("rotary_emb.inv_freq", ".masked_bias")
"""Ends of names of buffers that older versions stored, and that are computed when a model is loaded."""
_HEAD: Final = "lm_head.weight"
_FSDP: Final = "and it holds the parts of an FSDP training; merge them with `accelerate merge-weights IN OUT`"
_OTHER_WEIGHTS: Final = {
    "*.bin": "which can be read tensor by tensor, and it has .bin files; save it again with "
    "AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)",
    "*.distcp": _FSDP,
    "pytorch_model_fsdp_*": _FSDP,
}
"""Weights in other forms, by their files, and what to do."""


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor in a file; its dtype is as the header names it: F32, BF16, I64, ..."""

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
    """A tensor of A, and that of B with the same name and shape."""

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
    """Return the folder with the files of a model.

    Those of a model id are downloaded unless they are on this machine.
    """
    path = Path(given)
    if path.is_dir():
        return path
    try:
        return Path(snapshot_download(given, allow_patterns=[f"*{suffix}" for suffix in DECIDING if suffix != ".bin"]))
    except Exception as error:  # whatever the hub's client raises for a name, the network or a login
        raise ScoringError(f"{given}: no folder here, and as a model id it cannot be downloaded ({error})") from error


def stored_tensors(given: str, folder: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a checkpoint by name, in the order of its files.

    ScoringError if there are none, or one is damaged.
    """
    # In the order of transformers' loader: next to a single file, an index is that of an earlier save.
    if (folder / SINGLE).is_file():
        named: dict[str, set[str]] = {SINGLE: set()}
    elif (folder / INDEX).is_file():
        named = {}
        try:
            for tensor, file in json.loads((folder / INDEX).read_bytes())["weight_map"].items():
                named.setdefault(str(file), set()).add(str(tensor))
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise ScoringError(f"{folder / INDEX}: cannot be read as an index of safetensors ({error!r})") from error
    else:
        for pattern, remedy in _OTHER_WEIGHTS.items():
            if any(folder.glob(pattern)):
                raise ScoringError(f"{given}: needed safetensors, {remedy}")
        raise ScoringError(f"{given}: needed {SINGLE} or {INDEX}, found neither in {folder}")
    found: dict[str, StoredTensor] = {}
    # As transformers' loader does: the files by name, and all that is in them, also what the index leaves out.
    for name, wanted in sorted(named.items()):
        header = file_tensors(folder / name)
        if missing := sorted(wanted - header.keys()):
            raise ScoringError(
                f"{folder / name}: {missing[0]} is not in this file, where {INDEX} has it; copy it again"
            )
        found |= header
    if not found:
        raise ScoringError(f"{given}: its files hold no tensors; needed the weights of a model")
    return found


def file_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of one safetensors file, by name; ScoringError if it is missing or damaged."""
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


def _are_equal(pair: Pair) -> bool:
    return all(torch.equal(a, b) for a, b in chunks(pair))


def check_alike(a: str, b: str, *, loading: Loading = Loading()) -> None:
    """Raise ScoringError unless two models compute alike and cut text into the same tokens; name a difference."""
    configs = []
    for given in (a, b):
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code).to_dict()
        except Exception as error:  # whatever a loader of foreign files raises
            missing = "" if Path(given).is_dir() else "no folder here, and as a model id "
            raise ScoringError(f"{given}: {missing}its configuration cannot be read ({error})") from error
        if config.get("quantization_config"):
            raise ScoringError(f"{given}: its weights are quantized; merge the models that were not quantized yet")
        configs.append(_computing(config))
    first, second = configs
    # The type first: of two architectures nearly every key differs.
    for key in sorted(first.keys() | second.keys(), key=lambda name: (name != "model_type", name)):
        if first.get(key) != second.get(key):
            raise ScoringError(
                f"{a} and {b} do not compute alike: {key} is {first.get(key)!r:.80} in the first and "
                f"{second.get(key)!r:.80} in the second; needed two models of one architecture"
            )
    (words, rules), (other_words, other_rules) = (_tokenizer_parts(given, loading=loading) for given in (a, b))
    if words != other_words:
        unlike = min(words.items() ^ other_words.items())[0]
        raise ScoringError(
            f"{a} and {b} have unlike vocabularies: {len(words):,} and {len(other_words):,} tokens, {unlike!r:.40} is "
            "not the same in both; needed the same tokenizer"
        )
    if differ := [name for name in rules if rules[name] != other_rules[name]]:
        raise ScoringError(
            f"{a} and {b}: their tokenizers have the same vocabulary, and differ in their {differ[0]}; needed the same "
            "tokenizer"
        )


def _computing(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the keys of a configuration that change what the weights compute, those of its parts with a dot."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key)
        if name in _SETTINGS or name.endswith(("_dropout", "_pdrop")) or value is None:
            continue
        found |= _computing(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def _tokenizer_parts(given: str, *, loading: Loading) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the vocabulary of a tokenizer, and the rules by which it cuts text."""
    try:
        tokenizer = pretrained_tokenizer(given, loading=loading)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(f"{given}: its tokenizer cannot be read ({error})") from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = {} if backend is None else json.loads(backend.to_str())
    return tokenizer.get_vocab(), {
        name: rules.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor", "model")
    }


def tensors_on_one_side(
    a: str, b: str, of_a: Mapping[str, StoredTensor], of_b: Mapping[str, StoredTensor], *, tied: bool
) -> tuple[str, ...]:
    """Names of tensors that one model alone stores, and that loading makes of others: buffers, a tied head.

    Another tensor that is in one model alone is a ScoringError.
    """
    alone = {name: (side, of) for side, of, other in ((a, of_a, of_b), (b, of_b, of_a)) for name in of.keys() - other}
    needed = sorted(name for name in alone if not (name.endswith(_IGNORED) or (tied and name == _HEAD)))
    if needed:
        raise ScoringError(
            f"{a} and {b}: {len(needed)} tensors are in one of them only, {needed[0]} in {alone[needed[0]][0]}; needed "
            "two models of one architecture"
        )
    if _HEAD in alone:
        side, of = alone[_HEAD]
        # transformers unties a head that is stored with other values than the embedding.
        head = of[_HEAD]
        alike = [one for one in of.values() if one != head and (one.shape, one.dtype) == (head.shape, head.dtype)]
        if not any(_are_equal(Pair(a=head, b=one)) for one in alike):
            raise ScoringError(
                f"{side}: {_HEAD} differs from the embedding, to which {b if side == a else a} ties its head; needed "
                "two models whose heads are tied, or two that store one"
            )
    return tuple(sorted(alone))


def check_pair(pair: Pair, a: str, b: str) -> None:
    """Refuse unlike shapes, and weights that cannot be averaged."""
    name = pair.a.name
    if pair.a.shape != pair.b.shape:
        raise ScoringError(
            f"{a} and {b}: {name} is {list(pair.a.shape)} in the first and {list(pair.b.shape)} in the second; needed "
            "equal shapes"
        )
    is_copied = pair.a.dtype == pair.b.dtype and pair.a.dtype in COPIED
    if not pair.is_averaged and not (is_copied and _are_equal(pair)):
        raise ScoringError(
            f"{a} and {b}: {name} is stored as {pair.a.dtype} and {pair.b.dtype}, which cannot be averaged; needed "
            f"{', '.join(DTYPES)}: merge the models from before they were quantized"
        )
